"""Frames that Apache ActiveMQ's own library wrote decode to their values, and those values encode to the same bytes."""

from __future__ import annotations

from typing import Any

import pytest

from spanwire.protocols.openwire.codec._marshallers import MessageFrame
from spanwire.protocols.openwire.codec.codec import FrameDecoder, FrameEncoder, StructureDecoder
from spanwire.protocols.openwire.codec.wire_format import WireFormat
from spanwire.protocols.primitive_map import decode_map, encode_map
from tests.support.openwire_structures import (
    load_vectors,
    normalised,
    properties_of,
    structure_of,
    values_of,
    wire_format_of,
)

VECTORS = load_vectors("vectors")
CASES: list[dict[str, Any]] = VECTORS["cases"]
SEQUENCES: list[dict[str, Any]] = VECTORS["sequences"]
CONVERSATIONS: list[dict[str, Any]] = load_vectors("conversations")["conversations"]
COMPLETE_CASES = 574
COMPLETE_FRAMES = 1501


def decoded(frame: bytes, wire_format: WireFormat) -> Any:
    structure = StructureDecoder(wire_format).decode(frame, 4, len(frame))
    return values_of(structure, wire_format.version, wire_format.stack_traces)


def variants(case: dict[str, Any]) -> list[tuple[bytes, WireFormat]]:
    return [
        (bytes.fromhex(frame["hex"]), wire_format_of(frame, version))
        for frame in case["frames"]
        for version in frame["versions"]
    ]


def test_the_vectors_are_complete() -> None:
    assert len(CASES) == COMPLETE_CASES
    assert sum(len(case["frames"]) for case in CASES) == COMPLETE_FRAMES
    assert len(CONVERSATIONS) == 17
    assert SEQUENCES and all(recorded["frames"] for recorded in [*SEQUENCES, *CONVERSATIONS])
    assert all(conversation["negotiated"] for conversation in CONVERSATIONS)


@pytest.mark.parametrize("kind", sorted({case["type"] for case in CASES}))
def test_every_golden_frame_decodes_to_the_values_beside_it(kind: str) -> None:
    for case in (case for case in CASES if case["type"] == kind):
        expected = normalised(case["values"])
        for frame, wire_format in variants(case):
            assert decoded(frame, wire_format) == expected, f"{case['note']} {wire_format}"


@pytest.mark.parametrize("kind", sorted({case["type"] for case in CASES}))
def test_the_values_of_every_golden_frame_encode_to_the_same_bytes(kind: str) -> None:
    for case in (case for case in CASES if case["type"] == kind):
        for frame, wire_format in variants(case):
            structure = structure_of(normalised(case["values"]))
            assert FrameEncoder(wire_format).encode(structure).hex() == frame.hex(), f"{case['note']} {wire_format}"


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: str(sequence["name"]))
def test_a_sequence_with_evictions_decodes_frame_by_frame(sequence: dict[str, Any]) -> None:
    wire_format = wire_format_of(sequence)
    decoders = {"c2b": StructureDecoder(wire_format), "b2c": StructureDecoder(wire_format)}
    for entry in sequence["frames"]:
        frame = bytes.fromhex(entry["hex"])
        structure = decoders[entry["direction"]].decode(frame, 4, len(frame))
        assert values_of(structure, wire_format.version, wire_format.stack_traces) == normalised(entry["values"])


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: str(sequence["name"]))
def test_a_sequence_gets_the_same_slot_numbers_when_it_is_encoded_again(sequence: dict[str, Any]) -> None:
    wire_format = wire_format_of(sequence)
    encoders = {"c2b": FrameEncoder(wire_format), "b2c": FrameEncoder(wire_format)}
    for entry in sequence["frames"]:
        structure = structure_of(normalised(entry["values"]))
        assert encoders[entry["direction"]].encode(structure).hex() == entry["hex"]


def negotiated(conversation: dict[str, Any], connection: int) -> WireFormat:
    return wire_format_of(next(n for n in conversation["negotiated"] if n["connection"] == connection))


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda conversation: str(conversation["name"]))
def test_a_recorded_conversation_decodes_frame_by_frame_in_each_direction(conversation: dict[str, Any]) -> None:
    decoders: dict[tuple[int, str], FrameDecoder] = {}
    for entry in conversation["frames"]:
        key = (entry["connection"], entry["direction"])
        if key not in decoders:
            decoders[key] = FrameDecoder(pass_messages=False)
            decoders[key].authenticated()
        wire_format = negotiated(conversation, entry["connection"])
        commands = decoders[key].feed(bytes.fromhex(entry["hex"]))
        found = [values_of(command, wire_format.version, wire_format.stack_traces) for command in commands]
        assert found == [normalised(entry["values"])]
        if entry["type"] == "WireFormatInfo":
            decoders[key].negotiated(wire_format)


def test_the_properties_of_every_golden_message_and_handshake_decode_to_their_typed_values() -> None:
    seen = 0
    for case in CASES:
        values = case["values"]
        if values.get("marshalledProperties") is None or "properties" not in values | case:
            continue
        expected = properties_of(values.get("properties", case.get("properties")))
        raw = bytes.fromhex(values["marshalledProperties"])
        assert decode_map(raw) == expected, case["note"]
        assert encode_map(decode_map(raw)) == raw
        seen += 1
    assert seen > 100


def test_a_tight_or_cached_message_arrives_as_its_loose_and_uncached_bytes() -> None:
    seen = 0
    for case in (case for case in CASES if case["type"].endswith("Message")):
        loose = {
            version: bytes.fromhex(frame["hex"])
            for frame in case["frames"]
            if frame["encoding"] == "loose" and not frame["cache"]
            for version in frame["versions"]
        }
        for frame, wire_format in variants(case):
            decoder = FrameDecoder()
            decoder.negotiated(wire_format)
            (command,) = decoder.feed(frame)
            assert isinstance(command, MessageFrame)
            assert command.raw == loose[wire_format.version][4:]
            assert command.version == wire_format.version
            assert FrameEncoder(wire_format).encode(command) == frame
            seen += 1
    assert seen > 1000
