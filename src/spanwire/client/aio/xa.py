"""Distributed transactions of an asyncio session (JTA, XAResource)."""

from __future__ import annotations

from typing import Final

from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.protocol.session import ClientSession
from spanwire.client.protocol.xa import XA_OK, branches_of
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId


class XaResource:
    """``session.xa`` of a ``session("xa")``: the calls of a transaction manager.

    A branch is named by ``XaTransactionId(format_id, global_id, branch_qualifier)``. Every method raises `XaError` if
    the broker refuses the step, and `ResourceAllocationError` after ``timeout`` seconds without a response.
    """

    def __init__(self, shared: CoreConnection, session: ClientSession) -> None:
        self._shared: Final = shared
        self._session: Final = session

    async def start(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Start a branch, join a branch of another session, or resume an ended branch."""
        async with self._shared.ready():
            branches = self._session.branches()
            request = branches.start(xid)
            try:
                await self._shared.answer(request, timeout)
            except JmsError:
                branches.on_start_refused()
                raise

    async def end(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """End the work of the session in the branch."""
        async with self._shared.ready():
            request = self._session.branches().end(xid)
            for consumer in self._session.take_closed_consumers():
                self._shared.remove_consumer(consumer)
            if request is not None:
                await self._shared.answer(request, timeout)

    async def prepare(self, xid: XaTransactionId, timeout: float | None = None) -> bool:
        """Prepare the branch: the first phase of the commit.

        Returns:
            True if the branch must be committed or rolled back, False if the branch has nothing to commit.

        Raises:
            TransactionRolledBackError: The broker has rolled the branch back.
        """
        async with self._shared.ready():
            request = self._session.branches().prepare(xid)
            await self._shared.answer(request, timeout)
        return request.result == XA_OK

    async def commit(self, xid: XaTransactionId, one_phase: bool = False, timeout: float | None = None) -> None:
        """Commit a prepared branch, or with ``one_phase`` a branch that is not prepared.

        Raises:
            TransactionRolledBackError: The broker has rolled the branch back.
        """
        async with self._shared.ready():
            await self._shared.answer(self._session.branches().commit(xid, one_phase), timeout)

    async def rollback(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Roll a branch back, prepared or not. Messages received in this session are redelivered."""
        async with self._shared.ready():
            request = self._session.branches().rollback(xid, self._shared.machine.now())
            self._shared.flush()
            if request is not None:
                await self._shared.answer(request, timeout)

    async def forget(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Forget a branch that was completed heuristically."""
        async with self._shared.ready():
            await self._shared.answer(self._session.branches().forget(xid), timeout)

    async def recover(self, timeout: float | None = None) -> list[XaTransactionId]:
        """Return the prepared branches of all clients."""
        async with self._shared.ready():
            request = self._session.branches().recover()
            await self._shared.answer(request, timeout)
        return branches_of(request)
