"""Consumers of wildcards come, and connections go, a slice at a time; nobody sees a half of it."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire._build import COMPILED
from spanwire.broker.advisories.advisory_delivery import (
    DELIVERED_AT_ONCE,
    DELIVERY_STEPS,
    MAX_UNDELIVERED,
    AdvisoryDelivery,
)
from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.broker.dispatch.broker_context import MAX_RINGS, BrokerContext
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import FIXED_COUNT, RecoveryPolicy, TopicPolicy
from spanwire.broker.queue.dispatchers import MAX_DISPATCHED
from spanwire.broker.routing.consumers import MAX_PULLS_OVER
from spanwire.broker.routing.message_return import LEAVING_STEPS
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import parse_destination
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

MANY: Final = 3 * JOIN_STEPS


def makes(stage: Stage, kind: str, count: int) -> Peer:
    maker = stage.peer("maker")
    for number in range(count):
        maker.creates(f"{kind}://D.{number}")
    return maker


def slices(stage: Stage) -> int:
    """How many turns a broker takes until it has no work left."""
    found = 0
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        found += 1
        assert found < 10_000
    return found


def homes_of(listener: Listener) -> int:
    return len(listener.subscription.destinations)


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_wildcard_consumer_is_attached_to_many_destinations_in_slices(kind: str) -> None:
    stage = Stage()
    makes(stage, kind, MANY)
    listener = stage.peer("c").consumes(f"{kind}://>")
    assert homes_of(listener) == JOIN_STEPS
    assert slices(stage) >= MANY // JOIN_STEPS - 1
    assert homes_of(listener) >= MANY


def test_a_topic_is_heard_by_a_wildcard_consumer_that_is_being_attached() -> None:
    stage = Stage()
    maker = makes(stage, "topic", MANY)
    listener = stage.peer("c").consumes("topic://D.>")
    maker.sends(f"topic://D.{MANY - 1}", "1")
    assert listener.takes() == ["1"]
    maker.sends("topic://D.new", "2")
    slices(stage)
    for number in (0, MANY - 1):
        maker.sends(f"topic://D.{number}", "3")
    assert listener.takes() == ["2", "3", "3"], "each once"


def test_what_waits_in_the_last_of_many_queues_comes_to_a_wildcard_consumer() -> None:
    stage = Stage()
    maker = makes(stage, "queue", MANY)
    maker.sends(f"queue://D.{MANY - 1}", "1")
    listener = stage.peer("c").consumes("queue://D.>")
    slices(stage)
    assert listener.takes() == ["1"]


def test_a_wildcard_consumer_that_leaves_while_it_is_attached_is_nowhere() -> None:
    stage = Stage()
    makes(stage, "queue", MANY)
    listener = stage.peer("c").consumes("queue://D.>")
    listener.leaves()
    slices(stage)
    assert homes_of(listener) == 0
    assert {view.consumers for view in stage.broker.destination_views()} == {0}


def test_a_new_queue_is_offered_to_many_wildcard_consumers_in_slices() -> None:
    stage = Stage()
    listeners: list[Listener] = []
    for name in ("a", "b"):
        peer = stage.peer(name)
        listeners.extend(peer.consumes("queue://D.>", prefetch=1) for _ in range(JOIN_STEPS))
    stage.peer("p").creates("queue://D.1")
    first = stage.view("queue://D.1").consumers
    assert 0 < first <= JOIN_STEPS
    slices(stage)
    assert stage.view("queue://D.1").consumers == len(listeners)


def test_an_acknowledgement_looks_only_where_messages_wait() -> None:
    stage = Stage()
    maker = makes(stage, "queue", JOIN_STEPS)
    listener = stage.peer("c").consumes("queue://D.>", prefetch=1)
    maker.sends("queue://D.7", "1", "2", "3")
    maker.sends("queue://D.9", "4")
    assert [destination.name.name for destination in listener.subscription.busy] == ["D.7", "D.9"]
    for text in ("1", "2", "4", "3"):
        (came,) = listener.takes()
        assert came in ("1", "2", "3", "4"), text
        listener.acknowledges(came)
    assert sorted(listener.out) == ["1", "2", "3", "4"]
    assert len(listener.subscription.busy) == 0


def test_messages_that_wait_in_many_queues_all_come_to_a_slow_wildcard_consumer() -> None:
    stage = Stage()
    maker = makes(stage, "queue", 100)
    listener = stage.peer("c").consumes("queue://D.>", prefetch=1)
    for number in range(100):
        maker.sends(f"queue://D.{number}", f"{number}.1", f"{number}.2")
    for _ in range(200):
        slices(stage)
        (text,) = listener.takes()
        listener.acknowledges(text)
    for number in range(100):
        assert listener.out.index(f"{number}.1") < listener.out.index(f"{number}.2")


@pytest.mark.large
def test_a_connection_that_closes_is_not_told_of_its_own_consumers() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    leaving = stage.peer("a")
    own = [leaving.consumes("topic://>") for _ in range(200)]
    other = stage.peer("b").consumes("topic://ActiveMQ.Advisory.Consumer.>")
    slices(stage)
    for listener in own:
        listener.takes()
    other.takes()
    leaving.leaves()
    slices(stage)
    assert [listener.takes() for listener in own] == [[]] * 200
    gone = [delivery.message.destination.name for delivery in other.takes_deliveries()]
    assert gone == ["ActiveMQ.Advisory.Consumer.Topic.>"] * 200


def test_what_a_consumer_held_goes_back_in_slices_and_in_order() -> None:
    stage = Stage()
    count = 4 * LEAVING_STEPS
    texts = [str(number) for number in range(count + 10)]
    first = stage.peer("a").consumes("queue://Q", prefetch=count)
    second = stage.peer("b").consumes("queue://Q", prefetch=5)
    second.subscription.started = False
    stage.peer("p").sends("queue://Q", *texts)
    first.peer.flushes()
    assert first.takes() == texts[:count]
    second.subscription.started = True
    first.peer.leaves()
    assert second.takes() == [], "the queue is held until it has everything back"
    assert slices(stage) >= 4
    for place in range(0, count + 10, 5):
        slices(stage)
        assert second.takes() == texts[place : place + 5]
        second.acknowledges(texts[place + 4])


def test_an_exclusive_consumer_begins_when_the_one_before_has_given_all_back() -> None:
    stage = Stage()
    count = 3 * LEAVING_STEPS
    texts = [str(number) for number in range(count)]
    first = stage.peer("a").consumes("queue://Q", exclusive=True, prefetch=count)
    second = stage.peer("b").consumes("queue://Q", exclusive=True, prefetch=count)
    stage.peer("p").sends("queue://Q", *texts)
    first.peer.flushes()
    assert first.takes() == texts
    first.peer.leaves()
    assert second.takes() == []
    slices(stage)
    second.peer.flushes()
    assert second.takes() == texts


def test_a_durable_subscription_taken_again_at_once_begins_with_what_was_out() -> None:
    stage = Stage()
    count = 3 * LEAVING_STEPS
    texts = [str(number) for number in range(count)]
    peer = stage.peer("a", client_id="c")
    first = peer.consumes("topic://T", durable="d", prefetch=count)
    stage.peer("p").sends("topic://T", *texts)
    stage.settle()
    peer.flushes()
    stage.settle()
    assert first.takes() == texts
    peer.leaves()
    again = stage.peer("b", client_id="c").consumes("topic://T", durable="d", prefetch=count)
    stage.peer("q").sends("topic://T", "last")
    stage.settle()
    again.peer.flushes()
    stage.settle()
    assert again.takes() == texts


@pytest.mark.large
def test_a_connection_with_all_that_it_may_have_leaves_nothing_behind() -> None:
    stage = Stage()
    peer = stage.peer("a")
    other = stage.peer("p")
    for number in range(600):
        peer.temporary(number)
        peer.producer("queue://P", number + 2)
        peer.consumes("queue://Q,topic://T", prefetch=2)
    other.sends("queue://Q", *[str(number) for number in range(1_200)])
    other.sends("topic://T", "t")
    for number in range(1, 300):
        peer.begins(number)
        peer.sends("queue://P", "x", transaction=number)
    peer.leaves()
    assert slices(stage) > 3
    assert (stage.view("queue://Q").pending, stage.view("queue://Q").consumers) == (1_200, 0)
    assert (stage.view("queue://P").producers, stage.view("topic://T").consumers) == (0, 0)
    assert not any(view.destination.startswith("temp") for view in stage.broker.destination_views())
    other.removes("queue://Q")
    slices(stage)
    assert stage.memory() == 0


def test_a_connection_that_comes_back_has_its_temporary_queues_at_once() -> None:
    stage = Stage()
    peer = stage.peer("a")
    names = [peer.temporary(number) for number in range(2 * LEAVING_STEPS)]
    peer.leaves()
    again = stage.peer("a", reconnected=True)
    for number in (0, 2 * LEAVING_STEPS - 1):
        again.temporary(number)
    slices(stage)
    left = [name for name in names if stage.has(name)]
    assert left == [names[0], names[-1]]


def test_a_stop_waits_for_what_is_on_its_way_out() -> None:
    stage = Stage()
    count = 4 * LEAVING_STEPS
    listener = stage.peer("a").consumes("queue://Q", prefetch=count)
    stage.peer("p").sends("queue://Q", *[str(number) for number in range(count)])
    stage.settle()
    listener.peer.leaves()
    stage.broker.stop(stage.now)
    assert stage.view("queue://Q").pending == count
    assert stage.view("queue://Q").in_flight == 0


def test_what_many_listeners_are_told_takes_slices_and_stays_in_order() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    crowd = stage.peer("a")
    listeners = [crowd.consumes("topic://ActiveMQ.Advisory.Consumer.>") for _ in range(DELIVERED_AT_ONCE + 1)]
    slices(stage)
    for listener in listeners:
        listener.takes()
    names = [f"queue://Q.{number}" for number in range(30)]
    peer = stage.peer("b")
    for name in names:
        peer.consumes(name)
    assert all(len(listener.takes()) <= 1 for listener in listeners), "they are told in turns of their own"
    count = 0
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        crowd.flushes()
        count += 1
    assert count >= 30 * DELIVERED_AT_ONCE // DELIVERY_STEPS
    told = [delivery.message.destination.name for delivery in listeners[-1].deliveries][-30:]
    assert told == ["ActiveMQ.Advisory.Consumer.Queue." + name.removeprefix("queue://") for name in names]


class Heard:
    """Whom advisories are handed to in place of a broker's listeners."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.released: list[tuple[Topic, int]] = []

    def dispatch_advisory(self, topic: Topic, message: Message) -> None:
        self.messages.append(message)

    def detach_listeners(self, topic: Topic) -> None:
        self.released.append((topic, len(self.messages)))


