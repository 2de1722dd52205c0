"""What topics keep comes to a retroactive subscriber of a durable subscription in slices, in front of what is sent."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.policy.topic_policy import FIXED_COUNT, RecoveryPolicy, TopicPolicy
from spanwire.broker.ports import Principal
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.broker.topic.policy_topic import RECOVERY_STEPS
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage

T: Final = "topic://T"
MANY: Final = 3 * RECOVERY_STEPS + 20


def keeping(memory_limit: int = 0, users: Users | None = None) -> Stage:
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 100_000))
    entry = PolicyEntry(Destination(TOPIC, ">"), topic=tuning, memory_limit_bytes=memory_limit)
    if users is None:
        return Stage(entry)
    rights = AuthorizationMap([AuthorizationEntry(Destination(TOPIC, f"{name}.>"), group(name)) for name in "AB"])
    return Stage(entry, authorizer=rights, authenticator=users)


class Users:
    """One user, in the groups of now; duck-typed to `Authenticator`."""

    def __init__(self, *groups: str) -> None:
        self.groups = groups

    def authenticate(self, info: ConnectionInfo) -> Principal:
        return Principal("alice", frozenset(self.groups))


def group(name: str) -> AccessList:
    return AccessList(*[frozenset([name])] * 3)


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def subscriber(stage: Stage, name: str = "a") -> Peer:
    return stage.peer(name, client_id="c")


def subscribes(peer: Peer, selector: str | None = None, destination: str = T) -> Listener:
    return peer.consumes(destination, durable="s", retroactive=True, selector=selector, prefetch=10_000)


def waiting(stage: Stage) -> int:
    (durable,) = stage.broker.durable_subscriptions()
    return durable.queue.waiting()


def runs(stage: Stage, *listeners: Listener) -> int:
    """Turns until there is nothing to do; each adds one slice at most."""
    turns = 0
    while stage.broker.next_timeout() == 0.0:
        durables = stage.broker.durable_subscriptions()
        before = durables[0].queue.enqueued if durables else 0
        stage.runs()
        assert not durables or durables[0].queue.enqueued - before <= RECOVERY_STEPS
        for listener in listeners:
            listener.peer.flushes()
        turns += 1
    return turns


def test_what_topics_keep_for_a_durable_subscriber_comes_in_slices_and_before_what_is_sent_meanwhile() -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY), persistent=False)
    late = subscribes(subscriber(stage))
    assert waiting(stage) == RECOVERY_STEPS
    assert late.out == []
    producer.sends(T, *numbers(5, MANY), persistent=False)
    stage.runs()
    late.peer.flushes()
    producer.sends(T, *numbers(5, MANY + 5), persistent=False)
    runs(stage, late)
    producer.sends(T, *numbers(5, MANY + 10), persistent=False)
    assert late.out == numbers(MANY + 15)
    sequences = [delivery.sequence for delivery in late.deliveries]
    assert sequences == sorted(set(sequences))
    late.acknowledges(late.out[-1])
    (durable,) = stage.broker.durable_subscriptions()
    assert durable.queue.usage.used_bytes == 0


def test_messages_that_are_stored_meanwhile_come_behind_and_all_others_first() -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY))
    stage.syncs()
    late = subscribes(subscriber(stage))
    producer.sends(T, *numbers(10, MANY))
    stage.syncs()
    runs(stage, late)
    assert late.out == numbers(MANY + 10)


def test_few_kept_messages_come_to_a_durable_subscriber_in_one_turn() -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(RECOVERY_STEPS), persistent=False)
    late = subscribes(subscriber(stage))
    assert not stage.broker._context.has_jobs()
    assert late.out == numbers(RECOVERY_STEPS)


def test_a_selector_of_a_durable_subscriber_makes_slices_smaller() -> None:
    stage = keeping()
    producer = stage.peer("p")
    for number in range(100):
        producer.sends(T, str(number), properties={"n": number % 2}, persistent=False)
    late = subscribes(subscriber(stage), "n = 1 OR n = " + "2" * 90 + " OR b = '" + "x" * 6_000 + "'")
    assert 0 < waiting(stage) <= 3
    runs(stage, late)
    assert late.out == [str(number) for number in range(1, 100, 2)]


def test_kept_messages_do_not_hold_what_a_selector_of_a_durable_subscriber_decoded() -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(10), properties={"n": 1}, persistent=False)
    kept = stage.memory()
    late = subscribes(subscriber(stage), "n = 1")
    assert late.out == numbers(10)
    (durable,) = stage.broker.durable_subscriptions()
    forms = sum(delivery.message.forms_size() for delivery in late.deliveries)
    assert (
        durable.queue.usage.used_bytes == sum(delivery.message.size for delivery in late.deliveries) + forms > forms > 0
    )
    late.acknowledges(late.out[-1])
    (topic,) = stage.broker.assembly.map.topics.values()
    assert [message.forms_size() for message in topic.kept_messages()] == [0] * 10
    assert stage.memory() == kept


def test_a_subscriber_that_goes_and_comes_again_meanwhile_gets_each_message_once() -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(MANY), persistent=False)
    subscribes(subscriber(stage)).peer.leaves()
    again = subscribes(subscriber(stage, "b"))
    runs(stage, again)
    assert again.out == numbers(MANY)


@pytest.mark.parametrize("selector", [None, "n > 1000000"])
def test_a_subscription_that_is_deleted_meanwhile_leaves_nothing_behind(selector: str | None) -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(MANY), persistent=False)
    late = subscribes(subscriber(stage), selector)
    late.leaves()
    stage.runs()
    late.peer.unsubscribes("s")
    runs(stage)
    assert stage.broker.durable_subscriptions() == []
    assert not stage.broker._context.has_jobs()
    assert stage.memory() == stage.broker.assembly.map._memory.usage.used_bytes


def test_a_purge_removes_also_what_would_come_in_a_later_slice() -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY), persistent=False)
    late = subscribes(subscriber(stage))
    (durable,) = stage.broker.durable_subscriptions()
    durable.queue.purge()
    runs(stage, late)
    producer.sends(T, "new", persistent=False)
    assert late.out == ["new"]


def test_a_full_memory_leaves_the_rest_of_the_kept_messages_out() -> None:
    stage = keeping(memory_limit=RECOVERY_STEPS * 300)
    producer = stage.peer("p")
    for number in range(2 * RECOVERY_STEPS):
        producer.sends(T, str(number), "x" * 400, persistent=False)
    late = subscribes(subscriber(stage))
    (durable,) = stage.broker.durable_subscriptions()
    limit = durable.queue.usage.limit_bytes
    runs(stage, late)
    assert limit * 9 // 10 < durable.queue.usage.used_bytes <= limit * 11 // 10


def test_a_subscriber_who_may_read_less_than_at_the_beginning_gets_nothing_else_from_a_later_slice() -> None:
    users = Users("A", "B")
    stage = keeping(users=users)
    producer = stage.peer("p")
    for number in range(RECOVERY_STEPS):
        producer.sends("topic://A.t", str(number), properties={"n": 0}, persistent=False)
    producer.sends("topic://A.t", "for A", properties={"n": 1}, persistent=False)
    producer.sends("topic://B.t", "for B", properties={"n": 1}, persistent=False)
    first = subscribes(subscriber(stage), "n = 1", "topic://*.t")
    first.peer.leaves()
    users.groups = ("A",)
    again = subscribes(subscriber(stage, "b"), "n = 1", "topic://*.t")
    assert waiting(stage) == 0
    runs(stage, again)
    assert again.out == ["for A"]


def test_messages_that_a_subscriber_gives_back_meanwhile_stay_in_front() -> None:
    stage = keeping()
    stage.peer("p").sends(T, *numbers(MANY), persistent=False)
    late = subscribes(subscriber(stage))
    runs(stage, late)
    assert late.out == numbers(MANY)
    late.peer.leaves()
    again = subscribes(subscriber(stage, "b"))
    runs(stage, again)
    assert again.out == numbers(MANY)


@pytest.mark.parametrize("destination", [T, "topic://>", "topic://T,topic://U"])
def test_a_subscriber_that_pulls_at_once_waits_for_a_later_slice(destination: str) -> None:
    stage = keeping()
    producer = stage.peer("p")
    producer.sends(T, *numbers(MANY), properties={"n": 0}, persistent=False)
    producer.sends(T, "last", properties={"n": 1}, persistent=False)
    late = subscriber(stage).consumes(destination, durable="s", retroactive=True, selector="n = 1", prefetch=0)
    late.pulls(-1)
    assert late.ends == 0
    runs(stage, late)
    assert late.out == ["last"]
    late.acknowledges("last")
    late.pulls(-1)
    assert late.ends == 1


def test_messages_of_higher_priority_come_first_from_whichever_slice() -> None:
    tuning = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 100_000))
    queues = QueuePolicy(prioritized_messages=True)
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), topic=tuning, queue=queues))
    producer = stage.peer("p")
    producer.sends(T, *numbers(RECOVERY_STEPS + 10), priority=3, persistent=False)
    producer.sends(T, "high 1", "high 2", priority=8, persistent=False)
    late = subscribes(subscriber(stage))
    producer.sends(T, "high 3", priority=8, persistent=False)
    runs(stage, late)
    assert late.out == ["high 1", "high 2", "high 3", *numbers(RECOVERY_STEPS + 10)]
