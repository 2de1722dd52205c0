"""kombu's integration tests of a transport, with Spanwire's and a broker for all of them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest
from kombu import Connection
from t.integration.common import (
    BaseExchangeTypes,
    BaseFailover,
    BaseMessage,
    BasePriority,
    BaseTimeToLive,
    BasicFunctionality,
)

from spanwire.adapters.kombu import register
from spanwire.testing import Broker

CONFIGURATION: Final = """
[[transport_connectors]]
name = "openwire"
uri = "tcp://127.0.0.1:0"

[[destination_policy.policy_entries]]
queue = ">"
prioritized_messages = true
"""
NOBODY: Final = "spanwire://127.0.0.1:1"
SILENCE_S: Final = 0.3  # seconds without a message after which no further one comes


class DrainingConnection(Connection):
    """A connection whose `drain_events` takes all messages that are there, as AMQP's.

    In kombu's virtual transports it takes one, and the tests of priorities wait once for three.
    """

    def drain_events(self, **options: Any) -> None:
        super().drain_events(**options)
        with suppress(socket.timeout):
            while True:
                super().drain_events(timeout=SILENCE_S)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    register()
    with Broker(CONFIGURATION) as broker:
        yield f"spanwire://{broker.host}:{broker.port}"


@pytest.fixture
def connection(url: str) -> Any:
    return Connection(url)


@pytest.fixture
def invalid_connection(url: str) -> Any:
    return Connection(NOBODY)


@pytest.fixture
def failover_connection(url: str) -> Any:
    return Connection([NOBODY, url])


class TestBasicFunctionality(BasicFunctionality):
    pass


class TestExchangeTypes(BaseExchangeTypes):
    pass


class TestTimeToLive(BaseTimeToLive):
    pass


class TestPriority(BasePriority):
    @pytest.fixture
    def connection(self, url: str) -> Any:
        return DrainingConnection(url)


class TestMessage(BaseMessage):
    pass


class TestFailover(BaseFailover):
    pass
