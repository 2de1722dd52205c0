"""The writer thread of the journal.

The thread writes and syncs one batch after the other, and reports each batch.

The loop collects the next batch during a sync. The thread does little in Python: one write, one sync. Between batches
it fills the file of the next segment with zeros, in small steps, or in few large steps if that file is needed soon. No
answer waits for more than two syncs of such steps. On a full disk the thread reports this and tries again every
`SPACE_INTERVAL` seconds and after every deletion.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.batch import Batch, delete_segments, open_segment
from spanwire.stores.journal.recovery.summary import try_summary
from spanwire.stores.journal.segments.disk_port import DISK_FULL, Disk
from spanwire.stores.journal.segments.segment import segment_name
from spanwire.stores.journal.spare_files import NO_HURRY, STEP_BYTES, SpareFiles

SPACE_INTERVAL: Final = 1.0  # seconds between two writes on a full disk; bounds the system calls

logger: Final = logging.getLogger(__name__)


class JournalWriter:
    """Runs the thread that writes.

    The callbacks ``on_written``, ``on_space`` and ``on_failed`` run ON THE WRITER THREAD: they must only hand over to
    the loop. ``on_space(spare_bytes, has_space)`` follows each change. ``spare_bytes`` is the size of the next
    segment's file when the file is complete, else 0. ``has_space`` says if the last write found space.

    After ``on_failed`` the thread has ended. A failed sync is never repeated, because the kernel may have dropped the
    pages. A *write* without space is repeated: all its bytes are written again before the sync.

    Without ``sync`` a batch is reported when the operating system has its bytes. The segment is then synced every
    ``sync_interval`` seconds (0: never), and always before a new segment begins and before a deletion. Only the newest
    segment can therefore lose bytes in a power cut.
    """

    def __init__(
        self,
        disk: Disk,
        on_written: Callable[[Batch], None],
        on_failed: Callable[[StoreError], None],
        on_space: Callable[[int, bool], None],
        sync: bool = True,
        sync_interval: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._disk: Final = disk
        self._clock: Final = clock  # for the times of syncs alone
        self._on_written: Final = on_written
        self._on_space: Final = on_space
        self._on_failed: Final = on_failed
        self._sync: Final = sync
        self._sync_interval: Final = sync_interval
        self._batches: Final[SimpleQueue[Batch | None]] = SimpleQueue()
        self._worker: Final = Thread(target=self._run, name="spanwire-journal-writer", daemon=True)
        self._stopping: Final = Event()
        self._files: Final[SpareFiles] = SpareFiles(disk, sync)
        self._targets = (0, 0)  # target sizes of both files; written by the loop, read by the thread
        self._space_bytes = NO_HURRY  # space in the active segment; written by the loop, read by the thread
        self._due_bytes = 0  # bytes of the files that are overdue
        self._reported_bytes = 0  # bytes of the next segment's file in the last `on_space`
        self._next_attempt = 0.0  # monotonic seconds
        self._asked = 0  # tasks of the thread; counted by the loop
        self._done = 0  # those that the thread has ended; counted by the thread
        self._unsynced = ""  # segment with bytes for the next timed sync
        self._next_sync = 0.0
        self.is_full = False
        self.failed: StoreError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def hand_over(self, batch: Batch, spare_bytes: int, reserve_bytes: int = 0, space_bytes: int = NO_HURRY) -> None:
        """Queue a batch for writing.

        ``spare_bytes`` is the wanted size of the next segment's file, or 0; ``reserve_bytes`` is the wanted size of the
        reserve. ``space_bytes`` is the space in the active segment after this batch.
        """
        self._targets = (spare_bytes, reserve_bytes)
        self._space_bytes = space_bytes
        self._asked += 1
        self._batches.put(batch)

    def is_idle(self, reserve_bytes: int) -> bool:
        """Return True if the thread uses no file before the next task, and the reserve has its wanted size."""
        return self._done == self._asked and not self.is_full and self._targets[1] >= reserve_bytes

    def write_now(self, batch: Batch) -> bool:
        """Write and sync a batch on the caller's thread, while the writer's own thread is idle.

        The batch begins no segment and deletes no segment.

        Returns:
            False if the disk is full: `hand_over` the batch, and the thread writes the batch again when there is room.

        Raises:
            StoreError: the batch cannot be written; the thread must not write again.
        """
        name = segment_name(batch.segment)
        started = self._clock()
        try:
            try:
                self._disk.write(name, batch.offset, batch.parts)
            except OSError as error:
                if error.errno not in DISK_FULL:
                    raise
                return False
            self._disk.sync(name)
        except OSError as error:
            self.failed = write_error(batch, error)
            raise self.failed from error
        batch.sync_seconds = self._clock() - started
        return True

    def prepare(self, spare_bytes: int, reserve_bytes: int = 0, space_bytes: int = NO_HURRY) -> None:
        """Make the next segment's file with at least this size, without a batch.

        With ``space_bytes`` 0 the active segment has no space for the next batch, and the file is made at once.
        """
        self._targets = (max(spare_bytes, self._targets[0]), reserve_bytes)
        self._space_bytes = space_bytes
        self._asked += 1
        self._batches.put(NO_BATCH)

    def stop(self) -> None:
        """Write all queued batches, unless a write fails, and end the thread. Blocks."""
        if self._worker.is_alive():
            self._stopping.set()
            self._batches.put(None)
            self._worker.join()

    def _run(self) -> None:
        try:
            while True:
                task = 1
                try:
                    batch = self._batches.get(timeout=self._wait_seconds())
                except Empty:
                    batch = NO_BATCH
                    task = 0
                if batch is None:
                    if self._sync_interval > 0.0:
                        self._sync_now()
                    return
                if batch is not NO_BATCH:
                    self._write(batch)
                    self._on_written(batch)
                    self._summarise(batch)
                self._sync_in_time()
                self._fill_spare(batch.size)
                self._done += task
        except StoreError as error:
            self.failed = error
            self._on_failed(error)

    def _wait_seconds(self) -> float | None:
        """Return the seconds until the next timed sync or attempt to get space; None if neither is due."""
        due = self._next_attempt if self.is_full else 0.0
        if self._unsynced and self._sync_interval > 0.0 and (due == 0.0 or self._next_sync < due):
            due = self._next_sync
        return None if due == 0.0 else max(0.0, due - time.monotonic())

    def _write(self, batch: Batch) -> None:
        """Write a batch.

        Raises:
            StoreError: the batch cannot be written.
        """
        disk = self._disk
        try:
            new_segment = batch.new_segment
            if new_segment is not None:
                self._sync_now()
                self._retry_until_space(lambda: open_segment(disk, new_segment, batch, True))
                self._files.taken()
                self._reported_bytes = 0
            elif batch.parts:
                name = segment_name(batch.segment)
                started = self._clock()
                self._retry_until_space(lambda: disk.write(name, batch.offset, batch.parts))
                if self._sync:
                    disk.sync(name)
                    batch.sync_seconds = self._clock() - started
                elif not self._unsynced:
                    self._unsynced = name
                    self._next_sync = time.monotonic() + self._sync_interval
            if batch.deletions:
                self._sync_now()
                delete_segments(disk, batch, True)
                self._next_attempt = 0.0
        except OSError as error:
            raise write_error(batch, error) from error

    def _summarise(self, batch: Batch) -> None:
        """Write the summary of a full segment. An error is only logged, because a start can read the segment."""
        if batch.new_segment is None or batch.new_segment.summary is None:
            return
        fault = try_summary(self._disk, batch.new_segment.summary)
        if fault:
            logger.warning("%s", fault)

    def _retry_until_space(self, write: Callable[[], None]) -> None:
        """Call ``write`` until the disk has space; only once during a stop."""
        while True:
            try:
                write()
            except OSError as error:
                if error.errno not in DISK_FULL or self._stopping.is_set():
                    raise
                self._report_full()
                self._stopping.wait(SPACE_INTERVAL)
            else:
                return

    def _sync_in_time(self) -> None:
        if self._unsynced and self._sync_interval > 0.0 and time.monotonic() >= self._next_sync:
            self._sync_now()

    def _sync_now(self) -> None:
        """Sync the segment with unsynced batches.

        Raises:
            StoreError: answered calls may be lost. The sync is not repeated, because a second sync could hide the loss.
        """
        name = self._unsynced
        if not name:
            return
        self._unsynced = ""
        try:
            self._disk.sync(name)
        except OSError as error:
            raise StoreError(
                f"{name} cannot be synced: {error.strerror or error}; nothing is acknowledged any more, look at the"
                " disk and start the broker again"
            ) from error

    def _fill_spare(self, written_bytes: int) -> None:
        """Grow the next segment's file and the reserve in steps: the due bytes, and more while no batch waits.

        The disk has space again when both files are complete.
        """
        files = self._files
        files.spare_target, files.reserve_target = self._targets
        if self.is_full and time.monotonic() < self._next_attempt:
            self._offer_reserve()
            return
        try:
            files.shrink_reserve()
            space_bytes = self._space_bytes
            self._due_bytes += files.missing_bytes if space_bytes == 0 else files.due(written_bytes, space_bytes)
            while not files.is_ready:
                if self._due_bytes < STEP_BYTES and not self._batches.empty():
                    return
                missing_bytes = files.missing_bytes
                is_last_step = self._due_bytes * 2 >= missing_bytes  # one large step costs fewer syncs than two
                files.grow(self.is_full, missing_bytes if is_last_step else max(STEP_BYTES, self._due_bytes))
                self._due_bytes = max(0, self._due_bytes - missing_bytes + files.missing_bytes)
            self._due_bytes = 0
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise self._file_error(error) from error
            self._report_full()
            return
        if self._reported_bytes != files.spare_bytes or self.is_full:
            self.is_full = False
            self._reported_bytes = files.spare_bytes
            self._on_space(self._reported_bytes, True)

    def _report_full(self) -> None:
        """Report a full disk. From now on the reserve serves as the next segment's file."""
        self._next_attempt = time.monotonic() + SPACE_INTERVAL
        self._offer_reserve()

    def _offer_reserve(self) -> None:
        files = self._files
        try:
            files.use_reserve()
        except OSError as error:
            raise self._file_error(error) from error
        if not self.is_full or self._reported_bytes != files.ready_bytes:
            self.is_full = True
            self._reported_bytes = files.ready_bytes
            self._on_space(self._reported_bytes, False)

    def _file_error(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self._files.name} cannot be written: {error.strerror or error}; nothing is acknowledged any more,"
            " look at the disk and start the broker again"
        )


def write_error(batch: Batch, error: OSError) -> StoreError:
    """Return the error for a failed write or sync."""
    what = error.strerror or str(error)
    advice = "make room" if error.errno in DISK_FULL else "look at the disk"
    return StoreError(
        f"{segment_name(batch.segment)} cannot be written at byte {batch.offset}: {what}; nothing is acknowledged any"
        f" more, {advice} and start the broker again"
    )


NO_BATCH: Final = Batch(0, 0, 0, 0, [], [], None, [])
