"""The transport without sockets under any order of events: bytes stay in order, none is lost, nobody is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.transports.vm import VM_BUFFER_BYTES
from tests.unit.transports.vm_stage import VmStage

SIZES = st.one_of(st.integers(1, 100), st.integers(VM_BUFFER_BYTES // 3, VM_BUFFER_BYTES * 2))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("client writes"), SIZES),
        st.tuples(st.just("broker sends"), SIZES),
        st.tuples(st.just("client processes"), SIZES),
        st.tuples(st.sampled_from(["turn", "pause", "resume"]), st.just(0)),
    ),
    max_size=40,
)


class Run:
    """One connection, and what each side should see."""

    def __init__(self) -> None:
        self.stage = VmStage()
        self.client, self.feed, self.connection = self.stage.connect()
        self.pump = self.stage.turn._sockets[self.connection]
        self.written = b""
        self.sent = b""
        self.processed = 0
        self.has_room = True
        self.told = 0

    def step(self, kind: str, size: int) -> None:
        if kind == "client writes":
            data = self._next(len(self.written), size)
            self.written += data
            self.has_room = self.client.write(data)
            self.told = self.feed.room_again
        elif kind == "broker sends":
            data = self._next(len(self.sent), size)
            self.sent += data
            self.connection.to_send.append(data)
            self.stage.turn.touch(self.pump)
        elif kind == "client processes":
            count = min(size, len(self.feed.received_bytes) - self.processed)
            self.processed += count
            self.client.taken(count)
        elif kind == "turn":
            self.stage.loop.turn()
        else:
            self.connection.wants_read = kind == "resume"
            self.stage.turn.touch(self.pump)

    def _next(self, offset: int, size: int) -> bytes:
        return bytes((offset + index) % 251 for index in range(size))

    def check(self) -> None:
        received = b"".join(self.connection.received)
        assert self.written.startswith(received)
        assert self.sent.startswith(self.feed.received_bytes)

    def settle(self) -> None:
        """Everybody reads and has time."""
        self.connection.wants_read = True
        self.stage.turn.touch(self.pump)
        self.stage.loop.settle(1000)
        self.client.taken(len(self.feed.received_bytes) - self.processed)
        self.stage.loop.settle(1000)


@given(STEPS)
def test_bytes_arrive_in_order_and_whoever_waits_is_told(steps: list[tuple[str, int]]) -> None:
    run = Run()
    for kind, size in steps:
        run.step(kind, size)
        run.check()
    run.settle()
    assert b"".join(run.connection.received) == run.written
    assert run.feed.received_bytes == run.sent
    assert run.connection.unsent_reports[-1] == 0
    assert run.has_room or run.feed.room_again > run.told


@pytest.mark.large
@given(STEPS)
def test_what_was_written_before_a_close_arrives_and_then_the_end(steps: list[tuple[str, int]]) -> None:
    run = Run()
    for kind, size in steps:
        run.step(kind, size)
    run.client.close()
    run.settle()
    assert b"".join(run.connection.received) == run.written
    assert run.connection.eofs > 0
    assert run.stage.connector.connection_count == 0
