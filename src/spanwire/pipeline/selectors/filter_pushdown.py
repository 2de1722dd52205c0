"""Filters that Spark pushes into a batch read, as a selector for the broker.

The selector accepts at least the rows that the filters accept; Spark applies its filters again. Only headers are
translated, because Spark pushes down no filter on a map such as the properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

TEXTS: Final = frozenset({"JMSMessageID", "JMSCorrelationID", "JMSType", "JMSXGroupID", "JMSDeliveryMode"})
NUMBERS: Final = frozenset({"JMSPriority"})
TIMES: Final = frozenset({"JMSTimestamp", "JMSExpiration"})
MAX_MEMBERS: Final = 100  # members of an IN; a longer selector costs more than it saves
MAX_TEXT: Final = 200  # characters of one text; the length of a selector is limited, too
MAX_FILTERS: Final = 10


def selector_with(selector: str | None, filters: Iterable[Filter]) -> str | None:
    """Return the selector of the options combined with the filters that a selector can express."""
    conditions = [] if selector is None else [f"({selector})"]
    for pushed in list(filters)[:MAX_FILTERS]:
        condition = selector_of(pushed)
        if condition is not None:
            conditions.append(condition)
    return " AND ".join(conditions) or None


def selector_of(pushed: Filter) -> str | None:
    """Return a selector that accepts at least the rows of the filter, or ``None``."""
    if isinstance(pushed, In):
        return _members(pushed)
    if isinstance(pushed, StringStartsWith):
        return _prefix(pushed)
    if not isinstance(pushed, (EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)):
        return None
    name = _name(pushed.attribute)
    if name in TEXTS:
        return f"{name} = {_quote(pushed.value)}" if isinstance(pushed, EqualTo) and _is_short(pushed.value) else None
    if name in NUMBERS and isinstance(pushed.value, int) and not isinstance(pushed.value, bool):
        return f"{name} {_symbol(pushed)} {pushed.value}"
    if name in TIMES and isinstance(pushed.value, datetime) and pushed.value.tzinfo is not None:
        return _time(name, pushed, int(pushed.value.timestamp() * 1000))
    return None


def _time(name: str, pushed: Filter, millis: int) -> str:
    """Return a condition one millisecond wider than the filter, because Spark counts microseconds."""
    if isinstance(pushed, EqualTo):
        return f"{name} BETWEEN {millis - 1} AND {millis + 1}"
    if isinstance(pushed, (GreaterThan, GreaterThanOrEqual)):
        return f"{name} >= {millis - 1}"
    return f"{name} <= {millis + 1}"


def _symbol(pushed: Filter) -> str:
    if isinstance(pushed, EqualTo):
        return "="
    if isinstance(pushed, GreaterThan):
        return ">"
    if isinstance(pushed, GreaterThanOrEqual):
        return ">="
    return "<" if isinstance(pushed, LessThan) else "<="


def _members(pushed: In) -> str | None:
    name, members = _name(pushed.attribute), list(pushed.value)
    if name not in TEXTS or not members or len(members) > MAX_MEMBERS:
        return None
    if not all(_is_short(member) for member in members):
        return None
    return f"{name} IN ({', '.join(_quote(member) for member in members)})"


def _prefix(pushed: StringStartsWith) -> str | None:
    name = _name(pushed.attribute)
    if name not in TEXTS or not _is_short(pushed.value):
        return None
    escaped = "".join(f"\\{letter}" if letter in "%_\\" else letter for letter in pushed.value)
    return f"{name} LIKE {_quote(escaped + '%')} ESCAPE '\\'"


def _name(attribute: tuple[str, ...]) -> str:
    return attribute[0] if len(attribute) == 1 else ""


def _is_short(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT


def _quote(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
