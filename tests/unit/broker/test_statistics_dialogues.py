"""Statistics by message: names and types of what is answered, to whom, and in slices (ActiveMQ, "StatisticsPlugin")."""

from __future__ import annotations

import json
from typing import Final

import pytest

from spanwire.broker.destinations.destination_map import MAX_DESTINATIONS
from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.statistics_plugin import ANSWERS_PER_SLICE, MAX_REQUESTS, MAX_WAITS, ROOM_SECONDS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import WRITE
from spanwire.model.destination import QUEUE as QUEUE_KIND
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthorizationError, ResourceAllocationError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.message_view import PropertyValue
from spanwire.model.routing import NO_HOPS, NetworkFilter
from tests.support.dialogue.broker_dialogue import START_MS, Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import text_message
from tests.support.recording_authorizer import RecordingAuthorizer

ON: Final = PluginSettings(statistics=True)
ABOUT: Final = "queue://ActiveMQ.Statistics.Destination"
OF_BROKER: Final = "queue://ActiveMQ.Statistics.Broker"
OF_SUBSCRIPTIONS: Final = "queue://ActiveMQ.Statistics.Subscription"
NULL, BOOLEAN, INT, LONG, DOUBLE, STRING = 0, 1, 5, 6, 7, 9
DESTINATION_TYPES: Final = {
    "brokerName": STRING, "brokerId": STRING, "destinationName": STRING, "size": LONG, "enqueueCount": LONG,
    "dequeueCount": LONG, "dispatchCount": LONG, "expiredCount": LONG, "inflightCount": LONG, "messagesCached": LONG,
    "averageMessageSize": LONG, "memoryPercentUsage": INT, "memoryUsage": LONG, "memoryLimit": LONG,
    "averageEnqueueTime": DOUBLE, "maxEnqueueTime": DOUBLE, "minEnqueueTime": DOUBLE, "consumerCount": LONG,
    "producerCount": LONG,
}  # fmt: skip
BROKER_TYPES: Final = {
    **{name: kind for name, kind in DESTINATION_TYPES.items() if name != "destinationName"},
    "storePercentUsage": INT, "storeUsage": LONG, "storeLimit": LONG, "tempPercentUsage": INT, "tempUsage": LONG,
    "tempLimit": LONG, "openwire": STRING, "stomp": STRING, "ssl": STRING, "stomp+ssl": STRING, "vm": STRING,
    "dataDirectory": STRING,
}  # fmt: skip
SUBSCRIPTION_TYPES: Final = {
    "brokerName": STRING, "brokerId": STRING, "destinationName": STRING, "clientId": STRING, "connectionId": STRING,
    "sessionId": LONG, "selector": STRING, "enqueueCounter": LONG, "dequeueCounter": LONG, "dispatchedCounter": LONG,
    "dispatchedQueueSize": LONG, "prefetchSize": INT, "maximumPendingMessageLimit": INT, "exclusive": BOOLEAN,
    "retroactive": BOOLEAN, "slowConsumer": BOOLEAN,
}  # fmt: skip

Answer = dict[str, tuple[int, object]]


class JsonStatistics:
    """Duck-typed to `spanwire.broker.ports.StatisticsFormat`."""

    def statistics(
        self,
        destination: Destination,
        entries: dict[str, PropertyValue],
        correlation_id: str | None,
        number: int,
        wall_ms: int,
    ) -> Message:
        return text_message(destination, number, json.dumps(entries).encode(), "ID:statistics:1", persistent=False)


def played(authorizer: RecordingAuthorizer | None = None) -> Stage:
    return Stage(plugins=ON, statistics_format=JsonStatistics(), authorizer=authorizer)


