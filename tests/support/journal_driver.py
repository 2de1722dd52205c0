"""Drives a journal without threads: what the writer and the reader do, done at once by the test."""

from __future__ import annotations

from random import Random
from typing import Final

from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.model.errors import StoreError
from spanwire.model.message import Message
from spanwire.stores.driver.reader import read_all, read_block
from spanwire.stores.journal.batch import Batch, write_batch
from spanwire.stores.journal.fetching.fetch import damaged_message
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.segments.disk_port import Disk
from tests.simulation.disk import SimulatedDisk
from tests.support.plain_format import plain_formats

SMALL_SEGMENT: Final = 4096
STORE_ID: Final = b"a store for test"

State = dict[str, dict[int, tuple[bytes, int]]]
"""Qualified name → sequence → (encoded message, redelivery count): all that a store promises to keep."""


class JournalDriver:
    """A journal on a simulated disk. ``turn`` writes and answers everything."""

    def __init__(
        self, disk: SimulatedDisk | None = None, segment_bytes: int = SMALL_SEGMENT, sync: bool = True
    ) -> None:
        self.disk = disk if disk is not None else SimulatedDisk()
        self.segment_bytes: Final = segment_bytes
        self.sync: Final = sync
        self.formats: Final = plain_formats()
        self.stored = 0
        self.fetched: dict[int, list[Message | None]] = {}
        self.damaged: list[str] = []
        self._open()

    def _open(self) -> None:
        opened = open_journal(self.disk, STORE_ID, self.segment_bytes, self.sync)
        self.store: Journal = opened.journal
        self.recovered: list[RecoveredDestination] = opened.recovery.destinations()
        self.metadata: dict[int, dict[bytes, bytes]] = opened.recovery.metadata()
        self.clean = opened.recovery.clean
        self.warnings = opened.recovery.warnings
        self.stored = 0

    def write_one(self) -> Batch | None:
        """One batch, if there is one."""
        batch = self.store.next_batch()
        if batch is not None:
            self.end_one(batch)
        return batch

    def end_one(self, batch: Batch) -> None:
        """What was under way is on the disk."""
        write_batch(self.disk, batch, True)
        self.stored = self.store.on_completed(batch)

    def answer_fetches(self) -> None:
        """Read what was asked for."""
        for fetch in self.store.take_fetches():
            for read, found in zip(fetch.reads, read_all(self.disk, fetch.reads), strict=True):
                if fetch.still_there(read) and found is not None and not found.damage:
                    fetch.messages[read.index] = self.formats.index(found.format_id, found.raw)
                elif found is not None and found.damage:
                    self.damaged.append(damaged_message(fetch, read, found.damage))
            self.store.answered(fetch)
            self.fetched[fetch.request] = fetch.messages

    def scan_one(self) -> bool:
        """One block for compaction, if one is wanted."""
        scan = self.store.take_scan()
        if scan is None:
            return False
        self.store.scanned(scan, read_block(self.disk, scan))
        return True

    def turn(self) -> None:
        """Everything that waits, until nothing does. A quiet journal has nothing, as its shell believes."""
        is_quiet = self.store.is_quiet
        steps = 0
        while self.write_one() is not None or self.scan_one() or self.store.release_removed():
            steps += 1
        assert not (is_quiet and steps), "a quiet journal had work"
        self.answer_fetches()

    def reopen(self) -> None:
        """Stop in order and start again."""
        self.turn()
        self.store.note_clean_stop()
        self.turn()
        self._open()

    def crash(self, random: Random | None = None) -> None:
        """Cut the power now and start again."""
        self.disk = self.disk.power_cut(random if random is not None else Random(1))
        self._open()

    def books(self) -> list[tuple[int, int, int, int, set[int]]]:
        """What the journal counts of each segment."""
        states = self.store._index.segments.by_number.values()
        return [(state.number, state.live, state.live_bytes, state.held_bytes, state.refers) for state in states]

    def state(self) -> State:
        """What the store holds, read back from the disk."""
        return state_of(self.disk, self.recovered, self.store)


def state_of(disk: Disk, recovered: list[RecoveredDestination], store: Journal) -> State:
    """The messages and redelivery counts of a journal just opened."""
    state: State = {}
    for found in recovered:
        store.fetch(0, found.destination, list(found.sequences))
        kept: dict[int, tuple[bytes, int]] = {}
        for fetch in store.take_fetches():
            store.answered(fetch)
            assert len(fetch.reads) == len(found.sequences)
            for read, stored in zip(fetch.reads, read_all(disk, fetch.reads), strict=True):
                assert stored is not None
                if stored.damage:
                    raise StoreError(damaged_message(fetch, read, stored.damage))
                kept[read.sequence] = (stored.raw, found.redeliveries.get(read.sequence, 0))
        state[found.destination.qualified_name] = kept
    return state


def recovered_state(disk: SimulatedDisk) -> State:
    """What a broker that starts on this disk finds; the disk itself changes as by any start."""
    opened = open_journal(disk, STORE_ID, SMALL_SEGMENT)
    return state_of(disk, opened.recovery.destinations(), opened.journal)
