"""Whole messages are cut out of what was received, and all else is what the library alone makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from spanwire.transports.websocket.handshake import Handshake
from spanwire.transports.websocket.input import FrameInput
from tests.support.websocket_dialogue import MASK, frame, request

MAX_SIZE = 70_000
NO_LIMIT = 1_000_000
DATA_OPCODES = (Opcode.CONT, Opcode.TEXT, Opcode.BINARY)

Read = tuple[list[tuple[int, bool, bytes]], list[bytes], object, object]


def protocol() -> ServerProtocol:
    """The library's state machine behind an accepted handshake."""
    handshake = Handshake((), MAX_SIZE)
    assert handshake.receive_data(request()) == b""
    assert handshake.is_accepted
    assert handshake.protocol.data_to_send()
    return handshake.protocol


def by_library(pieces: list[bytes]) -> Read:
    machine = protocol()
    found = []
    for piece in pieces:
        if not machine.eof_sent:
            machine.receive_data(piece)
            frames = [one for one in machine.events_received() if one.opcode in DATA_OPCODES]
            found += [(int(one.opcode), one.fin, bytes(one.data)) for one in frames]
    return found, machine.data_to_send(), machine.close_sent, machine.close_rcvd


def by_input(pieces: list[bytes], limit: int = NO_LIMIT) -> Read:
    machine = protocol()
    frames = FrameInput(machine, MAX_SIZE)
    found = []
    for piece in pieces:
        frames.receive(piece)
        while frames.has_more:
            found += [(one.opcode, one.is_last, one.data) for one in frames.frames(limit)]
    return found, machine.data_to_send(), machine.close_sent, machine.close_rcvd


FRAMES = st.builds(
    frame,
    st.sampled_from([Opcode.TEXT, Opcode.TEXT, Opcode.BINARY, Opcode.CONT, Opcode.PING, Opcode.PONG, Opcode.CLOSE]),
    st.sampled_from([b"", b"x", b"\x03\xe8end", b"y" * 125, b"z" * 126, b"w" * 65_535, b"v" * 65_536]),
    is_last=st.sampled_from([True, True, True, False]),
)
BYTES = st.one_of(FRAMES, FRAMES, FRAMES, st.binary(max_size=12))


@given(st.lists(BYTES, max_size=8), st.lists(st.integers(0, 2_000), max_size=8), st.integers(1, 3))
def test_frames_are_those_of_the_library_alone(parts: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(parts)
    ends = sorted(min(cut, len(data)) for cut in cuts)
    pieces = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True) if end > start]
    assert by_input(pieces, limit) == by_library(pieces)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("step", [1, 3, 100_000])
def test_a_message_is_read_from_pieces_of_any_size(size: int, step: int) -> None:
    data = frame(Opcode.TEXT, b"a" * size) + frame(Opcode.BINARY, b"\xff")
    pieces = [data[start : start + step] for start in range(0, len(data), step)]
    assert by_input(pieces)[0] == [(1, True, b"a" * size), (2, True, b"\xff")]


def test_a_whole_message_does_not_reach_the_library() -> None:
    machine = protocol()
    machine.fail(1000)  # from now on the library reads nothing
    machine.eof_sent = False
    frames = FrameInput(machine, MAX_SIZE)
    frames.receive(frame(Opcode.TEXT, b"hello"))
    assert [one.data for one in frames.frames(1)] == [b"hello"]


def test_a_message_above_the_limit_is_refused_at_its_header() -> None:
    machine = protocol()
    frames = FrameInput(machine, MAX_SIZE)
    frames.receive(b"\x81\xff" + (MAX_SIZE + 1).to_bytes(8, "big") + MASK)
    assert frames.frames(1) == []
    assert machine.close_sent is not None
    assert machine.close_sent.code == 1009
    assert machine.state is not OPEN


def test_a_message_between_fragments_is_an_error_of_the_client() -> None:
    machine = protocol()
    frames = FrameInput(machine, MAX_SIZE)
    frames.receive(frame(Opcode.TEXT, b"a", is_last=False) + frame(Opcode.TEXT, b"b"))
    assert [one.data for one in frames.frames(10)] == [b"a"]
    assert machine.close_sent is not None
    assert machine.close_sent.code == 1002


def test_incomplete_headers_wait_and_count_as_waiting_bytes() -> None:
    frames = FrameInput(protocol(), MAX_SIZE)
    frames.receive(b"\x81")
    assert not frames.has_more
    assert frames.waiting_bytes == 1
    frames.receive(b"\xfe\x01")
    assert not frames.has_more
    assert frames.waiting_bytes == 3
    frames.forget()
    assert frames.waiting_bytes == 0
