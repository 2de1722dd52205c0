"""The messages of one queue that wait for a consumer: a window in memory, the rest as sequences.

A queue's line is ``resident`` (references with their messages, by ascending order) followed by ``spilled`` (eight bytes
per message: a positive number is a sequence in the store, a negative one names a message that only exists in memory).
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.reference import MessageReference

TRIM_AT: Final = 1_024  # dispatched slots at the front before the list is cut


class ResidentLine:
    """References in order, taken from the front or, for selectors, from anywhere.

    Positions are absolute: they stay valid while slots before them are trimmed, so that each subscription can remember
    how far it has looked. A taken slot is None until it reaches the front.
    """

    __slots__ = ("_base", "_items", "_start", "count")

    def __init__(self) -> None:
        self._items: list[MessageReference | None] = []
        self._start = 0
        self._base = 0
        self.count = 0

    @property
    def first_position(self) -> int:
        """Absolute position of the oldest slot."""
        return self._base + self._start

    @property
    def end_position(self) -> int:
        """Absolute position one past the youngest slot."""
        return self._base + len(self._items)

    def append(self, reference: MessageReference) -> None:
        """The youngest message."""
        self._items.append(reference)
        self.count += 1

    def at(self, position: int) -> MessageReference | None:
        """What stands at an absolute position; None if it was taken."""
        return self._items[position - self._base]

    def take(self, position: int) -> None:
        """Remove what stands at an absolute position."""
        index = position - self._base
        self._items[index] = None
        self.count -= 1
        if index == self._start:
            self._advance()

    def peek(self) -> MessageReference | None:
        """The oldest message."""
        if self.count == 0:
            return None
        return self._items[self._start]

    def pop(self) -> None:
        """Remove the oldest message."""
        self._items[self._start] = None
        self.count -= 1
        self._advance()

    def merge(self, references: list[MessageReference]) -> int:
        """Put ``references`` back by their order; gives the absolute position of the first of them."""
        merged: list[MessageReference | None] = list(references)
        for item in self._items[self._start :]:
            if item is not None:
                merged.append(item)
        merged.sort(key=_order_of)
        self._base = self._base + self._start
        self._items = merged
        self._start = 0
        self.count = len(merged)
        lowest = min(reference.order for reference in references)
        position = 0
        while _order_of(merged[position]) < lowest:
            position += 1
        return self._base + position

    def is_sparse(self) -> bool:
        """Whether most slots are holes, as selectors leave them behind a message that nobody wants."""
        return len(self._items) - self._start > 2 * self.count + TRIM_AT

    def compact(self) -> None:
        """Drop the holes. All positions from before are gone: the line begins where it ended."""
        self._base += len(self._items)
        self._items = [item for item in self._items[self._start :] if item is not None]
        self._start = 0

    def snapshot(self) -> list[MessageReference]:
        """All references in order."""
        return [item for item in self._items[self._start :] if item is not None]

    def clear(self) -> list[MessageReference]:
        """Remove and give everything."""
        found = self.snapshot()
        self._base += len(self._items)
        self._items = []
        self._start = 0
        self.count = 0
        return found

    def _advance(self) -> None:
        items = self._items
        start = self._start
        end = len(items)
        while start < end and items[start] is None:
            start += 1
        if start == end:
            self._base += end
            self._items = []
            start = 0
        elif start >= TRIM_AT:
            del items[:start]
            self._base += start
            start = 0
        self._start = start


class SpilledLine:
    """Sequences behind the resident window, eight bytes each, in order."""

    __slots__ = ("_first", "_memory_number", "_memory_only", "_numbers")

    def __init__(self) -> None:
        self._numbers = array("q")
        self._first = 0
        self._memory_only: dict[int, MessageReference] = {}
        self._memory_number = 0

    def __len__(self) -> int:
        return len(self._numbers) - self._first

    def append_sequence(self, sequence: int) -> None:
        """A message that the store has."""
        self._numbers.append(sequence)

    def append_volatile(self, reference: MessageReference) -> None:
        """A message that only exists in memory and must not overtake those before it."""
        self._memory_number -= 1
        self._memory_only[self._memory_number] = reference
        self._numbers.append(self._memory_number)

    def extend_sequences(self, sequences: array[int]) -> None:
        """Recovered messages."""
        self._numbers.extend(sequences)

    def take(self, count: int) -> list[int]:
        """Remove and give the next ``count`` numbers."""
        end = min(self._first + count, len(self._numbers))
        taken = self._numbers[self._first : end].tolist()
        self._first = end
        if self._first * 2 > len(self._numbers):
            self._numbers = self._numbers[self._first :]
            self._first = 0
        return taken

    def volatile(self, number: int) -> MessageReference:
        """The message behind a negative number; it is forgotten here."""
        return self._memory_only.pop(number)

    def peek_volatile(self, number: int) -> MessageReference | None:
        """The message behind a negative number, if it is still here."""
        return self._memory_only.get(number)

    def snapshot(self) -> list[int]:
        """All numbers in order."""
        return self._numbers[self._first :].tolist()

    def clear(self) -> tuple[list[int], list[MessageReference]]:
        """Remove everything: the sequences, and the messages that only memory had."""
        sequences = [number for number in self.snapshot() if number > 0]
        references = list(self._memory_only.values())
        self._numbers = array("q")
        self._first = 0
        self._memory_only = {}
        return sequences, references


def _order_of(reference: MessageReference | None) -> int:
    assert reference is not None
    return reference.order
