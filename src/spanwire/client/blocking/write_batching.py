"""When one-way commands of a blocking connection are written: the first at once, in a burst with those that follow.

    batching.begin(now)            # something is to be written; False: write it now
    batching.on_written(now)           # it was
    batching.due_at                 # when to look, in monotonic seconds; None outside of a burst
    batching.on_due(now, has_more)  # whether anything had gathered by then

A system call for each message would cost more than the message; waiting before the first one would cost its time.
"""

from __future__ import annotations

from typing import Final

FLUSH_DELAY: Final = 0.0003  # seconds after a write in which the next one makes a burst: some forty messages of 1 KiB
GATHER_DELAY: Final = 0.001  # seconds that what gathers in a burst may wait to be written


class WriteBatching:
    """Time is passed in. ``is_on``: what comes is written later, or when there is enough of it."""

    def __init__(self) -> None:
        self.is_on = False
        self.due_at: float | None = None
        self._written_at = 0.0

    def begin(self, now: float) -> bool:
        """Whether something that is to be written may wait: something else was written just now."""
        if now - self._written_at > FLUSH_DELAY:
            return False
        self.is_on = True
        self.due_at = now + GATHER_DELAY
        return True

    def on_written(self, now: float) -> None:
        """Everything was."""
        self._written_at = now

    def on_due(self, now: float, has_more: bool) -> None:
        """It is time: ``has_more`` is written now. When nothing was written since the last look the burst is over."""
        if has_more or now - self._written_at <= GATHER_DELAY:
            self.due_at = now + GATHER_DELAY
        else:
            self.is_on = False
            self.due_at = None
