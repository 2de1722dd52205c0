"""Dialogues between OpenWire clients and the broker: handshake, login, sending, taking, acknowledging, leaving."""

from __future__ import annotations

import logging

import pytest

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.ports import NO_TOKEN, MessageFormat, Principal
from spanwire.model.destination import Destination
from spanwire.model.errors import (
    AuthenticationError,
    AuthorizationError,
    ConfigurationError,
    MessageFormatError,
    SpanwireError,
)
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.info import ConnectionInfo
from spanwire.model.message import FORMAT_STOMP, Message
from spanwire.model.message_view import BOOLEAN_VALUE, STRING_VALUE, TEXT, MessageView, PropertyValue
from spanwire.protocols.base import LOGIN_DEADLINE, ConnectionSettings
from spanwire.protocols.openwire.broker_connection import CLOSE_DELAY, OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatProperties
from spanwire.protocols.primitive_map import MAX_PROPERTIES, decode_plain_map, encode_map
from spanwire.protocols.stomp.message_format import StompMessageFormat
from tests.support.openwire_dialogue import BROKER_ID, LateStore, World, text_of

BEGIN, COMMIT, ROLLBACK, END = 0, 2, 4, 7
DELIVERED, POISON, STANDARD, REDELIVERED, INDIVIDUAL = 0, 1, 2, 3, 4
QUEUE = wire.ActiveMQQueue("Q")


def queue(name: str) -> wire.ActiveMQQueue:
    return wire.ActiveMQQueue(name)


def topic(name: str) -> wire.ActiveMQTopic:
    return wire.ActiveMQTopic(name)


def forced(**wire_format: str) -> ConnectionSettings:
    """A connector whose options make us offer more than loose and uncached."""
    return ConnectionSettings(options={f"wireFormat.{name}": value for name, value in wire_format.items()})


def test_the_broker_offers_version_12_loose_and_uncached_at_once() -> None:
    peer = World().peer()
    peer.flush()
    info = peer.receives(wire.WireFormatInfo)
    properties = WireFormatProperties(info)
    assert info.version == 12
    assert not properties.flag("TightEncodingEnabled")
    assert not properties.flag("CacheEnabled")
    assert properties.number("MaxInactivityDuration") == 30_000


def test_s12_cve_2017_15709_the_handshake_names_the_provider_and_no_platform() -> None:
    peer = World().peer()
    peer.flush()
    info = peer.receives(wire.WireFormatInfo)
    properties = WireFormatProperties(info)
    assert properties.text("ProviderName") == "Spanwire"
    assert properties.text("PlatformDetails") is None
    assert properties.text("ProviderVersion") is None
    assert b"ython" not in (info.marshalled_properties or b"")


def test_the_connectors_options_change_what_is_offered() -> None:
    settings = ConnectionSettings(
        max_frame_size=1_000_000,
        options={
            "wireFormat.maxInactivityDuration": "9000",
            "wireFormat.cacheEnabled": "true",
            "wireFormat.version": "9",
        },
    )
    peer = World().peer(settings=settings)
    peer.flush()
    info = peer.receives(wire.WireFormatInfo)
    properties = WireFormatProperties(info)
    assert info.version == 9
    assert properties.flag("CacheEnabled")
    assert properties.number("MaxInactivityDuration") == 9000
    assert properties.number("MaxFrameSize") == 1_000_000


@pytest.mark.parametrize("options", [{"wireFormat.cacheEnabled": "maybe"}, {"wireFormat.version": "new"}])
def test_an_option_that_cannot_be_read_is_named(options: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        World().peer(settings=ConnectionSettings(options=options))


def test_the_broker_introduces_itself_before_the_login() -> None:
    world = World()
    peer = world.peer(settings=ConnectionSettings(local_uri="tcp://127.0.0.1:61616"))
    peer.flush()
    remote = peer.receives(wire.WireFormatInfo)
    peer.receives_nothing()
    peer.sends_octets(FrameEncoder().encode(remote), settle=False)
    peer.decoder.negotiated(peer.wire_format)
    world.settle()
    info = peer.receives(wire.BrokerInfo)
    assert info.broker_id is not None
    assert (info.broker_id.value, info.broker_name) == (BROKER_ID, "golden")
    assert info.broker_url == "tcp://127.0.0.1:61616"


def test_a_version_below_the_connectors_minimum_is_refused() -> None:
    world = World()
    peer = world.peer(version=5, settings=ConnectionSettings(options={"minmumWireFormatVersion": "6"}))
    peer.sends_octets(FrameEncoder().encode(wire.WireFormatInfo(version=5)))
    assert peer.connection.closed


def test_the_login_is_answered_and_a_manageable_client_gets_a_connection_control() -> None:
    world = World()
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:a:1")
    assert peer.receives(wire.Response).correlation_id == 1
    control = peer.receives(wire.ConnectionControl)
    assert (control.connected_brokers, control.reconnect_to) == ("", "")
    peer.receives_nothing()


def test_a_frame_that_arrives_byte_by_byte_is_the_same() -> None:
    world = World()
    peer = world.peer()
    peer.chunk = 1
    peer.negotiates()
    peer.logs_in("ID:a:1")
    peer.sends(wire.SessionInfo(peer.session_id))
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "slow"))
    assert world.broker.destination_views()[0].pending == 1


class OneUser:
    """Lets one user in with one password."""

    def authenticate(self, info: ConnectionInfo) -> Principal:
        if (info.user_name, info.password) != ("user", "secret"):
            raise AuthenticationError(f"User name [{info.user_name}] or password is invalid.")
        return Principal("user")


