"""Messages as a consumer would receive them, made without a broker, for tests of programs."""

from __future__ import annotations

from itertools import count
from typing import Final

from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import NULL, Envelope, MessageEncoder, Outgoing, nested_octets
from spanwire.model.destination import Destination
from spanwire.model.written_destination import written_destination
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import wire_destination
from spanwire.protocols.openwire.messages.message_layout import MessageScanner

VERSION: Final = 12  # of OpenWire, the latest
DEFAULT_PRIORITY: Final = 4
NUMBERS: Final = count(1)  # of messages in this process


def received_message(outgoing: Outgoing, destination: Destination) -> Message:
    """Return a message as it would arrive from a broker. Raises `MessageFormatError`."""
    producer = wire.ProducerId(connection_id="ID:loopback-0", value=1, session_id=1)
    target = nested_octets(wire_destination(destination))
    envelope = Envelope(nested_octets(producer), next(NUMBERS), target, NULL)
    envelope.persistent = outgoing.persistent is not False
    envelope.priority = DEFAULT_PRIORITY if outgoing.priority is None else outgoing.priority
    reply_to = outgoing.reply_to
    if reply_to is not None:
        named = written_destination(reply_to) if isinstance(reply_to, str) else reply_to
        envelope.reply_to = nested_octets(wire_destination(named))
    raw = MessageEncoder(VERSION).octets(outgoing, envelope, 0, False)
    scanner = MessageScanner(VERSION)
    scanner.scan(raw)
    return Message(raw, VERSION, scanner, target, 0)
