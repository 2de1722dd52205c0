"""Opens a broker's message store and holds the lock of the data directory."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.persistence.producer_audit import IDENTITY_SIZE, ProducerAudit
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.ports import Store
from spanwire.model.errors import StoreError
from spanwire.model.observation.histogram import Histogram
from spanwire.service.config.model import PersistenceConfiguration
from spanwire.service.data_directory import foreign_store
from spanwire.stores.directory import DataDirectory, DirectoryInUseError
from spanwire.stores.driver.answers import Failed, Fetched, Schedule
from spanwire.stores.driver.disk import refuse_newer_store
from spanwire.stores.driver.journal_store import JOURNAL_DIRECTORY, JournalStore, SpaceChanged, Stored
from spanwire.stores.epoch import Epoch, TakeOverLock, claim_epoch, epoch_in, read_epoch
from spanwire.stores.lock_file import UNKNOWN, LockHolder, holder_of

logger = logging.getLogger(__name__)

MAX_HOLDER_ID: Final = 255  # characters of the holder of a lease


@dataclass(frozen=True, slots=True)
class Recovered:
    """The recovered contents of a store: destinations, metadata by table and key.

    ``clean`` after an orderly stop.
    """

    destinations: list[RecoveredDestination]
    metadata: dict[int, dict[bytes, bytes]]
    clean: bool


class Persistence:
    """The locked data directory and, for a persistent broker, the open journal.

    `open` blocks and raises `StoreError` with one line; after an error the directory is unchanged.
    """

    def __init__(self, directory: Path | None, configuration: PersistenceConfiguration, name: str = "broker") -> None:
        """``name`` is the holder of a lease without a ``leaseHolderId``."""
        assert directory is not None or not configuration.persistent
        self._directory: Final = directory
        self._configuration: Final = configuration
        self._locks: Final[dict[Path, DataDirectory]] = {}
        self._name: Final = re.sub(r"[^\w.:@-]", "_", name, flags=re.ASCII)[:MAX_HOLDER_ID] or "broker"
        self.journal: JournalStore | None = None
        self.epoch: Epoch | None = None  # None without a lease
        self.audit: Final = ProducerAudit(
            configuration.audit_depth, configuration.audited_producers, os.urandom(IDENTITY_SIZE)
        )

    @property
    def journal_directory(self) -> Path | None:
        """Return the directory of the journal; None for a broker without persistence."""
        if not self._configuration.persistent:
            return None
        directory = self._configuration.directory or self._directory
        return None if directory is None else directory.absolute()

    @property
    def store(self) -> Store | None:
        """Return the store for the broker; None without persistence."""
        return None if self.journal is None else self.journal.store

    @property
    def is_persistent(self) -> bool:
        """Return True if messages are kept in a journal."""
        return self._configuration.persistent

    @property
    def directories(self) -> list[Path]:
        """Return the directories for the broker's locks, in the order of locking."""
        named = [path.absolute() for path in (self._directory, self.journal_directory) if path is not None]
        return list(dict.fromkeys(named))

    def lock(self, expired: bytes = b"") -> None:
        """Lock the directories not locked yet, and begin an epoch if the configuration has a lease.

        With ``expired``, the contents of an epoch file without a renewal in time, take the directories from the present
        holder.

        Raises:
            DirectoryInUseError: another broker uses one of the directories, or takes the directories at the moment.
            StoreError: a directory is unusable, or the store has a newer format.
        """
        if self.epoch is not None:
            return
        directory = self.journal_directory
        if directory is not None:
            refuse_newer_store(directory / JOURNAL_DIRECTORY)
            foreign = foreign_store(directory)
            if foreign is not None:
                raise StoreError(foreign)
        if directory is None or not self._configuration.lock.lease_ms:
            self._lock_all()
            return
        if not expired:
            self._lock_all()
        with TakeOverLock(directory) as may_take:
            try:
                if not may_take:
                    raise DirectoryInUseError(directory, holder_of(directory))
                self._begin_epoch(directory, expired)
            except StoreError:
                self.release()
                raise

    def _lock_all(self, hanging: LockHolder | None = None) -> None:
        """Lock all directories. Replace only a lock of ``hanging``: another holder has no part in the epoch."""
        needs_lock = self._configuration.lock.use_lock
        for path in self.directories:
            if path in self._locks:
                continue
            try:
                self._locks[path] = DataDirectory(path, needs_lock=needs_lock)
            except DirectoryInUseError as error:
                if hanging is None or error.holder not in (hanging, UNKNOWN):  # on a full disk the file names nobody
                    raise
                self._locks[path] = DataDirectory(path, needs_lock=needs_lock, replaces_lock=True)

    def _begin_epoch(self, directory: Path, expired: bytes) -> None:
        """Own the store from now on.

        The lock comes before the look at the epoch, and the look before the claim.
        """
        if expired and read_epoch(directory / JOURNAL_DIRECTORY) == expired:
            self._lock_all(epoch_in(expired).holder)
        journal = self._locks[directory].subdirectory(JOURNAL_DIRECTORY) if directory in self._locks else None
        if journal is None or self.lost_lock() is not None or (expired and read_epoch(journal) != expired):
            raise DirectoryInUseError(directory, holder_of(directory))
        settings = self._configuration.lock
        self.epoch = claim_epoch(journal, settings.holder_id or self._name)

    def present_epoch(self) -> bytes:
        """Return the contents of the epoch file; b"" without a file."""
        directory = self.journal_directory
        return b"" if directory is None else read_epoch(directory / JOURNAL_DIRECTORY)

    def check_owner(self) -> None:
        """Return if no other broker has taken over the store, as far as a lease tells. Raises `StoreError`."""
        if self.epoch is not None:
            self.epoch.check()

    def lost_lock(self) -> Path | None:
        """Return a locked directory with a removed or replaced lock file; None without such a directory.

        Raises:
            OSError: the file system does not answer.
        """
        return next((path for path, locked in self._locks.items() if not locked.is_held()), None)

    def open(
        self,
        formats: MessageFormats,
        callbacks: tuple[Stored, Fetched, Failed, Schedule],
        on_space: SpaceChanged,
    ) -> None:
        """Lock the directory, unless `lock` has done so, and recover the journal."""
        self.lock()
        locked = None if self.journal_directory is None else self._locks.get(self.journal_directory)
        if locked is None:
            return
        try:
            self.journal = JournalStore.open(
                locked,
                formats,
                *callbacks,
                segment_bytes=self._configuration.segment_bytes,
                sync=self._configuration.sync,
                sync_interval=self._configuration.sync_interval_ms / 1000,
                on_space=on_space,
                audit=self.audit,
                epoch=self.epoch,
            )
        except StoreError:
            self.release()
            raise

    def take_recovered(self, delete_all: bool) -> Recovered:
        """Return the recovered contents; with ``delete_all``, delete the contents instead."""
        journal = self.journal
        if journal is None:
            return Recovered([], {}, True)
        recovered = Recovered(journal.recovered, journal.metadata, journal.clean)
        journal.recovered = []
        journal.metadata = {}
        if not delete_all:
            return recovered
        for entry in recovered.destinations:
            journal.store.remove_destination(entry.destination)
        for table, metadata in recovered.metadata.items():
            for key in metadata:
                journal.store.discard_metadata(table, key)
        return Recovered([], {}, True)

    def views(self) -> list[dict[str, object]]:
        """Return the journal's figures for an operator; an empty list without persistence."""
        journal, directory = self.journal, self.journal_directory
        if journal is None:
            return []
        segment_bytes = self._configuration.segment_bytes
        view: dict[str, object] = {
            "name": str(directory),
            "directory": str(directory),
            "size_bytes": journal.store.used_bytes(),
            "segments": journal.segment_count,
            "segment_bytes": segment_bytes,
            "moved_bytes": journal.moved_bytes,
            "synced": self._configuration.sync,
        }
        return [view]

    def sync_times(self) -> Histogram | None:
        """Return the times of the journal's syncs; None without persistence."""
        return None if self.journal is None else self.journal.sync_times

    def stop(self) -> None:
        """Write everything and close the journal; blocks. Raises `StoreError` after a failed write."""
        if self.journal is not None:
            self.journal.stop()
            self.journal = None

    def release(self) -> None:
        """Release the locks of the directories, and close the epoch."""
        for locked in self._locks.values():
            locked.release()
        self._locks.clear()
        if self.epoch is not None:
            self.epoch.give_up()  # behind the locks: a broker that is stopped in between keeps none that lasts
            self.epoch.close()
            self.epoch = None


def loop_poster(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Return a function to run callbacks of the store's threads in ``loop``.

    After the end of the loop the callbacks are dropped.
    """

    def post(callback: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:
            logger.debug("the store reported after the end of the loop")

    return post