def test_more_advisories_than_may_wait_are_told_in_order_and_none_is_lost() -> None:
    stage = Stage()
    peer = stage.peer("a")
    listeners = [peer.consumes("topic://T").subscription for _ in range(DELIVERED_AT_ONCE + 1)]
    (topic,) = listeners[0].destinations
    assert isinstance(topic, Topic)
    heard = Heard()
    telling = AdvisoryDelivery(heard, BrokerContext(None))
    messages = [peer.message("topic://T", str(number)) for number in range(MAX_UNDELIVERED + 5)]
    for message in messages:
        telling.deliver(topic, message)
    assert heard.messages == messages[:5]
    telling.forget(topic)
    assert heard.released == []
    while telling.work():
        pass
    assert heard.messages == messages
    assert heard.released == [(topic, len(messages))]


@pytest.mark.parametrize("ends", ["consumer and queue", "connection"])
def test_many_listeners_hear_that_a_consumer_went_also_when_its_queue_goes_at_once(ends: str) -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    crowd = stage.peer("a")
    listeners = [crowd.consumes("topic://ActiveMQ.Advisory.Consumer.>") for _ in range(DELIVERED_AT_ONCE + 10)]
    peer = stage.peer("b")
    queue = peer.temporary()
    listener = peer.consumes(queue)
    told_slices(stage, crowd)
    for one in listeners:
        assert len(one.takes()) == 1
    if ends == "connection":
        peer.leaves()
    else:
        listener.leaves()
        peer.removes(queue)
    told_slices(stage, crowd)
    gone = [f"-{listener.info.consumer_id} consumerCount=0"]
    assert [one.takes() for one in listeners] == [gone] * len(listeners)
    assert all(not one.subscription.destinations for one in listeners)
    assert stage.memory() > 0, "what was told is not acknowledged yet"
    crowd.leaves()
    slices(stage)
    assert stage.memory() == 0


