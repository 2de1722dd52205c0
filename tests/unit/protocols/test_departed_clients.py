"""What a client leaves in memory when it goes: nothing that waits for a full garbage collection.

Such collections are rare in the process of a broker (`spanwire.service.machine.interpreter`), so whatever refers to
itself would stay for hours, with its buffers.
"""

from __future__ import annotations

import gc

import pytest

from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import World
from tests.support.stomp_dialogue import Stage
from tests.support.xmpp_dialogue import XmppPeer, xmpp_stage

BEGIN, PREPARE = 0, 1  # types of a TransactionInfo


def _openwire_client(world: World, ends: bool) -> None:
    queue, topic = wire.ActiveMQQueue("Q"), wire.ActiveMQTopic("T")
    peer = world.connect()
    peer.produces(queue)
    peer.consumes(queue)
    peer.consumes(topic, 2)
    peer.consumes(queue, 3, browser=True)
    for number in range(3):
        peer.succeeds(peer.text_message(queue, f"acknowledged {number}"))
        peer.acknowledges(peer.dispatched()[-1])
    peer.succeeds(peer.text_message(queue, "never acknowledged"))
    if ends:
        peer.succeeds(wire.RemoveInfo(object_id=wire.ConnectionId(peer.connection_id)))
    peer.vanishes()
    world.peers.remove(peer)
    world.settle()


@pytest.mark.parametrize("ends", [True, False], ids=["in order", "torn off"])
def test_an_openwire_client_leaves_no_cycle(ends: bool) -> None:
    world = World()
    _openwire_client(world, ends)
    gc.collect()
    _openwire_client(world, ends)
    assert gc.collect() == 0


def _client_with_a_prepared_branch(world: World) -> None:
    queue = wire.ActiveMQQueue("Q")
    peer = world.connect()
    peer.produces(queue)
    peer.consumes(queue)
    peer.succeeds(peer.text_message(queue, "acknowledged in the branch"))
    branch = wire.XATransactionId(format_id=1, global_transaction_id=b"1", branch_qualifier=b"2")
    transaction = wire.TransactionInfo(connection_id=wire.ConnectionId(peer.connection_id), transaction_id=branch)
    transaction.type = BEGIN
    peer.succeeds(transaction)
    peer.acknowledges(peer.dispatched()[0], transaction_id=branch)
    transaction.type = PREPARE
    peer.requests(transaction)
    peer.vanishes()
    world.peers.remove(peer)
    world.settle()


def test_a_prepared_branch_does_not_keep_the_connection_of_its_client() -> None:
    world = World()
    gc.collect()  # of other tests
    before = _openwire_connections()
    _client_with_a_prepared_branch(world)
    assert len(world.broker.xa.prepared()) == 1
    assert _openwire_connections() == before


def _openwire_connections() -> int:
    return sum(isinstance(item, OpenWireBrokerConnection) for item in gc.get_objects())


def _stomp_client(stage: Stage) -> None:
    peer = stage.peer(connect="1.2")
    peer.sends("SUBSCRIBE\nid:1\ndestination:/queue/Q\nack:client-individual\n\n\0")
    peer.sends("SUBSCRIBE\nid:2\ndestination:/topic/T\n\n\0")
    peer.sends("SEND\ndestination:/queue/Q\n\nnever acknowledged\0")
    peer.leaves()
    stage.peers.remove(peer)


def test_a_stomp_client_leaves_no_cycle() -> None:
    stage = Stage()
    _stomp_client(stage)
    gc.collect()
    _stomp_client(stage)
    assert gc.collect() == 0


def _xmpp_client(stage: Stage) -> None:
    peer = XmppPeer(stage).logs_in()
    peer.sends("<message to='Q@queue.example.org' type='chat'><body>hello</body></message>")
    peer.leaves()
    stage.peers.remove(peer)


def test_an_xmpp_client_leaves_no_cycle() -> None:
    stage = xmpp_stage()
    _xmpp_client(stage)
    gc.collect()
    _xmpp_client(stage)
    assert gc.collect() == 0


def _broken_openwire_client(world: World, octets: bytes) -> None:
    peer = world.connect()
    peer.sends_octets(octets)
    peer.vanishes()
    world.peers.remove(peer)


@pytest.mark.parametrize(
    "octets", [b"\0\0\0\1\xff", b"\x7f\xff\xff\xff", b"\0\0\0\3\3\0\0"], ids=["type", "size", "short"]
)
def test_an_openwire_client_that_breaks_the_protocol_leaves_no_cycle(octets: bytes) -> None:
    world = World()
    _broken_openwire_client(world, octets)
    gc.collect()
    _broken_openwire_client(world, octets)
    assert gc.collect() == 0


def _broken_stomp_client(stage: Stage, text: bytes) -> None:
    peer = stage.peer(connect="1.2")
    peer.sends(text)
    assert peer.closed
    peer.leaves()
    stage.peers.remove(peer)


@pytest.mark.parametrize("text", [b"NONSENSE\n\n\0", b"SEND\ndestination:\xff\n\n\0"], ids=["action", "text"])
def test_a_stomp_client_that_breaks_the_protocol_leaves_no_cycle(text: bytes) -> None:
    stage = Stage()
    _broken_stomp_client(stage, text)
    gc.collect()
    _broken_stomp_client(stage, text)
    assert gc.collect() == 0


def _broken_xmpp_client(stage: Stage, text: str) -> None:
    peer = XmppPeer(stage).logs_in()
    peer.sends(text)
    assert peer.closed
    peer.leaves()
    stage.peers.remove(peer)


@pytest.mark.parametrize("text", ["<a></b>", "<!--x-->", "text between>"], ids=["wrong", "comment", "text"])
def test_an_xmpp_client_that_breaks_the_protocol_leaves_no_cycle(text: str) -> None:
    stage = xmpp_stage()
    _broken_xmpp_client(stage, text)
    gc.collect()
    _broken_xmpp_client(stage, text)
    assert gc.collect() == 0
