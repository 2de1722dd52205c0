"""Messages as plain values for JSON and for people: for browsing and the readable export."""

from __future__ import annotations

import base64
from typing import Final

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES, MAP, STREAM, TEXT, MessageView
from spanwire.protocols.primitive_map import decode_map, decode_stream, plain_map, plain_value

KIND_NAMES: Final = (
    "Message",
    "TextMessage",
    "BytesMessage",
    "MapMessage",
    "StreamMessage",
    "ObjectMessage",
    "BlobMessage",
)
BASE64: Final = "base64"  # the only key of an object that represents octets
MAX_NUMBER: Final = 1e308  # larger floats, infinities and NaN have no form in JSON


def readable_message(view: MessageView) -> dict[str, object]:
    """Return the fields of a message that have a value.

    ``body`` is a text, an object (map), a list (stream) or, for octets that are not UTF-8, ``{"base64": …}``. Raises
    `MessageFormatError` for malformed properties or bodies.
    """
    destinations = {"original_destination": view.original_destination, "reply_to": view.reply_to}
    fields: dict[str, object] = {
        "message_id": str(view.message_id),
        "kind": KIND_NAMES[view.kind],
        "destination": view.destination.qualified_name,
        **{name: None if value is None else value.qualified_name for name, value in destinations.items()},
        "persistent": view.persistent,
        "priority": view.priority,
        "timestamp_ms": view.timestamp_ms,
        "expiration_ms": view.expiration_ms or None,
        "correlation_id": view.correlation_id,
        "type": view.type,
        "group_id": view.group_id,
        "group_sequence": view.group_sequence or None,
        "user_id": view.user_id,
        "redelivery_count": view.redelivery_count,
        "properties": _readable(plain_map(view.properties)),
        "body": _body(view),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _body(view: MessageView) -> object:
    body = view.body
    if body is None:
        return None
    if view.kind == TEXT:
        return body.decode("utf-8", "replace")
    if view.kind == MAP:
        return _readable(plain_map(decode_map(body)))
    if view.kind == STREAM:
        return [_readable(plain_value(value)) for value in decode_stream(body)]
    return _octets(body, view.kind == BYTES)


def _octets(data: bytes, may_be_text: bool) -> object:
    """Return octets as text where possible, because STOMP clients send texts as octets."""
    if may_be_text:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" not in text:
            return text
    return {BASE64: base64.b64encode(data).decode("ascii")}


def _readable(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _readable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    if isinstance(value, bytes):
        return _octets(value, False)
    if isinstance(value, float) and not -MAX_NUMBER <= value <= MAX_NUMBER:
        return str(value)
    return value


def readable_or_fault(view: MessageView) -> dict[str, object]:
    """Return the fields of a message.

    For malformed properties or bodies, the fields are the headers, with the error as ``fault``.
    """
    try:
        return readable_message(view)
    except MessageFormatError as error:
        view.properties, view.body = {}, None
        return {**readable_message(view), "fault": str(error)}
