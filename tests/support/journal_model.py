"""What a journal should hold, kept in plain dicts beside it, and a seeded workload for both."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import Transfer
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message import Message
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver, State
from tests.support.plain_format import plain_message

NAMES = ("A", "B.C", "D")
SIZES = (0, 1, 10, 200, 900, 1500)


Facts = dict[int, dict[bytes, bytes]]


class CheckedJournal:
    """A journal, the state it should have, and the states it had when each position was reached.

    After a power cut it must have the state of the last position that it reported as stored, or that of the batch which
    was under way.
    """

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        self.driver = JournalDriver(disk)
        self.state: State = {}
        self.snapshots: dict[int, State] = {0: {}}
        self.allowed: list[State] = [{}]
        self.used: dict[str, int] = {}
        self.metadata: Facts = {}
        self.fact_snapshots: dict[int, Facts] = {0: {}}
        self.allowed_facts: list[Facts] = [{}]
        self.traits: dict[tuple[str, int], tuple[int, int]] = {}  # (priority, expiration) of what was ever appended
        self.number = 0

    # Calls

    def append(self, name: str, size: int, priority: int = 4, expiration_ms: int = 0) -> int:
        destination = Destination(QUEUE, name)
        message = self.message(destination, size, priority, expiration_ms)
        sequence = self.driver.store.append(destination, message)
        self._took(destination, sequence, message)
        self._called()
        return sequence

    def append_shared(self, names: list[str], size: int, priority: int = 4, expiration_ms: int = 0) -> list[int]:
        """One message in several queues, and not in the same twice."""
        destinations = [Destination(QUEUE, name) for name in dict.fromkeys(names)]
        message = self.message(Destination(QUEUE, "SHARED"), size, priority, expiration_ms)
        sequences = self.driver.store.append_shared(destinations, message)
        for destination, sequence in zip(destinations, sequences, strict=True):
            self._took(destination, sequence, message)
        self._called()
        return sequences

    def message(self, destination: Destination, size: int, priority: int = 4, expiration_ms: int = 0) -> Message:
        self.number += 1
        plain = plain_message(destination, self.number, b"%d" % (self.number % 10) * size)
        return Message(
            plain.format_id,
            plain.raw,
            plain.content_start,
            plain.properties_start,
            plain.tail_start,
            plain.destination,
            plain.producer_id,
            plain.sequence,
            True,
            priority,
            expiration_ms,
            0,
        )

    def put_metadata(self, table: int, key: bytes, value: bytes) -> None:
        self.driver.store.put_metadata(table, key, value)
        self._put(MetadataRecord(table, key, value))
        self._called()

    def discard_metadata(self, table: int, key: bytes) -> None:
        self.driver.store.discard_metadata(table, key)
        self._put(MetadataRecord(table, key, None))
        self._called()

    def remove(self, name: str, sequence: int) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.remove(destination, sequence)
        self.state.get(destination.qualified_name, {}).pop(sequence, None)
        self._called()

    def remove_all(self, name: str, sequences: list[int]) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.remove_all(destination, sequences)
        for sequence in sequences:
            self.state.get(destination.qualified_name, {}).pop(sequence, None)
        self._called()

    def unit(
        self,
        additions: list[tuple[str, int]],
        removals: list[tuple[str, int]],
        metadata: list[MetadataRecord] | None = None,
    ) -> list[int]:
        added = [(Destination(QUEUE, name), size) for name, size in additions]
        messages = [(destination, self.message(destination, size)) for destination, size in added]
        removed = [(Destination(QUEUE, name), sequence) for name, sequence in removals]
        sequences = self.driver.store.append_unit(messages, removed, metadata or [])
        for (destination, message), sequence in zip(messages, sequences, strict=True):
            self._took(destination, sequence, message)
        for destination, sequence in removed:
            self.state.get(destination.qualified_name, {}).pop(sequence, None)
        for metadata_record in metadata or []:
            self._put(metadata_record)
        self._called()
        return sequences

    def transfer(
        self,
        source: str,
        sequences: list[int],
        target: str,
        removals: list[tuple[str, int]],
        metadata: list[MetadataRecord],
    ) -> list[int]:
        """Some of one queue, each once, become messages of another; gives those that were there, under new names."""
        sequences = list(dict.fromkeys(sequences))
        here, there = Destination(QUEUE, source), Destination(QUEUE, target)
        removed = [(Destination(QUEUE, name), sequence) for name, sequence in removals]
        (first,) = self.driver.store.transfer_unit([Transfer(here, sequences, there)], removed, metadata)
        found = self._transferred(source, sequences, target, first)
        for destination, sequence in removed:
            self.state.get(destination.qualified_name, {}).pop(sequence, None)
        for metadata_record in metadata:
            self._put(metadata_record)
        self._called()
        return found

    def _transferred(self, source: str, sequences: list[int], target: str, first: int) -> list[int]:
        here, there = Destination(QUEUE, source), Destination(QUEUE, target)
        kept = self.state.setdefault(here.qualified_name, {})
        found: list[int] = []
        moved = self.state.setdefault(there.qualified_name, {})
        for place, sequence in enumerate(sequences):
            if sequence in kept:
                raw, _ = kept.pop(sequence)
                assert first + place > self.used.get(there.qualified_name, 0), "a sequence was used again"
                self.used[there.qualified_name] = first + place
                self.traits[there.qualified_name, first + place] = self.traits[here.qualified_name, sequence]
                moved[first + place] = (raw, 0)
                found.append(first + place)
        return found

    def note(self, name: str, sequence: int, count: int) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.note_redelivery(destination, sequence, count)
        messages = self.state.get(destination.qualified_name, {})
        if sequence in messages:
            messages[sequence] = (messages[sequence][0], count)
        self._called()

    def add_destination(self, name: str) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.add_destination(destination)
        self.state.setdefault(destination.qualified_name, {})
        self._called()

    def remove_destination(self, name: str) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.remove_destination(destination)
        self.state.pop(destination.qualified_name, None)
        self._called()

    # Disk

    def write_one(self) -> None:
        """One batch: while it is under way, both the state before it and the one with it are right after a crash."""
        self._allow_both()
        self.driver.write_one()
        self._stored()

    def write_one_and_read(self) -> None:
        """One batch, and everything is read while it is under way."""
        self._allow_both()
        batch = self.driver.store.next_batch()
        self.check()
        if batch is not None:
            self.driver.end_one(batch)
        self._stored()

    def scan_one(self) -> bool:
        """One block for compaction, if it wants one."""
        return self.driver.scan_one()

    def reopen(self) -> None:
        self._allow_both()
        self.driver.reopen()
        self._check_traits()
        assert self.driver.metadata == self.metadata
        self._begin()
        assert self.driver.clean

    def after(self, disk: SimulatedDisk) -> None:
        """Start again on what a power cut left, and check it."""
        self.driver = JournalDriver(disk)
        found = self.driver.state()
        assert found in self.allowed
        assert (found, self.driver.metadata) in list(zip(self.allowed, self.allowed_facts, strict=True))
        self.state = found
        self.metadata = deepcopy(self.driver.metadata)
        self._check_traits()
        self._begin()

    def crash(self, random: Random) -> None:
        """Cut the power now."""
        self.allowed = [self.snapshots[self.driver.stored]]
        self.allowed_facts = [self.fact_snapshots[self.driver.stored]]
        self.after(self.driver.disk.power_cut(random))

    # Checks

    def check(self) -> None:
        """What the store gives back is what it should hold; nothing is asked of the disk's safety."""
        for name, messages in self.state.items():
            destination = Destination(QUEUE, name.removeprefix("queue://"))
            self.driver.store.fetch(1, destination, list(messages))
            self.driver.answer_fetches()
            found = [None if message is None else message.encoded() for message in self.driver.fetched.pop(1)]
            assert found == [raw for raw, _ in messages.values()]

    def _allow_both(self) -> None:
        self.allowed = [self.snapshots[self.driver.stored], deepcopy(self.state)]
        self.allowed_facts = [self.fact_snapshots[self.driver.stored], deepcopy(self.metadata)]

    def _check_traits(self) -> None:
        """Priorities and expirations come back with their messages."""
        for found in self.driver.recovered:
            name = found.destination.qualified_name
            traits = {sequence: self.traits[name, sequence] for sequence in found.sequences}
            assert found.priorities == {key: priority for key, (priority, _) in traits.items() if priority != 4}
            expiring = {key: expiration for key, (_, expiration) in traits.items() if expiration > 0}
            assert list(found.expirations.sequences) == list(expiring)
            assert list(found.expirations.wall_ms) == list(expiring.values())

    def _took(self, destination: Destination, sequence: int, message: Message) -> None:
        name = destination.qualified_name
        assert sequence > self.used.get(name, 0), "a sequence was used again"
        self.used[name] = sequence
        self.traits[name, sequence] = (message.priority, message.expiration_ms)
        self.state.setdefault(name, {})[sequence] = (message.encoded(), 0)

    def _put(self, metadata_record: MetadataRecord) -> None:
        table = self.metadata.setdefault(metadata_record.table, {})
        if metadata_record.value is None:
            table.pop(metadata_record.key, None)
        else:
            table[metadata_record.key] = metadata_record.value
        if not table:
            del self.metadata[metadata_record.table]

    def _called(self) -> None:
        position = self.driver.store.position()
        self.snapshots[position] = deepcopy(self.state)
        self.fact_snapshots[position] = deepcopy(self.metadata)

    def _stored(self) -> None:
        stored = self.driver.stored
        self.snapshots = {position: state for position, state in self.snapshots.items() if position >= stored}
        self.fact_snapshots = {
            position: metadata for position, metadata in self.fact_snapshots.items() if position >= stored
        }
        self.allowed = [self.snapshots[stored]]
        self.allowed_facts = [self.fact_snapshots[stored]]

    def _begin(self) -> None:
        self.snapshots = {0: deepcopy(self.state)}
        self.fact_snapshots = {0: deepcopy(self.metadata)}
        self.allowed = [self.snapshots[0]]
        self.allowed_facts = [self.fact_snapshots[0]]


