"""What consumers share of a large message."""

from __future__ import annotations

import sys

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.ids import ConsumerId, MessageId, ProducerId
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.model.message_view import BYTES, MessageView
from spanwire.protocols.openwire.consumer import SHARED_BYTES, WIDE, OpenWireConsumer
from spanwire.protocols.openwire.messages.dispatch import dispatch_chunks
from spanwire.protocols.openwire.messages.large_message import LargeMessage
from spanwire.protocols.openwire.messages.message_format import FLAG_BITS, OpenWireMessageFormat, openwire_formats
from spanwire.protocols.openwire.output import OutputBuffer

MIB = 1024 * 1024


def large_message(number: int) -> Message:
    raw = bytes([number]) * MIB
    producer = ProducerId("ID:p", 1, 1)
    return Message(
        3, raw, 0, 0, 0, Destination(TOPIC, "T"), producer, number, False, 4, 0, 0, format_index=100 << FLAG_BITS
    )


def test_all_consumers_of_one_turn_share_the_octets_behind_the_sequence() -> None:
    large = LargeMessage()
    message = large_message(1)
    frames = [dispatch_chunks(b"head", message, number, 0, large) for number in range(10)]
    assert len({id(frame[1]) for frame in frames}) == 1
    for number, frame in enumerate(frames):
        octets = b"".join(frame)
        assert octets[4 : 4 + 4 + 100] == b"head" + message.raw[:100]
        assert int.from_bytes(octets[108:116], "big") == number
        assert octets[116:-4] == message.raw[108:]


def test_another_message_has_octets_of_its_own() -> None:
    large = LargeMessage()
    first, second = large_message(1), large_message(2)
    assert dispatch_chunks(b"", first, 1, 0, large)[1][:1] == b"\x01"
    assert dispatch_chunks(b"", second, 1, 0, large)[1][:1] == b"\x02"
    assert dispatch_chunks(b"", first, 1, 0, large)[1][:1] == b"\x01"


def test_whoever_is_flushed_first_forgets_what_all_share() -> None:
    large = LargeMessage()
    message = large_message(1)
    outputs = [OutputBuffer(), OutputBuffer()]
    for output in outputs:
        for chunk in dispatch_chunks(b"", message, 1, 0, large):
            output.append_chunk(chunk)
        output.large = large
    first, second = outputs[0].take(), outputs[1].take()
    assert first[1] is second[1]
    assert large.rest_of(message, message.raw, 108) is not first[1]


def test_no_format_keeps_a_message_that_it_has_read_or_written() -> None:
    message_format = openwire_formats()[FORMAT_OPENWIRE_10]
    view = MessageView(BYTES, Destination(TOPIC, "T"), MessageId(ProducerId("ID:p", 1, 1), 1))
    view.body = b"x" * MIB
    before = sys.getrefcount(view.body)
    message = message_format.encode_from_view(view)
    after = sys.getrefcount(view.body)
    assert after == before
    before = sys.getrefcount(message.raw)
    again = message_format.index(message.raw)
    body = message_format.view(again).body
    after = sys.getrefcount(message.raw)
    assert after == before + 1, "a second message has the same octets"
    assert body == view.body


def test_a_message_that_goes_to_many_is_shared_by_the_consumers_behind_the_first_ones() -> None:
    formats = openwire_formats()
    message_format = formats[FORMAT_OPENWIRE_10]
    assert isinstance(message_format, OpenWireMessageFormat)
    view = MessageView(BYTES, Destination(TOPIC, "T"), MessageId(ProducerId("ID:p", 1, 1), 1))
    for size, shared in ((2 * SHARED_BYTES, True), (SHARED_BYTES // 4, False)):
        view.body = bytes(size)
        plain = message_format.encode_from_view(view)
        readdressed = message_format.readdressed(plain, Destination(TOPIC, "ELSEWHERE"))
        for message in (plain, readdressed):
            frames: dict[int, list[list[bytes]]] = {WIDE: [], WIDE + 1: []}
            for holders, found in frames.items():
                message.holders = holders
                outputs = [OutputBuffer() for _ in range(3)]
                for output in outputs:
                    consumer = OpenWireConsumer(
                        ConsumerId("ID:c", 1, 1), output, MessageFormats(formats), message_format, []
                    )
                    consumer.dispatch(message, 5, 0)
                found.extend(output.take() for output in outputs)
            assert {b"".join(chunks) for found in frames.values() for chunks in found} == {frames[WIDE][0][0]}
            assert {len(chunks) for chunks in frames[WIDE]} == {1}
            assert {len(chunks) for chunks in frames[WIDE + 1]} == {3 if shared else 1}
            if shared:
                assert len({id(chunks[1]) for chunks in frames[WIDE + 1]}) == 1
