"""The tree of a parsed selector.

The module has the interface of the nodes, three-valued logic and the selector itself.

A node evaluates to True, False, a number, a text, or None for unknown (Java Message Service 1.1, §3.8.1.2).
`comparison.py` has the comparisons and `arithmetic.py` the arithmetic. `parser.py` builds the tree and limits its
depth, so that no evaluation recurses deeper than MAX_DEPTH.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Protocol

from spanwire.model.errors import SpanwireError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LONG_VALUE,
    NULL_VALUE,
    STRING_VALUE,
)
from spanwire.selector.numbers import integer_type, is_long, wrap_long

# Identifiers that are read from a message's headers, never from its properties, and the types of their values.
# JMSXUserID is missing because a property of that name replaces an empty header.
HEADER_TYPES: Final = {
    "JMSDestination": STRING_VALUE,
    "JMSReplyTo": STRING_VALUE,
    "JMSType": STRING_VALUE,
    "JMSDeliveryMode": STRING_VALUE,
    "JMSPriority": INT_VALUE,
    "JMSMessageID": STRING_VALUE,
    "JMSTimestamp": LONG_VALUE,
    "JMSCorrelationID": STRING_VALUE,
    "JMSExpiration": LONG_VALUE,
    "JMSRedelivered": BOOLEAN_VALUE,
    "JMSXDeliveryCount": INT_VALUE,
    "JMSXGroupID": STRING_VALUE,
    "JMSXGroupSeq": INT_VALUE,
    "JMSXGroupFirstForConsumer": BOOLEAN_VALUE,
    "JMSXProducerTXID": STRING_VALUE,
    "JMSActiveMQBrokerInTime": LONG_VALUE,
    "JMSActiveMQBrokerOutTime": LONG_VALUE,
    "JMSActiveMQBrokerPath": STRING_VALUE,
}

MAX_NARROWINGS: Final = 8  # narrowings of one expression; more would hardly reduce the candidates further


class SelectorEvaluationError(SpanwireError):
    """A selector has no result for a message, such as ``color - 1`` where color is a text.

    The message does not match.
    """


class MessageValues(Protocol):
    """Headers and properties of a message, as a selector reads them."""

    def value(self, name: str) -> object:
        """Return the header or property ``name`` as bool, int, float or str; None if absent.

        A float property is widened to double. A value of another type, such as bytes, equals no value. Headers
        (HEADER_TYPES) have ActiveMQ's forms: JMSDeliveryMode is "PERSISTENT" or "NON_PERSISTENT", destinations are
        "queue://NAME" or "topic://NAME", JMSXDeliveryCount is 1 for the first delivery, and JMSActiveMQBrokerPath is a
        text even if empty ("null").
        """

    def value_type(self, name: str) -> int:
        """Return the JMS type of the number that `value` returned.

        The types are numbered in `spanwire.model.message_view`.

        The type matters for properties in arithmetic and in comparisons with a floating-point number: int and long
        overflow differently, float and double compare differently. The default NULL_VALUE means the type follows from
        the value: int if the value fits in 32 bits, else long; double for a float.
        """
        return NULL_VALUE


class Narrowing:
    """A necessary condition of an expression: the property ``name`` is in ``values``.

    The values are all texts or all integers.

    In converting mode (``reads_texts``) a property of another kind may also be parsed as one of the values.
    """

    def __init__(self, name: str, values: list[object], reads_texts: bool) -> None:
        self.name: Final = name
        self.values: Final = values
        self.reads_texts: Final = reads_texts

    def is_like(self, other: Narrowing) -> bool:
        """Return True if both narrowings have the same property and kind of value."""
        return self.name == other.name and isinstance(self.values[0], str) == isinstance(other.values[0], str)

    def union(self, other: Narrowing) -> Narrowing:
        """Return the narrowing that allows the values of both."""
        return Narrowing(self.name, [*self.values, *other.values], self.reads_texts or other.reads_texts)


class Expression:
    """A node of the tree; ``depth`` counts its levels, ``is_boolean`` nodes never return numbers."""

    def __init__(self, depth: int, is_boolean: bool) -> None:
        self.depth: Final = depth
        self.is_boolean: Final = is_boolean

    @abstractmethod
    def evaluate(self, source: MessageValues) -> object:
        """Return the node's value for a message; raises `SelectorEvaluationError`."""

    @abstractmethod
    def value_type(self, source: MessageValues) -> int:
        """Return the JMS type of the number that `evaluate` returns; meaningless for other values."""

    def narrowings(self) -> list[Narrowing]:
        """Return conditions on single properties, each necessary for the node to be true.

        The list may be empty.
        """
        return []


