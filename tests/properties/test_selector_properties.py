"""Selectors against a second, slow evaluator, and against garbage."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.expression import Selector, SelectorEvaluationError
from spanwire.selector.like import LikePattern
from spanwire.selector.numbers import compare_doubles, compare_strings, float_of_integer, wrap_int, wrap_long
from spanwire.selector.parser import CONVERT_STRING_EXPRESSIONS, parse_selector
from tests.support.selector_oracle import (
    Node,
    OracleError,
    UnspellableError,
    Value,
    evaluated,
    is_like,
    nearest_float,
    rank,
    spelled,
    wrapped,
)
from tests.support.selector_values import TypedMessage

LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1])
INTS = st.integers(-(2**31), 2**31 - 1) | st.integers(-3, 3)
DOUBLES = st.floats() | st.sampled_from([0.0, -0.0, 0.1, 2.5, math.nan, math.inf])
FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, 2.5, 16777216.0])
TEXTS = st.text(alphabet="ab%_!'é\U0001f600\uffee", max_size=5)

MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "y": st.tuples(st.just("byte"), st.integers(-128, 127)),
        "h": st.tuples(st.just("short"), st.integers(-(2**15), 2**15 - 1)),
        "i": st.tuples(st.just("int"), INTS),
        "k": st.tuples(st.just("int"), INTS),
        "l": st.tuples(st.just("long"), LONGS),
        "f": st.tuples(st.just("float"), FLOATS),
        "d": st.tuples(st.just("double"), DOUBLES),
        "s": st.tuples(st.just("string"), TEXTS),
        "w": st.tuples(st.just("string"), TEXTS),
        "t": st.tuples(st.just("boolean"), st.booleans()),
    },
)
PROPERTIES = st.sampled_from(["y", "h", "i", "k", "l", "f", "d", "s", "w", "t", "missing"]).map(
    lambda name: ("property", name)
)


def _number(value: int) -> Node:
    return ("literal", ("int" if value < 2**31 else "long", value))


NUMBER_LITERALS: st.SearchStrategy[Node] = st.one_of(
    st.integers(1, 100).map(_number),
    st.integers(1, 2**63 - 1).map(_number),
    st.floats(min_value=0.0).map(lambda value: ("literal", ("double", abs(value)))),
    st.just(("literal", ("long", -(2**63)))),
)
TEXT_LITERALS: st.SearchStrategy[Node] = TEXTS.map(lambda text: ("literal", ("string", text)))
BOOLEAN_LITERALS: st.SearchStrategy[Node] = st.booleans().map(lambda value: ("literal", ("boolean", value)))
OPERATORS = st.sampled_from(["+", "-", "*", "/", "%"])


def _calculations(operands: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.tuples(st.just("minus"), operands),
        st.tuples(st.just("calculate"), OPERATORS, operands, operands),
    )


NUMBERS: st.SearchStrategy[Node] = st.recursive(PROPERTIES | NUMBER_LITERALS, _calculations, max_leaves=5)
SUMS: st.SearchStrategy[Node] = st.tuples(
    st.just("calculate"),
    st.just("+"),
    TEXT_LITERALS | st.just(("property", "s")),
    TEXT_LITERALS | st.sampled_from([("property", name) for name in "wiylt"] + [("property", "missing")]),
)
VALUES = NUMBERS | SUMS


def _tests(conditions: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    operands = VALUES | TEXT_LITERALS | conditions
    return st.one_of(
        st.tuples(st.just("and"), conditions, conditions),
        st.tuples(st.just("or"), conditions, conditions),
        st.tuples(st.just("not"), conditions),
        st.tuples(st.just("compare"), st.sampled_from(["=", "<>"]), operands, VALUES | TEXT_LITERALS),
        st.tuples(st.just("compare"), st.sampled_from(["<", "<=", ">", ">="]), VALUES, VALUES),
        st.tuples(st.just("between"), st.booleans(), VALUES, VALUES, VALUES),
        st.tuples(st.just("like"), st.booleans(), operands, TEXTS, st.sampled_from([None, "!", "a", "%"])),
        st.tuples(st.just("in"), st.booleans(), st.sampled_from("swit"), st.lists(TEXTS, min_size=1, max_size=4)),
        st.tuples(st.just("null"), st.booleans(), operands),
    )


CONDITIONS: st.SearchStrategy[Node] = st.recursive(
    BOOLEAN_LITERALS | PROPERTIES | st.just(("literal", ("null", None))), _tests, max_leaves=8
)


def _is_comparable(node: Any) -> bool:
    """Without what the grammar refuses: NULL beside ``=`` and a literal boolean before another literal."""
    if not isinstance(node, tuple):
        return True
    if node and node[0] == "compare" and node[1] in ("=", "<>"):
        left, right = node[2], node[3]
        if left == ("literal", ("null", None)) or (left[0] == "literal" and left[1][0] == "boolean"):
            return False
        if right == ("literal", ("null", None)):
            return False
    return all(_is_comparable(part) for part in node)


def decision(node: Node, properties: dict[str, Value]) -> object:
    try:
        return evaluated(node, properties)
    except OracleError:
        return "error"
    except UnspellableError:
        reject()


@given(CONDITIONS.filter(_is_comparable), MESSAGES)
def test_a_selector_decides_as_the_slow_evaluator_does(node: Node, properties: dict[str, Value]) -> None:
    selector = parse_selector(spelled(node))
    message = TypedMessage({}, properties)
    wanted = decision(node, properties)
    try:
        answer: object = selector.evaluate(message)
    except SelectorEvaluationError:
        answer = "error"
    assert answer == wanted, selector
    assert selector.matches(message) is (answer is True)


@given(CONDITIONS.filter(_is_comparable), MESSAGES)
def test_a_selector_reads_its_own_spelling_the_same_way(node: Node, properties: dict[str, Value]) -> None:
    selector = parse_selector(spelled(node))
    again = parse_selector(spelled(node).lower() if "'" not in spelled(node) else spelled(node))
    assert str(again) == str(selector)


WORDS = st.sampled_from(
    "a b t 1 0x 0 9 1.5 .5 1e 'x' '' ' ( ) , = <> < > <= >= + - * / % . -- /* */ AND OR NOT IN LIKE ESCAPE IS NULL "
    "BETWEEN TRUE REGEX REGEX( XPATH \n \\ é # $ _".split(" ")
)
GARBAGE = (
    st.text(max_size=200)
    | st.text(alphabet="a1'()=<>-+*/%. ,\n", max_size=100)
    | st.lists(WORDS, max_size=40).map(" ".join)
    | st.lists(WORDS, max_size=40).map("".join)
)


@pytest.mark.large
@given(GARBAGE, st.booleans(), MESSAGES)
@example("(" * 10_000, False, {})
@example("1" * 5000, False, {})
def test_garbage_gives_a_selector_or_an_invalid_selector_error(
    text: str, is_converting: bool, properties: dict[str, Value]
) -> None:
    try:
        selector = parse_selector((CONVERT_STRING_EXPRESSIONS if is_converting else "") + text)
    except InvalidSelectorError as error:
        found = str(error)
        selector = parse_selector("FALSE")
    else:
        found = str(selector)
        assert isinstance(selector, Selector)
    assert found
    assert "\n" not in found or "\n" in text
    assert selector.matches(TypedMessage({}, properties)) in (True, False)


@given(st.text(alphabet="ab%_!", max_size=12), st.text(alphabet="ab!", max_size=30), st.sampled_from([None, "!"]))
def test_like_agrees_with_the_slow_table(pattern: str, text: str, escape: str | None) -> None:
    assert LikePattern(pattern, escape).matches(text) is is_like(text, pattern, escape)


@given(st.integers(), DOUBLES, DOUBLES)
def test_numbers_agree_with_the_semantics_of_java(integer: int, left: float, right: float) -> None:
    assert wrap_int(integer) == wrapped(integer, "int")
    assert wrap_long(integer) == wrapped(integer, "long")
    order = (rank(left) > rank(right)) - (rank(left) < rank(right))
    assert compare_doubles(left, right) == order


@given(LONGS)
def test_a_long_becomes_the_nearest_float(value: int) -> None:
    assert float_of_integer(value) == nearest_float(value)


@given(st.text(max_size=6), st.text(max_size=6))
def test_strings_are_ordered_by_their_utf_16_code_units(left: str, right: str) -> None:
    left_units, right_units = left.encode("utf-16-be"), right.encode("utf-16-be")
    assert compare_strings(left, right) == (left_units > right_units) - (left_units < right_units)
