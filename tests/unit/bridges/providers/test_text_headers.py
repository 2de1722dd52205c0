"""Packets of MQTT and records of Kafka as messages of a bridge, and back, through the libraries' own classes."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from aiokafka import ConsumerRecord
from nats.aio.msg import Msg
from paho.mqtt.client import MQTTMessage

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.providers.kafka import messages as kafka
from spanwire.bridges.providers.kafka.parties import MAX_RECORD, check_size
from spanwire.bridges.providers.kafka.provider import KafkaProvider
from spanwire.bridges.providers.mqtt import messages as mqtt
from spanwire.bridges.providers.mqtt.incoming import without_properties
from spanwire.bridges.providers.mqtt.provider import MqttProvider
from spanwire.bridges.providers.nats import messages as nats
from spanwire.bridges.providers.nats.provider import CoreNatsProvider, NatsProvider
from spanwire.bridges.providers.nats.streams import dead_letter_stream_of
from spanwire.bridges.providers.redis import messages as redis
from spanwire.bridges.providers.redis.provider import RedisProvider
from spanwire.bridges.providers.sqs import messages as sqs
from spanwire.bridges.providers.sqs.parties import MAX_BATCH, sized_batches
from spanwire.bridges.providers.sqs.provider import SqsProvider
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, MessageFormatError
from spanwire.model.message_view import BYTES, BYTES_VALUE, INT_VALUE, STRING_VALUE, TEXT, PropertyValue
from tests.support.bridge_dialogue import Content

NOW_MS = 1_700_000_000_000
NO_LIMIT = float("inf")


def through_mqtt(message: BridgeMessage) -> BridgeMessage:
    body, properties = mqtt.outgoing_packet(message, "t", NOW_MS, NO_LIMIT)
    packet = MQTTMessage(1, b"t")
    packet.payload, packet.qos = body, 1
    packet.properties, _ = without_properties(0, b"\0\1t" + properties.pack())
    return mqtt.bridge_message(packet, NOW_MS)


def record_of(value: bytes | None, key: bytes | None, headers: list[tuple[str, Any]]) -> ConsumerRecord:
    return ConsumerRecord("topic", 2, 7, NOW_MS, 0, key, value, None, 0, 0, tuple(headers))


def through_kafka(message: BridgeMessage) -> BridgeMessage:
    return kafka.bridge_message(record_of(*kafka.outgoing_record(message)))


def through_nats(message: BridgeMessage) -> BridgeMessage:
    body, headers = nats.outgoing_message(message, "t", 1_000_000)
    return nats.bridge_message(Msg(cast("Any", None), "t", "", body, headers))


def through_redis(message: BridgeMessage) -> BridgeMessage:
    words = redis.outgoing_fields(message)
    return redis.bridge_message("t", "1-0", dict(zip(words[::2], words[1::2], strict=True)), False)


def through_sqs(message: BridgeMessage) -> BridgeMessage:
    entry = sqs.outgoing_message(message, False)
    return sqs.bridge_message({"Body": entry["MessageBody"], "MessageAttributes": entry["MessageAttributes"]})


WAYS = pytest.mark.parametrize("through", [through_mqtt, through_kafka, through_nats, through_redis, through_sqs])


HEADERS = (
    *("message_id", "kind", "persistent", "priority", "expiration_ms", "timestamp_ms", "correlation_id"),
    *("message_type", "reply_to", "group_id", "group_sequence", "is_redelivered"),
)


def outgoing(properties: dict[str, PropertyValue] | None = None) -> BridgeMessage:
    message = BridgeMessage("ID:1", TEXT, Content("text é", properties), 4)
    message.correlation_id, message.message_type, message.priority = "c", "t", 7
    message.group_id, message.group_sequence = "g", 3
    message.timestamp_ms, message.expiration_ms = NOW_MS - 5, NOW_MS + 5_000
    message.reply_to = Destination(QUEUE, "REPLIES")
    return message


@WAYS
def test_all_headers_of_jms_cross(through: Any) -> None:
    sent = outgoing()
    back = through(sent)
    for name in HEADERS:
        assert getattr(back, name) == getattr(sent, name), name
    assert back.content.neutral_body() == "text é".encode()


@WAYS
def test_properties_become_strings(through: Any) -> None:
    values = {"n": (INT_VALUE, 7), "text": (STRING_VALUE, "é"), "octets": (BYTES_VALUE, b"x")}
    assert through(outgoing(values)).property_values() == {"n": (STRING_VALUE, "7"), "text": (STRING_VALUE, "é")}


@WAYS
def test_a_topic_for_replies_crosses(through: Any) -> None:
    message = outgoing()
    message.reply_to = Destination(TOPIC, "replies/1")
    assert through(message).reply_to == message.reply_to


@WAYS
def test_a_foreign_content_type_is_a_property_and_returns(through: Any) -> None:
    message = BridgeMessage("", BYTES, Content("x", {"content_type": (STRING_VALUE, "image/png")}), 1)
    back = through(message)
    assert (back.kind, back.property_values()) == (BYTES, {"content_type": (STRING_VALUE, "image/png")})


@WAYS
def test_a_text_that_is_no_unicode_is_refused(through: Any) -> None:
    with pytest.raises(MessageFormatError, match="not valid Unicode"):
        through(outgoing({"lone": (STRING_VALUE, "\ud800")}))


def test_a_record_of_others_has_an_id_by_its_place() -> None:
    message = kafka.bridge_message(record_of(None, b"\xff", [("a", b"1"), ("a", b"2"), ("b", None)]))
    assert (message.message_id, message.kind) == ("topic-2-7", BYTES)
    assert message.property_values() == {"a": (STRING_VALUE, "1"), "b": (STRING_VALUE, "")}


def test_a_record_beyond_the_limit_of_kafka_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="the record has"):
        check_size(b"x" * MAX_RECORD, None, [])


@pytest.mark.parametrize(
    ("value", "error"), [("a\0b", "NUL character"), ("x" * 70_000, "more than 65535 bytes, which MQTT does not take")]
)
def test_a_text_beyond_the_limits_of_mqtt_is_refused(value: str, error: str) -> None:
    with pytest.raises(MessageFormatError, match=error):
        through_mqtt(outgoing({"bad": (STRING_VALUE, value)}))


def test_a_packet_beyond_the_limit_of_the_broker_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="the broker takes 100"):
        mqtt.outgoing_packet(outgoing(), "t", NOW_MS, 100)


def test_a_message_beyond_the_limit_of_nats_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="the server takes 100"):
        nats.outgoing_message(outgoing(), "t", 100)


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"a": 1}', "[" * 100_000])
def test_damaged_texts_of_nats_are_a_property(damaged: str) -> None:
    message = nats.bridge_message(Msg(cast("Any", None), "t", "", b"", {"JMSTexts": damaged}))
    assert message.property_values() == {"JMSTexts": (STRING_VALUE, damaged)}


def test_a_body_beyond_the_limit_of_redis_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis, "MAX_BODY", 3)
    with pytest.raises(MessageFormatError, match="the body has 7 bytes"):
        redis.outgoing_fields(outgoing())


def test_a_message_beyond_the_limit_of_sqs_is_refused() -> None:
    large = BridgeMessage("1", TEXT, Content("x" * sqs.MAX_BYTES), 1)
    with pytest.raises(MessageFormatError, match="SQS takes 262144"):
        sqs.outgoing_message(large, False)
    with pytest.raises(MessageFormatError, match="SQS takes 1024"):
        sqs.outgoing_message(BridgeMessage("1", TEXT, Content("x" * 1_024), 1), False, 1_024)


def test_a_message_of_sqs_has_ten_attributes_at_most_and_no_texts_are_lost() -> None:
    values: dict[str, PropertyValue] = {f"p{number}": (STRING_VALUE, str(number)) for number in range(30)}
    values |= {"AWS.x": (STRING_VALUE, "1"), "a..b": (STRING_VALUE, ""), "JMSTexts": (STRING_VALUE, "{")}
    entry = sqs.outgoing_message(outgoing(values), False)
    assert len(entry["MessageAttributes"]) == sqs.MAX_ATTRIBUTES
    assert through_sqs(outgoing(values)).property_values() == values


def test_requests_of_sqs_have_few_messages_and_bytes() -> None:
    small, large = ((0, {"MessageBody": "x" * size, "MessageAttributes": {}}) for size in (1, 200_000))
    assert [len(batch) for batch in sized_batches([small] * 25)] == [MAX_BATCH, MAX_BATCH, 5]
    assert [len(batch) for batch in sized_batches([large, large, small])] == [1, 2]


@pytest.mark.parametrize(
    "values", [{}, {"_AMQ_DUPL_ID": (STRING_VALUE, "own")}, {"_AMQ_DUPL_ID": (STRING_VALUE, "x" * 300)}]
)
def test_a_message_to_two_subjects_of_a_stream_is_no_duplicate(values: dict[str, PropertyValue]) -> None:
    ids = [nats.outgoing_message(outgoing(values), subject, 1_000_000)[1]["Nats-Msg-Id"] for subject in "aba"]
    assert ids[0] == ids[2] != ids[1]


def test_each_subject_of_dead_letters_has_a_stream_of_its_own_name() -> None:
    assert dead_letter_stream_of("orders.new.DLQ") == "DLQ-orders-new-DLQ"
    names = [
        dead_letter_stream_of(subject) for subject in ("a.b", "a-b", "a/b", "a$b", "a.\u00e4", "x" * 255, "x" * 254)
    ]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,255}", name) for name in names)


def test_an_id_that_no_header_holds_is_a_digest() -> None:
    own: dict[str, PropertyValue] = {"_AMQ_DUPL_ID": (STRING_VALUE, "x" * 300)}
    _, long = nats.outgoing_message(outgoing(own), "t", 1_000_000)
    _, lines = nats.outgoing_message(outgoing({"_AMQ_DUPL_ID": (STRING_VALUE, "a\nb")}), "t", 1_000_000)
    assert len(long["Nats-Msg-Id"]) == len(lines["Nats-Msg-Id"]) == 32
    assert "Nats-Msg-Id" not in nats.outgoing_message(BridgeMessage("", TEXT, Content("x"), 1), "t", 1_000_000)[1]


TOPIC_T = Destination(TOPIC, "t")
MQTT = ConnectionFactory("mqtt://host", provider="mqtt")
KAFKA = ConnectionFactory("kafka://host", provider="kafka")
NATS = ConnectionFactory("nats://host", provider="nats")
REDIS = ConnectionFactory("redis://host", provider="redis")
SQS = ConnectionFactory("sqs://host?region=eu-central-1", provider="sqs")
QUEUE_Q = Destination(QUEUE, "q")


@pytest.mark.parametrize(
    ("provider", "end", "error"),
    [
        (MqttProvider(), Source(MQTT, Destination(QUEUE, "q")), "write topic://q"),
        (MqttProvider(), Source(MQTT, TOPIC_T, None, "s"), "set both subscriptionName and clientID"),
        (MqttProvider(), Target(MQTT, Destination(TOPIC, "a/#")), "a target is one topic"),
        (MqttProvider(), Target(ConnectionFactory("mqtt://host/path", provider="mqtt"), TOPIC_T), "no virtual hosts"),
        (KafkaProvider(), Source(KAFKA, Destination(QUEUE, "q")), "write topic://q"),
        (KafkaProvider(), Source(KAFKA, TOPIC_T), "needs a consumer group; set subscriptionName"),
        (KafkaProvider(), Target(KAFKA, Destination(TOPIC, "a/b")), "is no name of a topic of Kafka"),
        (
            KafkaProvider(),
            Target(ConnectionFactory("kafka://host?saslMechanism=MD5", provider="kafka"), TOPIC_T),
            "saslMechanism is none of PLAIN",
        ),
        (NatsProvider(), Source(NATS, Destination(QUEUE, "q")), "write topic://q"),
        (NatsProvider(), Source(NATS, TOPIC_T, None, "s", "c"), "NATS has no client ids"),
        (NatsProvider(), Source(NATS, TOPIC_T, None, "a.b"), "a name of letters, digits"),
        (NatsProvider(), Target(NATS, Destination(TOPIC, "a.>")), "a target is one subject"),
        (NatsProvider(), Source(NATS, Destination(TOPIC, ">.a")), "is no subject of NATS"),
        (NatsProvider(), Target(NATS, Destination(TOPIC, "$JS.API.STREAM.DELETE.X")), "is no subject of NATS"),
        (NatsProvider(), Target(NATS, Destination(TOPIC, "x" * 256)), "up to 255 characters"),
        (NatsProvider(), Target(ConnectionFactory("nats://host/path", provider="nats"), TOPIC_T), "has no path"),
        (RedisProvider(), Source(REDIS, Destination(QUEUE, "q")), "write topic://q"),
        (RedisProvider(), Source(REDIS, TOPIC_T), "needs a consumer group; set subscriptionName"),
        (RedisProvider(), Source(REDIS, TOPIC_T, None, "s", "c"), "Redis has no client ids"),
        (
            RedisProvider(),
            Target(ConnectionFactory("redis://host/orders", provider="redis"), TOPIC_T),
            "the path is the number of a database",
        ),
        (
            RedisProvider(),
            Source(ConnectionFactory("redis://host?takeOverMs=99", provider="redis"), TOPIC_T, None, "s"),
            "takeOverMs must be a number of at least 100",
        ),
        (
            RedisProvider(),
            Target(ConnectionFactory("redis://host?maxLength=0", provider="redis"), TOPIC_T),
            "maxLength must be a number of at least 1",
        ),
        (SqsProvider(), Target(SQS, TOPIC_T), "write queue://t"),
        (SqsProvider(), Target(SQS, Destination(QUEUE, "a.b")), "is no name of a queue of SQS"),
        (SqsProvider(), Source(SQS, QUEUE_Q, None, "s"), "SQS has no subscriptions"),
        (SqsProvider(), Source(SQS, Destination(QUEUE, "q" * 77)), "is too long for a source"),
        (SqsProvider(), Source(SQS, Destination(QUEUE, "q" * 72 + ".fifo")), "is too long for a source"),
        (SqsProvider(), Target(ConnectionFactory("sqs://host", provider="sqs"), QUEUE_Q), "names no region"),
        (SqsProvider(), Target(ConnectionFactory("sqs://u@host?region=r", provider="sqs"), QUEUE_Q), "set both"),
        (
            SqsProvider(),
            Target(ConnectionFactory("sqs+ssl://h?region=r&verifyHostName=false", provider="sqs"), QUEUE_Q),
            "always checks the name",
        ),
        (CoreNatsProvider(), Source(NATS, TOPIC_T, None, "s"), "keeps no messages for a bridge that is away"),
    ],
)
def test_an_end_that_can_never_be_opened_is_refused(provider: Any, end: Source | Target, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        if isinstance(end, Source):
            provider.check_source(end)
        else:
            provider.check_target(end)
