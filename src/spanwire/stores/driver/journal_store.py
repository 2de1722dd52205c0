"""The journal store of a broker: locked directory, recovery, state machine and two threads.

    store = JournalStore.open(directory, formats, on_stored, on_fetched, on_failed, schedule)
    broker.recover(store.recovered, store.clean, now)
    store.start()
    each turn of the loop, after the outputs were flushed: store.turn(monotonic); wake up by store.next_deadline()
    at the end: store.stop()

The loop's thread runs all callbacks. ``on_stored`` and ``on_fetched`` come from `turn` or a scheduled call, never from
inside a call of the `Store`. ``on_stored`` follows every batch, also a batch without new calls, which repeats
the position. A turn must follow ``on_stored``, because the next batch may be waiting.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.ports import Store
from spanwire.model.errors import StoreError
from spanwire.model.observation.histogram import Histogram
from spanwire.stores.directory import DataDirectory, advice
from spanwire.stores.driver.answers import Answers, Failed, Fetched, Schedule
from spanwire.stores.driver.disk import FileDisk, check_files
from spanwire.stores.driver.fenced_disk import FencedDisk, remove_others_files
from spanwire.stores.driver.reader import JournalReader
from spanwire.stores.driver.writer import JournalWriter, write_error
from spanwire.stores.epoch import Epoch, forget_epoch
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.compaction.compaction import Scan
from spanwire.stores.journal.fetching.fetch import Fetch, StoredBytes
from spanwire.stores.journal.group_commit import GroupCommit
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.loop_syncs import LoopSyncs
from spanwire.stores.journal.opening import OpenedJournal, open_journal
from spanwire.stores.journal.recovery.audited import recover_audit
from spanwire.stores.journal.segments.disk_port import DISK_FULL, Disk
from spanwire.stores.journal.segments.segment import (
    DEFAULT_SEGMENT_BYTES,
    SPARE_NAME,
    STORE_ID_SIZE,
    segment_name,
)
from spanwire.stores.journal.space import UNMANAGED
from spanwire.stores.start_progress import StartProgress

logger: Final = logging.getLogger(__name__)

JOURNAL_DIRECTORY: Final = "journal"
ACK_SYNC_DELAY: Final = 0.005  # seconds removals without a waiting client may gather; a loss only means redelivery

Stored = Callable[[int], None]
SpaceChanged = Callable[[bool], None]


def _ignore_space(has_space: bool) -> None:
    """Ignore the space on the disk."""


class OpenDisk(Disk, Protocol):
    """Files closed by the store, such as a `FileDisk`; tests delay syncs and refuse writes with others."""

    def close(self) -> None:
        """Close all files."""
        ...


class JournalStore:
    """Connects one `Journal` with the threads and the loop.

    The broker calls ``store``. ``recovered``, ``metadata`` (by table) and ``clean`` are the state left by the last run.
    The service decides about turns, and about the time after ``on_failed``, called once. The broker must then
    stop with a non-zero exit.
    """

    def __init__(
        self,
        directory: DataDirectory,
        files: tuple[OpenDisk, OpenDisk],
        opened: OpenedJournal,
        formats: MessageFormats,
        callbacks: tuple[Stored, Fetched, Failed, Schedule, SpaceChanged],
        syncs: tuple[bool, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory: Final = directory
        self._disk, self._read_disk = files
        self._journal: Final[Journal] = opened.journal
        self._on_stored, on_fetched, self._on_failed, self._schedule, self._on_space = callbacks
        self._answers: Final = Answers(opened.journal, formats, on_fetched, self.fail, self._schedule)
        self._in_flight: Batch | None = None
        self._unreported: Final[deque[Batch]] = deque()  # batches with unreported slices: at most two
        self._turn_requested = False
        self._deadline: float | None = None
        self._group: Final = GroupCommit()
        self._answered_clients = 0  # by the last batch, until the next one is due
        self._other_clients = 0  # those that waited for the next batch then
        self._error: StoreError | None = None
        self._is_stopped = False
        self._found_full = False  # the disk, by the last write of `stop`
        self._loop_syncs: Final = LoopSyncs()
        self._is_synced: Final = syncs[0]
        self._clock: Final = clock  # for the times of syncs alone
        self._writer: Final = JournalWriter(
            self._disk, self._post_batch, self._post_error, self._post_space, *syncs, clock
        )
        self._reader: Final = JournalReader(self._read_disk, self._post_read, self._post_error, self._post_scan)
        self.store: Final[Store] = opened.journal
        self.recovered: list[RecoveredDestination] = opened.recovery.destinations()
        self.metadata: dict[int, dict[bytes, bytes]] = opened.recovery.metadata()
        self.clean: Final[bool] = opened.recovery.clean

    @classmethod
    def open(
        cls,
        directory: Path | DataDirectory,
        formats: MessageFormats,
        on_stored: Stored,
        on_fetched: Fetched,
        on_failed: Failed,
        schedule: Schedule,
        segment_bytes: int = DEFAULT_SEGMENT_BYTES,
        sync: bool = True,
        sync_interval: float = 0.0,
        on_space: SpaceChanged = _ignore_space,
        audit: ProducerAudit | None = None,
        clock: Callable[[], float] = time.monotonic,
        epoch: Epoch | None = None,
    ) -> JournalStore:
        """Lock ``directory``, if not yet locked, recover the journal inside and open a new segment.

        Blocks; call `open` before the loop serves.

        ``schedule`` posts a call to the loop from any thread; `turn` must follow ``on_stored``. ``on_space(False)``
        reports a full disk, without room for messages until ``on_space(True)``. With ``sync=False``
        (enableJournalDiskSyncs="false") calls are reported before the sync, with ``sync_interval`` at most so many
        seconds before. ``audit`` is filled from the journal, and copied into the journal from then on. ``clock``
        measures syncs, in seconds. With an ``epoch`` another broker may take over the store at any time, and every sync
        is followed by a look at the epoch; ``sync`` must be True then.

        Raises:
            StoreError: the store is in use or unreadable. The text is one line; the store is unchanged.
        """
        locked = directory if isinstance(directory, DataDirectory) else DataDirectory(directory)
        path = locked.subdirectory(JOURNAL_DIRECTORY)
        assert sync or epoch is None
        disk = _open_files(path, epoch, sync)
        try:
            check_files(path)
            _own_files(locked, path, epoch)
            store_id = os.urandom(STORE_ID_SIZE)
            opened = open_journal(disk, store_id, segment_bytes, sync, StartProgress(path), epoch is not None)
            if audit is not None:
                recover_audit(disk, opened.recovery, formats, audit)
                opened.journal.attach_audit(audit)
        except StoreError as damage:  # the names differ because a compiled variable has one type
            disk.close()
            locked.release()
            if epoch is not None:
                epoch.check()  # what looks like damage may be the work of a broker that has taken over
            raise StoreError(f"the store in {path} cannot be opened: {damage}") from damage
        except OSError as error:
            disk.close()
            locked.release()
            if epoch is not None:
                epoch.check()
            raise StoreError(
                f"the store in {error.filename or path} cannot be opened: {error.strerror or error};"
                f" {advice(error, 'look at the disk')}"
            ) from error
        for warning in opened.recovery.warnings:
            logger.warning("journal %s: %s", path, warning)
        if opened.journal.segment_bytes < segment_bytes:
            logger.warning("journal %s: the disk is nearly full, make room", path)
        if not sync:
            lost = f"those of the last {sync_interval:g} s" if sync_interval > 0 else "messages"
            logger.warning("journal %s: disk syncs are off, a power cut loses %s that were acknowledged", path, lost)
        callbacks = (on_stored, on_fetched, on_failed, schedule, on_space)
        return cls(
            locked, (disk, _open_files(path, epoch, False)), opened, formats, callbacks, (sync, sync_interval), clock
        )

    @property
    def backlog_bytes(self) -> int:
        """Bytes not yet written."""
        return self._journal.backlog_bytes

    @property
    def segment_count(self) -> int:
        """Number of segments of the journal."""
        return self._journal.segment_count

    @property
    def moved_bytes(self) -> int:
        """Bytes written by compaction in the present run."""
        return self._journal.moved_bytes

    @property
    def sync_times(self) -> Histogram:
        """Times of the writes and syncs of the present run."""
        return self._loop_syncs.times

    def start(self) -> None:
        """Start both threads."""
        self._journal.space_changed(0, True)
        self._writer.start()
        self._reader.start()

    def turn(self, now: float, active: int = 0) -> None:
        """Hand the collected work to the threads, once per turn of the loop. ``now`` is monotonic seconds.

        Repeat ``on_stored`` after a broker's request for an already stored position. The loop's thread may write a
        batch itself, if all of the ``active`` sockets, with input in the turn, wait for the disk.
        """
        if self._error is not None:
            return
        self._loop_syncs.note_turn(active, self._journal.last_position, now)
        if self._journal.is_quiet:  # as in each turn that only moves messages that are not persistent
            self._group.ended(now)
            return
        for fetch in self._journal.take_fetches():
            self._reader.hand_over(fetch)  # also messages found in memory: answers keep the order of requests
        scan = self._journal.take_scan()
        if scan is not None:
            self._reader.hand_over(scan)
        position = self._journal.take_answer()
        if position >= 0:
            self._on_stored(position)
        self._hand_over(now)
        if self._journal.release_removed():
            self._request_turn()

    def next_deadline(self) -> float | None:
        """Return the monotonic seconds of the next necessary `turn`; None if only events need a turn."""
        return self._deadline

    def stop(self) -> None:
        """Write everything, mark the stop as clean and release the directory. Blocks until all is on the disk.

        Raises:
            StoreError: a write failed; the directory is released nevertheless.
        """
        try:
            self._reader.stop()
            self._writer.stop()
            self._is_stopped = True
            error = self._error or self._writer.failed
            if error is not None:
                raise error
            if self._in_flight is not None:
                self._complete(self._in_flight)
            self._report_all()
            self._finish()
        finally:
            self._disk.close()
            self._read_disk.close()
            self._directory.release()

    def _hand_over(self, now: float) -> None:
        journal = self._journal
        if journal.is_writing:
            if journal.gather() and journal.has_slice:
                self._request_turn()
            return
        self._group.ended(now)
        if not journal.has_work:
            return
        if self._answered_clients > 0:
            self._group.on_completed(self._answered_clients, self._other_clients, now)
            self._answered_clients = 0
        if self._can_wait(now):
            return
        self._deadline = None
        if journal.has_slice and (self._group.lets_grow(now) or journal.has_large_call) and journal.gather():
            self._request_turn()
            return
        batch = journal.next_batch()
        if batch is not None:
            self._in_flight = batch
            if not (self._writes_here(batch, now) and self._write_here(batch)):
                self._group.began(now)
                self._writer.hand_over(batch, journal.wanted_spare, journal.wanted_reserve, journal.room_bytes)
        elif journal.wanted_spare:
            self._writer.prepare(journal.wanted_spare, journal.wanted_reserve, journal.room_bytes)

    def _writes_here(self, batch: Batch, now: float) -> bool:
        """Return True if the loop's thread should write ``batch``, and the writer's files are ready."""
        journal = self._journal
        return (
            self._is_synced
            and self._loop_syncs.takes(batch, now)
            and journal.wanted_spare == 0
            and self._writer.is_idle(journal.wanted_reserve)
        )

    def _write_here(self, batch: Batch) -> bool:
        """Write and report ``batch`` on the loop's thread; False on a full disk with a waiting writer."""
        try:
            is_written = self._writer.write_now(batch)
        except StoreError as error:
            self._post_error(error)
            return True
        if is_written:
            self._loop_syncs.note_loop_sync(batch.sync_seconds, self._clock())
            self._complete(batch)
        return is_written

    def _request_turn(self) -> None:
        """Ask for another turn, for the next slice of a batch."""
        if not self._turn_requested:
            self._turn_requested = True
            self._schedule(self._start_turn)

    def _start_turn(self) -> None:
        self._turn_requested = False
        self._on_stored(self._journal.stored_position)  # a turn must follow

    def _can_wait(self, now: float) -> bool:
        """Return True if the batch should collect more calls, until `next_deadline`."""
        if self._journal.may_wait:
            if self._deadline is None:
                self._deadline = now + ACK_SYNC_DELAY
            return now < self._deadline
        if self._group.holds(self._journal.waiters, now):
            self._deadline = self._group.deadline
            return True
        return False

    def _finish(self) -> None:
        """Write the last batches on the present thread, after the end of the writer thread."""
        journal = self._journal
        self._write_all()
        if journal.has_unwritten and not self._write_rest():
            return
        journal.note_clean_stop()
        self._write_all()
        if journal.has_unwritten and not self._write_rest():
            return
        with suppress(OSError):  # only frees space; the next start does the same
            self._disk.resize(segment_name(journal.segment), journal.segment_end)
            if SPARE_NAME in self._disk.files():
                self._disk.delete(SPARE_NAME)

    def _write_all(self) -> None:
        batch = self._journal.next_batch()
        while batch is not None:
            self._write_last(batch)
            batch = self._journal.next_batch()

    def _write_rest(self) -> bool:
        """Write the waiting calls without disk space; return False on a full disk.

        Such calls were not acknowledged, so a loss breaks no promise.
        """
        self._journal.space_changed(UNMANAGED, True)
        try:
            self._write_all()
        except StoreError:
            if not self._found_full:
                raise
            logger.warning("the disk is full: sends and acknowledgements without an answer are not kept")
            return False
        return True

    def _write_last(self, batch: Batch) -> None:
        try:
            fault = write_batch(self._disk, batch, True)
        except OSError as cause:
            self._found_full = cause.errno in DISK_FULL  # mypyc leaves out the cause of an error
            raise write_error(batch, cause) from cause
        if fault:
            logger.warning("%s", fault)
        self._in_flight = batch
        self._complete(batch)
        self._report_all()

    def _complete_written(self, batch: Batch) -> None:
        """Take a batch written by the writer thread."""
        if batch.sync_seconds >= 0.0:
            self._loop_syncs.note_sync(batch.sync_seconds)
        self._complete(batch)

    def _complete(self, batch: Batch) -> None:
        if self._in_flight is not batch:
            return  # stop() was faster
        self._in_flight = None
        self._unreported.append(batch)
        if len(self._unreported) == 1:
            self._report_slice()

    def _report_slice(self) -> None:
        """Report a slice of a written batch; a large batch is answered in several turns."""
        if not self._unreported:
            return  # stop() was faster
        batch = self._unreported[0]
        if not self._journal.complete_slice(batch):
            self._unreported.popleft()
            self._answered_clients = batch.waiters
            self._other_clients = self._journal.waiters  # later some of the answered clients wait again
        if self._unreported:
            self._schedule(self._report_slice)
        self._on_stored(self._journal.stored_position)

    def _report_all(self) -> None:
        while self._unreported:
            self._report_slice()

    def _on_space_change(self, spare_bytes: int, has_space: bool) -> None:
        if self._error is not None or self._is_stopped:
            return  # the writer has reported it before
        batch = self._in_flight
        if batch is not None and batch.new_segment is not None:
            spare_bytes = 0  # of a file that the batch takes: the writer reports the next file behind the batch
        if self._journal.space_changed(spare_bytes, has_space):
            if has_space:
                logger.warning("there is room on the disk again: messages are taken")
            else:
                logger.error("the disk is full: no message is taken until there is room, consumers go on")
                self._writer.prepare(self._journal.wanted_spare, self._journal.wanted_reserve, self._journal.room_bytes)
            self._on_space(has_space)
        self._on_stored(self._journal.stored_position)  # a turn must follow: held calls and compaction may go on

    def _on_scanned(self, scan: Scan, block: bytes) -> None:
        journal = self._journal
        journal.scanned(scan, block)
        for segment, offset in journal.take_damaged():
            logger.error(
                "%s is damaged at byte %d: what lies behind it stays there; stop the broker and run `spanwire store"
                " repair DIRECTORY`",
                segment_name(segment),
                offset,
            )
        self._on_stored(journal.stored_position)  # a turn must follow, to continue the scan or write moved messages

    def fail(self, error: StoreError) -> None:
        """Accept and answer no more calls, and report ``error`` to ``on_failed``; `stop` raises it then."""
        if self._error is None:
            self._error = error
            self._answers.stop()
            self._journal.fail()
            self._on_failed(error)

    # Called on the reader or writer thread

    def _post_batch(self, batch: Batch) -> None:
        self._schedule(partial(self._complete_written, batch))

    def _post_space(self, spare_bytes: int, has_space: bool) -> None:
        self._schedule(partial(self._on_space_change, spare_bytes, has_space))

    def _post_read(self, fetch: Fetch, results: list[StoredBytes | None]) -> None:
        self._schedule(partial(self._answers.add, fetch, results))

    def _post_scan(self, scan: Scan, block: bytes) -> None:
        self._schedule(partial(self._on_scanned, scan, block))

    def _post_error(self, error: StoreError) -> None:
        self._schedule(partial(self.fail, error))


def _open_files(path: Path, epoch: Epoch | None, write_through: bool) -> OpenDisk:
    """Return the files of the journal in ``path``, fenced for a broker with an ``epoch``."""
    files = FileDisk(path, write_through)
    return files if epoch is None else FencedDisk(files, epoch, epoch.token)


def _own_files(locked: DataDirectory, path: Path, epoch: Epoch | None) -> None:
    """Remove files of other brokers; a broker without an ``epoch`` ends all leases of the store.

    Raises:
        StoreError: another broker has taken over the directory meanwhile.
        OSError: a file cannot be removed.
    """
    if epoch is None and forget_epoch(path) and not locked.is_held():
        raise StoreError(f"another broker has taken over {locked.path} meanwhile: start this one again")
    remove_others_files(path, epoch)
