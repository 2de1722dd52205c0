"""Who may do what, over every protocol: each right for itself, each place of effect, and what a refusal leaves.

A role has some of the rights r (read), w (write) and a (admin) on everything named ``M.…``, on temporary destinations
and on advisory topics. A row says which of them an action needs; every other role is refused in ActiveMQ's words, keeps
its connection and leaves nothing behind but a line in the audit.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any, Final

import pytest

from spanwire.broker.ports import Authorizer
from spanwire.broker.security.authentication import User, simple_authenticator
from spanwire.broker.security.authorization_map import AccessList, AuthorizationEntry, AuthorizationMap
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.secret import Secret
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support import stomp_dialogue
from tests.support.canary import CANARY
from tests.support.openwire_dialogue import OpenWirePeer, World

ROLES: Final = ["".join(rights) for count in range(4) for rights in itertools.combinations("rwa", count)]
SECURITY: Final = "java.lang.SecurityException"
USERS: Final = simple_authenticator(
    [User(f"u{role}", Secret(CANARY), frozenset(role)) for role in ROLES]
    + [User("root", Secret(CANARY), frozenset({"root"}))],
    None,
)
VERBS: Final = {"r": "read from", "w": "write to", "a": "create"}


def lists() -> Authorizer:
    role = AccessList(frozenset("r"), frozenset("w"), frozenset("a"))
    root = AccessList(*[frozenset({"root"})] * 3)
    entries = [
        AuthorizationEntry(Destination(kind, name), access)
        for kind in (QUEUE, TOPIC)
        for name, access in (("M.>", role), (">", root), ("ActiveMQ.Advisory.>", role))
    ]
    return AuthorizationMap(entries, AccessList(frozenset("r"), frozenset("w"), frozenset({"a", "root"})))


def refused_first(needs: str, role: str) -> str:
    """The right whose lack is told."""
    return next((right for right in needs if right not in role), "")


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "spanwire.audit"]


def queue(name: str) -> wire.ActiveMQDestination:
    return wire.ActiveMQQueue(name)


def consume(destination: wire.ActiveMQDestination, **fields: Any) -> Any:
    return lambda peer: wire.ConsumerInfo(
        consumer_id=peer.consumer_id(), destination=destination, prefetch_size=10, **fields
    )


def produce(destination: wire.ActiveMQDestination) -> Any:
    return lambda peer: wire.ProducerInfo(producer_id=peer.producer_id(9), destination=destination)


def send(destination: wire.ActiveMQDestination) -> Any:
    return lambda peer: peer.text_message(destination, "x")


def operate(operation: int, name: str, kind: Any = wire.ActiveMQQueue) -> Any:
    return lambda peer: wire.DestinationInfo(
        connection_id=wire.ConnectionId(peer.connection_id), destination=kind(name), operation_type=operation
    )


def make_temporary(peer: OpenWirePeer) -> wire.DestinationInfo:
    return wire.DestinationInfo(
        connection_id=wire.ConnectionId(peer.connection_id),
        destination=wire.ActiveMQTempQueue(peer.connection_id + ":1"),
    )


OPENWIRE: Final[dict[str, tuple[str, Any]]] = {
    "consume": ("r", consume(queue("M.old"))),
    "consume and create": ("ra", consume(queue("M.new"))),
    "consume a topic and create": ("ra", consume(wire.ActiveMQTopic("M.new"))),
    "consume with options": ("r", consume(queue("M.old?consumer.exclusive=true"))),
    "consume a composite": ("r", consume(queue("M.old,M.other"))),
    "consume a composite and create": ("ra", consume(queue("M.old,topic://M.new"))),
    "consume a pattern": ("r", consume(queue("M.*"))),
    "consume a pattern of everything": ("r", consume(queue(">"))),
    "browse": ("r", consume(queue("M.old"), browser=True)),
    "browse and create": ("ra", consume(queue("M.new"), browser=True)),
    "produce": ("w", produce(queue("M.old"))),
    "produce and create": ("wa", produce(queue("M.new"))),
    "produce to a composite": ("wa", produce(queue("M.old,M.new"))),
    "send": ("w", send(queue("M.old"))),
    "send and create": ("wa", send(queue("M.new"))),
    "send to a topic and create": ("wa", send(wire.ActiveMQTopic("M.new"))),
    "send with options": ("w", send(queue("M.old?a=b"))),
    "send to a composite": ("wa", send(queue("M.old,queue://M.new"))),
    "send to a pattern": ("w", send(queue("M.*"))),
    "create": ("a", operate(0, "M.new")),
    "create a topic": ("a", operate(0, "M.new", wire.ActiveMQTopic)),
    "create a composite": ("a", operate(0, "M.new,M.newer")),
    "remove": ("a", operate(1, "M.old")),
    "remove what is not there": ("a", operate(1, "M.new")),
    "remove a composite": ("a", operate(1, "M.other,M.old")),
    "create a temporary queue": ("a", make_temporary),
    "send to another's temporary queue": ("w", send(wire.ActiveMQTempQueue("ID:root:1"))),
    "listen to advisories": ("ra", consume(wire.ActiveMQTopic("ActiveMQ.Advisory.TempQueue"))),
    "listen to a pattern of advisories": ("r", consume(wire.ActiveMQTopic("ActiveMQ.Advisory.Consumer.>"))),
    "send an advisory": ("x", send(wire.ActiveMQTopic("ActiveMQ.Advisory.Connection"))),
    "produce advisories": ("x", produce(wire.ActiveMQTopic("ActiveMQ.Advisory.Connection"))),
    "consume what nobody gave": ("x", consume(queue("OTHER"))),
    "send what nobody gave": ("x", send(queue("M.old,OTHER"))),
    "remove what nobody gave": ("x", operate(1, "OTHER")),
}


def openwire_world(role: str) -> tuple[World, OpenWirePeer]:
    world = World(authenticator=USERS, authorizer=lists())
    root = world.peer()
    root.negotiates()
    root.logs_in("ID:root", user="root", password=CANARY)
    root.succeeds(make_temporary(root))
    for name in ("M.old", "M.other", "OTHER"):
        root.succeeds(operate(0, name)(root))
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:u", user=f"u{role}", password=CANARY)
    peer.sends(wire.SessionInfo(peer.session_id))
    peer.produces()
    peer.received.clear()
    return world, peer


def state_of(broker: Any) -> Any:
    return [(view.destination, view.enqueued, view.consumers, view.producers) for view in broker.destination_views()]


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role or "none")
@pytest.mark.parametrize("action", OPENWIRE)
def test_openwire_asks_for_exactly_these_rights(action: str, role: str, caplog: pytest.LogCaptureFixture) -> None:
    needs, command = OPENWIRE[action]
    world, peer = openwire_world(role)
    before = state_of(world.broker)
    lacking = refused_first(needs, role)
    if not lacking:
        peer.succeeds(command(peer))
        assert audit_lines(caplog) == []
        return
    class_name, text = peer.fails(command(peer))
    assert class_name == SECURITY
    assert text is not None
    assert text.startswith(f"User u{role} is not authorized to {VERBS.get(lacking, '')}") or action.startswith("remove")
    if action.startswith("remove"):
        assert text.startswith(f"User u{role} is not authorized to remove: queue://")
    assert state_of(world.broker) == before
    (line,) = audit_lines(caplog)
    assert line.startswith(f"refused: user u{role} at tcp://127.0.0.1:50000 (openwire) may not ")
    wanted = text.split(" is not authorized to ")[1].split(" (")[0]
    assert line.split(" may not ")[1] == wanted.replace(": ", " ", 1)
    assert not peer.connection.closed


def test_a_refused_send_without_an_answer_is_told_and_lost() -> None:
    world, peer = openwire_world("r")
    peer.sends(peer.text_message(queue("M.old"), "x", persistent=False))
    error = peer.receives(wire.ConnectionError)
    assert error.exception is not None
    assert (error.exception.class_name, error.exception.message) == (
        SECURITY,
        "User ur is not authorized to write to: queue://M.old",
    )
    assert not peer.connection.closed
    assert all(view.enqueued == 0 for view in world.broker.destination_views())


def test_a_refused_send_spoils_its_transaction() -> None:
    world, peer = openwire_world("rw")
    peer.succeeds(peer.transaction(0))
    message = peer.text_message(queue("M.old"), "fine")
    message.transaction_id = peer.transaction_id()
    peer.succeeds(message)
    message = peer.text_message(queue("OTHER"), "forbidden")
    message.transaction_id = peer.transaction_id()
    assert peer.fails(message)[0] == SECURITY
    class_name, text = peer.fails(peer.transaction(2))
    assert (class_name, text) == (
        "javax.transaction.xa.XAException",
        "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100",
    )
    assert all(view.enqueued == 0 for view in world.broker.destination_views())


def test_the_right_to_make_is_not_asked_for_what_is_there() -> None:
    _, peer = openwire_world("w")
    peer.produces(queue("M.old"), value=5)


def test_a_pattern_gives_only_what_may_be_read_now_and_later() -> None:
    world, peer = openwire_world("r")
    peer.consumes(queue(">"))
    root = world.peers[0]
    root.sends(wire.SessionInfo(root.session_id))
    root.produces()
    for name in ("OTHER", "M.old", "M.later", "SECRET.later"):
        root.succeeds(root.text_message(queue(name), name))
    assert [message.content[4:] for message in peer.dispatched() if message.content] == [b"M.old", b"M.later"]


def test_advisories_of_a_pattern_come_only_where_they_may_be_read() -> None:
    role = AccessList(frozenset("r"), frozenset(), frozenset())
    authorizer = AuthorizationMap([AuthorizationEntry(Destination(TOPIC, "M.>"), role)])
    world = World(authenticator=USERS, authorizer=authorizer)
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:u", user="ur", password=CANARY)
    peer.sends(wire.SessionInfo(peer.session_id))
    peer.received.clear()
    peer.consumes(wire.ActiveMQTopic(">"))
    second = world.peer()
    second.negotiates()
    second.logs_in("ID:v", user="urw", password=CANARY)
    assert peer.dispatched() == [], "connections of others are not for everybody"


def test_the_dead_letters_of_a_consumer_need_no_rights_and_reading_them_does() -> None:
    world, peer = openwire_world("r")
    root = world.peers[0]
    root.sends(wire.SessionInfo(root.session_id))
    root.produces()
    peer.consumes(queue("M.old"))
    root.succeeds(root.text_message(queue("M.old"), "poison"))
    (message,) = peer.dispatched()
    peer.acknowledges(message, kind=1)
    assert any(
        view.destination == "queue://ActiveMQ.DLQ" and view.pending == 1 for view in world.broker.destination_views()
    )
    info = consume(queue("ActiveMQ.DLQ"))(peer)
    info.consumer_id = peer.consumer_id(2)
    assert peer.fails(info) == (SECURITY, "User ur is not authorized to read from: queue://ActiveMQ.DLQ")


@pytest.mark.parametrize(
    ("name", "password", "text"),
    [
        ("ur", "wrong", "User name [ur] or password is invalid."),
        ("nobody", CANARY, "User name [nobody] or password is invalid."),
        (None, None, "User name [null] or password is invalid."),
        ("root", None, "User name [root] or password is invalid."),
    ],
)
def test_openwire_a_failed_login_is_told_and_the_connection_closed(
    name: str | None, password: str | None, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(authenticator=USERS, authorizer=lists())
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:x", user=name, password=password)
    answer = peer.receives(wire.ExceptionResponse)
    assert answer.exception is not None
    assert (answer.exception.class_name, answer.exception.message) == (SECURITY, text)
    assert audit_lines(caplog) == [f"refused: user {name or 'null'} at tcp://127.0.0.1:50000 (openwire) may not log in"]
    world.passes(5.0)
    assert peer.connection.closed
    assert world.broker.connection_views() == []


STOMP: Final[dict[str, tuple[str, str]]] = {
    "subscribe": ("r", "SUBSCRIBE\nid:1\ndestination:/queue/M.old\n"),
    "subscribe and create": ("ra", "SUBSCRIBE\nid:1\ndestination:/queue/M.new\n"),
    "subscribe to a topic and create": ("ra", "SUBSCRIBE\nid:1\ndestination:/topic/M.new\n"),
    "subscribe with options": ("r", "SUBSCRIBE\nid:1\ndestination:/queue/M.old?consumer.exclusive=true\n"),
    "subscribe to a composite": ("ra", "SUBSCRIBE\nid:1\ndestination:/queue/M.old,/topic/M.new\n"),
    "subscribe to a pattern": ("r", "SUBSCRIBE\nid:1\ndestination:/queue/M.>\n"),
    "browse": ("r", "SUBSCRIBE\nid:1\nbrowser:true\ndestination:/queue/M.old\n"),
    "send": ("w", "SEND\ndestination:/queue/M.old\n"),
    "send and create": ("wa", "SEND\ndestination:/queue/M.new\n"),
    "send to a topic and create": ("wa", "SEND\ndestination:/topic/M.new\n"),
    "send to a composite": ("wa", "SEND\ndestination:/queue/M.old,/queue/M.new\n"),
    "send to a pattern": ("w", "SEND\ndestination:/queue/M.*\n"),
    "send to a temporary queue of its own": ("aw", "SEND\ndestination:/temp-queue/mine\n"),
    "subscribe to a temporary queue": ("ar", "SUBSCRIBE\nid:1\ndestination:/temp-queue/mine\n"),
    "listen to advisories": ("ra", "SUBSCRIBE\nid:1\ndestination:/topic/ActiveMQ.Advisory.Queue\n"),
    "send an advisory": ("x", "SEND\ndestination:/topic/ActiveMQ.Advisory.Queue\n"),
    "subscribe to what nobody gave": ("x", "SUBSCRIBE\nid:1\ndestination:/queue/OTHER\n"),
    "send to what nobody gave": ("x", "SEND\ndestination:/queue/M.old,/queue/OTHER\n"),
}


def stomp_stage(role: str) -> tuple[stomp_dialogue.Stage, stomp_dialogue.Peer]:
    stage = stomp_dialogue.Stage(USERS, lists())
    for name in ("M.old", "M.other", "OTHER"):
        stage.broker.configure_destination(Destination(QUEUE, name))
    peer = stage.peer()
    peer.sends(f"CONNECT\naccept-version:1.2\nhost:h\nlogin:u{role}\npasscode:{CANARY}\n\n\0")
    assert [frame.command for frame in peer.receives()] == ["CONNECTED"]
    return stage, peer


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role or "none")
@pytest.mark.parametrize("action", STOMP)
def test_stomp_asks_for_exactly_these_rights(action: str, role: str, caplog: pytest.LogCaptureFixture) -> None:
    needs, frame = STOMP[action]
    stage, peer = stomp_stage(role)
    before = [line for line in state_of(stage.broker) if not line[0].startswith("temp-")]
    lacking = refused_first(needs, role)
    peer.sends(frame + "receipt:r\n\nx\0")
    answers = peer.receives()
    if not lacking:
        assert "RECEIPT" in [answer.command for answer in answers]
        assert audit_lines(caplog) == []
        return
    (answer,) = answers
    text = answer.body.decode()
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "r")
    assert text.startswith(f"User u{role} is not authorized to {VERBS.get(lacking, '')}")
    assert [line for line in state_of(stage.broker) if not line[0].startswith("temp-")] == before
    (line,) = audit_lines(caplog)
    assert line.startswith(f"refused: user u{role} at ")
    assert not peer.closed
    peer.sends("BEGIN\ntransaction:t\nreceipt:still here\n\n\0")
    assert [answer.command for answer in peer.receives()] == ["RECEIPT"]


def test_stomp_a_failed_login_is_an_error_and_the_end(caplog: pytest.LogCaptureFixture) -> None:
    stage = stomp_dialogue.Stage(USERS, lists())
    for headers, name in (
        (f"login:nobody\npasscode:{CANARY}\n", "nobody"),
        ("login:ur\npasscode:bad\n", "ur"),
        ("login:ur\n", "ur"),
        ("", "null"),
    ):
        peer = stage.peer()
        peer.sends(f"CONNECT\naccept-version:1.1\nhost:h\n{headers}\n\0")
        (answer,) = peer.receives()
        assert (answer.command, answer.body.decode()) == ("ERROR", f"User name [{name}] or password is invalid.")
        assert peer.closed
    assert stage.broker.connection_views() == []
    assert len(audit_lines(caplog)) == 4


def test_s35_a_client_id_in_use_is_refused_to_every_other_user() -> None:
    world, peer = openwire_world("rwa")
    thief = world.peer()
    thief.negotiates()
    thief.logs_in("ID:thief", client_id="client-ID:u", user="root", password=CANARY)
    answer = thief.receives(wire.ExceptionResponse)
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.jms.InvalidClientIDException"
    assert not peer.connection.closed


def test_s5_a_right_comes_from_the_login_and_not_from_ids_in_commands(caplog: pytest.LogCaptureFixture) -> None:
    """CVE-2026-74761: every id of the other connection, in every command that has one."""
    world, peer = openwire_world("")
    root = world.peers[0]
    root.sends(wire.SessionInfo(root.session_id))
    root.produces()
    root.consumes(queue("M.old"))
    before = state_of(world.broker)
    foreign = wire.ConnectionId("ID:root")
    message = peer.text_message(queue("M.old"), "x")
    message.producer_id = root.producer_id()
    message.message_id = wire.MessageId(producer_id=root.producer_id(), producer_sequence_id=99)
    commands = [
        wire.SessionInfo(wire.SessionId(connection_id="ID:root", value=7)),
        wire.ProducerInfo(producer_id=root.producer_id(7)),
        wire.ConsumerInfo(consumer_id=root.consumer_id(7), destination=queue("M.old"), prefetch_size=1),
        wire.DestinationInfo(connection_id=foreign, destination=queue("M.new")),
        wire.DestinationInfo(connection_id=foreign, destination=queue("M.old"), operation_type=1),
        wire.TransactionInfo(connection_id=foreign, transaction_id=root.transaction_id(), type=0),
        wire.RemoveInfo(object_id=root.session_id),
        wire.RemoveInfo(object_id=root.producer_id()),
        wire.RemoveInfo(object_id=root.consumer_id()),
        wire.RemoveInfo(object_id=foreign),
        wire.MessagePull(consumer_id=root.consumer_id(), destination=queue("M.old"), timeout=-1),
        message,
    ]
    for command in commands:
        assert peer.fails(command)[0] in (SECURITY, "javax.jms.JMSException"), type(command).__name__
        assert state_of(world.broker) == before, type(command).__name__
    assert len([line for line in audit_lines(caplog) if "may not act for connection ID:root" in line]) == len(commands)
    assert not root.connection.closed


def test_s5_cve_2026_74761_a_message_in_another_producers_name_leaves_a_line_in_the_audit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world, peer = openwire_world("rwa")
    message = peer.text_message(queue("M.old"), "x")
    message.message_id = wire.MessageId(producer_id=world.peers[0].producer_id(), producer_sequence_id=1)
    assert peer.fails(message)[0] == SECURITY
    (line,) = audit_lines(caplog)
    assert line.endswith("(openwire) may not send a message of another than producer ID:u:1:1")


def test_s5_cve_2026_74761_another_clients_durable_subscription_is_not_deleted_and_that_leaves_a_line_in_the_audit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, peer = openwire_world("rwa")
    for client_id in ("client-ID:root", "x" * 60_000, "a\nb"):
        command = wire.RemoveSubscriptionInfo(
            connection_id=wire.ConnectionId("ID:u"), client_id=client_id, subscription_name="s"
        )
        refused, text = peer.fails(command)
        assert refused == SECURITY
        assert len(text or "") < 400
    first, second, third = audit_lines(caplog)
    assert first == ("refused: user urwa at tcp://127.0.0.1:50000 (openwire) may not act for client id client-ID:root")
    assert len(second) < 400
    assert "\n" not in third


def test_s4_cve_2014_3576_a_control_command_leaves_a_line_in_the_audit(caplog: pytest.LogCaptureFixture) -> None:
    _, peer = openwire_world("rwa")
    assert peer.fails(wire.ControlCommand("shutdown"))[0] == SECURITY
    assert audit_lines(caplog) == [
        "refused: user urwa at tcp://127.0.0.1:50000 (openwire) may not control the broker shutdown"
    ]
    assert not peer.connection.closed


def test_s6_cve_2026_54475_another_users_temporary_queue_is_not_read_or_removed_with_any_right() -> None:
    world, peer = openwire_world("rwa")
    name = wire.ActiveMQTempQueue("ID:root:1")
    for command in (
        consume(name)(peer),
        consume(name, browser=True)(peer),
        consume(wire.ActiveMQTempQueue("ID:u:1,ID:root:1"))(peer),
        wire.DestinationInfo(connection_id=wire.ConnectionId("ID:u"), destination=name, operation_type=1),
    ):
        assert peer.fails(command)[0] in (
            "javax.jms.InvalidDestinationException",
            "org.apache.activemq.DestinationDoesNotExistException",
        )
    for pattern in (wire.ActiveMQTempQueue(">"), wire.ActiveMQTempQueue("*")):
        assert peer.fails(send(pattern)(peer))[0] == "org.apache.activemq.DestinationDoesNotExistException"
        assert peer.fails(consume(pattern)(peer))[0] == "org.apache.activemq.DestinationDoesNotExistException"
    assert any(view.destination == "temp-queue://ID:root:1" for view in world.broker.destination_views())


def test_a_peer_cannot_fill_the_audit_and_what_is_left_out_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    world, peer = openwire_world("")
    for _ in range(500):
        peer.fails(send(queue("M.old"))(peer))
    assert len(audit_lines(caplog)) == 20
    world.environment.monotonic += 11
    peer.fails(send(queue("M.old"))(peer))
    assert audit_lines(caplog)[20:] == [
        "480 more refusals were not written",
        "refused: user u at tcp://127.0.0.1:50000 (openwire) may not write to queue://M.old",
    ]


def test_a_name_in_the_audit_stays_on_its_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World(authenticator=USERS)
    peer = world.peer()
    peer.negotiates()
    with caplog.at_level(logging.DEBUG):
        peer.logs_in("ID:x", user="a\nrefused: user root\x1b[0m" + "x" * 10_000, password=CANARY)
    (line,) = audit_lines(caplog)
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) < 400
