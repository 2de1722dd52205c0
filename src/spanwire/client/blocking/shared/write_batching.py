"""Batches of one-way commands: the first command of a burst is written at once, the others together.

    batching.begin(now)            # before a write; False: write now
    batching.on_written(now)       # after a write
    batching.due_at                # monotonic seconds of the next `on_due`; None outside of a burst
    batching.on_due(now, has_more) # has_more: commands are pending

A system call for each message costs more than the message itself; a delay of the first message would add latency.
"""

from __future__ import annotations

from typing import Final

FLUSH_DELAY: Final = 0.0003  # seconds; a command this soon after a write begins a burst
GATHER_DELAY: Final = 0.001  # seconds that a command of a burst may wait


class WriteBatching:
    """Decides when pending commands are written.

    ``is_on``: a burst is under way, and commands wait for `on_due`.
    """

    def __init__(self) -> None:
        self.is_on = False
        self.due_at: float | None = None
        self._written_at = 0.0

    def begin(self, now: float) -> bool:
        """Return True if the pending command may wait, because the last write was within `FLUSH_DELAY`."""
        if now - self._written_at > FLUSH_DELAY:
            return False
        self.is_on = True
        self.due_at = now + GATHER_DELAY
        return True

    def on_written(self, now: float) -> None:
        """Note a write of all pending commands."""
        self._written_at = now

    def on_due(self, now: float, has_more: bool) -> None:
        """Schedule the next write, or end a burst in which no command was written."""
        if has_more or now - self._written_at <= GATHER_DELAY:
            self.due_at = now + GATHER_DELAY
        else:
            self.is_on = False
            self.due_at = None
