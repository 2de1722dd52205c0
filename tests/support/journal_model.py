"""What a journal should hold, kept in plain dicts beside it, and a seeded workload for both."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.message import Message
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver, State
from tests.support.plain_format import plain_message

NAMES = ("A", "B.C", "D")
SIZES = (0, 1, 10, 200, 900, 1500)


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
        self.number = 0

    # Calls

    def append(self, name: str, size: int) -> int:
        destination = Destination(QUEUE, name)
        message = self.message(destination, size)
        sequence = self.driver.store.append(destination, message)
        self._took(destination, sequence, message)
        self._called()
        return sequence

    def message(self, destination: Destination, size: int) -> Message:
        self.number += 1
        return plain_message(destination, self.number, b"%d" % (self.number % 10) * size)

    def remove(self, name: str, sequence: int) -> None:
        destination = Destination(QUEUE, name)
        self.driver.store.remove(destination, sequence)
        self.state.get(destination.qualified_name, {}).pop(sequence, None)
        self._called()

    def unit(self, additions: list[tuple[str, int]], removals: list[tuple[str, int]]) -> list[int]:
        added = [(Destination(QUEUE, name), size) for name, size in additions]
        messages = [(destination, self.message(destination, size)) for destination, size in added]
        removed = [(Destination(QUEUE, name), sequence) for name, sequence in removals]
        sequences = self.driver.store.append_unit(messages, removed, [])
        for (destination, message), sequence in zip(messages, sequences, strict=True):
            self._took(destination, sequence, message)
        for destination, sequence in removed:
            self.state.get(destination.qualified_name, {}).pop(sequence, None)
        self._called()
        return sequences

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
        self.allowed = [self.snapshots[self.driver.stored], deepcopy(self.state)]
        self.driver.write_one()
        self._stored()

    def reopen(self) -> None:
        self.allowed = [self.snapshots[self.driver.stored], deepcopy(self.state)]
        self.driver.reopen()
        self._begin()
        assert self.driver.clean

    def after(self, disk: SimulatedDisk) -> None:
        """Start again on what a power cut left, and check it."""
        self.driver = JournalDriver(disk)
        found = self.driver.state()
        assert found in self.allowed
        self.state = found
        self._begin()

    def crash(self, random: Random) -> None:
        """Cut the power now."""
        self.allowed = [self.snapshots[self.driver.stored]]
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

    def _took(self, destination: Destination, sequence: int, message: Message) -> None:
        name = destination.qualified_name
        assert sequence > self.used.get(name, 0), "a sequence was used again"
        self.used[name] = sequence
        self.state.setdefault(name, {})[sequence] = (message.encoded(), 0)

    def _called(self) -> None:
        self.snapshots[self.driver.store.position()] = deepcopy(self.state)

    def _stored(self) -> None:
        stored = self.driver.stored
        self.snapshots = {position: state for position, state in self.snapshots.items() if position >= stored}
        self.allowed = [self.snapshots[stored]]

    def _begin(self) -> None:
        self.snapshots = {0: deepcopy(self.state)}
        self.allowed = [self.snapshots[0]]


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
