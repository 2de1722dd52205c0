"""Properties of received messages of MQTT 5 (OASIS MQTT 5.0, section 3.3.2.3).

The library copies the rest of the packet for each property. One message of a few MiB with many properties would stop
all bridges of a process for minutes. The library also refuses U+FEFF in a text, which section 1.5.4 allows: one message
would end each new connection. Anybody with the right to publish could send such messages.
"""

from __future__ import annotations

import contextlib
import struct
from typing import Final

from paho.mqtt.client import MQTTMessage

from spanwire.model.units import MIB

LENGTH: Final = struct.Struct(">H")
# Bytes of the properties of one message. Reading them stops all bridges of the process for that time, so a message with
# more becomes a dead letter.
MAX_OCTETS: Final = MIB
QUALITY: Final = 0x06  # bits of the quality of service in the first byte of a packet
PACKET_ID: Final = 2  # bytes
MAX_DIGITS: Final = 4  # bytes of a length
NO_PROPERTIES: Final = b"\0"
PAYLOAD_FORMAT: Final = 0x01
EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION: Final = 0x09
SUBSCRIPTION: Final = 0x0B
TOPIC_ALIAS: Final = 0x23
USER: Final = 0x26


class MalformedError(ValueError):
    """A packet is outside of MQTT's format; its broker is left."""


class IncomingProperties:
    """The properties of one message, under the names of the library. Absent ones are None.

    ``fault`` says why the message cannot cross, "" if it can.
    """

    __slots__ = (
        "ContentType",
        "CorrelationData",
        "MessageExpiryInterval",
        "PayloadFormatIndicator",
        "ResponseTopic",
        "UserProperty",
        "fault",
        "octets",
        "packet_id",
    )

    def __init__(self, octets: bytes) -> None:
        """Read encoded properties, without their length. Raises `MalformedError`."""
        self.octets: Final = len(octets)
        self.packet_id = 0
        self.fault = ""
        self.PayloadFormatIndicator = 0
        self.MessageExpiryInterval: int | None = None
        self.ContentType: str | None = None
        self.ResponseTopic: str | None = None
        self.CorrelationData: bytes | None = None
        self.UserProperty: Final[list[tuple[str, str]]] = []
        offset = 0
        if len(octets) > MAX_OCTETS:
            self.fault = (
                f"the message has {len(octets)} bytes of properties, and a bridge reads {MAX_OCTETS}; the dead letter "
                "is without the properties behind"
            )
            octets = octets[:MAX_OCTETS]
            with contextlib.suppress(struct.error, IndexError, UnicodeDecodeError, MalformedError):  # the last is cut
                while offset < len(octets):
                    offset = self._property(octets, offset)
            return
        try:
            while offset < len(octets):
                offset = self._property(octets, offset)
        except (struct.error, IndexError, UnicodeDecodeError):
            raise MalformedError("the properties of a message are malformed") from None

    def _property(self, octets: bytes, offset: int) -> int:
        """Read one property; return the offset behind it."""
        identifier, offset = octets[offset], offset + 1
        if identifier == USER:
            name, offset = _text(octets, offset)
            text, offset = _text(octets, offset)
            self.UserProperty.append((name, text))
        elif identifier == CONTENT_TYPE:
            self.ContentType, offset = _text(octets, offset)
        elif identifier == RESPONSE_TOPIC:
            self.ResponseTopic, offset = _text(octets, offset)
        elif identifier == CORRELATION:
            self.CorrelationData, offset = _octets(octets, offset)
        elif identifier == PAYLOAD_FORMAT:
            self.PayloadFormatIndicator, offset = int(octets[offset] == 1), offset + 1
        elif identifier == EXPIRY:
            (self.MessageExpiryInterval,) = struct.unpack_from(">I", octets, offset)
            offset += 4
        elif identifier == TOPIC_ALIAS:
            raise MalformedError("the broker uses an alias of a topic, which was not offered")
        elif identifier == SUBSCRIPTION:
            _, offset = _length(octets, offset)
        else:
            raise MalformedError(f"a message has the unknown property {identifier:#04x}")
        return offset


def properties_of(message: MQTTMessage) -> IncomingProperties:
    """Return the properties of a received message."""
    found = message.properties
    assert isinstance(found, IncomingProperties), "the connection has read them"
    return found


def without_properties(command: int, packet: bytes | bytearray) -> tuple[IncomingProperties, bytes]:
    """Return the properties of a PUBLISH, and the packet without them.

    Raises:
        MalformedError: the packet ends inside of a part, or a property is none of a PUBLISH.
    """
    octets = bytes(packet)
    try:
        start = LENGTH.size + LENGTH.unpack_from(octets)[0] + (PACKET_ID if command & QUALITY else 0)
        length, first = _length(octets, start)
    except (struct.error, IndexError):
        raise MalformedError("a message of MQTT is malformed") from None
    if first + length > len(octets):
        raise MalformedError("a message of MQTT ends inside of its properties")
    found = IncomingProperties(octets[first : first + length])
    if command & QUALITY:
        (found.packet_id,) = LENGTH.unpack_from(octets, start - PACKET_ID)
    return found, b"".join((octets[:start], NO_PROPERTIES, octets[first + length :]))


def _length(octets: bytes, offset: int) -> tuple[int, int]:
    value = 0
    for place in range(MAX_DIGITS):
        value |= (octets[offset + place] & 0x7F) << 7 * place
        if octets[offset + place] < 0x80:
            return value, offset + place + 1
    raise MalformedError("a length of MQTT has more than four bytes")


def _octets(octets: bytes, offset: int) -> tuple[bytes, int]:
    start = offset + LENGTH.size
    end = start + LENGTH.unpack_from(octets, offset)[0]
    if end > len(octets):
        raise MalformedError("a message of MQTT ends inside of a property")
    return octets[start:end], end


def _text(octets: bytes, offset: int) -> tuple[str, int]:
    found, end = _octets(octets, offset)
    return found.decode("utf-8"), end
