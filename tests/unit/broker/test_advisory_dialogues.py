"""Advisories: who comes and goes, told to whoever listens (OpenWire advisory topics)."""

from __future__ import annotations

import pytest

from spanwire.broker.advisories.advisory_topics import LEAST_BEHIND
from spanwire.broker.destinations.destination_map import ADVISORY_SHARE
from spanwire.broker.ports import LinkedBroker
from tests.support.dialogue.broker_dialogue import Listener, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.recording_authorizer import RecordingAuthorizer


def advised(*refused: tuple[str, str, str]) -> tuple[Stage, SpokenAdvisories]:
    spoken_advisories = SpokenAdvisories()
    return Stage(advisory_format=spoken_advisories, authorizer=RecordingAuthorizer(*refused)), spoken_advisories


def listens(stage: Stage, topic: str, user: str | None = None) -> Listener:
    return stage.peer(f"listener{stage.broker.statistics().connections}", user=user).consumes(
        f"topic://ActiveMQ.Advisory.{topic}"
    )


def test_nothing_is_built_while_nobody_listens() -> None:
    stage, advisories = advised()
    peer = stage.peer("p")
    stage.peer("c").consumes("topic://ORDINARY")
    stage.peer("d").consumes("queue://>")
    peer.producer("queue://Q")
    peer.temporary()
    peer.consumes("queue://Q").leaves()
    peer.sends("topic://ORDINARY", "1")
    peer.leaves()
    assert advisories.built == 0
    assert not any(view.destination.startswith("topic://ActiveMQ") for view in stage.broker.destination_views())


def test_connections_that_come_and_go_are_told() -> None:
    stage, _ = advised()
    listener = listens(stage, "Connection")
    assert listener.takes() == ["+ID:listener0:1"]  # what is there already
    peer = stage.peer("p")
    peer.leaves()
    assert listener.takes() == ["+ID:p:1", "-ID:p:1"]


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("Queue", "queue://Q"),
        ("Topic", "topic://T"),
        ("TempQueue", "temp-queue://ID:p:1:1"),
        ("TempTopic", "temp-topic://ID:p:1:1"),
    ],
)
def test_destinations_that_come_and_go_are_told(topic: str, name: str) -> None:
    stage, _ = advised()
    peer = stage.peer("p")
    early = listens(stage, topic)
    peer.creates(name)
    late = listens(stage, topic)
    peer.removes(name)
    assert early.takes() == [f"+{name}", f"-{name}"]
    assert late.takes() == [f"+{name}", f"-{name}"]
    peer.creates(name)
    peer.leaves()
    assert early.takes()[:2] == ([f"+{name}", f"-{name}"] if topic.startswith("Temp") else [f"+{name}"])


def test_consumers_that_come_and_go_are_told_with_their_number() -> None:
    stage, _ = advised()
    peer = stage.peer("c")
    first = peer.consumes("queue://Q")
    listener = listens(stage, "Consumer.Queue.Q")
    second = peer.consumes("queue://Q")
    first.leaves()
    second.leaves()
    assert listener.takes() == [
        "+ID:c:1:1:1 consumerCount=1",
        "+ID:c:1:1:2 consumerCount=2",
        "-ID:c:1:1:1 consumerCount=1",
        "-ID:c:1:1:2 consumerCount=0",
    ]


def test_producers_that_come_and_go_are_told_with_their_number() -> None:
    stage, _ = advised()
    peer = stage.peer("p")
    peer.producer("topic://T", 1)
    listener = listens(stage, "Producer.Topic.T")
    peer.producer("topic://T", 2)
    peer.producer(None, 3)
    peer.leaves()
    assert listener.takes() == [
        "+ID:p:1:1:1 producerCount=1",
        "+ID:p:1:1:2 producerCount=2",
        "-ID:p:1:1:1 producerCount=1",
        "-ID:p:1:1:2 producerCount=0",
    ]


def test_listeners_are_no_news() -> None:
    stage, _ = advised()
    everything = listens(stage, ">")
    everything.takes()
    listens(stage, "Queue")
    assert everything.takes() == ["+ID:listener1:1"]


