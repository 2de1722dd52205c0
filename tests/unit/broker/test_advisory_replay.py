"""What a new listener of advisories is told of that is there already, some of it in each turn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.advisories.advisory_replay import LOOKS_PER_SLICE, may_hear_of
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.model.destination import ADVISORY_PREFIX, TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

FAMILIES = ("Connection", "Queue", "TempQueue", "Producer.", "Consumer.", "VirtualDestination.Consumer.")


def listens(stage: Stage, topic: str) -> Listener:
    """Somebody who listens to advisories."""
    return stage.peer("listener").consumes(f"topic://{ADVISORY_PREFIX}{topic}", prefetch=30_000)


def steps(stage: Stage, listener: Listener) -> list[int]:
    """How many advisories come in each turn."""
    found = [len(listener.takes())]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        found.append(len(listener.takes()))
    return found


def test_many_connections_are_told_some_in_each_turn() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    for number in range(3 * SLICE_MESSAGES - 1):
        stage.peer(f"c{number}")
    assert steps(stage, listens(stage, "Connection")) == [SLICE_MESSAGES] * 3


def test_the_consumers_of_one_connection_are_told_some_in_each_turn() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    bridge = stage.peer("b")
    for _ in range(2 * SLICE_MESSAGES + 5):
        bridge.consumes("queue://Q")
    assert steps(stage, listens(stage, "Consumer.Queue.>")) == [SLICE_MESSAGES, SLICE_MESSAGES, 5]


def test_what_goes_before_its_turn_comes_is_told_as_gone_alone() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    peers = [stage.peer(f"c{number}") for number in range(SLICE_MESSAGES + 2)]
    listener = listens(stage, "Connection")
    assert len(listener.takes()) == SLICE_MESSAGES
    peers[-1].leaves()
    stage.settle()
    told = [text for text in listener.takes() if f":c{SLICE_MESSAGES + 1}:" in text]
    assert told == [f"-ID:c{SLICE_MESSAGES + 1}:1"]


def test_a_listener_that_leaves_is_told_no_more() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    for number in range(3 * SLICE_MESSAGES):
        stage.peer(f"c{number}")
    listens(stage, "Connection").peer.leaves()
    stage.settle()
    assert stage.memory() == 0


def test_destinations_of_which_there_is_nothing_to_tell_are_passed_by_in_slices_too() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    producer = stage.peer("p")
    for number in range(LOOKS_PER_SLICE + 5):
        producer.sends(f"queue://Q.{number}", "1", persistent=False)
    stage.settle()
    listener = listens(stage, "TempQueue")
    turns = 0
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        turns += 1
    assert (listener.takes(), turns) == ([], 1)


@pytest.mark.parametrize(
    ("wanted", "families"),
    [
        ("TempQueue,topic://ActiveMQ.Advisory.TempTopic", ["TempQueue"]),
        ("Connection", ["Connection"]),
        ("Consumer.Queue.A", ["Consumer."]),
        ("Consumer.>", ["Consumer."]),
        (">", list(FAMILIES)),
    ],
)
def test_what_a_listener_cannot_hear_of_is_not_looked_at(wanted: str, families: list[str]) -> None:
    asked = destination(f"topic://{ADVISORY_PREFIX}{wanted}")
    assert [family for family in FAMILIES if may_hear_of(asked, family)] == families


elements = st.sampled_from(["ActiveMQ", "Advisory", "Connection", "Consumer", "Queue", "A", "*", ">"])


@given(st.lists(elements, min_size=1, max_size=5), st.sampled_from(FAMILIES), st.sampled_from(["", "A", "Queue.A"]))
def test_whatever_a_pattern_matches_is_looked_at(pattern: list[str], family: str, rest: str) -> None:
    wanted = Destination(TOPIC, ".".join(pattern))
    if wanted.matches(Destination(TOPIC, f"{ADVISORY_PREFIX}{family}{rest}")):
        assert may_hear_of(wanted, family)
