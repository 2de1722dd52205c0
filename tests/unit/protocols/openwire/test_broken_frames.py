"""Each of the malformed frames gets what a correct decoder does with it: an error of the named layer, or a value."""

from __future__ import annotations

from typing import Any

import pytest

from spanwire.model.errors import MessageFormatError
from spanwire.protocols.openwire.codec._marshallers import (
    BrokerId,
    Command,
    ControlCommand,
    ExceptionResponse,
    KeepAliveInfo,
    Message,
    WireFormatInfo,
)
from spanwire.protocols.openwire.codec.codec import FrameDecoder, StructureDecoder
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError
from spanwire.protocols.openwire.codec.wire_format import WireFormat, WireFormatPreferences, negotiate
from spanwire.protocols.openwire.messages.message_body import KINDS, neutral_body
from spanwire.protocols.primitive_map import decode_map
from tests.support.openwire_structures import load_vectors, wire_format_of

BROKEN: list[dict[str, Any]] = load_vectors("broken")["broken"]

# The cases that a decoder may accept; all others must be refused.
ACCEPTED = {
    "size-cut-3-bytes": "incomplete",
    "string-flag-2": "decodes",
    "throwable-class-gadget": "decodes",
    "bs-too-many-bytes": "decodes",
    "wfi-version-negative": "decodes",
    "props-trailing": "decodes",
}


def decoder_for(entry: dict[str, Any]) -> FrameDecoder:
    decoder = FrameDecoder(pass_messages=False)
    if not entry["name"].startswith("wfi-"):
        decoder.negotiated(wire_format_of(entry))
        decoder.authenticated()
    return decoder


def received(entry: dict[str, Any]) -> list[Command]:
    """All commands of the entry's frames, then their properties and bodies as somebody who needs them reads them."""
    decoder = decoder_for(entry)
    commands: list[Command] = []
    for frame in entry.get("frames") or [entry["hex"]]:
        found = decoder.feed(bytes.fromhex(frame))
        while found:
            commands += found
            found = decoder.feed(b"")
    return commands


def read_inside(command: Command) -> None:
    if isinstance(command, WireFormatInfo):
        negotiate(WireFormatPreferences(), command)
    if isinstance(command, Message):
        decode_map(command.marshalled_properties or b"")
        neutral_body(KINDS[command.type_id()], command.content, command.compressed)


def test_all_malformed_frames_are_here() -> None:
    assert len(BROKEN) == 140
    assert {entry["layer"] for entry in BROKEN} == {"size", "frame", "properties", "body"}


@pytest.mark.parametrize(
    "entry", [e for e in BROKEN if e["layer"] in ("size", "frame")], ids=lambda entry: str(entry["name"])
)
def test_a_malformed_frame_is_a_protocol_error(entry: dict[str, Any]) -> None:
    expected = ACCEPTED.get(entry["name"])
    if expected is not None:
        commands = received(entry)
        for command in commands:
            read_inside(command)
        assert len(commands) == (0 if expected == "incomplete" else 1)
        return
    with pytest.raises(OpenWireProtocolError) as failure:
        for command in received(entry):
            read_inside(command)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "entry", [e for e in BROKEN if e["layer"] in ("properties", "body")], ids=lambda entry: str(entry["name"])
)
def test_a_message_with_a_broken_inside_decodes_and_fails_only_when_the_inside_is_read(entry: dict[str, Any]) -> None:
    (command,) = received(entry)
    if entry["name"] in ACCEPTED:
        read_inside(command)
        return
    expected = OpenWireProtocolError if isinstance(command, WireFormatInfo) else MessageFormatError
    with pytest.raises(expected):
        read_inside(command)


def test_a_flag_of_two_is_read_as_true() -> None:
    (command,) = received(next(e for e in BROKEN if e["name"] == "string-flag-2"))
    assert isinstance(command, ControlCommand)
    assert command.command == "a"


def test_the_fields_start_behind_a_boolean_stream_that_is_too_long() -> None:
    (command,) = received(next(e for e in BROKEN if e["name"] == "bs-too-many-bytes"))
    assert isinstance(command, KeepAliveInfo)
    assert command.command_id == 0


def test_a_version_of_zero_or_less_counts_as_absent() -> None:
    (command,) = received(next(e for e in BROKEN if e["name"] == "wfi-version-negative"))
    assert isinstance(command, WireFormatInfo)
    assert negotiate(WireFormatPreferences(version=11), command).version == 11


def test_a_structure_that_is_no_command_decodes_but_is_refused_as_a_frame_of_its_own() -> None:
    frame = bytes.fromhex(next(e for e in BROKEN if e["name"] == "type-not-a-command")["hex"])
    structure = StructureDecoder(WireFormat()).decode(frame, 4, len(frame))
    assert isinstance(structure, BrokerId)
    decoder = FrameDecoder()
    decoder.negotiated(WireFormat())
    with pytest.raises(OpenWireProtocolError, match="no command"):
        decoder.feed(frame)


def test_the_class_named_in_an_exception_stays_text() -> None:
    (command,) = received(next(e for e in BROKEN if e["name"] == "throwable-class-gadget"))
    assert isinstance(command, ExceptionResponse)
    assert command.exception is not None
    assert command.exception.class_name == "java.lang.ProcessBuilder"
