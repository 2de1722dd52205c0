"""Attacks on OpenWire brokers and clients, each named after its advisory, against the decoder."""

from __future__ import annotations

import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from spanwire.model.errors import MessageFormatError
from spanwire.model.message_view import BYTES, MAP, STREAM, TEXT
from spanwire.protocols.octets import encode_text
from spanwire.protocols.openwire.codec._marshallers import (
    BrokerInfo,
    ConnectionError,  # noqa: A004
    ConnectionInfo,
    DataArrayResponse,
    ExceptionResponse,
    FlushCommand,
    KeepAliveInfo,
    Message,
    MessageAck,
)
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, StructureDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, wire_format_info
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.primitive_map import decode_map
from tests.support.openwire_structures import load_vectors, wire_format_of
from tests.support.seeds import SHORT

MIB = 1024 * 1024
GADGET = "org.springframework.context.support.ClassPathXmlApplicationContext"
CANARY = "http://127.0.0.1:1/canary.xml"
HELLO = FrameEncoder().encode(wire_format_info(WireFormatPreferences()))
FORMATS = [
    WireFormat(version=version, tight=tight, cache=cache)
    for version in (1, 12)
    for tight in (False, True)
    for cache in (False, True)
]


def ready(wire_format: WireFormat | None = None) -> FrameDecoder:
    decoder = FrameDecoder(pass_messages=False)
    decoder.negotiated(wire_format if wire_format is not None else WireFormat())
    return decoder


def sample_frames() -> Iterator[tuple[str, bytes, WireFormat]]:
    """A plain loose and a cached tight frame of each type, with all fields set; of the messages only one type."""
    for case in load_vectors("vectors")["cases"]:
        is_one = case["type"] == "ActiveMQMapMessage" or not case["type"].endswith("Message")
        if case["note"] == "variant 0" and is_one:
            for frame in case["frames"]:
                is_chosen = frame["cache"] == (frame["encoding"] == "tight")
                if 12 in frame["versions"] and frame["stackTrace"] and is_chosen:
                    yield case["type"], bytes.fromhex(frame["hex"]), wire_format_of(frame, 12)


def read_all(frame: bytes, wire_format: WireFormat) -> None:
    """Decode a frame, and if it is a message its inside; let protocol and message format errors pass."""
    try:
        structure = StructureDecoder(wire_format).decode(frame, 4, len(frame))
        if isinstance(structure, Message):
            decode_map(structure.marshalled_properties or b"")
            neutral_body(KINDS[structure.type_id()], structure.content, structure.compressed)
    except (OpenWireProtocolError, MessageFormatError):
        pass


@pytest.mark.parametrize("wire_format", FORMATS, ids=str)
def test_s1_cve_2023_46604_a_class_named_in_an_exception_is_text_and_nothing_is_loaded(wire_format: WireFormat) -> None:
    thrown = Throwable(GADGET, CANARY, [], Throwable("os.system", "touch /tmp/canary"))
    before = set(sys.modules)
    commands: list[Any] = [ExceptionResponse(exception=thrown), ConnectionError(exception=thrown)]
    if wire_format.version >= 7:
        commands.append(MessageAck(poison_cause=thrown))
    for command in commands:
        (found,) = ready(wire_format).feed(FrameEncoder(wire_format).encode(command))
        if isinstance(found, MessageAck):
            text = found.poison_cause
        else:
            assert isinstance(found, ExceptionResponse | ConnectionError)
            text = found.exception
        assert isinstance(text, Throwable)
        assert (text.class_name, text.message) == (GADGET, CANARY)
        assert text.cause is not None
        assert text.cause.class_name == "os.system"
    assert set(sys.modules) == before


@pytest.mark.large
def test_s2_cve_2025_27533_no_length_allocates_what_is_not_there() -> None:
    frames = list(sample_frames())
    tracemalloc.start()
    try:
        for name, frame, wire_format in frames:
            baseline = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            for place in range(5, len(frame) - 1, 2 if SHORT else 1):  # tracemalloc is slow
                left = len(frame) - place
                for mutation in (
                    b"\xff\xff\xff\xff",
                    b"\x7f\xff\xff\xff",
                    max(left - 3, 0).to_bytes(4, "big"),
                    (left - 1).to_bytes(2, "big"),
                ):
                    read_all((frame[:place] + mutation + frame[place + len(mutation) :])[: len(frame)], wire_format)
            growth = tracemalloc.get_traced_memory()[1] - baseline
            assert growth < MIB, f"{name} {wire_format} took {growth} bytes"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("frame", "wire_format"),
    [
        ("0e00000001000100036161", WireFormat()),
        ("120000000100000000000000000001000000036162", WireFormat()),
        ("060000000100000001000200", WireFormat()),
        ("0400000001000100800179", WireFormat(cache=True, cache_size=128)),
        ("0e01060000000100036162", WireFormat(tight=True)),
        ("0aff00000000", WireFormat(tight=True)),
    ],
    ids=["string", "byte array", "array", "cache slot", "tight string", "boolean stream"],
)
def test_s2_cve_2026_50734_a_length_of_one_more_than_is_left_is_refused(frame: str, wire_format: WireFormat) -> None:
    octets = bytes.fromhex(frame)
    with pytest.raises(OpenWireProtocolError):
        ready(wire_format).feed(len(octets).to_bytes(4, "big") + octets)


def test_s2_cve_2025_27533_an_announced_frame_takes_memory_only_as_it_arrives() -> None:
    decoder = ready()
    decoder.authenticated()
    tracemalloc.start()
    try:
        decoder.feed((100 * MIB).to_bytes(4, "big") + b"\x1c" + bytes(1000))
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert decoder.pending_bytes == 1005


