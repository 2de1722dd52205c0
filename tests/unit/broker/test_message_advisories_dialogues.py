"""What becomes of messages, told on advisory topics (ActiveMQ, "Advisory Message")."""

from __future__ import annotations

import pytest

from spanwire.broker.advisories.advisory_topics import MAX_UNHEARD
from spanwire.broker.dispatch.destination_events import EXPIRED_ADVISORY
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.errors import ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.dialogue.text_format import original_of

QUEUE = "queue://Q"
TOPIC = "topic://T"
DLQ = "queue://ActiveMQ.DLQ"
EVERYTHING = AdvisoryPolicy(
    delivered=True,
    dispatched=True,
    consumed=True,
    discarded=True,
    slow_consumers=True,
    fast_producers=True,
    full=True,
    no_consumers=True,
)


def told(
    advisories: AdvisoryPolicy | None = None,
    *,
    dead_letter: DeadLetterStrategy | None = None,
    memory_limit_bytes: int = 0,
    pending_limit: PendingLimit | None = None,
    producer_flow_control: bool = True,
) -> Stage:
    """A broker all of whose destinations have this policy."""
    entries = [
        PolicyEntry(
            destination(pattern),
            advisories=advisories if advisories is not None else AdvisoryPolicy(),
            dead_letter=dead_letter if dead_letter is not None else DeadLetterStrategy(),
            memory_limit_bytes=memory_limit_bytes,
            topic=TopicPolicy(pending_limit=pending_limit),
            producer_flow_control=producer_flow_control,
        )
        for pattern in ("queue://>", "topic://>")
    ]
    return Stage(*entries, advisory_format=SpokenAdvisories())


def hears(stage: Stage, *topics: str) -> Listener:
    """A listener to these advisory topics."""
    name = f"listener{stage.broker.statistics().connections}"
    return stage.peer(name).consumes(",".join(f"topic://ActiveMQ.Advisory.{topic}" for topic in topics))


def built(stage: Stage) -> int:
    """How many advisories were built so far."""
    advisory_format = stage.advisory_format
    assert isinstance(advisory_format, SpokenAdvisories)
    return advisory_format.built


def deaths(stage: Stage, kind: str = "Queue", name: str = "Q") -> Listener:
    """A listener to dead letters and to what expires."""
    return hears(stage, f"MessageDLQd.{kind}.{name}", f"Expired.{kind}.{name}")


def test_a_message_that_arrives_expired_is_told() -> None:
    stage = told()
    listener = deaths(stage)
    stage.peer("p").sends(QUEUE, "late", expiration_ms=stage.now.wall_ms - 1)
    assert listener.takes() == [f"bare late of {QUEUE}", f"bare late of {QUEUE} orignalMessageId=ID:p:1:1:1:1"]


def test_a_message_that_expires_without_leaving_a_dead_letter_is_told_once() -> None:
    stage = told()
    listener = deaths(stage)
    stage.peer("p").sends(QUEUE, "short", expiration_ms=stage.now.wall_ms + 1_000, persistent=False)
    stage.environment.advance(2.0)
    stage.peer("c").consumes(QUEUE)
    assert listener.takes() == [f"bare short of {QUEUE} orignalMessageId=ID:p:1:1:1:1"]


def test_a_message_that_expires_at_its_consumer_is_told() -> None:
    stage = told()
    listener = deaths(stage)
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "short", expiration_ms=stage.now.wall_ms + 1_000)
    consumer.acknowledges("short", ack_type=EXPIRED_ACK, count=1)
    assert listener.takes() == [f"bare short of {QUEUE}", f"bare short of {QUEUE} orignalMessageId=ID:p:1:1:1:1"]


@pytest.mark.parametrize("heard", [False, True])
def test_what_expires_on_the_disk_is_read_for_a_listener_alone(heard: bool) -> None:
    first = told()
    first.peer("p").sends(QUEUE, "short", expiration_ms=first.now.wall_ms + 1_000)
    first.syncs()
    policy = PolicyEntry(destination("queue://>"), dead_letter=DeadLetterStrategy(process_expired=False))
    stage = first.restarts(policies=(policy,), advisory_format=SpokenAdvisories())
    listener = deaths(stage) if heard else stage.peer("x").consumes("queue://OTHER")
    stage.runs()
    stage.waits(31.0)
    assert len(stage.store.reads) == int(heard)
    stage.settle()
    assert len(listener.takes()) == int(heard)
    assert (stage.view(QUEUE).expired, stage.view(QUEUE).pending) == (1, 0)
    assert stage.store.kept(destination(QUEUE)) == []


