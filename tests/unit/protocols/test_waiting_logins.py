"""A login that waits for a directory holds its connection's input, and nothing else."""

from __future__ import annotations

from spanwire.protocols.base import LOGIN_DEADLINE
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.fake_directory import FakeDirectory
from tests.support.openwire_dialogue import OpenWirePeer, World
from tests.support.stomp_dialogue import Stage

CONNECT = "CONNECT\naccept-version:1.2\nhost:h\nlogin:anna\npasscode:{}\n\n\0"
SEND = "SEND\ndestination:/queue/Q\nreceipt:{}\n\nx\0"


def test_frames_behind_a_waiting_login_are_kept_and_acted_on_after_it() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    peer = stage.peer()
    peer.sends(CONNECT.format("anna") + SEND.format(1) + SEND.format(2) + "DISCONNECT\nreceipt:bye\n\n\0")
    assert peer.connection.holds_requests
    assert stage.broker.awaits_login(peer.connection)
    assert peer.receives() == []
    directory.answers()
    assert peer.connection in stage.broker.take_dirty(), "the transport is woken"
    stage.settle()
    assert [frame.headers.get("receipt-id", frame.command) for frame in peer.receives()] == [
        "CONNECTED", "1", "2", "bye",
    ]  # fmt: skip
    assert peer.closed
    assert directory.asked == ["anna"]


def test_a_refused_login_ends_its_connection_and_drops_what_is_behind() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    peer = stage.peer()
    peer.sends(CONNECT.format("guess") + SEND.format(1))
    directory.answers()
    stage.settle()
    (error,) = peer.receives()
    assert (error.command, error.headers["message"]) == ("ERROR", "User name [anna] or password is invalid.")
    assert peer.closed
    assert stage.broker.destination_views() == []


def test_other_clients_are_served_while_a_login_waits() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    slow, quick = stage.peer(), stage.peer()
    slow.sends(CONNECT.format("anna"))
    quick.sends(CONNECT.format("anna"))
    directory.questions.reverse()
    directory.answers()
    stage.settle()
    assert [frame.command for frame in quick.receives()] == ["CONNECTED"]
    assert slow.receives() == []


def test_a_connection_that_ends_before_the_answer_is_dropped() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    peer = stage.peer()
    peer.sends(CONNECT.format("anna"))
    peer.leaves()
    assert not stage.broker.awaits_login(peer.connection)
    assert directory.questions[0][1].is_dropped
    directory.answers()
    stage.settle()
    assert peer.receives() == []
    assert stage.broker.connection_views() == []


def test_a_directory_that_never_answers_meets_the_deadline_of_the_login() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    peer = stage.peer()
    peer.sends(CONNECT.format("anna"))
    stage.passes(LOGIN_DEADLINE + 1)
    assert [frame.command for frame in peer.receives()] == ["ERROR"]
    assert peer.closed
    peer.leaves()
    assert directory.questions[0][1].is_dropped


def test_a_transport_that_does_not_wait_gets_a_refusal() -> None:
    directory = FakeDirectory()
    stage = Stage(authenticator=directory.stack())
    peer = stage.peer()
    peer.sends(CONNECT.format("anna"))
    peer.sends(SEND.format(1))
    (error,) = peer.receives()
    assert "cannot wait for the answer of a directory" in error.headers["message"]
    assert peer.closed


def openwire(world: World, password: str) -> OpenWirePeer:
    peer = world.peer()
    peer.negotiates()
    peer.logs_in("ID:peer-1-1-0:1", user="anna", password=password)
    return peer


def test_an_openwire_login_waits_and_goes_on() -> None:
    directory = FakeDirectory()
    world = World(authenticator=directory.stack())
    peer = openwire(world, "anna")
    assert peer.connection.holds_requests
    peer.receives_nothing()
    directory.answers()
    assert peer.connection in world.broker.take_dirty()
    world.settle()
    peer.receives(wire.Response)
    peer.succeeds(wire.SessionInfo(peer.session_id))
    (state,) = world.broker.assembly.connections.all()
    assert (state.principal.name, state.principal.groups) == ("anna", frozenset({"staff"}))


def test_an_openwire_login_is_refused_as_a_security_exception() -> None:
    directory = FakeDirectory()
    world = World(authenticator=directory.stack())
    peer = openwire(world, "guess")
    directory.answers()
    world.settle()
    exception = peer.receives(wire.ExceptionResponse).exception
    assert exception is not None
    assert exception.class_name == "java.lang.SecurityException"
    world.passes(3.0)
    assert peer.connection.closed


def test_an_openwire_peer_that_vanishes_before_the_answer_leaves_nothing() -> None:
    directory = FakeDirectory()
    world = World(authenticator=directory.stack())
    peer = openwire(world, "anna")
    peer.vanishes()
    directory.answers()
    world.settle()
    assert world.broker.assembly.connections.all() == []
