"""A message that is written over its producer's template has the octets that the long way gives it."""

from __future__ import annotations

import pytest

from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import Serialized, body_list, body_map, typed_properties
from spanwire.client.protocol.producer import MAX_TIME_TO_LIVE_MS, ClientProducer, SendDefaults
from spanwire.model.destination import QUEUE, parse_destination
from spanwire.model.errors import MessageFormatError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import decode_message
from spanwire.protocols.openwire.messages.message_body import KINDS, deflated, neutral_body
from spanwire.protocols.primitive_map import encode_map, encode_stream
from tests.support.client_dialogue import START_MS, PlayedBroker, text_message

PLAIN_BODIES = [
    "",
    "text",
    "\u20ac\0\U0001f600",
    b"",
    b"octets",
    bytearray(b"octets"),
    memoryview(b"octets"),
    {},
    {"a": 1, "b": "two"},
    [],
    [1, "two", b"3"],
    (True, None),
    None,
    Serialized(b"\xac\xed\0\5p"),
]

TEXT = b"\0\0\0\5hello"
BODIES_ON_THE_WIRE: list[tuple[type[wire.Message], bytes | None]] = [
    (wire.ActiveMQMessage, None),
    (wire.ActiveMQTextMessage, TEXT),
    (wire.ActiveMQTextMessage, b"\0\0\0\0"),
    (wire.ActiveMQTextMessage, b"\xff\xff\xff\xff"),
    (wire.ActiveMQTextMessage, None),
    (wire.ActiveMQBytesMessage, b"octets"),
    (wire.ActiveMQBytesMessage, None),
    (wire.ActiveMQMapMessage, encode_map(body_map({"a": 1}, 1))),
    (wire.ActiveMQMapMessage, None),
    (wire.ActiveMQStreamMessage, encode_stream(body_list(["one"], 1))),
    (wire.ActiveMQStreamMessage, None),
    (wire.ActiveMQObjectMessage, b"\xac\xed\0\5p"),
    (wire.ActiveMQObjectMessage, None),
    (wire.ActiveMQBlobMessage, None),
]


def producer_of(broker: PlayedBroker, defaults: SendDefaults | None = None, mode: str = "auto") -> ClientProducer:
    broker.lets_in()
    session = broker.session(mode)
    target = parse_destination("queue://Q", QUEUE)
    producer = session.add_producer(broker.client.next_producer(), target, defaults or SendDefaults())
    producer.announce()
    broker.answers_all()
    return producer


def post(producer: ClientProducer, body: object, properties: dict[str, object] | None = None) -> int:
    return producer.post(body, properties, None, None, None, None, None, None, None, None, 0, False, START_MS)


def both_ways(body: object, properties: dict[str, object] | None = None, mode: str = "auto") -> tuple[bytes, bytes]:
    """The frames of one message over the template, and the long way."""
    broker = PlayedBroker()
    assert post(producer_of(broker, mode=mode), body, properties) > 0
    short = broker.client.data_to_send()
    broker = PlayedBroker()
    assert producer_of(broker, mode=mode).send(Outgoing(body, properties), False, START_MS) is None
    return short, broker.client.data_to_send()


def received(make: type[wire.Message], content: bytes | None, is_compressed: bool) -> Message:
    """A message as a consumer takes it."""
    broker = PlayedBroker()
    broker.lets_in()
    consumer = broker.consumer(broker.session())
    model = text_message("", 1)
    message = make()
    message.producer_id, message.message_id = model.producer_id, model.message_id
    message.destination, message.priority = model.destination, model.priority
    message.content = content
    message.compressed = is_compressed
    message.marshalled_properties = encode_map(typed_properties({"p": "q"}))
    broker.sends(
        wire.MessageDispatch(
            consumer_id=consumer.info.consumer_id, destination=consumer.info.destination, message=message
        )
    )
    return broker.takes(consumer)


@pytest.mark.parametrize("mode", ["auto", "transacted"])
@pytest.mark.parametrize("properties", [None, {"n": 1}])
@pytest.mark.parametrize("body", PLAIN_BODIES)
def test_every_body_has_the_same_octets_on_both_ways(
    body: object, properties: dict[str, object] | None, mode: str
) -> None:
    short, long = both_ways(body, properties, mode)
    assert short == long