def test_a_refused_login_is_told_and_closed_two_seconds_later(caplog: pytest.LogCaptureFixture) -> None:
    world = World(authenticator=OneUser())
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:a:1", user="user", password="wrong")
    response = peer.receives(wire.ExceptionResponse)
    assert response.exception is not None
    assert response.exception.class_name == "java.lang.SecurityException"
    assert response.exception.message == "User name [user] or password is invalid."
    assert [record.name for record in caplog.records] == ["spanwire.audit"]
    assert not peer.connection.closed
    world.passes(CLOSE_DELAY)
    assert peer.connection.closed
    assert world.broker.connection_views() == []


def test_after_a_refused_login_nothing_is_taken_any_more() -> None:
    world = World(authenticator=OneUser())
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:a:1", user="user", password="wrong")
    peer.received.clear()
    peer.logs_in("ID:a:1", user="user", password="secret")
    peer.receives_nothing()


def test_a_second_connection_with_the_same_client_id_is_refused() -> None:
    world = World()
    world.connect(client_id="dup")
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:b:1", "dup")
    response = peer.receives(wire.ExceptionResponse)
    assert response.exception is not None
    assert response.exception.class_name == "javax.jms.InvalidClientIDException"
    assert "Client: dup already connected from tcp://127.0.0.1:50000" in (response.exception.message or "")


def test_a_connection_without_a_client_id_is_refused() -> None:
    peer = World().peer()
    peer.negotiates()
    assert peer.fails(wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:a:1"))) == (
        "javax.jms.InvalidClientIDException",
        "No clientID specified for connection request",
    )


def test_a_reconnecting_failover_client_may_say_so_first() -> None:
    world = World()
    peer = world.peer()
    peer.negotiates()
    peer.sends(wire.ConnectionControl(fault_tolerant=True))
    peer.logs_in("ID:a:1")
    peer.receives(wire.Response)


def test_who_does_not_log_in_is_closed_at_the_deadline() -> None:
    world = World()
    peer = world.peer()
    peer.negotiates()
    world.passes(LOGIN_DEADLINE - 0.1)
    assert not peer.connection.closed
    world.passes(0.2)
    assert peer.connection.closed


def test_who_never_says_anything_is_closed_at_the_deadline() -> None:
    world = World()
    peer = world.peer()
    world.passes(LOGIN_DEADLINE + 0.1)
    assert peer.connection.closed


def test_a_silent_broker_sends_a_keep_alive_each_third_of_the_period() -> None:
    world = World()
    peer = world.connect()
    for _ in range(10):
        peer.sends(wire.KeepAliveInfo())
        world.passes(9.9)
        peer.receives_nothing()
        world.passes(0.1)
        peer.receives(wire.KeepAliveInfo)
        peer.receives_nothing()


def test_a_broker_that_writes_sends_no_keep_alive() -> None:
    world = World()
    peer = world.connect()
    for _ in range(20):
        world.passes(1.0)
        peer.succeeds(wire.FlushCommand())
    assert "KeepAliveInfo" not in peer.told()


def test_a_silent_client_is_closed_after_the_period() -> None:
    world = World()
    peer = world.connect()
    world.passes(29.9)
    assert not peer.connection.closed
    world.passes(0.2)
    assert peer.connection.closed
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.exception.message == "Channel was inactive for too long: 30000 ms"
    assert world.broker.connection_views() == []


def test_the_shorter_period_of_the_two_holds() -> None:
    world = World()
    peer = world.connect(inactivity_ms=3000)
    world.passes(11.0)
    peer.sends(wire.KeepAliveInfo())
    world.passes(2.9)
    assert not peer.connection.closed
    world.passes(0.2)
    assert peer.connection.closed


def test_a_client_that_waits_for_the_initial_delay_is_not_silent_too_long() -> None:
    world = World()
    peer = world.connect(inactivity_ms=3000)
    world.passes(10.0 + 1.9)
    assert not peer.connection.closed
    world.passes(0.2)
    assert peer.connection.closed


def test_without_a_period_nobody_is_watched() -> None:
    world = World()
    peer = world.connect(inactivity_ms=0)
    world.passes(100_000.0)
    assert not peer.connection.closed
    assert peer.connection.next_timeout() is None
    peer.receives_nothing()


def test_a_keep_alive_that_asks_for_an_answer_gets_one() -> None:
    peer = World().connect()
    peer.requests(wire.KeepAliveInfo())
    assert not peer.receives(wire.KeepAliveInfo).response_required
    peer.receives_nothing()


def test_silence_is_no_sign_while_we_do_not_read() -> None:
    world = World(limits=UsageLimits(memory_bytes=100_000))
    peer = world.connect()
    peer.produces(QUEUE)
    while peer.connection.wants_read:
        peer.sends(peer.text_message(QUEUE, "x" * 100_000, persistent=False))
    world.passes(100.0)
    assert not peer.connection.closed
    consumer = world.connect()
    consumer.consumes(QUEUE)
    while not peer.connection.wants_read:
        for message in consumer.dispatched():
            consumer.acknowledges(message)
    world.passes(29.0)
    assert not peer.connection.closed
    world.passes(12.0)
    assert peer.connection.closed


@pytest.mark.parametrize("last_asks", [False, True])
def test_a_connection_that_leaves_is_answered_when_its_waiting_sends_are_through(last_asks: bool) -> None:
    world = World(limits=UsageLimits(memory_bytes=20_000))
    peer = world.connect()
    peer.produces(QUEUE)
    for number in range(7):
        peer.sends(peer.text_message(QUEUE, str(number) + "x" * 6_000, persistent=False))
    peer.sends(peer.text_message(QUEUE, "7", persistent=False), response=last_asks)
    peer.requests(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)))
    peer.receives_nothing()
    consumer = world.connect()
    consumer.consumes(QUEUE)
    texts: list[str] = []
    while messages := consumer.dispatched():
        for message in messages:
            texts.append(text_of(message)[:1])
            consumer.acknowledges(message)
    assert texts == [str(number) for number in range(8)]
    assert peer.told() == ["Response"] * (1 + last_asks)
    assert world.broker.statistics().memory_bytes == 0
    assert world.broker.statistics().connections == 1


