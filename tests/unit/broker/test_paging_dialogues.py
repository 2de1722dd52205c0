"""Queues longer than their window in memory: pages read back late keep the order (architecture: asynchronous reads)."""

from __future__ import annotations

import logging
from array import array

import pytest

from spanwire.broker.persistence.recovered import RecoveredDestination, no_expirations
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.pending_messages import MAX_PAGE_BYTES, MAX_RESIDENT_MESSAGES
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination

QUEUE = "queue://Q"


def drain(stage: Stage, listener: Listener) -> list[str]:
    """Everything the listener gets while it acknowledges all of it."""
    received: list[str] = []
    while True:
        stage.settle()
        new = listener.takes()
        if not new:
            return received
        received += new
        listener.acknowledges(new[-1])


@pytest.mark.large
def test_more_than_the_window_keeps_its_order_with_volatile_messages_between() -> None:
    stage = Stage()
    producer = stage.peer("p")
    count = MAX_RESIDENT_MESSAGES + 3_000
    for number in range(count):
        producer.sends(QUEUE, str(number), persistent=number % 7 != 0)
    assert stage.view(QUEUE).pending == count
    listener = stage.peer("c").consumes(QUEUE, prefetch=2_000)
    received = listener.takes()
    listener.acknowledges(received[-1])
    producer.sends(QUEUE, "last", persistent=False)
    received += drain(stage, listener)
    assert received == [*[str(number) for number in range(count)], "last"]
    assert stage.memory() == 0
    assert stage.store.kept(destination(QUEUE)) == []


@pytest.mark.large
def test_a_flag_of_another_broker_outlives_the_wait_behind_the_window() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, *["waits"] * MAX_RESIDENT_MESSAGES)
    for text, persistent in (("stored", True), ("volatile", False)):
        message = producer.message(QUEUE, text, persistent=persistent)
        message.redelivery_count = 1
        stage.broker.send(producer.state, message, None, producer.new_token(), stage.now)
    listener = stage.peer("c").consumes(QUEUE, prefetch=2_000)
    counts: dict[str, int] = {}
    while True:
        stage.settle()
        new = listener.takes_deliveries()
        if not new:
            break
        counts.update({delivery.text: delivery.redelivery_count for delivery in new})
        listener.acknowledges(new[-1].text)
    assert counts == {"waits": 0, "stored": 1, "volatile": 1}


def test_memory_stays_near_its_limit_while_persistent_messages_pile_up() -> None:
    limit = 1_000_000
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=limit))
    producer = stage.peer("p")
    for number in range(500):
        producer.sends(QUEUE, f"{number:06}" + "x" * 10_000)
    assert stage.view(QUEUE).memory_bytes <= limit
    listener = stage.peer("c").consumes(QUEUE, prefetch=5)
    highest = 0
    received: list[str] = []
    for _ in range(500):
        stage.settle()
        highest = max(highest, stage.view(QUEUE).memory_bytes)
        new = listener.takes()
        if not new:
            break
        received += [text[:6] for text in new]
        listener.acknowledges(new[-1])
    assert received == [f"{number:06}" for number in range(500)]
    assert highest <= limit * 1.1


def test_large_recovered_messages_are_read_in_small_pages() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(60):
        producer.sends(QUEUE, f"{number:02}" + "x" * 1_000_000)
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, prefetch=1)
    largest = 0
    received: list[str] = []
    while len(received) < 60:
        assert again.store.reads, "the broker stopped reading"
        largest = max(largest, sum(len(read.sequences) for read in again.store.reads))
        again.reads()
        new = listener.takes()
        while new:
            received += [text[:2] for text in new]
            listener.acknowledges(new[-1])
            new = listener.takes()
    assert received == [f"{number:02}" for number in range(60)]
    assert largest * 1_000_000 <= 4 * MAX_PAGE_BYTES


