"""The journal's writer thread: takes one batch, writes and syncs it, says so, takes the next.

While a batch syncs, the loop's thread gathers the next. The thread does as little in Python as it can: one write, one
sync. In between it fills the file of the next segment with zeros, a piece at a time, and in few large pieces when that
file will be needed soon: nobody's answer waits for more than two syncs of such pieces. When the disk is full it says so
and tries again every `ROOM_INTERVAL`, and after every deletion.
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

ROOM_INTERVAL: Final = 1.0  # seconds between two attempts to get room on a full disk

logger: Final = logging.getLogger(__name__)


class JournalWriter:
    """Owns the thread that writes.

    ``on_written``, ``on_space`` and ``on_failed`` are called FROM THE THREAD: they must only hand over to the loop.
    ``on_space(spare_bytes, has_room)`` follows each change: how much of the next segment's file is ready (all that was
    asked for, or 0), and whether the disk took what was last written. After ``on_failed`` the thread is over: a sync
    that failed is never tried again, because the kernel may have dropped the pages. A *write* that found no room is:
    all of its bytes are written once more before they are synced.

    Without ``sync`` a batch is reported when the operating system has it, and its segment synced every
    ``sync_interval`` seconds if that is above 0; in any case before a new segment is begun and before one is deleted,
    so that only the newest can lack something after a power cut.
    """

    def __init__(
        self,
        disk: Disk,
        on_written: Callable[[Batch], None],
        on_failed: Callable[[StoreError], None],
        on_space: Callable[[int, bool], None],
        sync: bool = True,
        sync_interval: float = 0.0,
    ) -> None:
        self._disk: Final = disk
        self._on_written: Final = on_written
        self._on_space: Final = on_space
        self._on_failed: Final = on_failed
        self._sync: Final = sync
        self._sync_interval: Final = sync_interval
        self._batches: Final[SimpleQueue[Batch | None]] = SimpleQueue()
        self._thread: Final = Thread(target=self._run, name="spanwire-journal-writer", daemon=True)
        self._stopping: Final = Event()
        self._files: Final[SpareFiles] = SpareFiles(disk, sync)
        self._wanted = (0, 0)  # what the files should have; written by the loop, read by the thread
        self._room_bytes = NO_HURRY  # of the active segment; written and read likewise
        self._due = 0  # bytes of the files that should have been made by now
        self._told = 0  # bytes of the next segment's file that `on_space` was told of
        self._next_attempt = 0.0  # monotonic seconds
        self._unsynced = ""  # the segment that a timed sync must reach
        self._next_sync = 0.0
        self.is_full = False
        self.failed: StoreError | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hand_over(self, batch: Batch, spare_bytes: int, reserve_bytes: int = 0, room_bytes: int = NO_HURRY) -> None:
        """Write this batch now. ``spare_bytes``: the size that the next segment's file should have soon, or 0;
        ``reserve_bytes`` that of the reserve; ``room_bytes``: what the active segment takes after this batch.
        """
        self._wanted = (spare_bytes, reserve_bytes)
        self._room_bytes = room_bytes
        self._batches.put(batch)

    def prepare(self, spare_bytes: int, reserve_bytes: int = 0, room_bytes: int = NO_HURRY) -> None:
        """Make the next segment's file with at least this size, although there is no batch now; at once, if the active
        segment has no room for the next batch (``room_bytes`` is 0).
        """
        self._wanted = (max(spare_bytes, self._wanted[0]), reserve_bytes)
        self._room_bytes = room_bytes
        self._batches.put(NO_BATCH)

    def stop(self) -> None:
        """Return when everything handed over is written, or has failed, and the thread is over."""
        if self._thread.is_alive():
            self._stopping.set()
            self._batches.put(None)
            self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                try:
                    batch = self._batches.get(timeout=self._patience())
                except Empty:
                    batch = NO_BATCH
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
        except StoreError as error:
            self.failed = error
            self._on_failed(error)

    def _patience(self) -> float | None:
        """Seconds until something is due that no batch brings; None for ever."""
        due = self._next_attempt if self.is_full else 0.0
        if self._unsynced and self._sync_interval > 0.0 and (due == 0.0 or self._next_sync < due):
            due = self._next_sync
        return None if due == 0.0 else max(0.0, due - time.monotonic())

    def _write(self, batch: Batch) -> None:
        """Raises `StoreError` when the batch cannot be written."""
        disk = self._disk
        try:
            new_segment = batch.new_segment
            if new_segment is not None:
                self._sync_now()
                self._insist(lambda: open_segment(disk, new_segment, batch, True))
                self._files.taken()
                self._told = 0
            elif batch.parts:
                name = segment_name(batch.segment)
                self._insist(lambda: disk.write(name, batch.offset, batch.parts))
                if self._sync:
                    disk.sync(name)
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
        """The summary of a segment that is full. Nothing depends on it: an error is told."""
        if batch.new_segment is None or batch.new_segment.summary is None:
            return
        fault = try_summary(self._disk, batch.new_segment.summary)
        if fault:
            logger.warning("%s", fault)

    def _insist(self, write: Callable[[], None]) -> None:
        """Do ``write``, as often as it takes to find room; at a stop once."""
        while True:
            try:
                write()
            except OSError as error:
                if error.errno not in DISK_FULL or self._stopping.is_set():
                    raise
                self._tell_full()
                self._stopping.wait(ROOM_INTERVAL)
            else:
                return

    def _sync_in_time(self) -> None:
        if self._unsynced and self._sync_interval > 0.0 and time.monotonic() >= self._next_sync:
            self._sync_now()

    def _sync_now(self) -> None:
        """Raises `StoreError`: what was answered may not be on the disk, and trying again may hide that."""
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
        """A piece of the files that are made ahead at a time: what is due by now, and more while no batch waits. There
        is room when all are ready.
        """
        files = self._files
        files.spare_target, files.reserve_target = self._wanted
        if self.is_full and time.monotonic() < self._next_attempt:
            self._offer_reserve()
            return
        try:
            files.shrink_reserve()
            room_bytes = self._room_bytes
            self._due += files.missing_bytes if room_bytes == 0 else files.due(written_bytes, room_bytes)
            while not files.is_ready:
                if self._due < STEP_BYTES and not self._batches.empty():
                    return
                missing_bytes = files.missing_bytes
                all_of_it = self._due * 2 >= missing_bytes  # one large step costs fewer syncs than two
                files.grow(self.is_full, missing_bytes if all_of_it else max(STEP_BYTES, self._due))
                self._due = max(0, self._due - missing_bytes + files.missing_bytes)
            self._due = 0
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise self._file_error(error) from error
            self._tell_full()
            return
        if self._told != files.spare_bytes or self.is_full:
            self.is_full = False
            self._told = files.spare_bytes
            self._on_space(self._told, True)

    def _tell_full(self) -> None:
        """No room: from now on the reserve is the next segment's file, where one is needed."""
        self._next_attempt = time.monotonic() + ROOM_INTERVAL
        self._offer_reserve()

    def _offer_reserve(self) -> None:
        files = self._files
        try:
            files.use_reserve()
        except OSError as error:
            raise self._file_error(error) from error
        if not self.is_full or self._told != files.ready_bytes:
            self.is_full = True
            self._told = files.ready_bytes
            self._on_space(self._told, False)

    def _file_error(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self._files.name} cannot be written: {error.strerror or error}; nothing is acknowledged any more,"
            " look at the disk and start the broker again"
        )


def write_error(batch: Batch, error: OSError) -> StoreError:
    """The one line for a write or sync that failed."""
    what = error.strerror or str(error)
    advice = "make room" if error.errno in DISK_FULL else "look at the disk"
    return StoreError(
        f"{segment_name(batch.segment)} cannot be written at byte {batch.offset}: {what}; nothing is acknowledged any"
        f" more, {advice} and start the broker again"
    )


NO_BATCH: Final = Batch(0, 0, 0, 0, [], [], None, [])
