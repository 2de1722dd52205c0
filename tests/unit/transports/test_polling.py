"""Polling: the loop looks for input for a moment before the thread sleeps."""

from __future__ import annotations

from itertools import groupby

import pytest

from spanwire.service.machine.processors import machine_polling
from spanwire.transports.loop.polling import (
    FIRST_REST,
    MAX_MISSES,
    MAX_REST,
    MAX_SOCKETS,
    POLL_TIME,
    POLLS_JUDGED,
    Polling,
)
from spanwire.transports.loop.turn import Turn
from tests.unit.transports.stage import FakeBroker, FakeLoop, FakeStore
from tests.unit.transports.test_turn import SweptSocket


class Stage:
    """Polling with time passed in."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.polling = Polling()

    def answers(self, count: int) -> list[bool]:
        """Let a client answer each turn within the time of a poll."""
        begun = []
        for _ in range(count):
            begun.append(self.polling.begins(self.now, 1))
            self.now += POLL_TIME / 2
            self.polling.goes_on(self.now)
        return begun

    def lonely_turns(self, count: int) -> list[bool]:
        """Let turns pass after which no input comes in time; return for each whether a poll began."""
        begun = []
        for _ in range(count):
            begun.append(self.polling.begins(self.now, 1))
            self.now += POLL_TIME * 2
            assert not self.polling.goes_on(self.now)
        return begun


def test_a_poll_begins_after_a_turn_with_input_and_ends_after_its_time() -> None:
    stage = Stage()
    assert stage.polling.begins(stage.now, 1)
    assert stage.polling.goes_on(stage.now + POLL_TIME / 2)
    assert not stage.polling.goes_on(stage.now + POLL_TIME)


def test_input_begins_the_time_of_the_poll_anew() -> None:
    stage = Stage()
    stage.polling.begins(stage.now, 1)
    stage.polling.begins(stage.now + POLL_TIME / 2, 1)
    assert stage.polling.goes_on(stage.now + POLL_TIME * 1.2)


def test_a_client_that_always_answers_in_time_is_polled_for_ever() -> None:
    assert all(Stage().answers(20 * POLLS_JUDGED))


def test_polling_rests_when_too_few_polls_find_input_and_longer_each_time() -> None:
    begun = Stage().lonely_turns(3 * (MAX_MISSES + 1) + 7 * FIRST_REST)
    lengths = [len(list(turns)) for _, turns in groupby(begun)]
    polls = MAX_MISSES + 1
    assert lengths == [polls, FIRST_REST, polls, 2 * FIRST_REST, polls, 4 * FIRST_REST]


def test_a_rest_has_a_longest_length() -> None:
    stage = Stage()
    begun = stage.lonely_turns(6 * MAX_REST)
    assert max(len(list(turns)) for polled, turns in groupby(begun) if not polled) == MAX_REST


def test_a_rest_is_short_again_after_polls_that_found_input() -> None:
    stage = Stage()
    stage.lonely_turns(2 * (MAX_MISSES + 1) + 3 * FIRST_REST)
    assert all(stage.answers(2 * POLLS_JUDGED))
    begun = stage.lonely_turns(MAX_MISSES + 1 + FIRST_REST + 1)
    assert begun.count(False) == FIRST_REST


def test_a_turn_that_serves_many_sockets_is_followed_by_no_poll_and_ends_one() -> None:
    stage = Stage()
    assert not stage.polling.begins(stage.now, MAX_SOCKETS + 1)
    assert stage.polling.begins(stage.now, MAX_SOCKETS)
    assert not stage.polling.begins(stage.now, MAX_SOCKETS + 1)
    assert not stage.polling.goes_on(stage.now)


class Turns:
    """A turn over fakes, with a socket that gets input."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.broker = FakeBroker()
        self.turn = Turn(self.loop, self.broker, self.loop, FakeStore(self.broker.journal), polling=Polling())
        self.socket = SweptSocket()
        self.turn.start()
        self.loop.settle()


def test_the_loop_does_not_sleep_while_it_polls() -> None:
    stage = Turns()
    stage.turn.touch(stage.socket)
    assert [stage.loop.turn() for _ in range(10)] == 10 * [1]
    stage.loop.time += POLL_TIME
    stage.loop.settle()


def test_a_turn_without_input_begins_no_poll() -> None:
    stage = Turns()
    stage.turn.wake()
    assert [stage.loop.turn() for _ in range(2)] == [1, 0]


def test_a_turn_with_input_of_many_sockets_begins_no_poll() -> None:
    stage = Turns()
    for _ in range(MAX_SOCKETS + 1):
        stage.turn.touch(SweptSocket())
    assert [stage.loop.turn() for _ in range(2)] == [1, 0]


def test_input_during_a_poll_begins_no_second_poll() -> None:
    stage = Turns()
    for _ in range(3):
        stage.turn.touch(stage.socket)
        stage.loop.turn()
    assert stage.loop.turn() == 1


def test_a_turn_that_is_stopped_polls_no_more() -> None:
    stage = Turns()
    stage.turn.touch(stage.socket)
    stage.loop.turn()
    stage.turn.stop()
    stage.loop.settle()


def test_a_machine_with_one_processor_does_not_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0}, raising=False)
    assert machine_polling() is None
