"""Rollback of a prepared branch in slices.

The removals are gathered and handed to the store as one unit.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import Branch
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.errors import JmsError


class BranchEnd(Protocol):
    """Completes the rollback when all removals are gathered."""

    def roll_back_kept(self, work: BranchRollback) -> None:
        """Remove the branch from the store, return acknowledged messages to consumers, and answer.

        Raises:
            JmsError: the branch stays unchanged.
        """
        ...

    def rollback_refused(self, work: BranchRollback, error: JmsError) -> None:
        """Answer that the rollback failed and the branch stays prepared."""
        ...


class BranchRollback(SlicedWork):
    """One rollback under way; until the end the branch stays prepared."""

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
        """Gather at most ``at_most`` removals; see `SlicedWork.go_on`."""
        if self._is_over:
            return True
        removals = self.branch.removals
        end = min(len(removals), self._next + at_most)
        for index in range(self._next, end):
            self.unit.remove(removals[index][0], removals[index][1])
        self.steps += end - self._next
        self._next = end
        if end < len(removals):
            return False
        self._owner.roll_back_kept(self)
        self._is_over = True
        return True

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """Answer with ``error``, unless the rollback is over; see `SlicedWork.refuse`."""
        if not self._is_over:
            self._is_over = True
            self._owner.rollback_refused(self, error)
        return None
