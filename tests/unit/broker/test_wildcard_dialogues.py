"""Consumers of wildcards and sends to wildcards: how many there may be, and how a refusal reads."""

from __future__ import annotations

import logging

import pytest

from spanwire.broker.destinations.destination_map import MAX_DESTINATIONS, DestinationMap
from spanwire.broker.destinations.durable_subscriptions import MAX_DURABLE_SUBSCRIPTIONS, MAX_SERVED
from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP
from spanwire.broker.destinations.wildcard_consumers import MAX_PATTERNS, WildcardConsumers
from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.broker.routing.send_targets import MAX_WILDCARD_TARGETS
from spanwire.broker.topic.durable_subscription import SubscriptionTerms, encode_terms
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.model.errors import ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Stage

NARROWER = "use narrower wildcards or fewer consumers"


def limited(stage: Stage, most: int) -> WildcardConsumers:
    """Let consumers of wildcards listen at ``most`` destinations together."""
    destination_map = stage.broker.assembly.map
    assert isinstance(destination_map, DestinationMap)
    destination_map.wildcards.max_attached = most
    return destination_map.wildcards


def settle(stage: Stage) -> None:
    while stage.broker.next_timeout() == 0.0:
        stage.runs()


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_consumers_of_wildcards_listen_at_so_many_destinations_and_no_more(kind: str) -> None:
    stage = Stage()
    limited(stage, 25)
    maker = stage.peer("m")
    for number in range(10):
        maker.creates(f"{kind}://D.{number}")
    listeners = [stage.peer(str(number)).consumes(f"{kind}://D.*") for number in range(3)]
    with pytest.raises(ResourceAllocationError, match=NARROWER):
        stage.peer("late").consumes(f"{kind}://D.*")
    stage.peer("plain").consumes(f"{kind}://D.1")
    listeners[0].leaves()
    settle(stage)
    assert stage.peer("next").consumes(f"{kind}://D.*").subscription.destinations


def test_a_consumer_for_which_there_is_no_room_while_it_is_attached_is_ended_and_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    maker = stage.peer("m")
    for number in range(2 * JOIN_STEPS):
        maker.creates(f"queue://D.{number}")
    limited(stage, JOIN_STEPS)
    peer = stage.peer("c")
    with caplog.at_level(logging.WARNING):
        listener = peer.consumes("queue://D.*")
        assert peer.closed_with is None
        settle(stage)
    assert isinstance(peer.closed_with, ResourceAllocationError)
    assert NARROWER in str(peer.closed_with)
    assert NARROWER in caplog.text
    assert len(listener.subscription.destinations) == JOIN_STEPS


def test_a_consumer_that_needs_no_more_room_stays_where_there_is_none() -> None:
    stage = Stage()
    maker = stage.peer("m")
    for name in [f"A.{number}" for number in range(5)] + [f"B.{number}" for number in range(2 * JOIN_STEPS)]:
        maker.creates(f"queue://{name}")
    limited(stage, 5)
    peer = stage.peer("c")
    listener = peer.consumes("queue://A.*")
    settle(stage)
    assert peer.closed_with is None
    assert len(listener.subscription.destinations) == 5


def test_a_new_destination_is_refused_where_too_many_wildcards_would_listen_and_nowhere_else() -> None:
    stage = Stage()
    limited(stage, 2)
    maker = stage.peer("m")
    stage.peer("c").consumes("queue://D.*")
    maker.creates("queue://D.1")
    maker.creates("queue://D.2")
    with pytest.raises(ResourceAllocationError, match=NARROWER):
        maker.creates("queue://D.3")
    maker.creates("queue://E")
    assert not stage.has("queue://D.3")


