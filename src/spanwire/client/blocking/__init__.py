"""Blocking client: the names of `spanwire.client.aio` without ``await``.

    with blocking.connect("tcp://localhost:61616") as connection, connection.session() as session:
        producer = session.create_producer("queue://ORDERS")
        producer.send("text", properties={"n": 1})
        consumer = session.create_consumer("queue://ORDERS", selector="n > 0")
        message = consumer.receive(timeout=5)

Codec and socket run in the calling thread, under the connection's lock. One small thread per connection sends
keep-alives, writes the rest of a burst of sends, and reconnects. Threads may share a connection; a session is for one
thread at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from spanwire.client.addressing.address import BrokerUrl, parse_url
from spanwire.client.blocking.browser import Browser as Browser
from spanwire.client.blocking.connection import Connection as Connection
from spanwire.client.blocking.consumer import Consumer as Consumer
from spanwire.client.blocking.producer import Producer as Producer
from spanwire.client.blocking.session import Session as Session
from spanwire.client.blocking.shared.core_connection import CoreConnection
from spanwire.client.io.environment import Machine
from spanwire.client.io.tracing_switch import is_traced
from spanwire.client.protocol.connection import ClientConnection
from spanwire.registry import TRACED_BLOCKING, load

if TYPE_CHECKING:
    from spanwire.tls.settings import ClientTlsSettings


def connect(
    url: str,
    user_name: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    tls: ClientTlsSettings | None = None,
) -> Connection:
    """Connect and log in. The connection is a context manager.

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
    return open_url(parse_url(url, user_name, password, client_id), tls)


def open_url(url: BrokerUrl, tls: ClientTlsSettings | None = None) -> Connection:
    """Connect to a parsed URL, with settings that no option has, and log in.

    Raises:
        JmsError: No broker accepted the connection; `AuthenticationError` if a broker refused the login.
    """
    machine = Machine()
    shared = CoreConnection(ClientConnection(url, machine), machine, tls)
    shared.open()
    if is_traced():
        connection_class = cast("type[Connection]", load(TRACED_BLOCKING))
        return connection_class(shared)
    return Connection(shared)
