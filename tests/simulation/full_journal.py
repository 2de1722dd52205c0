"""A journal under everything it can be asked for, beside plain dicts that say what it should hold.

Queues, lines of durable subscriptions with shared bodies, priorities, lifetimes, facts, units of all of these,
removals, redelivery counts, compaction and clean stops. `FullJournal.allowed` are the states that a crash may leave at
the moment: the one last reported as stored, and the one of the batch under way.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Final

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.store_unit import StoreUnit, Transfer
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TRANSACTION, Destination
from spanwire.model.message import DEFAULT_PRIORITY, Message
from spanwire.stores.driver.reader import read_all, read_block
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import OpenedJournal, open_journal
from tests.simulation.disk import SimulatedDisk
from tests.support.plain_format import plain_message

STORE_ID: Final = b"a store for test"
SMALL_SEGMENT: Final = 4096
LINES: Final = tuple(
    Destination(kind, name)
    for kind, name in ((QUEUE, "A"), (QUEUE, "B.C"), (SUBSCRIPTION, "one"), (SUBSCRIPTION, "two"), (TRANSACTION, "x"))
)
SIZES: Final = (0, 1, 10, 200, 900, 1500)
TABLES: Final = (1, 2, 7)
Stored = tuple[bytes, int, int, int]
"""Encoded message, redelivery count, priority, expiration."""


@dataclass
class FullState:
    """All that a store promises to keep; compared as a whole."""

    lines: dict[str, dict[int, Stored]] = field(default_factory=dict)
    metadata: dict[tuple[int, bytes], bytes] = field(default_factory=dict)


class DamagedMessageError(Exception):
    """A message was found damaged when it was read; the store said so."""


class Opened:
    """A journal just opened on a disk."""

    def __init__(self, disk: SimulatedDisk) -> None:
        opened: OpenedJournal = open_journal(disk, STORE_ID, SMALL_SEGMENT)
        self.disk: Final = disk
        self.journal: Final[Journal] = opened.journal
        self.destinations: Final[list[RecoveredDestination]] = opened.recovery.destinations()
        self.clean: Final[bool] = opened.recovery.clean
        self._facts: Final = opened.recovery.metadata()

    def state(self) -> FullState:
        """What it holds, every message read back. Raises `DamagedMessageError`."""
        metadata = {(table, key): value for table, entries in self._facts.items() for key, value in entries.items()}
        state = FullState({}, metadata)
        for found in self.destinations:
            kept = self.messages(found)
            state.lines[found.destination.qualified_name] = kept
        return state

    def messages(self, found: RecoveredDestination, skips_damaged: bool = False) -> dict[int, Stored]:
        """One line. Damaged messages are left out, or raise `DamagedMessageError`."""
        dues = dict(zip(found.expirations.sequences, found.expirations.wall_ms, strict=True))
        kept: dict[int, Stored] = {}
        self.journal.fetch(0, found.destination, list(found.sequences))
        for fetch in self.journal.take_fetches():
            self.journal.answered(fetch)
            assert len(fetch.reads) == len(found.sequences)
            for read, stored in zip(fetch.reads, read_all(self.disk, fetch.reads), strict=True):
                assert stored is not None, "a segment with a live message is gone"
                if not stored.damage:
                    number = read.sequence
                    priority = found.priorities.get(number, DEFAULT_PRIORITY)
                    kept[number] = (stored.raw, found.redeliveries.get(number, 0), priority, dues.get(number, 0))
                elif not skips_damaged:
                    raise DamagedMessageError(stored.damage)
        return kept


def full_state(disk: SimulatedDisk) -> FullState:
    """What a start on this disk finds; the disk changes as by any start."""
    return Opened(disk).state()


class FullJournal:
    """See the module."""

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.disk = disk if disk is not None else SimulatedDisk()
        self.journal = Opened(self.disk).journal
        self.state = FullState()
        self.allowed: list[FullState] = [FullState()]
        self.used: dict[str, int] = {}
        self.number = 0
        self.scans = 0
        self.transferred = 0
        self.gathered = 0
        self.deleted = 0
        self._stored = 0
        self._snapshots: dict[int, FullState] = {0: FullState()}

    # Calls

    def message(self, line: Destination, random: Random, size: int | None = None) -> Message:
        """A new message, with a priority and a lifetime now and then."""
        self.number += 1
        plain = plain_message(
            line, self.number, b"%d" % (self.number % 10) * (random.choice(SIZES) if size is None else size)
        )
        priority = random.choice((DEFAULT_PRIORITY, DEFAULT_PRIORITY, 0, 9))
        due = random.choice((0, 0, 1_700_000_000_000 + self.number))
        return Message(
            plain.format_id, plain.raw, plain.content_start, plain.properties_start, plain.tail_start,
            plain.destination, plain.producer_id, plain.sequence, True, priority, due, 0,
        )  # fmt: skip

    def append(self, line: Destination, message: Message) -> int:
        sequence = self.journal.append(line, message)
        self._took(line, sequence, message)
        self._called()
        return sequence

    def append_shared(self, lines: list[Destination], message: Message) -> None:
        for line, sequence in zip(lines, self.journal.append_shared(lines, message), strict=True):
            self._took(line, sequence, message)
        self._called()

    def remove(self, line: Destination, sequence: int) -> None:
        self.journal.remove(line, sequence)
        self._lost(line, sequence)
        self._called()

    def note(self, line: Destination, sequence: int, count: int) -> None:
        self.journal.note_redelivery(line, sequence, count)
        messages = self.state.lines.get(line.qualified_name, {})
        if sequence in messages:
            raw, _, priority, due = messages[sequence]
            messages[sequence] = (raw, count, priority, due)
        self._called()

    def unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
    ) -> None:
        sequences = self.journal.append_unit(additions, removals, metadata)
        for (line, message), sequence in zip(additions, sequences, strict=True):
            self._took(line, sequence, message)
        for line, sequence in removals:
            self._lost(line, sequence)
        for metadata_record in metadata:
            self._metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        self._called()

    def gathered_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
    ) -> None:
        """A unit that was gathered. What it adds is nobody's business before it is on the disk."""
        unit = StoreUnit()
        lines = [unit.add(line, message) for line, message in additions]
        assert len(set(lines)) == len(lines), "each line once"
        for line, sequence in removals:
            unit.remove(line, sequence)
        for metadata_record in metadata[1:]:
            unit.add_metadata(metadata_record)
        self.journal.append_gathered(unit, metadata[:1])
        for place, (line, message) in enumerate(additions):
            self._took(line, lines[place].first, message)
        for line, sequence in removals:
            self._lost(line, sequence)
        for metadata_record in metadata:
            self._metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        self._called()
        self.gathered += 1
        while self.write_one():
            pass

    def transfer(
        self, source: Destination, sequences: list[int], target: Destination, metadata: list[MetadataRecord]
    ) -> None:
        """Messages of one line, which are there, become those of another."""
        (first,) = self.journal.transfer_unit([Transfer(source, sequences, target)], [], metadata)
        self._transferred(source, sequences, target, first, metadata)

    def gathered_transfer(
        self, source: Destination, sequences: list[int], target: Destination, metadata: list[MetadataRecord]
    ) -> None:
        """As `transfer`, but nobody asks for the messages before they are on the disk."""
        unit = StoreUnit()
        moved = unit.transfer(source, target)
        moved.add(sorted(sequences))
        self.journal.append_gathered(unit, metadata)
        self._transferred(source, sorted(sequences), target, moved.first, metadata)
        while self.write_one():
            pass

    def _transferred(
        self,
        source: Destination,
        sequences: list[int],
        target: Destination,
        first: int,
        metadata: list[MetadataRecord],
    ) -> None:
        name = target.qualified_name
        self.transferred += len(sequences)
        kept = self.state.lines.get(source.qualified_name, {})  # moving nothing makes no source
        assert not sequences or first > self.used.get(name, 0), "a sequence was used again"
        for place, sequence in enumerate(sequences):
            raw, _, priority, due = kept.pop(sequence)
            self.used[name] = first + place
            self.state.lines.setdefault(name, {})[first + place] = (raw, 0, priority, due)
        self.state.lines.setdefault(name, {})
        for metadata_record in metadata:
            self._metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        self._called()

    def metadata_record(self, table: int, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.journal.discard_metadata(table, key)
        else:
            self.journal.put_metadata(table, key, value)
        self._metadata(table, key, value)
        self._called()

    def add_line(self, line: Destination) -> None:
        self.journal.add_destination(line)
        self.state.lines.setdefault(line.qualified_name, {})
        self._called()

    def remove_line(self, line: Destination) -> None:
        self.journal.remove_destination(line)
        self.state.lines.pop(line.qualified_name, None)
        self._called()

    # The driver

    @property
    def has_work(self) -> bool:
        return self.journal.has_work

    def write_one(self) -> bool:
        """One batch, if there is one."""
        self.allowed = [self._snapshots[self._stored], deepcopy(self.state)]
        batch = self.journal.next_batch()
        if batch is None:
            self.allowed = [self._snapshots[self._stored]]
            return False
        self.deleted += len(batch.deletions)
        write_batch(self.disk, batch, True)
        self._stored = self.journal.on_completed(batch)
        self._snapshots = {place: state for place, state in self._snapshots.items() if place >= self._stored}
        self.allowed = [self._snapshots[self._stored]]
        return True

    def scan_one(self) -> bool:
        """One block for compaction, if one is wanted."""
        scan = self.journal.take_scan()
        if scan is not None:
            self.scans += 1
            self.journal.scanned(scan, read_block(self.disk, scan))
        return scan is not None

    def settle(self) -> None:
        """Write and compact until nothing is left to do."""
        while self.write_one() or self.scan_one():
            pass

    def stop(self) -> None:
        """A stop in order."""
        self.settle()
        self.journal.note_clean_stop()
        while self.write_one():
            pass

    def reopen(self) -> None:
        """Stop and start."""
        self.stop()
        opened = Opened(self.disk)
        assert opened.clean
        self._begin(opened.journal)

    def after(self, disk: SimulatedDisk) -> None:
        """Start on what a crash left; AssertionError if it is not one of the allowed states."""
        self.disk = disk
        opened = Opened(disk)
        found = opened.state()
        assert found in self.allowed, "not a state that a crash may leave"
        self.state = found
        self._begin(opened.journal)

    def fork(self, disk: SimulatedDisk) -> FullJournal:
        """Another life of the same store, from what a crash left."""
        other = FullJournal()
        other.used = dict(self.used)
        other.number = self.number
        other.allowed = self.allowed
        other.after(disk)
        return other

    def check(self) -> None:
        """What a start on a copy of the synced disk finds is what it should hold."""
        self.settle()
        assert full_state(self.disk.copy()) == self.state

    # Inside

    def _took(self, line: Destination, sequence: int, message: Message) -> None:
        name = line.qualified_name
        assert sequence > self.used.get(name, 0), "a sequence was used again"
        self.used[name] = sequence
        stored = (message.encoded(), 0, message.priority, message.expiration_ms)
        self.state.lines.setdefault(name, {})[sequence] = stored

    def _lost(self, line: Destination, sequence: int) -> None:
        self.state.lines.get(line.qualified_name, {}).pop(sequence, None)

    def _metadata(self, table: int, key: bytes, value: bytes | None) -> None:
        if value is None:
            self.state.metadata.pop((table, key), None)
        else:
            self.state.metadata[table, key] = value

    def _called(self) -> None:
        self._snapshots[self.journal.position()] = deepcopy(self.state)

    def _begin(self, journal: Journal) -> None:
        self.journal = journal
        self._stored = 0
        self._snapshots = {0: deepcopy(self.state)}
        self.allowed = [self._snapshots[0]]


def work(full: FullJournal, random: Random, calls: int) -> None:
    """A mixed load of so many calls, with writes and reads for compaction, and a clean stop now and then."""
    for _ in range(calls):
        choice = random.randrange(60)
        if choice < 20:
            _add(full, random, choice)
        elif choice < 40:
            _take(full, random, choice)
        elif choice < 43 and choice != 41:
            metadata_record = _metadata(random)
            full.metadata_record(metadata_record.table, metadata_record.key, metadata_record.value)
        elif choice == 41:
            source = random.choice(LINES)
            there = list(full.state.lines.get(source.qualified_name, {}))
            some = random.sample(there, random.randrange(len(there) + 1))
            move = full.transfer if full.transferred % 2 else full.gathered_transfer
            move(source, some, random.choice(LINES), [_metadata(random)])
        elif choice == 43:
            full.reopen()
        elif choice < 47:
            full.scan_one()
        else:
            full.write_one()


def _add(full: FullJournal, random: Random, choice: int) -> None:
    line = random.choice(LINES)
    if choice < 10:
        full.append(line, full.message(line, random))
    elif choice < 14:
        full.append_shared(random.sample(LINES, random.randrange(1, 4)), full.message(line, random))
    elif choice < 17:
        additions = [(where, full.message(where, random)) for where in random.sample(LINES, random.randrange(4))]
        some = _some(full, random, line)
        removals = [] if some is None else [(line, some)]
        metadata = [_metadata(random)] if choice == 14 else []
        if random.random() < 0.3:
            full.gathered_unit(additions, removals, metadata)
        else:
            full.unit(additions, removals, metadata)
    elif choice < 19:
        full.remove(line, full.append(line, full.message(line, random, 50)))
    else:
        full.add_line(line)


def _take(full: FullJournal, random: Random, choice: int) -> None:
    line = random.choice(LINES)
    some = _some(full, random, line)
    if choice == 39:
        full.remove_line(line)
    elif some is not None and choice < 36:
        full.remove(line, some)
    elif some is not None:
        full.note(line, some, random.randrange(1, 9))


def _some(full: FullJournal, random: Random, line: Destination) -> int | None:
    messages = full.state.lines.get(line.qualified_name)
    return random.choice(list(messages)) if messages else None


def _metadata(random: Random) -> MetadataRecord:
    value = None if random.random() < 0.3 else random.randbytes(random.choice((0, 5, 300)))
    return MetadataRecord(random.choice(TABLES), b"key %d" % random.randrange(5), value)
