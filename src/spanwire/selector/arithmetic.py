"""Arithmetic of selectors, as ActiveMQ Classic defines it.

- ``+ - *`` of two ints are an int and wrap at 32 bits; with a long operand the result is a long and wraps at 64 bits;
  with a float or double operand the result is a double.
- ``/`` and ``%`` always return a double.
- ``+`` with a text on its left appends the text of the right operand.
- A missing operand makes the result unknown; any other operand that is not a number is an error.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.message_view import DOUBLE_VALUE, FLOAT_VALUE, INT_VALUE, LONG_VALUE
from spanwire.selector.expression import Expression, MessageValues, SelectorEvaluationError
from spanwire.selector.lexer import quoted
from spanwire.selector.numbers import divide, remainder, text_of_double, text_of_float, wrap_int, wrap_long

MAX_TEXT_LENGTH: Final = (
    1024 * 1024
)  # characters; a selector that doubles a property again and again must not fill the memory


class Negation(Expression):
    """Unary minus; returns unknown for any value but a number."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1, False)
        self._inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        value = self._inner.evaluate(source)
        if isinstance(value, float):
            return -value
        if isinstance(value, int) and not isinstance(value, bool):
            return wrap_long(-value) if self.value_type(source) == LONG_VALUE else wrap_int(-value)
        return None

    def value_type(self, source: MessageValues) -> int:
        inner = self._inner.value_type(source)
        return inner if inner in (LONG_VALUE, FLOAT_VALUE, DOUBLE_VALUE) else INT_VALUE

    def __str__(self) -> str:
        return f"(-{self._inner})"


class Arithmetic(Expression):
    """A binary operation: ``+ - * / %``."""

    def __init__(self, operator: str, left: Expression, right: Expression) -> None:
        super().__init__(1 + max(left.depth, right.depth), False)
        self._operator: Final = operator
        self._left: Final = left
        self._right: Final = right

    def evaluate(self, source: MessageValues) -> object:
        left = self._left.evaluate(source)
        if left is None:
            return None
        right = self._right.evaluate(source)
        if right is None:
            return None
        if isinstance(left, str) and self._operator == "+":
            return self._extended(left, right, source)
        if isinstance(left, (bool, str)) or isinstance(right, (bool, str)):
            raise self._error(left, right)
        if isinstance(left, float) or isinstance(right, float) or self._operator in "/%":
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                return self._double(float(left), float(right))
        elif isinstance(left, int) and isinstance(right, int):
            return self._integer(left, right, source)
        raise self._error(left, right)

    def value_type(self, source: MessageValues) -> int:
        if self._operator in "/%":
            return DOUBLE_VALUE
        left, right = self._left.value_type(source), self._right.value_type(source)
        if left in (FLOAT_VALUE, DOUBLE_VALUE) or right in (FLOAT_VALUE, DOUBLE_VALUE):
            return DOUBLE_VALUE
        return LONG_VALUE if LONG_VALUE in (left, right) else INT_VALUE

    def _integer(self, left: int, right: int, source: MessageValues) -> int:
        if self._operator == "+":
            value = left + right
        elif self._operator == "-":
            value = left - right
        else:
            value = left * right
        return wrap_long(value) if self.value_type(source) == LONG_VALUE else wrap_int(value)

    def _double(self, left: float, right: float) -> float:
        if self._operator == "+":
            return left + right
        if self._operator == "-":
            return left - right
        if self._operator == "*":
            return left * right
        return divide(left, right) if self._operator == "/" else remainder(left, right)

    def _extended(self, left: str, right: object, source: MessageValues) -> str:
        if isinstance(right, str):
            text = right
        else:
            text = text_of_value(right, self._right.value_type(source))
        if len(left) + len(text) > MAX_TEXT_LENGTH:
            raise SelectorEvaluationError(f"a text grows beyond {MAX_TEXT_LENGTH} characters")
        return left + text

    def _error(self, left: object, right: object) -> SelectorEvaluationError:
        operands = f"{quoted(str(left))} {self._operator} {quoted(str(right))}"
        return SelectorEvaluationError(f"cannot calculate {operands}: only numbers can be")

    def __str__(self) -> str:
        return f"({self._left} {self._operator} {self._right})"


def text_of_value(value: object, value_type: int) -> str:
    """Return a number, boolean or text as Java prints it.

    Raises:
        SelectorEvaluationError: the value has another type.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return text_of_float(value) if value_type == FLOAT_VALUE else text_of_double(value)
    raise SelectorEvaluationError("a value that is neither text, number nor boolean has no text")
