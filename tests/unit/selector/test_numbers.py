"""Java's numbers: conversions whose results are written in the Java documentation or follow from IEEE 754."""

from __future__ import annotations

import math

import pytest

from spanwire.model.message_view import BYTE_VALUE, INT_VALUE, LONG_VALUE, SHORT_VALUE
from spanwire.selector.numbers import (
    compare_doubles,
    compare_strings,
    divide,
    double_of_text,
    float_of_double,
    float_of_integer,
    integer_of_text,
    remainder,
    text_of_double,
    text_of_float,
    wrap_int,
    wrap_long,
)


def test_integers_wrap_round_at_their_width() -> None:
    assert wrap_int(2**31) == -(2**31)
    assert wrap_int(-(2**31) - 1) == 2**31 - 1
    assert wrap_long(2**63) == -(2**63)
    assert wrap_long(-(2**63) - 1) == 2**63 - 1


def test_doubles_have_a_total_order() -> None:
    ordered = [-math.inf, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, math.inf, math.nan]
    for left_index, left in enumerate(ordered):
        for right_index, right in enumerate(ordered):
            order = (left_index > right_index) - (left_index < right_index)
            assert compare_doubles(left, right) == order


def test_strings_are_ordered_by_utf_16() -> None:
    assert compare_strings("a", "b") == -1
    assert compare_strings("\uffee", "\U0001f600") == 1


def test_an_integer_becomes_the_nearest_float_ties_to_even() -> None:
    assert float_of_integer(16777216) == 16777216.0
    assert float_of_integer(16777217) == 16777216.0
    assert float_of_integer(16777219) == 16777220.0
    assert float_of_integer(-16777219) == -16777220.0
    # Rounding to double first and then to float would give 2 ** 60.
    assert float_of_integer(2**60 + 2**36 + 1) == 2.0**60 + 2.0**37


def test_a_double_too_large_for_a_float_is_infinite() -> None:
    assert float_of_double(1e39) == math.inf
    assert float_of_double(-1e39) == -math.inf
    assert math.isnan(float_of_double(math.nan))


def test_division_by_zero_follows_ieee_754() -> None:
    assert divide(1.0, 0.0) == math.inf
    assert divide(1.0, -0.0) == -math.inf
    assert divide(-1.0, 0.0) == -math.inf
    assert math.isnan(divide(0.0, 0.0))
    assert math.isnan(remainder(1.0, 0.0))
    assert math.isnan(remainder(math.inf, 2.0))
    assert remainder(-7.0, 3.0) == -1.0
    assert remainder(7.0, math.inf) == 7.0


@pytest.mark.parametrize(
    ("text", "value_type", "value"),
    [
        ("42", INT_VALUE, 42),
        ("+42", INT_VALUE, 42),
        ("-042", INT_VALUE, -42),
        ("2147483648", INT_VALUE, None),
        ("2147483648", LONG_VALUE, 2147483648),
        ("9223372036854775808", LONG_VALUE, None),
        ("-9223372036854775808", LONG_VALUE, -(2**63)),
        ("128", BYTE_VALUE, None),
        ("-128", BYTE_VALUE, -128),
        ("32768", SHORT_VALUE, None),
        ("", INT_VALUE, None),
        ("-", INT_VALUE, None),
        (" 1", INT_VALUE, None),
        ("1_0", INT_VALUE, None),
        ("1.0", INT_VALUE, None),
        ("0x1", INT_VALUE, None),
        ("+-1", INT_VALUE, None),
        ("²", INT_VALUE, None),
        ("9" * 5000, LONG_VALUE, None),
        ("0" * 5000 + "7", LONG_VALUE, 7),
    ],
)
def test_an_integer_is_read_as_java_reads_it(text: str, value_type: int, value: int | None) -> None:
    assert integer_of_text(text, value_type) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        (" -1.5e3 ", -1500.0),
        ("1f", 1.0),
        ("1.D", 1.0),
        (".5", 0.5),
        ("0x1p3", 8.0),
        ("0x.8p1f", 1.0),
        ("0x1p99999", math.inf),
        ("1e999", math.inf),
        ("-Infinity", -math.inf),
        ("infinity", None),
        ("nan", None),
        ("0x1", None),
        ("1_0", None),
        ("e1", None),
        ("1e", None),
        (".", None),
        ("", None),
        ("--1", None),
        ("1 0", None),
        ("٣", None),
    ],
)
def test_a_double_is_read_as_java_reads_it(text: str, value: float | None) -> None:
    assert double_of_text(text) == value


def test_nan_is_read_by_its_name() -> None:
    number = double_of_text("NaN")
    assert number is not None
    assert math.isnan(number)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9999999.5, "9999999.5"),
        (10000000.0, "1.0E7"),
        (-12345678.9, "-1.23456789E7"),
        (1e300, "1.0E300"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_a_double_is_written_as_java_writes_it(value: float, text: str) -> None:
    assert text_of_double(value) == text


def test_a_float_is_written_with_as_many_digits_as_it_needs() -> None:
    assert text_of_float(float_of_double(0.1)) == "0.1"
    assert text_of_float(16777216.0) == "1.6777216E7"
    assert text_of_float(float_of_double(3.4028235e38)) == "3.4028235E38"
    assert text_of_float(math.inf) == "Infinity"
    assert text_of_float(-0.0) == "-0.0"
