"""A journal whose disk fills up and empties at random, under all kinds of calls, killed now and then.

Calls overtake each other while there is no room, so the checks are those that a client can make: what was answered is
there, what was answered as removed is not, a unit counts whole or not at all, and with room everything is as it should.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ResourceAllocationError
from spanwire.model.message import Message
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

SEGMENT = 8192
QUEUES = [Destination(QUEUE, name) for name in "ABC"]
Key = tuple[str, int]


@dataclass
class Unit:
    """What one unit added and removed."""

    position: int
    added: list[Key]
    removed: list[Key]


@dataclass
class World:
    """A journal and what was asked of it: positions of additions, of removals, and the values of facts by age."""

    random: Random
    driver: JournalDriver = field(default_factory=lambda: JournalDriver(segment_bytes=SEGMENT))
    added: dict[Key, int] = field(default_factory=dict)
    removed: dict[Key, int] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    metadata: dict[bytes, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    number: int = 0
    was_full: int = 0

    def __post_init__(self) -> None:
        self.driver.store.space_changed(0, True)
        self.driver.store._outbox.slice_records = self.random.choice((1, 2, 3, 8, 4096))
        self.driver.store._outbox.slice_bytes = self.random.choice((500, 3000, 1 << 22))

    def call(self) -> None:
        store = self.driver.store
        choice = self.random.randrange(12)
        queue = self.random.choice(QUEUES)
        if choice < 5:
            self._add(queue, store.append(queue, self._message(queue)))
        elif choice < 8:
            self._remove(self._some_key())
        elif choice == 8:
            self._unit()
        elif choice == 9:
            key, value = b"k%d" % self.random.randrange(3), self.random.choice((None, b"v%d" % self.number))
            if value is None:
                store.discard_metadata(1, key)
            else:
                store.put_metadata(1, key, value)
            self.metadata.setdefault(key, []).append((store.position(), value))
        elif choice == 10 and store.has_room():
            sequences = store.append_shared(QUEUES[:2], self._message(queue))
            self.units.append(
                Unit(store.position(), [(q.name, s) for q, s in zip(QUEUES, sequences, strict=False)], [])
            )
            for shared, sequence in zip(QUEUES, sequences, strict=False):
                self._add(shared, sequence)
        else:
            self._note()

    def disk_turn(self) -> None:
        """The disk's owner tells something, or a batch is written."""
        store = self.driver.store
        choice = self.random.randrange(10)
        if choice == 0:
            store.space_changed(0, False)
            self.was_full += 1
        elif choice == 2:
            store.gather()
        elif choice == 3 and not store.has_room():
            store.space_changed(SEGMENT // 2, False)  # a part of the reserve, for what is late
        elif choice == 1 or (store.waits_for_space and choice < 6 and store.has_room()):
            store.space_changed(max(SEGMENT, store.wanted_spare), True)
        else:
            self.driver.write_one()

    def settle(self) -> None:
        """Room, and everything is written."""
        store = self.driver.store
        while store.has_unwritten or store.has_work:
            store.space_changed(max(SEGMENT, store.wanted_spare), True)
            self.driver.turn()

    def killed(self) -> None:
        """What a start finds that comes now."""
        copy = JournalDriver(SimulatedDisk.holding(self.driver.disk.contents()), SEGMENT)
        found = {(line.destination.name, number) for line in copy.recovered for number in line.sequences}
        stored = self.driver.stored
        assert found <= set(self.added)
        for key, position in self.added.items():
            if position <= stored and key not in self.removed:
                assert key in found, f"{key} was answered and is lost"
        for key, position in self.removed.items():
            assert position > stored or key not in found, f"{key} was removed and is back"
        for unit in self.units:
            kept = {key in found for key in unit.added if key not in self.removed}
            assert len(kept) < 2, "half a unit"
            if kept == {False}:
                assert all(key in found for key in unit.removed if self.added[key] <= stored)
        for name, history in self.metadata.items():
            old = [value for position, value in history if position <= stored][-1:] or [None]
            allowed = old + [value for position, value in history if position > stored]
            assert copy.metadata.get(1, {}).get(name, None) in allowed

    def ended(self) -> None:
        """Everything is as it should be."""
        self.settle()
        assert self.driver.stored == self.driver.store.position()
        self.driver.reopen()
        found = {(line.destination.name, number) for line in self.driver.recovered for number in line.sequences}
        assert found == set(self.added) - set(self.removed)
        values = {name: history[-1][1] for name, history in self.metadata.items()}
        assert self.driver.metadata.get(1, {}) == {name: value for name, value in values.items() if value is not None}

    def _message(self, queue: Destination) -> Message:
        self.number += 1
        return plain_message(queue, self.number, b"x" * self.random.choice((0, 50, 700, 2500)))

    def _add(self, queue: Destination, sequence: int) -> None:
        self.added[(queue.name, sequence)] = self.driver.store.position()

    def _some_key(self) -> Key | None:
        alive = [key for key in self.added if key not in self.removed]
        return self.random.choice(alive) if alive else None

    def _remove(self, key: Key | None) -> None:
        if key is not None:
            self.driver.store.remove(Destination(QUEUE, key[0]), key[1])
            self.removed[key] = self.driver.store.position()

    def _unit(self) -> None:
        store = self.driver.store
        queue = self.random.choice(QUEUES)
        key = self._some_key()
        metadata_record = MetadataRecord(1, b"k1", b"u%d" % self.number)
        removals = [] if key is None else [(Destination(QUEUE, key[0]), key[1])]
        additions = [(queue, self._message(queue)) for _ in range(self.random.randrange(3))]
        if additions and not store.has_room():
            with pytest.raises(ResourceAllocationError):
                store.append_unit(additions, removals, [metadata_record])
            return
        sequences = self._stored_unit(additions, removals, metadata_record)
        position = store.position()
        self.metadata.setdefault(metadata_record.key, []).append((position, metadata_record.value))
        for sequence in sequences:
            self._add(queue, sequence)
        if key is not None:
            self.removed[key] = position
        self.units.append(Unit(position, [(queue.name, number) for number in sequences], [] if key is None else [key]))

    def _stored_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata_record: MetadataRecord,
    ) -> list[int]:
        """The sequences of a unit, gathered or not. A gathered one is written before its messages are used."""
        store = self.driver.store
        if self.number % 3 or not additions:
            return store.append_unit(additions, removals, [metadata_record])
        unit = StoreUnit()
        for queue, message in additions:
            line = unit.add(queue, message)
        for queue, sequence in removals:
            unit.remove(queue, sequence)
        unit.add_metadata(metadata_record)
        store.append_gathered(unit, [])
        self.settle()
        return list(range(line.first, line.first + line.count))

    def _note(self) -> None:
        key = self._some_key()
        if key is not None:
            self.driver.store.note_redelivery(Destination(QUEUE, key[0]), key[1], self.number)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(100))
def test_a_disk_that_fills_up_and_empties_loses_nothing_and_gives_nothing_back(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    for _ in range(150):
        world.call()
        for _ in range(random.randrange(3)):
            world.disk_turn()
        if random.random() < 0.1:
            world.killed()
    world.killed()
    assert world.was_full > 2
    world.ended()
