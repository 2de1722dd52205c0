"""Messages as the client hands them to the data pipeline, made without a broker; a queue that delivers them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spanwire.client.messages.typed_values import Serialized
from spanwire.model.errors import JmsError
from spanwire.model.message_view import BYTES, MAP, STREAM, TEXT, PropertyValue
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import LATEST_VERSION
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.message_body import wire_content
from spanwire.protocols.primitive_map import encode_map, encode_stream

SIZE_OCTETS = 4


@dataclass(frozen=True)
class Raw:
    """One received message."""

    raw: bytes
    version: int = LATEST_VERSION
    redelivery_count: int = 0

    def again(self) -> Raw:
        return Raw(self.raw, self.version, self.redelivery_count + 1)


def structure(number: int, body: object = "text", properties: dict[str, PropertyValue] | None = None) -> wire.Message:
    """A message with that number from one producer; a list is a stream body, a dict a map body."""
    message: wire.Message
    if isinstance(body, str):
        message = wire.ActiveMQTextMessage()
        message.content = wire_content(TEXT, body.encode("utf-8"))
    elif isinstance(body, bytes):
        message = wire.ActiveMQBytesMessage()
        message.content = wire_content(BYTES, body)
    elif isinstance(body, dict):
        message = wire.ActiveMQMapMessage()
        message.content = wire_content(MAP, encode_map(body))
    elif isinstance(body, list):
        message = wire.ActiveMQStreamMessage()
        message.content = wire_content(STREAM, encode_stream(body))
    elif isinstance(body, Serialized):
        message = wire.ActiveMQObjectMessage()
        message.content = body.octets or None
    else:
        message = wire.ActiveMQMessage()
    producer = wire.ProducerId(connection_id="ID:host-1-2-3:1", value=1, session_id=1)
    message.producer_id = producer
    message.message_id = wire.MessageId(producer_id=producer, producer_sequence_id=number, broker_sequence_id=number)
    message.destination = wire.ActiveMQQueue("ORDERS")
    message.persistent = True
    message.priority = 4
    message.timestamp = 1_700_000_000_000 + number
    message.marshalled_properties = encode_map(properties) if properties else None
    return message


def raw_of(message: wire.Message) -> Raw:
    encoder = FrameEncoder(WireFormat(version=LATEST_VERSION))
    return Raw(encoder.encode(message)[SIZE_OCTETS:])


def raw(number: int, body: object = "text", properties: dict[str, PropertyValue] | None = None) -> Raw:
    return raw_of(structure(number, body, properties))


def id_of(number: int) -> str:
    return f"ID:host-1-2-3:1:1:1:{number}"


class FakeQueue:
    """A queue under client acknowledgement that can fail at a chosen point; it outlives its connections."""

    def __init__(self, messages: Iterable[Raw] = ()) -> None:
        self.waiting = list(messages)
        self.unacknowledged: list[Raw] = []
        self.acknowledged = 0
        self.connections = 0
        self.fails_to_acknowledge = 0
        self.fails_after: int | None = None
        self.is_away = False
        self.dispatch_s = 0.0  # until a new consumer gets messages

    def connect(self) -> FakeQueue:
        """A new connection: what the last one did not acknowledge comes again, first and flagged."""
        self.connections += 1
        return self

    def receive(self, max_count: int, timeout_s: float) -> list[Raw]:
        if self.fails_after is not None and len(self.unacknowledged) >= self.fails_after:
            self.fails_after = None
            raise JmsError("the connection broke")
        if self.is_away or timeout_s < self.dispatch_s:
            return []
        taken, self.waiting = self.waiting[:max_count], self.waiting[max_count:]
        self.unacknowledged += taken
        return taken

    def acknowledge(self) -> None:
        if self.fails_to_acknowledge:
            self.fails_to_acknowledge -= 1
            raise JmsError("the connection broke")
        self.acknowledged += len(self.unacknowledged)
        self.unacknowledged.clear()

    def is_connected(self) -> bool:
        return not self.is_away

    def has_messages(self) -> bool:
        return bool(self.waiting)

    def close(self) -> None:
        self.waiting = [message.again() for message in self.unacknowledged] + self.waiting
        self.unacknowledged.clear()
