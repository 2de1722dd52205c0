"""Who gets messages and when: exclusive consumers, strict order, consumer priority, start of dispatch, pause, pull."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Stage, destination

QUEUE = "queue://Q"


def stage_with(queue: QueuePolicy) -> Stage:
    return Stage(PolicyEntry(destination("queue://>"), queue=queue))


def queue_of(stage: Stage) -> Queue:
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    return queue


# Exclusive consumers


def test_an_exclusive_consumer_gets_everything_and_the_next_takes_over_when_it_leaves() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, exclusive=True)
    two = stage.peer("d").consumes(QUEUE, exclusive=True)
    producer.sends(QUEUE, "1", "2")
    assert (one.takes(), two.takes()) == (["1", "2"], [])
    one.acknowledges("1", count=1)
    one.leaves()
    assert two.redelivery_counts() == [("2", 1)]
    producer.sends(QUEUE, "3")
    assert two.takes() == ["3"]


@pytest.mark.parametrize("selector", ["n = 2", None])
def test_an_exclusive_consumer_that_leaves_with_nothing_out_makes_way(selector: str | None) -> None:
    stage = Stage()
    first = stage.peer("c").consumes(QUEUE, exclusive=True, selector=selector, prefetch=0 if selector is None else 1)
    second = stage.peer("d").consumes(QUEUE, exclusive=True)
    stage.peer("p").sends(QUEUE, "waits", properties={"n": 1})
    stage.settle()
    assert (first.takes(), second.takes()) == ([], [])
    first.leaves()
    stage.settle()
    assert second.takes() == ["waits"]


def test_an_exclusive_consumer_of_several_queues_makes_way_when_it_has_nothing_out_and_pulls_no_more() -> None:
    stage = Stage()
    producer = stage.peer("p")
    former = stage.peer("c").consumes("queue://Q,queue://R", exclusive=True, prefetch=0)
    producer.sends(QUEUE, "1", "2")
    former.pulls(0)
    better = stage.peer("d").consumes(QUEUE, exclusive=True, priority=1)
    stage.settle()
    assert better.takes() == []
    former.acknowledges("1")
    stage.settle()
    assert better.takes() == ["2"]


def test_an_exclusive_consumer_of_several_queues_does_not_make_way_while_it_has_something_out() -> None:
    stage = Stage()
    producer = stage.peer("p")
    former = stage.peer("c").consumes("queue://Q,queue://R", exclusive=True, prefetch=0)
    producer.sends(QUEUE, "1", "2")
    producer.sends("queue://R", "3")
    former.pulls(0)
    better = stage.peer("d").consumes(QUEUE, exclusive=True, priority=1)
    former.acknowledges("1")
    former.pulls(0)
    stage.settle()
    assert (former.takes(), better.takes()) == (["1", "3"], [])
    former.acknowledges("3")
    stage.settle()
    assert better.takes() == ["2"]


def test_consumers_that_are_not_exclusive_go_on_when_the_exclusive_one_leaves() -> None:
    stage = Stage()
    plain = stage.peer("c").consumes(QUEUE)
    exclusive = stage.peer("d").consumes(QUEUE, exclusive=True, prefetch=0)
    stage.peer("p").sends(QUEUE, "waits")
    stage.settle()
    assert plain.takes() == []
    exclusive.leaves()
    stage.settle()
    assert plain.takes() == ["waits"]


def test_a_better_exclusive_consumer_begins_when_the_one_before_has_nothing_out() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, exclusive=True)
    producer.sends(QUEUE, "1", "2")
    two = stage.peer("d").consumes(QUEUE, exclusive=True, priority=5)
    producer.sends(QUEUE, "3")
    one.acknowledges("1", count=1)
    assert (one.out, two.out) == (["1", "2"], [])
    one.acknowledges("2")
    assert (one.out, two.out) == (["1", "2"], ["3"])


def test_consumers_that_are_not_exclusive_wait_while_an_exclusive_one_is_there() -> None:
    stage = Stage()
    producer = stage.peer("p")
    plain = stage.peer("c").consumes(QUEUE)
    exclusive = stage.peer("d").consumes(QUEUE, exclusive=True)
    producer.sends(QUEUE, "1", "2")
    assert (plain.out, exclusive.takes()) == ([], ["1", "2"])
    exclusive.acknowledges("2")
    exclusive.peer.leaves()
    producer.sends(QUEUE, "3")
    assert plain.takes() == ["3"]


def test_with_all_consumers_exclusive_the_first_one_gets_everything() -> None:
    stage = stage_with(QueuePolicy(all_consumers_exclusive=True))
    producer = stage.peer("p")
    one, two = (stage.peer(name).consumes(QUEUE, prefetch=2) for name in "cd")
    producer.sends(QUEUE, "1", "2", "3")
    assert (one.out, two.out) == (["1", "2"], [])
    one.peer.leaves()
    assert two.out == ["1", "2"]


def test_the_exclusive_consumer_goes_on_when_a_better_one_comes_and_leaves_again() -> None:
    stage = Stage()
    producer = stage.peer("p")
    usual = stage.peer("a").consumes(QUEUE, exclusive=True)
    producer.sends(QUEUE, "1")
    better = stage.peer("b").consumes(QUEUE, exclusive=True, priority=5)
    better.peer.leaves()
    producer.sends(QUEUE, "2")
    assert usual.out == ["1", "2"]


def test_an_exclusive_consumer_with_a_selector_leaves_the_rest_to_nobody() -> None:
    stage = Stage()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, exclusive=True, selector="n = 1")
    two = stage.peer("d").consumes(QUEUE)
    producer.sends(QUEUE, "other", properties={"n": 2})
    producer.sends(QUEUE, "mine", properties={"n": 1})
    assert (one.out, two.out) == (["mine"], [])
    one.peer.leaves()
    stage.settle()
    assert sorted(two.out) == ["mine", "other"]


# Whose turn it is


def test_strict_order_serves_the_first_consumer_as_long_as_it_can_take_messages() -> None:
    stage = stage_with(QueuePolicy(strict_order_dispatch=True))
    producer = stage.peer("p")
    one, two = (stage.peer(name).consumes(QUEUE, prefetch=3) for name in "cd")
    producer.sends(QUEUE, *"12345")
    assert (one.out, two.out) == (["1", "2", "3"], ["4", "5"])
    one.acknowledges("1", count=1)
    producer.sends(QUEUE, "6")
    assert one.out == ["1", "2", "3", "6"]


def test_a_strict_order_begins_with_the_oldest_consumer_whoever_comes_and_goes() -> None:
    stage = stage_with(QueuePolicy(strict_order_dispatch=True))
    producer = stage.peer("p")
    one, two = (stage.peer(name).consumes(QUEUE, prefetch=3) for name in "cd")
    producer.sends(QUEUE, "1")
    guest = stage.peer("e")
    guest.consumes(QUEUE, prefetch=3)
    guest.leaves()
    producer.sends(QUEUE, "2", "3")
    assert (one.out, two.out) == (["1", "2", "3"], [])


def test_without_consumer_priority_all_take_turns() -> None:
    stage = stage_with(QueuePolicy(use_consumer_priority=False))
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE, priority=0)
    two = stage.peer("d").consumes(QUEUE, priority=100)
    producer.sends(QUEUE, *"1234")
    assert (one.out, two.out) == (["1", "3"], ["2", "4"])


# The start of dispatch


def test_dispatch_begins_a_time_after_the_first_consumer() -> None:
    stage = stage_with(QueuePolicy(time_before_dispatch_starts_ms=200))
    stage.runs()
    producer = stage.peer("p")
    one = stage.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "1")
    stage.waits(0.1)
    two = stage.peer("d").consumes(QUEUE)
    producer.sends(QUEUE, "2")
    assert (one.out, two.out) == ([], [])
    assert stage.broker.next_timeout() == pytest.approx(stage.now.monotonic + 0.1)
    stage.waits(0.11)
    assert (one.out, two.out) == (["1"], ["2"])


def test_dispatch_begins_with_a_number_of_consumers_or_after_a_second() -> None:
    stage = stage_with(QueuePolicy(consumers_before_dispatch_starts=2))
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2")
    one = stage.peer("c").consumes(QUEUE)
    assert one.out == []
    two = stage.peer("d").consumes(QUEUE)
    assert (one.out, two.out) == (["1"], ["2"])
    one.peer.leaves()
    two.acknowledges("1")
    two.peer.leaves()
    producer.sends(QUEUE, "3")
    three = stage.peer("e").consumes(QUEUE)
    stage.waits(0.9)
    assert three.out == []
    stage.waits(0.2)
    assert three.out == ["3"]


# Operations


def test_a_paused_queue_takes_messages_in_and_dispatches_none() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "1")
    queue = queue_of(stage)
    queue.pause()
    token = producer.sends(QUEUE, "2", "3")
    stage.syncs()
    assert producer.is_answered(token)
    listener.acknowledges("1")
    other = stage.peer("d").consumes(QUEUE)
    assert (listener.out, other.out, queue.paused) == (["1"], [], True)
    browser = stage.peer("b").consumes(QUEUE, browser=True)
    assert browser.out == ["2", "3"]
    queue.resume()
    assert (listener.out + other.out, queue.paused) == (["1", "2", "3"], False)


def test_a_paused_queue_keeps_its_memory_limit_and_its_order() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=30_000))
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE, prefetch=10)
    queue_of(stage).pause()
    for number in range(300):
        producer.sends(QUEUE, str(number))
    assert stage.view(QUEUE).memory_bytes < 30_000
    queue_of(stage).resume()
    received: list[str] = []
    while len(received) < 300:
        stage.settle()
        new = listener.takes()
        assert new
        received += new
        listener.acknowledges(new[-1])
    assert received == [str(number) for number in range(300)]


# Pull


def test_a_pull_waits_as_it_says() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    producer.sends(QUEUE, "1")
    assert listener.out == []
    listener.pulls(-1)
    assert (listener.out, listener.ends) == (["1"], 0)
    listener.pulls(-1)
    assert (listener.out, listener.ends) == (["1"], 1)
    listener.pulls(500)
    stage.waits(0.4)
    assert listener.ends == 1
    stage.waits(0.2)
    assert listener.ends == 2
    listener.pulls(0)
    stage.waits(3_600.0)
    assert listener.ends == 2
    producer.sends(QUEUE, "2", "3")
    assert listener.out == ["1", "2"]


def test_a_pull_with_a_selector_finds_a_message_deep_in_the_disk() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(2_000):
        producer.sends(QUEUE, str(number), properties={"n": number})
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, prefetch=0, selector="n = 1990")
    listener.pulls(-1)
    again.settle()
    assert (listener.out, listener.ends) == (["1990"], 0)
