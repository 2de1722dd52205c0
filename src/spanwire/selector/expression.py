"""The tree of a parsed selector: the contract of its nodes, three-valued logic and the selector itself.

A node answers for one message at a time: True, False, a number, a text, or None for unknown (Java Message Service
1.1, §3.8.1.2). Comparisons live in `comparison.py`, arithmetic in `arithmetic.py`; `parser.py` builds the tree and
bounds its depth, so that no evaluation recurses deeper than MAX_DEPTH.
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
# JMSXUserID is not among them: where the header is empty, a property of that name counts.
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

MAX_NARROWINGS: Final = 8  # of one expression that are looked at; more would hardly narrow any further


class SelectorEvaluationError(SpanwireError):
    """A selector cannot be decided for a message, such as ``color - 1`` where color is a text. It does not match."""


class MessageValues(Protocol):
    """What a selector sees of a message."""

    def value(self, name: str) -> object:
        """The header or property `name` as bool, int, float or str; None if there is none.

        A float property comes widened to double. Anything else, bytes say, is a value that equals nothing. Headers
        (HEADER_TYPES) as ActiveMQ shows them: JMSDeliveryMode is "PERSISTENT" or "NON_PERSISTENT", destinations are
        "queue://NAME" or "topic://NAME", JMSXDeliveryCount is 1 for the first delivery, JMSActiveMQBrokerPath is a
        text even if empty ("null").
        """

    def value_type(self, name: str) -> int:
        """The JMS type of the number that `value` gave, as numbered in `spanwire.model.message_view`.

        Asked for properties in arithmetic and in comparisons with a floating-point number only, where int and long
        overflow differently and float and double compare differently. NULL_VALUE, the default, means judge by the
        value: an int if it fits in 32 bits, else a long; a double.
        """
        return NULL_VALUE


class Narrowing:
    """What an expression needs to be true: the property ``name`` is one of ``values``, all texts or all integers.

    In converting mode (``reads_texts``) a property of another kind may also be read as one of them.
    """

    def __init__(self, name: str, values: list[object], reads_texts: bool) -> None:
        self.name: Final = name
        self.values: Final = values
        self.reads_texts: Final = reads_texts

    def is_like(self, other: Narrowing) -> bool:
        """Whether both speak of the same property and kind of value."""
        return self.name == other.name and isinstance(self.values[0], str) == isinstance(other.values[0], str)

    def union(self, other: Narrowing) -> Narrowing:
        """One or the other."""
        return Narrowing(self.name, [*self.values, *other.values], self.reads_texts or other.reads_texts)


class Expression:
    """A node. `depth` counts the levels of the tree below and including it; `is_boolean` nodes never give numbers."""

    def __init__(self, depth: int, is_boolean: bool) -> None:
        self.depth: Final = depth
        self.is_boolean: Final = is_boolean

    @abstractmethod
    def evaluate(self, source: MessageValues) -> object:
        """The node's value for one message; raises SelectorEvaluationError."""

    @abstractmethod
    def value_type(self, source: MessageValues) -> int:
        """The JMS type of the number that `evaluate` gives; without meaning where it gives none."""

    def narrowings(self) -> list[Narrowing]:
        """What must hold, each for itself, of single properties wherever the node is true; may well be nothing."""
        return []


class Literal(Expression):
    """A constant. Only a literal integer can lie outside the range of long; it then equals no other type's value."""

    def __init__(self, value: object, value_type: int = NULL_VALUE, is_signed: bool = False) -> None:
        """`value_type` and `is_signed` are given for a literal with a sign: -2147483648 is a long, as 2147483648 is."""
        super().__init__(1, value is None or isinstance(value, bool))
        self.value: Final = value
        self.is_signed: Final = is_signed
        self._value_type: Final = value_type if value_type != NULL_VALUE else _literal_type(value)

    def evaluate(self, source: MessageValues) -> object:
        return self.value

    def value_type(self, source: MessageValues) -> int:
        return self._value_type

    def negated(self) -> Literal | None:
        """The literal with a minus before it; None if it is no number."""
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
    """A node whose value is True, False or None."""

    def __init__(self, depth: int) -> None:
        super().__init__(depth, True)

    def value_type(self, source: MessageValues) -> int:
        return BOOLEAN_VALUE


class BooleanProperty(Condition):
    """A property where a condition is expected: what is no boolean counts as False, what is missing as unknown."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        return None if value is None else value is True

    def __str__(self) -> str:
        return str(self.inner)


class Not(Condition):
    """NOT: unknown stays unknown."""

    def __init__(self, inner: Expression) -> None:
        super().__init__(inner.depth + 1)
        self.inner: Final = inner

    def evaluate(self, source: MessageValues) -> object:
        value = self.inner.evaluate(source)
        return None if value is None else value is not True

    def __str__(self) -> str:
        return f"(NOT {self.inner})"


class And(Condition):
    """AND of two or more conditions, from the left, up to the first that is False."""

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
        """Those of all terms."""
        narrowings: list[Narrowing] = []
        for term in self.terms:
            narrowings.extend(term.narrowings())
            if len(narrowings) >= MAX_NARROWINGS:
                break
        return narrowings[:MAX_NARROWINGS]

    def __str__(self) -> str:
        return "(" + " AND ".join([str(term) for term in self.terms]) + ")"


class Or(Condition):
    """OR of two or more conditions, from the left, up to the first that is True."""

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
        """For each property that every term narrows, the values of all terms."""
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
    """A parsed selector. Holds nothing of a message and never changes: any number of subscriptions can share it."""

    def __init__(self, text: str, root: Expression, uses_properties: bool) -> None:
        """`uses_properties`: whether anything but JMS headers is read, so that a message's properties are needed."""
        self.text: Final = text
        self.uses_properties: Final = uses_properties
        self.root: Final = root

    def matches(self, source: MessageValues) -> bool:
        """Whether the selector is true for this message. Unknown, false and what cannot be evaluated are not."""
        try:
            return self.root.evaluate(source) is True
        except SelectorEvaluationError:
            return False

    def evaluate(self, source: MessageValues) -> bool | None:
        """True, False or None for unknown; raises SelectorEvaluationError. For explanations, not for dispatch."""
        value = self.root.evaluate(source)
        return None if value is None else value is True

    def narrowings(self) -> list[Narrowing]:
        """What must hold, each for itself, of single properties wherever the selector matches."""
        return self.root.narrowings()

    def __str__(self) -> str:
        """The selector as it was understood, with all parentheses."""
        return str(self.root)
