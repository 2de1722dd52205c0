"""What the parser reports, and how it understood what it accepts."""

from __future__ import annotations

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector
from tests.support.selector_values import TypedMessage, untyped


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("color = )", "expected a value but found ')' at column 9 of the selector \"color = )\""),
        ("a = 1 b", "expected an operator or the end but found 'b' at column 7 of the selector \"a = 1 b\""),
        ("a = ", 'expected a value but found end of text at column 5 of the selector "a = "'),
        ("a IN (1)", "expected a string but found '1' at column 7 of the selector \"a IN (1)\""),
        ("a BETWEEN 1 OR 2", "expected 'AND' but found 'OR' at column 13 of the selector \"a BETWEEN 1 OR 2\""),
        ("a = 'b", 'unterminated string at column 5 of the selector "a = \'b"'),
        ("a # 1", 'unexpected character "#" at column 3 of the selector "a # 1"'),
        ("a = NULL", 'NULL cannot be compared, use IS NULL at column 3 of the selector "a = NULL"'),
        ("1 + 1", 'expected a condition but found the value "(1 + 1)" at column 1 of the selector "1 + 1"'),
        ("a > 'b'", "only numbers have an order, \"'b'\" has none at column 3 of the selector \"a > 'b'\""),
        ("XPATH '//a'", "XPATH selectors are not supported at column 1 of the selector \"XPATH '//a'\""),
        (
            "UPPER(a) = 'B'",
            'the function "UPPER" is not supported, only REGEX is at column 1 of the selector "UPPER(a) = \'B\'"',
        ),
        ("a LIKE 'b' ESCAPE 'cd'", 'ESCAPE must be one character, not "cd"'),
    ],
)
def test_an_error_says_what_and_where(text: str, error: str) -> None:
    with pytest.raises(InvalidSelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == error


def test_an_error_is_one_short_line_whatever_the_text() -> None:
    with pytest.raises(InvalidSelectorError) as caught:
        parse_selector("a = \n\x1b[31m" + "x" * 5000 + " )")
    assert len(str(caught.value)) < 200
    assert str(caught.value).isprintable()


def test_the_column_does_not_count_the_prefix_that_stomp_puts_before() -> None:
    with pytest.raises(InvalidSelectorError, match=r"column 5 of the selector \"a = \""):
        parse_selector(CONVERT_STRING_EXPRESSIONS + "a = ")


@pytest.mark.parametrize(
    ("text", "understood"),
    [
        ("a = 1 OR b AND NOT c", "((a = 1) OR (b AND (NOT c)))"),
        ("a OR b OR c", "(a OR b OR c)"),
        ("1 + 2 * 3 - 4 > -5", "(((1 + (2 * 3)) - 4) > -5)"),
        ("NOT a = 1", "((NOT a) = 1)"),
        ("a NOT BETWEEN 1 AND 2 AND b", "(((a < 1) OR (a > 2)) AND b)"),
        ("a NOT IN ('x', 'it''s')", "(a NOT IN ('x', 'it''s'))"),
        ("a NOT LIKE 'x!%' ESCAPE '!'", "(NOT (a LIKE 'x!%' ESCAPE '!'))"),
        ("a IS NOT NULL", "(NOT (a IS NULL))"),
        ("-a = .5e1", "((-a) = 5.0)"),
        ("REGEX('^a', b)", "REGEX('^a', b)"),
        ("NULL", "NULL"),
    ],
)
def test_a_selector_shows_how_it_was_understood(text: str, understood: str) -> None:
    selector = parse_selector(text)
    assert str(selector) == understood
    assert selector.text == text


@pytest.mark.parametrize(
    ("text", "uses_properties"),
    [
        ("JMSPriority > 4 AND JMSType = 'x'", False),
        ("JMSXGroupID = 'a' OR JMSXDeliveryCount > 1", False),
        ("TRUE", False),
        ("JMSPriority > 4 AND color = 'red'", True),
        ("color = 'red' AND JMSPriority > 4", True),
        ("jmspriority > 4", True),
        ("JMSXUserID = 'guest'", True),
        ("JMSCustom IS NULL", True),
    ],
)
def test_a_selector_tells_whether_the_properties_must_be_decoded(text: str, uses_properties: bool) -> None:
    assert parse_selector(text).uses_properties is uses_properties


def test_and_and_or_ask_for_no_more_than_they_need() -> None:
    message = untyped(color="red", size=3)
    assert not parse_selector("color = 'blue' AND size > 1 AND size < 9").matches(message)
    assert message.questions == 1
    assert parse_selector("color = 'red' OR size > 1 OR size < 9").matches(message)
    assert message.questions == 2


def test_between_asks_for_its_operand_once() -> None:
    message = untyped(size=3)
    assert parse_selector("size BETWEEN 1 AND 5").matches(message)
    assert message.questions == 1


def test_without_types_an_integer_is_an_int_as_long_as_it_fits() -> None:
    assert parse_selector("small + 1 < 0").matches(untyped(small=2**31 - 1))
    assert parse_selector("large + 1 > 0").matches(untyped(large=2**31))
    typed = TypedMessage({}, {"small": ("long", 2**31 - 1)})
    assert parse_selector("small + 1 > 0").matches(typed)


def test_a_timestamp_is_a_long_whoever_answers() -> None:
    message = TypedMessage({"JMSTimestamp": 2**31 - 1}, {})
    assert parse_selector("JMSTimestamp + 1 = 2147483648").matches(message)


def test_a_byte_or_short_may_stand_on_the_right_of_a_wider_integer() -> None:
    message = TypedMessage({}, {"b": ("byte", 5), "s": ("short", 300)})
    assert parse_selector("5 = b AND 300 = s AND 4 < b AND -b = -5").matches(message)


def test_bytes_equal_nothing_and_have_no_order() -> None:
    message = untyped(raw=b"red")
    assert parse_selector("raw = 'red'").evaluate(message) is False
    assert parse_selector("raw IN ('red')").evaluate(message) is None
    assert parse_selector("raw LIKE '%'").evaluate(message) is False
    assert not parse_selector("raw > 1").matches(message)
    assert not parse_selector("raw + 1 > 1").matches(message)


def test_a_float_meets_a_long_as_a_float() -> None:
    message = TypedMessage({}, {"f": ("float", 16777216.0), "l": ("long", 16777217)})
    assert parse_selector("f = l AND l = f").matches(message)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("sd = f", True),
        ("f = sd", True),
        ("sd > b", False),
        ("'0x1p1' = two", True),
        ("'1e400' > two", None),
        ("sb = b", True),
        ("big = b", False),
        ("d = ''", False),
    ],
)
def test_converting_mode_reads_a_text_as_the_type_beside_it(text: str, answer: bool | None) -> None:
    message = TypedMessage(
        {},
        {
            "f": ("float", 0.1),
            "sd": ("string", "0.1"),
            "two": ("double", 2.0),
            "b": ("byte", 44),
            "sb": ("string", "+44"),
            "big": ("string", "300"),
            "d": ("double", 0.0),
        },
    )
    if answer is None:
        with pytest.raises(InvalidSelectorError):
            parse_selector(CONVERT_STRING_EXPRESSIONS + text)
    else:
        assert parse_selector(CONVERT_STRING_EXPRESSIONS + text).evaluate(message) is answer
