"""A hostile broker against the client: class names, lengths, counts, cycles, commands out of place, answers to nothing.

Covers CVE-2023-46604 (a class named in an exception is instantiated), CVE-2014-3576 and CVE-2015-7559 (a peer shuts the
process down) and lengths that are believed before the bytes are there (CVE-2025-27533).
"""

from __future__ import annotations

import sys
import tracemalloc
import zlib
from contextlib import suppress

import pytest

from spanwire.client.addressing.consumer_options import ConsumerOptions
from spanwire.client.protocol.consumer import WINDOW_SLACK
from spanwire.model.errors import JmsError, MessageFormatError, RemoteProtocolError
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import StackElement, Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from tests.support.client_dialogue import PlayedBroker, refusal_of, text_message

MIB = 1024 * 1024
GADGETS = (
    "org.springframework.context.support.ClassPathXmlApplicationContext",
    "antigravity.Gadget",
    "os.system",
    "this",
    "builtins.eval",
    "spanwire.model.errors.AuthenticationError",
)


@pytest.fixture
def broker() -> PlayedBroker:
    played = PlayedBroker()
    played.lets_in()
    return played


def framed(octets: bytes) -> bytes:
    return len(octets).to_bytes(4, "big") + octets


def dispatch_octets(broker: PlayedBroker, consumer_number: int) -> bytes:
    """A good dispatch, with its size, to be spoilt."""
    return FrameEncoder().encode(
        wire.MessageDispatch(
            consumer_id=wire.ConsumerId(connection_id=broker.client.connection_id, session_id=1, value=consumer_number),
            destination=wire.ActiveMQQueue("Q"),
            message=text_message("hello", 1),
        )
    )


@pytest.mark.parametrize("name", GADGETS)
def test_a_class_name_in_any_exception_is_only_text(broker: PlayedBroker, name: str) -> None:
    loaded = set(sys.modules)
    chain = Throwable(name, "http://192.0.2.1/x.xml", [StackElement(name, name, name, 1)], Throwable(name, "http://x"))
    request = broker.client.remove_subscription("s")
    (command,) = broker.receives()
    broker.answers(command, chain)
    error = refusal_of(request)
    assert type(error) is JmsError
    assert str(error) == f"{name.rpartition('.')[2]}: http://192.0.2.1/x.xml"
    broker.sends(wire.ConnectionError(exception=chain))
    consumer = broker.consumer(broker.session())
    broker.sends(
        wire.MessageAck(consumer_id=consumer.info.consumer_id, poison_cause=chain),
        wire.ExceptionResponse(correlation_id=999_999, exception=chain),
    )
    assert set(sys.modules) == loaded


def test_a_class_name_in_the_answer_to_the_login_is_only_text() -> None:
    broker = PlayedBroker()
    broker.shakes_hands()
    (login,) = broker.receives()
    loaded = set(sys.modules)
    with pytest.raises(JmsError, match="ClassPathXmlApplicationContext"):
        broker.answers(login, Throwable(GADGETS[0], "http://192.0.2.1/x.xml"))
    assert set(sys.modules) == loaded


def test_texts_of_the_broker_are_one_short_line(broker: PlayedBroker) -> None:
    request = broker.client.remove_subscription("s")
    (command,) = broker.receives()
    broker.answers(command, Throwable("a.B\n\x1b[2J", "x\r\n\x1b[2J" * 5_000))
    text = str(refusal_of(request))
    assert text.isprintable()
    assert len(text) < 2_100


