"""Messages in the state of a route: headers as JSON, then properties and body in the neutral encoding.

length of headers (4) | headers | length of properties (4) | properties | body
"""

from __future__ import annotations

import json
import struct
from typing import Final

from spanwire.bridges.engine.changed_messages import NeutralContent
from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.destination import parse_destination
from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, encode_map

LENGTH: Final = struct.Struct(">I")
TEXT_OR_NOTHING: Final = (str, type(None))
HEADERS: Final[dict[str, tuple[type, ...]]] = {  # with the types of their values
    "persistent": (bool,),
    "priority": (int,),
    "expiration_ms": (int,),
    "timestamp_ms": (int,),
    "correlation_id": TEXT_OR_NOTHING,
    "message_type": TEXT_OR_NOTHING,
    "group_id": TEXT_OR_NOTHING,
    "group_sequence": (int,),
    "is_redelivered": (bool,),
}
OTHERS: Final[dict[str, tuple[type, ...]]] = {
    "id": (str,), "kind": (int,), "size": (int,), "reply_to": TEXT_OR_NOTHING, "has_body": (bool,),
}  # fmt: skip


def encode_message(message: BridgeMessage) -> bytes:
    """Return a message as octets. Raises `MessageFormatError` for undecodable properties."""
    body = message.content.neutral_body()
    headers = {name: getattr(message, name) for name in HEADERS}
    reply_to = None if message.reply_to is None else message.reply_to.qualified_name
    head = json.dumps(
        {
            **headers,
            "id": message.message_id,
            "kind": message.kind,
            "size": message.size,
            "reply_to": reply_to,
            "has_body": body is not None,
        }
    ).encode()
    values = message.property_values()
    properties = encode_map(values) if values else b""
    return b"".join((LENGTH.pack(len(head)), head, LENGTH.pack(len(properties)), properties, body or b""))


def decode_message(octets: bytes) -> BridgeMessage:
    """Return the message of `encode_message`. Raises `MessageFormatError` for other octets."""
    try:
        head, rest = _part(octets)
        properties, body = _part(rest)
        values = json.loads(head)
        for name, types in {**HEADERS, **OTHERS}.items():
            if not isinstance(values[name], types):
                raise MessageFormatError(f"a stored message is damaged: {name} is of another type")
        content = NeutralContent(
            body if values["has_body"] else None, decode_map(properties, UNBOUNDED) if properties else {}
        )
        message = BridgeMessage(values["id"], values["kind"], content, values["size"])
        for name in HEADERS:
            setattr(message, name, values[name])
        message.reply_to = None if values["reply_to"] is None else parse_destination(values["reply_to"])
    except (ValueError, KeyError, TypeError, RecursionError, struct.error, InvalidDestinationError) as error:
        raise MessageFormatError(f"a stored message is damaged: {error}") from None
    return message


def _part(octets: bytes) -> tuple[bytes, bytes]:
    (length,) = LENGTH.unpack_from(octets)
    if LENGTH.size + length > len(octets):
        raise MessageFormatError("a stored message is damaged: it is too short")
    return octets[LENGTH.size : LENGTH.size + length], octets[LENGTH.size + length :]
