"""The function REGEX: what its patterns mean and which it refuses."""

from __future__ import annotations

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.expression import SelectorEvaluationError
from spanwire.selector.parser import parse_selector
from spanwire.selector.regular_expression import MAX_SUBJECT, RegularExpression
from tests.support.selector_values import TypedMessage, untyped


@pytest.mark.parametrize(
    ("pattern", "found", "missed"),
    [
        ("b", "abc", "ac"),
        ("^b", "bc", "abc"),
        ("b$", "ab", "abc"),
        ("b$", "ab\r\n", "ab\n\n"),
        ("^$", "", "a"),
        ("a.c", "abc", "a\nc"),
        ("ab*c", "abbbc", "abd"),
        ("ab+c", "abc", "ac"),
        ("^ab?c$", "ac", "abbc"),
        ("^(ab|cd)+$", "abcdab", "abc"),
        ("^(?:a|b){2,3}$", "aba", "abab"),
        ("^a{2}$", "aa", "aaa"),
        ("^a{2,}?$", "aaaaa", "a"),
        ("^a{0,2}b$", "b", "aaab"),
        ("^[a-c_]+$", "abc_", "abd"),
        ("^[^a-c]+$", "xyz", "xbz"),
        (r"^\d+\.\d+$", "12.5", "12x5"),
        (r"^[\d-]+$", "1-2", "1+2"),
        (r"^\w\W\s\S\D$", "a- bc", "a- b1"),
        (r"^[\]\\]+$", "]\\", "a"),
        (r"\t", "a\tb", "a b"),
        ("^(a*)*$", "aaa", "ab"),
        ("(|a)b", "b", "a"),
        ("名", "山名", "山"),
    ],
)
def test_a_pattern_is_found_or_not(pattern: str, found: str, missed: str) -> None:
    expression = RegularExpression(pattern)
    assert expression.is_found_in(found)
    assert not expression.is_found_in(missed)


@pytest.mark.parametrize(
    "pattern",
    ["(", ")", "a)", "(a", "[a", "[]", "[b-a]", "*a", "a**", "a*+", "a{2", "a{3,2}", "a{,2}", "a{99999}", "a{200}",
     r"\1", r"\b", "\\", "(?=a)", "(?i)a", "[a[b]]", "[a&&b]", "(" * 17 + "a" + ")" * 17, "a" * 129, "(a{20}){20}"],
)  # fmt: skip
def test_a_pattern_that_is_wrong_too_large_or_not_supported_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidSelectorError, match="of the regular expression"):
        RegularExpression(pattern)


def test_a_number_or_boolean_is_searched_as_java_writes_it() -> None:
    message = TypedMessage({}, {"i": ("int", 42), "d": ("double", 1e7), "f": ("float", 0.1), "t": ("boolean", True)})
    assert parse_selector(
        "REGEX('^42$', i) AND REGEX('^1\\.0E7$', d) AND REGEX('^0\\.1$', f) AND REGEX('^true$', t)"
    ).matches(message)


def test_a_missing_value_is_false_not_unknown() -> None:
    assert parse_selector("REGEX('a', missing)").evaluate(untyped()) is False


def test_a_subject_beyond_the_limit_is_an_error() -> None:
    selector = parse_selector("REGEX('a', s)")
    assert selector.matches(untyped(s="a" * MAX_SUBJECT))
    with pytest.raises(SelectorEvaluationError):
        selector.evaluate(untyped(s="a" * (MAX_SUBJECT + 1)))
