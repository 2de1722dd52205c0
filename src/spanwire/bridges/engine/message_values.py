"""Headers, properties and body of a message, as selectors and the language simple read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from spanwire.bridges.engine.changed_messages import text_of
from spanwire.bridges.engine.xpath import XPathExpression
from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import NULL_VALUE
from spanwire.model.written_destination import written_destination
from spanwire.routes.model import CONSTANT, SELECTOR, XPATH, Expression
from spanwire.routes.simple import BODY, MESSAGE_ID, Function, parse_condition, parse_template, shown
from spanwire.selector.expression import SelectorEvaluationError
from spanwire.selector.parser import parse_selector

PERSISTENT: Final = "PERSISTENT"
NON_PERSISTENT: Final = "NON_PERSISTENT"
DELIVERY_MODES: Final = {PERSISTENT: True, "2": True, NON_PERSISTENT: False, "1": False}
PRIORITIES: Final = range(10)

Condition = Callable[[BridgeMessage], bool]
Value = Callable[[BridgeMessage], object]


class MessageHeaders:
    """The values of one message for a selector."""

    def __init__(self, message: BridgeMessage) -> None:
        self._message: Final = message

    def value(self, name: str) -> object:
        """Return the header or property ``name``, or None."""
        return header(self._message, name)

    def value_type(self, name: str) -> int:
        """Return the JMS type of a property."""
        entry = self._message.property_values().get(name)
        return NULL_VALUE if entry is None or name in READERS else entry[0]


def header(message: BridgeMessage, name: str) -> object:
    """Return the JMS header or property ``name`` of a message, or None. Raises `MessageFormatError`."""
    reader = READERS.get(name)
    if reader is not None:
        return reader(message)
    entry = message.property_values().get(name)
    return None if entry is None else entry[1]


def set_header(message: BridgeMessage, name: str, value: object) -> None:
    """Set a JMS header of a message; None clears the header.

    Raises:
        MessageFormatError: the header cannot have the value.
    """
    try:
        WRITERS[name](message, value)
    except (ValueError, KeyError, InvalidDestinationError):
        raise MessageFormatError(f"{name} cannot be {shown(value)[:60]!r}") from None


def condition_of(expression: Expression) -> Condition:
    """Return the function that decides an expression; an unknown result of a selector is False."""
    if expression.language == XPATH:
        return XPathExpression(expression, text_of, header).holds
    if expression.language != SELECTOR:
        simple = parse_condition(expression.text)
        return lambda message: simple.holds(lambda function: _function(message, function))
    selector = parse_selector(expression.text)

    def decide(message: BridgeMessage) -> bool:
        try:
            return selector.evaluate(MessageHeaders(message)) is True
        except SelectorEvaluationError:
            return False

    return decide


def value_of(expression: Expression) -> Value:
    """Return the function for the value of an expression."""
    if expression.language == CONSTANT:
        return lambda message: expression.text
    if expression.language == XPATH:
        return XPathExpression(expression, text_of, header).value
    template = parse_template(expression.text)
    return lambda message: template.value(lambda function: _function(message, function))


def _function(message: BridgeMessage, function: Function) -> object:
    if function.kind == BODY:
        return text_of(message)
    return message.message_id if function.kind == MESSAGE_ID else header(message, function.name)


def _text(value: object) -> str | None:
    return None if value is None else shown(value)


def _reply_to(value: object) -> Destination | None:
    return None if value is None else written_destination(shown(value))


def _priority(value: object) -> int:
    number = 4 if value is None else int(shown(value))
    if number not in PRIORITIES:
        raise ValueError
    return number


READERS: Final[dict[str, Value]] = {
    "JMSMessageID": lambda message: message.message_id,
    "JMSType": lambda message: message.message_type,
    "JMSCorrelationID": lambda message: message.correlation_id,
    "JMSPriority": lambda message: message.priority,
    "JMSTimestamp": lambda message: message.timestamp_ms,
    "JMSExpiration": lambda message: message.expiration_ms,
    "JMSDeliveryMode": lambda message: PERSISTENT if message.persistent else NON_PERSISTENT,
    "JMSReplyTo": lambda message: None if message.reply_to is None else message.reply_to.qualified_name,
    "JMSRedelivered": lambda message: message.is_redelivered,
    "JMSXGroupID": lambda message: message.group_id,
    "JMSXGroupSeq": lambda message: message.group_sequence,
}
WRITERS: Final[dict[str, Callable[[BridgeMessage, object], None]]] = {
    "JMSType": lambda message, value: setattr(message, "message_type", _text(value)),
    "JMSCorrelationID": lambda message, value: setattr(message, "correlation_id", _text(value)),
    "JMSPriority": lambda message, value: setattr(message, "priority", _priority(value)),
    "JMSExpiration": lambda message, value: setattr(message, "expiration_ms", int(shown(value) or 0)),
    "JMSDeliveryMode": lambda message, value: setattr(message, "persistent", DELIVERY_MODES[shown(value) or "2"]),
    "JMSReplyTo": lambda message, value: setattr(message, "reply_to", _reply_to(value)),
    "JMSXGroupID": lambda message, value: setattr(message, "group_id", _text(value)),
    "JMSXGroupSeq": lambda message, value: setattr(message, "group_sequence", int(shown(value) or 0)),
}
