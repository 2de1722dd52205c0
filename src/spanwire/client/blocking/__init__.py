"""The client for ordinary threads: the names of `spanwire.client.aio` without ``await``.

    with blocking.connect("tcp://localhost:61616") as connection, connection.session() as session:
        producer = session.create_producer("queue://ORDERS")
        producer.send("text", properties={"n": 1})
        consumer = session.create_consumer("queue://ORDERS", selector="n > 0")
        message = consumer.receive(timeout=5)

Codec and socket work in the calling thread, under the connection's lock; a small thread of the connection keeps it
alive while nobody calls, writes what a burst of sends left, and reconnects. Threads may share a connection; a session
is for one at a time.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.addressing.address import parse_url
from spanwire.client.blocking.connection import CoreConnection
from spanwire.client.blocking.consumer import Consumer as Consumer
from spanwire.client.blocking.producer import Producer as Producer
from spanwire.client.blocking.requestor import Requestor
from spanwire.client.blocking.session import Browser as Browser
from spanwire.client.blocking.session import Session as Session
from spanwire.client.io.environment import Machine
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.client.protocol.connection import ClientConnection
from spanwire.model.errors import JmsError
from spanwire.tls.settings import ClientTlsSettings


def connect(
    url: str,
    user_name: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    tls: ClientTlsSettings | None = None,
) -> Connection:
    """A logged-in connection, to be closed or used as a context.

    Raises `ConfigurationError` for a URL that cannot be meant, and `JmsError` when no broker lets the client in.
    """
    machine = Machine()
    parsed = parse_url(url, user_name, password, client_id)
    shared = CoreConnection(ClientConnection(parsed, machine), machine, tls)
    shared.open()
    return Connection(shared)


class Connection:
    """One connection to a broker, or with ``failover:`` to one of several after the other."""

    def __init__(self, shared: CoreConnection) -> None:
        self.shared: Final = shared
        self._requestor: Final = Requestor(shared, self.session)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """The client id, chosen by the caller or made up."""
        return self.shared.core.client_id

    @property
    def broker_name(self) -> str | None:
        """How the broker calls itself."""
        return self.shared.core.broker_name

    @property
    def errors(self) -> list[JmsError]:
        """What the broker refused of commands that nobody waited for, the last hundred."""
        return list(self.shared.core.errors)

    def session(self, acknowledge: AcknowledgeMode = "auto") -> Session:
        """A session; ``acknowledge`` is ``auto``, ``client``, ``dups_ok``, ``individual``, ``transacted`` or ``xa``."""
        shared = self.shared
        shared.check()
        with shared.lock:
            core = shared.core.add_session(acknowledge)
            shared.flush()
        return Session(shared, core, self._requestor)

    def close(self) -> None:
        """Say farewell, so that everything before is done, and close. A second call does nothing."""
        self.shared.close()

    def requestor(self) -> Requestor:
        """Where answers to requests arrive."""
        self.shared.check()
        return self._requestor
