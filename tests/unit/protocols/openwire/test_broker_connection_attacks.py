"""Attacks on an OpenWire broker over a connection, each named after its class and advisory."""

from __future__ import annotations

import logging
import sys
import tracemalloc
from typing import Any

import pytest

from spanwire.broker.ports import ADMIN, READ, WRITE, Principal
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthorizationError
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.schema import Throwable
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.protocols.openwire.login import MAX_BROKER_INFO_BYTES, MAX_KEEP_ALIVES
from spanwire.protocols.openwire.output import MAX_UNREAD_ANSWER_BYTES
from tests.support.openwire_dialogue import OpenWirePeer, World, text_of

MIB = 1024 * 1024
QUEUE = wire.ActiveMQQueue("Q")
GADGET = "org.springframework.context.support.ClassPathXmlApplicationContext"
SECURITY = "java.lang.SecurityException"
HARMLESS_BEFORE_LOGIN = {"KeepAliveInfo", "BrokerInfo", "ConnectionControl", "ConnectionInfo", "ShutdownInfo"}
COMMANDS = [
    type_id
    for type_id, name in wire.TYPE_NAMES.items()
    if isinstance(wire.new_structure(type_id), wire.Command) and name not in HARMLESS_BEFORE_LOGIN
]
FROM_BROKERS_ONLY = [
    wire.ExceptionResponse(exception=Throwable(GADGET, "http://127.0.0.1:1/x.xml")),
    wire.ConnectionError(exception=Throwable(GADGET, "http://127.0.0.1:1/x.xml")),
    wire.Response(1),
    wire.DataResponse(correlation_id=1),
    wire.DataArrayResponse(correlation_id=1),
    wire.IntegerResponse(correlation_id=1),
    wire.MessageDispatch(),
    wire.ProducerAck(),
    wire.ReplayCommand(),
    wire.BrokerSubscriptionInfo(),
    wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:again:1"), client_id="again"),
]


class Recording:
    """Allows what its rules allow and remembers what it was asked."""

    def __init__(self, *denied: tuple[str, str]) -> None:
        self.denied = denied
        self.asked: list[tuple[str, str]] = []

    def check(self, principal: Principal, action: str, destination: Destination) -> None:
        self.asked.append((action, str(destination)))
        for denied_action, prefix in self.denied:
            if denied_action in (action, "*") and destination.name.startswith(prefix):
                word = {READ: "read from", WRITE: "write to", ADMIN: "create"}[action]
                raise AuthorizationError(f"User {principal.name} is not authorized to {word}: {destination}")

    def check_all(self, principal: Principal, action: str, destination: Destination) -> None:
        self.check(principal, action, destination)


def negotiated(world: World) -> OpenWirePeer:
    peer = world.peer()
    peer.negotiates()
    return peer


@pytest.mark.parametrize("command", FROM_BROKERS_ONLY[:2], ids=lambda command: type(command).__name__)
def test_s1_cve_2023_46604_an_exception_from_an_unauthenticated_peer_ends_its_connection(command: Any) -> None:
    peer = negotiated(World())
    before = set(sys.modules)
    peer.sends(command)
    assert peer.connection.closed
    peer.receives_nothing()
    assert set(sys.modules) == before


@pytest.mark.parametrize("command", FROM_BROKERS_ONLY, ids=lambda command: type(command).__name__)
def test_s1_what_only_brokers_send_ends_a_clients_connection_with_an_error(command: Any) -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.sends(command)
    assert peer.connection.closed
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert error.exception.class_name == "java.io.IOException"
    other.succeeds(wire.FlushCommand())


def test_s1_the_cause_of_a_poison_acknowledgement_is_text(caplog: pytest.LogCaptureFixture) -> None:
    peer = World().connect()
    peer.consumes(QUEUE)
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "x"))
    (message,) = peer.dispatched()
    before = set(sys.modules)
    peer.acknowledges(message, kind=1, poison_cause=Throwable(GADGET, "http://127.0.0.1:1/x.xml"))
    assert set(sys.modules) == before
    peer.receives_nothing()


