"""Damage that disks and people do to store files, and the judgement on what a start makes of it.

Each `Sample` is a store that a seeded load left, cleanly stopped or not. `damaged` does one thing to it: flips bits,
zeroes a page, writes rubbish, misplaces a block, cuts a file short, swaps, loses, doubles or exchanges files. `judge`
starts on the result and reads every message back. It must be refused with one line and nothing changed, or be the same
store, or lack what was damaged and say so; wrong data or a silent gap raise `WrongDataError`.

One thing no reader can see: when the end of the newest file is gone or zero, the store looks like one that was never
written further. Such a result is accepted only for such damage, and must be a state which the store once had.
"""

from __future__ import annotations

from random import Random
from typing import Final

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import StoreError
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.opening import open_journal
from tests.simulation.disk import SimulatedDisk
from tests.simulation.full_journal import (
    SMALL_SEGMENT,
    DamagedMessageError,
    FullJournal,
    FullState,
    Opened,
    full_state,
    work,
)
from tests.support.plain_format import plain_message

PAGE_BYTES: Final = 512  # small segments have small pages
FOREIGN_ID: Final = b"some other store"
REFUSED, SAME, SHORTER, PUT_ASIDE = "refused", "same", "shorter", "put aside"


class WrongDataError(AssertionError):
    """A start on damaged files gave something that was never stored, or kept silent about what is missing."""


class Sample:
    """``files`` as a load left them, ``state`` what they hold, ``earlier`` the states that the newest file
    went through, ``foreign`` are files of the same names from another store.
    """

    def __init__(self, seed: int, clean: bool, calls: int = 200) -> None:
        random = Random(seed)
        full = FullJournal()
        self.earlier: Final[list[FullState]] = []
        newest = ""
        for _ in range(calls):
            work(full, random, 1)
            newest = self._remember(full, newest)
        while full.write_one():
            newest = self._remember(full, newest)
        if clean:
            full.stop()
        self.clean: Final = clean
        self.files: Final = full.disk.contents()
        self.state: Final = full_state(SimulatedDisk.holding(self.files))
        assert self.state == full.state
        self.newest: Final = max(name for name in self.files if name.endswith(".journal"))
        self.foreign: Final = foreign_files(seed)

    def _remember(self, full: FullJournal, newest: str) -> str:
        names = [name for name in full.disk.files() if name.endswith(".journal")]
        if max(names) != newest:
            del self.earlier[:-1]  # the last state of the file before is the first of this one
        for state in full.allowed:
            if state not in self.earlier:
                self.earlier.append(state)
        return max(names)


def foreign_files(seed: int) -> dict[str, bytes]:
    """Segments of another store."""
    disk = SimulatedDisk()
    journal = open_journal(disk, FOREIGN_ID, SMALL_SEGMENT).journal
    random = Random(seed + 1)
    line = Destination(QUEUE, "A")
    for number in range(120):
        journal.append(line, plain_message(line, number, bytes(random.choice((10, 200, 900)))))
        batch = journal.next_batch()
        assert batch is not None
        write_batch(disk, batch, True)
        journal.on_completed(batch)
    return disk.contents()


