"""Commands behind a commit or rollback of many messages are held until that has ended, and none is lost."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.model.errors import ResourceAllocationError
from spanwire.protocols.base import LOGIN_DEADLINE
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.xa_commands import BEGIN, COMMIT_ONE_PHASE, ROLLBACK
from tests.support.openwire_dialogue import LateStore, OpenWirePeer, World

MANY: Final = 3 * JOB_STEPS


Q: Final = wire.ActiveMQQueue("Q")
R: Final = wire.ActiveMQQueue("R")


def sent_much(world: World, *, reconnects: bool = False, name: str = "ID:p-1") -> OpenWirePeer:
    """A failover client that has sent much in a transaction."""
    peer = world.peer()
    peer.negotiates()
    peer.connection_id = name
    for command in (login(name, reconnects=reconnects), wire.SessionInfo(peer.session_id)):
        peer.requests(command)
    peer.produces(Q)
    peer.transacts(BEGIN)
    frames = b"".join(peer.encoder.encode(in_transaction(peer, str(number))) for number in range(MANY))
    peer.sends_octets(frames)
    peer.received.clear()
    return peer


def in_transaction(peer: OpenWirePeer, text: str) -> wire.ActiveMQTextMessage:
    message = peer.text_message(Q, text)
    message.transaction_id = peer.transaction_id()
    return message


def login(name: str, *, reconnects: bool = False) -> wire.ConnectionInfo:
    return wire.ConnectionInfo(
        connection_id=wire.ConnectionId(name),
        client_id="client-" + name,
        manageable=True,
        client_master=True,
        fault_tolerant=True,
        failover_reconnect=reconnects,
    )


def one_read(peer: OpenWirePeer, *commands: wire.BaseCommand) -> list[int]:
    """All of them arrive in one read, and the turn ends there; gives their ids."""
    octets = b""
    ids: list[int] = []
    for command in commands:
        peer._command_id += 1
        command.command_id = peer._command_id
        command.response_required = True
        ids.append(command.command_id)
        octets += peer.encoder.encode(command)
    peer.connection.receive_data(octets, peer.world.now)
    return ids


def answers(peer: OpenWirePeer) -> list[int]:
    """The ids of the commands that were answered with success since the last call."""
    peer.flush()
    found = [command.correlation_id for command in peer.received if type(command) is wire.Response]
    peer.received.clear()
    return found


def pending(world: World, destination: str) -> int:
    for view in world.broker.destination_views():
        if view.destination == destination:
            return view.pending
    return 0


def test_commands_behind_a_commit_are_held_until_it_has_ended() -> None:
    store = LateStore()
    world = World(store=store)
    peer = sent_much(world)
    commit, send, remove = one_read(
        peer,
        peer.transaction(COMMIT_ONE_PHASE),
        peer.text_message(R, "behind"),
        wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)),
    )
    for _ in range(2):
        world.broker.run(world.now)
        assert answers(peer) == []
        assert peer.connection.holds_requests
        assert not store.kept, "nothing is visible before all of it is"
    while peer.connection.holds_requests:
        world.broker.run(world.now)
        peer.connection.go_on(world.now)
    assert len(store.kept) == MANY + 1
    world.stores()
    assert [pending(world, "queue://Q"), pending(world, "queue://R")] == [MANY, 1]
    assert set(answers(peer)) <= {commit, send, remove}
    assert world.broker.connection_views() == []


def test_a_keep_alive_is_not_missed_during_a_commit() -> None:
    world = World(store=LateStore())
    peer = sent_much(world)
    one_read(peer, peer.transaction(COMMIT_ONE_PHASE))
    while peer.connection.holds_requests:
        world.environment.monotonic += 25.0
        world.broker.run(world.now)
        peer.connection.go_on(world.now)
        peer.connection.handle_timeout(world.now)
        assert not peer.connection.closed


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_failover_client_that_is_back_waits_for_the_end_of_its_commit(is_refused: bool) -> None:
    store = LateStore()
    world = World(store=store)
    peer = sent_much(world)
    again = world.peer()
    again.negotiates()
    again.connection_id = peer.connection_id
    one_read(peer, peer.transaction(COMMIT_ONE_PHASE))
    peer.is_gone = True
    peer.connection.receive_eof(world.now)
    if is_refused:
        store.refused = ResourceAllocationError("no")
    (logged_in,) = one_read(again, login(peer.connection_id, reconnects=True))
    turns = 0
    while again.connection.holds_requests:
        assert answers(again) == []
        world.broker.run(world.now)
        again.connection.go_on(world.now)
        turns += 1
    assert turns > 2
    store.refused = None
    assert answers(again) == [logged_in]
    again.requests(wire.SessionInfo(again.session_id))
    again.produces(Q)
    again.transacts(BEGIN)
    again.sends_octets(b"".join(again.encoder.encode(in_transaction(again, str(number))) for number in range(MANY)))
    one_read(again, again.transaction(COMMIT_ONE_PHASE))
    world.settle()
    world.stores()
    assert pending(world, "queue://Q") == MANY, "once, and not never"


def test_a_login_that_waits_has_a_deadline_and_others_do_not_wait() -> None:
    world = World(store=LateStore())
    peer = sent_much(world)
    again, other = world.peer(), world.peer()
    for each in (again, other):
        each.negotiates()
    one_read(peer, peer.transaction(COMMIT_ONE_PHASE))
    (logged_in,) = one_read(other, login("ID:other-1"))
    assert answers(other) == [logged_in]
    one_read(again, login(peer.connection_id, reconnects=True))
    assert again.connection.holds_requests
    world.environment.monotonic += LOGIN_DEADLINE
    again.connection.handle_timeout(world.now)
    assert again.connection.closed


def test_commands_behind_a_large_rollback_are_held() -> None:
    world = World(store=LateStore())
    peer = sent_much(world)
    rollback, send = one_read(peer, peer.transaction(ROLLBACK), peer.text_message(R, "behind"))
    assert answers(peer) == [rollback], "nothing can refuse it any more"
    assert peer.connection.holds_requests
    assert pending(world, "queue://R") == 0
    world.settle()
    world.stores()
    assert answers(peer) == [send]
    assert (pending(world, "queue://Q"), pending(world, "queue://R")) == (0, 1)


def test_bytes_that_a_transport_feeds_during_an_openwire_commit_come_behind_it() -> None:
    world = World(store=LateStore())
    peer = sent_much(world)
    (commit,) = one_read(peer, peer.transaction(COMMIT_ONE_PHASE))
    assert peer.connection.holds_requests
    (send,) = one_read(peer, peer.text_message(Q, "behind"))
    world.settle()
    world.stores()
    world.settle()
    assert sorted(answers(peer)) == [commit, send]
    assert pending(world, "queue://Q") == MANY + 1
