"""What a journal should hold, kept in plain dicts beside it, and a seeded workload for both."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import Transfer
from spanwire.broker.persistence.stored_sums import StoredSums
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ledger import (
    ACKNOWLEDGED,
    ARRIVED,
    CLIENT,
    DEAD_LETTERED,
    DEATH,
    EXPIRED,
    FIRST_LINK,
    FORWARDED,
    LINK_SHIFT,
    MOVED_OUT,
    OPERATOR,
    OTHER_LINKS,
    PURGED,
    term_of,
    way_over,
)  # fmt: skip
from spanwire.model.ledger import NAMES as NAMES_OF_TERMS
from spanwire.model.message import Message
from spanwire.stores.journal.journal import Journal
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver, State
from tests.support.plain_format import plain_message

NAMES = ("A", "B.C", "D")
SIZES = (0, 1, 10, 200, 900, 1500)


LEDGER = -1  # the table of facts that has the sums of the ledger
WAYS = (ACKNOWLEDGED, EXPIRED, way_over(2), DEAD_LETTERED, PURGED, way_over(OTHER_LINKS))
ORIGINS = (CLIENT, CLIENT, FIRST_LINK, OTHER_LINKS, OPERATOR, DEATH)

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

    # The ledger

    counts_exactly = True  # False where a crash may leave what no single call left

    def came(self, name: str, origin: int, count: int = 1) -> None:
        """Messages have come to a line."""
        self._count(name, 0, term_of(origin), count)
        if term_of(origin) == ARRIVED:
            self._count(name, origin, ARRIVED, count)

    def went(self, name: str, way: int, count: int = 1) -> None:
        """Messages have left a line."""
        self._count(name, 0, way & 0xFF, count)
        if way & 0xFF == FORWARDED:
            self._count(name, way >> LINK_SHIFT, FORWARDED, count)

    def _count(self, name: str, link: int, term: int, count: int) -> None:
        if not self.counts_exactly:
            return
        table = self.metadata.setdefault(LEDGER, {})
        key = f"{name} {link} {NAMES_OF_TERMS[term]}".encode()
        table[key] = b"%d" % (int(table.get(key, b"0")) + count)

    def _closed(self, name: str) -> None:
        """A line is removed: its sums go to those of all removed lines."""
        for key, count in list(self.metadata.get(LEDGER, {}).items()):
            line, link, term = key.decode().rsplit(" ", 2)
            if line == name:
                del self.metadata[LEDGER][key]
                self._count("", int(link), NAMES_OF_TERMS.index(term), int(count))

    def facts(self) -> Facts:
        """What the journal knows beside its messages: metadata, and its ledger, which has to balance."""
        facts = deepcopy(self.driver.metadata)
        if self.counts_exactly:
            ledger = ledger_facts(stored_sums(self.driver.store))
            if ledger:
                facts[LEDGER] = ledger
        return facts

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
        origin = ORIGINS[self.number % len(ORIGINS)]
        plain = plain_message(destination, self.number, b"%d" % (self.number % 10) * size)
        message = Message(
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
        message.origin = origin
        return message

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
        way = WAYS[sequence % len(WAYS)]
        self.driver.store.remove(destination, sequence, way)
        self._gone(destination, sequence, way)
        self._called()

    def _gone(self, destination: Destination, sequence: int, way: int) -> None:
        if self.state.get(destination.qualified_name, {}).pop(sequence, None) is not None:
            self.went(destination.qualified_name, way)

    def remove_all(self, name: str, sequences: list[int]) -> None:
        destination = Destination(QUEUE, name)
        way = WAYS[len(sequences) % len(WAYS)]
        self.driver.store.remove_all(destination, sequences, way)
        for sequence in sequences:
            self._gone(destination, sequence, way)
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
        way = WAYS[len(removals) % len(WAYS)]
        sequences = self.driver.store.append_unit(messages, removed, metadata or [], way)
        for (destination, message), sequence in zip(messages, sequences, strict=True):
            self._took(destination, sequence, message)
        for destination, sequence in removed:
            self._gone(destination, sequence, way)
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
            self._gone(destination, sequence, ACKNOWLEDGED)
        for metadata_record in metadata:
            self._put(metadata_record)
        self._called()
        return found

    def _transferred(self, source: str, sequences: list[int], target: str, first: int) -> list[int]:
        here, there = Destination(QUEUE, source), Destination(QUEUE, target)
        kept = self.state.get(here.qualified_name, {})  # nothing makes a source
        found: list[int] = []
        moved = self.state.setdefault(there.qualified_name, {})
        for place, sequence in enumerate(sequences):
            if sequence in kept:
                raw, _ = kept.pop(sequence)
                self.went(here.qualified_name, MOVED_OUT)
                self.came(there.qualified_name, CLIENT)
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
        left = self.state.pop(destination.qualified_name, None)
        if left:
            self.went(destination.qualified_name, PURGED, len(left))
        self._closed(destination.qualified_name)
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
        assert self.facts() == self.metadata
        self._begin()
        assert self.driver.clean

    def after(self, disk: SimulatedDisk) -> None:
        """Start again on what a power cut left, and check it."""
        self.driver = JournalDriver(disk)
        found = self.driver.state()
        assert found in self.allowed
        assert (found, self.facts()) in list(zip(self.allowed, self.allowed_facts, strict=True))
        self.state = found
        self.metadata = self.facts()
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
        check_balance(stored_sums(self.driver.store))

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
        self.came(name, message.origin)

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


def stored_sums(store: Journal) -> dict[str, StoredSums]:
    """The ledger of each line, and under no name that of all removed ones."""
    entries: dict[str, StoredSums] = {}
    for destination in store.counted():
        entry = store.sums(destination)
        if entry is not None:
            entries[destination.qualified_name] = entry
    removed = store.sums(None)
    assert removed is not None
    over: dict[int, list[int]] = {}
    for entry in [*entries.values(), removed]:
        for link, counts in (entry.sums.over or {}).items():
            known = over.setdefault(link, [0] * len(counts))
            over[link] = [one + other for one, other in zip(known, counts, strict=True)]
    by_link = store.link_sums().over or {}
    is_whole = len(entries) == len(store.counted())  # else a removal waits for its batch
    assert not is_whole or {link: counts for link, counts in over.items() if any(counts)} == {
        link: counts for link, counts in by_link.items() if any(counts)
    }
    return {**entries, "": removed}


def ledger_facts(entries: dict[str, StoredSums]) -> dict[bytes, bytes]:
    """The sums of a journal that are above zero, each under a line of words."""
    facts: dict[bytes, bytes] = {}
    for name, entry in entries.items():
        over = entry.sums.over or {}
        for link, counts in [(0, entry.sums.counts), *over.items()]:
            for term, count in enumerate(counts):
                if count:
                    facts[f"{name} {link} {NAMES_OF_TERMS[term]}".encode()] = b"%d" % count
    return facts


def check_balance(entries: dict[str, StoredSums]) -> None:
    """Each equation holds, and each sum that links share is the sum of theirs."""
    for name, entry in entries.items():
        counts = entry.sums.counts
        assert entry.sums.balance() == entry.pending, f"{name}: {counts}, {entry.pending} pending"
        for term in (ARRIVED, FORWARDED):
            assert counts[term] == sum(each[term] for each in (entry.sums.over or {}).values())


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