def test_a_consumer_is_answered_before_its_first_dispatch() -> None:
    world = World()
    peer = world.connect()
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "waiting"))
    peer.requests(wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=QUEUE, prefetch_size=10))
    assert peer.told() == ["Response", "MessageDispatch"]


def test_messages_come_in_order_with_growing_broker_sequences() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    for number in range(5):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    messages = peer.dispatched()
    assert [text_of(message) for message in messages] == ["0", "1", "2", "3", "4"]
    sequences = [message.message_id.broker_sequence_id for message in messages if message.message_id]
    assert sequences == sorted(set(sequences))
    assert sequences[0] > 0


def test_a_number_that_another_broker_gave_is_replaced() -> None:
    world = World()
    sender, receiver = world.connect(), world.connect()
    sender.produces()
    receiver.consumes(QUEUE)
    message = sender.text_message(QUEUE, "x")
    assert message.message_id is not None
    message.message_id.broker_sequence_id = -1
    sender.sends(message)
    (received,) = receiver.dispatched()
    assert received.message_id is not None
    assert received.message_id.broker_sequence_id == 1


def test_the_prefetch_is_the_window_and_an_acknowledgement_opens_it() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, prefetch_size=2)
    peer.produces(QUEUE)
    for number in range(4):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    first, second = peer.dispatched()
    peer.acknowledges(second, first=first, count=2)
    assert [text_of(message) for message in peer.dispatched()] == ["2", "3"]


def test_delivered_acknowledgements_move_the_window_only() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, prefetch_size=2)
    peer.produces(QUEUE)
    for number in range(3):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    first, _ = peer.dispatched()
    peer.acknowledges(first, kind=DELIVERED)
    assert [text_of(message) for message in peer.dispatched()] == ["2"]
    assert world.broker.destination_views()[0].dequeued == 0


def test_individual_acknowledgements_take_one_message_out_of_the_middle() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    for number in range(3):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    _, second, _ = peer.dispatched()
    peer.acknowledges(second, kind=INDIVIDUAL)
    peer.succeeds(wire.RemoveInfo(object_id=peer.consumer_id(), last_delivered_sequence_id=-1))
    peer.consumes(QUEUE, 2)
    assert [text_of(message) for message in peer.dispatched()] == ["0", "2"]


def test_a_poisoned_message_goes_to_the_dead_letter_queue() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "poison"))
    (message,) = peer.dispatched()
    peer.acknowledges(message, kind=POISON)
    peer.consumes(queue("ActiveMQ.DLQ"), 2)
    (dead,) = peer.dispatched()
    assert text_of(dead) == "poison"
    assert dead.original_destination == QUEUE


@pytest.mark.parametrize("transacted", [False, True])
def test_a_dead_letter_tells_why_its_consumer_gave_up(transacted: bool) -> None:
    peer = World().connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "poison"))
    (message,) = peer.dispatched()
    cause = Throwable("java.lang.Throwable", "Delivery[7] exceeds the limit")
    if transacted:
        peer.transacts(BEGIN)
        peer.acknowledges(message, kind=POISON, poison_cause=cause, transaction_id=peer.transaction_id())
        peer.succeeds(peer.transaction(COMMIT))
    else:
        peer.acknowledges(message, kind=POISON, poison_cause=cause)
    peer.consumes(queue("ActiveMQ.DLQ"), 2)
    (dead,) = peer.dispatched()
    assert dead.marshalled_properties is not None
    properties = decode_plain_map(dead.marshalled_properties)
    assert properties["dlqDeliveryFailureCause"] == "java.lang.Throwable: Delivery[7] exceeds the limit"
    assert properties["originalExpiration"] == 0


def test_what_a_consumer_saw_comes_again_as_redelivered_and_the_rest_does_not() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    for number in range(3):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    _, second, _ = peer.dispatched()
    assert second.message_id is not None
    last = second.message_id.broker_sequence_id
    peer.succeeds(wire.RemoveInfo(object_id=peer.consumer_id(), last_delivered_sequence_id=last))
    peer.requests(wire.ConsumerInfo(consumer_id=peer.consumer_id(2), destination=QUEUE, prefetch_size=10))
    dispatches = [command for command in peer.received if isinstance(command, wire.MessageDispatch)]
    assert [dispatch.redelivery_counter for dispatch in dispatches] == [1, 1, 0]


def test_what_was_seen_is_told_when_the_whole_connection_is_removed_too() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "a"))
    peer.dispatched()
    peer.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id), last_delivered_sequence_id=-1))
    other = world.connect()
    other.consumes(QUEUE)
    assert other.receives(wire.MessageDispatch).redelivery_counter == 0


def test_what_a_client_removes_after_its_connection_is_answered_and_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)))
    peer.succeeds(wire.RemoveInfo(object_id=peer.consumer_id()))
    assert caplog.records == []


def test_what_a_vanished_client_held_comes_again_as_redelivered() -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.consumes(QUEUE)
    other.produces(QUEUE)
    other.succeeds(other.text_message(QUEUE, "again"))
    peer.vanishes()
    other.consumes(QUEUE)
    dispatch = other.receives(wire.MessageDispatch)
    assert dispatch.redelivery_counter == 1
    assert len(world.broker.connection_views()) == 1


