"""What a selector may ask of a message: JMS headers from the parsed fields, properties decoded on first use."""

from __future__ import annotations

from typing import Final

from spanwire.broker.formats import MessageFormats
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.selector.expression import MessageValues, Selector


class BoundMessageValues(MessageValues):
    """The values of one message at a time; the broker has one of these and binds it anew for each evaluation."""

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final[MessageFormats] = formats
        self._message: Message | None = None

    def matches(self, selector: Selector, message: Message) -> bool:
        """Whether ``selector`` is TRUE for ``message``. A message whose properties cannot be decoded matches
        nothing.
        """
        self._message = message
        try:
            return selector.matches(self)
        except (JmsError, ProtocolError):
            return False
        finally:
            self._message = None

    def value(self, name: str) -> object:
        """A JMS header or property of the bound message; None when it has none of that name."""
        message = self._message
        assert message is not None
        if not name.startswith("JMS"):
            return self._formats.properties(message).get(name)
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
        if name == "JMSDestination":
            return message.destination.qualified_name
        found = self._formats.header(message, name)
        return found if found is not None else self._formats.properties(message).get(name)