def test_an_object_message_stays_bytes(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    message = wire.ActiveMQObjectMessage()
    message.message_id = text_message("", 1).message_id
    message.content = b"\xac\xed\x00\x05sr\x00\x11java.util.HashSet"
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    taken = broker.takes(consumer)
    assert (taken.kind, taken.body) == ("object", message.content)


@pytest.mark.parametrize("size", [-1, 0, -(2**31), 2**31 - 1, 102 * MIB])
def test_a_frame_size_that_cannot_be_is_refused_from_its_four_octets(broker: PlayedBroker, size: int) -> None:
    with pytest.raises(RemoteProtocolError, match="frame"):
        broker.sends_octets(size.to_bytes(4, "big", signed=True))


def test_before_the_login_frames_are_small() -> None:
    broker = PlayedBroker()
    broker.shakes_hands()
    with pytest.raises(RemoteProtocolError, match="larger than the limit of 65536"):
        broker.sends_octets((65_537).to_bytes(4, "big"))


def test_every_spoilt_octet_of_a_dispatch_is_refused_or_understood_without_memory(broker: PlayedBroker) -> None:
    good = dispatch_octets(broker, 1)
    tracemalloc.start()
    try:
        for position in range(4, len(good)):
            for value in (0x00, 0x7F, 0xFF):
                victim = PlayedBroker()
                victim.lets_in()
                victim.consumer(victim.session())
                octets = bytearray(dispatch_octets(victim, 1))
                octets[position] = value
                with suppress(RemoteProtocolError):
                    victim.sends_octets(bytes(octets))
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


def test_a_dispatch_cut_anywhere_is_refused(broker: PlayedBroker) -> None:
    whole = dispatch_octets(broker, 1)[4:]
    for end in range(6, len(whole)):
        victim = PlayedBroker()
        victim.lets_in()
        victim.consumer(victim.session())
        with pytest.raises(RemoteProtocolError):
            victim.sends_octets(framed(whole[:end]))


def test_a_body_that_inflates_without_end_is_refused_when_it_is_read(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    message = wire.ActiveMQBytesMessage()
    message.message_id = text_message("", 1).message_id
    message.compressed = True
    message.content = (2**31 - 1).to_bytes(4, "big") + zlib.compress(b"\0" * (64 * MIB))
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    taken = broker.takes(consumer)
    tracemalloc.start()
    try:
        with pytest.raises(MessageFormatError, match="inflates"):
            _ = taken.body
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("content", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe", b"\0\0\0\5hell", b"\0\0"])
def test_a_spoilt_text_fails_alone(broker: PlayedBroker, content: bytes) -> None:
    consumer = broker.consumer(broker.session())
    message = text_message("x", 1)
    message.content = content
    message.marshalled_properties = b"\x7f\xff\xff\xff"
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    taken = broker.takes(consumer)
    with pytest.raises(MessageFormatError):
        _ = taken.body
    with pytest.raises(MessageFormatError):
        _ = taken.properties
    assert broker.client.is_online


def test_maps_inside_maps_inside_maps_end(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    message = text_message("x", 1)
    message.marshalled_properties = b"\0\0\0\1\0\1a\x0b" * 5_000
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    taken = broker.takes(consumer)
    with pytest.raises(MessageFormatError, match="nested"):
        _ = taken.properties


def test_causes_of_causes_end(broker: PlayedBroker) -> None:
    chain = Throwable("a.B", "x")
    for _ in range(31):
        chain = Throwable("a.B", "x", None, chain)
    with pytest.raises(RemoteProtocolError, match="deep"):
        broker.sends(wire.ConnectionError(exception=Throwable("a.B", "x", None, chain)))


def test_no_command_of_a_broker_ends_the_client(broker: PlayedBroker) -> None:
    broker.sends(
        wire.ShutdownInfo(),
        wire.ControlCommand(command="shutdown"),
        wire.ConnectionControl(close=True, exit=True, suspend=True, reconnect_to="tcp://192.0.2.1:1"),
        wire.FlushCommand(),
        wire.RemoveInfo(object_id=wire.ConnectionId(broker.client.connection_id)),
        wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:x-1")),
        wire.SessionInfo(),
        wire.ConsumerInfo(),
        wire.TransactionInfo(),
        wire.BrokerInfo(broker_name="other\n\x1b[2J"),
        wire.ProducerAck(),
        wire.MessagePull(),
    )
    assert broker.client.is_online
    assert broker.client.failover.address.host == "broker"
    assert broker.receives() == []
    assert broker.client.broker_name == "other [2J"


def test_a_command_that_nobody_knows_is_refused(broker: PlayedBroker) -> None:
    with pytest.raises(RemoteProtocolError, match="unknown data structure type 99"):
        broker.sends_octets(framed(b"\x63" + bytes(20)))


def test_a_second_handshake_is_refused(broker: PlayedBroker) -> None:
    with pytest.raises(RemoteProtocolError, match="second WireFormatInfo"):
        broker.sends(wire_format_info(WireFormatPreferences()))


@pytest.mark.parametrize(
    "octets",
    [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"CONNECTED\nversion:1.2\n\n\0", framed(b"\x1e" + bytes(9)), b"\0\0\0\2\1\1"],
)
def test_whoever_is_no_openwire_broker_is_told_apart_at_once(octets: bytes) -> None:
    broker = PlayedBroker()
    broker.opens()
    with pytest.raises(RemoteProtocolError):
        broker.sends_octets(octets)


@pytest.mark.large
def test_a_hundred_thousand_answers_to_nothing_leave_nothing_behind(broker: PlayedBroker) -> None:
    block = b"".join(FrameEncoder().encode(wire.Response(number + 1_000_000)) for number in range(10_000))
    broker.sends_octets(block)
    tracemalloc.start()
    try:
        for _ in range(10):
            broker.sends_octets(block)
        assert tracemalloc.get_traced_memory()[0] < MIB
    finally:
        tracemalloc.stop()
    assert broker.client.correlator.requests == {}
    assert broker.client.take_completed() == []


def test_a_flood_of_reported_errors_is_bounded(broker: PlayedBroker) -> None:
    for number in range(1_000):
        broker.sends(wire.ConnectionError(exception=Throwable("a.B", str(number))))
    assert len(broker.client.reported.errors) == 100


def test_a_broker_that_takes_nothing_gets_no_more_answers_to_its_keep_alives(broker: PlayedBroker) -> None:
    asks = wire.KeepAliveInfo()
    asks.response_required = True
    broker.sends(asks)
    assert len(broker.receives()) == 1
    broker.client.is_congested = True
    broker.sends(*[asks] * 1_000)
    assert broker.client.pending_bytes() == 0


def test_a_second_answer_changes_nothing(broker: PlayedBroker) -> None:
    request = broker.client.remove_subscription("s")
    (command,) = broker.receives()
    broker.answers(command)
    broker.answers(command, Throwable("a.B", "too late"))
    assert refusal_of(request) is None


def test_messages_for_nobody_are_dropped(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    for connection_id, number in (("ID:other-1", consumer.number), (broker.client.connection_id, 77)):
        broker.sends(
            wire.MessageDispatch(
                consumer_id=wire.ConsumerId(connection_id=connection_id, session_id=1, value=number),
                message=text_message("x", 1),
            )
        )
    broker.sends(wire.MessageDispatch(message=text_message("x", 1)))
    assert consumer.next_message(broker.now) is None


def test_a_dispatch_before_the_login_is_dropped() -> None:
    broker = PlayedBroker()
    broker.shakes_hands()
    broker.sends_octets(dispatch_octets(broker, 1))
    assert broker.client.take_woken() == []


def test_more_messages_than_were_asked_for_are_refused(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session(), options=ConsumerOptions(prefetch=10))
    octets = dispatch_octets(broker, consumer.number)
    with pytest.raises(RemoteProtocolError, match="more than the 10 messages"):
        for _ in range(2 * 10 + WINDOW_SLACK + 2):
            broker.sends_octets(octets)


def test_a_message_without_an_id_is_refused(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    message = text_message("x", 1)
    message.message_id = None
    with pytest.raises(RemoteProtocolError, match="no id"):
        broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))


@pytest.mark.parametrize("field", ["destination", "original_destination", "reply_to"])
def test_a_destination_that_cannot_be_is_told_when_it_is_asked_for(broker: PlayedBroker, field: str) -> None:
    consumer = broker.consumer(broker.session())
    message = text_message("x", 1)
    setattr(message, field, wire.ActiveMQQueue("\x00"))
    broker.sends(wire.MessageDispatch(consumer_id=consumer.info.consumer_id, message=message))
    taken = consumer.next_message(broker.now)
    assert taken is not None
    with pytest.raises(MessageFormatError, match="control character"):
        getattr(taken, field)
    assert taken.body == "x"


def test_a_prefetch_beyond_reason_is_the_brokers_word_for_a_count_only(broker: PlayedBroker) -> None:
    consumer = broker.consumer(broker.session())
    broker.sends(wire.ConsumerControl(consumer_id=consumer.info.consumer_id, prefetch=2**31 - 1))
    assert consumer.prefetch <= 32_766