def test_old_versions_do_not_tell_what_they_saw_so_all_counts() -> None:
    world = World()
    peer = world.connect(version=4)
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "a"))
    peer.dispatched()
    peer.succeeds(wire.RemoveInfo(object_id=peer.consumer_id()))
    peer.consumes(QUEUE, 2)
    assert peer.receives(wire.MessageDispatch).redelivery_counter == 1


def test_composite_and_wildcard_consumers_acknowledge_each_message_of_their_destinations() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(queue("A,B"))
    peer.consumes(queue("W.>"), 2)
    peer.produces()
    for name in ("A", "B", "W.1", "W.2"):
        peer.succeeds(peer.text_message(queue(name), name))
    dispatches = [command for command in peer.received if isinstance(command, wire.MessageDispatch)]
    assert [(d.destination, d.consumer_id) for d in dispatches] == [
        (queue("A"), peer.consumer_id()),
        (queue("B"), peer.consumer_id()),
        (queue("W.1"), peer.consumer_id(2)),
        (queue("W.2"), peer.consumer_id(2)),
    ]
    for message, consumer in zip(peer.dispatched(), (1, 1, 2, 2), strict=True):
        peer.acknowledges(message, consumer=consumer)
    assert peer.told() == []
    assert [view.dequeued for view in world.broker.destination_views() if "queue" in view.destination] == [1, 1, 1, 1]


def test_a_composite_send_reaches_every_part_with_its_own_destination() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(queue("A"))
    peer.consumes(topic("B"), 2)
    peer.produces()
    peer.succeeds(peer.text_message(queue("A,topic://B"), "both"))
    assert [message.destination for message in peer.dispatched()] == [queue("A"), topic("B")]


def test_selectors_choose_by_headers_of_the_message() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, selector="JMSType = 'wanted'")
    peer.produces(QUEUE)
    for kind in ("other", "wanted"):
        message = peer.text_message(QUEUE, kind)
        message.type = kind
        peer.succeeds(message)
    assert [text_of(message) for message in peer.dispatched()] == ["wanted"]


def test_a_pull_gets_one_message_and_an_empty_dispatch_when_there_is_none() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, prefetch_size=0)
    peer.sends(wire.MessagePull(consumer_id=peer.consumer_id(), destination=QUEUE, timeout=-1))
    assert peer.receives(wire.MessageDispatch).message is None
    peer.sends(wire.MessagePull(consumer_id=peer.consumer_id(), destination=QUEUE, timeout=500))
    peer.receives_nothing()
    world.passes(0.6)
    assert peer.receives(wire.MessageDispatch).message is None
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "one"))
    peer.succeeds(peer.text_message(QUEUE, "two"))
    peer.receives_nothing()
    peer.sends(wire.MessagePull(consumer_id=peer.consumer_id(), destination=QUEUE, timeout=0))
    assert [text_of(message) for message in peer.dispatched()] == ["one"]


def test_a_browser_sees_all_and_takes_nothing() -> None:
    world = World()
    peer = world.connect()
    peer.produces(QUEUE)
    for number in range(3):
        peer.succeeds(peer.text_message(QUEUE, str(number)))
    peer.consumes(QUEUE, browser=True, prefetch_size=500)
    dispatches = [command for command in peer.received if isinstance(command, wire.MessageDispatch)]
    assert [d.message is None for d in dispatches] == [False, False, False, True]
    assert world.broker.destination_views()[0].pending == 3


def test_the_prefetch_can_be_changed_later() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, prefetch_size=0)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "one"))
    peer.receives_nothing()
    peer.sends(wire.ConsumerControl(destination=QUEUE, consumer_id=peer.consumer_id(), prefetch=10))
    assert [text_of(message) for message in peer.dispatched()] == ["one"]


def test_large_messages_stay_whole_and_in_order() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    texts = ["a", "B" * 40_000, "c", "D" * 1_000_000, "e"]
    for text in texts:
        peer.sends(peer.text_message(QUEUE, text))
    assert [text_of(message) for message in peer.dispatched()] == texts


def test_large_messages_are_not_copied_into_the_buffer() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    message = peer.text_message(QUEUE, "x" * 100_000)
    peer.connection.receive_data(peer.encoder.encode(message), world.now)
    sizes = [len(chunk) for chunk in peer.connection.data_to_send()]
    assert len(sizes) == 3
    assert sizes[1] > 100_000
    assert sizes[0] < 300
    assert sizes[2] == 4


def test_a_window_producer_gets_back_the_size_of_each_message() -> None:
    world = World()
    peer = world.connect()
    peer.produces(QUEUE, window=4096)
    peer.sends(peer.text_message(QUEUE, "w1"))
    ack = peer.receives(wire.ProducerAck)
    assert (ack.producer_id, ack.size) == (peer.producer_id(), 1024 + 6)
    peer.succeeds(peer.text_message(QUEUE, "asked for an answer"))
    peer.receives_nothing()


def test_a_persistent_send_is_answered_when_it_is_stored() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.produces(QUEUE)
    command_id = peer.requests(peer.text_message(QUEUE, "kept"))
    peer.receives_nothing()
    peer.succeeds(peer.text_message(QUEUE, "not kept", persistent=False))
    world.stores()
    assert peer.receives(wire.Response).correlation_id == command_id


def test_a_durable_subscription_and_its_end_are_answered_when_they_are_stored() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    consumer_id = peer.consumer_id()
    begun = peer.requests(wire.ConsumerInfo(consumer_id=consumer_id, destination=topic("T"), subscription_name="d"))
    peer.receives_nothing()
    world.stores()
    assert peer.receives(wire.Response).correlation_id == begun
    peer.succeeds(wire.RemoveInfo(object_id=consumer_id))
    removal = wire.RemoveSubscriptionInfo(connection_id=wire.ConnectionId(peer.connection_id), subscription_name="d")
    command_id = peer.requests(removal)
    peer.receives_nothing()
    world.stores()
    assert peer.receives(wire.Response).correlation_id == command_id


