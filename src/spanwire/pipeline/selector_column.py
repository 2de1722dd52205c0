"""A JMS selector as a Spark column, with the meaning of the broker's evaluation.

    frame.where(selector_column("region = 'us' AND price BETWEEN 10 AND 20"))

The column is true, false, or null if the result is unknown or the evaluation fails; the broker selects neither.
Comparisons of a header or property with a literal become native expressions of Spark, node by node of the parsed tree.
Arithmetic, REGEX, comparisons between two properties and the converting mode of STOMP run in the broker's evaluator, in
a worker.

A native node is either *plain*, a boolean column with null for unknown, or *coded*, if an evaluation may fail:
FALSE_CODE, TRUE_CODE, UNKNOWN_CODE or ERROR_CODE. An error ends an undecided evaluation.
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
NEGATED: Final = (UNKNOWN_CODE, TRUE_CODE, FALSE_CODE, ERROR_CODE)  # by code + 2, because arrays count from 1
DECISIONS: Final = (None, False, True, None)
LIKE_WORDS: Final = frozenset("%_\\")


class NotNativeError(Exception):
    """Only the broker's evaluator can decide a node of the tree."""


@dataclass(frozen=True, slots=True)
class Node:
    """A native condition."""

    column: Column
    is_coded: bool = False

    def code_column(self) -> Column:
        """Return the condition as a code."""
        if self.is_coded:
            return self.column
        return F.coalesce(self.column.cast("int"), F.lit(UNKNOWN_CODE))


def selector_column(text: str) -> Column:
    """Return the column of a JMS selector, for rows with the columns of a message.

    The column is null where the result is unknown or the evaluation fails. A running session is needed.

    Args:
        text: the selector.

    Raises:
        ConfigurationError: the text is not a selector, or names a header without a column; the error has one line.
    """
    selector, names = parse(text)
    try:
        node = native(selector.root)
    except NotNativeError:
        return evaluator_column(text, names)
    return _by_code(DECISIONS, node.column) if node.is_coded else node.column


def native(node: Expression) -> Node:
    """Return a condition as Spark expressions.

    Raises:
        NotNativeError: only the evaluator can decide the condition.
    """
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
    """Return the selector's decision by the evaluator in a worker.

    The worker gets the text of the selector, because trees cannot be pickled.
    """
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
    """Combine nodes with AND, decided by FALSE_CODE, or with OR, decided by TRUE_CODE."""
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

    return Node(F.aggregate(F.array(*[node.code_column() for node in nodes]), F.lit(neutral), step), True)


def _comparison(node: Comparison) -> Node:
    left, right = node.left, node.right
    if isinstance(left, Literal) and isinstance(right, Literal):
        return _constant(node)
    if node.is_converting:
        raise NotNativeError
    if isinstance(left, Property) and isinstance(right, Literal):
        return _compare_literal(operand(left.name), node, right.value, is_mirrored=False)
    if isinstance(left, Literal) and isinstance(right, Property):
        return _compare_literal(operand(right.name), node, left.value, is_mirrored=True)
    raise NotNativeError


def _compare_literal(operand_of: Operand, node: Comparison, value: object, is_mirrored: bool) -> Node:
    """Compare a property with a literal; with ``is_mirrored`` the literal is the left operand."""
    is_equality = isinstance(node, Equality)
    answer = operand_of.compare(node.operator, value, is_mirrored)
    where_null = F.lit(False) if is_equality and is_mirrored else F.lit(None).cast("boolean")
    plain = F.when(operand_of.is_null(), where_null).otherwise(answer)
    error = operand_of.error_column(is_equality, value, is_mirrored)
    if error is None:
        return Node(plain)
    return Node(F.when(error, F.lit(ERROR_CODE)).otherwise(Node(plain).code_column()), True)


def _single(node: Expression) -> Node:
    """Return a condition with one operand."""
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
    """Return a condition that depends on no message."""
    try:
        value = node.evaluate(RowValues())
    except SelectorEvaluationError:
        return Node(F.lit(ERROR_CODE), True)
    return Node(F.lit(value if isinstance(value, bool) else None).cast("boolean"))


def spark_pattern(pattern: str, escape: str | None) -> str:
    """Return a LIKE pattern of JMS with a backslash as escape character, as Spark needs it.

    In JMS an escape character before any other character than ``_``, ``%`` or itself is a literal.
    """
    characters: list[str] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        following = pattern[index + 1 : index + 2]
        if letter == escape and following and following in ("_", "%", escape):
            characters.append("\\" + following if following in LIKE_WORDS else following)
            index += 1
        else:
            characters.append("\\\\" if letter == "\\" else letter)
        index += 1
    return "".join(characters)
