"""A message format for dialogues with the broker: a JSON head with every routing field, then the body.

4 bytes length of the head | head | body
"""

from __future__ import annotations

import json
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import MessageFormatError, RemoteProtocolError
from spanwire.model.ids import ProducerId
from spanwire.model.message import DEFAULT_PRIORITY, Message
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTES,
    LONG_VALUE,
    STRING_VALUE,
    MessageView,
    PropertyValue,
)

FORMAT_TEXT: Final = 201
UNREADABLE: Final = b"unreadable"  # a body whose message has no neutral view


def text_message(
    destination: Destination,
    number: int,
    body: bytes = b"",
    connection_id: str = "ID:test:1",
    *,
    persistent: bool = True,
    expiration_ms: int = 0,
    priority: int = DEFAULT_PRIORITY,
    properties: dict[str, object] | None = None,
    original: str | None = None,
    group: str | None = None,
    group_sequence: int = 0,
    first: bool = False,
    timestamp_ms: int = 0,
    reply_to: str | None = None,
) -> Message:
    """The ``number``-th message of the producer 1:1 of a connection."""
    head = {
        "connection": connection_id,
        "number": number,
        "destination": destination.qualified_name,
        "persistent": persistent,
        "expiration": expiration_ms,
        "priority": priority,
        "properties": properties if properties is not None else {},
        "original": original,
        "group": group or None,
        "group_sequence": group_sequence,
        "first": first,
        "timestamp": timestamp_ms,
        "reply_to": reply_to,
    }
    encoded = json.dumps(head).encode()
    return TextFormat().index(len(encoded).to_bytes(4, "big") + encoded + body)


def text_formats() -> MessageFormats:
    """Formats with this one alone."""
    return MessageFormats({FORMAT_TEXT: TextFormat()})


def text_of(message: Message) -> str:
    """The body as text."""
    return message.raw[message.content_start :].decode()


def original_of(message: Message) -> str | None:
    """The original destination, which a readdressed or dead copy carries."""
    found = _head(message)["original"]
    return None if found is None else str(found)


def user_of(message: Message) -> str | None:
    """Whose message the broker says it is, empty for nobody; None if it does not say."""
    found = _head(message).get("user")
    return None if found is None else str(found)


def properties_of(message: Message) -> dict[str, object]:
    """The properties."""
    found = _head(message)["properties"]
    assert isinstance(found, dict)
    return found


def is_first(message: Message) -> bool:
    """Whether it says that it is the first of its group for its consumer."""
    return bool(_head(message)["first"])


def _head(message: Message) -> dict[str, object]:
    found: dict[str, object] = json.loads(message.raw[4 : message.content_start])
    return found


def _number(message: Message, name: str) -> int:
    number = _head(message)[name]
    assert isinstance(number, int)
    return number


class TextFormat:
    """Duck-typed to `spanwire.broker.ports.MessageFormat`."""

    def index(self, raw: bytes) -> Message:
        start = 4 + int.from_bytes(raw[:4], "big")
        if start > len(raw):
            raise RemoteProtocolError("this is no text message")
        head = json.loads(raw[4:start])
        return Message(
            FORMAT_TEXT,
            raw,
            start,
            len(raw),
            len(raw),
            parse_destination(head["destination"]),
            ProducerId(head["connection"], 1, 1),
            head["number"],
            head["persistent"],
            head["priority"],
            head["expiration"],
            head["timestamp"],
            head["group"],
        )

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        return {name: (_type_of(value), value) for name, value in properties_of(message).items()}

    def header(self, message: Message, name: str) -> object:
        if name == "JMSXGroupSeq":
            return _head(message)["group_sequence"]
        return "a type" if name == "JMSType" else None

    def view(self, message: Message) -> MessageView:
        if message.raw[message.content_start :] == UNREADABLE:
            raise MessageFormatError("the message cannot be decoded")
        view = MessageView(BYTES, message.destination, message.message_id)
        original = original_of(message)
        view.original_destination = None if original is None else parse_destination(original)
        view.persistent = message.persistent
        view.priority = message.priority
        view.expiration_ms = message.expiration_ms
        view.timestamp_ms = message.timestamp_ms
        view.group_id = message.group_id
        view.group_sequence = _number(message, "group_sequence")
        reply_to = _head(message)["reply_to"]
        view.reply_to = None if reply_to is None else parse_destination(str(reply_to))
        view.properties = self.properties(message)
        view.body = message.raw[message.content_start :]
        return view

    def encode_from_view(self, view: MessageView) -> Message:
        original = view.original_destination
        return text_message(
            view.destination,
            view.message_id.sequence,
            view.body or b"",
            view.message_id.producer_id.connection_id,
            persistent=view.persistent,
            expiration_ms=view.expiration_ms,
            priority=view.priority,
            properties=_plain(view.properties),
            original=None if original is None else original.qualified_name,
            group=view.group_id,
            group_sequence=view.group_sequence,
            timestamp_ms=view.timestamp_ms,
            reply_to=None if view.reply_to is None else view.reply_to.qualified_name,
        )

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        reply_to = _head(message)["reply_to"]
        return text_message(
            destination,
            message.message_id.sequence,
            message.raw[message.content_start :],
            message.message_id.producer_id.connection_id,
            persistent=message.persistent,
            timestamp_ms=message.timestamp_ms,
            expiration_ms=message.expiration_ms,
            priority=message.priority,
            properties=properties_of(message),
            original=original_of(message) or (message.destination.qualified_name if names_original else None),
            group=message.group_id,
            group_sequence=_number(message, "group_sequence"),
            reply_to=None if reply_to is None else str(reply_to),
        )

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        head = {**_head(message), "timestamp": timestamp_ms, "expiration": expiration_ms, "persistent": persistent}
        if user_id is not None:
            head["user"] = user_id
        encoded = json.dumps(head).encode()
        return self.index(len(encoded).to_bytes(4, "big") + encoded + message.raw[message.content_start :])

    def first_for_consumer(self, message: Message) -> Message:
        head = {**_head(message), "first": True}
        encoded = json.dumps(head).encode()
        return self.index(len(encoded).to_bytes(4, "big") + encoded + message.raw[message.content_start :])


def _plain(properties: dict[str, PropertyValue]) -> dict[str, object]:
    return {name: value for name, (_, value) in properties.items()}


def _type_of(value: object) -> int:
    if isinstance(value, bool):
        return BOOLEAN_VALUE
    return LONG_VALUE if isinstance(value, int) else STRING_VALUE
