"""Which sockets a connector takes: limits by connector, in total and by address, and what surrounds a connection."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import cast

import pytest

from spanwire.model.environment import Time
from spanwire.protocols.base import ConnectionSettings, ProtocolConnection
from spanwire.transports.admission import Admission
from spanwire.transports.base import ConnectorSettings
from spanwire.transports.connector import TransportConnector
from tests.unit.transports.stage import FakeConnection, FakeSocket

NOW = Time(1000.0, 1_700_000_000_000)


class Door:
    """A connector without a listening socket, and the settings of the connections it made."""

    def __init__(self, settings: ConnectorSettings, admission: Admission | None = None) -> None:
        self.connector = TransportConnector(settings, admission or Admission())
        self.made: list[ConnectionSettings] = []
        self.connector.serve(dict.fromkeys(("openwire", "stomp"), self._make))

    def _make(self, settings: ConnectionSettings, now: Time) -> ProtocolConnection:
        self.made.append(settings)
        return FakeConnection()

    def knocks(self, host: str, now: Time = NOW) -> asyncio.Transport | None:
        """A socket from ``host``; None when it is not taken."""
        transport = cast(asyncio.Transport, FakeSocket(peer=(host, 5000)))
        return transport if self.connector.accept(transport, now) is not None else None


DEFAULT = ConnectorSettings(name="c", scheme="tcp", host="0.0.0.0", port=1, protocol="openwire")


def test_s45_one_address_takes_no_more_than_its_share_and_a_neighbour_gets_in() -> None:
    door = Door(DEFAULT)
    taken = [door.knocks("10.0.0.1") for _ in range(1000)]
    assert None not in taken
    assert door.knocks("10.0.0.1") is None
    assert door.knocks("10.0.0.2") is not None
    assert door.knocks("2001:db8::1") is not None
    first = taken[0]
    assert first is not None
    door.connector.release(first)
    assert door.knocks("10.0.0.1") is not None


def test_s45_the_share_of_an_address_counts_over_all_connectors() -> None:
    admission = Admission(max_connections=100, max_connections_per_address=3)
    doors = [Door(DEFAULT, admission), Door(DEFAULT, admission)]
    assert [door.knocks("10.0.0.1") is not None for door in (*doors, *doors)] == [True, True, True, False]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.255.0.7", "::1", "::ffff:127.0.0.1"])
def test_loopback_has_no_share_of_its_own(host: str) -> None:
    door = Door(DEFAULT, Admission(max_connections=100, max_connections_per_address=3))
    assert None not in [door.knocks(host) for _ in range(10)]


def test_s45_the_limit_of_a_connector_and_of_all_hold() -> None:
    admission = Admission(max_connections=5, max_connections_per_address=100)
    small = Door(replace(DEFAULT, maximum_connections=2), admission)
    other = Door(DEFAULT, admission)
    assert [small.knocks("10.0.0.1") is not None for _ in range(3)] == [True, True, False]
    assert [other.knocks("10.0.0.2") is not None for _ in range(4)] == [True, True, True, False]


def test_refusals_are_logged_once_a_second_with_their_number(caplog: pytest.LogCaptureFixture) -> None:
    door = Door(replace(DEFAULT, maximum_connections=0))
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            door.knocks("10.0.0.1", Time(NOW.monotonic + number / 500, NOW.wall_ms))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert lines[0].startswith("1 connection(s) refused")
    assert lines[1].startswith("500 connection(s) refused")


def test_a_connection_is_told_what_its_connector_grants() -> None:
    door = Door(replace(DEFAULT, login_timeout=3.0, max_consumers=7, max_producers=8))
    door.knocks("10.0.0.1")
    (made,) = door.made
    assert (made.login_timeout, made.max_consumers, made.max_producers) == (3.0, 7, 8)
    assert made.remote_address == "tcp://10.0.0.1:5000"
    assert made.certificate_subject is None


def test_a_detecting_connector_makes_nothing_before_the_first_bytes() -> None:
    door = Door(replace(DEFAULT, protocol="auto", protocols=("openwire", "stomp")))
    transport = cast(asyncio.Transport, FakeSocket(peer=("10.0.0.1", 5000)))
    connection = door.connector.accept(transport, NOW)
    assert connection is not None and door.made == []
    connection.receive_data(b"STOMP\n", NOW)
    assert len(door.made) == 1
