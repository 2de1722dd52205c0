"""Comparisons of selectors: ``= <> < <= > >=``, IS NULL, IN, LIKE and REGEX.

Results are as in ActiveMQ Classic.

Values of the same kind are compared: texts with texts, booleans with booleans, numbers with numbers. Across kinds the
answer is False. Numbers are compared in the wider of their types; for an integer and a float the wider type is float. A
double on the left of a float is an error, as in Classic. Unlike Classic, a byte or short may stand on the right of a
wider integer.

STOMP subscriptions use the converting mode, because all STOMP headers are text. In converting mode a text beside a
number is parsed as a number of the same type, and a text on the left of a boolean as a boolean.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.message_view import FLOAT_VALUE
from spanwire.selector.arithmetic import text_of_value
from spanwire.selector.expression import (
    Condition,
    Expression,
    Literal,
    MessageValues,
    Narrowing,
    Property,
    SelectorEvaluationError,
)
from spanwire.selector.like import LikePattern
from spanwire.selector.numbers import (
    compare_doubles,
    compare_integers,
    compare_strings,
    double_of_text,
    float_of_double,
    float_of_integer,
    integer_of_text,
    is_long,
)
from spanwire.selector.regular_expression import MAX_SUBJECT, RegularExpression

_INCOMPARABLE: Final = 2  # beside -1, 0 and 1

EQUAL: Final = 0
GREATER: Final = 1
GREATER_OR_EQUAL: Final = 2
LESS: Final = 3
LESS_OR_EQUAL: Final = 4
_SYMBOLS: Final = ("=", ">", ">=", "<", "<=")


class Comparison(Condition):
    """A comparison of two operands by value; the subclasses differ in their treatment of null."""

    def __init__(self, left: Expression, right: Expression, operator: int, is_converting: bool) -> None:
        super().__init__(1 + max(left.depth, right.depth))
        self.left: Final = left
        self.right: Final = right
        self.operator: Final = operator
        self.is_converting: Final = is_converting
        # An integer literal beyond long has a type of its own, and is comparable only with another such literal.
        self._is_impossible: Final = _is_beyond_long(left) != _is_beyond_long(right)

    def order(self, left: object, right: object, source: MessageValues) -> int:
        """Return -1, 0, 1 or ``_INCOMPARABLE`` for two values that are not None.

        Raises:
            SelectorEvaluationError: the types of the values cannot be compared.
        """
        if self._is_impossible:
            return _INCOMPARABLE
        if isinstance(left, bool) or isinstance(right, bool):
            return self._boolean_order(left, right)
        if isinstance(left, str):
            if isinstance(right, str):
                return compare_strings(left, right)
            return self._text_number_order(left, right, source)
        if isinstance(right, str):
            if not self.is_converting:
                return _INCOMPARABLE
            order = self._read_order(right, left, self.left.value_type(source))
            return order if order == _INCOMPARABLE else -order
        if isinstance(left, int) and isinstance(right, int):
            return compare_integers(left, right)
        return self._number_order(left, right, source)

    def _boolean_order(self, left: object, right: object) -> int:
        if isinstance(left, bool):
            if isinstance(right, bool):
                return compare_integers(int(left), int(right))
            if self.is_converting and isinstance(right, str):
                raise SelectorEvaluationError("a boolean cannot be compared with a text on its right")
        elif self.is_converting and isinstance(left, str):
            return compare_integers(int(left.lower() == "true"), int(right is True))
        return _INCOMPARABLE

    def _text_number_order(self, left: str, right: object, source: MessageValues) -> int:
        if not self.is_converting:
            return _INCOMPARABLE
        return self._read_order(left, right, self.right.value_type(source))

    def _read_order(self, text: str, number: object, value_type: int) -> int:
        """Compare the number that ``text`` spells with ``number``."""
        if isinstance(number, float):
            read = double_of_text(text)
            if read is None:
                return _INCOMPARABLE
            return compare_doubles(float_of_double(read) if value_type == FLOAT_VALUE else read, number)
        if isinstance(number, int):
            integer = integer_of_text(text, value_type)
            return _INCOMPARABLE if integer is None else compare_integers(integer, number)
        return self._foreign_order()

    def _number_order(self, left: object, right: object, source: MessageValues) -> int:
        """Compare two numbers of which at least one is a float or double; fail for values of no JMS type."""
        if isinstance(left, float):
            if isinstance(right, float):
                left_type, right_type = self.left.value_type(source), self.right.value_type(source)
                if left_type != FLOAT_VALUE and right_type == FLOAT_VALUE:
                    raise SelectorEvaluationError("a double cannot be compared with a float on its right")
                return compare_doubles(left, right)
            if isinstance(right, int):
                is_float = self.left.value_type(source) == FLOAT_VALUE
                return compare_doubles(left, float_of_integer(right) if is_float else float(right))
        elif isinstance(left, int) and isinstance(right, float):
            is_float = self.right.value_type(source) == FLOAT_VALUE
            return compare_doubles(float_of_integer(left) if is_float else float(left), right)
        return self._foreign_order()

    def _foreign_order(self) -> int:
        if self.operator == EQUAL:
            return _INCOMPARABLE
        raise SelectorEvaluationError("a value that is neither text, number nor boolean cannot be compared")

    def __str__(self) -> str:
        return f"({self.left} {_SYMBOLS[self.operator]} {self.right})"


class Equality(Comparison):
    """``=``; two nulls are equal, null on the left is unknown, null on the right alone is False."""

    def __init__(self, left: Expression, right: Expression, is_converting: bool) -> None:
        super().__init__(left, right, EQUAL, is_converting)

    def evaluate(self, source: MessageValues) -> object:
        left = self.left.evaluate(source)
        right = self.right.evaluate(source)
        if isinstance(left, str) and isinstance(right, str):
            return left == right
        if left is None:
            return True if right is None else None
        if right is None:
            return False
        return self.order(left, right, source) == 0

    def narrowings(self) -> list[Narrowing]:
        """Return a narrowing for a property compared with a text or an integer; other literals are rare."""
        left, right = self.left, self.right
        if isinstance(left, Property) and isinstance(right, Literal):
            return _beside(left, right, self.is_converting)
        if isinstance(left, Literal) and isinstance(right, Property):
            return _beside(right, left, self.is_converting)
        return []


class Ordering(Comparison):
    """``<``, ``<=``, ``>`` or ``>=``; null on either side is unknown."""

    def evaluate(self, source: MessageValues) -> object:
        left = self.left.evaluate(source)
        return None if left is None else self.test(left, source)

    def test(self, left: object, source: MessageValues) -> object:
        """Evaluate the comparison for a left operand that is already evaluated and not None."""
        right = self.right.evaluate(source)
        if right is None:
            return None
        if type(left) is int and type(right) is int and not self._is_impossible:
            order = compare_integers(left, right)
        else:
            order = self.order(left, right, source)
            if order == _INCOMPARABLE:
                return False
        operator = self.operator
        if operator == GREATER:
            return order > 0
        if operator == GREATER_OR_EQUAL:
            return order >= 0
        return order < 0 if operator == LESS else order <= 0


class Between(Condition):
    """BETWEEN and NOT BETWEEN.

    The operand is evaluated once, because nesting would double the work at every level.
    """

    def __init__(self, operand: Expression, low: Ordering, high: Ordering, is_negated: bool) -> None:
        """``low`` and ``high`` compare ``operand`` with the bounds: >= and <=, or < and > if negated."""
        super().__init__(1 + max(low.depth, high.depth))
        self._operand: Final = operand
        self.low: Final = low
        self.high: Final = high
        self.is_negated: Final = is_negated

    def evaluate(self, source: MessageValues) -> object:
        value = self._operand.evaluate(source)
        if value is None:
            return None
        first = self.low.test(value, source)
        if first is self.is_negated:
            return first
        second = self.high.test(value, source)
        if second is self.is_negated:
            return second
        return None if first is None else second

    def __str__(self) -> str:
        return f"({self.low} {'OR' if self.is_negated else 'AND'} {self.high})"


class IsNull(Condition):
    """IS NULL; never unknown."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        return self.inner.evaluate(source) is None

    def __str__(self) -> str:
        return f"({self.inner} IS NULL)"


