"""What goes out as a message comes in as the same, and whatever bytes a broker sends end in an error or in nothing."""

from __future__ import annotations

import string
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client.messages.message import Message
from spanwire.client.messages.message_encoder import Envelope, MessageEncoder, Outgoing, nested_octets
from spanwire.client.messages.typed_values import Byte, Double, Float, Int, Long, Short, is_property_name
from spanwire.client.protocol.producer import SendDefaults
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import MessageFormatError, RemoteProtocolError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder, decode_message
from spanwire.protocols.openwire.messages.message_layout import MessageScanner
from tests.support.client_dialogue import PlayedBroker, text_message

pytestmark = pytest.mark.hypothesis

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
NAMES = st.text(string.ascii_letters, min_size=1, max_size=12).filter(is_property_name)
WHOLE = st.integers(-(2**63), 2**63 - 1)
SIMPLE = st.one_of(st.none(), st.booleans(), WHOLE, st.floats(allow_nan=False), TEXTS)
TYPED = st.one_of(
    st.builds(Byte, st.integers(-128, 127)),
    st.builds(Short, st.integers(-(2**15), 2**15 - 1)),
    st.builds(Int, st.integers(-(2**31), 2**31 - 1)),
    st.builds(Long, WHOLE),
    st.builds(Float, st.floats(allow_nan=False, width=32)),
    st.builds(Double, st.floats(allow_nan=False)),
)
NESTED = st.recursive(
    st.one_of(SIMPLE, st.binary(max_size=40)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=10,
)
BODIES = st.one_of(
    st.none(), TEXTS, st.binary(max_size=100), st.dictionaries(NAMES, NESTED, max_size=4), st.lists(NESTED, max_size=4)
)
VERSIONS = st.integers(1, 12)
MAYBE = st.one_of(st.none(), TEXTS)


def sent(outgoing: Outgoing, version: int) -> bytes:
    producer = nested_octets(wire.ProducerId(connection_id="ID:a-1", value=2, session_id=3))
    envelope = Envelope(producer, 7, nested_octets(wire.ActiveMQQueue("Q")), b"\0")
    return MessageEncoder(version).octets(outgoing, envelope, 5, True)


def received(raw: bytes, version: int) -> Message:
    scanner = MessageScanner(version)
    scanner.scan(raw)
    return Message(raw, version, scanner, b"", 0)


@given(BODIES, st.dictionaries(NAMES, st.one_of(SIMPLE, TYPED), max_size=5), VERSIONS)
def test_a_body_and_its_properties_come_back(body: object, properties: dict[str, object], version: int) -> None:
    message = received(sent(Outgoing(body, properties), version), version)
    assert message.body == body
    plain = {
        name: value.value if isinstance(value, Byte | Short | Int | Long | Float | Double) else value
        for name, value in properties.items()
    }
    assert message.properties == plain
    assert [type(value) for value in message.properties.values()] == [type(value) for value in plain.values()]


@given(BODIES, VERSIONS, VERSIONS)
def test_a_message_sent_on_keeps_body_and_properties_whatever_the_versions(
    body: object, first: int, second: int
) -> None:
    original = received(sent(Outgoing(body, {"n": Short(3)}), first), first)
    again = received(sent(Outgoing(original), second), second)
    assert (again.kind, again.body) == (original.kind, original.body)
    assert again.typed_properties == {"n": ("short", 3)}


@given(MAYBE, MAYBE, MAYBE, st.integers(-(2**31), 2**31 - 1), VERSIONS)
def test_headers_stand_where_the_codec_reads_them(
    message_type: str | None, correlation_id: str | None, group_id: str | None, group_sequence: int, version: int
) -> None:
    outgoing = Outgoing(
        "x",
        message_type=message_type,
        correlation_id=correlation_id,
        group_id=group_id,
        group_sequence=group_sequence,
    )
    raw = sent(outgoing, version)
    decoded = decode_message(raw, version)
    assert (decoded.type, decoded.correlation_id) == (message_type, correlation_id)
    assert (decoded.group_id, decoded.group_sequence) == (group_id, group_sequence)
    assert (decoded.command_id, decoded.response_required) == (5, True)
    assert decoded.message_id is not None
    assert decoded.message_id.producer_sequence_id == 7
    message = received(raw, version)
    assert (message.group_id, message.message_id) == (group_id, "ID:a-1:3:2:7")


@given(
    BODIES,
    st.none() | st.dictionaries(NAMES, st.one_of(SIMPLE, TYPED), max_size=3),
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from([0, 5_000]),
    st.booleans(),
)
def test_the_short_way_of_a_message_writes_what_the_long_one_does(
    body: object,
    properties: dict[str, object] | None,
    persistent: bool,
    priority: int,
    time_to_live_ms: int,
    is_transacted: bool,
) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    session = broker.session("transacted" if is_transacted else "auto")
    defaults = SendDefaults(persistent, priority, time_to_live_ms)
    producer = session.add_producer(1, Destination(QUEUE, "Q"), defaults)
    wall_ms = broker.now.wall_ms
    said = Outgoing(body, properties)
    producer.send(said, False, wall_ms)  # learns the version of the link
    broker.client.data_to_send()
    producer.send(said, False, wall_ms)
    long = broker.client.data_to_send()
    nothing = (None, None, None, None, None, None, None, None, 0)
    assert producer.post(body, properties, *nothing, False, wall_ms) == len(long)
    short = broker.client.data_to_send()
    place = long.index((2).to_bytes(8, "big") + bytes(8)) + 7
    assert short == long[:place] + b"\3" + long[place + 1 :], "they differ in their sequence alone"


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_of_a_broker_are_refused_or_without_effect(chunks: list[bytes]) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    with suppress(RemoteProtocolError):
        for chunk in chunks:
            broker.sends_octets(chunk)


@given(st.data())
def test_a_spoilt_dispatch_is_refused_or_a_message_that_can_be_asked_for_anything(data: st.DataObject) -> None:
    broker = PlayedBroker()
    broker.lets_in()
    consumer = broker.consumer(broker.session())
    message = text_message("hello", 1)
    message.marshalled_properties = b"\0\0\0\1\0\1a\5\0\0\0\1"
    octets = bytearray(
        FrameEncoder().encode(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    )
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(4, len(octets) - 1))] = data.draw(st.integers(0, 255))
    with suppress(RemoteProtocolError):
        broker.sends_octets(bytes(octets))
        taken = consumer.next_message(broker.now)
        if taken is not None:
            ask_for_everything(taken)


def ask_for_everything(message: Message) -> None:
    for name in ("body", "properties", "typed_properties", "message_id", "correlation_id", "reply_to", "destination"):
        with suppress(MessageFormatError, RemoteProtocolError):
            getattr(message, name)
    assert "hello" not in repr(message)