@pytest.mark.parametrize("octets", ["00000000", "ffffffff", "7fffffff", "0000000101", "000000020a00", "00000001ff"])
def test_s2_a_frame_that_cannot_be_ends_its_connection_and_no_other(octets: str) -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.sends_octets(bytes.fromhex(octets))
    assert peer.connection.closed
    peer.receives(wire.ConnectionError)
    other.succeeds(wire.FlushCommand())


def test_s2_garbage_instead_of_a_message_ends_its_connection() -> None:
    peer = World().connect()
    peer.produces(QUEUE)
    octets = peer.encoder.encode(peer.text_message(QUEUE, "x"))
    cut = octets[4:-9]
    peer.sends_octets(len(cut).to_bytes(4, "big") + cut)
    assert peer.connection.closed


@pytest.mark.parametrize("type_id", COMMANDS, ids=lambda type_id: wire.TYPE_NAMES[type_id])
def test_s3_cve_2026_49270_no_other_command_before_the_login_closed_without_a_word(type_id: int) -> None:
    world = World()
    peer = negotiated(world)
    before = peer.octets_received
    command: Any = wire.new_structure(type_id)
    if isinstance(command, wire.BaseCommand):
        peer.requests(command)
    else:
        peer.sends(command)
    assert peer.connection.closed
    assert peer.octets_received == before
    assert world.broker.destination_views() == []


@pytest.mark.parametrize("type_id", COMMANDS, ids=lambda type_id: wire.TYPE_NAMES[type_id])
def test_s3_nothing_but_a_wire_format_info_comes_first(type_id: int) -> None:
    if type_id == wire.WIRE_FORMAT_INFO:
        return
    peer = World().peer()
    peer.flush()
    before = peer.octets_received
    command: Any = wire.new_structure(type_id)
    peer.sends_octets(FrameEncoder().encode(command))
    assert peer.connection.closed
    assert peer.octets_received == before


def test_s3_cve_2026_50750_broker_infos_before_the_login_are_few_and_small() -> None:
    world = World()
    peer = negotiated(world)
    peer.sends(wire.BrokerInfo(network_properties="x" * 1000))
    assert not peer.connection.closed
    peer.sends(wire.BrokerInfo())
    assert peer.connection.closed
    large = negotiated(world)
    large.sends(wire.BrokerInfo(network_properties="x" * MAX_BROKER_INFO_BYTES))
    assert large.connection.closed
    assert large.told() == peer.told() == []


@pytest.mark.large
@pytest.mark.parametrize("command", [wire.KeepAliveInfo(), wire.ConnectionControl(), wire.BrokerInfo()])
def test_s3_a_million_commands_before_the_login_cost_nothing(command: Any) -> None:
    world = World()
    peer = negotiated(world)
    frames = peer.encoder.encode(command) * 10_000
    tracemalloc.start()
    try:
        for _ in range(100):
            peer.connection.receive_data(frames, world.now)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert peer.connection.closed
    assert grown < MIB / 10


def test_s3_keep_alives_before_the_login_are_counted() -> None:
    peer = negotiated(World())
    for _ in range(MAX_KEEP_ALIVES):
        peer.requests(wire.KeepAliveInfo())
    assert peer.told() == ["KeepAliveInfo"] * MAX_KEEP_ALIVES
    peer.requests(wire.KeepAliveInfo())
    assert peer.connection.closed


def test_s3_a_frame_over_64_kib_before_the_login_is_refused_from_its_size() -> None:
    peer = negotiated(World())
    peer.sends_octets((64 * 1024 + 1).to_bytes(4, "big"))
    assert peer.connection.closed
    peer.receives_nothing()


