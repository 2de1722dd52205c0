"""Slowloris: clients that take their time, before and after the login; what a connector grants."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.broker.broker import Broker
from spanwire.model.environment import Time
from spanwire.protocols.base import (
    LOGIN_DEADLINE,
    MAX_STOMP_FRAME_BEFORE_LOGIN,
    ConnectionSettings,
    ProtocolConnection,
)
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.protocols.stomp.broker_connection import StompBrokerConnection
from tests.support.openwire_dialogue import World
from tests.support.stomp_dialogue import Peer, Stage

HELLO = FrameEncoder().encode(wire_format_info(WireFormatPreferences()))
SLOW = {
    "stomp": b"CONNECT\naccept-version:1.2\nhost:" + b"x" * 7000,
    "openwire": HELLO + b"\0\0\xff\xff\x03" + b"x" * 65000,
}
CONNECTIONS: dict[str, Callable[[Broker, ConnectionSettings, Time], ProtocolConnection]] = {
    "stomp": StompBrokerConnection,
    "openwire": OpenWireBrokerConnection,
}
QUEUE = "/queue/NEIGHBOUR"


def serves(neighbour: Peer) -> None:
    """A send with a receipt comes through."""
    neighbour.sends(f"SEND\ndestination:{QUEUE}\nreceipt:r\n\nx\0")
    assert [frame.command for frame in neighbour.receives()] == ["RECEIPT"]


@pytest.mark.parametrize("protocol", list(SLOW))
@pytest.mark.parametrize("timeout", [LOGIN_DEADLINE, 2.5])
def test_s24_one_byte_at_a_time_ends_at_the_deadline_of_the_login(protocol: str, timeout: float) -> None:
    stage = Stage()
    neighbour = stage.peer("1.2")
    settings = ConnectionSettings(login_timeout=timeout)
    slow = CONNECTIONS[protocol](stage.broker, settings, stage.environment.now())
    start = stage.environment.monotonic
    for byte in SLOW[protocol]:
        stage.passes(0.25)
        now = stage.environment.now()
        due = slow.next_timeout()
        if due is not None and due <= now.monotonic:
            slow.handle_timeout(now)
        if slow.closed:
            break
        slow.receive_data(bytes([byte]), now)
    assert slow.closed
    assert stage.environment.monotonic - start == timeout
    serves(neighbour)


def test_s24_a_wire_format_info_does_not_lengthen_the_deadline() -> None:
    stage = Stage()
    start = stage.environment.now()
    slow = OpenWireBrokerConnection(stage.broker, ConnectionSettings(), start)
    stage.passes(LOGIN_DEADLINE - 1)
    slow.receive_data(HELLO, stage.environment.now())
    assert slow.next_timeout() == start.monotonic + LOGIN_DEADLINE


def test_s15_a_login_larger_than_its_limit_is_closed_however_it_arrives() -> None:
    for size in (1, 100, 5000):
        stage = Stage()
        neighbour = stage.peer("1.2")
        slow = stage.peer()
        endless = b"CONNECT\n" + b"header:" + b"x" * (2 * MAX_STOMP_FRAME_BEFORE_LOGIN)
        for start in range(0, len(endless), size):
            if slow.connection.closed:
                break
            slow.connection.receive_data(endless[start : start + size], stage.environment.now())
        assert slow.connection.closed
        assert slow.connection.pending_bytes <= MAX_STOMP_FRAME_BEFORE_LOGIN + size
        serves(neighbour)


def test_s45_a_connector_grants_fewer_consumers_and_producers_than_the_broker() -> None:
    stage = Stage()
    neighbour = stage.peer("1.2")
    granted = stage.peer("1.2", ConnectionSettings(max_consumers=2, max_producers=1))
    for number in range(3):
        granted.sends(f"SUBSCRIBE\nid:{number}\ndestination:{QUEUE}\nreceipt:{number}\n\n\0")
    answers = granted.receives()
    assert [frame.command for frame in answers] == ["RECEIPT", "RECEIPT", "ERROR"]
    assert answers[2].headers["message"].endswith("at maximum limit\\c 2")
    for number in range(3):
        neighbour.sends(f"SUBSCRIBE\nid:{number}\ndestination:/queue/OTHER\nreceipt:{number}\n\n\0")
    assert [frame.command for frame in neighbour.receives()] == ["RECEIPT"] * 3


def test_s45_a_place_that_became_free_can_be_taken_again() -> None:
    stage = Stage()
    granted = stage.peer("1.2", ConnectionSettings(max_consumers=1))
    granted.sends(f"SUBSCRIBE\nid:1\ndestination:{QUEUE}\n\n\0")
    granted.sends("UNSUBSCRIBE\nid:1\n\n\0")
    granted.sends(f"SUBSCRIBE\nid:2\ndestination:{QUEUE}\nreceipt:2\n\n\0")
    assert [frame.command for frame in granted.receives()] == ["RECEIPT"]


def test_s13_before_the_login_no_connector_takes_larger_frames_than_64_kib() -> None:
    stage = Stage()
    slow = OpenWireBrokerConnection(
        stage.broker, ConnectionSettings(max_frame_size=100 * 1024 * 1024), stage.environment.now()
    )
    slow.receive_data(HELLO, stage.environment.now())
    slow.receive_data(b"\0\1\0\1" + bytes([wire.CONNECTION_INFO]), stage.environment.now())
    assert slow.closed


def test_s45_openwire_clients_have_the_same_grants_and_the_words_of_activemq() -> None:
    world = World()
    peer = world.connect(settings=ConnectionSettings(max_producers=2, max_consumers=1))
    queue = wire.ActiveMQQueue(physical_name="GRANTED")
    for number in (1, 2):
        peer.succeeds(wire.ProducerInfo(producer_id=peer.producer_id(number), destination=queue))
    _, text = peer.fails(wire.ProducerInfo(producer_id=peer.producer_id(3), destination=queue))
    assert text is not None and text.startswith("Can't add producer on connection")
    assert text.endswith("at maximum limit: 2")
    neighbour = world.connect()
    for number in (1, 2, 3):
        neighbour.succeeds(wire.ProducerInfo(producer_id=neighbour.producer_id(number), destination=queue))


@pytest.mark.parametrize("protocol", list(CONNECTIONS))
def test_s24_hundreds_of_silent_sockets_of_one_address_leave_one_line(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage()
    silent = [
        CONNECTIONS[protocol](
            stage.broker, ConnectionSettings(remote_address=f"tcp://10.0.0.9:{port}"), stage.environment.now()
        )
        for port in range(500)
    ]
    stage.passes(LOGIN_DEADLINE)
    for connection in silent:
        connection.handle_timeout(stage.environment.now())
        assert connection.closed
    told = [record.getMessage() for record in caplog.records if "10.0.0.9" in record.getMessage()]
    assert len(told) == 1
    late = CONNECTIONS[protocol](
        stage.broker, ConnectionSettings(remote_address="tcp://10.0.0.9:1"), stage.environment.now()
    )
    stage.passes(LOGIN_DEADLINE)
    late.handle_timeout(stage.environment.now())
    assert caplog.records[-1].getMessage().endswith("499 more from there since the last line")