class Asking:
    """A client that asks and gets answers."""

    def __init__(self, stage: Stage, prefetch: int = 32_000) -> None:
        self.peer: Final[Peer] = stage.peer("asking", "asking")
        self.reply_to: Final[str] = self.peer.temporary()
        self.listener: Final[Listener] = self.peer.consumes(self.reply_to, prefetch=prefetch)

    def asks(self, destination: str, **properties: object) -> list[Answer]:
        self.peer.sends(destination, "", persistent=False, reply_to=self.reply_to, properties=properties)
        return self.hears()

    def hears(self) -> list[Answer]:
        return [
            {name: (kind, value) for name, (kind, value) in json.loads(text).items()} for text in self.listener.takes()
        ]


def types(answer: Answer) -> dict[str, int]:
    return {name: kind for name, (kind, _) in answer.items()}


def value(answer: Answer, name: str) -> object:
    return answer[name][1]


def test_the_answer_about_a_queue_has_the_names_types_and_counters() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    producer.producer("queue://Q")
    listener = stage.peer("c").consumes("queue://Q", prefetch=2)
    producer.sends("queue://Q", "a", "b", "c")
    listener.acknowledges("a", count=1)
    stage.settle()
    (answer,) = asking.asks(f"{ABOUT}Q")
    assert types(answer) == DESTINATION_TYPES
    expected = {
        "brokerName": "stage", "brokerId": "ID:stage", "destinationName": "queue://Q", "size": 2, "enqueueCount": 3,
        "dequeueCount": 1, "dispatchCount": 3, "expiredCount": 0, "inflightCount": 2, "messagesCached": 0,
        "consumerCount": 1, "producerCount": 1, "memoryLimit": 1024 * 1024 * 1024,
    }  # fmt: skip
    assert {name: value(answer, name) for name in expected} == expected
    assert value(answer, "memoryUsage") == stage.view("queue://Q").memory_bytes
    assert value(answer, "averageMessageSize") == stage.view("queue://Q").memory_bytes // 2


def test_times_and_sizes_are_those_of_the_destinations_that_measure_them() -> None:
    stage = played()
    asking = Asking(stage)
    producer, listener = stage.peer("p"), stage.peer("c").consumes("queue://Q")
    producer.sends("queue://R", "unmeasured")
    stage.peer("first").sends("queue://Q", "x")
    listener.acknowledges("x")
    stage.broker.administration.switch_statistics(destination("queue://Q"), True, stage.now)
    sizes = []
    for text, sent_ms in (("a", START_MS), ("b", START_MS - 4_000)):
        message = producer.message("queue://Q", text, timestamp_ms=sent_ms)
        sizes.append(message.size)
        producer.sends_message(message)
    listener.acknowledges("b")
    stage.settle()
    held = [0.0, 2_000.0, 4_000.0]
    for about in (f"{ABOUT}Q", OF_BROKER):
        (answer,) = asking.asks(about)
        names = ("minEnqueueTime", "averageEnqueueTime", "maxEnqueueTime")
        assert [value(answer, name) for name in names] == held
    (answer,) = asking.asks(f"{ABOUT}Q")
    assert value(answer, "averageMessageSize") == sum(sizes) // 2
    (answer,) = asking.asks(f"{ABOUT}R")
    assert value(answer, "maxEnqueueTime") == 0.0


def test_a_request_goes_nowhere_itself() -> None:
    stage = played()
    stage.peer("p").sends("queue://Q", "a")
    asking = Asking(stage)
    assert len(asking.asks(f"{ABOUT}Q")) == len(asking.asks(OF_BROKER)) == 1
    assert not any("Statistics" in view.destination for view in stage.broker.destination_views())


def test_without_a_place_to_answer_it_is_a_message_like_any_other() -> None:
    stage = played()
    stage.peer("p").sends(OF_BROKER, "a")
    stage.settle()
    assert stage.view(OF_BROKER).pending == 1


def test_other_names_are_none_of_its_business() -> None:
    stage = played()
    asking = Asking(stage)
    assert asking.asks("queue://ActiveMQ.Statistics.Other") == []
    assert stage.has("queue://ActiveMQ.Statistics.Other")


