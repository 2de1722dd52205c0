"""Message groups that are closed again and again in a deep queue: consumers go back for what is free, but not
without end (ActiveMQ message groups, "Closing a message group").
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import GroupMap, PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.selection.group_rescan import MAX_SAVED_SCANS, SCANS_PER_MESSAGE
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import is_first
from tests.support.seeds import share
from tests.unit.broker.test_group_dialogues import owners

QUEUE = "queue://Q"


def queue_of(stage: Stage) -> Queue:
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    return queue


def looks(stage: Stage) -> int:
    return queue_of(stage).selective.scanned


def spends_all(stage: Stage) -> None:
    """Nothing is saved for looks: to go back has to be earned."""
    handover = queue_of(stage).selective._group_rescan
    handover._saved = 0.0
    handover._saved_at = stage.now.monotonic


def sends_groups(producer: Peer, count: int, groups: int, each: int, shuffle: int = 0) -> None:
    """``count`` messages in ``groups`` groups of which each is closed by every ``each``-th of its messages. A text says
    which group, which message of it, and whether it closes.
    """
    order = [number % groups for number in range(count)]
    if shuffle:
        Random(shuffle).shuffle(order)
    numbers = [0] * groups
    for group in order:
        number = numbers[group]
        numbers[group] += 1
        closes = number % each == each - 1
        text = f"{group} {number} {int(closes)}"
        producer.sends(QUEUE, text, group=f"g{group}", group_sequence=-1 if closes else 0, persistent=False)


class Drain:
    """Takes what comes and holds it against what groups promise: order, and one consumer from first to closing."""

    def __init__(self, stage: Stage, listeners: list[Listener]) -> None:
        self.stage = stage
        self.listeners = listeners
        self.count = 0
        self._seen = 0
        self._next: dict[str, int] = {}
        self._owners: dict[str, Listener] = {}
        self._out: dict[Listener, list[str]] = {listener: [] for listener in listeners}

    def check(self) -> None:
        dispatches = self.stage.dispatches
        while self._seen < len(dispatches):
            listener, delivery = dispatches[self._seen]
            self._seen += 1
            group, number, closes = delivery.text.split()
            assert int(number) == self._next.get(group, 0), delivery.text
            self._next[group] = int(number) + 1
            owner = self._owners.get(group)
            assert owner is None or owner is listener, delivery.text
            assert is_first(delivery.message) == (owner is None), delivery.text
            if closes == "1":
                self._owners.pop(group, None)
            else:
                self._owners[group] = listener
            self._out[listener].append(delivery.text)
            self.count += 1

    def acknowledge(self, listener: Listener, at_most: int) -> bool:
        """Its oldest messages; whether it had some."""
        out = self._out[listener]
        for text in out[:at_most]:
            listener.acknowledges_one(text)
        acknowledged = len(out[:at_most])
        del out[:acknowledged]
        while self.stage.broker.next_timeout() == 0.0:
            self.stage.runs()
        listener.peer.flushes()
        self.check()
        return acknowledged > 0


@pytest.mark.parametrize("each", [2, 5])
@pytest.mark.large
def test_looks_grow_with_the_messages_and_not_with_the_closed_groups_of_a_deep_queue(each: int) -> None:
    count = 12_000
    stage = Stage(persistent=False)
    sends_groups(stage.peer("p"), count, 1_000, each)
    listeners = [stage.peer(name).consumes(QUEUE, prefetch=20) for name in "cde"]
    drain = Drain(stage, listeners)
    spends_all(stage)
    drain.check()
    turn = 0
    while drain.count < count and turn < 10 * count:
        turn += 1
        for place, listener in enumerate(drain.listeners):
            if turn % (1, 7, 40)[place] == 0:  # one is quick, one is slow, one hardly ever comes
                drain.acknowledge(listener, 20)
    assert drain.count == count
    assert looks(stage) <= (3 + SCANS_PER_MESSAGE) * count


@pytest.mark.large
def test_more_groups_than_the_table_holds_do_not_make_consumers_look_without_end() -> None:
    count = 6_000
    stage = Stage(
        PolicyEntry(destination("queue://>"), queue=QueuePolicy(groups=GroupMap("cached", 10))), persistent=False
    )
    producer = stage.peer("p")
    for number in range(count):
        producer.sends(QUEUE, str(number), group=f"g{number % 50}", persistent=False)
    listeners = [stage.peer(name).consumes(QUEUE, prefetch=10) for name in "cd"]
    spends_all(stage)
    taken = 0
    turn = 0
    while taken < count and turn < count:
        turn += 1
        for place, listener in enumerate(listeners):
            if place == 0 or turn % 5 == 0 or taken == count - 10:
                for text in listener.takes():
                    taken += 1
                    listener.acknowledges_one(text)
                while stage.broker.next_timeout() == 0.0:
                    stage.runs()
    assert taken == count
    assert looks(stage) <= (2 + SCANS_PER_MESSAGE) * count


def closed_far_behind() -> tuple[Stage, Listener, Listener]:
    """The first consumer closed a group, and has no room; the second is at the end, far ahead, and has."""
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", group="g", persistent=False)
    producer.sends(QUEUE, "x", group="h", persistent=False)
    one = stage.peer("c").consumes(QUEUE, prefetch=1)
    producer.sends(QUEUE, "last", group="g", group_sequence=-1, persistent=False)
    for number in range(2_000):
        producer.sends(QUEUE, f"g{number}", group="g", persistent=False)
    two = stage.peer("d").consumes(QUEUE, prefetch=1)
    assert (one.out, two.out) == (["1"], ["x"])
    two.acknowledges("x")
    stage.settle()
    spends_all(stage)
    one.acknowledges("1")
    stage.settle()
    assert one.out == ["1", "last"]
    return stage, one, two


def test_a_closed_group_goes_to_another_consumer_far_ahead_when_its_time_has_come() -> None:
    stage, one, two = closed_far_behind()
    assert two.out == ["x"]
    due = stage.broker.next_timeout()
    assert due is not None
    assert 0 < due - stage.now.monotonic <= 0.03
    stage.waits(0.03)
    stage.settle()
    assert (one.out, two.out) == (["1", "last"], ["x", "g0"])


def test_until_then_the_consumer_that_closed_a_group_may_go_on_with_it() -> None:
    stage, one, two = closed_far_behind()
    assert owners(stage).keys() == {"h"}
    one.acknowledges("last")
    assert one.out == ["1", "last", "g0"]
    assert is_first(one.deliveries[-1].message)
    assert owners(stage).keys() == {"h", "g"}
    stage.waits(1)
    stage.settle()
    assert two.out == ["x"]


def test_a_closed_group_is_free_at_once_when_the_consumer_that_closed_it_leaves() -> None:
    stage, one, two = closed_far_behind()
    one.acknowledges("last")
    one.acknowledges("g0")
    one.peer.leaves()
    stage.settle()
    assert two.out == ["x", "g1"]


def test_a_paused_queue_forgets_who_closed_a_group() -> None:
    stage, _, two = closed_far_behind()
    queue = queue_of(stage)
    queue.pause()
    queue.resume()
    stage.settle()
    assert two.out == ["x", "g0"]


@settings(max_examples=share(40))
@given(
    st.integers(1, 60),
    st.integers(1, 6),
    st.integers(1, 10_000),
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12), st.sampled_from([0.0, 0.0, 0.001, 0.1])), max_size=60),
)
@pytest.mark.large
def test_groups_keep_their_order_and_their_consumer_whenever_others_go_back(
    groups: int, each: int, seed: int, steps: list[tuple[int, int, float]]
) -> None:
    stage = Stage(persistent=False)
    count = 1_500
    sends_groups(stage.peer("p"), count, groups, each, seed)
    drain = Drain(stage, [stage.peer(name).consumes(QUEUE, prefetch=8) for name in "cde"])
    spends_all(stage)
    drain.check()
    for place, at_most, seconds in steps:
        drain.acknowledge(drain.listeners[place], at_most)
        if seconds:
            stage.waits(seconds)
            drain.check()
    going = True
    while going:
        going = False
        for listener in drain.listeners:
            going = drain.acknowledge(listener, 8) or going
    assert drain.count == count
    assert looks(stage) <= (3 + SCANS_PER_MESSAGE) * count + MAX_SAVED_SCANS
