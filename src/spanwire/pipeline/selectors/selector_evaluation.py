"""Evaluates selectors over rows of messages, with the broker's own evaluator.

`spanwire.pipeline.selector_column` takes the rows from Spark.

A row has fewer headers than a message in the broker; a selector with any other header is refused with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from spanwire.model.errors import ConfigurationError, InvalidSelectorError, MessageFormatError
from spanwire.model.message_view import NULL_VALUE, PropertyValue
from spanwire.pipeline.columns.variant import decode_variant
from spanwire.selector.expression import HEADER_TYPES, Selector, SelectorEvaluationError
from spanwire.selector.lexer import IDENTIFIER, Lexer
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector

COUNTED_FROM_ZERO: Final = frozenset({"JMSTimestamp", "JMSExpiration", "JMSXGroupSeq"})  # null stands for 0
ROW_HEADERS: Final = frozenset(
    {
        "JMSMessageID",
        "JMSDestination",
        "JMSTimestamp",
        "JMSExpiration",
        "JMSPriority",
        "JMSDeliveryMode",
        "JMSCorrelationID",
        "JMSReplyTo",
        "JMSType",
        "JMSRedelivered",
        "JMSXGroupID",
        "JMSXGroupSeq",
        "JMSXDeliveryCount",
    }
)


class Undecodable:
    """A value that no selector can use, such as a date; equal to no other value."""


UNDECODABLE: Final = Undecodable()


def parse(text: str) -> tuple[Selector, list[str]]:
    """Return the selector and the names of the headers and properties in it.

    Raises:
        ConfigurationError: the text is no selector, or names a header that rows lack.
    """
    try:
        selector = parse_selector(text)
        body = text.removeprefix(CONVERT_STRING_EXPRESSIONS)
        names = sorted({token.text for token in Lexer(body).tokens() if token.kind == IDENTIFIER})
    except InvalidSelectorError as error:
        raise ConfigurationError(f"spanwire: {error}") from None
    for name in names:
        if name not in ROW_HEADERS and (name in HEADER_TYPES or name == "JMSXUserID"):
            raise ConfigurationError(f"spanwire: a row has no {name}; let the broker select by it")
    return selector, names


class RowValues:
    """The headers and properties of one row, for a selector; `bind` sets the row."""

    def __init__(self) -> None:
        self._headers: dict[str, object] = {}
        self._properties: dict[str, PropertyValue] = {}

    def bind(self, headers: dict[str, object], properties: dict[str, PropertyValue]) -> None:
        """Use the values of this row from now on."""
        self._headers = headers
        self._properties = properties

    def value(self, name: str) -> object:
        """Return the header or else the property ``name``, or ``None``."""
        header = self._headers.get(name)
        if header is not None:
            return header
        entry = self._properties.get(name)
        return None if entry is None else entry[1]

    def value_type(self, name: str) -> int:
        """Return the JMS type of a property."""
        entry = self._properties.get(name)
        return NULL_VALUE if entry is None else entry[0]


def decide(selector: Selector, values: RowValues) -> bool | None:
    """Return True or False, or ``None`` if the result is unknown or the evaluation fails."""
    try:
        return selector.evaluate(values)
    except SelectorEvaluationError:
        return None


def property_entry(variant: dict[str, bytes] | None) -> PropertyValue | None:
    """Return the typed value of a VARIANT in Arrow's form."""
    if variant is None:
        return None
    try:
        return decode_variant(variant["value"], variant["metadata"])
    except MessageFormatError:
        return (NULL_VALUE, UNDECODABLE)


def decide_rows(
    selector: Selector,
    headers: dict[str, Sequence[object]],
    properties: dict[str, Sequence[dict[str, bytes] | None]],
    count: int,
) -> list[bool | None]:
    """Return the decisions for ``count`` rows, from values by column."""
    values = RowValues()
    decisions: list[bool | None] = []
    for index in range(count):
        entries = {name: property_entry(column[index]) for name, column in properties.items()}
        row = {name: column[index] for name, column in headers.items()}
        values.bind(row, {name: entry for name, entry in entries.items() if entry is not None})
        decisions.append(decide(selector, values))
    return decisions