def test_a_window_is_given_back_when_the_message_is_stored() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.produces(QUEUE, window=4096)
    peer.sends(peer.text_message(QUEUE, "w"))
    peer.receives_nothing()
    world.stores()
    assert peer.receives(wire.ProducerAck).size == 1024 + 5


def test_the_window_of_a_producer_that_left_is_nobodys() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.produces(QUEUE, window=4096)
    peer.sends(peer.text_message(QUEUE, "w"))
    peer.sends(wire.RemoveInfo(object_id=peer.producer_id()))
    world.stores()
    peer.receives_nothing()


@pytest.mark.parametrize("window", [0, 400_000])
@pytest.mark.parametrize("late", [False, True])
def test_a_one_way_send_that_is_refused_is_told_as_a_connection_error_and_leaves_its_window(
    late: bool, window: int
) -> None:
    limits = UsageLimits(memory_bytes=100_000, fail_if_no_space=not late, fail_after_ms=500 if late else 0)
    world = World(limits=limits)
    peer = world.connect()
    peer.produces(QUEUE, window=window)
    text = "x" * 99_500
    peer.sends(peer.text_message(QUEUE, text))
    if window:
        peer.receives(wire.ProducerAck)
    peer.sends(peer.text_message(QUEUE, text))
    if late:
        peer.receives_nothing()
        world.passes(0.5)
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.exception.class_name == "javax.jms.ResourceAllocationException"
    if window:
        assert peer.receives(wire.ProducerAck).size == 1024 + 4 + len(text)
    peer.receives_nothing()
    assert not peer.connection.closed


def test_command_ids_of_any_sign_come_back() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.produces(QUEUE)
    for command_id in (-1, -(2**31), 2**31 - 1):
        message = peer.text_message(QUEUE, "x")
        message.command_id = command_id
        message.response_required = True
        peer.sends_octets(peer.encoder.encode(message))
    world.stores()
    assert [peer.receives(wire.Response).correlation_id for _ in range(3)] == [-1, -(2**31), 2**31 - 1]


def test_a_store_that_fails_refuses_what_waited_and_ends_the_connections() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.produces(QUEUE)
    peer.requests(peer.text_message(QUEUE, "lost"))
    world.store_fails("the disk is full")
    response = peer.receives(wire.ExceptionResponse)
    assert response.exception is not None
    assert (response.exception.class_name, response.exception.message) == ("java.io.IOException", "the disk is full")
    assert peer.connection.closed


def test_a_commit_is_answered_when_it_is_stored_and_dispatched_then() -> None:
    world = World(store=LateStore())
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.transacts(BEGIN)
    message = peer.text_message(QUEUE, "in a transaction")
    message.transaction_id = peer.transaction_id()
    peer.sends(message)
    command_id = peer.transacts(COMMIT, response=True)
    peer.receives_nothing()
    world.stores()
    assert peer.receives(wire.Response).correlation_id == command_id
    assert [text_of(message) for message in peer.dispatched()] == ["in a transaction"]


@pytest.mark.parametrize("transacted", [False, True])
def test_a_message_with_too_many_properties_is_refused(transacted: bool) -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    message = peer.text_message(QUEUE, "x")
    message.marshalled_properties = encode_map({f"{n:x}": (BOOLEAN_VALUE, True) for n in range(MAX_PROPERTIES + 1)})
    if transacted:
        peer.transacts(BEGIN)
        message.transaction_id = peer.transaction_id()
    peer.sends(message)
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert f"more than {MAX_PROPERTIES} entries" in (error.exception.message or "")
    if transacted:
        assert "rollback only" in (peer.fails(peer.transaction(COMMIT))[1] or "")
    peer.consumes(QUEUE, 2)
    assert peer.dispatched() == []


def test_a_rolled_back_send_never_was() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.transacts(BEGIN)
    message = peer.text_message(QUEUE, "never")
    message.transaction_id = peer.transaction_id()
    peer.sends(message)
    peer.succeeds(peer.transaction(END))
    peer.succeeds(peer.transaction(ROLLBACK))
    assert peer.dispatched() == []


@pytest.mark.parametrize("kind", [COMMIT, ROLLBACK])
def test_an_unknown_transaction_is_refused(kind: int) -> None:
    peer = World().connect()
    assert peer.fails(peer.transaction(kind, 777)) == (
        "javax.jms.JMSException",
        f"Transaction 'TX:{peer.connection_id}:777' has not been started.",
    )


def test_a_send_in_an_unknown_transaction_is_refused() -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    message = peer.text_message(QUEUE, "x")
    message.transaction_id = peer.transaction_id(782)
    assert peer.fails(message)[1] == f"Transaction 'TX:{peer.connection_id}:782' has not been started."


class ReadOnly:
    """Nobody may write to one queue."""

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        if action == "write" and destination.name == "RO.a":
            raise AuthorizationError(f"User {principal.name} is not authorized to write to: {destination}")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


def test_a_transaction_that_lost_a_message_cannot_be_committed() -> None:
    peer = World(authorizer=ReadOnly()).connect(user="user")
    peer.produces()
    peer.transacts(BEGIN)
    for name in ("RO.a", "allowed"):
        message = peer.text_message(queue(name), name)
        message.transaction_id = peer.transaction_id()
        peer.sends(message)
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.exception.class_name == "java.lang.SecurityException"
    assert error.exception.message == "User user is not authorized to write to: queue://RO.a"
    class_name, text = peer.fails(peer.transaction(COMMIT))
    assert class_name == "javax.transaction.xa.XAException"
    assert text == "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100"
    peer.consumes(queue("allowed"))
    assert peer.dispatched() == []


