"""Consumers of one topic: so many, by what they add to the work of each message, and no more."""

from __future__ import annotations

import logging
from typing import Final

import pytest

from spanwire.broker.advisories.advisory_delivery import DELIVERY_STEPS
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.broker.dispatch.subscription import MAX_PREFETCH
from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.broker.policy.fan_out import (
    CHARACTERS_PER_STEP,
    COPY_STEPS,
    MAX_FAN_OUT,
    MAX_WILD_FAN_OUT,
    STEPS_OF_REQUEST,
    selector_steps,
)
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings
from spanwire.broker.topic.durable_subscription import SubscriptionTerms, encode_terms
from spanwire.model.destination import MAX_COMPOSITE_PARTS, QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.info import MAX_CONSUMERS_PER_CONNECTION
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

FULL: Final = "as many consumers as one message may go to.*use several topics, or queues behind a virtual topic"
A: Final = Destination(QUEUE, "A")
T: Final = Destination(TOPIC, "T")
U: Final = Destination(TOPIC, "U")
TOO_WILD: Final = "name topics, or use fewer wildcards"
HEAVY: Final = "a = 1 OR b = '" + "x" * (120 * CHARACTERS_PER_STEP - 15) + "'"


def crowd(stage: Stage, destination: str, count: int = MAX_FAN_OUT) -> list[Listener]:
    listeners: list[Listener] = []
    while len(listeners) < count:
        peer = stage.peer(f"crowd{len(listeners)} of {destination}")
        wanted = min(MAX_CONSUMERS_PER_CONNECTION, count - len(listeners))
        listeners.extend(peer.consumes(destination, prefetch=10) for _ in range(wanted))
    return listeners