def test_a_destination_that_comes_back_before_many_have_heard_that_it_went_is_told_of_in_order() -> None:
    stage = Stage(advisory_format=SpokenAdvisories())
    crowd = stage.peer("a")
    listeners = [crowd.consumes("topic://ActiveMQ.Advisory.Consumer.>") for _ in range(DELIVERED_AT_ONCE + 10)]
    peer = stage.peer("b")
    first = peer.consumes("queue://Q")
    first.leaves()
    peer.removes("queue://Q")
    second = peer.consumes("queue://Q")
    told_slices(stage, crowd)
    names = [f"+{first.info.consumer_id}", f"-{first.info.consumer_id}", f"+{second.info.consumer_id}"]
    for one in listeners:
        assert [text.split()[0] for text in one.takes()] == names
        assert len(one.subscription.destinations) == 1
    second.leaves()
    told_slices(stage, crowd)
    assert all(len(one.takes()) == 1 for one in listeners)


def test_what_a_forgotten_advisory_topic_keeps_for_consumers_to_come_goes_with_it() -> None:
    recovery = TopicPolicy(recovery=RecoveryPolicy(FIXED_COUNT, 100))
    policy = PolicyEntry(parse_destination("topic://ActiveMQ.Advisory.>"), topic=recovery)
    stage = Stage(policy, advisory_format=SpokenAdvisories())
    crowd = stage.peer("a")
    for _ in range(DELIVERED_AT_ONCE + 10):
        crowd.consumes("topic://ActiveMQ.Advisory.Consumer.>")
    peer = stage.peer("b")
    peer.consumes("queue://Q").leaves()
    peer.removes("queue://Q")
    told_slices(stage, crowd)
    crowd.leaves()
    slices(stage)
    assert stage.memory() == 0


