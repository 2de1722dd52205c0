"""The world of `tests.simulation.world` on a disk that fills up and has room again, with power cuts in both states."""

from __future__ import annotations

from typing import Any, cast

import pytest

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.ports import Store
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message
from spanwire.stores.journal.journal import Journal
from tests.simulation.test_broker_crash import live
from tests.simulation.world import SEGMENT_BYTES, World

SEEDS = 60
ENOUGH = 40  # seeds, of which at least one must show a planted fault


class FullDiskWorld(World):
    """Room comes and goes; at rest it is there. ``was_full`` counts how often it went."""

    was_full = 0

    def _open(self) -> None:
        super()._open()
        self.journal.space_changed(2 * SEGMENT_BYTES, True)

    def _store_turn(self) -> None:
        journal = self.journal
        if self.calm or self.chance(0.1 if journal.has_room() else 0.05):
            room = self.calm or not journal.has_room()
            self.was_full += not room
            if journal.space_changed(max(2 * SEGMENT_BYTES, journal.wanted_spare) if room else 0, room):
                self.broker.room_changed(self.now)
        elif journal.has_room() and journal.wanted_spare:
            journal.space_changed(journal.wanted_spare, True)
        super()._store_turn()

    def _is_idle(self) -> bool:
        """Whether nothing is under way: a journal that waits for room has written too little to be compared."""
        return super()._is_idle() and not self.journal.wanted_spare


class SplitStore:
    """Does additions and removals one by one: what replaces a message is not kept together with its removal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def has_room(self) -> bool:
        return True

    def append_unit(
        self,
        additions: list[tuple[Destination, Message]],
        removals: list[tuple[Destination, int]],
        metadata: list[MetadataRecord],
        way: int = ACKNOWLEDGED,
    ) -> list[int]:
        sequences = [self._journal.append(destination, message) for destination, message in additions]
        for destination, sequence in removals:
            self._journal.remove(destination, sequence)
        return sequences


class SplittingWorld(FullDiskWorld):
    """A dead letter waits for room, the removal of its original does not."""

    def store_of(self, journal: Journal) -> Store:
        return cast(Store, SplitStore(journal))


@pytest.mark.large
@pytest.mark.parametrize("seed", range(SEEDS))
def test_on_a_disk_that_fills_up_nothing_is_lost_doubled_or_stuck(seed: int) -> None:
    world, verdict = live(FullDiskWorld(seed))
    assert verdict.ok, verdict
    assert isinstance(world, FullDiskWorld) and world.was_full


@pytest.mark.large
def test_a_dead_letter_that_waits_while_its_original_is_removed_is_found_missing() -> None:
    found: set[str] = set()
    for seed in range(ENOUGH):
        found.update(live(SplittingWorld(seed))[1].faults)
    assert "lost" in found