def heavy_crowd(stage: Stage, destination: str) -> list[Listener]:
    """As many consumers with long selectors as a topic takes."""
    peer = stage.peer(f"heavy at {destination}")
    return [peer.consumes(destination, selector=HEAVY) for _ in range(MAX_FAN_OUT // (1 + selector_steps(HEAVY)))]


def runs(stage: Stage) -> None:
    while stage.broker.next_timeout() == 0.0:
        stage.runs()


@pytest.mark.large
def test_one_message_of_a_topic_goes_to_so_many_consumers_and_a_further_one_is_refused() -> None:
    stage = Stage()
    listeners = crowd(stage, "topic://T")
    late = stage.peer("late")
    for wanted in ("topic://T", "topic://OTHER,topic://T", "topic://>", "queue://Q,topic://*"):
        with pytest.raises(ResourceAllocationError, match=f"^topic://T has {FULL}$"):
            late.consumes(wanted)
    assert not stage.has("topic://OTHER")
    assert not stage.has("queue://Q")
    assert late.state.consumers == {}
    late.consumes("topic://OTHER.*")
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends("topic://T", "1")
    assert stage.broker.steps - before == 1 + MAX_FAN_OUT // STEPS_OF_REQUEST
    assert {tuple(listener.out) for listener in listeners} == {("1",)}
    listeners[0].leaves()
    assert late.consumes("topic://T").subscription.destinations
    with pytest.raises(ResourceAllocationError, match=FULL):
        late.consumes("topic://T")


@pytest.mark.large
def test_consumers_are_looked_at_for_slow_ones_and_for_wanted_messages_up_to_the_same_limit() -> None:
    told = AdvisoryPolicy(no_consumers=True, slow_consumers=True)
    stage = Stage(PolicyEntry(T, advisories=told), advisory_format=SpokenAdvisories())
    listeners = crowd(stage, "topic://T")
    slow = stage.peer("slow").consumes("topic://ActiveMQ.Advisory.SlowConsumer.Topic.T", prefetch=MAX_PREFETCH)
    nobody = stage.peer("nobody").consumes("topic://ActiveMQ.Advisory.NoConsumer.Topic.T")
    runs(stage)
    with pytest.raises(ResourceAllocationError, match=FULL):
        stage.peer("late").consumes("topic://T")
    producer = stage.peer("p")
    before = stage.broker.steps
    producer.sends("topic://T", "1", persistent=False)
    assert stage.broker.steps - before == 1 + MAX_FAN_OUT // STEPS_OF_REQUEST
    for number in range(20 + 2):
        producer.sends("topic://T", str(number), persistent=False)
    assert len(slow.deliveries) + len(slow.subscription.pending) == len(listeners)
    assert nobody.out == []


def test_a_selector_weighs_as_much_as_it_is_long() -> None:
    assert selector_steps(None) == 0
    assert selector_steps("a = 1") == 1
    assert selector_steps("x" * CHARACTERS_PER_STEP) == 2
    assert selector_steps("a + b > -c AND d = '1+2''-''3*4' OR e / 2 = 1") == 1 + 3
    stage = Stage()
    listeners = heavy_crowd(stage, "topic://T")
    late = stage.peer("late")
    with pytest.raises(ResourceAllocationError, match=FULL):
        late.consumes("topic://T", selector=HEAVY)
    stage.peer("p").sends("topic://T", "1", properties={"a": 1})
    assert {tuple(listener.out) for listener in listeners} == {("1",)}
    listeners[0].peer.leaves()
    runs(stage)
    late.consumes("topic://T", selector=HEAVY)


@pytest.mark.large
def test_half_as_many_consumers_have_room_with_a_selector_of_usual_length_as_without() -> None:
    stage = Stage()
    peers = [stage.peer(str(number)) for number in range(MAX_FAN_OUT // 2 // MAX_CONSUMERS_PER_CONNECTION)]
    for peer in peers:
        for _ in range(MAX_CONSUMERS_PER_CONNECTION):
            peer.consumes("topic://T", selector="colour = 'red' AND price BETWEEN 10 AND 99")
    with pytest.raises(ResourceAllocationError, match=FULL):
        stage.peer("late").consumes("topic://T")


@pytest.mark.large
def test_durable_subscriptions_of_a_topic_have_room_for_so_many_and_those_that_exist_can_be_used() -> None:
    stage = Stage()
    peers = [stage.peer(str(number), client_id=str(number)) for number in range(5)]
    per_peer = MAX_FAN_OUT // COPY_STEPS // len(peers)
    for peer in peers:
        for number in range(per_peer):
            peer.consumes("topic://T", durable=str(number))
    late = stage.peer("late", client_id="late")
    for wanted in ("topic://T", "topic://>"):
        with pytest.raises(ResourceAllocationError):
            late.consumes(wanted, durable="s")
    with pytest.raises(ResourceAllocationError, match=FULL):
        late.consumes("topic://T")
    assert stage.peer("p").sends("topic://T", "1") > 0
    peers[0].leaves()
    runs(stage)
    again = stage.peer("0 again", client_id="0")
    again.consumes("topic://T", durable="0")
    with pytest.raises(ResourceAllocationError, match=FULL):
        again.consumes("topic://T", durable="1", selector="a = 1")
    assert len(stage.broker.durable_subscriptions()) == per_peer * len(peers)
    again.consumes("topic://OTHER", durable="1")
    late.consumes("topic://T", durable="s")


def overfull(topic: str, count: int) -> Stage:
    """A broker whose store has so many durable subscriptions of an earlier version, which had no limit."""
    stage = Stage()
    for number in range(count):
        terms = SubscriptionTerms("d", str(number), parse_destination(topic), HEAVY, False)
        stage.store.put_metadata(SUBSCRIPTIONS, terms.key.encode(), encode_terms(terms))
    stage.syncs()
    return stage.restarts(clean=True)


@pytest.mark.parametrize("topic", ["topic://T", "topic://VirtualTopic.T"])
@pytest.mark.parametrize("together", ["", ",queue://Q"])
def test_a_topic_with_more_durable_subscriptions_than_there_may_be_after_an_upgrade_serves_them(
    topic: str, together: str
) -> None:
    count = 2 * MAX_FAN_OUT // (COPY_STEPS + selector_steps(HEAVY))
    stage = overfull(topic, count)
    stage.peer("p").sends(topic + together, "1", properties={"a": 1})
    stage.syncs()
    peer = stage.peer("d", client_id="d")
    listeners = [peer.consumes(topic, durable=str(number), selector=HEAVY) for number in range(count)]
    assert {tuple(listener.out) for listener in listeners} == {("1",)}


@pytest.mark.parametrize("topic", ["topic://T", "topic://T.*", "topic://T,topic://T.>"])
@pytest.mark.parametrize("is_made", [True, False])
def test_a_durable_subscription_can_become_a_lighter_one_where_there_are_too_many(topic: str, is_made: bool) -> None:
    stage = overfull(topic, 2 * MAX_FAN_OUT // (COPY_STEPS + selector_steps(HEAVY)))
    if is_made:
        stage.peer("m").creates("topic://T")
        stage.peer("m2").creates("topic://T.1")
    peer = stage.peer("d", client_id="d")
    for selector in ("b" + HEAVY[1:], "a = 1", None):
        peer.consumes(topic, durable="0", selector=selector).leaves()
    with pytest.raises(ResourceAllocationError):
        peer.consumes(topic, durable="0", selector="a = 1")


def test_bridges_that_wait_for_topics_which_were_removed_take_no_room_from_wildcards() -> None:
    policy = PolicyEntry(Destination(TOPIC, "GONE.>"), gc_inactive=True, gc_with_network_consumers=True)
    stage = Stage(policy, upkeep=UpkeepSettings(destinations_period_ms=1_000))
    bridge = stage.peer("b")
    count = 1 + MAX_WILD_FAN_OUT // (1 + selector_steps(HEAVY))
    for number in range(count):
        bridge.consumes(f"topic://GONE.{number}", network=True, selector=HEAVY)
    for _ in range(2 + policy.inactive_timeout_ms // 1000):
        stage.waits(1.0)
    assert stage.names() == set()
    late = stage.peer("late")
    for _ in range(count - 1):
        late.consumes("topic://GONE.*", selector=HEAVY)
    with pytest.raises(ResourceAllocationError, match=TOO_WILD):
        late.consumes("topic://GONE.*", selector=HEAVY)


@pytest.mark.large
def test_consumers_of_wildcards_are_so_many_that_a_new_topic_has_room_for_all() -> None:
    stage = Stage()
    listeners = crowd(stage, "topic://W.*", MAX_WILD_FAN_OUT)
    late = stage.peer("late", client_id="late")
    for durable in (None, "s"):
        with pytest.raises(ResourceAllocationError, match=TOO_WILD):
            late.consumes("topic://W.X.>", durable=durable)
        with pytest.raises(ResourceAllocationError, match=TOO_WILD):
            late.consumes("topic://>", durable=durable)
    assert stage.broker.durable_subscriptions() == []
    late.consumes("queue://>")
    late.consumes("topic://X.1")
    stage.peer("p").sends("topic://W.1", "1")
    assert {tuple(listener.out) for listener in listeners} == {("1",)}
    late.consumes("topic://X.*")  # no topic falls under both
    listeners[0].leaves()
    runs(stage)
    late.consumes("topic://W.X.>")
    with pytest.raises(ResourceAllocationError, match=TOO_WILD):
        late.consumes("topic://W.Y.*,topic://W.X.*")


def test_a_new_topic_is_as_full_as_those_make_it_that_wait_for_it() -> None:
    stage = Stage()
    peer = stage.peer("a", client_id="a")
    count = MAX_WILD_FAN_OUT // (COPY_STEPS + selector_steps(HEAVY))
    for number in range(count):
        peer.consumes("topic://W.*", durable=f"wild {number}", selector=HEAVY).leaves()
    for number in range(count):
        peer.consumes("topic://W.1", durable=f"plain {number}", selector=HEAVY).leaves()
    stage.peer("m").removes("topic://W.1")
    for refused in ("topic://W.1", "topic://OTHER,topic://W.1"):
        for durable in (None, "s"):
            with pytest.raises(ResourceAllocationError, match=FULL):
                peer.consumes(refused, durable=durable, selector=HEAVY)
    assert not stage.has("topic://W.1")
    assert not stage.has("topic://OTHER")
    peer.consumes("topic://W.2", selector=HEAVY)
    peer.unsubscribes("plain 0")
    peer.consumes("topic://W.1", durable="s", selector=HEAVY)


def test_a_durable_subscription_to_wildcards_counts_for_each_new_topic_until_it_is_deleted() -> None:
    stage = Stage()
    count = MAX_WILD_FAN_OUT // (COPY_STEPS + selector_steps(HEAVY))
    peer = stage.peer("a", client_id="a")
    for number in range(count):
        peer.consumes("topic://D.*", durable=str(number), selector=HEAVY).leaves()
    with pytest.raises(ResourceAllocationError, match=TOO_WILD):
        peer.consumes("topic://D.E.*", durable="more", selector=HEAVY)
    with pytest.raises(ResourceAllocationError, match=TOO_WILD):
        peer.consumes("topic://D.E.*", selector=HEAVY)
    peer.consumes("topic://D.E.*", durable="0", selector=HEAVY).leaves()  # in place of the one before
    peer.unsubscribes("0")
    peer.consumes("topic://D.E.*", selector=HEAVY)


def test_a_consumer_of_wildcards_whose_room_others_take_while_it_is_attached_is_ended_and_told_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage()
    maker = stage.peer("m")
    for number in range(2 * JOIN_STEPS):
        maker.creates(f"topic://D.{number}")
    peer = stage.peer("c")
    listener = peer.consumes("topic://D.*", selector=HEAVY)
    heavy_crowd(stage, f"topic://D.{2 * JOIN_STEPS - 1}")
    assert peer.closed_with is None
    with caplog.at_level(logging.WARNING):
        stage.peer("p").sends(f"topic://D.{2 * JOIN_STEPS - 1}", "1", properties={"a": 1})
    assert isinstance(peer.closed_with, ResourceAllocationError)
    assert "has as many consumers" in caplog.text
    runs(stage)
    assert len(listener.subscription.destinations) == JOIN_STEPS
    assert caplog.text.count("is ended") == 1


@pytest.mark.large
def test_an_advisory_goes_to_so_many_listeners_in_one_slice_and_a_further_listener_is_refused() -> None:
    assert DELIVERY_STEPS < MAX_FAN_OUT
    stage = Stage(advisory_format=SpokenAdvisories())
    listeners = crowd(stage, "topic://ActiveMQ.Advisory.Queue")
    runs(stage)
    with pytest.raises(ResourceAllocationError, match=FULL):
        stage.peer("late").consumes("topic://ActiveMQ.Advisory.Queue")
    maker = stage.peer("m")
    maker.creates("queue://A")
    maker.creates("queue://B")
    assert listeners[0].out == []
    stage.runs()
    assert {len(listener.out) for listener in listeners} == {1}
    for peer in {listener.peer for listener in listeners}:
        peer.flushes()
    stage.runs()
    assert {tuple(listener.out) for listener in listeners} == {("+queue://A", "+queue://B")}


def test_a_message_to_several_topics_goes_to_only_so_many_consumers_together() -> None:
    stage = Stage(virtual=VirtualSettings((), (CompositeDestination(A, (ForwardTo(T), ForwardTo(U))),)))
    listeners = [*heavy_crowd(stage, "topic://T"), *heavy_crowd(stage, "topic://U")]
    producer = stage.peer("p")
    for together in ("topic://T,topic://U", "topic://*", "queue://A", "queue://A,queue://B"):
        with pytest.raises(ResourceAllocationError, match="send to fewer"):
            producer.sends(together, "together", properties={"a": 1})
    others = ",".join(f"queue://Q.{number}" for number in range(MAX_COMPOSITE_PARTS - 1))
    for alone in ("topic://T", "topic://U", f"topic://T,{others}"):
        producer.sends(alone, alone, properties={"a": 1})
    assert listeners[0].out == ["topic://T", f"topic://T,{others}"]
    assert listeners[-1].out == ["topic://U"]
    assert stage.view("queue://Q.0").enqueued == 1


def test_the_load_of_topics_is_nothing_when_everybody_has_left() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    peer = stage.peer("a", client_id="a")
    peer.consumes("topic://T", selector="a = 1")
    peer.consumes("topic://*")
    peer.consumes("topic://ActiveMQ.Advisory.>")
    peer.consumes("topic://T", durable="s", selector="a = 1")
    peer.consumes("topic://*", durable="t")
    destination = next(destination for destination in stage.broker.assembly.map.all() if destination.name.name == "T")
    assert destination.load == 2 + 1 + (COPY_STEPS + 1) + COPY_STEPS
    peer.leaves()
    runs(stage)
    again = stage.peer("a again", client_id="a")
    again.unsubscribes("s")
    again.unsubscribes("t")
    runs(stage)
    assert destination.load == 0
    assert stage.broker.assembly.map.wildcards.weight == 0
    assert stage.broker.assembly.map.wildcards.wild.is_empty()
    assert stage.broker.assembly.map.fan_out._weight == 0
    assert all(destination.load == 0 for destination in stage.broker.assembly.map.all())
