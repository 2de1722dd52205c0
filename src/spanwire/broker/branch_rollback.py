"""The rollback of a prepared branch of many messages, a slice at a time: what the store kept of it is gathered, and
removed as one.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.commit_job import COMMIT_STEPS
from spanwire.broker.connection_state import ConnectionState
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.ports import MessageStore
from spanwire.broker.reference import BrokerDestination
from spanwire.broker.store_unit import StoreUnit
from spanwire.broker.usage import MemoryUsage
from spanwire.broker.xa_branch import Branch, line_of


class BranchEnd(Protocol):
    """Who goes on when the store has removed a branch."""

    def rolled_back(self, branch: Branch, state: ConnectionState, token: int) -> None:
        """Give back what it acknowledged, and answer."""
        ...


class BranchRollback(BrokerDestination):
    """One rollback under way; until it is over the branch stays prepared. A job of the broker and no place for
    messages.
    """

    def __init__(
        self, owner: BranchEnd, store: MessageStore, branch: Branch, state: ConnectionState, token: int
    ) -> None:
        line = line_of(0 if branch.record is None else branch.record.line)
        super().__init__(line, PolicyEntry(line), MemoryUsage(0))
        self._owner: Final[BranchEnd] = owner
        self._store: Final[MessageStore] = store
        self._branch: Final[Branch] = branch
        self._state: Final[ConnectionState] = state
        self._token: Final[int] = token
        self._unit: Final[StoreUnit] = StoreUnit()
        self._next = 0

    def work(self) -> bool:
        """One slice; True while there is more."""
        removals = self._branch.removals
        end = min(len(removals), self._next + COMMIT_STEPS)
        for place in range(self._next, end):
            self._unit.remove(removals[place][0], removals[place][1])
        self._next = end
        if end < len(removals):
            return True
        self._store.append_gathered(self._unit, self._branch.facts)
        self._owner.rolled_back(self._branch, self._state, self._token)
        return False