def test_s3_artemis_cve_2026_49362_a_destination_cannot_be_made_before_the_login() -> None:
    world = World()
    peer = negotiated(world)
    made = wire.DestinationInfo(connection_id=wire.ConnectionId("ID:x:1"), destination=QUEUE)
    login = wire.ConnectionInfo(connection_id=wire.ConnectionId("ID:x:1"), client_id="x")
    peer.sends_octets(peer.encoder.encode(made) + peer.encoder.encode(login))
    assert peer.connection.closed
    assert world.broker.destination_views() == []
    assert world.broker.connection_views() == []


def test_s4_cve_2014_3576_a_control_command_stops_nothing_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    peer, other = world.connect(), world.connect()
    assert peer.fails(wire.ControlCommand("shutdown"))[0] == SECURITY
    peer.sends(wire.ControlCommand("terminate_jvm"))
    peer.receives(wire.ConnectionError)
    assert not peer.connection.closed
    other.succeeds(wire.FlushCommand())
    assert [
        r.getMessage() for r in caplog.records if "ControlCommand of tcp://127.0.0.1:50000 refused" in r.getMessage()
    ]


def test_s4_cve_2015_7559_a_shutdown_or_close_request_ends_the_senders_connection_at_most() -> None:
    world = World()
    peer, other = world.connect(), world.connect()
    peer.succeeds(wire.ConnectionControl(close=True, exit=True))
    peer.sends(wire.ShutdownInfo())
    assert peer.connection.closed
    other.succeeds(wire.FlushCommand())
    assert len(world.broker.connection_views()) == 1


def commands_in_the_name_of(victim: OpenWirePeer, sender: OpenWirePeer) -> list[Any]:
    """Every command that names an object, with the other's ids in it."""
    forged = sender.text_message(QUEUE, "forged")
    forged.producer_id = victim.producer_id()
    stolen_id = sender.text_message(QUEUE, "forged")
    stolen_id.message_id = wire.MessageId(producer_id=victim.producer_id(), producer_sequence_id=1)
    transacted = sender.text_message(QUEUE, "forged")
    transacted.transaction_id = victim.transaction_id()
    session = wire.SessionId(connection_id=victim.connection_id, value=1)
    connection = wire.ConnectionId(victim.connection_id)
    message_id = wire.MessageId(producer_id=victim.producer_id(), producer_sequence_id=1)
    ack: dict[str, Any] = {
        "ack_type": 2,
        "first_message_id": message_id,
        "last_message_id": message_id,
        "message_count": 1,
    }
    reply = wire.ActiveMQTempQueue(sender.connection_id + ":9")
    return [
        forged,
        stolen_id,
        transacted,
        wire.SessionInfo(session),
        wire.ProducerInfo(producer_id=victim.producer_id(7), destination=QUEUE),
        wire.ConsumerInfo(consumer_id=victim.consumer_id(7), destination=QUEUE),
        wire.DestinationInfo(connection_id=connection, destination=reply),
        wire.ConsumerControl(consumer_id=victim.consumer_id(), prefetch=1),
        wire.MessagePull(consumer_id=victim.consumer_id(), destination=QUEUE),
        wire.MessageAck(consumer_id=victim.consumer_id(), destination=QUEUE, **ack),
        wire.MessageAck(
            consumer_id=sender.consumer_id(), destination=QUEUE, transaction_id=victim.transaction_id(), **ack
        ),
        wire.TransactionInfo(connection_id=connection, transaction_id=victim.transaction_id(), type=2),
        wire.TransactionInfo(transaction_id=victim.transaction_id(), type=4),
        wire.TransactionInfo(transaction_id=victim.transaction_id(2), type=0),
        wire.RemoveSubscriptionInfo(client_id="client-" + victim.connection_id, subscription_name="d"),
        wire.RemoveSubscriptionInfo(connection_id=connection, subscription_name="d"),
        wire.RemoveInfo(object_id=victim.consumer_id()),
        wire.RemoveInfo(object_id=victim.producer_id()),
        wire.RemoveInfo(object_id=session),
        wire.RemoveInfo(object_id=connection),
    ]