def test_there_is_an_answer_for_each_match_and_a_last_one_where_it_is_asked_for() -> None:
    stage = played()
    asking = Asking(stage)
    for name in ("A.B", "A.C", "D"):
        stage.peer(f"p{name}").sends(f"queue://{name}", "a")
    stage.peer("t").sends("topic://A.T", "a")

    def names(destination: str, **properties: object) -> list[object]:
        return [answer.get("destinationName", (0, None))[1] for answer in asking.asks(destination, **properties)]

    assert names(f"{ABOUT}.A.*") == ["queue://A.B", "queue://A.C"]
    assert names(f"{ABOUT}A.>") == ["queue://A.B", "queue://A.C"]
    assert names("topic://ActiveMQ.Statistics.DestinationA.>") == ["topic://A.T"]
    assert names(f"{ABOUT}NONE") == []
    assert names(ABOUT) == []
    null = "ActiveMQ.Statistics.Destination.List.End.With.Null"
    assert names(f"{ABOUT}A.*", **{null: True}) == ["queue://A.B", "queue://A.C", None]
    assert names(f"{ABOUT}A.B{null}") == ["queue://A.B", None]
    assert names(f"{ABOUT}NONE", **{null: True}) == [None]


def test_the_time_of_the_first_message_is_told_where_it_is_asked_for() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    producer.sends("queue://Q", "a", timestamp_ms=17)
    producer.sends("queue://Q", "b", timestamp_ms=18)
    asked = {"ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp": True}
    (answer,) = asking.asks(f"{ABOUT}Q", **asked)
    assert answer["firstMessageTimestamp"] == (LONG, 17)
    stage.peer("e").producer("queue://EMPTY")
    (answer,) = asking.asks(f"{ABOUT}EMPTY", **asked)
    assert "firstMessageTimestamp" not in answer


def test_the_first_message_may_be_on_the_disk() -> None:
    before = played()
    producer = before.peer("p")
    producer.sends("queue://A", "a", timestamp_ms=17)
    producer.sends("queue://A", "b", timestamp_ms=18)
    producer.sends("queue://B", "c", timestamp_ms=19)
    before.settle()
    stage = Stage(store=before.store.crash(), plugins=ON, statistics_format=JsonStatistics())
    stage.broker.recover(stage.store.recovered(), True, stage.now, stage.store.metadata)
    asking = Asking(stage)
    asked = {"ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp": True}
    assert asking.asks("queue://ActiveMQ.Statistics.Destination*", **asked) == []
    stage.settle()
    times = {value(answer, "destinationName"): value(answer, "firstMessageTimestamp") for answer in asking.hears()}
    assert times == {"queue://A": 17, "queue://B": 19}
    stage.store.lose(Destination(0, "A"), 1)
    asking.asks(f"{ABOUT}A", **asked)
    stage.settle()
    (answer,) = asking.hears()
    assert "firstMessageTimestamp" not in answer
    assert stage.memory() == stage.view(asking.reply_to).memory_bytes


def test_the_answer_about_the_broker_adds_up_and_can_begin_anew() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    listener = stage.peer("c").consumes("queue://Q")
    producer.sends("queue://Q", "a", "b")
    producer.sends("queue://R", "c")
    listener.acknowledges("a", count=1)
    stage.settle()
    (answer,) = asking.asks(OF_BROKER)
    assert types(answer) == BROKER_TYPES
    expected = {
        "size": 2, "enqueueCount": 3, "dequeueCount": 1, "dispatchCount": 2, "inflightCount": 1, "messagesCached": 1,
        "consumerCount": 2, "openwire": "tcp://host:61616", "stomp": "", "dataDirectory": "/data",
    }  # fmt: skip
    assert {name: value(answer, name) for name in expected} == expected
    (answer,) = asking.asks(OF_BROKER, **{"ActiveMQ.Statistics.Broker.Reset": True})
    assert [value(answer, name) for name in ("enqueueCount", "dequeueCount", "size")] == [0, 0, 3]
    producer.sends("queue://Q", "d")
    (answer,) = asking.asks(OF_BROKER)
    assert value(answer, "enqueueCount") == 2  # and the answer before


