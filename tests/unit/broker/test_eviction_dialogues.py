"""How much waits for slow consumers of a topic, and which of it goes (ActiveMQ, "Slow Consumer Handling")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.policy.topic_policy import (
    FIXED_COUNT,
    LOWEST_PRIORITY,
    OLDEST,
    UNIQUE_PROPERTY,
    EvictionPolicy,
    PendingLimit,
    RecoveryPolicy,
    TopicPolicy,
)
from spanwire.broker.topic.message_eviction import MAX_CANDIDATES
from spanwire.broker.topic.policy_topic import RECOVERY_STEPS
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.dialogue.text_format import text_message

T = "topic://T"
KINDS = (OLDEST, LOWEST_PRIORITY, UNIQUE_PROPERTY)


def limited(
    limit: PendingLimit | None, eviction: EvictionPolicy | None = None, memory: int = 1024 * 1024 * 1024, **policy: bool
) -> Stage:
    tuning = TopicPolicy(pending_limit=limit, eviction=eviction or EvictionPolicy())
    flow = policy.get("producer_flow_control", True)
    letters = DeadLetterStrategy(process_non_persistent=policy.get("letters", False))
    entry = PolicyEntry(Destination(TOPIC, ">"), topic=tuning, producer_flow_control=flow, dead_letter=letters)
    return Stage(entry, memory_limit_bytes=memory)


class MinuteAdvisories:
    """Makes advisories of next to nothing: duck-typed to `spanwire.broker.ports.AdvisoryFormat`."""

    def advisory(
        self, destination: Destination, subject: object, properties: dict[str, object], number: int, wall_ms: int
    ) -> Message:
        return text_message(destination, number, b"told", connection_id="ID:stage", timestamp_ms=number)


def drains(listener: Listener) -> list[str]:
    """All that it gets, one after the other."""
    taken: list[str] = []
    for text in listener.takes():
        taken.append(text)
    while taken and listener.subscription.dispatched_count:
        listener.acknowledges(taken[-1])
        more = listener.takes()
        if not more:
            break
        taken += more
    return taken


@pytest.mark.parametrize(
    ("limit", "own", "prefetch", "kept"),
    [
        (PendingLimit(2), 0, 1, 2),
        (PendingLimit(2), 1, 1, 1),
        (PendingLimit(2), 9, 1, 2),
        (PendingLimit(-1), 0, 1, 9),
        (PendingLimit(-1), 3, 1, 3),
        (PendingLimit(multiplier=0.5), 0, 4, 2),
        (PendingLimit(multiplier=1.5), 0, 3, 4),
        (PendingLimit(multiplier=0.5), 0, 1, 0),
        (None, 1, 1, 9),
    ],
)
def test_so_much_waits_for_a_consumer(limit: PendingLimit | None, own: int, prefetch: int, kept: int) -> None:
    stage = limited(limit)
    slow = stage.peer("a").consumes(T, prefetch=prefetch, maximum_pending=own)
    stage.peer("p").sends(T, *[str(number) for number in range(prefetch + 9)], persistent=False)
    assert len(slow.takes()) == prefetch
    assert len(slow.subscription.pending) == kept


def test_the_oldest_of_the_lowest_priority_goes_first() -> None:
    stage = limited(PendingLimit(3), EvictionPolicy(LOWEST_PRIORITY))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    for text in ("out", "low 1", "high 1", "low 2", "high 2", "middle", "high 3"):
        priority = {"low": 1, "high": 8, "midd": 5, "out": 4}[text[:4].strip()]
        producer.sends(T, text, priority=priority, persistent=False)
    assert drains(slow) == ["out", "high 1", "high 2", "high 3"]


def test_of_each_value_of_a_property_the_newest_stays() -> None:
    stage = limited(PendingLimit(4), EvictionPolicy(UNIQUE_PROPERTY, "stock"))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    for number, stock in enumerate(["-", "A", "B", "A", "B", "A"]):
        producer.sends(
            T, f"{stock}{number}", properties={"stock": stock}, timestamp_ms=1_000 + number, persistent=False
        )
    assert drains(slow) == ["-0", "B4", "A5"]


def test_messages_without_the_property_go_with_the_older_ones() -> None:
    stage = limited(PendingLimit(2), EvictionPolicy(UNIQUE_PROPERTY, "stock"))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    producer.sends(T, "out", "none", persistent=False)
    producer.sends(T, "A", properties={"stock": "A"}, timestamp_ms=1, persistent=False)
    producer.sends(T, "B", properties={"stock": "B"}, timestamp_ms=2, persistent=False)
    assert drains(slow) == ["out", "A", "B"]


@pytest.mark.parametrize("properties", [{}, {"other": "x"}])
def test_without_the_property_the_oldest_goes(properties: dict[str, object]) -> None:
    stage = limited(PendingLimit(2), EvictionPolicy(UNIQUE_PROPERTY, "stock"))
    slow = stage.peer("a").consumes(T, prefetch=1)
    stage.peer("p").sends(T, "1", "2", "3", "4", properties=properties, persistent=False)
    assert drains(slow) == ["1", "3", "4"]


def test_where_each_value_is_there_once_the_oldest_goes() -> None:
    stage = limited(PendingLimit(2), EvictionPolicy(UNIQUE_PROPERTY, "n"))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    for number in range(5):
        producer.sends(T, str(number), properties={"n": number}, persistent=False)
    assert drains(slow) == ["0", "3", "4"]


def test_only_the_oldest_thousand_of_many_are_looked_at() -> None:
    stage = limited(PendingLimit(MAX_CANDIDATES + 5), EvictionPolicy(LOWEST_PRIORITY))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    producer.sends(T, "out", *[f"{number}" for number in range(MAX_CANDIDATES)], priority=5, persistent=False)
    producer.sends(T, "low", priority=0, persistent=False)
    producer.sends(T, *"abcde", priority=5, persistent=False)
    waiting = [reference.message.priority for reference in slow.subscription.pending]
    assert waiting.count(0) == 1 and len(waiting) == MAX_CANDIDATES + 5
    producer.sends(T, "f", priority=5, persistent=False)  # now it is among them
    assert [reference.message.priority for reference in slow.subscription.pending].count(0) == 0


def test_an_expired_message_goes_before_a_good_one() -> None:
    stage = limited(PendingLimit(2), EvictionPolicy(LOWEST_PRIORITY, expired_mark=2))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    producer.sends(T, "out", persistent=False)
    producer.sends(T, "low", priority=0, persistent=False)
    producer.sends(T, "expired", priority=9, expiration_ms=stage.now.wall_ms + 100, persistent=False)
    stage.waits(1.0)
    producer.sends(T, "new", persistent=False)
    assert drains(slow) == ["out", "low", "new"]
    assert stage.view(T).expired == 1


def test_over_the_mark_an_expired_message_goes_before_the_limit_is_reached() -> None:
    stage = limited(PendingLimit(9), EvictionPolicy(expired_mark=2))
    slow = stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    producer.sends(T, "out", persistent=False)
    producer.sends(T, "x", "y", expiration_ms=stage.now.wall_ms + 100, persistent=False)
    stage.waits(1.0)
    producer.sends(T, "new", persistent=False)  # one goes for each that comes
    assert [reference.message.expiration_ms > 0 for reference in slow.subscription.pending] == [True, False]


def test_a_persistent_message_that_is_given_up_is_a_dead_letter() -> None:
    stage = limited(PendingLimit(1))
    slow = stage.peer("a").consumes(T, prefetch=1)
    stage.peer("p").sends(T, "1", "2", "3")
    (letter,) = stage.peer("d").consumes("queue://ActiveMQ.DLQ").takes_deliveries()
    assert letter.text == "2"
    cause = stage.broker.formats.properties(letter.message)["dlqDeliveryFailureCause"][1]
    assert cause == f"java.lang.Throwable: TopicSubDiscard. ID:{slow.info.consumer_id}"
    assert drains(slow) == ["1", "3"]


@pytest.mark.parametrize("lifetime_ms", [0, 1_000])
def test_what_many_consumers_of_everything_lose_does_not_cost_them_more_by_its_dead_letters(lifetime_ms: int) -> None:
    """A dead letter to a topic comes to all others who are slow; each of those would lose a message for it."""
    letters = DeadLetterStrategy(process_non_persistent=True, individual=IndividualNames(queue_for_topics=False))
    tuning = TopicPolicy(pending_limit=PendingLimit(3))
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning, dead_letter=letters))
    consumers = stage.peer("a")
    listeners = [consumers.consumes("topic://>", prefetch=1) for _ in range(100)]
    quick = stage.peer("b").consumes("topic://ActiveMQ.DLQ.Topic.>")
    producer = stage.peer("p")
    expiration_ms = stage.now.wall_ms + lifetime_ms if lifetime_ms else 0
    producer.sends(T, "1", "2", "3", "4", persistent=False, expiration_ms=expiration_ms)
    stage.waits(2)
    producer.sends(T, "5", persistent=False)
    stage.settle()
    assert quick.takes() == ["2"] * len(listeners)
    assert {tuple(drains(listener)) for listener in listeners} == {("1", "5") if lifetime_ms else ("1", "3", "4", "5")}
    consumers.leaves()
    quick.peer.leaves()
    stage.settle()
    assert stage.memory() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_subscriber_of_everything_does_not_hear_what_it_loses(kind: str) -> None:
    tuning = TopicPolicy(pending_limit=PendingLimit(2), eviction=EvictionPolicy(kind, "stock"))
    told = AdvisoryPolicy(discarded=True)
    stage = Stage(
        PolicyEntry(Destination(TOPIC, ">"), topic=tuning, advisories=told), advisory_format=MinuteAdvisories()
    )
    everything = stage.peer("a").consumes("topic://>", prefetch=1)
    listener = stage.peer("b").consumes("topic://ActiveMQ.Advisory.MessageDiscarded.Topic.>")
    producer = stage.peer("p")
    stage.broker.take_dirty()
    for number in range(200):
        producer.sends(T, str(number), properties={"stock": "A"}, timestamp_ms=number + 1, persistent=False)
        names = [reference.destination.name.name for reference in everything.subscription.pending]
        assert len(names) <= 2 and not any("MessageDiscarded" in name for name in names)
    assert len(listener.takes()) >= 100


def test_a_subscriber_of_everything_does_not_hear_what_it_loses_while_it_is_given_what_a_topic_keeps() -> None:
    limit = PendingLimit(2)
    lost = Destination(TOPIC, "ActiveMQ.Advisory.MessageDiscarded.Topic.T")
    stage = Stage(
        PolicyEntry(
            Destination(TOPIC, ">"), topic=TopicPolicy(pending_limit=limit), advisories=AdvisoryPolicy(discarded=True)
        ),
        PolicyEntry(
            lost, topic=TopicPolicy(pending_limit=limit, recovery=RecoveryPolicy(FIXED_COUNT, 2 * RECOVERY_STEPS))
        ),
        advisory_format=SpokenAdvisories(),
    )
    heard = stage.peer("a").consumes(lost.qualified_name, prefetch=10 * RECOVERY_STEPS)
    slow = stage.peer("b").consumes(T, prefetch=1)
    producer = stage.peer("p")
    producer.sends(T, *[str(number) for number in range(2 * RECOVERY_STEPS + 3)], persistent=False)
    slow.leaves()
    stage.settle()
    everything = stage.peer("c").consumes("topic://>", prefetch=1, retroactive=True)
    producer.sends(T, *[str(number) for number in range(10)], persistent=False)
    heard.peer.flushes()
    assert any(f"consumerId={everything.info.consumer_id}" in text for text in heard.takes())
    stage.settle()
    assert not any(f"consumerId={everything.info.consumer_id}" in text for text in drains(everything))


def test_a_limit_of_nothing_drops_what_comes_without_a_word() -> None:
    stage = limited(PendingLimit(0), letters=True)
    slow = stage.peer("a").consumes(T, prefetch=2)
    stage.peer("p").sends(T, "1", "2", "3", "4")
    assert slow.takes() == ["1", "2"]
    assert not stage.has("queue://ActiveMQ.DLQ")
    slow.acknowledges("2")
    assert stage.memory() == 0


def test_other_messages_are_dead_letters_where_the_policy_says_so() -> None:
    stage = limited(PendingLimit(1), letters=True)
    stage.peer("a").consumes(T, prefetch=1)
    stage.peer("p").sends(T, "1", "2", "3", persistent=False)
    assert stage.peer("d").consumes("queue://ActiveMQ.DLQ").takes() == ["2"]


def test_without_flow_control_a_full_memory_costs_the_slowest_what_waits_for_it() -> None:
    stage = limited(PendingLimit(1_000), memory=200_000, producer_flow_control=False)
    slow, fast = stage.peer("a").consumes(T, prefetch=1), stage.peer("b").consumes(T, prefetch=1_000)
    producer = stage.peer("p")
    for number in range(100):
        token = producer.sends(T, str(number) + " " + "x" * 10_000, persistent=False)
        assert producer.is_answered(token), number
        fast.acknowledges(fast.takes()[-1])
        assert stage.memory() <= 220_000
    assert len(fast.out) == 100
    numbers = [int(text.split()[0]) for text in drains(slow)]
    assert numbers[0] == 0 and numbers[-1] == 99 and numbers[1:] == list(range(numbers[1], 100))
    assert len(numbers) > 10


def test_with_flow_control_a_full_memory_holds_up_the_sends() -> None:
    stage = limited(PendingLimit(1_000), memory=200_000)
    stage.peer("a").consumes(T, prefetch=1)
    producer = stage.peer("p")
    tokens = [producer.sends(T, "x" * 10_000, persistent=False) for _ in range(40)]
    assert producer.is_answered(tokens[0]) and not producer.is_answered(tokens[-1])


@pytest.mark.parametrize("limit", [None, PendingLimit(-1)])
def test_without_a_limit_what_is_out_already_is_not_given_up(limit: PendingLimit | None) -> None:
    stage = limited(limit, memory=200_000, producer_flow_control=False)
    consumer = stage.peer("a").consumes(T, prefetch=1_000)
    producer = stage.peer("p")
    tokens = [producer.sends(T, "x" * 10_000, persistent=False) for _ in range(40)]
    assert not producer.is_answered(tokens[-1])
    while not producer.is_answered(tokens[-1]):
        consumer.acknowledges(consumer.takes()[-1])
    assert len(consumer.out) == 40


@given(
    kind=st.sampled_from(KINDS),
    limit=st.integers(0, 4),
    sends=st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["A", "B", ""]), st.booleans()), max_size=30),
)
def test_never_more_than_the_limit_waits_and_the_order_stays(
    kind: str, limit: int, sends: list[tuple[int, str, bool]]
) -> None:
    stage = limited(PendingLimit(limit), EvictionPolicy(kind, "stock"))
    slow, fast = stage.peer("a").consumes(T, prefetch=1), stage.peer("b").consumes(T)
    producer = stage.peer("p")
    for number, (priority, stock, acknowledges) in enumerate(sends):
        properties: dict[str, object] = {"stock": stock} if stock else {}
        producer.sends(
            T, str(number), priority=priority, properties=properties, timestamp_ms=number + 1, persistent=False
        )
        assert len(slow.subscription.pending) <= limit
        assert slow.subscription.dispatched_count == 1
        if acknowledges:
            slow.acknowledges(slow.out[-1])
    numbers = [int(text) for text in slow.out]
    assert numbers == sorted(set(numbers))
    assert fast.takes() == [str(number) for number in range(len(sends))]
    slow.peer.leaves()
    fast.peer.leaves()
    assert stage.memory() == 0
