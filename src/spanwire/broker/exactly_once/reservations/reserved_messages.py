"""The reserved messages of a cursor, in the order of the cursor's numbers.

The store keeps the sequences as ranges ``[first sequence, count]``. Positions in the queue are in memory only and made
anew after a restart.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.metadata import MAX_VALUE_BYTES

MAX_RESERVED: Final = 100_000  # messages of one cursor: as many as a connection may have in transactions
MAX_RUNS: Final = MAX_VALUE_BYTES // 32  # ranges of one cursor: each takes two numbers and four characters of a record


class ReservedMessages:
    """Reserved messages in order; ``first`` is the number of the oldest.

    For a return to the queue the messages keep dispatch orders (``orders``), the index of the pending list
    (``list_indexes``, 0 for the highest priority) and expirations by sequence (``dues``, wall milliseconds).
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.sequences: array[int] = array("q")
        self.orders: array[int] = array("q")
        self.list_indexes: array[int] = array("b")
        self.dues: Final[dict[int, int]] = {}
        self.runs = 0

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def end(self) -> int:
        """The number behind the youngest message."""
        return self.first + len(self.sequences)

    def add(self, sequence: int, order: int, list_index: int, due_ms: int) -> None:
        """Append a message."""
        sequences = self.sequences
        if len(sequences) == 0 or sequences[-1] + 1 != sequence:
            self.runs += 1
        sequences.append(sequence)
        self.orders.append(order)
        self.list_indexes.append(list_index)
        if due_ms > 0:
            self.dues[sequence] = due_ms

    def is_full(self, at_most: int) -> bool:
        """Return True at ``at_most`` messages, or at as many as one record of the store can describe."""
        return len(self.sequences) >= min(at_most, MAX_RESERVED) or self.runs >= MAX_RUNS

    def part(self, start: int, end: int) -> list[int]:
        """Return the sequences of the numbers from ``start`` up to, but without, ``end``."""
        return list(self.sequences[start - self.first : end - self.first])

    def drop(self, end: int) -> list[int]:
        """Forget all numbers below ``end`` and return their sequences."""
        count = end - self.first
        gone = list(self.sequences[:count])
        self.sequences = self.sequences[count:]
        self.orders = self.orders[count:]
        self.list_indexes = self.list_indexes[count:]
        self.first = end
        if self.dues:
            for sequence in gone:
                self.dues.pop(sequence, None)
        self.runs = len(runs_of(self.sequences))
        return gone


def runs_of(sequences: array[int]) -> list[list[int]]:
    """Return consecutive sequences as pairs of the first sequence and the count."""
    runs: list[list[int]] = []
    following = 0
    for sequence in sequences:
        if runs and sequence == following:
            runs[-1][1] += 1
        else:
            runs.append([sequence, 1])
        following = sequence + 1
    return runs


def sequences_of(runs: list[list[int]]) -> array[int]:
    """Return the sequences in ``runs``, the result of `runs_of`.

    Raises:
        ValueError: ``runs`` cannot come from `runs_of`.
    """
    sequences: array[int] = array("q")
    for first, count in runs:
        if first <= 0 or count <= 0 or len(sequences) + count > MAX_RESERVED:
            raise ValueError("not a run")
        sequences.extend(array("q", range(first, first + count)))
    return sequences
