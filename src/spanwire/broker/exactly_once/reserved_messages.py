"""What a cursor holds of a queue: the messages' sequences in the order of the cursor's numbers.

In the store they are runs of neighbours, ``[first sequence, count]``; places in the line are known in memory alone, and
made anew after a restart.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.metadata import MAX_VALUE_BYTES

MAX_HELD: Final = 100_000  # messages of one cursor, as many as a connection may have in transactions
MAX_RUNS: Final = MAX_VALUE_BYTES // 32  # of neighbours: each is two numbers and four marks of a fact in text


class HeldMessages:
    """Messages in order; ``first`` is the number of the oldest.

    ``orders`` are their places in the broker's dispatch order, ``priorities`` those of their lines (0: the first), and
    ``dues`` says when those expire that do, by sequence: all for the way back.
    """

    def __init__(self, first: int) -> None:
        self.first = first
        self.sequences: array[int] = array("q")
        self.orders: array[int] = array("q")
        self.places: array[int] = array("b")
        self.dues: Final[dict[int, int]] = {}
        self.runs = 0

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def end(self) -> int:
        """The number behind the youngest."""
        return self.first + len(self.sequences)

    def add(self, sequence: int, order: int, place: int, due_ms: int) -> None:
        """One more, the youngest."""
        sequences = self.sequences
        if len(sequences) == 0 or sequences[-1] + 1 != sequence:
            self.runs += 1
        sequences.append(sequence)
        self.orders.append(order)
        self.places.append(place)
        if due_ms > 0:
            self.dues[sequence] = due_ms

    def is_full(self, at_most: int) -> bool:
        """Whether it holds ``at_most`` messages, or as many as can be written down."""
        return len(self.sequences) >= min(at_most, MAX_HELD) or self.runs >= MAX_RUNS

    def part(self, start: int, end: int) -> list[int]:
        """The sequences of the numbers from ``start`` up to, but without, ``end``."""
        return list(self.sequences[start - self.first : end - self.first])

    def drop(self, end: int) -> list[int]:
        """Forget everything below the number ``end``; gives the sequences."""
        count = end - self.first
        gone = list(self.sequences[:count])
        self.sequences = self.sequences[count:]
        self.orders = self.orders[count:]
        self.places = self.places[count:]
        self.first = end
        if self.dues:
            for sequence in gone:
                self.dues.pop(sequence, None)
        self.runs = len(runs_of(self.sequences))
        return gone


def runs_of(sequences: array[int]) -> list[list[int]]:
    """Neighbours together: the first of them, and how many."""
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
    """What `runs_of` was given. Raises `ValueError` when that cannot be."""
    found: array[int] = array("q")
    for first, count in runs:
        if first <= 0 or count <= 0 or len(found) + count > MAX_HELD:
            raise ValueError("not a run")
        found.extend(array("q", range(first, first + count)))
    return found