def work(checked: CheckedJournal, random: Random, calls: int) -> None:
    """A mixed load of so many calls, with a write here and there and a clean stop now and then."""
    for _ in range(calls):
        name = random.choice(NAMES)
        messages = checked.state.get("queue://" + name, {})
        some = random.choice(list(messages)) if messages else 1
        choice = random.randrange(40)
        if choice < 14:
            checked.append(name, random.choice(SIZES))
        elif choice < 20:
            checked.remove(name, some)
        elif choice < 22:
            checked.remove(name, checked.append(name, 50))
        elif choice < 25:
            additions = [(random.choice(NAMES), random.choice(SIZES)) for _ in range(random.randrange(4))]
            checked.unit(additions, [(name, some)])
        elif choice < 28:
            checked.note(name, some, random.randrange(1, 9))
        elif choice == 28:
            checked.add_destination(name)
        elif choice == 29:
            checked.remove_destination(name)
        elif choice == 30:
            checked.reopen()
        else:
            checked.write_one()


def pass_on(checked: CheckedJournal, random: Random, name: str) -> None:
    """Some messages of a queue become those of another, in their order or in none."""
    messages = list(checked.state.get("queue://" + name, {}))
    some = random.sample(messages, random.randrange(len(messages) + 1))
    if random.randrange(2):
        some.sort()
    target = random.choice(NAMES)
    metadata_record = MetadataRecord(3, b"unit", random.choice((None, b"passed")))
    removals = [(name, random.choice(messages))] if messages else []
    for sequence in checked.transfer(name, some, target, removals, [metadata_record])[:1]:
        choice = random.randrange(6)
        if choice == 0:
            checked.remove(target, sequence)
        elif choice == 1:
            checked.note(target, sequence, 7)
        elif choice == 2:
            checked.transfer(target, [sequence], random.choice(NAMES), [(target, sequence)], [])
        elif choice == 3:
            checked.unit([(target, 30)], [(target, sequence)])