class Literal(Expression):
    """A constant.

    Only a literal integer can exceed the range of long; it then equals no value of another type.
    """

    def __init__(self, value: object, value_type: int = NULL_VALUE, is_signed: bool = False) -> None:
        """Keep the constant; ``value_type`` and ``is_signed`` are set for a literal with a sign.

        -2147483648 is a long like 2147483648.
        """
        super().__init__(1, value is None or isinstance(value, bool))
        self.value: Final = value
        self.is_signed: Final = is_signed
        self._value_type: Final = value_type if value_type != NULL_VALUE else _literal_type(value)

    def evaluate(self, source: MessageValues) -> object:
        return self.value

    def value_type(self, source: MessageValues) -> int:
        return self._value_type

    def negated(self) -> Literal | None:
        """Return the literal with a minus before it, or None for a literal that is not a number."""
        value = self.value
        if isinstance(value, float):
            return Literal(-value, DOUBLE_VALUE, is_signed=True)
        if isinstance(value, int) and not isinstance(value, bool):
            if is_long(value):
                return Literal(wrap_long(-value), self._value_type, is_signed=True)
            return Literal(-value, LONG_VALUE if is_long(-value) else INT_VALUE, is_signed=True)
        return None

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str):
            return "'" + value.replace("'", "''") + "'"
        return str(value)


def _literal_type(value: object) -> int:
    if isinstance(value, bool):
        return BOOLEAN_VALUE
    if isinstance(value, int):
        return integer_type(value) if is_long(value) else INT_VALUE
    return DOUBLE_VALUE if isinstance(value, float) else STRING_VALUE


class Property(Expression):
    """A header or property of the message, by name."""

    def __init__(self, name: str) -> None:
        super().__init__(1, False)
        self.name: Final = name
        self._header_type: Final = HEADER_TYPES.get(name, NULL_VALUE)

    def evaluate(self, source: MessageValues) -> object:
        return source.value(self.name)

    def value_type(self, source: MessageValues) -> int:
        value_type = self._header_type
        if value_type == NULL_VALUE:
            value_type = source.value_type(self.name)
        if value_type == NULL_VALUE:
            value = source.value(self.name)
            value_type = integer_type(value) if isinstance(value, int) else DOUBLE_VALUE
        return value_type

    def __str__(self) -> str:
        return self.name


class Condition(Expression):
    """A node with the value True, False or None."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth, True)

    def value_type(self, source: MessageValues) -> int:
        return BOOLEAN_VALUE


class BooleanProperty(Condition):
    """A property in place of a condition: False for a value that is no boolean, unknown if missing."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        return None if value is None else value is True

    def __str__(self) -> str:
        return str(self.inner)


class Not(Condition):
    """NOT; unknown stays unknown."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        return None if value is None else value is not True

    def __str__(self) -> str:
        return f"(NOT {self.inner})"


class And(Condition):
    """AND of two or more conditions, evaluated from the left up to the first False."""

    def __init__(self, terms: list[Expression]) -> None:
        super().__init__(1 + max([term.depth for term in terms]))
        self.terms: Final = terms

    def evaluate(self, source: MessageValues) -> object:
        answer: object = True
        for term in self.terms:
            value = term.evaluate(source)
            if value is False:
                return False
            if value is None:
                answer = None
        return answer

    def narrowings(self) -> list[Narrowing]:
        """Return the narrowings of all terms."""
        narrowings: list[Narrowing] = []
        for term in self.terms:
            narrowings.extend(term.narrowings())
            if len(narrowings) >= MAX_NARROWINGS:
                break
        return narrowings[:MAX_NARROWINGS]

    def __str__(self) -> str:
        return "(" + " AND ".join([str(term) for term in self.terms]) + ")"


class Or(Condition):
    """OR of two or more conditions, evaluated from the left up to the first True."""

    def __init__(self, terms: list[Expression]) -> None:
        super().__init__(1 + max([term.depth for term in terms]))
        self.terms: Final = terms

    def evaluate(self, source: MessageValues) -> object:
        answer: object = False
        for term in self.terms:
            value = term.evaluate(source)
            if value is True:
                return True
            if value is None:
                answer = None
        return answer

    def narrowings(self) -> list[Narrowing]:
        """Return, for each property that every term narrows, the values of all terms."""
        common = self.terms[0].narrowings()
        for term in self.terms[1:]:
            others = term.narrowings()
            merged: list[Narrowing] = []
            for narrowing in common:
                for other in others:
                    if narrowing.is_like(other):
                        merged.append(narrowing.union(other))
                        break
            common = merged
            if not common:
                break
        return common

    def __str__(self) -> str:
        return "(" + " OR ".join([str(term) for term in self.terms]) + ")"


class Selector:
    """A parsed selector; immutable, so that any number of subscriptions can share it."""

    def __init__(self, text: str, root: Expression, uses_properties: bool) -> None:
        """``uses_properties`` is True if the selector reads properties, not only JMS headers."""
        self.text: Final = text
        self.uses_properties: Final = uses_properties
        self.root: Final = root

    def matches(self, source: MessageValues) -> bool:
        """Return True if the selector is true for the message; unknown and errors count as False."""
        try:
            return self.root.evaluate(source) is True
        except SelectorEvaluationError:
            return False

    def evaluate(self, source: MessageValues) -> bool | None:
        """Return True, False or None for unknown; for explanations, not for dispatch.

        Raises `SelectorEvaluationError`.
        """
        value = self.root.evaluate(source)
        return None if value is None else value is True

    def narrowings(self) -> list[Narrowing]:
        """Return conditions on single properties, each necessary for a match."""
        return self.root.narrowings()

    def __str__(self) -> str:
        """Return the selector with all parentheses, as parsed."""
        return str(self.root)
