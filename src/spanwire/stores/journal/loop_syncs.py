"""Decides which batches the loop writes and syncs itself, without the writer thread.

A batch on the way to the thread and back costs two wake-ups and ten system calls in addition to the write. A client
with one unanswered message at a time pays the price for every message. So the loop writes a small batch if one client
waits for the batch and the turn served no other client. A slow sync would delay all other clients, therefore:

- more than half of the recent syncs must have been fast;
- after a slow sync of the loop the thread writes, for a pause that grows with the square of the sync's duration;
- after a turn with a client that needed no sync, the thread writes for `OTHERS_SECONDS`.

The module uses no clock and no disk. ``docs/internals/adr/0010-syncs-in-the-loop.md`` has the figures.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.observation.histogram import Histogram
from spanwire.stores.journal.batch import Batch

MAX_BATCH_BYTES: Final = 64 * 1024  # bytes; a larger write takes longer than a wake-up of the thread
FAST_SYNC: Final = 0.0003  # seconds; a longer sync costs more than both wake-ups
RECENT_SYNCS: Final = 16  # syncs, of which more than half must have been fast
SLOW_SYNC: Final = 0.001  # seconds; half of one connection's share of a turn
MAX_PAUSE: Final = 60.0  # seconds without syncs of the loop after a slow sync
OTHERS_SECONDS: Final = 0.1  # seconds after a turn for others; well above the round trip of a client nearby


def pause_after(seconds: float) -> float:
    """Return the seconds without syncs of the loop after a sync of ``seconds``.

    A client that sends at any time meets a slow sync with the probability of the sync's share of the time, and then
    waits for half of the sync. With the square, slow syncs add less than half of `SLOW_SYNC` to the mean wait, for any
    duration of the syncs: 25 ms of pause after 5 ms, 10 s after 100 ms.
    """
    return min(MAX_PAUSE, seconds * seconds / SLOW_SYNC) if seconds > SLOW_SYNC else 0.0


class LoopSyncs:
    """Knows recent syncs and the sockets of the last turn. Times are monotonic seconds, passed in."""

    __slots__ = ("_fast", "_is_alone", "_next", "_others_until", "_paused_until", "_position", "_recent", "times")

    def __init__(self) -> None:
        self._recent: Final[list[bool]] = [False] * RECENT_SYNCS  # a ring
        self._next = 0  # the oldest of `_recent`
        self._fast = 0  # number of fast syncs in `_recent`
        self._paused_until = 0.0
        self._others_until = 0.0
        self._position = 0
        self._is_alone = False
        self.times: Final[Histogram] = Histogram()

    def note_turn(self, active: int, position: int, now: float) -> None:
        """Note a turn in which ``active`` sockets had input; the store's last call has ``position``."""
        calls = position - self._position
        self._position = position
        self._is_alone = 0 < active <= calls
        if active > calls:
            self._others_until = now + OTHERS_SECONDS

    def note_loop_sync(self, seconds: float, now: float) -> None:
        """Note that the loop has written and synced a batch in ``seconds``."""
        self._paused_until = now + pause_after(seconds)
        self.note_sync(seconds)

    def note_sync(self, seconds: float) -> None:
        """Note that the loop or the thread has written and synced a batch in ``seconds``."""
        self.times.add(seconds)
        if seconds > SLOW_SYNC:
            self._fast = 0
            for index in range(RECENT_SYNCS):
                self._recent[index] = False
            return
        is_fast = seconds < FAST_SYNC
        index = self._next
        self._next = (index + 1) % RECENT_SYNCS
        self._fast += int(is_fast) - int(self._recent[index])
        self._recent[index] = is_fast

    def takes(self, batch: Batch, now: float) -> bool:
        """Return True if the loop should write ``batch`` in the turn noted last."""
        return (
            self._is_alone
            and batch.waiters == 1
            and batch.new_segment is None
            and not batch.deletions
            and batch.size <= MAX_BATCH_BYTES
            and self._fast > RECENT_SYNCS // 2
            and now >= self._paused_until
            and now >= self._others_until
        )