def test_a_poisoned_message_is_told() -> None:
    stage = told()
    listener = deaths(stage)
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "poison")
    consumer.acknowledges("poison", ack_type=POISON_ACK, count=1)
    assert listener.takes() == [f"bare poison of {QUEUE}"]


def test_a_message_that_waits_for_room_among_the_dead_letters_is_told_when_it_has_it() -> None:
    stage = told()
    listener = deaths(stage)
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "short", expiration_ms=stage.now.wall_ms + 1_000)
    stage.syncs()
    stage.has_room(False)
    consumer.acknowledges("short", ack_type=EXPIRED_ACK, count=1)
    assert listener.takes() == []
    stage.has_room(True)
    stage.settle()
    assert [text.split(" of ")[0] for text in listener.takes()] == ["bare short", "bare short"]


def test_a_dead_letter_of_a_transaction_is_told_with_its_commit() -> None:
    stage = told()
    listener = deaths(stage)
    peer = stage.peer("c")
    consumer = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "poison", "kept")
    stage.syncs()
    peer.begins(1)
    consumer.acknowledges("poison", ack_type=POISON_ACK, count=1, transaction=1)
    peer.rolls_back(1)
    assert listener.takes() == []
    peer.begins(2)
    consumer.acknowledges("poison", ack_type=POISON_ACK, count=1, transaction=2)
    peer.commits(2)
    assert listener.takes() == [f"bare poison of {QUEUE}"]


def test_what_a_transaction_gives_up_without_a_dead_letter_is_told_if_it_expired() -> None:
    stage = told()
    listener = deaths(stage)
    peer = stage.peer("c")
    consumer = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "poison", "late", persistent=False)
    peer.begins(1)
    consumer.acknowledges("poison", ack_type=POISON_ACK, count=1, transaction=1)
    consumer.acknowledges("late", ack_type=EXPIRED_ACK, count=1, transaction=1)
    peer.commits(1)
    assert listener.takes() == [f"bare late of {QUEUE} orignalMessageId=ID:p:1:1:1:2"]


def test_what_expires_in_the_dead_letter_queue_is_no_dead_letter_again() -> None:
    stage = told()
    listener = deaths(stage, name="ActiveMQ.DLQ")
    stage.peer("p").sends(DLQ, "twice", expiration_ms=stage.now.wall_ms - 1)
    assert listener.takes() == [f"bare twice of {DLQ} orignalMessageId=ID:p:1:1:1:1"]


def test_what_expires_for_a_durable_subscriber_is_told_under_its_topic() -> None:
    stage = told()
    listener = deaths(stage, "Topic", "T")
    subscriber = stage.peer("d", client_id="d")
    subscriber.consumes(TOPIC, durable="s").leaves()
    stage.peer("p").sends(TOPIC, "short", expiration_ms=stage.now.wall_ms + 1_000)
    stage.environment.advance(2.0)
    subscriber.consumes(TOPIC, durable="s")
    stage.settle()
    assert listener.takes() == [f"bare short of {TOPIC}", f"bare short of {TOPIC} orignalMessageId=ID:p:1:1:1:1"]


def test_delivered_and_consumed_messages_are_told_where_the_policy_says_so() -> None:
    stage = told(AdvisoryPolicy(delivered=True, consumed=True))
    listener = hears(stage, "MessageDelivered.Queue.Q", "MessageConsumed.Queue.Q")
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    about = f"bare 1 of {QUEUE} orignalMessageId=ID:p:1:1:1:1 orignalDestination={QUEUE}"
    assert listener.takes() == [about]
    consumer.acknowledges("1")
    assert listener.takes() == [about]


def test_each_of_many_messages_that_are_acknowledged_at_once_is_told() -> None:
    stage = told(AdvisoryPolicy(consumed=True))
    listener = hears(stage, "MessageConsumed.Queue.Q")
    consumer = stage.peer("c").consumes(QUEUE, prefetch=40)
    texts = [str(number) for number in range(20)]
    stage.peer("p").sends(QUEUE, *texts)
    consumer.acknowledges("19", first="0", count=20)
    assert [text.split(" of ")[0] for text in listener.takes()] == [f"bare {text}" for text in texts]


def test_nothing_is_told_of_messages_where_the_policy_does_not_say_so() -> None:
    stage = told()
    listener = hears(stage, "MessageDelivered.>", "MessageConsumed.>", "MessageDispatched.>", "NoConsumer.>")
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.peer("q").sends(TOPIC, "2", persistent=False)
    consumer.acknowledges("1")
    assert listener.takes() == []


