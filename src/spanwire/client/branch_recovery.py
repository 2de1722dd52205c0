"""The rule of recovery for Spanwire's transaction managers: bridges and the Spark sink's ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

FORMAT_ID: Final = 0x53505752  # "SPWR"; XA format of all branches that Spanwire begins at any broker

Branch = TypeVar("Branch")


def divide(
    prepared: Iterable[Branch], is_decided: Callable[[Branch], bool], is_own: Callable[[Branch], bool]
) -> tuple[list[Branch], list[Branch]]:
    """Return the prepared branches to commit and the branches to roll back: presumed abort.

    A branch without a decision is rolled back if it belongs to the transaction manager. Other branches are in no list.
    """
    commits: list[Branch] = []
    rollbacks: list[Branch] = []
    for branch in prepared:
        if is_decided(branch):
            commits.append(branch)
        elif is_own(branch):
            rollbacks.append(branch)
    return commits, rollbacks