def test_a_transaction_that_lost_an_acknowledgement_cannot_be_committed() -> None:
    peer = World().connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.transacts(BEGIN)
    peer.acknowledges(peer.text_message(QUEUE, "never sent"), transaction_id=peer.transaction_id())
    peer.receives(wire.ConnectionError)
    assert peer.fails(peer.transaction(COMMIT))[0] == "javax.transaction.xa.XAException"


def test_an_unknown_transaction_type_is_refused() -> None:
    peer = World().connect()
    assert peer.fails(peer.transaction(99))[1] == "Transaction info type unknown: 99"


def test_a_bad_selector_is_told_as_activemq_does() -> None:
    peer = World().connect()
    command_id = peer.requests(
        wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=QUEUE, selector="a = = 1", prefetch_size=1)
    )
    response = peer.receives(wire.ExceptionResponse)
    assert response.correlation_id == command_id
    throwable = response.exception
    assert throwable is not None
    assert throwable.cause is not None
    assert (throwable.class_name, throwable.message) == ("javax.jms.InvalidSelectorException", "a = = 1")
    assert throwable.cause.class_name == "org.apache.activemq.selector.ParseException"
    assert throwable.stack == []


def test_an_error_of_a_one_way_command_is_a_connection_error_and_the_connection_lives_on() -> None:
    peer = World().connect()
    peer.sends(peer.text_message(QUEUE, "x"))
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.connection_id == wire.ConnectionId(peer.connection_id)
    assert error.exception.message == "Cannot send message to queue://Q with invalid (null) producer state"
    assert not peer.connection.closed
    peer.produces(QUEUE)


def test_unknown_sessions_consumers_and_producers_are_named() -> None:
    peer = World().connect()
    unknown = wire.ProducerId(connection_id=peer.connection_id, session_id=999, value=1)
    session = wire.SessionId(connection_id=peer.connection_id, value=666)
    expected = [
        (wire.ProducerInfo(producer_id=unknown, destination=QUEUE), "session that had not been registered"),
        (wire.RemoveInfo(object_id=peer.consumer_id(666)), "Cannot remove a consumer that had not been registered"),
        (wire.RemoveInfo(object_id=peer.producer_id(666)), "Cannot remove a producer that had not been registered"),
        (wire.RemoveInfo(object_id=session), "Cannot remove session that had not been registered"),
        (wire.MessagePull(consumer_id=peer.consumer_id(666)), "The subscription does not exist"),
    ]
    for command, text in expected:
        assert text in (peer.fails(command)[1] or "")
    assert not peer.connection.closed


def test_an_acknowledgement_of_a_message_that_is_not_out_is_refused() -> None:
    peer = World().connect()
    peer.consumes(QUEUE)
    peer.acknowledges(peer.text_message(QUEUE, "never sent"), response=True)
    answer = peer.receives(wire.ExceptionResponse)
    assert answer.exception is not None
    assert "Could not correlate acknowledgment" in (answer.exception.message or "")


def test_a_failover_client_may_acknowledge_what_the_connection_before_had_given_it() -> None:
    peer = World().connect(fault_tolerant=True)
    peer.consumes(QUEUE)
    peer.acknowledges(peer.text_message(QUEUE, "of the connection before"), response=True)
    peer.receives(wire.Response)
    peer.receives_nothing()


def test_an_acknowledgement_for_an_unknown_consumer_is_refused() -> None:
    peer = World().connect()
    ack = wire.MessageAck(consumer_id=peer.consumer_id(666), destination=QUEUE, ack_type=2, message_count=1)
    assert "The subscription does not exist" in (peer.fails(ack)[1] or "")


def test_a_consumer_announced_twice_goes_on_as_it_is() -> None:
    world = World()
    peer = world.connect()
    info = wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=QUEUE, prefetch_size=1)
    for _ in range(2):
        peer.requests(info)
        peer.receives(wire.Response)
    assert [view.consumers for view in world.broker.connection_views()] == [1]


def test_an_unknown_durable_subscription_cannot_be_removed() -> None:
    peer = World().connect()
    removal = wire.RemoveSubscriptionInfo(connection_id=wire.ConnectionId(peer.connection_id), subscription_name="d")
    class_name, text = peer.fails(removal)
    assert class_name == "javax.jms.InvalidDestinationException"
    assert (text or "").startswith("No durable subscription exists for clientID: ")


def test_a_null_destination_is_refused() -> None:
    peer = World().connect()
    class_name, _ = peer.fails(wire.ConsumerInfo(consumer_id=peer.consumer_id()))
    assert class_name == "javax.jms.InvalidDestinationException"


def test_a_network_subscription_of_a_client_is_refused_as_not_supported_yet() -> None:
    peer = World().connect()
    network = wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=topic("T"), network_subscription=True)
    assert "not supported yet" in (peer.fails(network)[1] or "")


def test_a_duplex_bridge_of_another_broker_is_refused_in_clear_words() -> None:
    world = World()
    peer = world.peer()
    peer.negotiates()
    peer.sends(wire.BrokerInfo(broker_name="other", network_connection=True, duplex_connection=True))
    peer.receives_nothing()
    peer.logs_in("ID:bridge:1")
    peer.receives(wire.Response)
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert "duplex connections are not served here" in (error.exception.message or "")
    assert world.broker.connection_views() == []
    world.passes(CLOSE_DELAY)
    assert peer.connection.closed


def test_a_limit_of_the_broker_is_told() -> None:
    peer = World().connect()
    for value in range(1000):
        peer.produces(QUEUE, value)
    class_name, text = peer.fails(wire.ProducerInfo(producer_id=peer.producer_id(1000), destination=QUEUE))
    assert class_name == "javax.jms.ResourceAllocationException"
    assert "at maximum limit: 1000" in (text or "")