def test_messages_of_a_transaction_are_told_with_its_commit() -> None:
    stage = told(AdvisoryPolicy(delivered=True, consumed=True))
    delivered, consumed = hears(stage, "MessageDelivered.Queue.Q"), hears(stage, "MessageConsumed.Queue.Q")
    peer = stage.peer("p")
    consumer = peer.consumes(QUEUE)
    peer.begins(1)
    peer.sends(QUEUE, "undone", transaction=1)
    peer.rolls_back(1)
    peer.begins(2)
    peer.sends(QUEUE, "done", transaction=2)
    assert delivered.takes() == []
    peer.commits(2)
    stage.syncs()
    assert len(delivered.takes()) == 1
    peer.begins(3)
    consumer.acknowledges("done", transaction=3)
    assert consumed.takes() == []
    peer.commits(3)
    stage.syncs()
    assert len(consumed.takes()) == 1


def test_the_whole_message_is_told_where_the_policy_says_so() -> None:
    stage = told(AdvisoryPolicy(delivered=True, whole_messages=True))
    listener = hears(stage, "MessageDelivered.Queue.Q", "MessageDLQd.Queue.Q")
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    consumer.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert [text.split(" of ")[0] for text in listener.takes()] == ["whole 1", "whole 1"]


def test_a_topic_message_is_told_as_delivered_once_and_consumed_by_durable_subscribers_alone() -> None:
    stage = told(AdvisoryPolicy(delivered=True, consumed=True))
    delivered, consumed = hears(stage, "MessageDelivered.Topic.T"), hears(stage, "MessageConsumed.Topic.T")
    durable = stage.peer("d", client_id="d").consumes(TOPIC, durable="s")
    plain = stage.peer("c").consumes(TOPIC)
    stage.peer("p").sends(TOPIC, "1")
    stage.syncs()
    assert len(delivered.takes()) == 1
    plain.acknowledges("1")
    assert consumed.takes() == []
    durable.acknowledges("1")
    assert consumed.takes() == [f"bare 1 of {TOPIC} orignalMessageId=ID:p:1:1:1:1 orignalDestination={TOPIC}"]


def test_dispatched_messages_are_told_with_their_consumer() -> None:
    stage = told(AdvisoryPolicy(dispatched=True))
    listener = hears(stage, "MessageDispatched.>")
    wild = stage.peer("c").consumes("queue://*", prefetch=1)
    stage.peer("b").consumes(QUEUE, browser=True)
    topical = stage.peer("t").consumes(TOPIC)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2")
    producer.sends(TOPIC, "3")
    assert (wild.takes(), topical.takes()) == (["1"], ["3"])
    assert listener.takes() == [
        f"bare 1 of {QUEUE} orignalMessageId=ID:p:1:1:1:1 orignalDestination={QUEUE} consumerId=ID:c:1:1:1",
        f"bare 3 of {TOPIC} orignalMessageId=ID:p:1:1:1:3 orignalDestination={TOPIC} consumerId=ID:t:1:1:1",
    ]


def test_a_queue_message_without_a_consumer_is_passed_on_itself() -> None:
    stage = told(AdvisoryPolicy(no_consumers=True))
    listener = hears(stage, "NoConsumer.Queue.Q")
    producer = stage.peer("p")
    producer.sends(QUEUE, "stored")
    producer.sends(QUEUE, "alone", persistent=False)
    consumer = stage.peer("c").consumes(QUEUE, selector="a = 1")
    producer.sends(QUEUE, "unwanted", persistent=False)
    (delivery,) = listener.takes_deliveries()
    assert delivery.text == "alone"
    assert delivery.message.destination == destination("topic://ActiveMQ.Advisory.NoConsumer.Queue.Q")
    assert original_of(delivery.message) is None
    assert consumer.takes() == []


def test_a_topic_message_that_nobody_wants_is_passed_on_itself() -> None:
    stage = told(AdvisoryPolicy(no_consumers=True))
    listener = hears(stage, "NoConsumer.Topic.T")
    producer = stage.peer("p")
    producer.sends(TOPIC, "nobody", persistent=False)
    stage.peer("c").consumes(TOPIC, selector="a = 1")
    producer.sends(TOPIC, "wanted", persistent=False, properties={"a": 1})
    producer.sends(TOPIC, "unwanted", persistent=False, properties={"a": 2})
    stage.peer("d", client_id="d").consumes(TOPIC, durable="s", selector="a = 3")
    producer.sends(TOPIC, "kept", persistent=False, properties={"a": 3})
    producer.sends(TOPIC, "lost", persistent=False, properties={"a": 4})
    assert listener.takes() == ["nobody", "unwanted", "lost"]


