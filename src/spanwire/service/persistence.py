"""Opens a broker's message store and holds the lock of the data directory."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.persistence.producer_audit import IDENTITY_SIZE, ProducerAudit
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.ports import Store
from spanwire.model.errors import StoreError
from spanwire.model.histogram import Histogram
from spanwire.service.config.model import PersistenceConfiguration
from spanwire.stores.directory import DataDirectory
from spanwire.stores.driver.answers import Failed, Fetched, Schedule
from spanwire.stores.driver.journal_store import JournalStore, SpaceChanged, Stored

logger = logging.getLogger(__name__)

FOREIGN_STORES: Final = (
    ("db-*.log", "KahaDB"),
    ("*/db-*.log", "mKahaDB"),
    ("dirty.index", "LevelDB"),
    ("store-version.txt", "LevelDB"),
    ("kr-store", "AMQ message"),
)  # files that identify stores of ActiveMQ


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

    def __init__(self, directory: Path | None, configuration: PersistenceConfiguration) -> None:
        assert directory is not None or not configuration.persistent
        self._directory: Final = directory
        self._configuration: Final = configuration
        self._locks: Final[dict[Path, DataDirectory]] = {}
        self.journal: JournalStore | None = None
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
        """Return the directories that the broker locks, in this order."""
        named = [path.absolute() for path in (self._directory, self.journal_directory) if path is not None]
        return list(dict.fromkeys(named))

    def lock(self) -> None:
        """Lock the directories that are not locked yet.

        Raises:
            DirectoryInUseError: another broker uses one of the directories.
            StoreError: a directory is unusable.
        """
        directory = self.journal_directory
        for pattern, kind in FOREIGN_STORES:
            if directory is not None and next(directory.glob(pattern), None) is not None:
                raise StoreError(
                    f"{directory} holds a {kind} store, which cannot be read; name another directory for the journal"
                )
        for path in self.directories:
            if path not in self._locks:
                self._locks[path] = DataDirectory(path, needs_lock=self._configuration.lock.use_lock)

    def lost_lock(self) -> Path | None:
        """Return a locked directory whose lock file was removed or replaced; None if there is none.

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
        """Return the journal's figures for an operator; none without persistence."""
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
        """Write everything and close the journal; blocks. Raises `StoreError` if writing fails."""
        if self.journal is not None:
            self.journal.stop()
            self.journal = None

    def release(self) -> None:
        """Release the locks of the directories."""
        for locked in self._locks.values():
            locked.release()
        self._locks.clear()


def loop_poster(loop: asyncio.AbstractEventLoop) -> Callable[[Callable[[], None]], None]:
    """Return a function with which the store's threads run callbacks in ``loop``; after its end they are dropped."""

    def post(callback: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(callback)
        except RuntimeError:
            logger.debug("the store reported after the end of the loop")

    return post
