"""Asyncio client of ActiveMQ and Spanwire brokers.

    async with aio.connect("tcp://localhost:61616") as connection, connection.session() as session:
        producer = await session.create_producer("queue://ORDERS")
        await producer.send("text", properties={"n": 1})
        consumer = await session.create_consumer("queue://ORDERS", selector="n > 0")
        message = await consumer.receive(timeout=5)

A connection and all of its objects belong to one event loop. The loop writes all commands of one turn together.
`spanwire.client.blocking` has the same names without ``await``. ``vm:`` and ``peer:`` URLs reach a broker of the same
process through `spanwire.client.protocol.transport.in_process`.
"""

from __future__ import annotations

from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Final, cast

from spanwire.client.addressing.address import parse_url
from spanwire.client.aio.browser import Browser as Browser
from spanwire.client.aio.connection import Connection as Connection
from spanwire.client.aio.consumer import Consumer as Consumer
from spanwire.client.aio.producer import Producer as Producer
from spanwire.client.aio.session import Session as Session
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.io.environment import Machine
from spanwire.client.io.tracing_switch import is_traced
from spanwire.client.protocol.connection import ClientConnection
from spanwire.registry import TRACED_AIO, load
from spanwire.tls.settings import ClientTlsSettings


def connect(
    url: str,
    user_name: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    tls: ClientTlsSettings | None = None,
) -> Connecting:
    """Connect and log in: ``await connect(…)`` or ``async with connect(…) as connection``.

    Arguments:
        url: ``tcp://host:port``, ``ssl:``, ``vm:``, ``peer:``, ``failover:(…)``, ``fanout:(…)`` or ``discovery:(…)``.
        user_name: Login name; overrides ``jms.userName`` of the URL.
        password: Password; overrides ``jms.password``.
        client_id: JMS client id, needed for durable subscriptions; overrides ``jms.clientID``.
        tls: Key store, trust store and host name verification for ``ssl:`` URLs.

    Raises:
        ConfigurationError: The URL or an option of the URL is wrong.
        JmsError: No broker accepted the connection; `AuthenticationError` if a broker refused the login.
    """
    return Connecting(url, user_name, password, client_id, tls)


class Connecting:
    """A connection that is not open yet: the result of `connect`, to be awaited or entered."""

    def __init__(
        self,
        url: str,
        user_name: str | None,
        password: str | None,
        client_id: str | None,
        tls: ClientTlsSettings | None,
    ) -> None:
        self._url: Final = parse_url(url, user_name, password, client_id)
        self._tls: Final = tls
        self._connection: Connection | None = None

    def __await__(self) -> Generator[object, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._open()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    if not TYPE_CHECKING:  # hidden from type checkers, which report a missing await themselves

        def __getattr__(self, name: str) -> object:
            """Raise an `AttributeError` that says how to await the connection."""
            if hasattr(Connection, name):
                raise AttributeError(
                    f"the connection is not made yet, so there is no {name}: write "
                    "`async with aio.connect(…) as connection`, or `connection = await aio.connect(…)`"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    async def _open(self) -> Connection:
        machine = Machine()
        shared = CoreConnection(ClientConnection(self._url, machine), machine, self._tls)
        await shared.open()
        return traced_connection(shared) if is_traced() else Connection(shared)


def traced_connection(shared: CoreConnection) -> Connection:
    """Return the connection of a program that has configured OpenTelemetry."""
    connection_class = cast("type[Connection]", load(TRACED_AIO))
    return connection_class(shared)
