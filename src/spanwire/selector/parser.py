"""Parser of selectors (Java Message Service 1.1, §3.8.1).

All texts of ActiveMQ Classic 5.17 are accepted.

Operators from loose to tight, all left-associative. NOT binds tighter than all operators: ``NOT a = b`` is ``(NOT a) =
b``.

    OR    AND    = <> IS    < <= > >= LIKE IN BETWEEN    + -    * / %

Text length, tree depth and node count are limited, so that a hostile selector costs a few milliseconds at most.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import InvalidSelectorError
from spanwire.selector.arithmetic import Arithmetic, Negation
from spanwire.selector.comparison import (
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    Between,
    Equality,
    IsNull,
    Like,
    Membership,
    Ordering,
    RegexCall,
)
from spanwire.selector.expression import (
    HEADER_TYPES,
    And,
    BooleanProperty,
    Expression,
    Literal,
    Not,
    Or,
    Property,
    Selector,
)
from spanwire.selector.lexer import (
    DECIMAL,
    END,
    FLOATING,
    HEXADECIMAL,
    IDENTIFIER,
    KEYWORD,
    OCTAL,
    STRING,
    SYMBOL,
    Lexer,
    Token,
    quoted,
)
from spanwire.selector.numbers import is_long

CONVERT_STRING_EXPRESSIONS: Final = "convert_string_expressions:"  # ActiveMQ's prefix that enables converting mode

MAX_TEXT_BYTES: Final = 8 * 1024  # bytes of UTF-8 without the prefix; selectors of people have a few hundred
MAX_DEPTH: Final = 64  # levels of parentheses and of the tree; each takes three stack frames to parse, one to evaluate
MAX_NODES: Final = 1000  # operators, operands and members of IN lists; bounds the time of one evaluation
MAX_INTEGER_DIGITS: Final = 100  # decimal digits; a long has 19, and Python refuses more than 4,300

_OR_LEVEL: Final = 1
_AND_LEVEL: Final = 2
_EQUALITY_LEVEL: Final = 3
_COMPARISON_LEVEL: Final = 4
_SUM_LEVEL: Final = 5
_PRODUCT_LEVEL: Final = 6

_LEVELS: Final = {
    "OR": _OR_LEVEL,
    "AND": _AND_LEVEL,
    "=": _EQUALITY_LEVEL,
    "<>": _EQUALITY_LEVEL,
    "IS": _EQUALITY_LEVEL,
    ">": _COMPARISON_LEVEL,
    ">=": _COMPARISON_LEVEL,
    "<": _COMPARISON_LEVEL,
    "<=": _COMPARISON_LEVEL,
    "LIKE": _COMPARISON_LEVEL,
    "IN": _COMPARISON_LEVEL,
    "BETWEEN": _COMPARISON_LEVEL,
    "+": _SUM_LEVEL,
    "-": _SUM_LEVEL,
    "*": _PRODUCT_LEVEL,
    "/": _PRODUCT_LEVEL,
    "%": _PRODUCT_LEVEL,
}
_ORDERINGS: Final = {">": GREATER, ">=": GREATER_OR_EQUAL, "<": LESS, "<=": LESS_OR_EQUAL}


def parse_selector(text: str) -> Selector:
    """Parse a selector, with or without ActiveMQ's prefix for converting mode.

    An empty text is invalid here; in a subscription the caller treats an empty text as no selector.

    Raises:
        InvalidSelectorError: the text is no selector or too large; the message names column and problem on one line.
    """
    is_converting = text.startswith(CONVERT_STRING_EXPRESSIONS)
    body = text[len(CONVERT_STRING_EXPRESSIONS) :] if is_converting else text
    if len(body) > MAX_TEXT_BYTES or len(body.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise InvalidSelectorError(f"the selector is longer than {MAX_TEXT_BYTES} bytes")
    parser = Parser(body, is_converting)
    root = parser.condition()
    return Selector(text, root, parser.uses_properties)


class Parser:
    """Parses a selector, whose length the caller has checked, by operator precedence."""

    def __init__(self, text: str, is_converting: bool) -> None:
        self.uses_properties = False
        self._text: Final = text
        self._is_converting: Final = is_converting
        self._tokens: Final[list[Token]] = Lexer(text).tokens()
        self._index = 0
        self._nodes = 0

    def condition(self) -> Expression:
        """Parse the whole text as a condition; raises `InvalidSelectorError`."""
        start = self._token()
        root = self._boolean(self._expression(_OR_LEVEL, 0), start)
        if self._token().kind != END:
            raise self._unexpected("an operator or the end")
        return root

    def _token(self) -> Token:
        return self._tokens[self._index]

    def _is(self, kind: int, text: str) -> bool:
        token = self._tokens[self._index]
        return token.kind == kind and token.text == text

    def _take(self, kind: int, text: str) -> bool:
        if self._is(kind, text):
            self._index += 1
            return True
        return False

    def _expect(self, kind: int, text: str) -> None:
        if not self._take(kind, text):
            raise self._unexpected(f"'{text}'")

    def _expect_string(self) -> str:
        token = self._token()
        if token.kind != STRING:
            raise self._unexpected("a string")
        self._index += 1
        return token.text

    def _error(self, problem: str, token: Token) -> InvalidSelectorError:
        return InvalidSelectorError(f"{problem} at column {token.position + 1} of the selector {quoted(self._text)}")

    def _unexpected(self, expected: str) -> InvalidSelectorError:
        token = self._token()
        return self._error(f"expected {expected} but found {token.description()}", token)

    def _admit(self, node: Expression, token: Token) -> Expression:
        """Check the limits of nodes and depth; every node of the tree passes here."""
        self._count(1, token)
        if node.depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", token)
        return node

    def _count(self, nodes: int, token: Token) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} operators and operands", token)

    def _boolean(self, node: Expression, token: Token) -> Expression:
        if node.is_boolean:
            return node
        if isinstance(node, Property):
            return self._admit(BooleanProperty(node), token)
        raise self._error(f"expected a condition but found the value {quoted(str(node))}", token)

    def _expression(self, level: int, depth: int) -> Expression:
        """Parse operands joined by operators of at least ``level``.

        ``depth`` counts the levels of parentheses and signs.
        """
        start = self._token()
        left = self._operand(depth)
        while True:
            token = self._token()
            operator_level = self._level_of(token)
            if operator_level < level or operator_level == 0:
                return left
            if operator_level <= _AND_LEVEL:
                left = self._junction(left, start, operator_level, depth)
            elif operator_level == _EQUALITY_LEVEL:
                left = self._equality(left, depth)
            elif operator_level == _COMPARISON_LEVEL:
                left = self._comparison(left, depth)
            else:
                self._index += 1
                left = self._admit(Arithmetic(token.text, left, self._expression(operator_level + 1, depth)), token)

    def _level_of(self, token: Token) -> int:
        """Return the precedence of the operator at ``token``, or 0 for other tokens."""
        if token.kind not in (KEYWORD, SYMBOL):
            return 0
        if token.text == "NOT":
            following = self._tokens[self._index + 1]
            is_test = following.kind == KEYWORD and following.text in ("LIKE", "IN", "BETWEEN")
            return _COMPARISON_LEVEL if is_test else 0
        return _LEVELS.get(token.text, 0)

    def _junction(self, left: Expression, start: Token, level: int, depth: int) -> Expression:
        """Parse a run of AND or OR into one node, so that a long run is not a deep tree."""
        operator = self._token()
        terms = [self._boolean(left, start)]
        while self._take(KEYWORD, operator.text):
            token = self._token()
            terms.append(self._boolean(self._expression(level + 1, depth), token))
        return self._admit(And(terms) if level == _AND_LEVEL else Or(terms), operator)

    def _equality(self, left: Expression, depth: int) -> Expression:
        operator = self._token()
        self._index += 1
        if operator.text == "IS":
            is_negated = self._take(KEYWORD, "NOT")
            self._expect(KEYWORD, "NULL")
            node = self._admit(IsNull(left), operator)
            return self._admit(Not(node), operator) if is_negated else node
        right = self._expression(_COMPARISON_LEVEL, depth)
        for operand in (left, right):
            if isinstance(operand, Literal) and operand.value is None:
                raise self._error("NULL cannot be compared, use IS NULL", operator)
        if _is_plain_literal(left) and _is_plain_literal(right) and left.is_boolean and not right.is_boolean:
            raise self._error(f"{left} cannot be compared with {quoted(str(right))}", operator)
        node = self._admit(Equality(left, right, self._is_converting), operator)
        return self._admit(Not(node), operator) if operator.text == "<>" else node

    def _comparison(self, left: Expression, depth: int) -> Expression:
        is_negated = self._take(KEYWORD, "NOT")
        operator = self._token()
        self._index += 1
        if operator.text == "LIKE":
            return self._like(left, operator, is_negated)
        if operator.text == "IN":
            return self._membership(left, operator, is_negated)
        if operator.text == "BETWEEN":
            return self._between(left, operator, is_negated, depth)
        right = self._expression(_SUM_LEVEL, depth)
        return self._admit(self._ordering(left, right, _ORDERINGS[operator.text], operator), operator)

    def _ordering(self, left: Expression, right: Expression, operation: int, operator: Token) -> Ordering:
        for operand in (left, right):
            value: object = 0
            if isinstance(operand, Literal):
                value = operand.value
            if operand.is_boolean or isinstance(value, str):
                raise self._error(f"only numbers have an order, {quoted(str(operand))} has none", operator)
        return Ordering(left, right, operation, self._is_converting)

    def _between(self, value: Expression, operator: Token, is_negated: bool, depth: int) -> Expression:
        low = self._expression(_SUM_LEVEL, depth)
        self._expect(KEYWORD, "AND")
        high = self._expression(_SUM_LEVEL, depth)
        first = self._ordering(value, low, LESS if is_negated else GREATER_OR_EQUAL, operator)
        second = self._ordering(value, high, GREATER if is_negated else LESS_OR_EQUAL, operator)
        return self._admit(Between(value, first, second, is_negated), operator)

    def _like(self, left: Expression, operator: Token, is_negated: bool) -> Expression:
        pattern = self._expect_string()
        escape = self._expect_string() if self._take(KEYWORD, "ESCAPE") else None
        node = self._admit(Like(left, pattern, escape), operator)
        return self._admit(Not(node), operator) if is_negated else node

    def _membership(self, left: Expression, operator: Token, is_negated: bool) -> Expression:
        self._expect(SYMBOL, "(")
        texts = [self._expect_string()]
        while self._take(SYMBOL, ","):
            texts.append(self._expect_string())
        self._expect(SYMBOL, ")")
        self._count(len(texts), operator)
        if not isinstance(left, Property):
            raise self._error(f"expected a property before IN but found {quoted(str(left))}", operator)
        return self._admit(Membership(left, texts, is_negated), operator)

    def _operand(self, depth: int) -> Expression:
        token = self._token()
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", token)
        if self._take(SYMBOL, "+"):
            return self._operand(depth + 1)
        if self._take(SYMBOL, "-"):
            return self._negation(self._operand(depth + 1), token)
        if self._take(KEYWORD, "NOT"):
            following = self._token()
            return self._admit(Not(self._boolean(self._operand(depth + 1), following)), token)
        if self._take(SYMBOL, "("):
            inner = self._expression(_OR_LEVEL, depth + 1)
            self._expect(SYMBOL, ")")
            return inner
        if token.kind == IDENTIFIER:
            return self._property_or_function(token, depth)
        return self._admit(self._literal(token), token)

    def _negation(self, inner: Expression, token: Token) -> Expression:
        """Apply the sign of a literal: -9223372036854775808 is a long, its digits without the sign are not."""
        literal = inner.negated() if isinstance(inner, Literal) else None
        return self._admit(Negation(inner) if literal is None else literal, token)

    def _property_or_function(self, token: Token, depth: int) -> Expression:
        self._index += 1
        if not self._take(SYMBOL, "("):
            self.uses_properties = self.uses_properties or token.text not in HEADER_TYPES
            return self._admit(Property(token.text), token)
        if token.text != "REGEX":
            raise self._error(f"the function {quoted(token.text)} is not supported, only REGEX is", token)
        pattern = self._expect_string()
        self._expect(SYMBOL, ",")
        inner = self._operand(depth + 1)
        self._expect(SYMBOL, ")")
        return self._admit(RegexCall(pattern, inner), token)

    def _literal(self, token: Token) -> Literal:
        kind, text = token.kind, token.text
        if kind == KEYWORD and text in ("XPATH", "XQUERY"):
            raise self._error(f"{text} selectors are not supported", token)
        if kind in (END, SYMBOL, KEYWORD) and text not in ("TRUE", "FALSE", "NULL"):
            raise self._unexpected("a value")
        self._index += 1
        if kind == STRING:
            return Literal(text)
        if kind == FLOATING:
            return Literal(float(text))
        if kind in (DECIMAL, HEXADECIMAL, OCTAL):
            return Literal(self._integer(token))
        return Literal(None if text == "NULL" else text == "TRUE")

    def _integer(self, token: Token) -> int:
        if token.kind == DECIMAL:
            if len(token.text) > MAX_INTEGER_DIGITS:
                raise self._error(f"an integer of more than {MAX_INTEGER_DIGITS} digits", token)
            return int(token.text)
        value = int(token.text, 16 if token.kind == HEXADECIMAL else 8)
        if not is_long(value):
            raise self._error("an integer of more than 63 bits", token)
        return value


def _is_plain_literal(node: Expression) -> bool:
    """Return True for a literal without a sign; a sign makes an expression of a literal."""
    return isinstance(node, Literal) and not node.is_signed
