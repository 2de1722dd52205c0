"""The journal's reader thread: reads messages back in blocks and checks them, off the loop."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.compaction import Scan
from spanwire.stores.journal.fetching.fetch import Fetch, Read, StoredBytes, check_reads, unreadable
from spanwire.stores.journal.fetching.fetch_blocks import blocks
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import segment_name


class JournalReader:
    """Owns the thread that reads.

    ``on_read(fetch, found)``, ``on_scanned(scan, block)`` and ``on_failed`` are called FROM THE THREAD: they must only
    hand over to the loop.
    ``found`` has one item per `Fetch.reads`; None where the segment's file is gone.
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
        self._thread: Final = Thread(target=self._run, name="spanwire-journal-reader", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def hand_over(self, fetch: Fetch | Scan) -> None:
        """Read this; one after the other."""
        self._fetches.put(fetch)

    def stop(self) -> None:
        """Return when the thread is over; what was handed over is read before."""
        if self._thread.is_alive():
            self._fetches.put(None)
            self._thread.join()

    def _run(self) -> None:
        while True:
            fetch = self._fetches.get()
            if fetch is None:
                return
            if isinstance(fetch, Scan):
                self._on_scanned(fetch, read_block(self._disk, fetch))
                continue
            try:
                found = read_all(self._disk, fetch.reads)
            except StoreError as error:
                self._on_failed(error)
                return
            self._on_read(fetch, found)


def read_block(disk: Disk, scan: Scan) -> bytes:
    """The bytes of a scan; none when they cannot be read: what lies there then stays there."""
    try:
        return disk.read(segment_name(scan.segment), scan.offset, scan.length)
    except OSError:
        return b""


def read_all(disk: Disk, reads: list[Read]) -> list[StoredBytes | None]:
    """Reads and checks messages; raises `StoreError` naming file and byte when the disk cannot read one."""
    found: list[StoredBytes | None] = [None] * len(reads)
    for group in blocks(reads):
        first = reads[group[0]]
        last = reads[group[-1]]
        try:
            block = disk.read(segment_name(first.segment), first.offset, last.offset + last.size - first.offset)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise unreadable(first, error) from error
        check_reads(reads, group, block, found)
    return found
