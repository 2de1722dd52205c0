"""The positions of moved messages at their targets, as runs of consecutive sequences, and the records.

The records are in the store.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from typing import Final

from spanwire.broker.moves.move_order import from_name, named, unreadable_move
from spanwire.model.destination import Destination
from spanwire.model.message import Message

MAX_RUNS: Final = (
    50_000  # runs of one move, 64 bytes each; messages beyond them are moved, but an undo cannot find them
)
CHUNK_RUNS: Final = 32  # runs of one record: a slice writes the last record again
MAX_TRANSIENT: Final = 10_000  # moved messages outside of the store that an undo finds, some 200 bytes each
MAX_CAUSES: Final = 1_000  # different causes of dead letters in one move
MAX_CAUSE: Final = 1_000  # characters of a cause that are kept

# numbers of a run
TARGET: Final = 0
SOURCE: Final = 1
CAUSE_INDEX: Final = 2
FIRST: Final = 3
COUNT: Final = 4
SOURCE_FIRST: Final = 5  # 0 unless the messages were copied
WIDTH: Final = 6


class Origin:
    """The source of a moved message, and the cause of death of a dead letter."""

    __slots__ = ("cause", "source")

    def __init__(self, source: Destination, cause: str) -> None:
        self.source: Final[Destination] = source
        self.cause: Final[str] = cause


class TargetRuns:
    """The runs of one target: the first sequences, ascending, and the indexes."""

    __slots__ = ("firsts", "indexes")

    def __init__(self) -> None:
        self.firsts: Final[array[int]] = array("q")
        self.indexes: Final[array[int]] = array("q")


class CopiedRuns:
    """The sequences of copied messages at the source, as runs."""

    __slots__ = ("_ends", "_firsts")

    def __init__(self, runs: list[tuple[int, int]]) -> None:
        """``runs`` are first sequences, ascending, and counts."""
        self._firsts: Final[array[int]] = array("q", [first for first, _ in runs])
        self._ends: Final[array[int]] = array("q", [first + count for first, count in runs])

    def holds(self, sequence: int) -> bool:
        """Return True if the message was copied."""
        index = bisect_right(self._firsts, sequence)
        return index > 0 and sequence < self._ends[index - 1]


class MovedRuns:
    """All runs of one move.

    ``count`` is the number of messages within reach of an undo, ``untraced`` the number of the others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.untraced = 0
        self._names: Final[list[Destination]] = []
        self._indexes: Final[dict[str, int]] = {}
        self._causes: Final[list[str]] = [""]
        self._cause_indexes: Final[dict[str, int]] = {"": 0}
        self._rows: Final[array[int]] = array("q")
        self._by_target: Final[dict[str, TargetRuns]] = {}
        self._transient: Final[dict[str, Origin]] = {}
        self._first_changed = 0  # the first run that the store does not have in this form

    def __len__(self) -> int:
        return len(self._rows) // WIDTH

    @property
    def has_transient(self) -> bool:
        """True if messages outside of the store were moved."""
        return len(self._transient) > 0

    def targets(self) -> list[Destination]:
        """Return the destinations with moved messages."""
        found = {self._names[self._rows[row * WIDTH + TARGET]].qualified_name: row for row in range(len(self))}
        targets = [self._names[self._rows[row * WIDTH + TARGET]] for row in found.values()]
        known = {target.qualified_name for target in targets}
        for key in self._transient:
            name = key.partition("\n")[0]
            if name not in known:
                known.add(name)
                targets.append(self._names[self._indexes[name]])
        return targets

    def add(self, target: Destination, sequence: int, source: Destination, source_sequence: int, cause: str) -> None:
        """Add a message stored as ``sequence`` of ``target``.

        ``source_sequence`` is the sequence at the source, if the message is still there, else 0.
        """
        target_index, source_index = self._index(target), self._index(source)
        cause_index = self._cause_index(cause)
        rows = self._rows
        last = len(rows) - WIDTH
        if (
            last >= 0
            and rows[last + TARGET] == target_index
            and rows[last + SOURCE] == source_index
            and rows[last + CAUSE_INDEX] == cause_index
            and rows[last + FIRST] + rows[last + COUNT] == sequence
            and (
                source_sequence == rows[last + SOURCE_FIRST] == 0
                or (rows[last + SOURCE_FIRST] > 0 and rows[last + SOURCE_FIRST] + rows[last + COUNT] == source_sequence)
            )
        ):
            rows[last + COUNT] += 1
            self.count += 1
            self._first_changed = min(self._first_changed, last // WIDTH)
            return
        if len(self) >= MAX_RUNS:
            self.untraced += 1
            return
        self._append([target_index, source_index, cause_index, sequence, 1, source_sequence])

    def _append(self, row: list[int]) -> None:
        index = len(self)
        self._rows.extend(row)
        self.count += row[COUNT]
        name = self._names[row[TARGET]].qualified_name
        runs = self._by_target.get(name)
        if runs is None:
            runs = self._by_target[name] = TargetRuns()
        runs.firsts.append(row[FIRST])
        runs.indexes.append(index)

    def add_transient(self, target: Destination, message: Message, source: Destination, cause: str) -> None:
        """Add a message outside of the store."""
        if len(self._transient) >= MAX_TRANSIENT:
            self.untraced += 1
            return
        self._index(target)
        self._transient[_key(target, message)] = Origin(source, cause)
        self.count += 1

    def origin(self, target: Destination, sequence: int) -> Origin | None:
        """Return the origin of the message ``sequence`` of ``target``, None if not moved."""
        row = self._find(target, sequence)
        if row < 0:
            return None
        rows = self._rows
        return Origin(self._names[rows[row + SOURCE]], self._causes[rows[row + CAUSE_INDEX]])

    def transient_origin(self, target: Destination, message: Message) -> Origin | None:
        """Return the origin of a message outside of the store, None if not moved."""
        return self._transient.get(_key(target, message))

    def holds(self, target: Destination, sequence: int) -> bool:
        """Return True if the message ``sequence`` of ``target`` was moved."""
        return self._find(target, sequence) >= 0

    def _find(self, target: Destination, sequence: int) -> int:
        runs = self._by_target.get(target.qualified_name)
        if runs is None:
            return -1
        location = bisect_right(runs.firsts, sequence) - 1
        if location < 0:
            return -1
        row = runs.indexes[location] * WIDTH
        return row if sequence < self._rows[row + FIRST] + self._rows[row + COUNT] else -1

    def copied_from(self, source: Destination) -> CopiedRuns:
        """Return the sequences of the copied messages of ``source``."""
        index = self._indexes.get(source.qualified_name, -1)
        rows = self._rows
        return CopiedRuns(
            sorted(
                (rows[row + SOURCE_FIRST], rows[row + COUNT])
                for row in range(0, len(rows), WIDTH)
                if rows[row + SOURCE] == index and rows[row + SOURCE_FIRST] > 0
            )
        )

    def _index(self, destination: Destination) -> int:
        name = destination.qualified_name
        index = self._indexes.get(name)
        if index is None:
            index = len(self._names)
            self._indexes[name] = index
            self._names.append(destination)
        return index

    def _cause_index(self, cause: str) -> int:
        cause = cause[:MAX_CAUSE]
        index = self._cause_indexes.get(cause)
        if index is None:
            if len(self._causes) >= MAX_CAUSES:
                return 0
            index = len(self._causes)
            self._cause_indexes[cause] = index
            self._causes.append(cause)
        return index

    def changed_chunks(self) -> list[tuple[int, bytes]]:
        """Return number and value of each record not yet in the store in the present form."""
        count = len(self)
        chunks = [
            (chunk, self._chunk(chunk))
            for chunk in range(self._first_changed // CHUNK_RUNS, (count + CHUNK_RUNS - 1) // CHUNK_RUNS)
            if self._first_changed < count
        ]
        self._first_changed = count
        return chunks

    def chunk_count(self) -> int:
        """Return the number of records."""
        return (len(self) + CHUNK_RUNS - 1) // CHUNK_RUNS

    def _chunk(self, chunk: int) -> bytes:
        start = chunk * CHUNK_RUNS * WIDTH
        numbers = self._rows[start : start + CHUNK_RUNS * WIDTH].tolist()
        rows = [numbers[row : row + WIDTH] for row in range(0, len(numbers), WIDTH)]
        used = {row[TARGET] for row in rows} | {row[SOURCE] for row in rows}
        causes = {row[CAUSE_INDEX] for row in rows}
        fields = {
            "names": [[index, named(self._names[index])] for index in sorted(used)],
            "causes": [[index, self._causes[index]] for index in sorted(causes)],
            "runs": rows,
        }
        return json.dumps(fields, separators=(",", ":")).encode("ascii")

    def restore(self, chunks: list[bytes]) -> None:
        """Add the runs of all records, in order.

        Raises:
            StoreError: a record is unreadable.
        """
        try:
            for value in chunks:
                fields = json.loads(value)
                names = {int(index): self._index(from_name(name)) for index, name in fields["names"]}
                causes = {int(index): self._cause_index(str(cause)) for index, cause in fields["causes"]}
                for target, source, cause, first, count, source_first in fields["runs"]:
                    self._append([names[target], names[source], causes[cause], first, count, source_first])
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise unreadable_move(error) from error
        self._first_changed = len(self)


def _key(target: Destination, message: Message) -> str:
    return f"{target.qualified_name}\n{message.message_id}"
