"""Queues far longer than memory: selectors look at all of them, expiry and purge read little, slices stay small."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.page import MAX_PAGE_MESSAGES, SLICE_MESSAGES
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.dialogue.text_format import text_of

QUEUE = "queue://Q"
DEEP = 2 * MAX_RESIDENT_MESSAGES


def queue_of(listener: Listener) -> Queue:
    queue = next(iter(listener.subscription.destinations))
    assert isinstance(queue, Queue)
    return queue


def fetched(stage: Stage) -> int:
    """How many messages the broker wants to read now."""
    return sum(len(read.sequences) for read in stage.store.reads)


def deep(count: int) -> Stage:
    """A broker that found ``count`` messages in its store; each hundredth has kind 'a'."""
    stage = Stage()
    producer = stage.peer("p")
    for number in range(count):
        properties: dict[str, object] = {"kind": "a" if number % 100 == 99 else "b"}
        producer.sends(QUEUE, str(number), properties=properties)
    stage.syncs()
    return stage.restarts()


@pytest.mark.large
def test_a_selective_consumer_looks_at_the_whole_queue_and_memory_stays_small() -> None:
    stage = deep(DEEP)
    listener = stage.peer("c").consumes(QUEUE, selector="kind = 'a'", prefetch=30_000)
    highest = 0
    while stage.store.reads:
        stage.store.answer(stage.broker, stage.now)
        highest = max(highest, queue_of(listener).pending.lists[0].loaded)
        while stage.broker.next_timeout() == 0.0:
            stage.runs()
        listener.peer.flushes()
    assert listener.takes() == [str(number) for number in range(99, DEEP, 100)]
    assert highest <= MAX_RESIDENT_MESSAGES + 2 * MAX_PAGE_MESSAGES
    assert stage.view(QUEUE).pending == DEEP


@pytest.mark.large
def test_a_new_message_reaches_a_selective_consumer_at_once_behind_many_that_nobody_wants() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, selector="kind = 'a'")
    producer = stage.peer("p")
    for number in range(2 * MAX_RESIDENT_MESSAGES):
        producer.sends(QUEUE, str(number), properties={"kind": "b"})
    assert queue_of(listener).pending.lists[0].loaded <= MAX_RESIDENT_MESSAGES + MAX_PAGE_MESSAGES
    producer.sends(QUEUE, "wanted", properties={"kind": "a"})
    assert listener.takes() == ["wanted"]
    assert stage.store.reads == []


def test_one_consumer_looks_through_the_disk_while_another_gets_what_comes_in() -> None:
    stage = deep(5_000)
    first = stage.peer("c").consumes(QUEUE, selector="kind = 'x'")
    stage.settle()
    stage.peer("d").consumes(QUEUE, selector="kind = 'y'")
    stage.peer("p2").sends(QUEUE, "new", properties={"kind": "x"})
    assert first.takes() == ["new"]


@pytest.mark.large
def test_consumers_that_look_through_the_depths_share_the_pages() -> None:
    stage = deep(DEEP)
    for number in range(5):
        stage.peer(f"c{number}").consumes(QUEUE, selector=f"kind = 'x{number}'")
    asked = 0
    while stage.store.reads or stage.broker.next_timeout() == 0.0:
        if stage.store.reads:
            asked += stage.store.answer(stage.broker, stage.now)
        stage.runs()
    assert asked == DEEP


@pytest.mark.large
def test_what_a_selective_consumer_passed_by_goes_to_the_next_one_in_order() -> None:
    stage = deep(DEEP)
    stage.peer("c").consumes(QUEUE, selector="kind = 'x'")
    stage.settle()
    plain = stage.peer("d").consumes(QUEUE, prefetch=5_000)
    received: list[str] = []
    while True:
        stage.settle()
        new = plain.takes()
        if not new:
            break
        received += new
        plain.acknowledges(new[-1])
    assert received == [str(number) for number in range(DEEP)]
    assert stage.memory() == 0
    assert stage.store.kept(destination(QUEUE)) == []


def test_several_pages_are_read_ahead_while_a_queue_is_drained() -> None:
    stage = deep(6_000)
    listener = stage.peer("c").consumes(QUEUE, prefetch=100)
    stage.store.answer(stage.broker, stage.now)
    assert len(stage.store.reads) >= 2
    received: list[str] = []
    while True:
        new = listener.takes()
        if new:
            received += new
            listener.acknowledges(new[-1])
            assert stage.store.reads or len(received) > 4_000
        elif stage.store.reads:
            stage.store.answer(stage.broker, stage.now)
        else:
            break
    assert received == [str(number) for number in range(6_000)]


def test_lazy_dispatch_reads_nothing_ahead() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(2_000)])
    stage.syncs()
    lazy = PolicyEntry(destination("queue://>"), queue=QueuePolicy(lazy_dispatch=True))
    again = stage.restarts(policies=(lazy,))
    again.peer("c").consumes(QUEUE, prefetch=10)
    assert len(again.store.reads) == 1
    again.reads()
    assert again.store.reads == []


# Expiry


@pytest.mark.large
@pytest.mark.parametrize("letters", [True, False])
def test_messages_on_the_disk_expire_without_all_of_them_being_read(letters: bool) -> None:
    policy = PolicyEntry(destination("queue://>"), dead_letter=DeadLetterStrategy(process_expired=letters))
    stage = Stage(policy)
    producer = stage.peer("p")
    for number in range(3_000):
        expiration = stage.now.wall_ms + 60_000 if number % 20 == 0 else 0
        producer.sends(QUEUE, str(number), expiration_ms=expiration)
    stage.syncs()
    again = stage.restarts(policies=(policy,))
    again.waits(31.0)
    assert again.view(QUEUE).pending == 3_000
    again.waits(31.0)
    assert fetched(again) == (SLICE_MESSAGES if letters else 0)
    again.settle()
    view = again.view(QUEUE)
    assert (view.pending, view.expired) == (2_850, 150)
    dead = [text_of(message) for message in again.store.kept(destination("queue://ActiveMQ.DLQ"))]
    assert dead == ([str(number) for number in range(0, 3_000, 20)] if letters else [])
    assert len(again.store.kept(destination(QUEUE))) == 2_850
    assert again.memory() == sum(m.size for m in again.store.kept(destination("queue://ActiveMQ.DLQ")))


def test_messages_that_wait_behind_the_window_expire_on_the_disk() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=50_000))
    stage.runs()
    producer = stage.peer("p")
    for number in range(200):
        producer.sends(QUEUE, str(number), expiration_ms=stage.now.wall_ms + 10_000)
    stage.environment.advance(31.0)
    stage.settle()
    view = stage.view(QUEUE)
    assert (view.pending, view.expired) == (0, 200)


def test_an_expired_message_on_the_disk_is_counted_while_it_is_read() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    again = stage.restarts()
    again.waits(31.0)
    assert (fetched(again), again.view(QUEUE).pending) == (1, 1)
    assert again.broker.next_timeout() != 0.0  # nothing to do before the answer
    again.settle()
    assert again.view(QUEUE).pending == 0


# Purge


@pytest.mark.large
def test_a_purge_reads_nothing_and_takes_small_steps() -> None:
    stage = deep(5_000)
    queue = queue_of(stage.peer("c").consumes(QUEUE, prefetch=0))
    assert stage.store.reads
    stage.reads()
    before = len(stage.store.calls("remove"))
    assert queue.purge() == 5_000
    steps = [len(stage.store.calls("remove")) - before]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        steps.append(len(stage.store.calls("remove")) - before)
    assert max(after - now for now, after in zip([0, *steps], steps, strict=False)) <= SLICE_MESSAGES
    assert stage.store.reads == []
    assert (stage.view(QUEUE).pending, stage.memory(), stage.store.kept(destination(QUEUE))) == (0, 0, [])


def test_what_is_sent_during_a_purge_stays_and_is_dispatched_after_it() -> None:
    stage = deep(2_000)
    producer = stage.peer("p2")
    listener = stage.peer("c").consumes(QUEUE, prefetch=10)
    stage.reads()
    assert len(listener.takes()) == 10
    queue = queue_of(listener)
    assert queue.purge() == 1_990
    producer.sends(QUEUE, "new")
    listener.acknowledges("9")
    assert listener.takes() == []
    stage.settle()
    assert listener.takes() == ["new"]
    assert stage.view(QUEUE).pending == 1


def test_a_purge_forgets_how_often_messages_were_delivered() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    first = stage.peer("c").consumes(QUEUE)
    first.leaves()
    stage.syncs()
    again = stage.restarts(clean=True)
    queue = queue_of(again.peer("d").consumes(QUEUE, prefetch=0))
    again.reads()
    queue.purge()
    again.settle()
    assert queue.pending._redeliveries == {}


# Slices


def test_no_slice_looks_at_more_than_some_messages() -> None:
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    for number in range(4_000):
        producer.sends(QUEUE, str(number), persistent=False, properties={"n": number})
    counted = Counting(stage)
    listener = stage.peer("c").announces(QUEUE, selector="n = 3999")
    stage.broker.start_consumer(listener.subscription, stage.now)
    slices = [counted.take()]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        slices.append(counted.take())
    assert listener.takes() == ["3999"]
    assert max(slices) <= SLICE_MESSAGES
    assert sum(slices) == 4_000


def test_a_browser_with_a_selector_looks_through_a_deep_queue_in_slices() -> None:
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    for number in range(4_000):
        producer.sends(QUEUE, str(number), persistent=False, properties={"n": number})
    counted = Counting(stage)
    browser = stage.peer("b").consumes(QUEUE, browser=True, selector="n > 3990")
    slices = [counted.take()]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        slices.append(counted.take())
    assert (browser.takes(), browser.ends) == ([str(number) for number in range(3_991, 4_000)], 1)
    assert max(slices) <= SLICE_MESSAGES


def test_what_waits_in_a_removed_queue_leaves_memory_a_piece_at_a_time() -> None:
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    for number in range(4 * MAX_PAGE_MESSAGES):
        producer.sends(QUEUE, str(number), persistent=False)
    stage.settle()
    queue = stage.broker.find_destination(destination(QUEUE))
    assert queue is not None
    used = [queue.usage.used_bytes]
    each = used[0] // (4 * MAX_PAGE_MESSAGES)
    producer.removes(QUEUE)
    producer.sends(QUEUE, "new", persistent=False)
    used.append(queue.usage.used_bytes)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        used.append(queue.usage.used_bytes)
    assert max(before - after for before, after in pairwise(used)) <= (MAX_PAGE_MESSAGES + 10) * each
    assert used[-1] == 0
    assert stage.peer("c").consumes(QUEUE).takes() == ["new"]


@pytest.mark.large
@pytest.mark.parametrize("priority", [0, 5])
def test_many_calls_in_one_turn_pay_for_one_look_through_the_depths(priority: int) -> None:
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    for number in range(4_000):
        producer.sends(QUEUE, str(number), persistent=False, properties={"n": number})
    counted = Counting(stage)
    near = stage.peer("n").consumes(QUEUE, selector="n < 20", priority=priority)
    far = stage.peer("f").consumes(QUEUE, selector="n = 3999")
    looked = counted.take()
    for number in range(20):
        near.acknowledges(str(number), count=1)
        producer.sends(QUEUE, f"new {number}", persistent=False, properties={"n": -1})
    assert looked + counted.take() <= 3 * SLICE_MESSAGES
    assert far.takes() == []
    stage.settle()
    assert far.takes() == ["3999"]
    assert near.takes()[20:] == [f"new {number}" for number in range(20)]


class Counting:
    """Counts how many messages selectors were asked about: the broker's values of messages decode each one's
    properties once in its life.
    """

    def __init__(self, stage: Stage) -> None:
        self._messages = [
            message
            for queue in [stage.broker.find_destination(destination(QUEUE))]
            if isinstance(queue, Queue)
            for _, message in queue.oldest(1 << 30)
            if message is not None
        ]
        self._known = 0

    def take(self) -> int:
        """How many since the last call."""
        known = sum(message.properties_cache is not None for message in self._messages)
        new = known - self._known
        self._known = known
        return new


def test_a_newcomer_need_not_wait_where_the_last_of_the_line_has_expired() -> None:
    policy = PolicyEntry(destination("queue://>"), queue=QueuePolicy(look_together_from=1))
    first = Stage(policy)
    first.peer("p").sends(QUEUE, "a", properties={"n": 0})
    first.syncs()
    stage = first.restarts(policies=(policy,))
    others = [stage.peer("b").consumes(QUEUE, selector="n = 1", prefetch=1)]
    due_ms = stage.now.wall_ms + 1_000
    stage.peer("q").sends(QUEUE, "late", properties={"n": 0}, persistent=False, expiration_ms=due_ms)
    stage.store.answer(stage.broker, stage.now)
    stage.environment.advance(5.0)
    stage.runs()
    others.append(stage.peer("c").consumes(QUEUE, selector="n = 1", prefetch=1))
    newcomer = stage.peer("d").consumes(QUEUE, prefetch=1)
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
    assert newcomer.takes() == ["a"]
    assert [other.takes() for other in others] == [[], []]
