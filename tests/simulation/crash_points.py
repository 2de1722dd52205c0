"""Every crash that a run of the journal allows: at each call to the disk, with each fate of what was not synced.

A `WatchedDisk` looks at itself whenever the journal is about to change something. At that moment it holds a prefix of
all writes, syncs, resizes, renames and deletions; of those not synced yet, up to `MAX_REORDERED` are taken away, or all
but so many: a sector of a write, a rename, a deletion, a new file's name. Each such disk is then recovered and compared
with what a store may hold at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from math import comb
from random import Random
from typing import Final

from spanwire.stores.journal.opening import open_journal
from tests.simulation.disk import PowerCutError, Risks, SimulatedDisk
from tests.simulation.full_journal import SMALL_SEGMENT, STORE_ID, FullJournal, full_state, work

MAX_REORDERED: Final = 3
RECOVERY_STEPS: Final = 20  # more calls than a recovery makes to the disk


class WatchedDisk(SimulatedDisk):
    """Calls ``before`` in front of every call that changes something."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] | None = None

    def write(self, name: str, offset: int, parts: list[bytes]) -> None:
        self._observe()
        super().write(name, offset, parts)

    def resize(self, name: str, size: int) -> None:
        self._observe()
        super().resize(name, size)

    def sync(self, name: str) -> None:
        self._observe()
        super().sync(name)

    def rename(self, name: str, new_name: str) -> None:
        self._observe()
        super().rename(name, new_name)

    def delete(self, name: str) -> None:
        self._observe()
        super().delete(name)

    def sync_directory(self) -> None:
        self._observe()
        super().sync_directory()

    def _observe(self) -> None:
        if self.before is not None:
            self.before()


def outcomes(count: int, random: Random, limit: int) -> Iterator[frozenset[int]]:
    """What may be missing of ``count`` things at risk: nothing, all, up to three, all but up to three.

    At most about ``limit`` of them, chosen by ``random`` where there are more.
    """
    everything = frozenset(range(count))
    yield everything
    if count == 0:
        return
    yield frozenset()
    sizes = range(1, min(MAX_REORDERED, count - 1) + 1)
    if 2 * sum(comb(count, size) for size in sizes) <= limit:
        for size in sizes:
            for some in combinations(range(count), size):
                yield frozenset(some)
                yield everything.difference(some)
        return
    for _ in range(limit // 2):
        some = tuple(random.sample(range(count), random.choice(sizes)))
        yield frozenset(some)
        yield everything.difference(some)


class CrashPoints:
    """Counts what was tried. ``each`` crashes at most at every moment; every ``deep``-th of them is lived through: the
    recovery crashes too, then the store is used, stopped in order and started again.
    """

    def __init__(self, full: FullJournal, seed: int, each: int, deep: int) -> None:
        self.full: Final = full
        self.moments = 0
        self.crashes = 0
        self.lives = 0
        self._random: Final = Random(seed)
        self._each: Final = each
        self._deep: Final = deep

    def look(self) -> None:
        """Try the crashes of this moment."""
        self.moments += 1
        risks = self.full.disk.risks()
        for missing in outcomes(len(risks), self._random, self._each):
            self.crashes += 1
            self._try(risks, missing)

    def _try(self, risks: Risks, missing: frozenset[int]) -> None:
        found = full_state(risks.without(missing))
        if found not in self.full.allowed:
            raise AssertionError(
                f"moment {self.moments}: wrong state when {sorted(missing)} of {len(risks)} is missing"
            )
        if self.crashes % self._deep:
            return
        self.lives += 1
        again = risks.without(missing)
        again.cut_at = self._random.randrange(RECOVERY_STEPS)
        try:
            open_journal(again, STORE_ID, SMALL_SEGMENT)
        except PowerCutError:
            again = again.power_cut(self._random)
            if full_state(again) != found:
                raise AssertionError(f"moment {self.moments}: another state after a crash of the recovery") from None
        self._live(risks.without(missing))

    def _live(self, disk: SimulatedDisk) -> None:
        """Crash, start, write, clean stop, start, verify."""
        later = self.full.fork(disk)
        work(later, self._random, 6)
        later.reopen()
        later.check()
        crashed = later.disk.power_cut(self._random)
        if full_state(crashed) not in later.allowed:
            raise AssertionError(f"moment {self.moments}: another state after a second crash")


def explore(seed: int, calls: int, each: int, deep: int, lies: str = "") -> CrashPoints:
    """A mixed load of ``calls`` calls with all its crashes; AssertionError for the first wrong one."""
    disk = WatchedDisk()
    full = FullJournal(disk)
    points = CrashPoints(full, seed, each, deep)
    disk.lies = lies
    disk.before = points.look
    work(full, Random(seed), calls)
    return points