def told_slices(stage: Stage, crowd: Peer) -> None:
    """Let all listeners of one connection hear what waits."""
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        crowd.flushes()


def test_a_queue_dispatches_a_part_of_what_waits_at_once() -> None:
    stage = Stage()
    count = 3 * MAX_DISPATCHED
    stage.peer("p").sends("queue://Q", *[str(number) for number in range(count)], persistent=False)
    listeners = [stage.peer(str(number)).announces("queue://Q", prefetch=600) for number in range(10)]
    for listener in listeners:
        listener.subscription.started = True
    stage.broker.start_consumer(listeners[0].subscription, stage.now)
    assert sum(len(listener.out) for listener in listeners) == MAX_DISPATCHED
    slices(stage)
    assert sum(len(listener.out) for listener in listeners) == count


def test_of_many_pulls_that_run_out_at_once_some_are_answered_in_each_turn() -> None:
    stage = Stage()
    peers = [stage.peer(str(number)) for number in range(3)]
    listeners = [peer.consumes("queue://Q", prefetch=0) for peer in peers for _ in range(300)]
    slices(stage)
    for listener in listeners:
        listener.pulls(1_000)
    assert stage.broker.next_timeout() == stage.now.monotonic + 1
    stage.waits(1)
    assert sum(listener.ends for listener in listeners) == MAX_PULLS_OVER
    stage.runs()
    assert {listener.ends for listener in listeners} == {1}
    assert (stage.broker.next_timeout() or 0) > stage.now.monotonic


if not COMPILED:  # an interpreted class cannot stand below a compiled one

    class Sleeper(Alarm):
        """An alarm that counts its calls."""

        def __init__(self) -> None:
            self.woken = 0

        def wake(self) -> None:
            self.woken += 1

    def test_destinations_whose_time_has_come_are_called_some_at_a_time() -> None:
        context = BrokerContext(None)
        sleepers = [Sleeper() for _ in range(2 * MAX_RINGS)]
        for place, sleeper in enumerate(sleepers):
            context.wake_at(sleeper, 100.0 - place % 7)
        assert context.next_alarm() == 94.0
        context.ring()
        assert sum(sleeper.woken for sleeper in sleepers) == 0
        context.monotonic = 100.0
        for turn in (1, 2, 3):
            context.ring()
            assert sum(sleeper.woken for sleeper in sleepers) == min(turn, 2) * MAX_RINGS
        assert context.next_alarm() is None