def test_s5_cve_2026_74761_ids_of_another_connection_in_any_command_are_refused() -> None:
    world = World()
    victim, thief = world.connect(), world.connect()
    victim.produces(QUEUE)
    victim.consumes(QUEUE)
    victim.sends(victim.text_message(QUEUE, "mine"))
    (mine,) = victim.dispatched()
    victim.transacts(0)
    thief.produces()
    thief.consumes(wire.ActiveMQQueue("OTHER"))
    for command in commands_in_the_name_of(victim, thief):
        class_name, text = thief.fails(command)
        assert class_name == SECURITY, f"{type(command).__name__}: {class_name} {text}"
    assert not thief.connection.closed
    victim.receives_nothing()
    victim.succeeds(victim.transaction(2))
    victim.acknowledges(mine, response=True)
    victim.receives(wire.Response)
    assert world.broker.destination_views()[0].enqueued == 1


def test_s5_artemis_cve_2026_57967_a_connection_id_in_use_cannot_be_taken_over() -> None:
    world = World()
    victim = world.connect("ID:victim:1")
    victim.consumes(QUEUE)
    thief = negotiated(world)
    thief.logs_in("ID:victim:1", "somebody else")
    thief.receives(wire.ExceptionResponse)
    victim.produces(QUEUE)
    victim.sends(victim.text_message(QUEUE, "still mine"))
    assert [text_of(message) for message in victim.dispatched()] == ["still mine"]


def test_s5_the_ids_of_a_connection_that_left_are_not_inherited() -> None:
    world = World()
    first = world.connect("ID:same:1")
    first.produces(QUEUE)
    first.vanishes()
    second = world.connect("ID:same:1")
    assert "invalid (null) producer state" in (second.fails(second.text_message(QUEUE, "x"))[1] or "")


def with_temporary_queue(world: World) -> tuple[OpenWirePeer, wire.ActiveMQTempQueue]:
    owner = world.connect()
    reply = wire.ActiveMQTempQueue(owner.connection_id + ":1")
    owner.succeeds(wire.DestinationInfo(connection_id=wire.ConnectionId(owner.connection_id), destination=reply))
    return owner, reply


def test_s6_cve_2026_54475_a_temporary_queue_of_another_is_neither_consumed_nor_browsed_nor_deleted() -> None:
    world = World()
    owner, reply = with_temporary_queue(world)
    owner.consumes(reply)
    thief = world.connect()
    consume = wire.ConsumerInfo(consumer_id=thief.consumer_id(), destination=reply, prefetch_size=1)
    browse = wire.ConsumerInfo(consumer_id=thief.consumer_id(), destination=reply, browser=True)
    hidden = wire.ConsumerInfo(
        consumer_id=thief.consumer_id(), destination=wire.ActiveMQQueue(f"A,temp-queue://{reply.physical_name}")
    )
    delete = wire.DestinationInfo(
        connection_id=wire.ConnectionId(thief.connection_id), destination=reply, operation_type=1
    )
    for command in (consume, browse, hidden, delete):
        assert thief.fails(command) == (
            "javax.jms.InvalidDestinationException",
            "Cannot use a Temporary destination from another Connection",
        )
    thief.produces()
    thief.succeeds(thief.text_message(reply, "an answer"))
    assert [text_of(message) for message in owner.dispatched()] == ["an answer"]


def test_s6_a_temporary_queue_in_the_name_of_another_cannot_be_made() -> None:
    world = World()
    victim, thief = world.connect(), world.connect()
    name = wire.ActiveMQTempQueue(victim.connection_id + ":1")
    made = wire.DestinationInfo(connection_id=wire.ConnectionId(thief.connection_id), destination=name)
    assert thief.fails(made)[0] == SECURITY


