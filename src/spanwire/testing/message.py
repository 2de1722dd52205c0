"""A pending message of a queue, decoded for a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.message import Message
from spanwire.model.message_view import BYTES, MAP, STREAM, TEXT, MessageView
from spanwire.protocols.primitive_map import decode_map, decode_stream, plain_map, plain_value

MAX_SHOWN: Final = 60  # characters of a body or a property in a report
KINDS: Final = ("message", "text", "bytes", "map", "stream", "object", "blob")


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A decoded message.

    ``body`` is text, bytes, a dict (map), a list (stream) or None; an object stays bytes.
    """

    kind: str
    body: object
    message_id: str
    properties: dict[str, object] = field(default_factory=dict)
    correlation_id: str | None = None
    reply_to: str | None = None
    message_type: str | None = None
    priority: int = 4
    persistent: bool = False
    timestamp: int = 0
    expiration: int = 0
    group_id: str | None = None
    user_id: str | None = None

    def line(self) -> str:
        """Return one line for a report."""
        body = "" if self.body is None else " " + _shortened(repr(self.body))
        properties = ", ".join(f"{name}={_shortened(repr(value))}" for name, value in self.properties.items())
        return f"{self.kind}{body} {self.message_id}" + (f" {{{properties}}}" if properties else "")


def waiting_message(message: Message, formats: MessageFormats) -> WaitingMessage:
    """Decode a message. Raises `MessageFormatError` if the body or properties cannot be decoded."""
    view = formats.view(message)
    return WaitingMessage(
        kind=KINDS[view.kind],
        body=_body(view),
        message_id=str(view.message_id),
        properties=plain_map(view.properties),
        correlation_id=view.correlation_id,
        reply_to=None if view.reply_to is None else view.reply_to.qualified_name,
        message_type=view.type,
        priority=view.priority,
        persistent=view.persistent,
        timestamp=view.timestamp_ms,
        expiration=view.expiration_ms,
        group_id=view.group_id,
        user_id=view.user_id,
    )


def _body(view: MessageView) -> object:
    body = view.body
    if view.kind == TEXT:
        return None if body is None else body.decode("utf-8", "replace")
    if view.kind == MAP:
        return plain_map(decode_map(body or b""))
    if view.kind == STREAM:
        return [plain_value(value) for value in decode_stream(body or b"")]
    if view.kind == BYTES:
        return body or b""
    return body


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"
