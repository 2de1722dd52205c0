"""A message format for tests of the broker core and the stores: four length-prefixed texts and a body.

producer id (connection:session:value) | producer sequence | qualified destination | body
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import RemoteProtocolError
from spanwire.model.ids import ProducerId
from spanwire.model.message import DEFAULT_PRIORITY, Message
from spanwire.model.message_view import BYTES, LONG_VALUE, MessageView, PropertyValue

FORMAT_PLAIN: Final = 200
MAGIC: Final = b"PLAIN"


def plain_message(
    destination: Destination, number: int, body: bytes = b"", connection_id: str = "ID:test:1"
) -> Message:
    """The ``number``-th message of one producer."""
    head = f"{connection_id}\n{number}\n{destination.qualified_name}\n".encode()
    return PlainFormat().index(MAGIC + len(head).to_bytes(4, "big") + head + body)


def plain_formats() -> MessageFormats:
    """Formats with this one alone."""
    return MessageFormats({FORMAT_PLAIN: PlainFormat()})


def body_of(message: Message) -> bytes:
    """The body of a plain message."""
    return message.raw[message.content_start :]


class PlainFormat:
    """Duck-typed to `spanwire.broker.ports.MessageFormat`."""

    def index(self, raw: bytes) -> Message:
        start = len(MAGIC) + 4
        end = start + int.from_bytes(raw[len(MAGIC) : start], "big")
        if raw[: len(MAGIC)] != MAGIC or end > len(raw):
            raise RemoteProtocolError("this is no plain message")
        connection_id, number, name = raw[start:end].decode().split("\n")[:3]
        return Message(
            FORMAT_PLAIN,
            raw,
            end,
            len(raw),
            len(raw),
            parse_destination(name),
            ProducerId(connection_id, 1, 1),
            int(number),
            True,
            DEFAULT_PRIORITY,
            0,
            0,
        )

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        return {"number": (LONG_VALUE, message.message_id.sequence)}

    def header(self, message: Message, name: str) -> object:
        return None

    def view(self, message: Message) -> MessageView:
        view = MessageView(BYTES, message.destination, message.message_id)
        view.persistent = message.persistent
        view.body = body_of(message)
        return view

    def encode_from_view(self, view: MessageView) -> Message:
        message_id = view.message_id
        connection_id = message_id.producer_id.connection_id
        return plain_message(view.destination, message_id.sequence, view.body or b"", connection_id)

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        return message

    def first_for_consumer(self, message: Message) -> Message:
        return message

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        message_id = message.message_id
        connection_id = message_id.producer_id.connection_id
        return plain_message(destination, message_id.sequence, body_of(message), connection_id)