def test_one_listener_of_a_composite_hears_all_of_it_and_nothing_twice() -> None:
    stage, _ = advised()
    listener = stage.peer("l").consumes("topic://ActiveMQ.Advisory.TempQueue,topic://ActiveMQ.Advisory.TempTopic")
    peer = stage.peer("p")
    peer.temporary(1, "temp-queue")
    peer.temporary(2, "temp-topic")
    assert listener.takes() == ["+temp-queue://ID:p:1:1", "+temp-topic://ID:p:1:2"]


def test_a_composite_of_a_queue_and_an_advisory_topic_hears_both() -> None:
    stage, _ = advised()
    stage.peer("q").creates("queue://OLD")
    listener = stage.peer("l").consumes("queue://Q,topic://ActiveMQ.Advisory.Queue")
    peer = stage.peer("p")
    peer.creates("queue://NEW")
    peer.sends("queue://Q", "1")
    assert listener.takes() == ["+queue://OLD", "+queue://Q", "+queue://NEW", "1"]


def test_a_wildcard_listener_hears_no_more_than_it_may_read() -> None:
    stage, _ = advised(
        ("u", "read", "topic://ActiveMQ.Advisory.Connection"), ("u", "read", "topic://ActiveMQ.Advisory.Queue")
    )
    stage.peer("before").creates("queue://OLD")
    listener = listens(stage, ">", user="u")
    trusted = listens(stage, ">", user="admin")
    peer = stage.peer("p")
    peer.creates("queue://Q")
    peer.creates("topic://T")
    assert listener.takes() == ["+topic://T"]
    assert "+queue://Q" in trusted.takes()


def test_the_password_is_told_to_nobody() -> None:
    stage, _ = advised()
    listener = listens(stage, "Connection")
    stage.peer("p", user="u")
    late = listens(stage, "Connection")
    assert len(listener.takes()) == 3
    assert len(late.takes()) == 3


def test_advisories_of_temporary_destinations_leave_nothing_behind() -> None:
    stage, _ = advised()
    everything = listens(stage, ">")
    peer = stage.peer("p")
    before = len(stage.broker.destination_views())
    sizes = []
    for number in range(1, 101):
        name = peer.temporary(number)
        direct = stage.peer(f"d{number}").consumes(f"topic://ActiveMQ.Advisory.Consumer.Queue.{name[13:]}")
        peer.producer(name, number)
        peer.consumes(name).leaves()
        direct.peer.leaves()
        peer.removes(name)
        everything.acknowledges(everything.takes()[-1])
        sizes.append(len(stage.broker.destination_views()))
    assert sizes[-1] == sizes[5] <= before + 8
    assert stage.memory() == 0


def test_what_a_slow_listener_has_not_got_yet_survives_the_end_of_its_topic() -> None:
    stage, _ = advised()
    peer = stage.peer("p")
    slow = stage.peer("l").consumes("topic://ActiveMQ.Advisory.Consumer.>", prefetch=1)
    name = peer.temporary()
    peer.consumes(name).leaves()
    peer.removes(name)
    (first,) = slow.takes()
    slow.acknowledges(first)
    assert slow.takes() == ["-ID:p:1:1:1 consumerCount=0"]
    slow.peer.leaves()
    assert stage.memory() == 0


def test_consumers_of_a_pattern_are_told_of_under_the_patterns_own_name() -> None:
    stage, _ = advised()
    before = stage.peer("before").consumes("queue://ORDERS.>")
    listener = listens(stage, "Consumer.>")
    after = stage.peer("after").consumes("queue://BILLS.*.EU")
    assert [text.split(" ")[0] for text in listener.takes()] == [
        f"+{before.info.consumer_id}",
        f"+{after.info.consumer_id}",
    ]
    after.leaves()
    assert [text.split(" ")[0] for text in listener.takes()] == [f"-{after.info.consumer_id}"]
    assert not stage.has("topic://ActiveMQ.Advisory.Consumer.Queue.BILLS.*.EU")


def test_producers_without_a_destination_are_told_where_that_is_wanted() -> None:
    stage = Stage(advisory_format=SpokenAdvisories(), anonymous_producer_advisories=True)
    peer = stage.peer("p")
    peer.producer(None, 1)
    listener = listens(stage, "Producer.Anonymous")
    peer.producer(None, 2)
    peer.producer("queue://Q", 3)
    peer.leaves()
    assert listener.takes() == [
        "+ID:p:1:1:1 producerCount=0",
        "+ID:p:1:1:2 producerCount=0",
        "-ID:p:1:1:1 producerCount=0",
        "-ID:p:1:1:2 producerCount=0",
    ]


