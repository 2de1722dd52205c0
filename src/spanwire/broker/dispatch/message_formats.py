"""The message formats of the composition root, and the conversion between formats."""

from __future__ import annotations

from typing import Final

from spanwire.broker.ports import MessageFormat
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.model.message_view import MessageView, PropertyValue


class MessageFormats:
    """Message formats by ``format_id``.

    Converts through `MessageView` and caches one converted form per message.
    """

    def __init__(self, formats: dict[int, MessageFormat]) -> None:
        self._formats: Final[dict[int, MessageFormat]] = formats

    def format(self, format_id: int) -> MessageFormat:
        """Return the message format with the id ``format_id``.

        Raises:
            StoreError: the format is unknown, such as a format of a later version of Spanwire.
        """
        message_format = self._formats.get(format_id)
        if message_format is None:
            raise StoreError(f"message format {format_id} is unknown: it was written by a newer version of Spanwire")
        return message_format

    def index(self, format_id: int, raw: bytes) -> Message:
        """Return the message that the store read as ``raw``."""
        return self.format(format_id).index(raw)

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        """Return the message's properties, decoded on the first call."""
        cached = message.properties_cache
        if cached is None:
            cached = self.format(message.format_id).properties(message)
            message.properties_cache = cached
        return cached

    def header(self, message: Message, name: str) -> object:
        """Return a JMS header that only the format can decode."""
        return self.format(message.format_id).header(message, name)

    def view(self, message: Message) -> MessageView:
        """Return the whole message in neutral form."""
        return self.format(message.format_id).view(message)

    def converted(self, message: Message, format_id: int) -> Message:
        """Return the message in another format.

        Raises:
            MessageFormatError: the message cannot be decoded.
        """
        if message.format_id == format_id:
            return message
        cached = message.converted
        if cached is not None and cached.format_id == format_id:
            return cached
        other = self.format(format_id).encode_from_view(self.view(message))
        message.converted = other
        return other