def test_commands_without_effect_are_answered() -> None:
    peer = World().connect()
    peer.succeeds(wire.FlushCommand())
    peer.succeeds(wire.ConnectionControl(suspend=True))
    peer.succeeds(wire.MessageDispatchNotification(destination=QUEUE))


def test_a_client_that_leaves_in_order_leaves_nothing_behind() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)))
    assert world.broker.connection_views() == []
    peer.sends(wire.KeepAliveInfo())
    peer.sends(wire.ShutdownInfo())
    assert peer.connection.closed
    peer.receives_nothing()


def test_after_the_connection_was_removed_nothing_else_is_taken() -> None:
    peer = World().connect()
    peer.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)))
    peer.sends(wire.SessionInfo(peer.session_id))
    assert peer.connection.closed


def test_a_removed_session_takes_its_producers_and_consumers_along() -> None:
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(wire.RemoveInfo(object_id=peer.session_id))
    assert "invalid (null) producer state" in (peer.fails(peer.text_message(QUEUE, "x"))[1] or "")
    (view,) = world.broker.connection_views()
    assert (view.consumers, view.producers) == (0, 0)


def test_each_producer_counts_its_messages() -> None:
    world = World()
    peer = world.connect()
    for value in (1, 2):
        peer.produces(QUEUE, value)
    for _ in range(3):
        peer.sends(peer.text_message(QUEUE, "x"))
    overview = world.broker.overview
    (state,) = overview.connections()
    views = [overview.producer_view(state, info) for info in overview.producers(state)]
    assert [(view.sent, view.blocked_sends, view.blocked_ms) for view in views] == [(3, 0, 0), (0, 0, 0)]


def test_a_stopping_broker_says_so() -> None:
    world = World()
    peer = world.connect()
    world.broker.stop(world.now)
    world.settle()
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.exception.message == "the broker is stopping"
    assert peer.connection.closed


def test_a_socket_that_breaks_twice_is_gone_once() -> None:
    world = World()
    peer = world.connect()
    peer.vanishes()
    peer.vanishes()
    assert world.broker.connection_views() == []


def test_temporary_destinations_end_with_their_connection() -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    reply = wire.ActiveMQTempQueue(peer.connection_id + ":1")
    peer.succeeds(wire.DestinationInfo(connection_id=wire.ConnectionId(peer.connection_id), destination=reply))
    peer.vanishes()
    other.produces()
    assert other.fails(other.text_message(reply, "late")) == (
        "org.apache.activemq.DestinationDoesNotExistException",
        f"temp-queue://{reply.physical_name}",
    )


@pytest.mark.parametrize("version", range(1, 13))
def test_a_client_of_each_version_connects_sends_takes_and_acknowledges(version: int) -> None:
    world = World()
    peer = world.connect(version=version)
    assert peer.wire_format.version == version
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "über alle"))
    (message,) = peer.dispatched()
    assert text_of(message) == "über alle"
    peer.acknowledges(message, response=True)
    peer.receives(wire.Response)
    assert world.broker.destination_views()[0].dequeued == 1


@pytest.mark.parametrize("sender", [1, 2, 3, 9, 10, 12])
@pytest.mark.parametrize("taker", [1, 2, 3, 9, 10, 12])
def test_messages_cross_between_all_layouts(sender: int, taker: int) -> None:
    world = World()
    one, two = world.connect(version=sender), world.connect(version=taker)
    two.consumes(QUEUE)
    one.produces(QUEUE)
    message = one.text_message(QUEUE, "crossing")
    message.correlation_id = "c"
    message.group_id = "g"
    message.reply_to = topic("R")
    one.succeeds(message)
    (came,) = two.dispatched()
    assert (text_of(came), came.correlation_id, came.group_id, came.reply_to) == ("crossing", "c", "g", topic("R"))
    two.acknowledges(came, response=True)
    two.receives(wire.Response)


def test_a_listener_knows_the_temporary_destinations_before_its_answer_comes() -> None:
    world = World()
    owner, listener = world.connect(), world.connect()
    temporary = wire.ActiveMQTempQueue(f"{owner.connection_id}:1")
    owner.succeeds(
        wire.DestinationInfo(
            connection_id=wire.ConnectionId(owner.connection_id), destination=temporary, operation_type=0
        )
    )
    destination = topic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic")
    listener.requests(
        wire.ConsumerInfo(consumer_id=listener.consumer_id(), destination=destination, prefetch_size=1000)
    )
    assert listener.told() == ["MessageDispatch", "Response"]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 8, 9, 10, 12])
def test_advisories_reach_old_versions_in_their_own_layout(version: int) -> None:
    world = World()
    listener, other = world.connect(version=version), world.connect()
    listener.consumes(topic("ActiveMQ.Advisory.Consumer.Queue.Q"))
    other.consumes(QUEUE, selector="a = 1")
    (advisory,) = listener.dispatched()
    subject = advisory.data_structure
    assert isinstance(subject, wire.ConsumerInfo)
    assert (subject.consumer_id, subject.destination, subject.selector) == (other.consumer_id(), QUEUE, "a = 1")


