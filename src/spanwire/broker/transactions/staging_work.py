"""Commit of a transaction whose messages are staged instead of delivered.

See `spanwire.broker.exactly_once.sinks`.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import Stager, Transaction
from spanwire.broker.transactions.commit_work import FREED_IN_STEP, TransactionWork
from spanwire.model.errors import JmsError


class StagedCommits(Protocol):
    """The parts of such a commit that need the rest of the broker."""

    def stage(self, work: StagingWork) -> None:
        """Hand the messages to the store and answer.

        Raises:
            JmsError: the transaction has no effect.
        """
        ...

    def staging_refused(self, work: StagingWork, error: JmsError) -> SlicedWork:
        """Report a commit without effect, and return the work that undoes the transaction."""
        ...


class StagingWork(TransactionWork):
    """One such commit under way."""

    def __init__(
        self, owner: StagedCommits, state: ConnectionState, transaction: Transaction, stager: Stager, token: int
    ) -> None:
        super().__init__(state, transaction, token)
        self._owner: Final[StagedCommits] = owner
        self.stager: Final[Stager] = stager
        self._is_taken = False

    def go_on(self, at_most: int) -> bool:
        """Do at most ``at_most`` steps; see `SlicedWork.go_on`."""
        end = self.steps + at_most
        if not self._is_taken:
            if not self._gather(end):
                return False
            self._owner.stage(self)
            self._is_taken = True
        while self.steps < end:
            self.steps += 1
            if not self.transaction.forget(FREED_IN_STEP):
                self.transaction.end_count()
                return True
        return False

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """End a commit that has not taken effect; see `SlicedWork.refuse`."""
        if self._is_taken:
            return None
        self._is_taken = True
        return self._owner.staging_refused(self, error)

    def _gather(self, end: int) -> bool:
        """Gather another part of the messages and return True at the end."""
        while self.steps < end:
            count = self.stager.gather(self.transaction, end - self.steps)
            if count == 0:
                return True
            self.steps += count
        return False
