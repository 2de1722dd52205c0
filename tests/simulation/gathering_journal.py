"""A journal whose batches are encoded in slices of a few records while another one is under way, and its states."""

from __future__ import annotations

from copy import deepcopy
from random import Random

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.stores.journal.batch import Batch
from tests.simulation.disk import SimulatedDisk
from tests.support.journal_driver import JournalDriver, State
from tests.support.journal_model import CheckedJournal, Facts, check_balance, stored_sums, work_on_all

SLICE_BYTES = 600
SLICE_RECORDS = 3


class GatheringJournal(CheckedJournal):
    """`write_one` hands a batch over or, when one is under way, ends it. ``gathered`` counts slices, ``cut`` those that
    end in a call. A removal may be written before what was sent earlier, so of the ledger only the balance is certain
    after a crash.
    """

    counts_exactly = False

    def __init__(self, disk: SimulatedDisk | None = None) -> None:
        super().__init__(disk)
        self.under_way: Batch | None = None
        self.gathered = 0
        self.cut = 0
        self.removed: set[tuple[str, int]] = set()
        self.taken: set[tuple[str, int]] = set()
        self._make_slices_small()

    def remove(self, name: str, sequence: int) -> None:
        self.removed.add((f"queue://{name}", sequence))
        super().remove(name, sequence)

    def remove_destination(self, name: str) -> None:
        self.removed.update((f"queue://{name}", sequence) for sequence in self.state.get(f"queue://{name}", {}))
        super().remove_destination(name)

    def unit(
        self,
        additions: list[tuple[str, int]],
        removals: list[tuple[str, int]],
        metadata: list[MetadataRecord] | None = None,
    ) -> list[int]:
        self.taken.update((f"queue://{name}", sequence) for name, sequence in removals)
        return super().unit(additions, removals, metadata)

    def gathered_unit(self, name: str, count: int, random: Random) -> None:
        """A unit in one line, of which nobody asks anything before it is on the disk."""
        unit = StoreUnit()
        destination = Destination(QUEUE, name)
        messages = [self.message(destination, 90) for _ in range(count)]
        for message in messages:
            unit.add(destination, message)
        here = list(self.state.get(f"queue://{name}", {}))
        removed = random.sample(here, min(len(here), random.randrange(6)))
        for sequence in removed:
            unit.remove(destination, sequence)
            self.taken.add((f"queue://{name}", sequence))
        self.driver.store.append_gathered(unit, [])
        for place, message in enumerate(messages):
            self._took(destination, unit.targets()[0].first + place, message)
        for sequence in removed:
            self._gone(destination, sequence, ACKNOWLEDGED)
        self._called()
        self._write_all()

    def _write_all(self) -> None:
        position = self.driver.store.position()
        while self.driver.stored < position:
            self.gather()
            self.write_one()

    def gathered_transfer(self, source: str, target: str) -> None:
        """All of one line goes to another, and nobody asks for it before it is on the disk."""
        sequences = list(self.state.get(f"queue://{source}", {}))
        self.taken.update((f"queue://{source}", sequence) for sequence in sequences)
        unit = StoreUnit()
        moved = unit.transfer(Destination(QUEUE, source), Destination(QUEUE, target))
        moved.add(sorted(sequences))
        self.driver.store.append_gathered(unit, [])
        self._transferred(source, sorted(sequences), target, moved.first)
        self._called()
        self._write_all()

    def transfer(
        self,
        source: str,
        sequences: list[int],
        target: str,
        removals: list[tuple[str, int]],
        metadata: list[MetadataRecord],
    ) -> list[int]:
        self.taken.update((f"queue://{source}", sequence) for sequence in sequences)
        self.taken.update((f"queue://{name}", sequence) for name, sequence in removals)
        return super().transfer(source, sequences, target, removals, metadata)

    def is_allowed(self, found: State, metadata: Facts) -> bool:
        """Whether a crash may leave this. What was removed before its write may be gone before what was sent later, and
        of what a later unit takes the redelivery count is not written any more.
        """
        allowed = [self._left(state) for state in self.allowed]
        return (self._left(found), metadata) in list(zip(allowed, self.allowed_facts, strict=True))

    def _left(self, state: State) -> State:
        """The lines that hold messages, without those that were removed."""
        left: State = {}
        for name, messages in state.items():
            kept = {
                key: (raw, 0 if (name, key) in self.taken else count)
                for key, (raw, count) in messages.items()
                if (name, key) not in self.removed
            }
            if kept:
                left[name] = kept
        return left

    def write_one(self) -> None:
        batch = self.under_way
        if batch is None:
            self.under_way = self.driver.store.next_batch()
            return
        self.under_way = None
        self.allowed = [self._state_at(self.driver.stored), self._state_at(batch.position)]
        self.allowed_facts = [self._facts_at(self.driver.stored), self._facts_at(batch.position)]
        self.driver.end_one(batch)
        self._stored()

    def write_one_and_read(self) -> None:
        self.write_one()
        self.gather()
        self.check()

    def gather(self) -> None:
        """One slice of the next batch, if there is one."""
        self.gathered += self.driver.store.gather()
        self.cut += self.driver.store._next.is_cut

    def reopen(self) -> None:
        while self.under_way is not None or self.driver.store.has_work:
            self.write_one()
        super().reopen()

    def crash(self, random: Random) -> None:
        self.allowed = [self._state_at(self.driver.stored)]
        self.allowed_facts = [self._facts_at(self.driver.stored)]
        self.after(self.driver.disk.power_cut(random))

    def after(self, disk: SimulatedDisk) -> None:
        self.driver = JournalDriver(disk)
        found = self.driver.state()
        assert self.is_allowed(found, self.driver.metadata)
        check_balance(stored_sums(self.driver.store))
        self.state = found
        self.metadata = deepcopy(self.driver.metadata)
        self._check_traits()
        self._begin()

    def _begin(self) -> None:
        super()._begin()
        self.under_way = None
        self._make_slices_small()

    def _make_slices_small(self) -> None:
        self.driver.store._outbox.slice_bytes = SLICE_BYTES
        self.driver.store._outbox.slice_records = SLICE_RECORDS

    def _stored(self) -> None:
        first = max(position for position in self.snapshots if position <= self.driver.stored)
        self.snapshots = {position: state for position, state in self.snapshots.items() if position >= first}
        self.fact_snapshots = {
            position: metadata for position, metadata in self.fact_snapshots.items() if position >= first
        }
        self.allowed = [self.snapshots[first]]
        self.allowed_facts = [self.fact_snapshots[first]]

    def _state_at(self, position: int) -> State:
        """The last known state up to ``position``: a line that is begun then is not in it."""
        return self.snapshots[max(known for known in self.snapshots if known <= position)]

    def _facts_at(self, position: int) -> Facts:
        return self.fact_snapshots[max(known for known in self.fact_snapshots if known <= position)]


def gather_and_work(checked: GatheringJournal, random: Random, calls: int) -> None:
    """A mixed load with slices, and now and then a unit that is larger than a slice."""
    for _ in range(calls):
        choice = random.randrange(10)
        if choice < 3:
            checked.gather()
        elif choice == 3:
            checked.unit([(random.choice("AD"), 90) for _ in range(random.randrange(12))], [])
        elif choice == 4:
            checked.write_one()
        elif choice == 5:
            checked.gathered_unit(random.choice("AD"), random.randrange(1, 12), random)
        elif choice == 6:
            checked.gathered_transfer(random.choice("AD"), random.choice("AD"))
        else:
            work_on_all(checked, random, 1)
