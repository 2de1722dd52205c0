"""Types of single values, with checked conversions from columns to bodies.

Arrow checks the values of decoded bodies. This module checks the values of encoded bodies, because the libraries of the
formats write an unsuitable value in another form, or report an error without the name of the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

import pyarrow as pa

from spanwire.model.errors import MessageFormatError

Convert = Callable[[object], object]

UTC_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP: Final = pa.timestamp("us")
MAX_DECIMAL_DIGITS: Final = 38  # of Spark's DECIMAL
MAX_FLOAT: Final = (2 - 2**-23) * 2.0**127  # the largest number of 32 bits
MICROSECOND: Final = timedelta(microseconds=1)
UTC_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LOCAL_EPOCH: Final = datetime(1970, 1, 1)
EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def same(value: object) -> object:
    """Return a value without conversion."""
    return value


@dataclass(frozen=True, slots=True)
class ValueType:
    """The type of a column, with the conversions between Arrow and the library of the format.

    ``read`` and ``write`` never get ``None``. ``write`` raises `MessageFormatError` for an unsuitable value.
    """

    arrow: pa.DataType
    read: Convert
    write: Convert
    is_nullable: bool = False


def is_integer(low: int, high: int, name: str) -> Convert:
    """Return a check for integers between two bounds, both included."""

    def check(value: object) -> object:
        if isinstance(value, Decimal) and value == value.to_integral_value():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise MessageFormatError(f"expected {name}, got {type(value).__name__}")
        if not low <= value <= high:
            raise MessageFormatError(f"the number is too large for {name}")
        return value

    return check


def is_instance(kind: type, name: str) -> Convert:
    """Return a check for instances of a Python type."""

    def check(value: object) -> object:
        if not isinstance(value, kind):
            raise MessageFormatError(f"expected {name}, got {type(value).__name__}")
        return value

    return check


def floating(value: object) -> object:
    """Return a number as a float.

    Raises:
        MessageFormatError: the value is not a number.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise MessageFormatError(f"expected floating-point number, got {type(value).__name__}")
    return float(value)


def single_floating(value: object) -> object:
    """Return a number as a float within the range of 32 bits; the caller rounds to 32 bits.

    Raises:
        MessageFormatError: the value is not a number, or too large.
    """
    number = floating(value)
    assert isinstance(number, float)
    if math.isfinite(number) and abs(number) > MAX_FLOAT:
        raise MessageFormatError("the number is too large for float")
    return number


def epoch_days(value: object) -> int:
    """Return the days between 1970-01-01 and a date.

    Raises:
        MessageFormatError: the value is not a date.
    """
    if not isinstance(value, date) or isinstance(value, datetime):
        raise MessageFormatError(f"expected date, got {type(value).__name__}")
    return value.toordinal() - EPOCH_DAY


def epoch_microseconds(value: object) -> int:
    """Return the microseconds between the epoch and a timestamp.

    Raises:
        MessageFormatError: the value is not a timestamp with a time zone.
    """
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise MessageFormatError(f"expected timestamp with a time zone, got {type(value).__name__}")
    return (value - UTC_EPOCH) // MICROSECOND


def local_microseconds(value: object) -> int:
    """Return the microseconds between 1970-01-01 and a timestamp without a time zone.

    Raises:
        MessageFormatError: the value is not a timestamp, or has a time zone.
    """
    if not isinstance(value, datetime) or value.tzinfo is not None:
        raise MessageFormatError(f"expected timestamp without a time zone, got {type(value).__name__}")
    return (value - LOCAL_EPOCH) // MICROSECOND


def unscaled_decimal(value: object, precision: int, scale: int) -> int:
    """Return a decimal number as an integer, in units of ``10**-scale``.

    Raises:
        MessageFormatError: the value is not a decimal number, or has more digits than the type.
    """
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        raise MessageFormatError(f"expected decimal number, got {type(value).__name__}")
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        raise MessageFormatError("a decimal number is infinite or NaN")
    unscaled, rest, shift = int("".join(map(str, digits))), 0, exponent + scale
    power: int = 10 ** min(abs(shift), 2 * MAX_DECIMAL_DIGITS)
    if shift < 0:
        unscaled, rest = divmod(unscaled, power)
    else:
        unscaled *= power
    limit: int = 10**precision
    if rest or unscaled >= limit:
        raise MessageFormatError(f"a number does not fit {precision} digits, {scale} of them behind the point")
    return -unscaled if sign else unscaled


def with_field(name: str, error: MessageFormatError) -> MessageFormatError:
    """Return an error with the name of the field in front."""
    return MessageFormatError(f"{name}: {error}")


BOOLEAN: Final = ValueType(pa.bool_(), same, is_instance(bool, "boolean"))
INT: Final = ValueType(pa.int32(), same, is_integer(-(2**31), 2**31 - 1, "int"))
LONG: Final = ValueType(pa.int64(), same, is_integer(-(2**63), 2**63 - 1, "long"))
FLOAT: Final = ValueType(pa.float32(), same, single_floating)
DOUBLE: Final = ValueType(pa.float64(), same, floating)
BYTES: Final = ValueType(pa.binary(), same, is_instance(bytes, "bytes"))
STRING: Final = ValueType(pa.string(), same, is_instance(str, "string"))