@pytest.mark.parametrize("durable", [None, "s"])
def test_a_slow_consumer_of_a_line_is_told_once_until_it_has_caught_up(durable: str | None) -> None:
    name = QUEUE if durable is None else TOPIC
    stage = told(AdvisoryPolicy(slow_consumers=True))
    listener = hears(stage, "SlowConsumer.>")
    slow = stage.peer("c", client_id="c").consumes(name, prefetch=2, durable=durable)
    producer = stage.peer("p")
    producer.sends(name, "1", "2")
    stage.settle()
    assert listener.takes() == []
    producer.sends(name, "3", "4", "5")
    stage.settle()
    assert listener.takes() == ["+ID:c:1:1:1 consumerId=ID:c:1:1:1"]
    for text in ("1", "2", "3", "4", "5"):
        slow.acknowledges(text)
    producer.sends(name, "6")
    slow.acknowledges("6")
    assert listener.takes() == []
    producer.sends(name, "7", "8", "9")
    stage.settle()
    assert len(listener.takes()) == 1


def test_consumers_that_pull_or_have_not_started_are_not_slow() -> None:
    stage = told(AdvisoryPolicy(slow_consumers=True))
    listener = hears(stage, "SlowConsumer.>")
    stage.peer("c").consumes(QUEUE, prefetch=0)
    stage.peer("d").announces(QUEUE, prefetch=1)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    assert listener.takes() == []


def test_a_topic_subscriber_is_slow_when_more_than_another_window_waits() -> None:
    stage = told(AdvisoryPolicy(slow_consumers=True))
    listener = hears(stage, "SlowConsumer.Topic.T")
    slow = stage.peer("c").consumes(TOPIC, prefetch=2)
    stage.peer("d").consumes(TOPIC)
    producer = stage.peer("p")
    producer.sends(TOPIC, *"12345", persistent=False)
    assert listener.takes() == []
    producer.sends(TOPIC, *"67", persistent=False)
    assert listener.takes() == ["+ID:c:1:1:1 consumerId=ID:c:1:1:1"]
    for text in "1234567":
        slow.acknowledges(text)
    producer.sends(TOPIC, *"abcdef", persistent=False)
    assert len(listener.takes()) == 1


def test_discarded_messages_are_told_with_their_number_for_each_subscriber() -> None:
    stage = told(AdvisoryPolicy(discarded=True), pending_limit=PendingLimit(1))
    listener = hears(stage, "MessageDiscarded.Topic.T")
    first = stage.peer("c").consumes(TOPIC, prefetch=1)
    stage.peer("p").sends(TOPIC, "1", "2", "3", persistent=False)
    second = stage.peer("d").consumes(TOPIC, prefetch=1)
    stage.peer("q").sends(TOPIC, "4", "5", "6", persistent=False)
    told_ids = [text.split("consumerId=ID:")[1] for text in listener.takes()]
    assert told_ids == [
        "c:1:1:1 discardedCount=1",
        "c:1:1:1 discardedCount=2",
        "c:1:1:1 discardedCount=3",
        "c:1:1:1 discardedCount=4",
        "d:1:1:1 discardedCount=1",
    ]
    assert (first.takes(), second.takes()) == (["1"], ["4"])


@pytest.mark.parametrize("name", [QUEUE, TOPIC])
def test_a_full_destination_and_its_producer_are_told_with_each_send_that_waits(name: str) -> None:
    stage = told(AdvisoryPolicy(full=True, fast_producers=True), memory_limit_bytes=10_000)
    kind, _, bare = name.partition("://")
    full, fast = hears(stage, f"FULL.{kind.title()}.{bare}"), hears(stage, f"FastProducer.{kind.title()}.{bare}")
    stage.peer("c").consumes(name, prefetch=1)
    producer = stage.peer("p")
    producer.producer(name)
    producer.sends(name, "a" * 9_000, persistent=False)
    assert full.takes() == []
    used = stage.view(name).memory_bytes
    producer.sends(name, "b" * 9_000, "c" * 9_000, persistent=False)
    assert full.takes() == [f"+None usageName=Main:memory:{name}:memory usageCount={used}"] * 2
    assert fast.takes() == ["+ID:p:1:1:1 producerId=ID:p:1:1:1"] * 2


