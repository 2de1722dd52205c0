"""Whether the next batch should wait a moment for the clients that were just answered.

When a batch is synced, the clients that waited for it send again at once. Handing over what the others gathered
meanwhile would split the clients into two groups that wait for each other's syncs: half the messages per sync. Waiting
for all of them makes one group. It is worth it only while the clients really come back, so a wait in vain is followed
by a number of batches without one, twice as many each time.
"""

from __future__ import annotations

from typing import Final

MAX_WAIT: Final = 0.001  # seconds a batch waits at the most; well below the 2 ms that group commit may cost
MIN_CLIENTS: Final = 4  # with fewer there is no group worth waiting for
MAX_PENALTY: Final = 256  # batches without a wait after waits in vain


class GroupCommit:
    """Counts who waits. Time is passed in; the caller looks again with each arrival and at `deadline`."""

    def __init__(self) -> None:
        self._expected = 0
        self._penalty = 0
        self._skip = 0
        self.deadline = 0.0

    def completed(self, answered: int, gathered: int, now: float) -> None:
        """A sync answered ``answered`` clients; ``gathered`` wait for the next one already."""
        self._expected = 0
        if answered + gathered < MIN_CLIENTS or answered == 0:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        self._expected = answered + gathered
        self.deadline = now + MAX_WAIT

    def holds(self, gathered: int, now: float) -> bool:
        """Whether the batch should wait on, with ``gathered`` clients waiting for it."""
        if self._expected == 0:
            return False
        if gathered >= self._expected:
            self._expected = 0
            self._penalty = 0
            return False
        if now < self.deadline:
            return True
        self._expected = 0
        self._penalty = min(MAX_PENALTY, max(1, self._penalty * 2))
        self._skip = self._penalty
        return False