@pytest.mark.parametrize(
    ("destination", "parts"),
    [
        (wire.ActiveMQQueue("A,B"), ["queue://A", "queue://B"]),
        (wire.ActiveMQTopic("queue://A,topic://B"), ["queue://A", "topic://B"]),
        (wire.ActiveMQTempQueue("queue://A,B"), None),
        (wire.ActiveMQQueue("A?consumer.exclusive=true"), ["queue://A"]),
        (wire.ActiveMQTopic("queue://A"), ["queue://A"]),
        (wire.ActiveMQQueue("A,queue://queue://B"), ["queue://A", "queue://queue://B"]),
    ],
    ids=lambda value: str(getattr(value, "physical_name", value)),
)
def test_s7_cve_2026_61487_every_physical_name_is_checked(
    destination: wire.ActiveMQDestination, parts: list[str] | None
) -> None:
    rights = Recording()
    peer = World(authorizer=rights).connect()
    rights.asked.clear()
    peer.requests(wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=destination, prefetch_size=1))
    if parts is not None:
        assert [name for action, name in rights.asked if action == READ] == parts
    peer.produces()
    rights.asked.clear()
    peer.requests(peer.text_message(destination, "x"))
    if parts is not None:
        assert sorted({name for action, name in rights.asked if action == WRITE}) == sorted(parts)


def test_s7_a_composite_with_one_forbidden_part_is_refused_as_a_whole() -> None:
    rights = Recording(("*", "SECRET"))
    world = World(authorizer=rights)
    peer = world.connect(user="user")
    peer.produces()
    for name in ("OPEN,SECRET", "SECRET,OPEN", "OPEN,queue://SECRET", "queue://SECRET", "OPEN, SECRET"):
        destination = wire.ActiveMQQueue(name)
        assert peer.fails(peer.text_message(destination, "x"))[0] == SECURITY, name
        consume = wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=destination, prefetch_size=1)
        assert peer.fails(consume)[0] == SECURITY, name
    assert all(view.enqueued == 0 for view in world.broker.destination_views())


def test_s8_cve_2026_46605_making_and_removing_destinations_needs_the_right_to() -> None:
    rights = Recording((ADMIN, "NEW"))
    world = World(authorizer=rights)
    peer = world.connect(user="user")
    new = wire.ActiveMQQueue("NEW")
    connection = wire.ConnectionId(peer.connection_id)
    for command in (
        wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=new, prefetch_size=1),
        wire.ProducerInfo(producer_id=peer.producer_id(), destination=new),
        wire.DestinationInfo(connection_id=connection, destination=new),
    ):
        assert peer.fails(command) == (SECURITY, "User user is not authorized to create: queue://NEW")
    peer.produces()
    assert peer.fails(peer.text_message(new, "x"))[0] == SECURITY
    world.broker.configure_destination(Destination(0, "NEW"))
    removal = wire.DestinationInfo(connection_id=connection, destination=new, operation_type=1)
    assert peer.fails(removal)[0] == SECURITY
    assert any(view.destination == "queue://NEW" for view in world.broker.destination_views())


@pytest.mark.parametrize(
    "destination",
    [
        wire.ActiveMQTopic("ActiveMQ.Advisory.Connection"),
        wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.Q"),
        wire.ActiveMQTopic("ActiveMQ.Advisory.TempQueue,ActiveMQ.Advisory.TempTopic"),
        wire.ActiveMQQueue("A,topic://ActiveMQ.Advisory.Connection"),
        wire.ActiveMQQueue("topic://ActiveMQ.Advisory.Connection"),
        wire.ActiveMQTopic("ActiveMQ.Advisory.Connection?x=1"),
    ],
    ids=lambda destination: str(destination.physical_name),
)
def test_s9_advisories_cannot_be_forged(destination: wire.ActiveMQDestination) -> None:
    world = World()
    listener, forger = world.connect(), world.connect()
    listener.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.>"))
    forger.produces()
    listener.dispatched()
    class_name, text = forger.fails(forger.text_message(destination, "forged"))
    assert class_name == SECURITY
    assert "not authorized to write to: topic://ActiveMQ.Advisory." in (text or "")
    announced = wire.ProducerInfo(producer_id=forger.producer_id(2), destination=destination)
    assert forger.fails(announced)[0] == SECURITY
    assert not any(isinstance(message, wire.ActiveMQTextMessage) for message in listener.dispatched())