def test_the_answers_about_subscriptions_are_of_queues_and_then_of_topics() -> None:
    stage = played()
    asking = Asking(stage)
    other = stage.peer("c", "client")
    other.consumes("topic://T")
    other.consumes("queue://Q", selector="a = 1", prefetch=7, exclusive=True)
    other.consumes("topic://D", durable="sub")
    answers = asking.asks(OF_SUBSCRIPTIONS)
    assert [value(answer, "destinationName") for answer in answers] == [asking.reply_to.partition("://")[2], "Q", "T"]
    assert types(answers[1]) == SUBSCRIPTION_TYPES
    expected = {
        "clientId": "client", "connectionId": other.connection_id, "sessionId": 1, "selector": "a = 1",
        "prefetchSize": 7, "exclusive": True, "slowConsumer": False,
    }  # fmt: skip
    assert {name: value(answers[1], name) for name in expected} == expected
    assert answers[2]["selector"] == (NULL, None)


def test_what_only_announces_a_consumer_of_another_broker_is_no_consumer() -> None:
    stage = played()
    asking = Asking(stage)
    bridge = stage.peer("bridge")
    info = ConsumerInfo(
        ConsumerId(bridge.connection_id, 1, 1),
        destination("topic://T"),
        prefetch_size=100,
        network_subscription=True,
        network_filter=NetworkFilter("ID:other", NO_HOPS),
    )
    stage.broker.add_consumer(bridge.state, info, Listener(bridge, info), stage.now)
    (answer,) = asking.asks(OF_BROKER)
    assert value(answer, "consumerCount") == 1  # its own
    assert len(asking.asks(OF_SUBSCRIPTIONS)) == 1


def test_many_answers_come_in_slices() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    for number in range(2 * ANSWERS_PER_SLICE + 5):
        producer.sends(f"queue://MANY.{number}", "a", persistent=False)
    assert len(asking.asks(f"{ABOUT}MANY.>")) == ANSWERS_PER_SLICE
    assert asking.asks(f"{ABOUT}MANY.1") == []
    stage.runs()
    assert len(asking.hears()) == ANSWERS_PER_SLICE
    stage.settle()
    assert len(asking.hears()) == 5 + 1


@pytest.mark.large
def test_too_many_requests_at_a_time_are_refused() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    for number in range(ANSWERS_PER_SLICE + 1):
        producer.sends(f"queue://MANY.{number}", "a", persistent=False)
    assert sum(len(asking.asks(f"{ABOUT}MANY.>")) for _ in range(MAX_REQUESTS)) == ANSWERS_PER_SLICE
    with pytest.raises(ResourceAllocationError, match="try again later"):
        asking.asks(OF_BROKER)
    stage.settle()
    heard = len(asking.hears())
    while stage.view(asking.reply_to).pending > stage.view(asking.reply_to).in_flight:
        asking.peer.flushes()
        heard += len(asking.hears())
    assert heard + ANSWERS_PER_SLICE == MAX_REQUESTS * (ANSWERS_PER_SLICE + 1)


def test_an_answer_waits_for_room() -> None:
    stage = Stage(plugins=ON, statistics_format=JsonStatistics(), memory_limit_bytes=20_000)
    asking = Asking(stage, prefetch=0)
    asking.asks(OF_BROKER)
    assert stage.view(asking.reply_to).pending == 1
    stage.peer("p").sends("queue://Q", "x" * 17_500, persistent=False)
    asking.asks(OF_BROKER)
    assert stage.view(asking.reply_to).pending == 1
    stage.peer("c").consumes("queue://Q").acknowledges("x" * 17_500, count=1)
    stage.settle()
    stage.waits(1.0)
    stage.settle()
    assert stage.view(asking.reply_to).pending == 2


