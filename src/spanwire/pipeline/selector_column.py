"""A JMS selector as a Spark column, equal in meaning to the broker's evaluation.

    frame.where(selector_column("region = 'us' AND price BETWEEN 10 AND 20"))

The column is true, false, or null for what is unknown and for what the broker cannot evaluate (it selects neither).
What compares a header or property with a literal becomes a native expression, node for node of the parsed tree;
arithmetic, REGEX, comparisons between two properties and the converting mode of STOMP go through the broker's own
evaluator in a worker.

A native node is either *plain*, a boolean column that is null for unknown, or *coded*, where an evaluation may fail:
FALSE_CODE, TRUE_CODE, UNKNOWN_CODE or ERROR_CODE. An error ends an evaluation that has not been decided before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from spanwire.pipeline.selectors.operand_column import Operand, operand
from spanwire.pipeline.selectors.selector_evaluation import (
    COUNTED_FROM_ZERO,
    ROW_HEADERS,
    RowValues,
    decide_rows,
    parse,
)
from spanwire.selector.comparison import Between, Comparison, Equality, IsNull, Like, Membership
from spanwire.selector.expression import (
    And,
    BooleanProperty,
    Expression,
    Literal,
    Not,
    Or,
    Property,
    SelectorEvaluationError,
)
from spanwire.selector.parser import parse_selector

UNKNOWN_CODE: Final = -1
FALSE_CODE: Final = 0
TRUE_CODE: Final = 1
ERROR_CODE: Final = 2
NEGATED: Final = (UNKNOWN_CODE, TRUE_CODE, FALSE_CODE, ERROR_CODE)  # by the code plus 2, for arrays count from 1
DECISIONS: Final = (None, False, True, None)
LIKE_WORDS: Final = frozenset("%_\\")


class NotNativeError(Exception):
    """The tree holds something that only the evaluator itself can decide."""


@dataclass(frozen=True, slots=True)
class Node:
    """A native condition."""

    column: Column
    is_coded: bool = False

    def coded(self) -> Column:
        """The condition as a code."""
        if self.is_coded:
            return self.column
        return F.coalesce(self.column.cast("int"), F.lit(UNKNOWN_CODE))


def selector_column(text: str) -> Column:
    """The column of a selector, for rows with the columns of a message. Needs a running session.

    Raises `ConfigurationError` in one line for a text that is no selector or names a header that rows do not have.
    """
    selector, names = parse(text)
    try:
        node = native(selector.root)
    except NotNativeError:
        return evaluator_column(text, names)
    return _by_code(DECISIONS, node.column) if node.is_coded else node.column


def native(node: Expression) -> Node:
    """A condition as Spark's own expressions. Raises `NotNativeError`."""
    if isinstance(node, And):
        return _junction([native(term) for term in node.terms], FALSE_CODE, TRUE_CODE)
    if isinstance(node, Or):
        return _junction([native(term) for term in node.terms], TRUE_CODE, FALSE_CODE)
    if isinstance(node, Not):
        inner = native(node.inner)
        return Node(_by_code(NEGATED, inner.column), True) if inner.is_coded else Node(~inner.column)
    if isinstance(node, Between):
        tests = [native(node.low), native(node.high)]
        return _junction(tests, *((TRUE_CODE, FALSE_CODE) if node.is_negated else (FALSE_CODE, TRUE_CODE)))
    if isinstance(node, Comparison):
        return _comparison(node)
    return _single(node)


def evaluator_column(text: str, names: list[str]) -> Column:
    """The selector as the evaluator decides it, in a worker, which is given the text: trees are not pickled."""
    headers = [name for name in names if name in ROW_HEADERS]

    def decide(rows: pa.Array) -> pa.Array:
        header_values = {name: rows.field(f"h{number}").to_pylist() for number, name in enumerate(headers)}
        properties = {name: rows.field(f"p{number}").to_pylist() for number, name in enumerate(names)}
        return pa.array(decide_rows(parse_selector(text), header_values, properties, len(rows)), pa.bool_())

    fields = [_header_value(name).alias(f"h{number}") for number, name in enumerate(headers)]
    fields += [F.col("properties")[name].alias(f"p{number}") for number, name in enumerate(names)]
    return F.arrow_udf(decide, "boolean")(F.struct(*fields, F.lit(True).alias("row")))


