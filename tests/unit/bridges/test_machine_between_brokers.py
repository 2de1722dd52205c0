"""Dialogues with the state machine of a bridge between two brokers that loses and doubles nothing."""

from __future__ import annotations

import pytest

from spanwire.bridges.engine.dialogue import (
    Commit,
    Committed,
    Connect,
    Connected,
    DeadLetter,
    Decide,
    Decided,
    Disconnect,
    Disconnected,
    Elapsed,
    Failed,
    Pause,
    Prepare,
    Prepared,
    Receive,
    Received,
    Recover,
    Recovered,
    Refused,
    Send,
    Sent,
    Start,
    Wait,
)
from spanwire.bridges.engine.machine import LATE_S
from tests.support.bridge_dialogue import BridgeDialogue, distributed_definition, text_messages


def running(size: int = 10) -> BridgeDialogue:
    bridge = BridgeDialogue(distributed_definition(size))
    bridge.hears(Start(), Connected(), Recovered())
    return bridge


def test_a_batch_is_prepared_decided_and_committed() -> None:
    bridge = running()
    messages = text_messages(3)
    assert bridge.hears(Received(messages)) == [Send(messages)]
    assert bridge.hears(Sent()) == [Prepare()]
    assert bridge.hears(Prepared()) == [Decide(3)]
    assert bridge.hears(Decided()) == [Commit()]
    assert isinstance(bridge.hears(Committed())[0], Receive)
    assert (bridge.machine.counters.forwarded, bridge.machine.counters.batches) == (3, 1)


def test_a_link_begins_with_a_recovery_and_runs_after_it() -> None:
    bridge = BridgeDialogue(distributed_definition())
    assert bridge.hears(Start(), Connected()) == [Recover()]
    assert bridge.state == "starting"
    assert isinstance(bridge.hears(Recovered())[0], Receive)
    assert bridge.state == "running"


def test_a_failed_recovery_is_tried_again() -> None:
    bridge = BridgeDialogue(distributed_definition())
    assert bridge.hears(Start(), Connected(), Failed("no answer")) == [Disconnect()]
    assert bridge.hears(Disconnected()) == [Wait(1.0)]
    assert bridge.hears(Elapsed(), Connected()) == [Recover()]


def test_a_failure_behind_the_decision_is_counted_when_the_recovery_has_committed() -> None:
    bridge = running()
    bridge.hears(Received(text_messages(3)), Sent(), Prepared(), Decided(), Failed("lost"))
    assert bridge.machine.counters.forwarded == 0
    bridge.hears(Disconnected(), Elapsed(), Connected(), Recovered(3))
    assert (bridge.machine.counters.forwarded, bridge.machine.counters.batches) == (3, 1)


def test_a_second_recovery_a_minute_later_finds_what_was_prepared_late() -> None:
    bridge = running()
    bridge.now = LATE_S - 1
    assert isinstance(bridge.hears(Received([]))[0], Receive)
    bridge.now = LATE_S
    assert bridge.hears(Received([])) == [Recover()]
    assert isinstance(bridge.hears(Recovered())[0], Receive)
    bridge.now = 3 * LATE_S
    assert isinstance(bridge.hears(Received([]))[0], Receive)


def test_a_pause_during_the_recovery_closes_the_link_after_it() -> None:
    bridge = BridgeDialogue(distributed_definition())
    bridge.hears(Start(), Connected())
    assert bridge.hears(Pause()) == []
    assert bridge.hears(Recovered()) == [Disconnect()]
    bridge.hears(Disconnected())
    assert bridge.state == "paused"


def test_heuristic_outcomes_are_counted_and_the_last_one_is_in_the_status(caplog: pytest.LogCaptureFixture) -> None:
    bridge = running()
    bridge.hears(Received(text_messages(3)), Sent(), Prepared(), Decided(), Committed(("rolled back by hand",)))
    status = bridge.machine.status()
    assert (status.heuristics, status.last_error, status.state.value) == (1, "rolled back by hand", "running")
    assert caplog.messages == [
        f"bridge {bridge.machine.name}: heuristic outcome, messages may be lost or doubled: "
        "rolled back by hand; compare both sides"
    ]


def test_a_message_that_the_target_refuses_becomes_a_dead_letter() -> None:
    bridge = running()
    assert bridge.hears(Received(text_messages(2)), Refused(1, "too large")) == [Disconnect()]
    assert bridge.hears(Disconnected()) == [Connect()]
    (receive,) = bridge.hears(Connected(), Recovered())
    assert isinstance(receive, Receive) and receive.max_messages == 1
    assert bridge.hears(Received(text_messages(1)), Refused(0, "too large")) == [DeadLetter("too large")]
