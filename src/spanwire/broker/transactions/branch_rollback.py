"""The rollback of a prepared branch, a slice at a time: what the store keeps of it is gathered, and removed as one."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.errors import JmsError


class BranchEnd(Protocol):
    """Goes on when all is gathered."""

    def roll_back_kept(self, work: BranchRollback) -> None:
        """Have the store remove it, give back what it acknowledged, and answer. Raises `JmsError`; then the branch
        stays as it was.
        """
        ...

    def rollback_refused(self, work: BranchRollback, error: JmsError) -> None:
        """It stays prepared: answer that."""
        ...


class BranchRollback(SlicedWork):
    """One rollback under way; until it is over the branch stays prepared."""

    def __init__(self, owner: BranchEnd, branch: Branch, state: ConnectionState, token: int) -> None:
        super().__init__()
        self._owner: Final[BranchEnd] = owner
        self.branch: Final[Branch] = branch
        self.state: Final[ConnectionState] = state
        self.token: Final[int] = token
        self.unit: Final[StoreUnit] = StoreUnit()
        self.is_answered = False
        self._next = 0
        self._is_over = False

    def go_on(self, at_most: int) -> bool:
        """See `SlicedWork.go_on`."""
        if self._is_over:
            return True
        removals = self.branch.removals
        end = min(len(removals), self._next + at_most)
        for place in range(self._next, end):
            self.unit.remove(removals[place][0], removals[place][1])
        self.steps += end - self._next
        self._next = end
        if end < len(removals):
            return False
        self._owner.roll_back_kept(self)
        self._is_over = True
        return True

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """See `SlicedWork.refuse`."""
        if not self._is_over:
            self._is_over = True
            self._owner.rollback_refused(self, error)
        return None
