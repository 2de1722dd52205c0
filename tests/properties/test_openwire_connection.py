"""Whatever bytes come, in whatever pieces: the connection answers or closes, and nobody else notices."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spanwire.protocols.openwire.codec import _marshallers as wire
from tests.support.openwire_dialogue import OpenWirePeer, World

QUEUE = wire.ActiveMQQueue("Q")


def session(peer: OpenWirePeer) -> list[bytes]:
    """The frames of a client that does a little of everything after its login."""
    transacted = peer.text_message(QUEUE, "transacted")
    transacted.transaction_id = peer.transaction_id()
    message_id = wire.MessageId(producer_id=peer.producer_id(), producer_sequence_id=2)
    commands: list[Any] = [
        wire.ProducerInfo(producer_id=peer.producer_id(), destination=QUEUE, window_size=4096),
        wire.ConsumerInfo(consumer_id=peer.consumer_id(), destination=QUEUE, prefetch_size=10, selector="a IS NULL"),
        peer.text_message(QUEUE, "one"),
        wire.MessageAck(
            destination=QUEUE,
            consumer_id=peer.consumer_id(),
            ack_type=2,
            first_message_id=message_id,
            last_message_id=message_id,
            message_count=1,
        ),
        peer.transaction(0),
        transacted,
        peer.transaction(2),
        wire.MessagePull(consumer_id=peer.consumer_id(), destination=QUEUE, timeout=-1),
        wire.DestinationInfo(destination=wire.ActiveMQTempQueue(peer.connection_id + ":1")),
        wire.ConsumerControl(consumer_id=peer.consumer_id(), prefetch=5),
        wire.RemoveInfo(object_id=peer.consumer_id(), last_delivered_sequence_id=-2),
        wire.RemoveInfo(object_id=peer.session_id),
        wire.KeepAliveInfo(),
    ]
    frames = []
    for number, command in enumerate(commands):
        command.command_id = 100 + number
        command.response_required = True
        frames.append(peer.encoder.encode(command))
    return frames


def new_peer() -> tuple[World, OpenWirePeer]:
    world = World()
    return world, world.connect("ID:fuzz:1")


SAMPLE = b"".join(session(new_peer()[1]))


def answers(pieces: list[bytes]) -> list[str]:
    world, peer = new_peer()
    for piece in pieces:
        peer.connection.receive_data(piece, world.now)
    world.settle()
    return peer.told()


@given(st.lists(st.integers(0, len(SAMPLE)), max_size=20))
def test_any_chunking_gives_the_same_answers(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(SAMPLE)]
    pieces = [SAMPLE[start:end] for start, end in itertools.pairwise(places)]
    assert answers(pieces) == answers([SAMPLE])


@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.binary(max_size=6), st.integers(0, 6)), max_size=4))
def test_a_changed_session_is_answered_or_closed_and_nobody_else_notices(changes: list[tuple[int, bytes, int]]) -> None:
    octets = SAMPLE
    for place, inserted, removed in changes:
        octets = octets[:place] + inserted + octets[place + removed :]
    world, peer = new_peer()
    other = world.connect()
    peer.connection.receive_data(octets, world.now)
    world.settle()
    other.produces(wire.ActiveMQQueue("OTHER"))
    other.consumes(wire.ActiveMQQueue("OTHER"))
    other.succeeds(other.text_message(wire.ActiveMQQueue("OTHER"), "still here"))
    assert len(other.dispatched()) == 1
    peer.vanishes()
    assert [view.connection_id for view in world.broker.connection_views()] == [other.connection_id]


@given(st.binary(max_size=200))
def test_garbage_before_the_login_is_closed_or_waited_for(octets: bytes) -> None:
    world = World()
    peer = world.peer()
    peer.flush()
    peer.connection.receive_data(octets, world.now)
    world.passes(11.0)
    assert peer.connection.closed
    assert world.broker.connection_views() == []
