"""Dialogues with the state machine of a bridge whose link completes a batch while the next one is under way."""

from __future__ import annotations

import pytest

from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Completed,
    Connect,
    Connected,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    Elapsed,
    Failed,
    HandedOver,
    Interrupt,
    Interrupted,
    Pause,
    Receive,
    Received,
    Refused,
    Send,
    Sent,
    Start,
    Stop,
    Wait,
)
from spanwire.bridges.engine.machine import MAX_BATCHES
from spanwire.model.errors import LocalProtocolError
from tests.support.bridge_dialogue import BridgeDialogue, definition, text_messages


def handing(size: int = 3, max_retries: int = -1) -> BridgeDialogue:
    """A bridge that has handed three messages over."""
    bridge = BridgeDialogue(definition(size=size, max_retries=max_retries))
    bridge.hears(Start(), Connected())
    hand_over(bridge)
    return bridge


def hand_over(bridge: BridgeDialogue) -> None:
    bridge.hears(Received(text_messages(3)))
    assert bridge.hears(Sent(is_stored=False)) == [Acknowledge()]
    assert isinstance(bridge.hears(HandedOver())[0], Receive)


def counts(bridge: BridgeDialogue) -> tuple[int, int, int, int]:
    counters = bridge.machine.counters
    return counters.forwarded, counters.batches, counters.aborted, counters.failures


def test_the_next_batch_is_received_and_sent_before_the_batch_before_is_complete_and_counted() -> None:
    bridge = handing()
    messages = text_messages(3)
    assert bridge.hears(Received(messages)) == [Send(messages)]
    assert counts(bridge) == (0, 0, 0, 0)
    assert bridge.hears(Completed()) == []
    assert counts(bridge) == (3, 1, 0, 0)
    assert bridge.hears(Sent(is_stored=False)) == [Acknowledge()]
    bridge.hears(HandedOver(), Completed())
    assert counts(bridge) == (6, 2, 0, 0)


def test_no_third_batch_is_under_way() -> None:
    bridge = handing()
    bridge.hears(Received(text_messages(3)), Sent(is_stored=False))
    assert MAX_BATCHES == 2
    with pytest.raises(AssertionError, match="one batch at a time"):
        bridge.hears(HandedOver())


def test_a_completion_of_no_batch_is_an_error() -> None:
    bridge = handing()
    bridge.hears(Completed())
    with pytest.raises(LocalProtocolError, match="Completed while receiving"):
        bridge.hears(Completed())


def test_a_failure_drops_both_batches_and_counts_neither() -> None:
    bridge = handing()
    bridge.hears(Received(text_messages(3)))
    assert bridge.hears(Failed("the target's disk is full")) == [Disconnect()]
    assert bridge.hears(Disconnected("the batch is lost")) == [Wait(1.0)]
    assert counts(bridge) == (0, 0, 6, 1)
    assert bridge.machine.last_error == "the target's disk is full"


def test_a_batch_that_is_complete_when_the_link_has_closed_after_a_failure_is_counted() -> None:
    bridge = handing()
    bridge.hears(Failed("the source is lost"), Completed())
    assert bridge.hears(Disconnected()) == [Wait(1.0)]
    assert counts(bridge) == (3, 1, 0, 1)


def test_a_batch_that_is_never_completed_ends_the_bridge_after_its_retries() -> None:
    bridge = handing(max_retries=2)
    attempts = 1
    while bridge.hears(Failed("the target's disk is full"), Disconnected()) == [Wait(1.0)]:
        bridge.hears(Elapsed(), Connected())
        hand_over(bridge)
        attempts += 1
    assert (bridge.state, attempts) == ("failed", 3)


def test_a_completion_after_the_failure_does_not_retry_against_the_limit() -> None:
    bridge = handing(max_retries=0)
    bridge.hears(Failed("the source is lost"), Completed(), Disconnected())
    assert bridge.state == "failed"


@pytest.mark.parametrize(("command", "state"), [(Pause(), "paused"), (Stop(), "stopped")])
def test_a_pause_or_stop_lets_the_link_complete_the_batch(command: Pause | Stop, state: str) -> None:
    bridge = handing()
    assert bridge.hears(command) == [Interrupt()]
    assert bridge.hears(Interrupted()) == [Disconnect()]
    bridge.hears(Completed(), Disconnected())
    assert (bridge.state, counts(bridge)) == (state, (3, 1, 0, 0))


def test_a_stop_names_what_the_link_could_not_complete() -> None:
    bridge = handing()
    bridge.hears(Stop(), Interrupted(), Disconnected("the target's disk is full"))
    assert (bridge.state, counts(bridge)) == ("stopped", (0, 0, 3, 1))
    assert bridge.machine.last_error == "the target's disk is full"


def test_a_refused_message_behind_a_batch_becomes_a_dead_letter_and_the_batch_is_counted() -> None:
    bridge = handing()
    assert bridge.hears(Received(text_messages(3)), Refused(1, "too large")) == [Disconnect()]
    assert bridge.hears(Completed(), Disconnected()) == [Connect()]
    assert counts(bridge) == (3, 1, 3, 0)
    bridge.hears(Connected(), Received(text_messages(1)), Sent(is_stored=False), HandedOver())
    assert bridge.hears(Received(text_messages(1)), Refused(0, "too large")) == [DeadLetter("too large")]
    bridge.hears(Completed())
    assert isinstance(bridge.hears(DeadLettered())[0], Receive)
    assert counts(bridge)[0] == 4


def test_a_defect_drops_the_batch_that_was_handed_over() -> None:
    bridge = handing()
    bridge.machine.break_down("a defect", bridge.time)
    assert counts(bridge) == (0, 0, 3, 1)
