"""Connection of the asyncio client."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.aio.requestor import Requestor
from spanwire.client.aio.session import Session
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import JmsError


class Connection:
    """A connection to one broker; with ``failover:`` to one broker after another."""

    def __init__(self, shared: CoreConnection) -> None:
        self.shared: Final = shared
        self._requestor: Final = Requestor(shared, self.session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """JMS client id, generated unless the caller has chosen one."""
        return self.shared.core.client_id

    @property
    def broker_name(self) -> str | None:
        """Name reported by the broker, or None before the first login."""
        return self.shared.core.broker_name

    @property
    def errors(self) -> list[JmsError]:
        """Errors of commands without a response, at most the last 100."""
        return list(self.shared.core.reported.errors)

    def session(self, acknowledge: AcknowledgeMode = "auto") -> Session:
        """Create a session.

        Arguments:
            acknowledge: ``auto``, ``client``, ``dups_ok``, ``individual``, ``transacted`` or ``xa``.

        Raises:
            ConfigurationError: The acknowledgement mode is unknown.
            JmsError: The connection has failed or is closed.
        """
        shared = self.shared
        shared.check()
        with shared.lock:
            core = shared.core.add_session(acknowledge)
            shared.flush()
        return self._new_session(core)

    def _new_session(self, core: ClientSession) -> Session:
        """Return the session of ``core``. A tracing connection has sessions of its own."""
        return Session(self.shared, core, self._requestor)

    async def close(self) -> None:
        """Close the connection after the broker has processed all earlier commands.

        A second call does nothing.

        Waits at most ``jms.closeTimeout`` for the broker.
        """
        self._requestor.end()
        await self.shared.close()

    def requestor(self) -> Requestor:
        """Return the requestor whose temporary queue receives the replies of all sessions."""
        self.shared.check()
        return self._requestor
