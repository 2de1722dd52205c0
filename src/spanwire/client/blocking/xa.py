"""The distributed transactions of an blocking session: what a transaction manager asks of it (JTA's XAResource)."""

from __future__ import annotations

from typing import Final

from spanwire.client.blocking.connection import CoreConnection
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

    def start(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """The session works in this branch from now on: a new one, one of another session, or one that was ended."""
        with self._shared.ready():
            branches = self._session.branches()
            request = branches.start(xid)
            try:
                self._shared.answer(request, timeout)
            except JmsError:
                branches.start_refused()
                raise

    def end(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """The session works in this branch no longer."""
        with self._shared.ready():
            request = self._session.branches().end(xid)
            for consumer in self._session.take_left():
                self._shared.core.remove_consumer(consumer)
            if request is not None:
                self._shared.answer(request, timeout)

    def prepare(self, xid: XaTransactionId, timeout: float | None = None) -> bool:
        """The first phase: True when the branch is to be committed or rolled back, False when there is nothing to.

        Raises `TransactionRolledBackError` when the branch is gone.
        """
        with self._shared.ready():
            request = self._session.branches().prepare(xid)
            self._shared.answer(request, timeout)
        return request.result == XA_OK

    def commit(self, xid: XaTransactionId, one_phase: bool = False, timeout: float | None = None) -> None:
        """The second phase; or with ``one_phase`` both, of a branch that is not prepared.

        Raises `TransactionRolledBackError` when none of it was done.
        """
        with self._shared.ready():
            self._shared.answer(self._session.branches().commit(xid, one_phase), timeout)

    def rollback(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Undo everything of a branch, prepared or not; what was received here comes again."""
        with self._shared.ready():
            request = self._session.branches().rollback(xid, self._shared.machine.now())
            self._shared.flush()
            if request is not None:
                self._shared.answer(request, timeout)

    def forget(self, xid: XaTransactionId, timeout: float | None = None) -> None:
        """Have the broker forget a branch that was completed without this transaction manager."""
        with self._shared.ready():
            self._shared.answer(self._session.branches().forget(xid), timeout)

    def recover(self, timeout: float | None = None) -> list[XaTransactionId]:
        """All branches that are prepared and neither committed nor rolled back, of any client."""
        with self._shared.ready():
            request = self._session.branches().recover()
            self._shared.answer(request, timeout)
        return branches_of(request)
