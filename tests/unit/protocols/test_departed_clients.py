"""What a client leaves in memory when it goes: nothing that waits for a full garbage collection.

Such collections are rare in the process of a broker (`spanwire.service.machine.interpreter`), so whatever refers to
itself would stay for hours, with its buffers.
"""

from __future__ import annotations

import gc

import pytest

from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import World
from tests.support.stomp_dialogue import Stage
from tests.support.xmpp_dialogue import XmppPeer, xmpp_stage


def _openwire_client(world: World, ends: bool) -> None:
    queue, topic = wire.ActiveMQQueue("Q"), wire.ActiveMQTopic("T")
    peer = world.connect()
    peer.produces(queue)
    peer.consumes(queue)
    peer.consumes(topic, 2)
    peer.consumes(queue, 3, browser=True)
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