@pytest.mark.large
def test_there_is_a_limit_to_the_wildcards_of_all_consumers() -> None:
    stage = Stage()
    parts = ",".join(f"queue://W.{part}.*" for part in range(50))
    consumers = 0
    while consumers * 50 < MAX_PATTERNS:
        if consumers % 1_000 == 0:
            peer = stage.peer(str(consumers))
        peer.announces(parts)
        consumers += 1
    late = stage.peer("late")
    with pytest.raises(ResourceAllocationError, match=f"maximum of {MAX_PATTERNS} wildcards"):
        late.consumes("queue://X.*")
    before = stage.broker.steps
    late.creates("queue://W.1.1")
    assert stage.broker.steps - before < 2 * (MAX_PATTERNS // 64)
    peer.leaves()
    late.consumes("queue://X.*")


@pytest.mark.large
def test_a_message_to_wildcards_goes_to_so_many_destinations_and_counts_a_step_for_each() -> None:
    stage = Stage()
    for number in range(MAX_WILDCARD_TARGETS):
        stage.broker.configure_destination(parse_destination(f"topic://D.{number}"))
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends("topic://D.*", "1")
    assert MAX_WILDCARD_TARGETS <= stage.broker.steps - before <= 2 * MAX_WILDCARD_TARGETS
    assert stage.view(f"topic://D.{MAX_WILDCARD_TARGETS - 1}").enqueued == 1
    stage.broker.configure_destination(parse_destination("topic://D.more"))
    with pytest.raises(ResourceAllocationError, match="narrower wildcard"):
        producer.sends("topic://D.*", "2")
    assert stage.view("topic://D.0").enqueued == 1


@pytest.mark.large
def test_a_durable_subscription_to_wildcards_looks_at_each_topic_and_its_end_at_its_own_alone() -> None:
    stage = Stage()
    for number in range(MAX_DESTINATIONS):
        stage.broker.configure_destination(parse_destination(f"topic://D.{number}"))
    once = MAX_DESTINATIONS // COMPARED_PER_STEP
    for name, steps in (("D.>", 2 * once), ("E.>", once)):
        peer = stage.peer(name, client_id=name)
        before = stage.broker.steps
        listener = peer.consumes("topic://" + name, durable="d")
        listener.leaves()
        peer.unsubscribes("d")
        assert steps <= stage.broker.steps - before <= steps + 10, name


def test_durable_subscriptions_get_messages_of_so_many_topics_together_and_no_more() -> None:
    stage = Stage()
    destination_map = stage.broker.assembly.map
    for number in range(10):
        stage.broker.configure_destination(parse_destination(f"topic://D.{number}"))
    first = stage.peer("first", client_id="first")
    first.consumes("topic://D.*", durable="d").leaves()
    assert destination_map.served == 10
    stage.peer("p").removes("topic://D.0")
    assert destination_map.served == 9
    destination_map.served = MAX_SERVED
    late = stage.peer("late", client_id="late")
    with pytest.raises(ResourceAllocationError, match="narrower wildcards or fewer subscriptions"):
        late.consumes("topic://D.*", durable="d")
    late.consumes("topic://D.1", durable="plain")
    first.consumes("topic://D.*", durable="d").leaves()
    assert destination_map.served == MAX_SERVED + 1
    first.unsubscribes("d")
    assert destination_map.served == MAX_SERVED - 8


@pytest.mark.large
def test_a_new_topic_counts_steps_for_the_durable_subscriptions_it_is_compared_with() -> None:
    metadata: dict[bytes, bytes] = {}
    for number in range(MAX_DURABLE_SUBSCRIPTIONS):
        terms = SubscriptionTerms("app", str(number), Destination(TOPIC, f"*.{number}"), None, False)
        metadata[terms.key.encode()] = encode_terms(terms)
    stage = Stage()
    stage.broker.recover([], True, stage.now, {SUBSCRIPTIONS: metadata})
    peer = stage.peer("p")
    before = stage.broker.steps
    peer.creates("topic://T")
    assert stage.broker.steps - before == 1 + MAX_DURABLE_SUBSCRIPTIONS // COMPARED_PER_STEP


def test_a_durable_subscription_that_cannot_be_changed_stays_as_it_was() -> None:
    stage = Stage()
    destination_map = stage.broker.assembly.map
    for number in range(5):
        stage.broker.configure_destination(parse_destination(f"topic://D.{number}"))
    peer = stage.peer("a", client_id="a")
    peer.consumes("topic://D.*", durable="s").leaves()
    stage.peer("p").sends("topic://D.1", "1", "2")
    destination_map.served += MAX_SERVED
    with pytest.raises(ResourceAllocationError, match="narrower wildcards"):
        peer.consumes("topic://D.*", durable="s", selector="a = 1")
    destination_map.served -= MAX_SERVED
    assert len(peer.consumes("topic://D.*", durable="s").deliveries) == 2


def test_a_durable_consumer_that_is_refused_for_want_of_room_leaves_no_subscription_behind() -> None:
    stage = Stage()
    stage.peer("w").consumes("topic://D.*")
    stage.peer("m").creates("topic://D.1")
    limited(stage, 1)
    peer = stage.peer("a", client_id="a")
    with pytest.raises(ResourceAllocationError, match=NARROWER):
        peer.consumes("topic://D.2", durable="s")
    assert stage.broker.durable_subscriptions() == []
    assert not stage.has("topic://D.2")


def test_a_durable_consumer_that_is_refused_for_want_of_room_leaves_its_subscription_as_it_was() -> None:
    stage = Stage()
    stage.peer("w").consumes("topic://D.*")
    peer = stage.peer("a", client_id="a")
    peer.consumes("topic://D.1", durable="s").leaves()
    stage.peer("p").sends("topic://D.1", "1")
    limited(stage, 1)
    with pytest.raises(ResourceAllocationError, match=NARROWER):
        peer.consumes("topic://D.2", durable="s")
    assert peer.consumes("topic://D.1", durable="s").takes() == ["1"]
