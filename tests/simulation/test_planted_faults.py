"""Faults built into the world on purpose: the count must find each of them, or it proves nothing about the broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from spanwire.broker.ports import Store
from spanwire.model.destination import Destination
from spanwire.model.errors import StoreError
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.recovery.recovery import Recovery
from tests.simulation.test_broker_crash import live
from tests.simulation.world import UnbalancedError, World

ENOUGH = 10  # seeds, of which at least one must show the fault
RARELY = 20  # one call in so many goes wrong


class FaultyStore:
    """A store that forgets one removal, or one message, in `RARELY`."""

    def __init__(self, journal: Journal, forgets: str) -> None:
        self._journal = journal
        self._forgets = forgets
        self._calls = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def append(self, destination: Destination, message: Message) -> int:
        sequence = self._journal.append(destination, message)
        if self._goes_wrong("append"):
            self._journal.remove(destination, sequence)
        return sequence

    def remove(self, destination: Destination, sequence: int, way: int = ACKNOWLEDGED) -> None:
        if not self._goes_wrong("remove"):
            self._journal.remove(destination, sequence, way)

    def remove_all(self, destination: Destination, sequences: list[int], way: int = ACKNOWLEDGED) -> None:
        self._journal.remove_all(destination, [one for one in sequences if not self._goes_wrong("remove")], way)

    def _goes_wrong(self, what: str) -> bool:
        self._calls += what == self._forgets
        return what == self._forgets and self._calls % RARELY == RARELY // 2


class LosingWorld(World):
    """One message in `RARELY` is not stored."""

    def store_of(self, journal: Journal) -> Store:
        return cast(Store, FaultyStore(journal, "append"))


class RepeatingWorld(World):
    """One removal in `RARELY` is not stored: what was acknowledged comes again after a restart."""

    def store_of(self, journal: Journal) -> Store:
        return cast(Store, FaultyStore(journal, "remove"))


class ForgetfulWorld(World):
    """After a crash the broker believes that the last stop was in order."""

    def was_clean(self, recovery: Recovery) -> bool:
        return True


class HastyWorld(World):
    """A batch is reported as stored before it is written."""

    def _store_turn(self) -> None:
        if self._batch is not None:
            self.broker.stored(self._batch.position, self.now)
        super()._store_turn()


class LyingWorld(World):
    """The drive says "synced" and keeps everything in its cache."""

    def _open(self) -> None:
        super()._open()
        self.disk.lies = "sync"


class TrustingWorld(World):
    """The writer does not look at how many bytes of a write were taken."""

    def _open(self) -> None:
        self.disk.trusts = True
        super()._open()


@pytest.mark.large
@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        (LosingWorld, "lost"),
        (RepeatingWorld, "doubled"),
        (ForgetfulWorld, "unflagged"),
        (HastyWorld, "early"),
        (LyingWorld, "refused"),
        (TrustingWorld, "refused"),
    ],
)
def test_a_planted_fault_is_found(kind: type[World], fault: str) -> None:
    assert fault in faults_of(kind, audits=False)


@pytest.mark.large
def test_the_ledger_of_the_broker_is_a_second_witness() -> None:
    assert "unbalanced" in faults_of(RepeatingWorld, audits=True)


def faults_of(kind: type[World], audits: bool) -> set[str]:
    """What was found in some worlds, by the checker alone or with the broker's own ledger."""
    found: set[str] = set()
    for seed in range(ENOUGH):
        world = kind(seed)
        world.audits = audits
        try:
            _, verdict = live(world)
        except StoreError:
            found.add("refused")
        except UnbalancedError:
            found.add("unbalanced")
        except AssertionError:
            found.add("inconsistent")
        else:
            found.update(verdict.faults)
    return found


def test_without_a_planted_fault_none_is_found() -> None:
    worlds = [live(World(seed)) for seed in range(ENOUGH)]
    assert all(verdict.ok for _, verdict in worlds)
    assert sum(world.short_writes for world, _ in worlds) >= ENOUGH
