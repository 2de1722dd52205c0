"""Selectors that are meant to hurt, each named after the attack."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable

import pytest

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.expression import Selector, SelectorEvaluationError
from spanwire.selector.parser import MAX_DEPTH, MAX_NODES, MAX_TEXT_BYTES, parse_selector
from tests.support.selector_values import TypedMessage, untyped


def growth(work: Callable[[int], object], size: int, factor: int) -> float:
    """How many times longer `factor` times the work takes, best of several runs."""
    best = [math.inf, math.inf]
    for _ in range(5):
        for index, length in enumerate((size, size * factor)):
            start = time.process_time()
            work(length)
            best[index] = min(best[index], time.process_time() - start)
    return best[1] / max(best[0], 1e-6)


def refused(text: str) -> str:
    with pytest.raises(InvalidSelectorError) as caught:
        parse_selector(text)
    return str(caught.value)


@pytest.mark.large
@pytest.mark.parametrize(
    ("pattern", "answer"),
    [
        ("%a" * 100 + "%b", False),
        ("%a" * 100 + "%b%", False),
        ("%" * 100 + "b", False),
        ("%a%_" * 50, True),
        ("%aab_a%", False),
        ("%" + "a_a" * 30 + "b%", False),
    ],
)
def test_s28_cve_2026_75880_like_is_linear_in_its_subject(pattern: str, answer: bool) -> None:
    selector = parse_selector(f"s LIKE '{pattern}'")
    assert selector.matches(untyped(s="a" * 4096)) is answer

    def work(length: int) -> None:
        message = untyped(s="a" * length)
        for _ in range(4):
            selector.matches(message)

    # 16 times the subject: linear is 16, quadratic 256. Backtracking would not end at all.
    assert growth(work, 32 * 1024, 16) < 100


def test_s28_cve_2026_75880_like_with_a_hundred_wildcards_ends_on_a_megabyte() -> None:
    message = untyped(s="a" * 1024 * 1024)
    assert parse_selector(f"s LIKE '{'%a' * 100}%b'").evaluate(message) is False
    assert parse_selector(f"s LIKE '{'%a' * 100}%'").evaluate(message) is True


def test_s28_redos_in_the_function_regex_costs_program_times_subject() -> None:
    selector = parse_selector("REGEX('^(a|aa)+(a*)*(a?){9}c$', s)")
    assert growth(lambda length: selector.matches(untyped(s="a" * length)), 256, 8) < 40


@pytest.mark.parametrize("count", [MAX_DEPTH + 1, 1000, 4000, 10_000])
@pytest.mark.parametrize("opening", ["(", "NOT ", "- ", "+", "NOT(", "-(", "REGEX('a',"])
def test_s29_deep_nesting_is_refused_without_a_recursion_error(opening: str, count: int) -> None:
    closing = ")" if opening.endswith("(") or opening.startswith("REGEX") else ""
    error = refused(opening * count + "a" + closing * count)
    assert "nested deeper than 64" in error or "longer than 8192 bytes" in error


def test_nesting_up_to_the_limit_is_parsed_and_evaluated() -> None:
    assert parse_selector("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH).matches(untyped(a=1))


def test_s29_deep_nesting_fits_a_stack_that_is_already_deep() -> None:
    def deep(levels: int) -> bool:
        if levels > 0:
            return deep(levels - 1)
        return parse_selector("(" * MAX_DEPTH + "a = 1" + ")" * MAX_DEPTH).matches(untyped(a=1))

    assert deep(sys.getrecursionlimit() - 600)


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "%", "= 1 =", "IS NULL ="])
def test_s29_a_long_chain_that_makes_a_deep_tree_is_refused(operator: str) -> None:
    error = refused(f" {operator} ".join(["a"] * 400) + " > 1")
    assert "nested deeper than 64" in error or "only numbers have an order" in error


@pytest.mark.parametrize("operator", ["AND", "OR"])
def test_a_long_run_of_and_or_or_is_no_deep_tree(operator: str) -> None:
    text = f" {operator} ".join(["a = 1"] * 300)
    assert parse_selector(text).matches(untyped(a=1))


def test_s29_too_many_nodes_are_refused() -> None:
    assert f"more than {MAX_NODES}" in refused(" OR ".join(["a=1"] * 500))


def test_s29_giant_in_list_is_refused() -> None:
    assert f"more than {MAX_NODES}" in refused("a IN (" + ",".join(["'x'"] * 1500) + ")")
    assert parse_selector("a IN (" + ",".join([f"'{number}'" for number in range(900)]) + ")").matches(untyped(a="899"))


def test_s29_giant_text_is_refused_by_its_bytes() -> None:
    assert "longer than 8192 bytes" in refused("a = '" + "x" * MAX_TEXT_BYTES + "'")
    assert "longer than 8192 bytes" in refused("a = '" + "山" * 3000 + "'")
    assert "longer than 8192 bytes" in refused("a" * 100_000_000)
    room = MAX_TEXT_BYTES - len("a = ''")
    assert parse_selector("a = '" + "x" * room + "'").matches(untyped(a="x" * room))
    assert parse_selector("convert_string_expressions:a = '" + "x" * room + "'").matches(untyped(a="x" * room))


def test_s29_nested_between_does_not_double_the_work_at_every_level() -> None:
    text = "a"
    for _ in range(20):
        text = f"('' + ({text} NOT BETWEEN 1 AND 2))"
    message = untyped(a="x")
    parse_selector(f"{text} = 'x'").evaluate(message)
    assert message.questions == 1


def test_s29_text_doubled_by_plus_does_not_fill_the_memory() -> None:
    text = "(s + s)"
    for _ in range(6):
        text = f"({text} + {text})"
    with pytest.raises(SelectorEvaluationError, match="grows beyond 1048576 characters"):
        parse_selector(f"{text} = 'x'").evaluate(untyped(s="x" * 100_000))


def test_s29_unclosed_comments_and_minus_signs_do_not_make_the_lexer_quadratic() -> None:
    for text in ("/*" * 4000, "--" * 4000, "'" * 8001):
        assert refused(text)


def test_s30_numbers_of_five_thousand_digits_are_refused() -> None:
    assert "an integer of more than 100 digits" in refused("a = " + "9" * 5000)
    assert "an integer of more than 63 bits" in refused("a = 0x" + "f" * 5000)
    assert "an integer of more than 63 bits" in refused("a = 0" + "7" * 5000)
    assert not parse_selector("a = " + "9" * 100).matches(untyped(a=2**63 - 1))


def test_s30_numbers_of_five_thousand_digits_in_a_message_are_no_numbers() -> None:
    message = TypedMessage({}, {"s": ("string", "9" * 5000), "i": ("int", 1), "d": ("double", 1.0)})
    assert parse_selector("convert_string_expressions:s = i").evaluate(message) is False
    assert parse_selector("convert_string_expressions:s > d").evaluate(message) is True


def test_s30_numbers_beyond_double_are_infinite_and_not_a_number_is_greatest() -> None:
    message = untyped(inf=math.inf, nan=math.nan)
    assert parse_selector("inf = 1e999 AND -inf = -1e999").matches(message)
    assert parse_selector("inf < nan AND nan = nan AND inf - inf = nan").matches(message)
    assert parse_selector("a = 1e" + "9" * 5000).evaluate(untyped(a=1.0)) is False
    assert parse_selector("a = 0." + "0" * 5000 + "1").evaluate(untyped(a=1.0)) is False


def test_s30_numbers_keep_minus_zero_apart_from_zero() -> None:
    assert parse_selector("z = -0.0 AND z <> 0.0 AND z < 0 AND 1 / z < 0").matches(untyped(z=-0.0))


def test_s30_numbers_at_the_edge_of_int_and_long_wrap_round() -> None:
    message = TypedMessage({}, {"i": ("int", 2**31 - 1), "l": ("long", 2**63 - 1)})
    assert parse_selector("i + 1 = -2147483648 AND i * i = 1").matches(message)
    assert parse_selector("l + 1 = -9223372036854775808 AND l * l = 1").matches(message)
    assert parse_selector("-2147483648 - 1 = -2147483649").matches(message)
    assert parse_selector("-(-9223372036854775808) = -9223372036854775808").matches(message)


def test_s26_xpath_and_xquery_are_refused_before_anything_is_read() -> None:
    assert "XPATH selectors are not supported" in refused("XPATH '<!DOCTYPE a SYSTEM \"file:///etc/passwd\">'")
    assert "XQUERY selectors are not supported" in refused("a = 1 OR xquery 'doc(\"http://127.0.0.1/\")'")


def test_surrogates_and_control_characters_give_a_clear_answer() -> None:
    assert isinstance(parse_selector("a = '\ud800'"), Selector)
    for text in ("\ud800", "a = 1 \x00", "\x1a", "\ufeffa = 1", "a\u2028= 1"):
        assert "unexpected character" in refused(text)
