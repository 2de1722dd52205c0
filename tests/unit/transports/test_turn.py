"""The end of a turn: timers of the broker, the store and the connections."""

from __future__ import annotations

import logging

import pytest

from spanwire.model.environment import Time
from spanwire.transports.base import MAX_FLUSHES, SWEEP_BUDGET, SWEEP_INTERVAL, SWEEP_SLICE
from spanwire.transports.loop.turn import Turn
from tests.unit.transports.stage import FakeBroker, FakeLoop, FakeStore


class SweptSocket:
    """Counts its sweeps and flushes."""

    def __init__(self) -> None:
        self.touched = False
        self.sweeps = 0
        self.flushes = 0

    def flush(self, now: Time) -> None:
        self.flushes += 1

    def sweep(self, now: Time) -> None:
        self.sweeps += 1

    def wants_read(self) -> bool:
        return True

    def note_activity(self) -> None:
        return None

    def stop_reading(self) -> None: ...

    def set_throttled(self, is_throttled: bool) -> None:
        return None

    def close(self, now: Time) -> None:
        return None

    def give_up(self, reason: str, now: Time) -> None:
        return None


class Stage:
    """A turn over fakes."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.broker = FakeBroker()
        self.store = FakeStore(self.broker.journal)
        self.turn = Turn(self.loop, self.broker, self.loop, self.store)
        self.turn.start()
        self.loop.settle()


def test_the_broker_runs_when_its_timer_is_due_and_not_before() -> None:
    stage = Stage()
    stage.broker.due = stage.loop.time + 3.0
    stage.turn.wake()
    stage.loop.settle()
    stage.loop.advance(2.9)
    assert stage.broker.runs == []
    stage.loop.advance(0.2)
    assert len(stage.broker.runs) == 1


def test_an_earlier_timer_replaces_a_later_one() -> None:
    stage = Stage()
    stage.broker.due = stage.loop.time + 60.0
    stage.turn.wake()
    stage.loop.settle()
    stage.broker.due = stage.loop.time + 1.0
    stage.turn.wake()
    stage.loop.settle()
    stage.loop.advance(1.1)
    assert len(stage.broker.runs) == 1


def test_a_timer_that_moved_to_later_does_not_run_the_broker_early() -> None:
    stage = Stage()
    stage.broker.due = stage.loop.time + 1.0
    stage.turn.wake()
    stage.loop.settle()
    stage.broker.due = stage.loop.time + 5.0
    stage.loop.advance(4.0)
    assert stage.broker.runs == []
    stage.loop.advance(1.5)
    assert len(stage.broker.runs) == 1


def test_the_store_gets_a_turn_at_its_deadline() -> None:
    stage = Stage()
    stage.store.deadline = stage.loop.time + 0.005
    stage.turn.wake()
    stage.loop.settle()
    stage.store.events.clear()
    stage.loop.advance(0.004)
    assert stage.store.events == []
    stage.loop.advance(0.004)
    assert stage.store.events == ["hand over"]
    assert stage.broker.runs == []


class ReportingStore(FakeStore):
    """Reports what it has stored within its turn, so that a socket has an answer to write."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.broker.journal)
        self.stage = stage
        self.reports = 0

    def turn(self, now: float, active: int) -> None:
        super().turn(now, active)
        if self.reports > 0:
            self.reports -= 1
            self.stage.broker.dirty.append("client")
            self.stage.turn.wake()


def stage_with_reports(reports: int) -> tuple[Stage, ReportingStore, SweptSocket]:
    stage = Stage()
    store = ReportingStore(stage)
    stage.turn = Turn(stage.loop, stage.broker, stage.loop, store)
    socket = SweptSocket()
    stage.turn.attach("client", socket)
    store.reports = reports
    stage.turn.wake()
    return stage, store, socket


def test_answers_to_what_the_store_has_written_in_its_turn_leave_in_that_turn() -> None:
    stage, store, socket = stage_with_reports(1)
    assert stage.loop.turn() == 1
    assert socket.flushes == 1
    assert len(store.active) == 2  # a turn of the store follows the report
    assert stage.loop.turn() == 0