def test_who_may_not_write_there_learns_nothing() -> None:
    authorizer = RecordingAuthorizer()
    stage = played(authorizer)
    asking = Asking(stage)
    authorizer.refused.add(("*", WRITE, OF_BROKER))
    with pytest.raises(AuthorizationError, match=f"write to: {OF_BROKER}"):
        asking.asks(OF_BROKER)
    assert asking.hears() == []


def test_who_may_not_ask_about_a_destination_learns_nothing_by_a_pattern_either() -> None:
    authorizer = RecordingAuthorizer()
    stage = played(authorizer)
    asking = Asking(stage)
    for name in ("A", "B", "SECRET"):
        stage.peer(f"p{name}").sends(f"queue://{name}", "a")
    authorizer.refused.add(("*", WRITE, f"{ABOUT}.SECRET"))
    for asked in (f"{ABOUT}.*", f"{ABOUT}.A,SECRET,B", f"{ABOUT}*", f"{ABOUT}SECRET,A,B"):
        assert [value(answer, "destinationName") for answer in asking.asks(asked)] == ["queue://A", "queue://B"]
    assert asking.asks(f"{ABOUT}SECRET") == []


def test_the_parts_of_a_request_are_looked_up_one_after_the_other() -> None:
    stage = played()
    asking = Asking(stage)
    producer = stage.peer("p")
    for number in range(ANSWERS_PER_SLICE + 1):
        producer.sends(f"queue://MANY.{number}", "a", persistent=False)
    assert len(asking.asks(f"{ABOUT}.MANY.*,LATE.*")) == ANSWERS_PER_SLICE
    producer.sends("queue://LATE.1", "a")
    stage.settle()
    assert [value(answer, "destinationName") for answer in asking.hears()] == [
        f"queue://MANY.{ANSWERS_PER_SLICE}",
        "queue://LATE.1",
    ]


def test_a_request_whose_answer_finds_no_room_for_long_is_given_up_and_the_next_is_answered() -> None:
    policy = PolicyEntry(Destination(0, "FULL"), memory_limit_bytes=1_000)
    stage = Stage(policy, plugins=ON, statistics_format=JsonStatistics())
    stage.peer("p").sends("queue://FULL", "x" * 2_000, persistent=False)
    stage.peer("q").sends(OF_BROKER, "", reply_to="queue://FULL")
    asking = Asking(stage)
    assert asking.asks(OF_BROKER) == []
    for _ in range(MAX_WAITS):
        assert asking.hears() == []
        stage.waits(ROOM_SECONDS)
        stage.settle()
    assert len(asking.hears()) == 1
    assert stage.view("queue://FULL").pending == 1


def test_who_may_not_write_to_the_place_of_the_answer_gets_none_there() -> None:
    authorizer = RecordingAuthorizer()
    stage = played(authorizer)
    peer = stage.peer("p")
    secret = stage.peer("c").consumes("queue://SECRET")
    authorizer.refused.add(("*", WRITE, "queue://SECRET"))
    with pytest.raises(AuthorizationError, match="write to: queue://SECRET"):
        peer.sends(OF_BROKER, "", reply_to="queue://SECRET")
    stage.settle()
    assert secret.takes() == []
    assert len(Asking(stage).asks(OF_BROKER)) == 1


def test_totals_count_steps_for_all_destinations_and_so_does_a_look_for_matches() -> None:
    stage = Stage(plugins=ON, statistics_format=JsonStatistics())
    peer = stage.peer("p")
    listener = peer.consumes("queue://ANSWERS")
    count = MAX_DESTINATIONS // 10
    once = count // COMPARED_PER_STEP
    for number in range(count):
        stage.broker.configure_destination(Destination(QUEUE_KIND, f"D.{number}"))
    for about in (OF_BROKER, ABOUT + ".X.*"):
        before = stage.broker.steps
        peer.sends_message(peer.message(about, "", reply_to="queue://ANSWERS"))
        assert once <= stage.broker.steps - before <= once + 10, about
    assert len(listener.takes()) == 1