def _header_value(name: str) -> Column:
    column = F.col(name)
    if name in ("JMSTimestamp", "JMSExpiration"):
        column = F.unix_millis(column)
    return F.coalesce(column, F.lit(0)) if name in COUNTED_FROM_ZERO else column


def _by_code(values: tuple[object, ...], code: Column) -> Column:
    return F.element_at(F.array(*[F.lit(value) for value in values]), code + F.lit(2))


def _junction(nodes: list[Node], decisive: int, neutral: int) -> Node:
    """AND, where FALSE decides, or OR, where TRUE does."""
    if not any(node.is_coded for node in nodes):
        columns = [node.column for node in nodes]
        if decisive == FALSE_CODE:
            return Node(reduce(lambda first, second: first & second, columns))
        return Node(reduce(lambda first, second: first | second, columns))

    def step(so_far: Column, code: Column) -> Column:
        return (
            F.when(so_far.isin(decisive, ERROR_CODE), so_far)
            .when(code.isin(decisive, ERROR_CODE), code)
            .otherwise(F.when(code == UNKNOWN_CODE, code).otherwise(so_far))
        )

    return Node(F.aggregate(F.array(*[node.coded() for node in nodes]), F.lit(neutral), step), True)


def _comparison(node: Comparison) -> Node:
    left, right = node.left, node.right
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _constant(node)
    if node.is_converting:
        raise NotNativeError
    if isinstance(left, Property) and isinstance(right, Literal):
        return _compared(operand(left.name), node, right.value, is_mirrored=False)
    if isinstance(left, Literal) and isinstance(right, Property):
        return _compared(operand(right.name), node, left.value, is_mirrored=True)
    raise NotNativeError


def _compared(operand_of: Operand, node: Comparison, value: object, is_mirrored: bool) -> Node:
    """A property beside a literal; ``is_turned`` when the literal stands on the left."""
    is_equality = isinstance(node, Equality)
    answer = operand_of.compare(node.operator, value, is_mirrored)
    where_null = F.lit(False) if is_equality and is_mirrored else F.lit(None).cast("boolean")
    plain = F.when(operand_of.is_null(), where_null).otherwise(answer)
    error = operand_of.error_column(is_equality, value, is_mirrored)
    if error is None:
        return Node(plain)
    return Node(F.when(error, F.lit(ERROR_CODE)).otherwise(Node(plain).coded()), True)


def _single(node: Expression) -> Node:
    """What looks at one operand."""
    if isinstance(node, Literal):
        return _constant(node)
    if not isinstance(node, (BooleanProperty, IsNull, Like, Membership)):
        raise NotNativeError
    inner = node.inner
    if isinstance(inner, Literal):
        return _constant(node)
    if not isinstance(inner, Property):
        raise NotNativeError
    column = operand(inner.name)
    if isinstance(node, IsNull):
        return Node(column.is_null())
    known = F.when(column.is_null(), F.lit(None).cast("boolean"))
    if isinstance(node, BooleanProperty):
        return Node(known.otherwise(column.is_boolean() & column.boolean))
    if isinstance(node, Like):
        return Node(known.otherwise(column.is_text() & column.text.like(spark_pattern(node.text, node.escape))))
    member = column.text.isin(node.texts)
    return Node(F.when(column.is_text(), ~member if node.is_negated else member))


def _constant(node: Expression) -> Node:
    """What no message has a say in."""
    try:
        value = node.evaluate(RowValues())
    except SelectorEvaluationError:
        return Node(F.lit(ERROR_CODE), True)
    return Node(F.lit(value if isinstance(value, bool) else None).cast("boolean"))


def spark_pattern(pattern: str, escape: str | None) -> str:
    r"""A LIKE pattern of JMS with Spark's escape character, the backslash. In JMS an escape character before a letter
    is a letter.
    """
    letters: list[str] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        following = pattern[index + 1 : index + 2]
        if letter == escape and following and following in ("_", "%", escape):
            letters.append("\\" + following if following in LIKE_WORDS else following)
            index += 1
        else:
            letters.append("\\\\" if letter == "\\" else letter)
        index += 1
    return "".join(letters)
