"""prioritizedMessages: the highest first, in order within each, in memory and on the disk (JMS 1.1 §3.4.10)."""

from __future__ import annotations

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination

QUEUE = "queue://Q"
PRIORITIZED = PolicyEntry(destination("queue://>"), queue=QueuePolicy(prioritized_messages=True))
SMALL = PolicyEntry(destination("queue://>"), memory_limit_bytes=50_000, queue=QueuePolicy(prioritized_messages=True))


def mixed(stage: Stage, count: int) -> list[str]:
    """Send ``count`` messages with all priorities in turn; gives the order in which they are due."""
    producer = stage.peer("p")
    for number in range(count):
        producer.sends(QUEUE, str(number), priority=number * 7 % 10)
    return [str(number) for number in sorted(range(count), key=lambda number: (-(number * 7 % 10), number))]


def drain(stage: Stage, listener: Listener) -> list[str]:
    received: list[str] = []
    while True:
        stage.settle()
        new = listener.takes()
        if not new:
            return received
        received += new
        listener.acknowledges(new[-1])


def test_waiting_messages_come_by_priority_and_in_order_within_one() -> None:
    stage = Stage(PRIORITIZED)
    due = mixed(stage, 50)
    assert drain(stage, stage.peer("c").consumes(QUEUE, prefetch=3)) == due


def test_without_the_policy_priorities_change_nothing() -> None:
    stage = Stage()
    mixed(stage, 50)
    assert drain(stage, stage.peer("c").consumes(QUEUE, prefetch=3)) == [str(number) for number in range(50)]


def test_priorities_hold_for_messages_behind_the_window_in_memory() -> None:
    stage = Stage(SMALL)
    due = mixed(stage, 500)
    assert stage.view(QUEUE).memory_bytes < 50_000
    assert drain(stage, stage.peer("c").consumes(QUEUE, prefetch=3)) == due
    assert (stage.memory(), stage.store.kept(destination(QUEUE))) == (0, [])


def test_priorities_are_recovered() -> None:
    stage = Stage(PRIORITIZED)
    due = mixed(stage, 3_000)
    stage.syncs()
    again = stage.restarts(clean=True, policies=(PRIORITIZED,))
    assert drain(again, again.peer("c").consumes(QUEUE, prefetch=3)) == due


def test_a_more_urgent_message_overtakes_what_waits_but_not_what_is_out() -> None:
    stage = Stage(PRIORITIZED)
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    producer.sends(QUEUE, "out", "waits", priority=1)
    producer.sends(QUEUE, "urgent", priority=9)
    listener.acknowledges("out")
    listener.acknowledges("urgent")
    assert listener.out == ["out", "urgent", "waits"]


def test_what_a_consumer_gives_back_stands_at_the_front_of_its_priority() -> None:
    stage = Stage(PRIORITIZED)
    producer = stage.peer("p")
    producer.sends(QUEUE, "low 1", "low 2", "low 3", priority=2)
    producer.sends(QUEUE, "high 1", "high 2", priority=8)
    first = stage.peer("c").consumes(QUEUE, prefetch=3)
    assert first.takes() == ["high 1", "high 2", "low 1"]
    first.peer.leaves()
    assert drain(stage, stage.peer("d").consumes(QUEUE)) == ["high 1", "high 2", "low 1", "low 2", "low 3"]


def test_selectors_look_at_the_urgent_messages_first() -> None:
    stage = Stage(PRIORITIZED)
    producer = stage.peer("p")
    for number in range(40):
        producer.sends(QUEUE, str(number), priority=number % 4, properties={"n": number % 2})
    listener = stage.peer("c").consumes(QUEUE, selector="n = 1", prefetch=2)
    assert drain(stage, listener) == [str(n) for n in sorted(range(1, 40, 2), key=lambda n: (-(n % 4), n))]
    producer.sends(QUEUE, "new", priority=9, properties={"n": 1})
    assert listener.takes() == ["new"]


def test_messages_of_every_priority_expire_and_are_purged_and_browsed() -> None:
    stage = Stage(PRIORITIZED)
    producer = stage.peer("p")
    for priority in (1, 9):
        producer.sends(QUEUE, f"short {priority}", priority=priority, expiration_ms=stage.now.wall_ms + 1_000)
        producer.sends(QUEUE, f"long {priority}", priority=priority)
    stage.syncs()
    again = stage.restarts(policies=(PRIORITIZED,))
    again.waits(31.0)
    again.settle()
    assert (again.view(QUEUE).expired, again.view(QUEUE).pending) == (2, 2)
    browser = again.peer("b").consumes(QUEUE, browser=True)
    again.settle()
    assert (browser.takes(), browser.ends) == (["long 9", "long 1"], 1)
