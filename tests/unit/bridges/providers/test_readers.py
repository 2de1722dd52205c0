"""Readers of the providers at damaged messages, and sources that meet their own dead letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from nats.aio.msg import Msg
from paho.mqtt.client import MQTTMessage
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from spanwire.bridges.model.definition import ConnectionFactory, Source
from spanwire.bridges.providers.addresses import Place
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.kafka.connecting import address_of
from spanwire.bridges.providers.kafka.parties import MAX_RECORD, KafkaReceiver, KafkaSender
from spanwire.bridges.providers.mqtt.connection import NO_SESSION, MqttConnection
from spanwire.bridges.providers.mqtt.incoming import IncomingProperties
from spanwire.bridges.providers.mqtt.parties import MqttSource
from spanwire.bridges.providers.nats.core_nats import MAX_WAITING, CoreSource
from spanwire.bridges.providers.nats.jetstream import MESSAGE_ROOM, NatsSource
from spanwire.bridges.providers.openwire import source_consumer
from spanwire.bridges.providers.openwire.source_consumer import SourceConsumer
from spanwire.bridges.providers.redis.parties import READ_COUNT, RedisSource
from spanwire.bridges.providers.stomp import connection as stomp_connection
from spanwire.bridges.providers.stomp.connection import StompConnection
from spanwire.bridges.providers.window import Window
from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.destination import QUEUE, TOPIC, Destination, parse_destination
from spanwire.model.errors import JmsError
from spanwire.protocols.openwire.codec.wire_format import PROVIDER_NAME
from tests.support.client_dialogue import PlayedBroker

WAIT_S: Final = 10.0
PLACE: Final = Place("stomp://h", "h", 61613, False, "", {}, None, None)


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


class Consumer:
    """A consumer of the library at a record whose header is no UTF-8."""

    async def getmany(self, **_: object) -> dict[object, list[object]]:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")


def kafka_receiver(**parts: Any) -> KafkaReceiver:
    """A receiver without a cluster."""
    receiver = object.__new__(KafkaReceiver)
    source = Source(ConnectionFactory("kafka://host"), Destination(TOPIC, "T"), subscription="group")
    values = {"_source": source, "_place": address_of(source.factory), "_credit": 1, "_waiting": 0, "inbox": Inbox()}
    for name, value in {**values, **parts}.items():
        setattr(receiver, name, value)
    return receiver


def test_a_kafka_source_at_a_record_that_cannot_be_decoded_fails_with_a_reason() -> None:
    async def scenario() -> None:
        receiver = kafka_receiver(_consumer=Consumer())
        await receiver._read()
        with pytest.raises(JmsError, match=r"kafka://host: topic://T: .*invalid start byte"):
            receiver.inbox.check()

    run(scenario)


def test_the_library_takes_dead_letters_of_any_record_that_a_broker_takes() -> None:
    async def scenario() -> None:
        source = Source(ConnectionFactory("kafka://host"), Destination(TOPIC, "T"), subscription="group")
        sender = KafkaSender(source, "transaction")
        assert len(sender.producer._serialize(None, b"x" * 2 * MAX_RECORD, [])[1]) == 2 * MAX_RECORD
        await sender.close()

    run(scenario)


@pytest.mark.parametrize(("size", "has_cause"), [(10, True), (MAX_RECORD - 1_100, False), (2 * MAX_RECORD, False)])
def test_a_dead_letter_of_kafka_without_room_for_its_cause_goes_as_it_is(
    size: int, has_cause: bool, caplog: pytest.LogCaptureFixture
) -> None:
    last = SimpleNamespace(topic="T", key=None, value=b"x" * size, headers=(("name", b"text"),))
    topic, record = kafka_receiver(_last=last).dead_record("refused")
    assert (topic, record["value"], record["headers"][0]) == ("T.DLQ", last.value, ("name", b"text"))
    assert ((CAUSE, b"refused") in record["headers"]) is has_cause
    assert ("has no room for its cause: refused" in caplog.text) is not has_cause


def test_a_stomp_source_at_a_frame_that_cannot_be_read_fails_with_a_reason() -> None:
    async def scenario() -> None:
        reader: Any = SimpleNamespace(read=lambda _: Consumer().getmany())
        writer: Any = SimpleNamespace(transport=SimpleNamespace(abort=lambda: None))
        connection = StompConnection(PLACE, reader, writer)
        await connection._read()
        with pytest.raises(JmsError, match="stomp://h was lost: a frame cannot be read"):
            connection.inbox.check()

    run(scenario)


def test_a_stomp_source_pauses_at_a_full_inbox_except_for_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stomp_connection, "MAX_OCTETS", 10)
    frames = [
        b"MESSAGE\nmessage-id:1\nsubscription:s\ndestination:/queue/Q\n\n0123456789\0",
        b"RECEIPT\nreceipt-id:r1\n\n\0",
    ]

    async def scenario() -> None:
        reader = asyncio.StreamReader()
        writer: Any = SimpleNamespace(transport=SimpleNamespace(abort=lambda: None))
        connection = StompConnection(PLACE, reader, writer)
        connection.subscription = "s"
        reading = asyncio.create_task(connection._read())
        for frame in frames:
            reader.feed_data(frame)
            while not len(connection.inbox):
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(reader._buffer) == len(frames[1])  # type: ignore[attr-defined]
        _, receipt = connection.receipt()
        await receipt
        assert len(await connection.inbox.take(1, 100, 0)) == 1
        reading.cancel()

    run(scenario)


@pytest.mark.parametrize(("is_classic", "kept"), [(False, 1), (True, 3)])
def test_activemq_classic_has_more_room_because_it_changes_the_order(
    is_classic: bool, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(b"Q" * 100 + b"message-id1subscriptionsdestination/queue/Q")
    monkeypatch.setattr(stomp_connection, "MAX_OCTETS", size)
    monkeypatch.setattr(stomp_connection, "MAX_IN_ORDER", 3 * size)
    frame = b"MESSAGE\nmessage-id:1\nsubscription:s\ndestination:/queue/Q\n\n" + b"Q" * 100 + b"\0"

    async def scenario() -> None:
        reader = asyncio.StreamReader()
        writer: Any = SimpleNamespace(transport=SimpleNamespace(abort=lambda: None))
        connection = StompConnection(PLACE, reader, writer)
        connection.subscription, connection.keeps_all, connection.is_classic = "s", False, is_classic
        connection.receipt()
        reader.feed_data(4 * frame)
        reading = asyncio.create_task(connection._read())
        while not connection.is_full:
            await asyncio.sleep(0)
        assert len(connection.inbox) == kept
        reading.cancel()

    run(scenario)


@pytest.mark.parametrize(
    ("product", "url", "name", "subscription", "kept"),
    [
        (PROVIDER_NAME, "tcp://h:1", "queue://Q", None, 1),
        ("ActiveMQ", "h:1", "queue://Q", None, 1),  # Artemis writes no scheme
        ("ActiveMQ", "tcp://h:1", "queue://Q", None, 3),
        (None, None, "queue://Q", None, 3),
        ("ActiveMQ", "tcp://h:1", "topic://T", "s", 3),
        ("ActiveMQ", "tcp://h:1", "topic://T", None, 4),  # sends its messages once
    ],
)
def test_activemq_classic_has_more_room_over_openwire_too(
    product: str | None,
    url: str | None,
    name: str,
    subscription: str | None,
    kept: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    session = broker.session("client")
    other = broker.consumer(session)
    broker.dispatches(other, "x")
    size = other.octets
    consumers: list[ClientConsumer] = []

    async def subscribe(destination: Destination, options: ConsumerOptions) -> Any:
        consumers.append(broker.consumer(session, str(destination), ConsumerOptions(prefetch=options.prefetch)))
        consumers[0].max_octets = options.max_octets
        return SimpleNamespace(core=consumers[0])

    async def scenario() -> None:
        for limit, count in (("MAX_OCTETS", 1), ("MAX_IN_ORDER", 3), ("MAX_FLOOD", 4)):
            monkeypatch.setattr(source_consumer, limit, count * size)
        link = SimpleNamespace(wire_format=SimpleNamespace(provider_name=product))
        core = SimpleNamespace(broker_url=url, correlator=SimpleNamespace(link=link))
        connection: Any = SimpleNamespace(shared=SimpleNamespace(core=core))
        own: Any = SimpleNamespace(subscribe=subscribe)
        source = Source(ConnectionFactory("tcp://h:1"), parse_destination(name, QUEUE), subscription=subscription)
        await SourceConsumer(connection, own, source, 10, False).open()

    run(scenario)
    (consumer,) = consumers
    broker.dispatches(consumer, *"abcde")
    assert (consumer.is_full, consumer.octets) == (True, kept * size)


def test_a_write_to_a_silent_broker_ends_when_the_connection_counts_as_lost() -> None:
    async def scenario() -> None:
        async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            peers.append(writer)

        peers: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(ignore, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        connection = StompConnection(PLACE, reader, writer)
        writing = asyncio.create_task(connection.write([b"x" * 32_000_000]))
        while not connection._writes:
            await asyncio.sleep(0)
        connection._lose("the broker was silent")
        with pytest.raises(JmsError, match="stomp://h was lost: the broker was silent"):
            await writing
        for peer in peers:
            peer.transport.abort()
        server.close()

    run(scenario)


def test_mqtt_drops_messages_without_a_guarantee_by_their_octets() -> None:
    async def scenario() -> None:
        connection = MqttConnection(ConnectionFactory("mqtt://host"), None, NO_SESSION, Window(10))
        connection.inbox.octets = MAX_OCTETS
        first, second = packet("a"), packet("b")
        first.qos = 0
        connection._on_message(None, None, first)
        connection.inbox.octets = 0
        connection._on_message(None, None, second)
        assert [one.topic for one in await connection.inbox.take(10, 100, 0)] == ["b"]

    run(scenario)


def nats_message(subject: str, body: bytes) -> Msg:
    return Msg(cast("Any", None), subject, "", body)


def test_core_nats_drops_what_the_inbox_has_no_room_for_and_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        source = CoreSource(Source(ConnectionFactory("nats://host"), Destination(TOPIC, "T")))
        for number in range(MAX_WAITING + 2):
            await source._on_message(nats_message("T", b"%d" % number))
        assert len(source._inbox) == MAX_WAITING
        await source.receive(1, 1_000, 0)
        source._inbox.octets = MAX_OCTETS
        await source._on_message(nats_message("T", b"x"))
        assert len(source._inbox) == MAX_WAITING - 1

    run(scenario)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ["nats://host: messages come too fast, and some are lost"]


def nats_source(**parts: Any) -> tuple[NatsSource, list[dict[str, int]]]:
    """A source of a server that takes requests for messages, and those requests."""
    asked: list[dict[str, int]] = []

    async def publish(subject: str, body: bytes, reply: str = "") -> None:
        asked.append(json.loads(body))

    source = NatsSource(Source(ConnectionFactory("nats://host"), Destination(TOPIC, "T"), None, "s"), 10)
    connection: Any = SimpleNamespace(max_payload=1_000_000, place=address_of(ConnectionFactory("kafka://host")))
    connection.publish = publish
    object.__setattr__(source, "_connection", connection)
    for name, part in parts.items():
        object.__setattr__(source, name, part)
    return source, asked


def jetstream_message(place: int, body: bytes, delivery: int = 1) -> Msg:
    reply = f"$JS.ACK.STREAM.s.{delivery}.{place}.{place}.1700000000000000000.0"
    return Msg(cast("Any", None), "T", reply, body)


def test_a_source_of_nats_asks_within_credit_and_memory_with_one_request_at_a_time() -> None:
    async def scenario() -> None:
        source, asked = nats_source()
        await source._ask()
        await source._ask()
        assert [(one["batch"], one["max_bytes"]) for one in asked] == [(10, MAX_OCTETS + 1_000_000 + MESSAGE_ROOM)]
        for place in range(10):
            await source._on_message(jetstream_message(place, b"x"))
        assert len(asked) == 1  # the credit is used up
        source._octets = MAX_OCTETS + 1
        source._wanted = 0
        del source._held[0]
        await source._ask()
        assert len(asked) == 1  # the memory is used up
        source._octets = 5
        await source._ask()
        assert asked[-1]["batch"] == 1

    run(scenario)


def test_a_message_of_nats_that_comes_again_while_it_is_held_is_received_once() -> None:
    async def scenario() -> None:
        source, _ = nats_source()
        first, again = jetstream_message(1, b"x"), jetstream_message(1, b"x", 2)
        for message in (first, again):
            await source._on_message(message)
        assert len(await source.receive(10, 1_000, 0)) == 1
        assert source._held[1] is again  # whose acknowledgement counts

    run(scenario)


def test_a_request_that_ends_is_made_again_and_another_status_is_a_fault() -> None:
    async def scenario() -> None:
        source, asked = nats_source()
        await source._ask()
        for status in ({"Status": "408"}, {"Status": "409", "Description": "Message Size Exceeds MaxBytes"}):
            await source._on_message(Msg(cast("Any", None), "reply", "", b"", status))
        assert len(asked) == 3
        gone = {"Status": "409", "Description": "Consumer Deleted"}
        await source._on_message(Msg(cast("Any", None), "reply", "", b"", gone))
        with pytest.raises(JmsError, match="the consumer of topic://T delivers no more: Consumer Deleted"):
            await source.receive(1, 1_000, 0)

    run(scenario)


def test_a_source_of_redis_reads_no_more_than_credit_and_memory_allow() -> None:
    async def scenario() -> None:
        source = RedisSource(Source(ConnectionFactory("redis://host"), Destination(TOPIC, "T"), None, "g"), 60)
        asked: list[tuple[object, ...]] = []

        async def ask(*words: object) -> Any:
            asked.append(words)
            await asyncio.sleep(0)
            if words[0] == "XAUTOCLAIM":
                return [b"0-0", [None, [b"9-9", None]], []]
            count = int(str(words[5]))
            begin = len(source._held)
            return [[b"T", [[b"%d-0" % number, [b"body", b"x"]] for number in range(begin, begin + count)]]]

        object.__setattr__(source, "_reads", SimpleNamespace(ask=ask))
        reading = asyncio.create_task(source._read())
        while len(source._inbox) < 60:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        counts = [int(str(words[5])) for words in asked if words[0] == "XREADGROUP"]
        assert (sum(counts), max(counts) <= READ_COUNT) == (60, True)
        source._held.clear()
        source._octets = MAX_OCTETS
        await asyncio.sleep(0.05)
        assert len(source._inbox) == 60
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    run(scenario)


@pytest.mark.parametrize(("count", "is_whole"), [(2, True), (1, False), (0, False)])
def test_an_acknowledgement_of_redis_counts_each_entry(count: int, is_whole: bool) -> None:
    async def scenario() -> None:
        async def ask(*words: object) -> int:
            return count

        source = RedisSource(Source(ConnectionFactory("redis://host"), Destination(TOPIC, "T"), None, "g"), 60)
        object.__setattr__(source, "_requests", SimpleNamespace(ask=ask, place=PLACE))
        source._received = [("1-0", {}, False), ("2-0", {}, False)]
        if is_whole:
            await source.acknowledge()
            return
        with pytest.raises(JmsError, match="another bridge has taken entries of topic://T over"):
            await source.acknowledge()

    run(scenario)


class Mqtt:
    """A connection of MQTT that has received packets."""

    def __init__(self, *packets: MQTTMessage) -> None:
        self.inbox: Final[Inbox[MQTTMessage]] = Inbox()
        self.window: Final = Window(10)
        self.acknowledged: Final[list[str]] = []
        self.published: Final[list[str]] = []
        for packet in packets:
            self.inbox.put(packet, len(packet.payload))

    async def acknowledge(self, packets: list[MQTTMessage]) -> None:
        self.acknowledged.extend(packet.topic for packet in packets)

    async def publish_all(self, topic: str, packets: list[tuple[bytes, Properties]]) -> None:
        self.published.append(topic)


def packet(topic: str, origin: str | None = None) -> MQTTMessage:
    message = MQTTMessage(1, topic.encode())
    message.qos, message.payload = 1, b"body"
    properties = IncomingProperties(b"")
    if origin is not None:
        properties.UserProperty.extend([(CAUSE, "no"), (ORIGIN, origin)])
    message.properties = properties
    return message


@pytest.mark.parametrize("name", ["a/#", "$share/group/a/#"])
def test_a_source_of_mqtt_passes_over_its_own_dead_letters_alone(name: str) -> None:
    source = Source(ConnectionFactory("mqtt://host"), Destination(TOPIC, name))
    own, other = packet("a/b.DLQ", f"topic://{name}"), packet("a/b.DLQ", "topic://elsewhere")

    async def scenario() -> None:
        alone: Any = Mqtt(own)
        assert await MqttSource(alone, source).receive(10, 1_000, 1.0) == []
        assert alone.acknowledged == ["a/b.DLQ"]  # at once, because no batch does it
        mixed: Any = Mqtt(packet("a/c"), other, own)
        party = MqttSource(mixed, source)
        assert len(await party.receive(10, 1_000, 1.0)) == 2
        assert mixed.acknowledged == []
        await party.dead_letter("no")
        assert (mixed.published, mixed.acknowledged) == (["a/b.DLQ.DLQ"], ["a/c", "a/b.DLQ", "a/b.DLQ"])

    run(scenario)


@pytest.mark.parametrize(("name", "is_without_own"), [("a/#", True), ("$share/group/a/#", False)])
def test_a_subscription_of_mqtt_asks_for_no_own_publications(
    name: str, is_without_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[SubscribeOptions] = []

    async def subscribe(_: object, topic: str, options: SubscribeOptions) -> list[Any]:
        asked.append(options)
        return [SimpleNamespace(value=1)]

    async def scenario() -> None:
        connection = MqttConnection(ConnectionFactory("mqtt://host"), None, NO_SESSION, Window(10))
        await connection.subscribe_to(name)

    monkeypatch.setattr(MqttConnection, "subscribe", subscribe)
    run(scenario)
    assert [(one.QoS, one.noLocal) for one in asked] == [(1, is_without_own)]
