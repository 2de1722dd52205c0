"""The observer of a destination is chosen once, by its policy; a destination whose policy asks for nothing has none."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.advisories.message_advisories import QueueAdvisories, TopicAdvisories
from spanwire.broker.dispatch.history.arrival_times import ArrivalObserver
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, BridgePolicy, PolicyEntry, QueuePolicy
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.policy_topic import PolicyTopic
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

Q: Final = Destination(QUEUE, "Q")
T: Final = Destination(TOPIC, "T")
DELIVERED: Final = AdvisoryPolicy(delivered=True)
REPLAYED: Final = QueuePolicy(bridges=BridgePolicy(replays=True, replay_delay_ms=1_000))


def stage_with(policy: PolicyEntry) -> Stage:
    return Stage(policy, advisory_format=SpokenAdvisories())


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (PolicyEntry(Q), type(None)),
        (PolicyEntry(Q, advisories=AdvisoryPolicy(dispatched=True, full=True)), type(None)),
        (PolicyEntry(Q, advisories=DELIVERED), QueueAdvisories),
        (PolicyEntry(Q, queue=REPLAYED), ArrivalObserver),
        (PolicyEntry(Q, queue=REPLAYED, advisories=DELIVERED), QueueAdvisories),
    ],
)
def test_a_queue_has_the_observer_its_policy_needs(policy: PolicyEntry, expected: type) -> None:
    queue = stage_with(policy).broker.assembly.map.create(Q)
    assert isinstance(queue, Queue)
    assert isinstance(queue.observer, expected)
    assert queue.takes_stored() == (queue.observer is None)


def test_a_topic_without_a_policy_is_plain() -> None:
    assert type(stage_with(PolicyEntry(T)).broker.assembly.map.create(T)) is Topic


def test_a_topic_with_a_limit_alone_has_no_observer() -> None:
    policy = PolicyEntry(T, topic=TopicPolicy(pending_limit=PendingLimit(1)))
    topic = stage_with(policy).broker.assembly.map.create(T)
    assert isinstance(topic, PolicyTopic)
    assert topic.observer is None


def test_a_topic_with_advisories_has_an_observer() -> None:
    topic = stage_with(PolicyEntry(T, advisories=DELIVERED)).broker.assembly.map.create(T)
    assert isinstance(topic, PolicyTopic)
    assert isinstance(topic.observer, TopicAdvisories)


def test_advisories_have_no_effect_without_advisory_support() -> None:
    queue = Stage(PolicyEntry(Q, advisories=DELIVERED)).broker.assembly.map.create(Q)
    assert isinstance(queue, Queue)
    assert queue.observer is None