class Damage:
    """One thing done to a sample's files. ``text`` says what, ``shortens`` that the newest file's end may be gone."""

    def __init__(self, sample: Sample, random: Random) -> None:
        self.files: Final = dict(sample.files)
        self.shortens = False
        self.text = ""
        self._sample: Final = sample
        self._random: Final = random
        kinds = (
            self._flip, self._flip, self._flip, self._zero, self._zero, self._rubbish, self._misplace, self._cut,
            self._swap, self._foreign, self._lose, self._double, self._stray, self._lengthen,
        )  # fmt: skip
        random.choice(kinds)()

    def _pick(self) -> tuple[str, bytearray, int]:
        """A file, its bytes, and how many of them are written."""
        name = self._random.choice(sorted(self.files))
        data = bytearray(self.files[name])
        return name, data, max(1, len(bytes(data).rstrip(b"\0")))

    def _put(self, name: str, data: bytearray, what: str) -> None:
        self.files[name] = bytes(data)
        self.text = f"{name}: {what}"
        if name == self._sample.newest:
            self.shortens = True

    def _flip(self) -> None:
        name, data, end = self._pick()
        places = [self._random.randrange(end) for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        for place in places:
            data[place] ^= 1 << self._random.randrange(8)
        self._put(name, data, f"bits flipped in {places}")

    def _zero(self) -> None:
        name, data, end = self._pick()
        start = self._random.randrange(end) // PAGE_BYTES * PAGE_BYTES
        size = PAGE_BYTES * self._random.choice((1, 1, 2, 8))
        data[start : start + size] = bytes(len(data[start : start + size]))
        self._put(name, data, f"zeros from {start}, {size} bytes")

    def _rubbish(self) -> None:
        name, data, end = self._pick()
        start = self._random.randrange(end)
        some = self._random.randbytes(self._random.choice((1, 4, 24, 200)))[: len(data) - start]
        data[start : start + len(some)] = some
        self._put(name, data, f"rubbish at {start}, {len(some)} bytes")

    def _misplace(self) -> None:
        name, data, end = self._pick()
        source, target = self._random.randrange(end), self._random.randrange(end)
        if self._random.random() < 0.5:
            source, target = source // PAGE_BYTES * PAGE_BYTES, target // PAGE_BYTES * PAGE_BYTES
        block = data[source : source + self._random.choice((64, PAGE_BYTES))]
        data[target : target + len(block)] = block
        self._put(name, data, f"{len(block)} bytes of {source} written to {target}")

    def _cut(self) -> None:
        name, data, end = self._pick()
        size = self._random.randrange(end)
        del data[size:]
        self._put(name, data, f"cut off at {size}")

    def _lengthen(self) -> None:
        name, data, _ = self._pick()
        data += self._random.randbytes(self._random.choice((1, 24, 600)))
        self._put(name, data, "rubbish behind its end")

    def _swap(self) -> None:
        one, other = self._random.choice(sorted(self.files)), self._random.choice(sorted(self.files))
        self.files[one], self.files[other] = self.files[other], self.files[one]
        self.text = f"{one} and {other} swapped"

    def _foreign(self) -> None:
        name = self._random.choice(sorted(self._sample.foreign))
        self.files[name] = self._sample.foreign[name]
        self.text = f"{name} comes from another store"

    def _lose(self) -> None:
        name = self._random.choice(sorted(self.files))
        if name == self._sample.newest:
            self._flip()
            return
        del self.files[name]
        self.text = f"{name} is gone"

    def _double(self) -> None:
        name = self._random.choice(sorted(self.files))
        copy = f"{self._random.randrange(1, 200):010d}.journal"
        self.files[copy] = self.files[name]
        self.text = f"{copy} is a copy of {name}"

    def _stray(self) -> None:
        name = self._random.choice(("0000000999.journal", "0000000001.journal", "notes.txt", "spare.new", "x.summary"))
        self.files[name] = self._random.randbytes(self._random.choice((0, 10, 64, 5000)))
        self.text = f"{name} is rubbish"


def judge(sample: Sample, damage: Damage) -> str:
    """What a start makes of it: REFUSED, SAME, SHORTER or PUT_ASIDE. Raises `WrongDataError`."""
    disk = SimulatedDisk.holding(damage.files)
    try:
        opened = Opened(disk)
    except StoreError as error:
        if "\n" in str(error):
            raise WrongDataError("the refusal is longer than a line") from error
        if disk.contents() != damage.files:
            raise WrongDataError("refused, and yet something was changed") from error
        return REFUSED
    try:
        found = opened.state()
    except DamagedMessageError:
        _readable_part(sample, opened)
        return PUT_ASIDE
    if found == sample.state:
        return SAME
    if damage.shortens and found in sample.earlier and not opened.clean:
        return SHORTER
    raise WrongDataError("the store holds what it should not, or lacks something without a word")


def _readable_part(sample: Sample, opened: Opened) -> None:
    """Nothing came or went, and every message that can be read is the right one."""
    for found in opened.destinations:
        expected = sample.state.lines.get(found.destination.qualified_name, {})
        if list(found.sequences) != list(expected):
            raise WrongDataError("messages came or went")
        for sequence, stored in opened.messages(found, skips_damaged=True).items():
            if stored != expected[sequence]:
                raise WrongDataError(f"message {sequence} is another one")
