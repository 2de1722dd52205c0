"""A connection of the asyncio client."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.aio.core_connection import CoreConnection
from spanwire.client.aio.requestor import Requestor
from spanwire.client.aio.session import Session
from spanwire.client.messages.content_types import AcknowledgeMode
from spanwire.model.errors import JmsError


class Connection:
    """One connection to a broker, or with ``failover:`` to one of several after the other."""

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

    async def close(self) -> None:
        """Say farewell, so that everything before is done, and close. A second call does nothing."""
        await self.shared.close()

    def requestor(self) -> Requestor:
        """Where answers to requests arrive."""
        self.shared.check()
        return self._requestor