def test_s9_a_wildcard_send_reaches_no_advisory_topic() -> None:
    world = World()
    listener, other, forger = world.connect(), world.connect(), world.connect()
    listener.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.Connection"))
    other.consumes(wire.ActiveMQTopic("ActiveMQ.Other"))
    listener.dispatched()
    forger.produces()
    forger.succeeds(forger.text_message(wire.ActiveMQTopic(">"), "forged"))
    forger.succeeds(forger.text_message(wire.ActiveMQTopic("ActiveMQ.>"), "forged"))
    assert len(other.dispatched()) == 2
    assert not any(isinstance(message, wire.ActiveMQTextMessage) for message in listener.dispatched())


def test_s9_artemis_cve_2021_26118_after_an_advisory_the_rights_still_hold() -> None:
    world = World(authorizer=Recording((WRITE, "SECRET")))
    peer = world.connect(user="user")
    peer.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.Queue"))
    peer.produces()
    peer.fails(peer.text_message(wire.ActiveMQTopic("ActiveMQ.Advisory.Queue"), "x"))
    peer.succeeds(peer.text_message(wire.ActiveMQQueue("OPEN"), "causes an advisory"))
    assert peer.fails(peer.text_message(wire.ActiveMQQueue("SECRET"), "x"))[0] == SECURITY


def test_s9_no_advisory_tells_a_password() -> None:
    world = World()
    listener = world.connect()
    listener.consumes(wire.ActiveMQTopic("ActiveMQ.Advisory.Connection"))
    peer = negotiated(world)
    peer.logs_in("ID:secretive:1", "secretive", "user", "canary-password")
    subjects = [message.data_structure for message in listener.dispatched()]
    infos = [subject for subject in subjects if isinstance(subject, wire.ConnectionInfo)]
    assert [info.client_id for info in infos][-1] == "secretive"
    assert {info.password for info in infos} == {""}


def test_s10_cve_2015_5254_an_object_message_passes_as_it_is() -> None:
    payload = b"\xac\xed\x00\x05sr\x00\x2eorg.apache.commons.collections.map.LazyMap" + bytes(range(256))
    world = World()
    peer = world.connect()
    peer.consumes(QUEUE, selector="JMSPriority = 4")
    peer.produces(QUEUE)
    before = set(sys.modules)
    message = wire.ActiveMQObjectMessage()
    plain = peer.text_message(QUEUE, "")
    message.producer_id, message.message_id, message.destination = plain.producer_id, plain.message_id, QUEUE
    message.priority = 4
    message.content = payload
    peer.succeeds(message)
    (came,) = peer.dispatched()
    assert isinstance(came, wire.ActiveMQObjectMessage)
    assert came.content == payload
    assert set(sys.modules) == before


def test_s13_a_wire_format_info_sent_again_with_larger_limits_ends_the_connection() -> None:
    world = World()
    peer = world.connect(settings=ConnectionSettings(max_frame_size=100_000))
    again = wire_format_info(WireFormatPreferences(max_frame_size=2**62, tight=True, cache=True))
    peer.sends_octets(FrameEncoder().encode(again))
    assert peer.connection.closed
    peer.receives(wire.ConnectionError)


