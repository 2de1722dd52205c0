"""Queues that keep the latest messages: a new one pushes out the oldest that waits."""

from __future__ import annotations

from random import Random

from spanwire.broker.admin.destination_details import destination_details
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.ring_queue import SLICE
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.dialogue.disk_stage import DiskStage
from tests.support.why_dialogue import id_of, said, why, whys

Q = "queue://Q"


def ring(size: int, prioritized: bool = False, memory_limit_bytes: int = 0) -> PolicyEntry:
    queue = QueuePolicy(ring_size=size, prioritized_messages=prioritized)
    return PolicyEntry(destination("queue://>"), queue=queue, memory_limit_bytes=memory_limit_bytes)


def pushed_out(stage: Stage) -> int:
    found = stage.broker.find_destination(destination(Q))
    assert found is not None
    return destination_details(found).pushed_out


def taken(stage: Stage) -> list[str]:
    listener = stage.peer("taker").consumes(Q)
    stage.settle()
    return listener.takes()


def kept(stage: Stage) -> int:
    return len(stage.store.kept(destination(Q)))


def test_the_latest_messages_stay_whether_they_are_persistent_or_not() -> None:
    stage = Stage(ring(3))
    peer = stage.peer("p")
    for number in range(10):
        peer.sends(Q, str(number), persistent=number % 2 == 0)
    view = stage.view(Q)
    assert (view.pending, view.enqueued, view.dequeued, pushed_out(stage), kept(stage)) == (3, 10, 7, 7, 1)
    assert taken(stage) == ["7", "8", "9"]


def test_a_queue_without_a_ring_keeps_all() -> None:
    for size in (-1, 0):
        stage = Stage(ring(size))
        stage.peer("p").sends(Q, *map(str, range(10)))
        assert (stage.view(Q).pending, pushed_out(stage)) == (10, 0)


def test_messages_in_flight_do_not_count_and_are_not_pushed_out() -> None:
    stage = Stage(ring(2))
    listener = stage.peer("c").consumes(Q, prefetch=3)
    peer = stage.peer("p")
    peer.sends(Q, *map(str, range(8)))
    assert listener.takes() == ["0", "1", "2"]
    assert (stage.view(Q).pending - stage.view(Q).in_flight, pushed_out(stage)) == (2, 3)
    listener.acknowledges("2")
    assert listener.takes() == ["6", "7"]


def test_messages_that_a_consumer_returns_are_the_oldest_and_are_pushed_out() -> None:
    stage = Stage(ring(2))
    listener = stage.peer("c").consumes(Q, prefetch=2)
    stage.peer("p").sends(Q, *map(str, range(3)))
    assert listener.takes() == ["0", "1"]
    listener.peer.leaves()
    stage.settle()
    assert taken(stage) == ["1", "2"]
    assert pushed_out(stage) == 1
    assert kept(stage) == 2


def test_the_lowest_priority_loses_its_oldest_message() -> None:
    stage = Stage(ring(3, prioritized=True))
    peer = stage.peer("p")
    for text, priority in (("a", 4), ("b", 9), ("c", 4), ("d", 0), ("e", 9), ("f", 4)):
        peer.sends(Q, text, priority=priority)
    assert taken(stage) == ["b", "e", "f"]


def test_messages_that_only_the_disk_has_are_pushed_out_unread() -> None:
    stage = Stage(ring(50, memory_limit_bytes=10_000))
    peer = stage.peer("p")
    for number in range(200):
        peer.sends(Q, str(number))
        stage.settle()
    assert (stage.view(Q).pending, kept(stage), pushed_out(stage)) == (50, 50, 150)
    listener: Listener = stage.peer("c").consumes(Q, prefetch=1)
    for number in range(150, 200):
        stage.settle()
        assert listener.takes() == [str(number)]
        listener.acknowledges(str(number))
    assert stage.memory() == 0


def test_consumers_with_selectors_see_the_ring_as_well() -> None:
    random = Random(1)
    stage = Stage(ring(5, memory_limit_bytes=6_000))
    odd = stage.peer("odd").consumes(Q, selector="n = 1", prefetch=2)
    peer = stage.peer("p")
    expected: list[str] = []
    for number in range(300):
        n = random.randrange(2)
        peer.sends(Q, str(number), properties={"n": n})
        stage.settle()
        for text in odd.takes():
            assert n == 1
            odd.acknowledges(text)
        if n == 0:
            expected = [*expected, str(number)][-5:]
    odd.leaves()
    assert taken(stage) == expected


def test_a_power_cut_leaves_the_ring_as_it_was_and_a_smaller_one_is_cut_in_slices() -> None:
    stage = DiskStage(ring(2 * SLICE))
    peer = stage.peer("p")
    for number in range(2 * SLICE + 5):
        peer.sends(Q, str(number))
    stage.syncs()
    stage = stage.loses_power()
    assert stage.view(Q).pending == 2 * SLICE
    stage = DiskStage(ring(3), disk=stage.disk_store.disk)
    recovery = stage.disk_store.recovery
    stage.broker.recover(recovery.destinations(), recovery.clean, stage.now, recovery.metadata())
    assert stage.view(Q).pending == SLICE
    stage.settle()
    assert taken(stage) == [str(2 * SLICE + number) for number in (2, 3, 4)]
    assert stage.loses_power().view(Q).pending == 3


def test_why_says_that_a_message_was_pushed_out() -> None:
    stage = Stage(ring(1))
    peer = stage.peer("p")
    peer.sends(Q, "0", "1")
    assert "newer messages pushed it out of queue://Q" in said(why(stage, id_of(peer, 1)))


def test_why_counts_what_was_pushed_out_unread() -> None:
    stage = Stage(ring(1, memory_limit_bytes=1))
    peer = stage.peer("p")
    peer.sends(Q, "0", "1", "2")
    assert any("1 message pushed out of a ring" in said(one) for one in whys(stage, id_of(peer, 2)))


def test_a_queue_removed_with_its_ring_leaves_no_memory() -> None:
    stage = Stage(ring(3))
    peer = stage.peer("p")
    peer.sends(Q, *map(str, range(5)), persistent=False)
    peer.removes(Q)
    stage.settle()
    assert stage.memory() == 0
