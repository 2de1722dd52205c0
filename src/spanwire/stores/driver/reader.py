"""The reader thread of the journal: reads messages in blocks and checks messages, outside of the loop."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.compaction.compaction import Scan
from spanwire.stores.journal.fetching.fetch import Fetch, Read, StoredBytes, check_reads, unreadable
from spanwire.stores.journal.fetching.fetch_blocks import blocks
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import segment_name


class JournalReader:
    """Runs the reading thread.

    The callbacks ``on_read(fetch, results)``, ``on_scanned(scan, block)`` and ``on_failed`` run ON THE READER THREAD:
    they must only hand over to the loop. ``results`` has one item per `Fetch.reads`; None for a missing segment's file.
    """

    def __init__(
        self,
        disk: Disk,
        on_read: Callable[[Fetch, list[StoredBytes | None]], None],
        on_failed: Callable[[StoreError], None],
        on_scanned: Callable[[Scan, bytes], None],
    ) -> None:
        self._disk: Final = disk
        self._on_scanned: Final = on_scanned
        self._on_read: Final = on_read
        self._on_failed: Final = on_failed
        self._fetches: Final[SimpleQueue[Fetch | Scan | None]] = SimpleQueue()
        self._worker: Final = Thread(target=self._run, name="spanwire-journal-reader", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._worker.start()

    def hand_over(self, fetch: Fetch | Scan) -> None:
        """Queue a fetch or scan. The thread works in the order of the queue."""
        self._fetches.put(fetch)

    def stop(self) -> None:
        """Process the queue and end the thread. Blocks."""
        if self._worker.is_alive():
            self._fetches.put(None)
            self._worker.join()

    def _run(self) -> None:
        while True:
            fetch = self._fetches.get()
            if fetch is None:
                return
            try:
                if isinstance(fetch, Scan):
                    self._on_scanned(fetch, read_block(self._disk, fetch))
                    continue
                results = read_all(self._disk, fetch.reads)
            except StoreError as error:
                self._on_failed(error)
                return
            self._on_read(fetch, results)


def read_block(disk: Disk, scan: Scan) -> bytes:
    """Return the bytes of a scan; no bytes if unreadable: compaction then leaves the messages in place.

    Raises:
        StoreError: another broker has taken over the store, or nobody can tell.
    """
    try:
        return disk.read(segment_name(scan.segment), scan.offset, scan.length)
    except OSError:
        return b""


def read_all(disk: Disk, reads: list[Read]) -> list[StoredBytes | None]:
    """Read and check messages.

    Returns:
        One item for each read; None if the segment's file is missing.

    Raises:
        StoreError: the disk cannot read a message. The text names file and byte.
    """
    results: list[StoredBytes | None] = [None] * len(reads)
    for group in blocks(reads):
        first = reads[group[0]]
        last = reads[group[-1]]
        try:
            block = disk.read(segment_name(first.segment), first.offset, last.offset + last.size - first.offset)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unreadable(first, error) from error
        check_reads(reads, group, block, results)
    return results
