"""The distributed transactions of an asyncio session: what a transaction manager asks of it (JTA's XAResource)."""

from __future__ import annotations

from typing import Final

from spanwire.client.aio.core_connection import CoreConnection
from spanwire.client.protocol.session import ClientSession
from spanwire.client.protocol.xa import XA_OK, branches_of
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId


class XaResource:
    """``session.xa`` of a ``session("xa")``. A branch has the id that its transaction manager gave it:
    ``XaTransactionId(format_id, global_id, branch_qualifier)``. Every method raises `XaError` for what the broker
    refuses, and `ResourceAllocationError` when ``timeout`` seconds are over before it has answered.
    """

    def __init__(self, shared: CoreConnection, session: ClientSession) -> None:
        self._shared: Final = shared
        self._session: Final = session

    async def start(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """The session works in this branch from now on: a new one, one of another session, or one that was ended."""
        async with self._shared.ready():
            branches = self._session.branches()
            request = branches.start(xid)
            try:
                await self._shared.answer(request, timeout)
            except JmsError:
                branches.on_start_refused()
                raise

    async def end(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """The session works in this branch no longer."""
        async with self._shared.ready():
            request = self._session.branches().end(xid)
            for consumer in self._session.take_closed_consumers():
                self._shared.remove_consumer(consumer)
            if request is not None:
                await self._shared.answer(request, timeout)

    async def prepare(self, xid: XaTransactionId, timeout: float | None = None) -> bool:
        """The first phase: True when the branch is to be committed or rolled back, False when there is nothing to.

        Raises `TransactionRolledBackError` when the branch is gone.
        """
        async with self._shared.ready():
            request = self._session.branches().prepare(xid)
            await self._shared.answer(request, timeout)
        return request.result == XA_OK

    async def commit(self, xid: XaTransactionId, one_phase: bool = False, timeout: float | None = None) -> None:
        """The second phase; or with ``one_phase`` both, of a branch that is not prepared.

        Raises `TransactionRolledBackError` when none of it was done.
        """
        async with self._shared.ready():
            await self._shared.answer(self._session.branches().commit(xid, one_phase), timeout)

    async def rollback(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Undo everything of a branch, prepared or not; what was received here comes again."""
        async with self._shared.ready():
            request = self._session.branches().rollback(xid, self._shared.machine.now())
            self._shared.flush()
            if request is not None:
                await self._shared.answer(request, timeout)

    async def forget(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Have the broker forget a branch that was completed without this transaction manager."""
        async with self._shared.ready():
            await self._shared.answer(self._session.branches().forget(xid), timeout)

    async def recover(self, timeout: float | None = None) -> list[XaTransactionId]:
        """All branches that are prepared and neither committed nor rolled back, of any client."""
        async with self._shared.ready():
            request = self._session.branches().recover()
            await self._shared.answer(request, timeout)
        return branches_of(request)
