"""The octets of a message on its way to the next broker."""

from __future__ import annotations

import zlib
from random import Random

import pytest

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError
from spanwire.model.message import Message
from spanwire.network.bridge.frame_encoder import ForwardEncoder
from spanwire.protocols.base import MAX_FRAME_SIZE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameDecoder, decode_message
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.openwire.messages.message_body import KINDS, MAX_DEFLATED_OCTETS, neutral_body
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, OpenWireMessageFormat, format_id_of
from spanwire.protocols.openwire.output import SEPARATE_CHUNK_BYTES, OutputBuffer
from tests.support.openwire_structures import load_vectors, normalised, structure_of, values_of

CASES = [
    case for case in load_vectors("vectors")["cases"] if case["type"].endswith("Message") and "ActiveMQ" in case["type"]
]
FORMATS = {format_id: OpenWireMessageFormat(format_id) for format_id in CANONICAL_VERSIONS}
NUMBER = -0x1234_5678_9ABC_DEF0
PRODUCER = wire.ProducerId(connection_id="ID:bridge", session_id=1, value=1)


def forwarded(
    message: Message,
    version: int,
    wire_format: WireFormat,
    count: int = 0,
    number: int = 0,
    *,
    compresses: bool = False,
    largest: int = MAX_FRAME_SIZE,
) -> wire.Message:
    """What the remote broker reads."""
    output = OutputBuffer()
    output.negotiated(wire_format)
    message_format = FORMATS[format_id_of(version)]
    formats = MessageFormats({**FORMATS})
    forwarder = ForwardEncoder("A", PRODUCER, formats, message_format, version, largest, compresses)
    forwarder.append(output, message, 77, True, count, number)
    decoder = FrameDecoder(pass_messages=False)
    decoder.authenticated()
    decoder.negotiated(wire_format)
    commands = decoder.feed(b"".join(output.take()))
    assert len(commands) == 1
    assert isinstance(commands[0], wire.Message)
    return commands[0]


def golden(version: int) -> list[Message]:
    """The messages of the golden frames that a broker of this version can hold."""
    message_format = FORMATS[format_id_of(version)]
    found = []
    for case in CASES:
        if version < 3 and case["type"] == "ActiveMQBlobMessage":
            continue
        structure = structure_of(normalised(case["values"]))
        if structure.destination is not None and structure.message_id is not None:
            found.append(message_format.index(message_format.octets_of(structure)))
    assert len(found) > 20
    return found


@pytest.mark.large
@pytest.mark.parametrize("version", range(1, 13))
@pytest.mark.parametrize("tight", [False, True])
def test_every_field_but_those_of_the_hop_stays_as_it_is(version: int, tight: bool) -> None:
    for message in golden(version):
        canonical = CANONICAL_VERSIONS[message.format_id]
        expected = decode_message(message.raw, canonical)
        expected.command_id = 77
        expected.response_required = True
        expected.producer_id = PRODUCER
        expected.transaction_id = None
        expected.redelivery_counter = 3
        expected.broker_path = [*(expected.broker_path or []), wire.BrokerId("A")]
        assert expected.message_id is not None
        expected.message_id.broker_sequence_id = NUMBER
        got = forwarded(message, version, WireFormat(version=version, tight=tight, cache=tight), 3, NUMBER)
        assert values_of(got, version, True) == values_of(expected, version, True)


def test_a_second_message_of_the_same_producer_takes_the_same_way() -> None:
    message_format = FORMATS[format_id_of(12)]
    output = OutputBuffer()
    output.negotiated(WireFormat())
    forwarder = ForwardEncoder("A", PRODUCER, MessageFormats({**FORMATS}), message_format, 12)
    messages = golden(12)[:5] * 2
    for number, message in enumerate(messages):
        forwarder.append(output, message, number, False, number % 2, number << 32)
    decoder = FrameDecoder(pass_messages=False)
    decoder.authenticated()
    decoder.negotiated(WireFormat())
    commands = decoder.feed(b"".join(output.take()))
    assert [command.command_id for command in commands if isinstance(command, wire.Message)] == list(range(10))
    for number, (command, message) in enumerate(zip(commands, messages, strict=True)):
        assert isinstance(command, wire.Message)
        assert command.redelivery_counter == number % 2
        assert command.content == decode_message(message.raw, 12).content


def test_a_readdressed_copy_is_forwarded_to_its_own_destination() -> None:
    message_format = FORMATS[format_id_of(12)]
    for message in golden(12):
        copy = message_format.readdressed(message, parse_destination("queue://ELSEWHERE"))
        got = forwarded(copy, 12, WireFormat(), 0, NUMBER)
        assert got.message_id is not None and got.message_id.broker_sequence_id == NUMBER
        assert got.destination is not None and got.destination.physical_name == "ELSEWHERE"
        assert got.content == decode_message(message.raw, 12).content


def test_a_large_body_is_not_copied_into_the_buffer() -> None:
    structure = wire.ActiveMQBytesMessage()
    structure.destination = wire.ActiveMQQueue("Q")
    structure.message_id = wire.MessageId(producer_id=PRODUCER, producer_sequence_id=1)
    structure.content = b"x" * (2 * SEPARATE_CHUNK_BYTES)
    message_format = FORMATS[format_id_of(12)]
    message = message_format.index(message_format.octets_of(structure))
    output = OutputBuffer()
    output.negotiated(WireFormat())
    forwarder = ForwardEncoder("A", PRODUCER, MessageFormats({**FORMATS}), message_format, 12)
    forwarder.append(output, message, 1, True, 0, NUMBER)
    assert len(output.take()) == 3
    assert forwarded(message, 12, WireFormat()).content == structure.content