@pytest.mark.parametrize("is_compressed", [False, True])
@pytest.mark.parametrize(("make", "content"), BODIES_ON_THE_WIRE)
def test_a_received_message_that_is_sent_on_has_the_same_octets_on_both_ways(
    make: type[wire.Message], content: bytes | None, is_compressed: bool
) -> None:
    kind = KINDS[make().type_id()]
    if is_compressed and content is not None:
        content = deflated(kind, content)
    message = received(make, content, is_compressed)
    short, long = both_ways(message)
    assert short == long
    sent = decode_message(short[4:], 12)
    assert neutral_body(kind, sent.content, sent.compressed) == message.neutral_body()


@pytest.mark.parametrize(
    ("make", "content"),
    [
        (wire.ActiveMQTextMessage, b"\0\0\0\2\xff\xff"),
        (wire.ActiveMQMapMessage, b"\0\0\0\1"),
        (wire.ActiveMQStreamMessage, b"\xff"),
    ],
)
def test_a_body_that_nobody_can_read_is_sent_on_as_it_came(make: type[wire.Message], content: bytes) -> None:
    message = received(make, content, False)
    with pytest.raises(MessageFormatError):
        message.neutral_body()
    for frame in both_ways(message):
        assert decode_message(frame[4:], 12).content == content


@pytest.mark.parametrize("content", [b"\0\0\0\7short", b"\0"])
def test_a_text_that_announces_more_than_it_has_is_not_sent_on(content: bytes) -> None:
    message = received(wire.ActiveMQTextMessage, content, False)
    with pytest.raises(MessageFormatError, match="text body"):
        both_ways(message)


def test_a_text_that_announces_less_than_it_has_is_sent_on_as_its_receiver_would_read_it() -> None:
    message = received(wire.ActiveMQTextMessage, b"\0\0\0\1ab", False)
    for frame in both_ways(message):
        assert decode_message(frame[4:], 12).content == b"\0\0\0\1a"


@pytest.mark.parametrize("sequence", [0, 7, -1])
@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("correlation_id", [None, "", "c"])
@pytest.mark.parametrize("message_type", [None, "t"])
@pytest.mark.parametrize("reply_to", [None, "R"])
def test_headers_that_are_not_decoded_are_those_that_are(
    sequence: int, group: str | None, correlation_id: str | None, message_type: str | None, reply_to: str | None
) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    consumer = broker.consumer(broker.session())
    sent = text_message("", 1)
    sent.group_sequence, sent.group_id, sent.correlation_id = sequence, group, correlation_id
    sent.type = message_type
    sent.reply_to = None if reply_to is None else wire.ActiveMQQueue(physical_name=reply_to)
    destination, consumer_id = consumer.info.destination, consumer.info.consumer_id
    broker.sends(wire.MessageDispatch(consumer_id=consumer_id, destination=destination, message=sent))
    message = broker.takes(consumer)
    found = (message.group_sequence, message.group_id, message.correlation_id, message.message_type)
    assert found == (sequence, group, correlation_id, message_type)
    assert (None if message.reply_to is None else message.reply_to.name) == reply_to


@pytest.mark.parametrize("milliseconds", [-1, MAX_TIME_TO_LIVE_MS + 1, 2**63, 2**64])
def test_a_default_time_to_live_that_no_message_can_have_is_refused_with_the_producer(milliseconds: int) -> None:
    with pytest.raises(MessageFormatError, match=f"time to live of {milliseconds} ms"):
        producer_of(PlayedBroker(), SendDefaults(time_to_live_ms=milliseconds))


@pytest.mark.parametrize("what", ["time_to_live_ms", "priority"])
def test_defaults_that_are_no_whole_numbers_make_no_producer(what: str) -> None:
    with pytest.raises((MessageFormatError, TypeError)):  # compiled, the defaults themselves refuse it
        producer_of(PlayedBroker(), SendDefaults(**{what: 1.5}))  # type: ignore[arg-type]


def test_the_longest_time_to_live_reaches_the_wire() -> None:
    broker = PlayedBroker()
    assert post(producer_of(broker, SendDefaults(time_to_live_ms=MAX_TIME_TO_LIVE_MS)), "x") > 0
    (message,) = broker.receives()
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert message.expiration == START_MS + MAX_TIME_TO_LIVE_MS
