"""What a selector may ask of a message: JMS headers from the parsed fields, properties decoded on first use."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import NULL_VALUE
from spanwire.selector.expression import MessageValues, Selector


class BoundMessageValues(MessageValues):
    """The values of one message at a time; the broker has one of these and binds it anew for each evaluation."""

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final[MessageFormats] = formats
        self._message: Message | None = None
        self._redelivery_count = 0

    def bind(self, message: Message, redelivery_count: int) -> None:
        """What is asked next is asked of this message."""
        self._message = message
        self._redelivery_count = redelivery_count

    def release(self) -> None:
        """Nothing more is asked of it."""
        self._message = None

    def matches(self, selector: Selector, message: Message, redelivery_count: int) -> bool:
        """Whether ``selector`` is TRUE for ``message``. A message whose properties cannot be decoded matches
        nothing.
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
        """JMSXGroupSeq, 0 when it has none."""
        try:
            found = self._formats.header(message, "JMSXGroupSeq")
        except (JmsError, ProtocolError):
            return 0
        return found if isinstance(found, int) else 0

    def first_for_consumer(self, message: Message) -> Message:
        """A copy that says JMSXGroupFirstForConsumer; the message itself when it cannot be decoded."""
        try:
            return self._formats.format(message.format_id).first_for_consumer(message)
        except (JmsError, ProtocolError):
            return message

    def value(self, name: str) -> object:
        """A JMS header or property of the bound message; None when it has none of that name."""
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
        found = self._formats.header(message, name)
        if found is not None:
            return found
        if name == "JMSDestination":
            return message.destination.qualified_name
        entry = self._formats.properties(message).get(name)
        return None if entry is None else entry[1]

    def value_type(self, name: str) -> int:
        """The JMS type of a property of the bound message."""
        message = self._message
        assert message is not None
        entry = self._formats.properties(message).get(name)
        return NULL_VALUE if entry is None else entry[0]