@pytest.mark.parametrize(("tight", "cache"), [(True, False), (False, True), (True, True)])
def test_a_connector_may_insist_on_tight_or_cached_frames(tight: bool, cache: bool) -> None:
    world = World()
    settings = forced(tightEncodingEnabled=str(tight).lower(), cacheEnabled=str(cache).lower())
    peer = world.connect(settings=settings, tight=tight, cache=cache)
    loose = world.connect()
    assert (peer.wire_format.tight, peer.wire_format.cache) == (tight, cache)
    peer.consumes(QUEUE)
    loose.consumes(queue("BACK"))
    peer.produces()
    loose.produces()
    for number in range(3):
        loose.succeeds(loose.text_message(QUEUE, f"there {number}"))
        peer.succeeds(peer.text_message(queue("BACK"), f"back {number}"))
    messages = peer.dispatched()
    assert [text_of(message) for message in messages] == ["there 0", "there 1", "there 2"]
    assert [text_of(message) for message in loose.dispatched()] == ["back 0", "back 1", "back 2"]
    for message in messages:
        peer.acknowledges(message)
    assert messages[0].message_id is not None
    assert messages[0].message_id.broker_sequence_id > 0
    assert world.broker.destination_views()[0].dequeued == 3


def test_a_message_that_cannot_be_written_tight_goes_to_the_dead_letters(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    settings = forced(tightEncodingEnabled="true")
    tight, loose = world.connect(settings=settings, tight=True), world.connect()
    tight.consumes(QUEUE)
    loose.produces(QUEUE)
    message = loose.text_message(QUEUE, "x")
    message.type = "t" * 40_000
    loose.succeeds(message)
    loose.succeeds(loose.text_message(QUEUE, "next"))
    assert [text_of(came) for came in tight.dispatched()] == ["next"]
    loose.consumes(queue("ActiveMQ.DLQ"))
    assert [text_of(came) for came in loose.dispatched()] == ["x"]
    (line,) = [one for one in caplog.messages if "cannot be written" in one]
    assert line.endswith("; it becomes a dead letter")


class Sender:
    """A client of another protocol, which wants no answers."""

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        raise AssertionError(f"an answer nobody asked for: {token} {error}")

    def close_with(self, error: SpanwireError) -> None:
        raise AssertionError(str(error))


class Unreadable:
    """A format whose messages have an inside that nobody can decode."""

    def __init__(self) -> None:
        self._stomp = StompMessageFormat()

    def index(self, raw: bytes) -> Message:
        return self._stomp.index(raw)

    def properties(self, message: Message) -> dict[str, PropertyValue]:
        return self._stomp.properties(message)

    def header(self, message: Message, name: str) -> object:
        return self._stomp.header(message, name)

    def view(self, message: Message) -> MessageView:
        raise MessageFormatError("the body is broken")

    def encode_from_view(self, view: MessageView) -> Message:
        return self._stomp.encode_from_view(view)

    def first_for_consumer(self, message: Message) -> Message:
        return self._stomp.first_for_consumer(message)

    def restamped(
        self, message: Message, timestamp_ms: int, expiration_ms: int, persistent: bool, user_id: str | None = None
    ) -> Message:
        return self._stomp.restamped(message, timestamp_ms, expiration_ms, persistent, user_id)

    def readdressed(self, message: Message, destination: Destination, names_original: bool = True) -> Message:
        return self._stomp.readdressed(message, destination, names_original)


def stomp_sends(world: World, stomp: MessageFormat, text: str) -> None:
    """A STOMP client sends a text to the queue."""
    state = world.broker.add_connection(Sender(), ConnectionInfo("ID:stomp:1", "stomp"), world.now)
    view = MessageView(TEXT, Destination(0, "Q"), MessageId(ProducerId("ID:stomp:1", -1, 1), 1))
    view.body = text.encode()
    view.persistent = True
    view.properties["colour"] = (STRING_VALUE, "blue")
    assert world.broker.send(state, stomp.encode_from_view(view), None, NO_TOKEN, world.now)
    world.settle()


@pytest.mark.parametrize("version", [1, 9, 12])
def test_a_message_of_another_protocol_is_converted_and_can_be_acknowledged(version: int) -> None:
    stomp = StompMessageFormat()
    world = World(other_formats={FORMAT_STOMP: stomp})
    peer = world.connect(version=version)
    peer.consumes(QUEUE, selector="colour = 'blue'")
    stomp_sends(world, stomp, "grüße")
    (message,) = peer.dispatched()
    assert isinstance(message, wire.ActiveMQTextMessage)
    assert text_of(message) == "grüße"
    assert decode_plain_map(message.marshalled_properties or b"") == {"colour": "blue"}
    peer.acknowledges(message)
    assert world.broker.destination_views()[0].dequeued == 1


def test_a_message_that_cannot_be_converted_does_not_stop_the_others() -> None:
    stomp = Unreadable()
    world = World(other_formats={FORMAT_STOMP: stomp})
    peer = world.connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    stomp_sends(world, stomp, "broken")
    peer.succeeds(peer.text_message(QUEUE, "whole"))
    assert [text_of(message) for message in peer.dispatched()] == ["whole"]
    counts = {view.destination: (view.dequeued, view.in_flight) for view in world.broker.destination_views()}
    assert counts["queue://Q"] == (1, 1)


def test_mistakes_of_a_peer_are_one_line_each_and_not_endless(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    peer = World().connect()
    for _ in range(50):
        peer.sends(peer.text_message(queue("secret-body-follows"), "do not log me"))
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 10
    assert not any("do not log me" in line for line in lines)
    assert all(record.exc_info is None for record in caplog.records)


def test_names_from_a_peer_cannot_break_the_log_into_lines(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    peer = world.peer()
    world.connect(client_id="x\nFAKE LINE")
    peer.negotiates()
    peer.logs_in("ID:b:1", "x\nFAKE LINE")
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert len(caplog.records) == 1


def test_the_connection_tells_how_much_of_a_frame_it_holds() -> None:
    world = World()
    peer = world.connect()
    connection: OpenWireBrokerConnection = peer.connection
    connection.receive_data(b"\x00\x00\x10\x00" + b"x" * 100, world.now)
    assert connection.pending_bytes == 104
