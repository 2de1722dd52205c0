"""What the first bytes of a client tell, and what becomes of a client that tells nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.model.environment import Time
from spanwire.protocols.base import LOGIN_DEADLINE, ConnectionSettings
from spanwire.protocols.detect import (
    FOREIGN,
    MAX_LINE_ENDS,
    MAX_PROBE_BYTES,
    OPENWIRE,
    STOMP,
    UNDECIDED,
    DetectingConnection,
    Factory,
    detect,
    foreign_name,
)
from spanwire.protocols.openwire.codec.codec import FrameEncoder
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences, wire_format_info
from spanwire.transports.base import Carrier
from tests.unit.transports.stage import FakeConnection

START = Time(1000.0, 1_700_000_000_000)
HELLO = FrameEncoder().encode(wire_format_info(WireFormatPreferences()))
CONNECT = b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


@pytest.mark.parametrize(
    ("beginning", "protocol"),
    [
        (HELLO, OPENWIRE),
        (CONNECT, STOMP),
        (b"STOMP\r\nhost:x\r\n\r\n\0", STOMP),
        (b"\n\r\nCONNECT\n", STOMP),
        (b"GET / HTTP/1.1\r\n", FOREIGN),
        (b"CONNECT broker:61616 HTTP/1.1\r\n", FOREIGN),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", FOREIGN),
        (b"AMQP\x00\x01\x00\x00", FOREIGN),
        (b"\x10\x0c\x00\x04MQTT\x04\x02", FOREIGN),
        (b"\x00\x00\x01\x00\x01ActiveMX", FOREIGN),
        (b"\x7f\xff\xff\xff\x01ActiveMQ", FOREIGN),
        (b"SEND\n", FOREIGN),
        (b"\n" * (MAX_LINE_ENDS + 1), FOREIGN),
    ],
)
def test_the_first_bytes_tell_the_protocol(beginning: bytes, protocol: str) -> None:
    assert detect(beginning) == protocol


@pytest.mark.parametrize("beginning", [HELLO, CONNECT, b"\r\n\r\nSTOMP\n"])
def test_every_cut_of_a_beginning_leads_to_the_same_answer(beginning: bytes) -> None:
    answers = [detect(beginning[:length]) for length in range(len(beginning) + 1)]
    decided = [answer for answer in answers if answer != UNDECIDED]
    assert set(decided) == {detect(beginning)}
    assert answers[0] == UNDECIDED


@given(st.binary(min_size=MAX_PROBE_BYTES))
def test_after_a_bounded_number_of_bytes_every_beginning_is_decided(beginning: bytes) -> None:
    assert detect(beginning) != UNDECIDED


def test_foreign_protocols_have_their_names() -> None:
    assert foreign_name(b"\x16\x03\x01").startswith("TLS")
    assert foreign_name(b"GET /x") == "HTTP"
    assert "not known" in foreign_name(b"\xff\xfe")


class Stage:
    """A detecting connection, the connections it makes, and what it says of those it closes."""

    def __init__(self, *protocols: str) -> None:
        self.made: list[tuple[str, FakeConnection, Time]] = []
        self.reports: list[str] = []
        factories = {protocol: self._factory(protocol) for protocol in protocols or (OPENWIRE, STOMP)}
        self.connection = DetectingConnection(
            ConnectionSettings(), factories, lambda reason, now: self.reports.append(reason), START
        )

    def _factory(self, protocol: str) -> Factory:
        def make(settings: ConnectionSettings, now: Time) -> FakeConnection:
            connection = FakeConnection()
            self.made.append((protocol, connection, now))
            return connection

        return make


def test_the_socket_and_tls_find_the_connection_that_the_broker_knows() -> None:
    """Else what the broker wants to send waits for the next poll."""
    stage = Stage()
    assert known_connection(stage.connection) is stage.connection
    stage.connection.receive_data(CONNECT, START)
    assert known_connection(stage.connection) is stage.made[0][1]


def known_connection(connection: object) -> object:
    assert isinstance(connection, Carrier)
    return connection.carried


@pytest.mark.parametrize(("beginning", "protocol"), [(HELLO, OPENWIRE), (CONNECT, STOMP)])
def test_the_protocol_gets_every_byte_however_they_arrive(beginning: bytes, protocol: str) -> None:
    stage = Stage()
    later = Time(START.monotonic + 3, START.wall_ms + 3000)
    for number in range(len(beginning)):
        stage.connection.receive_data(beginning[number : number + 1], later)
    ((found, inner, started),) = stage.made
    assert found == protocol
    assert b"".join(inner.received) == beginning
    assert started == START  # one deadline from the socket's first moment to the login
    assert stage.connection.carried is inner


def test_nothing_is_said_before_the_protocol_is_known() -> None:
    stage = Stage()
    stage.connection.receive_data(HELLO[:5], START)
    assert stage.connection.data_to_send() == []
    assert stage.connection.carried is stage.connection
    assert stage.connection.pending_bytes == 5


def test_a_foreign_protocol_is_closed_at_once_without_an_answer() -> None:
    stage = Stage()
    stage.connection.receive_data(b"GET / HTTP/1.1\r\n\r\n", START)
    assert stage.connection.closed
    assert stage.connection.data_to_send() == []
    assert stage.reports == ["the client speaks HTTP"]
    stage.connection.receive_data(HELLO, START)
    assert stage.made == []


def test_a_protocol_that_the_connector_does_not_take_is_closed() -> None:
    stage = Stage(STOMP)
    stage.connection.receive_data(HELLO, START)
    assert stage.connection.closed
    assert stage.reports == ["the client speaks openwire, which this connector does not take"]


def test_a_client_that_says_nothing_is_closed_at_the_deadline() -> None:
    stage = Stage()
    stage.connection.receive_data(HELLO[:3], START)
    due = stage.connection.next_timeout()
    assert due == START.monotonic + LOGIN_DEADLINE
    stage.connection.handle_timeout(Time(due - 0.01, START.wall_ms))
    assert not stage.connection.closed
    stage.connection.handle_timeout(Time(due, START.wall_ms))
    assert stage.connection.closed
    assert stage.reports == ["the client did not begin any protocol within 10 s"]


MQTT = {
    "a connection": b"\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00",
    "four bytes of length without an end": b"\x10\xff\xff\xff\xff\xff",
    "the greatest length": b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x05",
    "a message for a topic without a name": b"\x30\x04\x00\x00\x00x",
    "a will for a topic without a name": b"\x10\x11\x00\x04MQTT\x05\x04\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00",
    "properties longer than the packet": b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\xff\xff\xff\x7f",
    "a subscription before the login": b"\x82\x05\x00\x01\x00\x00\x01",
}


@pytest.mark.parametrize("attack", list(MQTT))
@pytest.mark.parametrize("octets", [1, 3, 1_000_000])
def test_s43_packets_of_mqtt_end_the_connection_at_once_and_nothing_of_them_is_kept(attack: str, octets: int) -> None:
    """No length of a packet is read, so none can be believed."""
    stage = Stage()
    sent = MQTT[attack] + b"x" * 1_000_000
    for start in range(0, len(sent), octets):
        stage.connection.receive_data(sent[start : start + octets], START)
        assert stage.connection.pending_bytes <= MAX_PROBE_BYTES
        if stage.connection.closed:
            break
    assert start < MAX_PROBE_BYTES
    assert stage.connection.closed
    assert stage.connection.data_to_send() == []
    assert stage.made == []
    name = "MQTT, which this version does not support" if sent[0] == 0x10 else "a protocol that is not known here"
    assert stage.reports == [f"the client speaks {name}"]