def test_a_producer_that_was_never_announced_is_told_by_its_messages() -> None:
    stage = told(AdvisoryPolicy(fast_producers=True), memory_limit_bytes=10_000)
    listener = hears(stage, "FastProducer.Queue.Q")
    stage.peer("p").sends(QUEUE, "a" * 9_000, "b" * 9_000, persistent=False)
    assert listener.takes() == ["+ID:p:1:1:1 producerId=ID:p:1:1:1"]


def test_a_transaction_that_finds_no_memory_is_told() -> None:
    stage = told(AdvisoryPolicy(full=True), memory_limit_bytes=10_000)
    listener = hears(stage, "FULL.Queue.Q")
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends(QUEUE, "a" * 9_000, persistent=False, transaction=1)
    with pytest.raises(ResourceAllocationError):
        peer.sends(QUEUE, "b" * 9_000, persistent=False, transaction=1)
    assert len(listener.takes()) == 1


def test_a_destination_without_flow_control_is_told_when_it_is_full() -> None:
    stage = told(AdvisoryPolicy(full=True), memory_limit_bytes=10_000, producer_flow_control=False)
    listener = hears(stage, "FULL.Topic.T")
    stage.peer("c").consumes(TOPIC, prefetch=1)
    producer = stage.peer("p")
    token = producer.sends(TOPIC, "a" * 9_000, "b" * 9_000, persistent=False)
    assert producer.is_answered(token)
    assert len(listener.takes()) == 1


def test_a_destination_that_tells_nothing_is_of_the_plain_kind() -> None:
    stage = told(AdvisoryPolicy(full=True, fast_producers=True, dispatched=True, whole_messages=True))
    stage.peer("p").sends(QUEUE, "1")
    stage.peer("c").consumes(TOPIC)
    assert type(stage.broker.find_destination(destination(QUEUE))) is Queue
    assert type(stage.broker.find_destination(destination(TOPIC))) is Topic


def test_advisory_topics_are_of_the_plain_kind_whatever_the_policy() -> None:
    stage = told(EVERYTHING)
    hears(stage, "Expired.Queue.Q")
    assert type(stage.broker.find_destination(destination("topic://ActiveMQ.Advisory.Expired.Queue.Q"))) is Topic


def test_a_broker_without_advisories_tells_nothing() -> None:
    entries = [PolicyEntry(destination(name), advisories=EVERYTHING) for name in ("queue://>", "topic://>")]
    stage = Stage(*entries)
    listener = hears(stage, ">")
    consumer = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", expiration_ms=stage.now.wall_ms - 1)
    stage.peer("q").sends(QUEUE, "2")
    consumer.acknowledges("2")
    assert listener.takes() == []
    assert type(stage.broker.find_destination(destination(QUEUE))) is Queue
    assert isinstance(consumer.subscription, Subscription)
    assert consumer.subscription.consumer is consumer


def test_nothing_is_built_while_nobody_listens_to_it() -> None:
    stage = told(EVERYTHING, pending_limit=PendingLimit(0), memory_limit_bytes=10_000)
    hears(stage, "TempQueue")
    before = built(stage)
    consumer = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.peer("t").consumes(TOPIC, prefetch=1)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2", "3")
    producer.sends(QUEUE, "late", expiration_ms=stage.now.wall_ms - 1)
    producer.sends(TOPIC, "4", "5", "6", persistent=False)
    consumer.acknowledges("1")
    consumer.acknowledges("2", ack_type=POISON_ACK, count=1)
    assert built(stage) == before
    assert not [view for view in stage.broker.destination_views() if "Message" in view.destination]


@pytest.mark.parametrize("topic", ["Expired.Queue.Q", "Expired.>"])
def test_who_begins_to_listen_hears_what_nobody_had_listened_to(topic: str) -> None:
    stage = told()
    hears(stage, "TempQueue", "Expired.Queue.OTHER")
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", expiration_ms=stage.now.wall_ms - 1)
    advisories = stage.broker.advisories
    assert advisories is not None
    for number in range(MAX_UNHEARD + 2):
        assert not advisories.has_listeners(EXPIRED_ADVISORY, destination(f"queue://{number}"))
    listener = hears(stage, topic)
    producer.sends(QUEUE, "2", expiration_ms=stage.now.wall_ms - 1)
    listener.peer.leaves()
    producer.sends(QUEUE, "3", expiration_ms=stage.now.wall_ms - 1)
    again = hears(stage, topic)
    producer.sends(QUEUE, "4", expiration_ms=stage.now.wall_ms - 1)
    assert [text.split(" of ")[0] for text in [*listener.takes(), *again.takes()]] == ["bare 2", "bare 4"]