@pytest.mark.large
def test_s2_a_frame_of_ever_so_small_structures_is_refused() -> None:
    element = FrameEncoder().encode(FlushCommand())[4:]
    inner = b"\x21" + bytes(9) + b"\x01" + (32767).to_bytes(2, "big") + (b"\x01" + element) * 32767
    octets = b"\x21" + bytes(9) + b"\x01" + (9).to_bytes(2, "big") + (b"\x01" + inner) * 9
    decoder = ready()
    decoder.authenticated()
    with pytest.raises(OpenWireProtocolError, match="262144 structures"):
        decoder.feed(len(octets).to_bytes(4, "big") + octets)


def test_s2_structures_nested_without_end_are_refused_before_the_stack_is() -> None:
    nested = DataArrayResponse()
    for _ in range(200):
        nested = DataArrayResponse(data=[nested])
    for wire_format in FORMATS:
        frame = FrameEncoder(wire_format).encode(nested)
        with pytest.raises(OpenWireProtocolError, match="32 deep"):
            ready(wire_format).feed(frame)


def test_s2_the_object_cache_of_the_reader_stays_below_its_limit() -> None:
    decoder = ready(WireFormat(cache=True))
    decoder.authenticated()
    name = encode_text("x" * 65535)
    with pytest.raises(OpenWireProtocolError, match="object cache"):
        for slot in range(1000):
            identity = b"\x01\x78\x01" + len(name).to_bytes(2, "big") + name
            octets = b"\x0c" + bytes(5) + b"\x01" + slot.to_bytes(2, "big") + identity + bytes(8)
            decoder.feed(len(octets).to_bytes(4, "big") + octets)


def test_s3_cve_2026_49270_nothing_is_decoded_before_the_peer_sent_its_wire_format() -> None:
    for name, frame, _ in sample_frames():
        if name != "WireFormatInfo":
            with pytest.raises(OpenWireProtocolError, match="not a WireFormatInfo"):
                FrameDecoder().feed(frame)


def test_s3_cve_2026_50750_before_login_a_frame_has_at_most_64_kib() -> None:
    decoder = ready()
    frame = FrameEncoder().encode(BrokerInfo(network_properties="x" * 65_000))
    assert len(decoder.feed(frame)) == 1
    with pytest.raises(OpenWireProtocolError, match="larger than the limit of 65536"):
        decoder.feed((65_537).to_bytes(4, "big"))


def test_s13_a_second_wire_format_info_is_refused_and_widens_nothing() -> None:
    decoder = FrameDecoder(max_frame_size=1000)
    assert len(decoder.feed(HELLO)) == 1
    decoder.negotiated(WireFormat(max_frame_size=2**40))
    with pytest.raises(OpenWireProtocolError, match="larger than the limit of 1000"):
        decoder.feed((1001).to_bytes(4, "big"))
    again = FrameDecoder()
    again.feed(HELLO)
    again.negotiated(WireFormat())
    with pytest.raises(OpenWireProtocolError, match="second WireFormatInfo"):
        again.feed(HELLO)


def test_s13_the_frame_limit_holds_however_the_size_arrives() -> None:
    for step in (1, 2, 3, 4, 7):
        decoder = FrameDecoder(max_frame_size=5000)
        decoder.negotiated(WireFormat())
        decoder.authenticated()
        data = (5001).to_bytes(4, "big") + bytes(16)
        with pytest.raises(OpenWireProtocolError, match="limit of 5000"):
            for start in range(0, len(data), step):
                decoder.feed(data[start : start + step])


@pytest.mark.large
def test_s13_a_peer_that_writes_byte_by_byte_costs_no_more_than_its_bytes() -> None:
    decoder = ready()
    decoder.authenticated()
    count = 512 * 1024
    decoder.feed(MIB.to_bytes(4, "big"))
    tracemalloc.start()
    try:
        for _ in range(count):
            decoder.feed(b"\x0a")
        assert tracemalloc.get_traced_memory()[1] < 2 * count
    finally:
        tracemalloc.stop()
    assert decoder.pending_bytes == count + 4


def test_s13_keep_alives_in_any_number_leave_nothing_behind() -> None:
    decoder = ready()
    data = FrameEncoder().encode(KeepAliveInfo()) * 1000
    for _ in range(10):
        assert len(decoder.feed(data)) == 1000
        assert decoder.pending_bytes == 0


def bomb(inflated: int) -> bytes:
    """A zlib stream of nothing but zeros."""
    stream = zlib.compressobj(9)
    return b"".join(stream.compress(bytes(MIB)) for _ in range(inflated // MIB)) + stream.flush()


@pytest.mark.large
@pytest.mark.parametrize("kind", [TEXT, MAP, STREAM, BYTES])
def test_s11_a_compression_bomb_is_refused_and_never_inflated_whole(kind: int) -> None:
    content = bomb(256 * MIB)
    assert len(content) < 300_000
    if kind == BYTES:
        content = (256 * MIB).to_bytes(4, "big") + content
    tracemalloc.start()
    try:
        with pytest.raises(MessageFormatError, match="inflates to more than"):
            neutral_body(kind, content, True)
        assert tracemalloc.get_traced_memory()[1] < 64 * MIB
    finally:
        tracemalloc.stop()


def test_s11_a_frame_with_a_bomb_decodes_without_inflating_it() -> None:
    message = FrameEncoder().encode(ConnectionInfo(client_id="before"))
    assert len(ready().feed(message)) == 1
    entry = next(e for e in load_vectors("broken")["broken"] if e["name"] == "body-zlib-bomb-30M")
    tracemalloc.start()
    try:
        assert len(ready().feed(bytes.fromhex(entry["hex"]))) == 1
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
