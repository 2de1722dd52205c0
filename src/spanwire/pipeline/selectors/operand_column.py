"""Headers and properties of a row as operands of a native selector.

A property is a VARIANT, so its type is determined row by row. Numbers compare as in Java: a float with an integer as
floats, -0.0 before 0.0, NaN above every other number (`spanwire.selector.numbers`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.selectors.selector_evaluation import ROW_HEADERS
from spanwire.selector.comparison import EQUAL, GREATER, GREATER_OR_EQUAL, LESS, LESS_OR_EQUAL
from spanwire.selector.numbers import float_of_integer, is_long

# Spark's names of the types of a VARIANT.
LONG: Final = "BIGINT"
TEXT: Final = "STRING"
BOOLEAN: Final = "BOOLEAN"
FLOAT: Final = "FLOAT"
DOUBLE: Final = "DOUBLE"
DECIMAL: Final = "DECIMAL"  # prefix, before precision and scale; Spark makes such values, JMS does not
VOID: Final = "VOID"
KNOWN: Final = (LONG, TEXT, BOOLEAN, FLOAT, DOUBLE)

INTEGER_HEADERS: Final = ("JMSPriority", "JMSXDeliveryCount", "JMSXGroupSeq")
TIME_HEADERS: Final = ("JMSTimestamp", "JMSExpiration")
SURE_TEXTS: Final = ("JMSMessageID", "JMSDestination", "JMSDeliveryMode")
MIRRORED: Final = {
    EQUAL: EQUAL,
    LESS: GREATER,
    LESS_OR_EQUAL: GREATER_OR_EQUAL,
    GREATER: LESS,
    GREATER_OR_EQUAL: LESS_OR_EQUAL,
}
NEGATIVE_ZERO: Final = "-0.0"


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand; ``kind`` is its type in each row, null or VOID in a row without a value."""

    kind: Column
    text: Column
    long: Column
    double: Column
    boolean: Column
    is_certain: bool  # all rows with a value have the same type

    def is_null(self) -> Column:
        """Return a column: true where the row has no value."""
        return self.kind.isNull() | (self.kind == VOID)

    def is_text(self) -> Column:
        """Return a column: true where the value is a text."""
        return self.kind == TEXT

    def is_boolean(self) -> Column:
        """Return a column: true where the value is a boolean."""
        return self.kind == BOOLEAN

    def error_column(self, is_equality: bool, value: object, is_mirrored: bool) -> Column | None:
        """Return a column: true where a comparison with ``value`` fails, or ``None`` for no row."""
        if self.is_certain or isinstance(value, (bool, str)) or _is_beyond_long(value):
            return None
        is_double_left = is_mirrored and isinstance(value, float)
        failure: Column | None = self.kind == FLOAT if is_double_left else None
        if not is_equality:
            strange = ~(self.is_null() | self.kind.isin(*KNOWN) | self.kind.startswith(DECIMAL))
            failure = strange if failure is None else failure | strange
        return None if failure is None else F.coalesce(failure, F.lit(False))

    def compare(self, operator: int, value: object, is_mirrored: bool) -> Column:
        """Return the comparison with a literal, for rows with a value and without an error.

        With ``is_mirrored`` the literal is the left operand.
        """
        if isinstance(value, bool):
            return self.is_boolean() & (self.boolean == F.lit(value))
        if isinstance(value, str):
            return self.is_text() & (self.text == F.lit(value))
        effective = MIRRORED[operator] if is_mirrored else operator
        if isinstance(value, float):
            floating = _compare_doubles(self.double, effective, value)
            is_number = self.kind.isin(LONG, FLOAT, DOUBLE) | self.kind.startswith(DECIMAL)
            return is_number & floating
        if not isinstance(value, int) or _is_beyond_long(value):
            return F.lit(False)
        return (
            F.when(self.kind == LONG, _compare_columns(self.long, effective, F.lit(value).cast("bigint")))
            .when(self.kind == FLOAT, _compare_doubles(self.double, effective, float_of_integer(value)))
            .when(
                (self.kind == DOUBLE) | self.kind.startswith(DECIMAL),
                _compare_doubles(self.double, effective, float(value)),
            )
            .otherwise(F.lit(False))
        )


def operand(name: str) -> Operand:
    """Return the operand ``name``; a header missing in rows may be a property, as in the broker."""
    if name in INTEGER_HEADERS:
        column = F.col(name).cast("bigint")
        return _certain_integer(F.coalesce(column, F.lit(0).cast("bigint")) if name == "JMSXGroupSeq" else column)
    if name in TIME_HEADERS:
        return _certain_integer(F.coalesce(F.unix_millis(F.col(name)), F.lit(0).cast("bigint")))
    if name == "JMSRedelivered":
        return _certain(BOOLEAN, F.col(name), F.col(name))
    if name in SURE_TEXTS:
        return _certain(TEXT, F.col(name), F.lit(None).cast("boolean"))
    value = F.col("properties")[name]
    kind = F.schema_of_variant(value)
    kind = F.when(value.isNull(), F.lit(None).cast("string")).otherwise(kind)
    text = F.try_variant_get(value, "$", "string")
    if name in ROW_HEADERS:
        header = F.col(name)
        kind = F.when(kind == FLOAT, F.lit(DOUBLE)).otherwise(kind)  # the evaluator uses the type of the header
        kind = F.when(header.isNotNull(), F.lit(TEXT)).otherwise(kind)
        text = F.coalesce(header, text)
    return Operand(
        kind,
        text,
        F.try_variant_get(value, "$", "bigint"),
        F.try_variant_get(value, "$", "double"),
        F.try_variant_get(value, "$", "boolean"),
        is_certain=False,
    )


def _certain_integer(column: Column) -> Operand:
    kind = F.when(column.isNotNull(), F.lit(LONG))
    nothing = F.lit(None)
    return Operand(
        kind, nothing.cast("string"), column, column.cast("double"), nothing.cast("boolean"), is_certain=True
    )


def _certain(name: str, text: Column, boolean: Column) -> Operand:
    kind = F.when(text.isNotNull(), F.lit(name))
    nothing = F.lit(None)
    return Operand(kind, text, nothing.cast("bigint"), nothing.cast("double"), boolean, is_certain=True)


def _compare_columns(column: Column, operator: int, value: Column) -> Column:
    if operator == EQUAL:
        return column == value
    if operator == LESS:
        return column < value
    if operator == LESS_OR_EQUAL:
        return column <= value
    return column > value if operator == GREATER else column >= value


def _compare_doubles(column: Column, operator: int, value: float) -> Column:
    """Compare doubles in Java's total order, in which -0.0 and 0.0 differ."""
    if value != 0.0:
        return _compare_columns(column, operator, F.lit(value))
    is_negative = column.cast("string") == NEGATIVE_ZERO
    is_below = column < F.lit(0.0)
    is_same = is_negative
    if math.copysign(1.0, value) > 0.0:
        is_below = is_below | is_negative
        is_same = (column == F.lit(0.0)) & ~is_negative
    if operator == EQUAL:
        return is_same
    if operator == LESS:
        return is_below
    if operator == LESS_OR_EQUAL:
        return is_below | is_same
    return ~(is_below | is_same) if operator == GREATER else ~is_below


def _is_beyond_long(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and not is_long(value)
