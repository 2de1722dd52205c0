"""Settings that change while the broker runs (ActiveMQ, "Runtime Configuration")."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.destination_map import POLICIES_PER_STEP, RETUNING_STEPS
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, MirroredQueues, VirtualSettings
from spanwire.broker.security.authorization import OpenAuthorizer
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import AuthorizationError, IllegalStateError
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.recording_authorizer import RecordingAuthorizer

Q = "queue://Q"
QUEUES = Destination(QUEUE, ">")
TOPICS = Destination(TOPIC, ">")


def use(stage: Stage, *entries: PolicyEntry) -> None:
    stage.broker.reconfiguration.use_policies(list(entries))


def test_existing_queues_have_the_new_limits_and_dead_letter_queues() -> None:
    stage = Stage(PolicyEntry(QUEUES, memory_limit_bytes=1_000_000))
    listener = stage.peer("c").consumes(Q)
    producer = stage.peer("p")
    producer.sends(Q, "a")
    stage.settle()
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=200, dead_letter=DeadLetterStrategy("DEAD")))
    listener.acknowledges("a", ack_type=POISON_ACK, count=1)
    stage.settle()
    assert stage.view("queue://DEAD").pending == 1
    destination = stage.broker.find_destination(parse_destination(Q))
    assert destination is not None and destination.usage.limit_bytes == 200


def test_sends_that_waited_go_on_when_there_is_more_room() -> None:
    stage = Stage(PolicyEntry(QUEUES, memory_limit_bytes=150))
    producer = stage.peer("p")
    tokens = [producer.sends(Q, str(number) * 100, persistent=False) for number in range(3)]
    assert not producer.is_answered(tokens[-1])
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=1_000_000))
    assert all(producer.is_answered(token) for token in tokens)


def test_what_expires_is_looked_for_as_often_as_the_new_policy_says() -> None:
    stage = Stage(PolicyEntry(QUEUES, expire_messages_period_ms=0))
    stage.peer("p").sends(Q, "a", persistent=False, expiration_ms=stage.now.wall_ms + 500)
    stage.waits(2)
    assert stage.view(Q).pending == 1
    use(stage, PolicyEntry(QUEUES, expire_messages_period_ms=1_000))
    stage.waits(2)
    assert stage.view(Q).pending == 0
    use(stage, PolicyEntry(QUEUES, expire_messages_period_ms=0))
    stage.peer("p2").sends(Q, "b", persistent=False, expiration_ms=stage.now.wall_ms + 500)
    stage.waits(2)
    assert stage.view(Q).pending == 1


def test_the_number_of_destinations_is_limited_anew() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.creates("queue://A")
    peer.creates("queue://B")
    use(stage, PolicyEntry(QUEUES, max_destinations=2))
    with pytest.raises(IllegalStateError, match="maximum number of destinations"):
        peer.creates("queue://C")
    peer.removes("queue://A")
    peer.creates("queue://C")


def test_topics_made_from_now_on_are_of_the_new_kind_and_those_before_of_the_old() -> None:
    stage = Stage()
    old = stage.peer("a").consumes("topic://OLD", prefetch=1)
    use(stage, PolicyEntry(TOPICS, topic=TopicPolicy(pending_limit=PendingLimit(1))))
    new = stage.peer("b").consumes("topic://NEW", prefetch=1)
    producer = stage.peer("p")
    for name in ("topic://OLD", "topic://NEW"):
        producer.sends(name, "1", "2", "3", "4", persistent=False)
    assert [len(one.subscription.pending) for one in (old, new)] == [3, 1]


def test_a_durable_subscription_has_the_new_policy_of_its_topic() -> None:
    stage = Stage()
    listener = stage.peer("a", client_id="a").consumes("topic://T", durable="s")
    stage.peer("p").sends("topic://T", "1")
    stage.settle()
    use(stage, PolicyEntry(TOPICS, dead_letter=DeadLetterStrategy("DEAD")))
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    stage.settle()
    assert stage.view("queue://DEAD").pending == 1


def test_virtual_destinations_come_and_go() -> None:
    stage = Stage()
    a, b = stage.peer("a").consumes("queue://A"), stage.peer("b").consumes("queue://B")
    watcher = stage.peer("w").consumes("topic://M.A")
    producer = stage.peer("p")
    producer.sends("queue://A", "1")
    stage.settle()
    forward = CompositeDestination(parse_destination("queue://A"), (ForwardTo(parse_destination("queue://B")),))
    settings = VirtualSettings(composites=(forward,), mirrored=MirroredQueues(prefix="M."))
    stage.broker.reconfiguration.use_virtual_destinations(settings)
    producer.sends("queue://A", "2")
    stage.settle()
    stage.broker.reconfiguration.use_virtual_destinations(VirtualSettings())
    producer.sends("queue://A", "3")
    stage.settle()
    assert [a.takes(), b.takes(), watcher.takes()] == [["1", "3"], ["2"], ["2"]]


def test_a_virtual_topic_may_begin_to_feed_queues_that_are_there() -> None:
    stage = Stage(virtual=VirtualSettings(topics=()))
    listener = stage.peer("a").consumes("queue://Consumer.A.VirtualTopic.T")
    durable = stage.peer("d", client_id="d").consumes("topic://VirtualTopic.T", durable="s")
    producer = stage.peer("p")
    for settings, text in ((None, "1"), (VirtualSettings(), "2"), (VirtualSettings(topics=()), "3")):
        if settings is not None:
            stage.broker.reconfiguration.use_virtual_destinations(settings)
        producer.sends("topic://VirtualTopic.T", text)
        stage.settle()
    assert [listener.takes(), durable.takes()] == [["2"], ["1", "2", "3"]]


def test_rights_are_asked_of_the_new_map() -> None:
    stage = Stage(authorizer=OpenAuthorizer())
    producer = stage.peer("p", user="ann")
    producer.sends(Q, "a")
    stage.broker.reconfiguration.use_authorizer(RecordingAuthorizer(("ann", "write", Q)))
    with pytest.raises(AuthorizationError):
        producer.sends(Q, "b")


def tuned(stage: Stage, count: int, limit: int) -> int:
    """How many of the first queues have this limit of memory."""
    destinations = [stage.broker.find_destination(parse_destination(f"queue://N{number}")) for number in range(count)]
    return sum(destination is not None and destination.usage.limit_bytes == limit for destination in destinations)


def turns_until_tuned(stage: Stage) -> int:
    turns = 0
    while stage.broker.next_timeout() == 0.0:
        stage.broker.run(stage.now)
        turns += 1
    return turns


@pytest.mark.large
def test_many_destinations_take_over_changed_policies_some_in_each_turn() -> None:
    stage = Stage()
    peer = stage.peer("p")
    count = 2 * RETUNING_STEPS + 100
    for number in range(count):
        peer.creates(f"queue://N{number}")
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=200))
    assert tuned(stage, count, 200) == RETUNING_STEPS
    assert stage.broker.next_timeout() == 0.0
    stage.broker.run(stage.now)
    assert tuned(stage, count, 200) == 2 * RETUNING_STEPS
    assert turns_until_tuned(stage) == 1
    assert tuned(stage, count, 200) == count
    others = [PolicyEntry(Destination(QUEUE, f"OTHER{number}")) for number in range(9 * POLICIES_PER_STEP)]
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=300), *others)
    assert tuned(stage, count, 300) == RETUNING_STEPS // 10  # a destination is compared with many


def test_policies_that_change_again_before_all_took_them_over_hold_for_all_in_the_end() -> None:
    stage = Stage()
    peer = stage.peer("p")
    count = 2 * RETUNING_STEPS
    for number in range(count):
        peer.creates(f"queue://N{number}")
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=200))
    use(stage, PolicyEntry(QUEUES, memory_limit_bytes=300))
    assert tuned(stage, count, 300) == RETUNING_STEPS
    turns_until_tuned(stage)
    assert tuned(stage, count, 300) == count


def test_what_comes_and_goes_while_policies_are_taken_over_is_counted_once() -> None:
    stage = Stage()
    peer = stage.peer("p")
    count = 2 * RETUNING_STEPS
    for number in range(count):
        peer.creates(f"queue://N{number}")
    use(stage, PolicyEntry(QUEUES, max_destinations=count))
    peer.removes("queue://N0")  # had its turn
    peer.removes(f"queue://N{count - 1}")  # has not
    peer.creates("queue://NEW")
    turns_until_tuned(stage)
    peer.creates("queue://LAST")
    with pytest.raises(IllegalStateError, match="maximum number of destinations"):
        peer.creates("queue://MORE")