def test_a_store_that_reports_again_gets_another_turn_of_the_loop() -> None:
    stage, _, socket = stage_with_reports(2)
    stage.loop.turn()
    assert socket.flushes == 1
    stage.loop.settle()
    assert socket.flushes == 2


def test_after_a_store_that_failed_in_its_turn_the_next_input_ends_a_turn() -> None:
    stage, store, socket = stage_with_reports(0)
    store.deadline = "no time"  # type: ignore[assignment]
    with pytest.raises(TypeError):
        stage.loop.turn()
    store.deadline = None
    stage.turn.touch(socket)
    stage.loop.settle()
    assert socket.flushes == 1


def test_the_store_is_told_how_many_sockets_had_input() -> None:
    stage, store, socket = stage_with_reports(0)
    stage.loop.settle()
    store.active.clear()
    for each in (socket, socket, SweptSocket()):
        stage.turn.touch(each)
    stage.loop.settle()
    stage.turn.wake()
    stage.loop.settle()
    assert store.active == [2, 0]


def test_of_many_sockets_with_output_some_are_flushed_in_each_turn_and_each_once() -> None:
    stage = Stage()
    sockets = [SweptSocket() for _ in range(2 * MAX_FLUSHES + 10)]
    for socket in sockets:
        stage.turn.attach(socket, socket)
    stage.turn.touch(sockets[0])
    stage.broker.dirty.extend(sockets)
    for done in (MAX_FLUSHES, 2 * MAX_FLUSHES, len(sockets)):
        stage.turn.wake()
        stage.loop.turn()
        assert [socket.flushes for socket in sockets] == [1] * done + [0] * (len(sockets) - done)
    stage.loop.settle()
    assert {socket.flushes for socket in sockets} == {1}


def test_a_socket_with_input_and_output_is_flushed_once() -> None:
    stage = Stage()
    socket = SweptSocket()
    stage.turn.attach(socket, socket)
    stage.turn.touch(socket)
    stage.broker.dirty.append(socket)
    stage.loop.settle()
    assert (socket.flushes, socket.touched) == (1, False)


def test_failing_timers_are_logged_and_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.broker.due = 0.0
    stage.broker.fails = True
    with caplog.at_level(logging.ERROR):
        stage.turn.wake()
        stage.loop.settle()
        stage.loop.advance(0.5)
        assert len(stage.broker.runs) == 1
        stage.loop.advance(1.0)
    assert len(stage.broker.runs) == 2
    assert len(caplog.records) == 2


def test_every_connection_is_looked_at_in_each_sweep_also_when_there_are_many() -> None:
    stage = Stage()
    sockets = [SweptSocket() for _ in range(2 * SWEEP_SLICE + 5)]
    for socket in sockets:
        stage.turn.attach(object(), socket)
    stage.loop.advance(SWEEP_INTERVAL * 3 + 0.01)
    assert {socket.sweeps for socket in sockets} == {3}


def test_thousands_of_sockets_that_miss_one_deadline_leave_the_others_their_turn() -> None:
    stage = Stage()
    order: list[str] = []

    class Missing(SweptSocket):
        def sweep(self, now: Time) -> None:
            stage.loop.time += 0.0001  # what closing costs
            order.append("closed")

    for _ in range(1000):
        stage.turn.attach(object(), Missing())
    stage.loop.timers[0].callback()  # the sweep is due
    others = 0
    while order.count("closed") < 1000:
        stage.loop.call_soon(lambda: order.append("other"))
        stage.loop.turn()
        others += 1
    assert others >= 20
    longest = max(len(run) for run in "".join(word[0] for word in order).split("o"))
    assert longest <= 2 * (SWEEP_BUDGET / 0.0001 + SWEEP_SLICE)  # the first slice and the one of the next turn


def test_after_the_stop_nothing_happens() -> None:
    stage = Stage()
    stage.broker.due = stage.loop.time + 1.0
    stage.turn.wake()
    stage.loop.settle()
    stage.turn.stop()
    stage.turn.wake()
    stage.loop.advance(5.0)
    assert stage.broker.runs == []
