"""Values of a message for selectors: JMS headers from parsed fields, properties decoded on first use."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import NULL_VALUE
from spanwire.selector.expression import MessageValues, Selector


class MessageEvaluationContext(MessageValues):
    """Values of one message at a time.

    The broker has a single instance and binds a message for each evaluation.
    """

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final[MessageFormats] = formats
        self._message: Message | None = None
        self._redelivery_count = 0

    def bind(self, message: Message, redelivery_count: int) -> None:
        """Use ``message`` for the following lookups."""
        self._message = message
        self._redelivery_count = redelivery_count

    def release(self) -> None:
        """Release the bound message."""
        self._message = None

    def matches(self, selector: Selector, message: Message, redelivery_count: int) -> bool:
        """Return True if ``selector`` is TRUE for ``message``.

        A message with undecodable properties matches no selector.
        """
        self._message = message
        self._redelivery_count = redelivery_count
        try:
            return selector.matches(self)
        except (JmsError, ProtocolError):
            return False
        finally:
            self._message = None

    def group_sequence(self, message: Message) -> int:
        """Return JMSXGroupSeq, or 0 for a message without this property."""
        try:
            value = self._formats.header(message, "JMSXGroupSeq")
        except (JmsError, ProtocolError):
            return 0
        return value if isinstance(value, int) else 0

    def first_for_consumer(self, message: Message) -> Message:
        """Return a copy with JMSXGroupFirstForConsumer, or the message itself if decoding fails."""
        try:
            return self._formats.format(message.format_id).first_for_consumer(message)
        except (JmsError, ProtocolError):
            return message

    def value(self, name: str) -> object:
        """Return a JMS header or property of the bound message, or None if the message has no such name."""
        message = self._message
        assert message is not None
        if not name.startswith("JMS"):
            entry = self._formats.properties(message).get(name)
            return None if entry is None else entry[1]
        if name == "JMSPriority":
            return message.priority
        if name == "JMSTimestamp":
            return message.timestamp_ms
        if name == "JMSExpiration":
            return message.expiration_ms
        if name == "JMSDeliveryMode":
            return "PERSISTENT" if message.persistent else "NON_PERSISTENT"
        if name == "JMSMessageID":
            return str(message.message_id)
        if name == "JMSRedelivered":
            return self._redelivery_count > 0
        if name == "JMSXDeliveryCount":
            return self._redelivery_count + 1
        return self._rare_header(message, name)

    def _rare_header(self, message: Message, name: str) -> object:
        value = self._formats.header(message, name)
        if value is not None:
            return value
        if name == "JMSDestination":
            return message.destination.qualified_name
        entry = self._formats.properties(message).get(name)
        return None if entry is None else entry[1]

    def value_type(self, name: str) -> int:
        """Return the JMS type of a property of the bound message."""
        message = self._message
        assert message is not None
        entry = self._formats.properties(message).get(name)
        return NULL_VALUE if entry is None else entry[0]
