"""Frames between the process of the bridges and a host.

    32 bits   octets of the header
    32 bits   octets of all blobs
    header    a JSON object; "blobs" has the octets of each blob
    blobs     properties and body of each message

A request has "id", "do" and "connection", and its answer the same "id", with "error" after a failure. An event has
"event" and "connection".
"""

from __future__ import annotations

import json
from struct import Struct
from typing import Any, Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError, MessageFormatError
from spanwire.model.message_view import PropertyValue
from spanwire.model.units import MIB
from spanwire.protocols.primitive_map import UNBOUNDED, decode_map, encode_map

LENGTHS: Final = Struct(">II")
MAX_HEADER: Final = 64 * MIB  # bytes; 100,000 messages of a batch have some 300 bytes of headers each
MAX_BLOBS: Final = 512 * MIB  # bytes; a batch of 16 MiB and one large message more
MAX_BRANCHES: Final = 100_000  # prepared branches of a provider in one answer; brokers limit transactions far below
BLOBS: Final = "blobs"
MESSAGES: Final = "messages"

Header = dict[str, Any]


def encode_frame(header: Header, blobs: list[bytes]) -> bytes:
    """Return a frame. Raises `JmsError` for messages beyond the limits."""
    text = json.dumps({**header, BLOBS: [len(blob) for blob in blobs]}).encode()
    body = b"".join(blobs)
    check_lengths(len(text), len(body))
    return b"".join((LENGTHS.pack(len(text), len(body)), text, body))


def check_lengths(header: int, blobs: int) -> None:
    """Refuse a frame beyond the limits. Raises `JmsError`."""
    if header > MAX_HEADER or blobs > MAX_BLOBS:
        raise JmsError(f"a message has more than {MAX_BLOBS // MIB} MiB")


def check_branches(count: int) -> None:
    """Refuse a list of prepared branches beyond the limit, of which none may be left out. Raises `JmsError`."""
    if count > MAX_BRANCHES:
        raise JmsError(f"the provider has {count} prepared branches, and {MAX_BRANCHES} are read; settle some there")


def decode_frame(text: bytes, body: bytes) -> tuple[Header, list[bytes]]:
    """Return header and blobs of a frame."""
    header: Header = json.loads(text)
    blobs: list[bytes] = []
    offset = 0
    for length in header.pop(BLOBS):
        blobs.append(body[offset : offset + length])
        offset += length
    return header, blobs


class HostContent:
    """Properties and body of a message of a host."""

    def __init__(self, properties: bytes, body: bytes | None, fault: str | None, damage: str | None = None) -> None:
        """``fault`` belongs to the body, ``damage`` to the properties."""
        self._properties: Final = properties
        self._body: Final = body
        self._fault: Final = fault
        self._damage: Final = damage

    def neutral_body(self) -> bytes | None:
        """Return the body. Raises `MessageFormatError` for a body without a form outside the virtual machine."""
        if self._fault is not None:
            raise MessageFormatError(self._fault)
        return self._body

    def property_values(self) -> dict[str, PropertyValue]:
        """Return the properties. Raises `MessageFormatError` for properties unknown to JMS."""
        if self._damage is not None:
            raise MessageFormatError(self._damage)
        return decode_map(self._properties, UNBOUNDED) if self._properties else {}


def write_messages(messages: list[BridgeMessage]) -> tuple[list[Header], list[bytes]]:
    """Return the headers and blobs of messages.

    Raises:
        UnwritableError: a message has no neutral form.
    """
    headers: list[Header] = []
    blobs: list[bytes] = []
    for index, message in enumerate(messages):
        try:
            values = message.property_values()
            body = message.content.neutral_body()
            blobs += [encode_map(values) if values else b"", body or b""]
        except MessageFormatError as error:
            raise UnwritableError(index, str(error)) from None
        headers.append(
            {
                "id": message.message_id,
                "kind": message.kind,
                "null": body is None,
                "correlation": message.correlation_id,
                "type": message.message_type,
                "reply": None if message.reply_to is None else message.reply_to.qualified_name,
                "persistent": message.persistent,
                "priority": message.priority,
                "expiration": message.expiration_ms,
                "timestamp": message.timestamp_ms,
                "group": message.group_id,
                "sequence": message.group_sequence,
                "redelivered": message.is_redelivered,
            }
        )
    return headers, blobs


def read_messages(headers: list[Header], blobs: list[bytes]) -> list[BridgeMessage]:
    """Return the messages of headers and blobs."""
    messages: list[BridgeMessage] = []
    for index, header in enumerate(headers):
        properties, body = blobs[2 * index], blobs[2 * index + 1]
        neutral = None if header["null"] else body
        content = HostContent(properties, neutral, header.get("fault"), header.get("property_fault"))
        message = BridgeMessage(header["id"], header["kind"], content, len(properties) + len(body))
        message.correlation_id = header["correlation"]
        message.message_type = header["type"]
        message.reply_to = None if header["reply"] is None else parse_destination(header["reply"])
        message.persistent = header["persistent"]
        message.priority = header["priority"]
        message.expiration_ms = header["expiration"]
        message.timestamp_ms = header["timestamp"]
        message.group_id = header["group"]
        message.group_sequence = header["sequence"]
        message.is_redelivered = header["redelivered"]
        messages.append(message)
    return messages


class UnwritableError(MessageFormatError):
    """The message ``index`` has no neutral form."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index: Final = index
