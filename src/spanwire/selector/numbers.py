"""Java's numbers in Python: widths, order, conversion from and to text.

Selectors calculate as Java does: int and long wrap at 32 and 64 bits, and a float has 24 bits of precision. Doubles
have a total order in which -0.0 comes before 0.0, and NaN after all numbers (The Java Language Specification, §4.2;
`java.lang.Double.compareTo`, `valueOf` and `toString`). Types are numbered as in `spanwire.model.message_view`.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from spanwire.model.message_view import BYTE_VALUE, INT_VALUE, LONG_VALUE, SHORT_VALUE

INT_MIN: Final = -0x8000_0000
INT_MAX: Final = 0x7FFF_FFFF
LONG_MIN: Final = -0x8000_0000_0000_0000
LONG_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF

_FLOAT_PRECISION: Final = 24  # bits of a float's significand
_FLOAT_DIGITS: Final = 9  # decimal digits that tell any two floats apart
_LONG_DIGITS: Final = 19  # decimal digits of LONG_MAX


def wrap_int(value: int) -> int:
    """Wrap ``value`` to 32 bits in two's complement."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def wrap_long(value: int) -> int:
    """Wrap ``value`` to 64 bits in two's complement."""
    return ((value + 0x8000_0000_0000_0000) & 0xFFFF_FFFF_FFFF_FFFF) - 0x8000_0000_0000_0000


def is_long(value: int) -> bool:
    """Return True if a long can represent ``value``."""
    return LONG_MIN <= value <= LONG_MAX


def integer_type(value: int) -> int:
    """Return INT_VALUE or LONG_VALUE, by the size of ``value`` alone."""
    return INT_VALUE if INT_MIN <= value <= INT_MAX else LONG_VALUE


def float_of_integer(value: int) -> float:
    """Return the float nearest to ``value``, ties to even, without rounding to double first."""
    magnitude = abs(value)
    excess = magnitude.bit_length() - _FLOAT_PRECISION
    if excess > 0:
        significand = magnitude >> excess
        rest = magnitude & ((1 << excess) - 1)
        half = 1 << (excess - 1)
        if rest > half or (rest == half and significand & 1):
            significand += 1
        magnitude = significand << excess
    return -float(magnitude) if value < 0 else float(magnitude)


def float_of_double(value: float) -> float:
    """Return the float nearest to ``value``; infinite if ``value`` is too large for a float."""
    if math.isnan(value) or math.isinf(value):
        return value
    try:
        rounded: tuple[float] = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded[0]


def compare_integers(left: int, right: int) -> int:
    """Return -1, 0 or 1."""
    if left == right:
        return 0
    return -1 if left < right else 1


def compare_doubles(left: float, right: float) -> int:
    """Return -1, 0 or 1 in Java's total order."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        if left != 0.0:
            return 0
        return compare_integers(int(math.copysign(1.0, left)), int(math.copysign(1.0, right)))
    return compare_integers(int(math.isnan(left)), int(math.isnan(right)))


def compare_strings(left: str, right: str) -> int:
    """Return -1, 0 or 1 in the order of UTF-16 code units."""
    if left == right:
        return 0
    if left.isascii() and right.isascii():
        return -1 if left < right else 1
    return -1 if left.encode("utf-16-be", "surrogatepass") < right.encode("utf-16-be", "surrogatepass") else 1


def divide(left: float, right: float) -> float:
    """Return ``left / right``; a division by zero returns an infinity or NaN."""
    if right != 0.0:
        return left / right
    if left == 0.0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder(left: float, right: float) -> float:
    """Return ``left % right`` with the sign of ``left``, or NaN if undefined."""
    if right == 0.0 or math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def integer_of_text(text: str, value_type: int) -> int | None:
    """Parse ``text`` as Java's `valueOf` of Byte, Short, Integer or Long does.

    Returns None if Java refuses the text.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdecimal():
        return None
    digits = digits.lstrip("0") or "0"
    if len(digits) > _LONG_DIGITS:
        return None
    value = -int(digits) if text[0] == "-" else int(digits)
    if value_type == BYTE_VALUE:
        fits = -0x80 <= value <= 0x7F
    elif value_type == SHORT_VALUE:
        fits = -0x8000 <= value <= 0x7FFF
    elif value_type == INT_VALUE:
        fits = INT_MIN <= value <= INT_MAX
    else:
        fits = is_long(value)
    return value if fits else None


def double_of_text(text: str) -> float | None:
    """Parse ``text`` as Java's `Double.valueOf` does; return None if Java refuses it."""
    body = text.strip("".join([chr(code) for code in range(0x21)]))
    sign = -1.0 if body[:1] == "-" else 1.0
    if body[:1] in ("+", "-"):
        body = body[1:]
    if body == "NaN":
        return math.nan
    if body == "Infinity":
        return sign * math.inf
    if body[:2] in ("0x", "0X"):
        return _hexadecimal_double(body, sign)
    if body[-1:] in ("f", "F", "d", "D"):
        body = body[:-1]
    mantissa, has_exponent, exponent = body.replace("E", "e").partition("e")
    if has_exponent:
        exponent = exponent[1:] if exponent[:1] in ("+", "-") else exponent
        if not _is_digits(exponent):
            return None
    whole, _, fraction = mantissa.partition(".")
    return sign * float(body) if _is_digits(whole + fraction) else None


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _hexadecimal_double(body: str, sign: float) -> float | None:
    lower = body.lower()
    mantissa, has_exponent, exponent = lower.partition("p")
    if not has_exponent:
        return None
    if exponent[-1:] in ("f", "d"):
        exponent = exponent[:-1]
    try:
        return sign * float.fromhex(f"{mantissa}p{exponent}")
    except OverflowError:
        return sign * math.inf
    except ValueError:
        return None


def text_of_double(value: float) -> str:
    """Return ``value`` as `Double.toString` prints it."""
    return _decimal_text(value, repr(abs(value)))


def text_of_float(value: float) -> str:
    """Return ``value``, which must be a float's value, as `Float.toString` prints it."""
    magnitude = abs(value)
    for digits in range(_FLOAT_DIGITS):
        shortest = f"{magnitude:.{digits}e}"
        if float_of_double(float(shortest)) == magnitude:
            break
    return _decimal_text(value, shortest)


def _decimal_text(value: float, magnitude: str) -> str:
    """Lay ``magnitude``, the shortest decimal form of |``value``|, out as Java does."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0.0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    if value == 0.0:
        return sign + "0.0"
    mantissa, _, exponent = magnitude.partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or "0")
    digits = (whole + fraction).lstrip("0")
    point -= len(whole + fraction) - len(digits)
    digits = digits.rstrip("0")
    if -2 <= point <= 7:  # 0.001 to 9999999.9
        if point <= 0:
            return f"{sign}0.{'0' * -point}{digits}"
        return f"{sign}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
