"""Whether the next batch should wait a moment: for the clients that were just answered, or to become larger.

When a batch is synced, the clients that waited for it send again at once. Handing over what the others gathered
meanwhile would split the clients into two groups that wait for each other's syncs: half the messages per sync. Waiting
for all of them makes one group. It is worth it only while the clients really come back, so a wait in vain is followed
by a number of batches without one, twice as many each time.

On a slow disk a sync costs more than the turns of the loop in which a large batch is encoded: all that waits goes into
one.
"""

from __future__ import annotations

from typing import Final

MAX_WAIT: Final = 0.001  # seconds a batch waits at the most; well below the 2 ms that group commit may cost
MIN_CLIENTS: Final = 4  # with fewer there is no group worth waiting for
MAX_PENALTY: Final = 256  # batches without a wait after waits in vain
SLOW_WRITE: Final = 0.1  # seconds: about as long as the 16 turns in which the largest batch is encoded


class GroupCommit:
    """Counts who waits. Time is passed in; the caller looks again with each arrival and at `deadline`."""

    def __init__(self) -> None:
        self._expected = 0
        self._penalty = 0
        self._skip = 0
        self._began = -1.0  # when the batch that is under way was handed over
        self._grows_until = 0.0
        self.deadline = 0.0

    def began(self, now: float) -> None:
        """A batch was handed over."""
        self._began = now

    def ended(self, now: float) -> None:
        """It is written; said again, nothing."""
        if self._began >= 0.0:
            took = now - self._began
            self._began = -1.0
            self._grows_until = now + took / 2 if took > SLOW_WRITE else 0.0

    def lets_grow(self, now: float) -> bool:
        """Whether the next batch, of which more waits than one turn encodes, should grow although none is under way:
        after a write that took longer than `SLOW_WRITE`, for half of its time.
        """
        return now < self._grows_until

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
