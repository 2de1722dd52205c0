"""Many requests in one packet: a connection acts on as many as a turn allows, and in their order."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.wildcard_matching import JOIN_STEPS
from spanwire.model.destination import QUEUE, Destination
from spanwire.protocols.base import REQUEST_STEPS
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from tests.support.openwire_dialogue import OpenWirePeer, World
from tests.support.stomp_dialogue import Stage

CONSUMERS = 40
AT_MOST = REQUEST_STEPS + JOIN_STEPS  # the last request may have a whole slice of its own


def portions(connection: OpenWireBrokerConnection | StompBrokerConnection, world: World | Stage, data: bytes) -> int:
    """Feed ``data``, go on as long as requests are held, and count the turns; none takes too many steps."""
    broker, turns = world.broker, 1
    before = broker.steps
    connection.receive_data(data, world.environment.now())
    assert broker.steps - before <= AT_MOST
    while connection.holds_requests:
        before = broker.steps
        connection.go_on(world.environment.now())
        assert 0 < broker.steps - before <= AT_MOST
        turns += 1
        assert turns < 10_000
    return turns


def with_queues(world: World | Stage) -> None:
    for number in range(2 * JOIN_STEPS):
        world.broker.configure_destination(Destination(QUEUE, f"Q.{number}"))


def consumers(peer: OpenWirePeer, count: int) -> bytes:
    octets = b""
    for value in range(1, count + 1):
        info = wire.ConsumerInfo(
            consumer_id=peer.consumer_id(value), destination=wire.ActiveMQQueue(">"), prefetch_size=1
        )
        info.command_id = 100 + value
        info.response_required = True
        octets += peer.encoder.encode(info)
    return octets


@pytest.mark.large
def test_requests_of_one_packet_that_ask_for_much_take_several_turns_in_openwire() -> None:
    world = World()
    with_queues(world)
    peer = world.connect()
    assert portions(peer.connection, world, consumers(peer, CONSUMERS)) >= CONSUMERS * JOIN_STEPS // AT_MOST
    world.settle()
    answers = [command.correlation_id for command in peer.received if isinstance(command, wire.Response)]
    assert answers == list(range(101, 101 + CONSUMERS))


@pytest.mark.large
def test_requests_of_one_packet_that_ask_for_much_take_several_turns_in_stomp() -> None:
    stage = Stage()
    with_queues(stage)
    peer = stage.peer("1.2")
    frames = "".join(
        f"SUBSCRIBE\nid:{number}\ndestination:/queue/>\nreceipt:{number}\n\n\0" for number in range(CONSUMERS)
    )
    assert portions(peer.connection, stage, frames.encode()) >= CONSUMERS * JOIN_STEPS // AT_MOST
    stage.settle()
    assert [frame.headers["receipt-id"] for frame in peer.receives()] == [str(number) for number in range(CONSUMERS)]


@pytest.mark.large
def test_bytes_that_are_fed_while_requests_are_held_come_behind_them() -> None:
    stage = Stage()
    with_queues(stage)
    peer = stage.peer("1.2")
    frames = "".join(f"SUBSCRIBE\nid:{number}\ndestination:/queue/>\n\n\0" for number in range(CONSUMERS))
    peer.connection.receive_data(frames.encode(), stage.environment.now())
    assert peer.connection.holds_requests
    peer.sends(f"UNSUBSCRIBE\nid:{CONSUMERS - 1}\nreceipt:last\n\n\0")
    assert [frame.headers for frame in peer.receives()] == [{"receipt-id": "last"}]


def test_silence_is_no_reason_to_go_on_with_requests_that_are_held() -> None:
    stage = Stage()
    with_queues(stage)
    peer = stage.peer("1.2")
    frames = "".join(f"SUBSCRIBE\nid:{number}\ndestination:/queue/>\n\n\0" for number in range(CONSUMERS))
    peer.connection.receive_data(frames.encode(), stage.environment.now())
    before = stage.broker.steps
    peer.connection.receive_data(b"", stage.environment.now())
    assert stage.broker.steps == before


def test_a_connection_that_is_gone_forgets_the_requests_that_it_held() -> None:
    world = World()
    with_queues(world)
    peer = world.connect()
    peer.connection.receive_data(consumers(peer, CONSUMERS), world.now)
    assert peer.connection.holds_requests
    peer.vanishes()
    assert not peer.connection.holds_requests
    assert {view.consumers for view in world.broker.destination_views()} == {0}


def goes_on(connection: OpenWireBrokerConnection | StompBrokerConnection, world: World | Stage, seconds: float) -> int:
    """Go on as long as requests are held, with so much time between turns, and count the turns."""
    turns = 0
    while connection.holds_requests:
        world.environment.monotonic += seconds
        connection.handle_timeout(world.environment.now())
        connection.go_on(world.environment.now())
        turns += 1
    connection.handle_timeout(world.environment.now())
    while world.broker.next_timeout() == 0.0:
        world.broker.run(world.environment.now())
    return turns


@pytest.mark.large
def test_a_client_of_openwire_is_not_taken_for_silent_while_its_requests_are_held() -> None:
    world = World()
    with_queues(world)
    peer = world.connect()
    peer.connection.receive_data(consumers(peer, CONSUMERS), world.now)
    assert goes_on(peer.connection, world, 10.0) > 10
    assert {view.consumers for view in world.broker.destination_views()} == {CONSUMERS}


@pytest.mark.large
def test_a_client_of_stomp_is_not_taken_for_silent_while_its_requests_are_held() -> None:
    stage = Stage()
    with_queues(stage)
    peer = stage.peer()
    peer.sends("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:1000,0\n\n\0")
    frames = "".join(f"SUBSCRIBE\nid:{number}\ndestination:/queue/>\n\n\0" for number in range(CONSUMERS))
    peer.connection.receive_data(frames.encode(), stage.environment.now())
    assert goes_on(peer.connection, stage, 0.5) > 10
    assert {view.consumers for view in stage.broker.destination_views()} == {CONSUMERS}
