"""Messages that are sent together have the octets of those that are sent one by one, and stop where they would."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.client import blocking
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.messages.typed_values import EncodedText, typed_properties
from spanwire.client.protocol.producer import ClientProducer
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import InvalidDestinationError, JmsError, MessageFormatError, ResourceAllocationError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.protocols.primitive_map import encode_map
from spanwire.testing.broker import Broker
from tests.support.client_dialogue import START_MS, PlayedBroker

A, B = Destination(QUEUE, "A"), Destination(TOPIC, "B")
LIMIT = 1024 * 1024  # bytes that may wait
MAP = encode_map(typed_properties({"n": 1, "s": "x"}))

OUTGOING = st.builds(
    Outgoing,
    st.one_of(
        st.none(), st.text(max_size=8), st.binary(max_size=8), st.just({"k": 1}), st.just(EncodedText(b"\xc0\x80e"))
    ),
    st.sampled_from([None, {}, {"n": 1}, b"", MAP]),
    st.sampled_from([A, B, "queue://A", "C"]),
    message_type=st.sampled_from([None, None, "t"]),
    correlation_id=st.sampled_from([None, None, "c"]),
    reply_to=st.sampled_from([None, None, A]),
    persistent=st.sampled_from([None, True, False]),
    priority=st.sampled_from([None, 0, 4, 9]),
    time_to_live_ms=st.sampled_from([None, 0, 5000]),
    group_id=st.sampled_from([None, None, "g"]),
    group_sequence=st.sampled_from([0, 0, 1]),
    expires_at_ms=st.sampled_from([None, None, START_MS - 1, START_MS + 5000, 2**63 - 1]),
)


def producer_of(broker: PlayedBroker, destination: str | None = None) -> ClientProducer:
    broker.lets_in()
    return broker.producer(broker.session("transacted"), destination)


@given(st.lists(OUTGOING, max_size=8))
def test_many_have_the_octets_of_one_by_one(messages: list[Outgoing]) -> None:
    together, alone = PlayedBroker(), PlayedBroker()
    producer = producer_of(together)
    assert producer.post_all(messages, 0, LIMIT, START_MS) == len(messages)
    producer = producer_of(alone)
    for message in messages:
        assert producer.send(message, None, START_MS) is None
    assert together.client.data_to_send() == alone.client.data_to_send()


def test_an_encoded_text_and_encoded_properties_are_those_of_the_values() -> None:
    together, alone = PlayedBroker(), PlayedBroker()
    encoded = [Outgoing(EncodedText(b"text"), MAP, A), Outgoing(EncodedText(b"text"), MAP, A, "long way")]
    assert producer_of(together).post_all(encoded, 0, LIMIT, START_MS) == 2
    producer = producer_of(alone)
    producer.send(Outgoing("text", {"n": 1, "s": "x"}, A), None, START_MS)
    producer.send(Outgoing("text", {"n": 1, "s": "x"}, A, "long way"), None, START_MS)
    assert together.client.data_to_send() == alone.client.data_to_send()


def test_they_stop_when_enough_waits_to_be_written_and_go_on_from_there() -> None:
    broker = PlayedBroker()
    producer = producer_of(broker)
    messages = [Outgoing(b"x" * 1000, None, A) for _ in range(10)]
    first = producer.post_all(messages, 0, 3000, START_MS)
    assert 0 < first < 10 and broker.client.pending_bytes() < 4500
    assert producer.post_all(messages, first, 3000, START_MS) == first
    sent = [command for command in broker.receives() if isinstance(command, wire.ActiveMQBytesMessage)]
    assert len(sent) == first
    assert producer.post_all(messages, first, LIMIT, START_MS) == 10
    assert len(broker.receives()) == 10 - first


def test_they_stop_at_one_that_is_answered() -> None:
    broker = PlayedBroker()
    broker.lets_in()
    producer = broker.producer(broker.session(), None)
    messages = [Outgoing("a", None, A, persistent=False), Outgoing("b", None, A), Outgoing("c", None, A)]
    assert producer.post_all(messages, 0, LIMIT, START_MS) == 1
    assert producer.post_all(messages, 1, LIMIT, START_MS) == 1


def test_without_a_link_or_a_producer_nothing_is_posted() -> None:
    broker = PlayedBroker()
    producer = producer_of(broker)
    broker.goes()
    assert producer.post_all([Outgoing("a", None, A)], 0, LIMIT, START_MS) == 0
    broker = PlayedBroker()
    producer = producer_of(broker)
    producer.close()
    assert producer.post_all([Outgoing("a", None, A)], 0, LIMIT, START_MS) == 0


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        (Outgoing("x", None, A, priority=10), MessageFormatError, "a priority is 0 to 9"),
        (Outgoing("x", None, A, time_to_live_ms=-1), MessageFormatError, "time to live of -1 ms"),
        (Outgoing("x"), InvalidDestinationError, "the producer has no destination"),
        (Outgoing(object(), None, A), MessageFormatError, "is no message body"),
        (Outgoing(b"x" * 5000, None, A), ResourceAllocationError, "larger than the broker's limit"),
    ],
)
def test_one_that_cannot_be_sent_is_refused_behind_those_before_it(
    wrong: Outgoing, error: type[JmsError], told: str
) -> None:
    broker = PlayedBroker(preferences=WireFormatPreferences(max_frame_size=4096))
    producer = producer_of(broker)
    with pytest.raises(error, match=told):
        producer.post_all([Outgoing("before", None, A), wrong], 0, LIMIT, START_MS)
    assert producer.posted == 1
    sent = [command for command in broker.receives() if isinstance(command, wire.Message)]
    assert [message.content for message in sent] == [b"\0\0\0\6before"]


def test_a_producer_of_one_destination_may_change_between_both_ways() -> None:
    together, alone = PlayedBroker(), PlayedBroker()
    producer, other = producer_of(together, "queue://Q"), producer_of(alone, "queue://Q")
    for priority in (None, 9, 4, None, 0):
        message = Outgoing("x", priority=priority)
        assert producer.post_all([message], 0, LIMIT, START_MS) == 1
        assert producer.post("y", None, None, None, None, None, None, None, None, None, 0, None, START_MS) > 0
        other.send(message, None, START_MS)
        other.send(Outgoing("y"), None, START_MS)
    assert together.client.data_to_send() == alone.client.data_to_send()


def test_all_arrive_in_order_however_many_and_large_they_are() -> None:
    bodies = [str(number) * (1 + number % 7 * 3000) for number in range(300)]
    with Broker() as broker, blocking.connect(broker.url) as connection:
        with connection.session(acknowledge="transacted") as session:
            producer = session.create_producer(None)
            producer.send_all([Outgoing(body, None, A) for body in bodies])
            with pytest.raises(MessageFormatError):
                producer.send_all([Outgoing("last", None, A), Outgoing(object(), None, A)])
            session.commit()
        with connection.session() as session:
            found = [message.body for message in session.create_browser("queue://A")]
    assert found == [*bodies, "last"]


def test_those_that_are_answered_wait_for_it() -> None:
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        producer = session.create_producer(None)
        producer.send_all([Outgoing(str(number), None, A) for number in range(5)])
        assert broker.queue("A").pending == 5