class Membership(Condition):
    """IN and NOT IN over texts; both are unknown for a property that is not a text."""

    def __init__(self, inner: Expression, texts: list[str], is_negated: bool) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner
        self.texts: Final = texts
        self._members: Final = frozenset(texts)
        self.is_negated: Final = is_negated

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        if isinstance(value, str):
            return (value in self._members) != self.is_negated
        return None

    def narrowings(self) -> list[Narrowing]:
        """Return a narrowing to the listed texts, for IN on a property."""
        inner = self.inner
        if self.is_negated or not isinstance(inner, Property):
            return []
        values: list[object] = []
        values.extend(self.texts)
        return [Narrowing(inner.name, values, False)]

    def __str__(self) -> str:
        texts = ", ".join([str(Literal(text)) for text in self.texts])
        return f"({self.inner} {'NOT ' if self.is_negated else ''}IN ({texts}))"


class Like(Condition):
    """LIKE; False for a value that is not a text, unknown for null."""

    def __init__(self, inner: Expression, pattern: str, escape: str | None) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner
        self.text: Final = pattern
        self.escape: Final = escape
        self._pattern: Final = LikePattern(pattern, escape)

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        if isinstance(value, str):
            return self._pattern.matches(value)
        return None if value is None else False

    def __str__(self) -> str:
        escape = "" if self.escape is None else f" ESCAPE {Literal(self.escape)}"
        return f"({self.inner} LIKE {Literal(self.text)}{escape})"


class RegexCall(Condition):
    """ActiveMQ's function REGEX(pattern, value): True if the value contains a match of the pattern.

    False for null.
    """

    def __init__(self, pattern: str, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner
        self.text: Final = pattern
        self._expression: Final = RegularExpression(pattern)

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        if value is None:
            return False
        text = value if isinstance(value, str) else text_of_value(value, self.inner.value_type(source))
        if len(text) > MAX_SUBJECT:
            raise SelectorEvaluationError(f"REGEX looks at {MAX_SUBJECT} characters at most")
        return self._expression.is_found_in(text)

    def __str__(self) -> str:
        return f"REGEX({Literal(self.text)}, {self.inner})"


def _beside(named: Property, literal: Literal, is_converting: bool) -> list[Narrowing]:
    value = literal.value
    if isinstance(value, bool) or _is_beyond_long(literal) or not isinstance(value, (str, int)):
        return []
    return [Narrowing(named.name, [value], is_converting)]


def _is_beyond_long(operand: Expression) -> bool:
    value = operand.value if isinstance(operand, Literal) else None
    return isinstance(value, int) and not isinstance(value, bool) and not is_long(value)
