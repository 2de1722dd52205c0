"""Attributes of an operator's views: the classes, types and units of `tables.view_table`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

# types of JSON Schema
INTEGER: Final = "integer"
NUMBER: Final = "number"
TEXT: Final = "string"
BOOLEAN: Final = "boolean"
LIST: Final = "array"
OBJECT: Final = "object"

COUNTER: Final = "counter"  # only grows, until the broker starts again
GAUGE: Final = "gauge"
NO_METRIC: Final = ""

MESSAGES: Final = "messages"
BYTES: Final = "bytes"
SECONDS: Final = "seconds"
MILLISECONDS: Final = "milliseconds"
PERCENT: Final = "percent"

METRIC_PREFIX: Final = "spanwire"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of a view; ``bean`` is the name in ActiveMQ's beans, "" without a name.

    A ``detail`` is shown for a single object alone, because details would make lists long or slow.
    """

    name: str
    type: str
    meaning: str
    bean: str = ""
    unit: str = ""
    metric: str = NO_METRIC
    nullable: bool = False
    detail: bool = False


@dataclass(frozen=True, slots=True)
class ViewTable:
    """One kind of objects.

    ``command`` of the control socket lists them. ``keys`` identify a row. Metrics of a row have the labels ``labels``:
    pairs of label and attribute.
    """

    name: str
    meaning: str
    command: str
    keys: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    metric_prefix: str = ""
    labels: tuple[tuple[str, str], ...] = ()

    def metrics(self) -> list[Attribute]:
        """Return the attributes of the metrics."""
        return [attribute for attribute in self.attributes if attribute.metric]

    def beans(self) -> list[tuple[str, str]]:
        """Return pairs of ActiveMQ's name and the key of a row."""
        return [(attribute.bean, attribute.name) for attribute in self.attributes if attribute.bean]

    def metric_name(self, attribute: Attribute) -> str:
        """Return the name of a metric, without the ``_total`` of counters."""
        stem, unit = attribute.name, attribute.unit
        if unit == SECONDS:
            stem = f"{stem.removesuffix('_s')}_seconds"
        elif unit == MESSAGES:
            stem = f"{stem}_messages"
        return f"{METRIC_PREFIX}_{self.metric_prefix}_{stem}"


def integer(name: str, meaning: str, bean: str = "", unit: str = "", metric: str = NO_METRIC) -> Attribute:
    """Return an attribute with a whole number."""
    return Attribute(name, INTEGER, meaning, bean, unit, metric)


def messages(name: str, meaning: str, bean: str = "", metric: str = GAUGE) -> Attribute:
    """Return an attribute with a count of messages."""
    return Attribute(name, INTEGER, meaning, bean, MESSAGES, metric)


def text(name: str, meaning: str, bean: str = "", nullable: bool = False) -> Attribute:
    """Return an attribute with a text."""
    return Attribute(name, TEXT, meaning, bean, nullable=nullable)


def flag(name: str, meaning: str, bean: str = "", metric: str = NO_METRIC) -> Attribute:
    """Return an attribute with true or false; as a metric 1 or 0."""
    return Attribute(name, BOOLEAN, meaning, bean, metric=metric)


def detail(name: str, type_: str, meaning: str, bean: str = "", unit: str = "", nullable: bool = False) -> Attribute:
    """Return an attribute of single objects."""
    return Attribute(name, type_, meaning, bean, unit, nullable=nullable, detail=True)