def test_producers_without_a_destination_are_told_to_nobody_unless_that_is_wanted() -> None:
    stage, _ = advised()
    peer = stage.peer("p")
    peer.producer(None, 1)
    listener = listens(stage, "Producer.>")
    peer.producer(None, 2)
    peer.leaves()
    assert listener.takes() == []


def test_bridges_are_told_and_one_that_never_was_at_work_is_no_news() -> None:
    stage, _ = advised()
    advisories = stage.broker.advisories
    assert advisories is not None
    listener = listens(stage, "NetworkBridge")
    link = LinkedBroker("ID:b", "b", "tcp://b:61616", False, "tcp://10.0.0.2:61616")
    advisories.bridge_stopped(link)
    advisories.bridge_started(link)
    late = listens(stage, "NetworkBridge")
    advisories.bridge_stopped(link)
    expected = ["+b (ID:b) started=True createdByDuplex=False remoteIp=tcp://10.0.0.2:61616", "+b (ID:b) started=False"]
    assert listener.takes() == late.takes() == expected
    assert listens(stage, "NetworkBridge").takes() == []


def test_a_broker_that_begins_to_serve_is_told_once() -> None:
    stage, _ = advised()
    listener = listens(stage, "MasterBroker")
    stage.broker.became_master(stage.now)
    assert len(listener.takes()) == 1
    late = listens(stage, ">")
    assert not any("MasterBroker" in delivery.message.destination.name for delivery in late.takes_deliveries())
    Stage().broker.became_master(stage.now)


def flooded(stage: Stage, count: int) -> None:
    """So many connections come and go."""
    for number in range(count):
        stage.peer(f"flood{number}").leaves()


@pytest.mark.large
def test_s40_a_listener_that_does_not_read_is_ended_before_advisories_take_all_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = Stage(advisory_format=SpokenAdvisories(), memory_limit_bytes=10_000_000)
    deaf, busy, producer = stage.peer("deaf"), stage.peer("busy"), stage.peer("producer")
    deaf.consumes("topic://ActiveMQ.Advisory.>", prefetch=1)
    busy.consumes("topic://ActiveMQ.Advisory.NetworkBridge,topic://T", prefetch=1)
    heard = stage.peer("heard").consumes("topic://ActiveMQ.Advisory.Connection", prefetch=32_000, automatic=True)
    for number in range(3 * LEAST_BEHIND):
        producer.sends("topic://T", f"{number}", persistent=False)
    ordinary = stage.memory()
    for _ in range(100):
        flooded(stage, LEAST_BEHIND // 10)
        heard.peer.flushes()
        if deaf.closed_with is not None and not deaf.state.removed:
            deaf.leaves()
    assert "advisories wait for consumer" in str(deaf.closed_with)
    assert busy.closed_with is None and heard.peer.closed_with is None
    assert len(heard.takes()) > 10 * LEAST_BEHIND
    assert stage.memory() < ordinary + 10_000_000 * ADVISORY_SHARE // 100
    assert caplog.text.count("is ended") == 1


def test_s40_few_advisories_that_wait_end_nobody_however_little_memory_there_is() -> None:
    stage = Stage(advisory_format=SpokenAdvisories(), memory_limit_bytes=100_000)
    slow = stage.peer("slow")
    slow.consumes("topic://ActiveMQ.Advisory.>", prefetch=1)
    flooded(stage, LEAST_BEHIND // 2 - 10)
    assert stage.memory() > 100_000 * ADVISORY_SHARE // 100
    assert slow.closed_with is None
    flooded(stage, 20)
    assert slow.closed_with is not None


@pytest.mark.large
def test_s40_who_is_still_being_told_what_there_is_may_be_further_behind() -> None:
    stage = Stage(advisory_format=SpokenAdvisories(), memory_limit_bytes=1_000_000)
    for number in range(LEAST_BEHIND):
        stage.peer(f"c{number}")
    slow = stage.peer("slow")
    slow.consumes("topic://ActiveMQ.Advisory.Connection", prefetch=1)
    stage.settle()
    flooded(stage, LEAST_BEHIND)
    assert stage.memory() > 1_000_000 * ADVISORY_SHARE // 100
    assert slow.closed_with is None
    flooded(stage, LEAST_BEHIND // 2)
    assert slow.closed_with is not None