def test_what_was_forwarded_is_read_with_its_path() -> None:
    for message in golden(12):
        got = forwarded(message, 12, WireFormat())
        message_format = FORMATS[format_id_of(12)]
        again = message_format.index(message_format.octets_of(got))
        assert again.broker_path == (*message.broker_path, "A")


def test_copies_of_a_forwarded_message_keep_its_number() -> None:
    message_format = FORMATS[format_id_of(12)]
    message = golden(12)[0]
    hop = forwarded(message, 12, WireFormat(), 0, NUMBER)
    arrived = message_format.index(message_format.octets_of(hop))
    elsewhere = message_format.readdressed(arrived, parse_destination("queue://ELSEWHERE"))
    stored = message_format.index(elsewhere.encoded())
    assert [one.link_number for one in (arrived, arrived.twin(), elsewhere, stored)] == [NUMBER] * 4


@pytest.mark.large
@pytest.mark.parametrize("version", [1, 9, 12])
@pytest.mark.parametrize("tight", [False, True])
def test_a_compressed_crossing_changes_the_body_and_nothing_else(version: int, tight: bool) -> None:
    wire_format = WireFormat(version=version, tight=tight, cache=tight)
    deflated = 0
    for message in golden(version):
        plain = forwarded(message, version, wire_format, 1, NUMBER)
        got = forwarded(message, version, wire_format, 1, NUMBER, compresses=True)
        if plain.content is None or plain.compressed:
            assert values_of(got, version, True) == values_of(plain, version, True)
            continue
        assert got.compressed and got.content is not None
        inflated = got.content[4:] if isinstance(got, wire.ActiveMQBytesMessage) else got.content
        assert zlib.decompress(inflated) == plain.content
        if isinstance(got, wire.ActiveMQBytesMessage):
            assert int.from_bytes(got.content[:4], "big") == len(plain.content)
        got.content, got.compressed = plain.content, False
        assert values_of(got, version, True) == values_of(plain, version, True)
        deflated += 1
    assert deflated >= 5


def text_message(octets: bytes, structure: wire.Message | None = None) -> Message:
    made = structure if structure is not None else wire.ActiveMQTextMessage()
    made.destination = wire.ActiveMQQueue("Q")
    made.message_id = wire.MessageId(producer_id=PRODUCER, producer_sequence_id=1)
    made.content = len(octets).to_bytes(4, "big") + octets
    message_format = FORMATS[format_id_of(12)]
    return message_format.index(message_format.octets_of(made))


def test_a_body_that_is_compressed_can_be_read_by_the_next_broker_whatever_it_holds() -> None:
    noise = Random(1).randbytes(100_000).hex().encode("ascii")
    for octets in (b"", b"x", b"abc " * 1_000, noise, b"0" * (MAX_DEFLATED_OCTETS - 4)):
        got = forwarded(text_message(octets), 12, WireFormat(), compresses=True)
        assert neutral_body(KINDS[got.type_id()], got.content, got.compressed) == octets
        assert got.compressed is (len(octets) < 1_000_000)  # nothing a reader takes inflates a thousandfold


def test_a_body_too_large_to_be_compressed_at_once_crosses_as_it_is() -> None:
    octets = Random(1).randbytes(MAX_DEFLATED_OCTETS // 2).hex().encode("ascii")
    assert not forwarded(text_message(octets), 12, WireFormat(), compresses=True).compressed
    assert forwarded(text_message(octets[4:]), 12, WireFormat(), compresses=True).compressed


def test_what_is_small_enough_only_when_it_is_compressed_crosses() -> None:
    message = text_message(b"abc " * 10_000)
    assert forwarded(message, 12, WireFormat(), compresses=True, largest=20_000).compressed
    with pytest.raises(JmsError, match="larger than the 20000 bytes"):
        forwarded(message, 12, WireFormat(), largest=20_000)
    noise = text_message(Random(1).randbytes(20_000).hex().encode("ascii"))
    with pytest.raises(JmsError, match="larger than the 20000 bytes"):
        forwarded(noise, 12, WireFormat(), compresses=True, largest=20_000)


def test_a_path_may_hold_brokers_of_which_nobody_says_the_id() -> None:
    structure = wire.ActiveMQTextMessage()
    structure.destination = wire.ActiveMQQueue("Q")
    structure.message_id = wire.MessageId(producer_id=PRODUCER, producer_sequence_id=1)
    structure.broker_path = [wire.BrokerId("X"), wire.BrokerId(), wire.BrokerId(""), wire.BrokerId("Y")]
    structure.user_id = "u"
    structure.redelivery_counter = 0
    message_format = FORMATS[format_id_of(12)]
    message = message_format.index(message_format.octets_of(structure))
    got = forwarded(message, 12, WireFormat(), 0, NUMBER)
    assert [one.value for one in got.broker_path or []] == ["X", None, "", "Y", "A"]
    assert got.user_id == "u"
