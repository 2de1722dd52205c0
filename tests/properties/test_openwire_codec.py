"""Whatever bytes arrive, in whatever reads, the codec gives the same commands or a protocol error, and nothing else."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.errors import InvalidDestinationError, MessageFormatError
from spanwire.model.message_view import (
    BOOLEAN_VALUE,
    BYTE_VALUE,
    BYTES_VALUE,
    CHAR_VALUE,
    DOUBLE_VALUE,
    INT_VALUE,
    LIST_VALUE,
    LONG_VALUE,
    MAP_VALUE,
    NULL_VALUE,
    SHORT_VALUE,
    STRING_VALUE,
    PropertyValue,
)
from spanwire.protocols.octets import decode_text, encode_text
from spanwire.protocols.openwire.codec._marshallers import (
    Command,
    ControlCommand,
    Message,
    MessageFrame,
    MessagePull,
    WireFormatInfo,
)
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, StructureDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.openwire.messages.message_format import CANONICAL_VERSIONS, OpenWireMessageFormat, format_id_of
from spanwire.protocols.primitive_map import decode_map, decode_stream, encode_map, encode_stream
from tests.support.openwire_structures import load_vectors, normalised, values_of, wire_format_of

FORMATS = [
    WireFormat(version=version, tight=tight, cache=cache, cache_size=128)
    for version in (1, 2, 9, 10, 12)
    for tight in (False, True)
    for cache in (False, True)
]
MESSAGE_FORMATS = {format_id: OpenWireMessageFormat(format_id) for format_id in CANONICAL_VERSIONS}


def golden_by_format() -> dict[WireFormat, list[tuple[bytes, Any]]]:
    found: dict[WireFormat, list[tuple[bytes, Any]]] = {}
    for case in load_vectors("vectors")["cases"]:
        if case["type"] == "WireFormatInfo":
            continue
        for frame in case["frames"]:
            for version in frame["versions"]:
                wire_format = wire_format_of(frame, version)
                if not wire_format.cache:
                    entry = (bytes.fromhex(frame["hex"]), normalised(case["values"]))
                    found.setdefault(wire_format, []).append(entry)
    return found


GOLDEN = golden_by_format()
MIXED = st.sampled_from(sorted(GOLDEN, key=str))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)


def is_command(frame: bytes) -> bool:
    return (not 36 <= frame[4] <= 61 and frame[4] < 91) or frame[4] == 92


def drained(decoder: FrameDecoder, data: bytes) -> list[Command]:
    """What a connection does with a read: handle what comes until nothing comes."""
    found = decoder.feed(data)
    commands = list(found)
    while found:
        found = decoder.feed(b"")
        commands += found
    return commands


def read_in_pieces(wire_format: WireFormat, data: bytes, cuts: list[int]) -> tuple[list[Any], bool]:
    """The values of all commands, and whether the bytes ended in a protocol error."""
    decoder = FrameDecoder(pass_messages=False)
    decoder.negotiated(wire_format)
    decoder.authenticated()
    values: list[Any] = []
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    try:
        for start, end in itertools.pairwise(places):
            found = decoder.feed(data[start:end])
            while found:
                values += [values_of(c, wire_format.version, wire_format.stack_traces) for c in found]
                found = decoder.feed(b"")
    except OpenWireProtocolError:
        return values, True
    return values, False


@given(st.data())
def test_any_chunking_gives_the_same_commands(data: st.DataObject) -> None:
    wire_format = data.draw(MIXED)
    chosen = data.draw(st.lists(st.sampled_from(GOLDEN[wire_format]), min_size=1, max_size=6))
    chosen = [entry for entry in chosen if is_command(entry[0])]
    garbage = data.draw(st.binary(max_size=40))
    stream = b"".join(frame for frame, _ in chosen) + garbage
    whole, failed = read_in_pieces(wire_format, stream, [])
    assert whole[: len(chosen)] == [values for _, values in chosen]
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    assert read_in_pieces(wire_format, stream, cuts) == (whole, failed)
    assert read_in_pieces(wire_format, stream, list(range(len(stream)))) == (whole, failed)


def handle(command: Command) -> None:
    """Everything that is decoded later, on demand."""
    if isinstance(command, WireFormatInfo):
        negotiate(WireFormatPreferences(tight=True, cache=True), command)
    if isinstance(command, Message):
        decode_map(command.marshalled_properties or b"")
        neutral_body(KINDS[command.type_id()], command.content, command.compressed)
    if isinstance(command, MessageFrame):
        message_format = MESSAGE_FORMATS[format_id_of(command.version)]
        message = message_format.received(command)
        message_format.properties(message)
        message_format.header(message, "JMSType")
        message_format.view(message)
        message_format.index(message_format.readdressed(message, message.destination).encoded())


def survive(wire_format: WireFormat, data: bytes, pass_messages: bool) -> None:
    decoder = FrameDecoder(pass_messages=pass_messages)
    decoder.negotiated(wire_format)
    decoder.authenticated()
    try:
        for command in drained(decoder, data):
            handle(command)
    except (OpenWireProtocolError, MessageFormatError, InvalidDestinationError):
        pass


@given(st.sampled_from(FORMATS), st.binary(max_size=200), st.integers(0, 130), st.booleans())
def test_any_octets_of_one_frame_are_a_command_or_a_protocol_error(
    wire_format: WireFormat, octets: bytes, type_id: int, pass_messages: bool
) -> None:
    frame = bytes([type_id]) + octets
    survive(wire_format, len(frame).to_bytes(4, "big") + frame, pass_messages)


@given(st.binary(max_size=300))
def test_any_first_bytes_are_a_wire_format_info_or_a_protocol_error(data: bytes) -> None:
    for octets in (data, len(data).to_bytes(4, "big") + data, b"\0\0\1\0\1ActiveMQ\0\0\0\x0c\1" + data):
        try:
            for command in FrameDecoder().feed(octets):
                assert isinstance(command, WireFormatInfo)
                handle(command)
        except OpenWireProtocolError:
            pass


@given(st.data(), st.booleans())
def test_a_damaged_golden_frame_is_a_command_or_a_protocol_error(data: st.DataObject, pass_messages: bool) -> None:
    wire_format = data.draw(MIXED)
    octets = bytearray(data.draw(st.sampled_from(GOLDEN[wire_format]))[0][4:])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(octets)))
        kind = data.draw(st.sampled_from(["put", "insert", "cut"]))
        piece = data.draw(
            st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0", b"\1"]) | st.binary(max_size=8)
        )
        if kind == "put":
            octets[place : place + len(piece)] = piece
        elif kind == "insert":
            octets[place:place] = piece
        else:
            del octets[place : place + len(piece)]
    survive(wire_format, len(octets).to_bytes(4, "big") + bytes(octets), pass_messages)


@given(TEXTS, LONGS, INTS, st.booleans(), st.sampled_from(FORMATS))
def test_strings_and_numbers_survive_both_encodings(
    text: str, number: int, small: int, flag: bool, wire_format: WireFormat
) -> None:
    commands: list[Command] = [ControlCommand(command=text)]
    if wire_format.version >= 3:
        commands.append(MessagePull(timeout=number, correlation_id=text))
    for command in commands:
        frame = FrameEncoder(wire_format).encode(command)
        found = StructureDecoder(wire_format).decode(frame, 4, len(frame))
        assert values_of(found, wire_format.version, True) == values_of(command, wire_format.version, True)


@given(TEXTS)
def test_modified_utf_8_holds_every_text_and_no_zero_byte(text: str) -> None:
    octets = encode_text(text)
    assert b"\0" not in octets
    assert decode_text(octets) == text
    assert all(octet < 0xF0 for octet in octets)


@given(st.binary(max_size=12))
def test_any_octets_are_modified_utf_8_of_one_text_only_or_refused(octets: bytes) -> None:
    try:
        text = decode_text(octets)
    except OpenWireProtocolError:
        return
    assert decode_text(encode_text(text)) == text


def typed_values() -> st.SearchStrategy[PropertyValue]:
    simple: st.SearchStrategy[PropertyValue] = st.one_of(
        st.just((NULL_VALUE, None)),
        st.tuples(st.just(BOOLEAN_VALUE), st.booleans()),
        st.tuples(st.just(BYTE_VALUE), st.integers(-128, 127)),
        st.tuples(st.just(SHORT_VALUE), st.integers(-32768, 32767)),
        st.tuples(st.just(INT_VALUE), INTS),
        st.tuples(st.just(LONG_VALUE), LONGS),
        st.tuples(st.just(DOUBLE_VALUE), st.floats(allow_nan=False)),
        st.tuples(st.just(STRING_VALUE), TEXTS),
        st.tuples(st.just(CHAR_VALUE), st.characters(max_codepoint=0xFFFF)),
        st.tuples(st.just(BYTES_VALUE), st.binary()),
    )
    return st.recursive(
        simple,
        lambda inner: st.one_of(
            st.tuples(st.just(LIST_VALUE), st.lists(inner, max_size=4)),
            st.tuples(st.just(MAP_VALUE), st.dictionaries(TEXTS, inner, max_size=4)),
        ),
        max_leaves=8,
    )


@pytest.mark.large
@given(st.dictionaries(TEXTS, typed_values(), max_size=6), st.lists(typed_values(), max_size=6))
def test_maps_and_streams_keep_their_values_and_types(
    entries: dict[str, PropertyValue], values: list[PropertyValue]
) -> None:
    assert decode_map(encode_map(entries)) == entries
    assert decode_stream(encode_stream(values)) == values


@given(st.binary(max_size=60))
def test_any_octets_are_a_map_a_stream_or_a_format_error(data: bytes) -> None:
    for octets in (data, b"\0\0\0\1" + data):
        try:
            assert isinstance(decode_map(octets), dict)
            assert isinstance(decode_stream(octets), list)
        except MessageFormatError:
            pass


@given(st.binary(max_size=400), st.sampled_from(sorted(CANONICAL_VERSIONS)), st.integers(23, 29))
def test_any_octets_of_a_message_are_indexed_or_refused(octets: bytes, format_id: int, type_id: int) -> None:
    try:
        MESSAGE_FORMATS[format_id].index(bytes([type_id]) + octets)
    except (OpenWireProtocolError, InvalidDestinationError):
        pass
