"""A message on the way between two providers."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.model.destination import Destination
from spanwire.model.errors import SpanwireError
from spanwire.model.message_view import PropertyValue


class MessageContent(Protocol):
    """Body and properties of a received message, decoded on demand by the source's provider."""

    def neutral_body(self) -> bytes | None:
        """Return the body in the encoding of `spanwire.model.message_view`. Raises `MessageFormatError`."""
        ...

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the properties with wire types. Raises `MessageFormatError`."""
        ...


class NamedContent(Protocol):
    """A received message that decodes its id on demand."""

    @property
    def message_id(self) -> str:
        """Return the id."""
        ...


class BridgeMessage:
    """Headers of a message by JMS meaning, and the content of the source's provider.

    A target of the same provider may forward the encoded ``content`` unchanged, except for ``properties`` of a step.
    ``size`` is the size of the message in memory, in octets. ``kind`` is a kind of `spanwire.model.message_view`.
    ``expiration_ms`` is 0 for a message without expiration.
    """

    __slots__ = (
        "_message_id",
        "content",
        "correlation_id",
        "expiration_ms",
        "group_id",
        "group_sequence",
        "is_redelivered",
        "kind",
        "message_type",
        "persistent",
        "priority",
        "properties",
        "reply_to",
        "size",
        "timestamp_ms",
    )

    def __init__(self, message_id: str | NamedContent, kind: int, content: MessageContent, size: int) -> None:
        self._message_id: str | NamedContent = message_id
        self.kind: Final[int] = kind
        self.content: Final[MessageContent] = content
        self.size: Final[int] = size
        self.properties: dict[str, PropertyValue] | None = None
        self.persistent = True
        self.priority = 4
        self.expiration_ms = 0
        self.timestamp_ms = 0
        self.correlation_id: str | None = None
        self.message_type: str | None = None
        self.reply_to: Destination | None = None
        self.group_id: str | None = None
        self.group_sequence = 0
        self.is_redelivered = False

    @property
    def message_id(self) -> str:
        """The id at the source; an empty text without one."""
        named = self._message_id
        if isinstance(named, str):
            return named
        try:
            found = named.message_id
        except SpanwireError:  # an id of neither a producer nor a text
            found = ""
        self._message_id = found
        return found

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the properties to send: the properties set by a step, or the properties of the content."""
        return self.content.property_values() if self.properties is None else self.properties