def test_large_messages_behind_many_small_ones_are_read_in_small_pages() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(3_000):
        producer.sends(QUEUE, f"{number:04}")
    for number in range(3_000, 3_030):
        producer.sends(QUEUE, f"{number:04}" + "x" * 1_000_000)
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, prefetch=1)
    largest = 0
    received: list[str] = []
    while len(received) < 3_030:
        assert again.store.reads, "the broker stopped reading"
        for read in again.store.reads:
            largest = max(largest, sum(again.store.sizes(destination(QUEUE), read.sequences)))
        again.reads()
        new = listener.takes()
        while new:
            received += [text[:4] for text in new]
            listener.acknowledges(new[-1])
            new = listener.takes()
    assert received == [f"{number:04}" for number in range(3_030)]
    assert largest <= MAX_PAGE_BYTES


def test_a_message_that_is_missing_in_the_store_is_skipped_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.syncs()
    again = stage.restarts()
    again.store.lose(destination(QUEUE), 2)
    listener = again.peer("c").consumes(QUEUE)
    with caplog.at_level(logging.ERROR):
        again.settle()
    assert listener.takes() == ["1", "3"]
    assert "message 2 of queue://Q is missing" in caplog.text
    listener.acknowledges("3")
    assert again.view(QUEUE).pending == 0


def test_a_queue_removed_while_a_page_is_being_read_stays_gone() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.syncs()
    again = stage.restarts()
    peer = again.peer("c")
    listener = peer.consumes(QUEUE)
    listener.leaves()
    assert len(again.store.reads) == 1
    peer.removes(QUEUE)
    again.settle()
    assert not again.has(QUEUE)
    peer.sends(QUEUE, "4")
    listener = peer.consumes(QUEUE)
    again.settle()
    assert listener.takes() == ["4"]
    listener.acknowledges("4")
    assert again.memory() == 0


def test_pages_asked_for_before_a_purge_are_void_even_when_they_are_answered_last() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.syncs()
    again = stage.restarts()
    peer = again.peer("c")
    listener = peer.consumes(QUEUE)
    queue = next(iter(listener.subscription.destinations))
    assert isinstance(queue, Queue)
    queue.drop()
    fourth = array("q", [again.store.append(destination(QUEUE), peer.message(QUEUE, "4"))])
    queue.recover(RecoveredDestination(destination(QUEUE), fourth, {}, {}, no_expirations()), True)
    queue.fill()
    assert len(again.store.reads) == 2
    again.store.answer(again.broker, again.now, 1)
    again.store.answer(again.broker, again.now, 0)
    assert listener.takes() == ["4"]
    assert again.view(QUEUE).pending == 1


def test_a_consumer_that_goes_while_a_page_is_read_leaves_the_page_to_the_next() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.syncs()
    again = stage.restarts()
    again.peer("c").consumes(QUEUE).leaves()
    again.reads()
    listener = again.peer("d").consumes(QUEUE)
    again.settle()
    assert listener.redelivery_counts() == [("1", 1), ("2", 1)]


def test_what_comes_back_from_a_consumer_stands_before_the_pages() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(1_500)])
    stage.syncs()
    again = stage.restarts()
    first = again.peer("c").consumes(QUEUE, prefetch=3)
    again.store.answer(again.broker, again.now)
    assert first.takes() == ["0", "1", "2"]
    first.leaves()
    listener = again.peer("d").consumes(QUEUE)
    assert drain(again, listener) == [str(number) for number in range(1_500)]


def test_a_selective_consumer_finds_what_is_on_the_disk_behind_what_it_passes_by() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(3_000):
        producer.sends(QUEUE, str(number), properties={"wanted": number % 1_000 == 999})
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, selector="wanted = TRUE")
    again.settle()
    assert listener.takes() == ["999", "1999", "2999"]


def test_a_matching_message_reaches_a_selective_consumer_though_memory_is_nearly_full() -> None:
    stage = Stage(memory_limit_bytes=100_000)
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE, selector="kind = 'a'")
    producer.sends(QUEUE, "passed by", properties={"kind": "b"})
    producer.sends("queue://OTHER", "x" * 80_000, persistent=False)
    producer.sends(QUEUE, "matches", properties={"kind": "a"})
    stage.settle()
    assert listener.takes() == ["matches"]
