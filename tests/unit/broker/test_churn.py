"""What has come and gone leaves nothing behind, however often it comes: objects are counted after a collection."""

from __future__ import annotations

import gc

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.model.destination import TOPIC, Destination, parse_destination
from tests.support.dialogue.broker_dialogue import Stage

Q = "queue://Q"
AN_HOUR_MS = 3_600_000
MANY = 5_000
FEW = 2_100  # entries of pulls that are over


def tuples_of(item: object) -> int:
    """How many tuples have the object in them."""
    gc.collect()
    return sum(1 for referrer in gc.get_referrers(item) if isinstance(referrer, tuple))


def test_pulls_that_got_a_message_are_forgotten_while_another_one_waits() -> None:
    stage = Stage()
    waiting = stage.peer("w").consumes("queue://EMPTY", prefetch=0)
    waiting.pulls(AN_HOUR_MS)
    busy = stage.peer("b").consumes(Q, prefetch=0)
    producer = stage.peer("p")
    for number in range(MANY):
        busy.pulls(AN_HOUR_MS)
        producer.sends(Q, str(number))
        busy.acknowledges(str(number))
        stage.waits(0.001)
    assert len(busy.out) == MANY
    assert tuples_of(busy.subscription) < FEW
    stage.waits(AN_HOUR_MS / 1000)
    assert waiting.ends == 1 and busy.ends == 0


def test_removed_queues_and_topics_with_a_policy_are_counted_for_the_next_collection() -> None:
    policy = TopicPolicy(pending_limit=PendingLimit(10))
    stage = Stage(PolicyEntry(Destination(TOPIC, "LIMITED"), topic=policy))
    peer = stage.peer("c")
    for name, more in ((Q, 1), ("topic://LIMITED", 1), ("topic://PLAIN", 0)):
        before = stage.broker.assembly.context.departed
        peer.consumes(name).leaves()
        stage.settle()
        assert stage.broker.assembly.destinations.remove_own(parse_destination(name))
        stage.settle()
        assert stage.broker.assembly.context.departed == before + more