def test_topics_of_news_end_with_the_destination_that_they_are_about() -> None:
    stage = told(EVERYTHING)
    listener = hears(stage, ">")
    producer = stage.peer("p")
    consumer = producer.consumes(QUEUE)
    producer.sends(QUEUE, "1")
    consumer.acknowledges("1")
    consumer.leaves()
    producer.sends(QUEUE, "2", persistent=False)
    about = [view.destination for view in stage.broker.destination_views() if view.destination.endswith(".Queue.Q")]
    assert len(about) >= 4
    producer.removes(QUEUE)
    assert not [name for name in stage.broker.destination_views() if name.destination.endswith(".Queue.Q")]
    listener.peer.leaves()
    producer.leaves()
    assert stage.memory() == 0


def test_what_is_told_of_news_itself_does_not_go_round() -> None:
    stage = told(EVERYTHING, pending_limit=PendingLimit(1), memory_limit_bytes=20_000)
    everything = stage.peer("l").consumes("topic://>", prefetch=2)
    stage.peer("c").consumes("topic://*", prefetch=1)
    producer = stage.peer("p")
    for number in range(20):
        producer.sends(TOPIC, f"{number}", persistent=False)
        producer.sends(QUEUE, f"{number}", expiration_ms=stage.now.wall_ms - 1)
    assert built(stage) < 1_000
    assert len(everything.takes()) == 2
    for view in stage.broker.destination_views():
        assert view.destination.count("ActiveMQ.Advisory") <= 1
        assert not parse_destination(view.destination).is_advisory or ".ActiveMQ.Advisory" not in view.destination


@pytest.mark.parametrize("producer_flow_control", [True, False])
def test_a_full_line_of_a_durable_subscriber_is_told_under_the_name_of_its_topic(producer_flow_control: bool) -> None:
    stage = told(
        AdvisoryPolicy(full=True, fast_producers=True),
        memory_limit_bytes=4_000,
        producer_flow_control=producer_flow_control,
    )
    listener = hears(stage, "FULL.Topic.T")
    stage.peer("c", client_id="c").consumes(TOPIC, durable="s", prefetch=1)
    producer = stage.peer("p")
    for _ in range(5):
        producer.sends(TOPIC, "x" * 1_500, persistent=False)
    heard = listener.takes()
    assert heard and all(f"usageName=Main:memory:{TOPIC}:memory" in text for text in heard)


def test_what_is_told_of_a_slow_listener_does_not_reach_it_while_its_messages_are_given_up() -> None:
    slow = PolicyEntry(
        destination(TOPIC),
        advisories=AdvisoryPolicy(discarded=True),
        topic=TopicPolicy(pending_limit=PendingLimit(1)),
    )
    stage = Stage(slow, advisory_format=SpokenAdvisories())
    stage.peer("c").consumes("topic://>", prefetch=1)
    producer = stage.peer("p")
    for number in range(5):
        producer.sends(TOPIC, f"{number}", persistent=False)
    assert built(stage) < 50


def test_s40_advisories_that_are_given_up_leave_no_dead_letters_and_no_further_advisories() -> None:
    stage = told(EVERYTHING, pending_limit=PendingLimit(2), dead_letter=DeadLetterStrategy(process_non_persistent=True))
    for number in range(6):
        stage.peer(f"c{number}").consumes("topic://>", prefetch=1)
    before = built(stage)
    stage.peer("p").sends(TOPIC, "1", persistent=False)
    assert built(stage) - before < 100
    assert not stage.has(DLQ)


def test_s40_two_slow_listeners_do_not_tell_each_other_of_the_advisories_that_they_do_not_get() -> None:
    slow = PolicyEntry(
        destination(TOPIC),
        advisories=AdvisoryPolicy(discarded=True),
        topic=TopicPolicy(pending_limit=PendingLimit(1)),
    )
    stage = Stage(slow, advisory_format=SpokenAdvisories())
    for name in ("a", "b", "c"):
        stage.peer(name).consumes("topic://>", prefetch=1)
    producer = stage.peer("p")
    before = built(stage)
    for number in range(10):
        producer.sends(TOPIC, f"{number}", persistent=False)
    assert built(stage) - before <= 3 * 10
