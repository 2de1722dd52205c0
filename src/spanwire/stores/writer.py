"""The journal's writer thread: takes one batch, writes and syncs it, says so, takes the next.

While a batch syncs, the loop's thread gathers the next. The thread does as little in Python as it can: one write, one
sync. In between it fills the file of the next segment with zeros, a piece at a time.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.disk_port import Disk
from spanwire.stores.journal.segment import SPARE_NAME, segment_name

SPARE_STEP_BYTES: Final = 1024 * 1024  # zeros written and synced at a time, so that a batch need not wait long
DISK_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class JournalWriter:
    """Owns the thread that writes.

    ``on_written`` and ``on_failed`` are called FROM THE THREAD: they must only hand over to the loop. After `on_failed`
    the thread is over: a sync that failed is never tried again, because the kernel may have dropped the pages.
    """

    def __init__(
        self,
        disk: Disk,
        on_written: Callable[[Batch], None],
        on_failed: Callable[[StoreError], None],
        sync: bool = True,
    ) -> None:
        self._disk: Final = disk
        self._on_written: Final = on_written
        self._on_failed: Final = on_failed
        self._sync: Final = sync
        self._batches: Final[SimpleQueue[Batch | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._run, name="spanwire-journal-writer", daemon=True)
        self._spare_target = 0
        self._spare_size = 0
        self.failed: StoreError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hand_over(self, batch: Batch, spare_bytes: int) -> None:
        """Write this batch now. ``spare_bytes``: the size that the next segment's file should have soon, or 0."""
        self._spare_target = spare_bytes
        self._batches.put(batch)

    def stop(self) -> None:
        """Return when everything handed over is written, or has failed, and the thread is over."""
        if self._thread.is_alive():
            self._batches.put(None)
            self._thread.join()

    def _run(self) -> None:
        while self.failed is None:
            batch = self._batches.get()
            if batch is None:
                return
            if batch.new_segment is not None:
                self._spare_size = 0
            try:
                write_batch(self._disk, batch, self._sync)
            except OSError as error:
                self._fail(write_error(batch, error), error)
                return
            self._on_written(batch)
            self._fill_spare()

    def _fill_spare(self) -> None:
        while self._batches.empty() and self._spare_size < self._spare_target:
            size = min(self._spare_size + SPARE_STEP_BYTES, self._spare_target)
            try:
                self._disk.resize(SPARE_NAME, size)
                if self._sync:
                    self._disk.sync(SPARE_NAME)
            except OSError as error:
                if error.errno not in DISK_FULL:
                    self._fail(StoreError(f"{SPARE_NAME} cannot be written: {error.strerror or error}"), error)
                self._spare_target = 0  # room may come back before it is needed
                return
            self._spare_size = size

    def _fail(self, error: StoreError, cause: OSError) -> None:
        error.__cause__ = cause
        self.failed = error
        self._on_failed(error)


def write_error(batch: Batch, error: OSError) -> StoreError:
    """The one line for a write or sync that failed."""
    what = error.strerror or str(error)
    advice = "make room" if error.errno in DISK_FULL else "look at the disk"
    return StoreError(
        f"{segment_name(batch.segment)} cannot be written at byte {batch.offset}: {what}; nothing is acknowledged any"
        f" more, {advice} and start the broker again"
    )
