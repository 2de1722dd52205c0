"""Decides whether the next batch waits a moment: for the clients just answered, or to become larger.

After a sync the answered clients send again at once. A batch of only the other clients' messages would split the
clients into two groups that wait for each other's syncs, with half the messages per sync. Waiting for all clients makes
one group. The wait ends when no further client comes for a moment, for to take the messages of many clients may itself
take longer than that. Waiting pays only while the clients really come back, so a wait in vain is followed by a number
of batches without a wait, twice as many each time.

On a slow disk a sync costs more than the turns of the loop that encode a large batch: one batch takes the whole
backlog.
"""

from __future__ import annotations

from typing import Final

MAX_PAUSE: Final = 0.001  # seconds without a further client after which the others are not waited for
MAX_WAIT: Final = 0.002  # seconds a batch waits in all: as much as group commit may cost
MIN_CLIENTS: Final = 4  # clients; a smaller group is not worth waiting for
MAX_PENALTY: Final = 256  # batches without a wait after waits in vain
SLOW_WRITE: Final = 0.1  # seconds: about as long as the 16 turns in which the largest batch is encoded


class GroupCommit:
    """Counts waiting clients.

    Time is an argument; the caller asks again with each arrival and at `deadline`.
    """

    def __init__(self) -> None:
        self._expected = 0
        self._gathered = 0
        self._end = 0.0  # of the wait, whoever comes
        self._penalty = 0
        self._skip = 0
        self._began = -1.0  # when the batch that is under way was handed over
        self._grows_until = 0.0
        self.deadline = 0.0

    def began(self, now: float) -> None:
        """Record that a batch was handed over."""
        self._began = now

    def ended(self, now: float) -> None:
        """Record the end of the write; a second call does nothing."""
        if self._began >= 0.0:
            took = now - self._began
            self._began = -1.0
            self._grows_until = now + took / 2 if took > SLOW_WRITE else 0.0

    def lets_grow(self, now: float) -> bool:
        """Return True if a batch larger than a slice should grow although no batch is being written.

        That is so after a write longer than `SLOW_WRITE`, for half of the write's time.
        """
        return now < self._grows_until

    def on_completed(self, answered: int, gathered: int, now: float) -> None:
        """Record a sync that answered ``answered`` clients, while ``gathered`` clients wait for the next sync."""
        self._expected = 0
        if answered + gathered < MIN_CLIENTS or answered == 0:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        self._expected = answered + gathered
        self._gathered = gathered
        self._end = now + MAX_WAIT
        self.deadline = now + MAX_PAUSE

    def holds(self, gathered: int, now: float) -> bool:
        """Return True if the batch should wait on, with ``gathered`` waiting clients."""
        if self._expected == 0:
            return False
        if gathered >= self._expected:
            self._expected = 0
            self._penalty = 0
            return False
        if gathered > self._gathered:
            self._gathered = gathered
            self.deadline = min(now + MAX_PAUSE, self._end)
        if now < self.deadline:
            return True
        self._expected = 0
        self._penalty = min(MAX_PENALTY, max(1, self._penalty * 2))
        self._skip = self._penalty
        return False