def test_s13_the_frame_limit_is_the_connectors_however_large_the_peers() -> None:
    world = World()
    peer = world.connect(settings=ConnectionSettings(max_frame_size=100_000))
    peer.produces(QUEUE)
    peer.succeeds(peer.text_message(QUEUE, "x" * 99_000))
    peer.chunk = 1000
    peer.sends(peer.text_message(QUEUE, "x" * 100_000))
    assert peer.connection.closed


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        (">", {"A.OPEN", "B"}),
        ("*", {"B"}),
        ("A.*", {"A.OPEN"}),
        ("A.>", {"A.OPEN"}),
        ("*.SECRET", set()),
        ("*.*", {"A.OPEN"}),
        ("B,A.>", {"A.OPEN", "B"}),
        ("queue://>", {"A.OPEN", "B"}),
    ],
)
def test_s34_a_wildcard_consumer_gets_only_what_it_may_read(pattern: str, allowed: set[str]) -> None:
    world = World(authorizer=Recording((READ, "A.SECRET"), (READ, "SECRET")))
    peer, sender = world.connect(user="user"), world.connect()
    sender.produces()
    sender.succeeds(sender.text_message(wire.ActiveMQQueue("A.SECRET"), "secret before"))
    peer.consumes(wire.ActiveMQQueue(pattern))
    for name in ("SECRET", "A.SECRET", "A.OPEN", "B", "A.SECRET.DEEP"):
        sender.succeeds(sender.text_message(wire.ActiveMQQueue(name), name))
    assert {text_of(message) for message in peer.dispatched()} == allowed


def test_s34_names_are_equal_only_when_every_character_is() -> None:
    world = World(authorizer=Recording((READ, "SECRET")))
    peer, sender = world.connect(user="user"), world.connect()
    sender.produces()
    sender.succeeds(sender.text_message(wire.ActiveMQQueue("SECRET"), "secret"))
    for value, name in enumerate(("secret", "SECRET", "SECRET.", ".SECRET", "SECRET?x=1", "queue://SECRET"), 1):
        peer.requests(
            wire.ConsumerInfo(
                consumer_id=peer.consumer_id(value), destination=wire.ActiveMQQueue(name), prefetch_size=1
            )
        )
    assert peer.dispatched() == []


@pytest.mark.large
def test_refused_commands_without_end_cost_no_memory() -> None:
    world = World()
    peer = world.connect()
    frames = b"".join(
        peer.encoder.encode(command)
        for command in (
            peer.text_message(QUEUE, "x"),
            wire.RemoveInfo(object_id=peer.consumer_id(99)),
            wire.MessageAck(consumer_id=peer.consumer_id(98), message_count=1),
            wire.ConsumerInfo(consumer_id=peer.consumer_id(97), destination=QUEUE, selector="a = ="),
        )
    )
    peer.is_gone = True  # its answers are read and thrown away
    peer.sends_octets(frames * 100)
    tracemalloc.start()
    try:
        for _ in range(20):
            peer.sends_octets(frames * 100)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert grown < MIB / 4


@pytest.mark.large
def test_a_peer_that_never_reads_its_answers_is_closed() -> None:
    world = World()
    peer = world.connect()
    frames = peer.encoder.encode(wire.ControlCommand("x" * 10)) * 1000
    held = 0
    for _ in range(10_000):
        peer.connection.receive_data(frames, world.now)
        held += sum(len(chunk) for chunk in peer.connection.data_to_send())
        peer.connection.unsent(held)
        if peer.connection.closed:
            break
    assert peer.connection.closed
    assert MAX_UNREAD_ANSWER_BYTES < held < MAX_UNREAD_ANSWER_BYTES + MIB


@pytest.mark.large
def test_a_peer_that_reads_late_but_reads_is_not_closed() -> None:
    world = World()
    peer = world.connect()
    frames = peer.encoder.encode(wire.ControlCommand("x" * 10)) * 1000
    for _ in range(80):
        peer.connection.receive_data(frames, world.now)
        peer.connection.data_to_send()
        peer.connection.unsent(100_000)
    assert not peer.connection.closed


@pytest.mark.parametrize(("connection_id", "client_id"), [("ID:" + "x" * 1024, "c"), ("ID:a:1", "c" * 1025)])
def test_ids_that_the_broker_would_keep_have_a_limit(connection_id: str, client_id: str) -> None:
    world = World()
    peer = negotiated(world)
    peer.logs_in(connection_id, client_id)
    response = peer.receives(wire.ExceptionResponse)
    assert response.exception is not None
    assert response.exception.class_name == "javax.jms.InvalidClientIDException"
    assert len(response.exception.message or "") < 200
    assert world.broker.connection_views() == []