def work_on_all(checked: CheckedJournal, random: Random, calls: int) -> None:
    """As `work`, with facts, shared bodies, priorities, expirations and compaction, and one message of each queue that
    stays for long.
    """
    for _ in range(calls):
        name = random.choice(NAMES)
        choice = random.randrange(20)
        if choice < 4:
            work(checked, random, 1)
        elif choice < 6:
            checked.append_shared(random.choices(NAMES, k=3), random.choice(SIZES), random.randrange(10))
        elif choice < 8:
            checked.append(name, random.choice(SIZES), random.randrange(10), random.choice((0, 1 << 40)))
        elif choice == 8:
            checked.put_metadata(random.randrange(1, 4), b"%d" % random.randrange(6), bytes(random.randrange(300)))
        elif choice == 9:
            checked.discard_metadata(random.randrange(1, 4), b"%d" % random.randrange(6))
        elif choice == 10:
            metadata_record = MetadataRecord(3, b"unit", random.choice((None, b"", b"value")))
            checked.unit([(name, random.choice(SIZES))], [], [metadata_record])
        elif choice == 11:
            pass_on(checked, random, name)
        elif choice < 14:
            messages = list(checked.state.get("queue://" + name, {}))
            if len(messages) > 4:
                checked.remove(name, random.choice(messages[1:]))
        elif choice < 16:
            checked.scan_one()
        else:
            checked.write_one_and_read()
