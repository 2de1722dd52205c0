"""Priorities and expirations of recovered messages. The index of the journal does not hold traits.

Only a priority other than the default and an expiration other than "never" take memory.
"""

from __future__ import annotations

from array import array

from spanwire.broker.persistence.recovered import Expirations
from spanwire.stores.journal.segments.transfers import NOT_PASSED, Labels, TransferRuns


class Traits:
    """Traits of the messages of one destination.

    Records arrive in the order of writing. A message that compaction moved arrives twice, with equal traits. Removed
    messages stay until the remaining sequences are known.
    """

    __slots__ = ("_expirations", "_expiring", "_priorities", "_prioritised")

    def __init__(self) -> None:
        self._prioritised: array[int] = array("q")
        self._priorities: array[int] = array("B")
        self._expiring: array[int] = array("q")
        self._expirations: array[int] = array("q")

    def add_priority(self, sequence: int, priority: int) -> None:
        """Note the priority of a message."""
        self._prioritised.append(sequence)
        self._priorities.append(priority)

    def add_expiration(self, sequence: int, wall_ms: int) -> None:
        """Note the expiration of a message in wall milliseconds."""
        self._expiring.append(sequence)
        self._expirations.append(wall_ms)

    def pass_on(self, runs: TransferRuns, sequence: int, other: Traits) -> None:
        """Move the traits of the messages in ``runs`` to ``other``, the traits of the target.

        The messages get rising sequences from ``sequence`` on.
        """
        labels = Labels()
        for place, first in enumerate(runs.firsts):
            labels.add(first, runs.counts[place], 0, sequence, 0)
            sequence += runs.counts[place]
        prioritised, priorities = self._prioritised, self._priorities
        expiring, expirations = self._expiring, self._expirations
        self._prioritised, self._priorities = array("q"), array("B")
        self._expiring, self._expirations = array("q"), array("q")
        for index, key in enumerate(prioritised):
            place = labels.place(key)
            if place == NOT_PASSED:
                self.add_priority(key, priorities[index])
            else:
                other.add_priority(labels.other(place, key), priorities[index])
        for index, key in enumerate(expiring):
            place = labels.place(key)
            if place == NOT_PASSED:
                self.add_expiration(key, expirations[index])
            else:
                other.add_expiration(labels.other(place, key), expirations[index])

    def priorities(self, sequences: array[int]) -> dict[int, int]:
        """Return priorities by sequence for the messages in ``sequences``, which must rise."""
        found: dict[int, int] = {}
        keys, values = ordered(self._prioritised, self._priorities)
        for place in common(keys, sequences):
            found[keys[place]] = values[place]
        return found

    def expirations(self, sequences: array[int]) -> Expirations:
        """Return the expirations of the messages in ``sequences``, which must rise."""
        found = Expirations(array("q"), array("q"))
        keys, values = ordered(self._expiring, self._expirations)
        for place in common(keys, sequences):
            found.sequences.append(keys[place])
            found.wall_ms.append(values[place])
        return found


def ordered(keys: array[int], values: array[int]) -> tuple[array[int], array[int]]:
    """Return both arrays in the strictly rising order of ``keys``; of equal keys the last counts."""
    last = -1
    for key in keys:
        if key <= last:
            break
        last = key
    else:
        return keys, values
    latest: dict[int, int] = {}
    for place, key in enumerate(keys):
        latest[key] = values[place]
    rising = sorted(latest)
    return array("q", rising), array("q", [latest[key] for key in rising])


def common(keys: array[int], sequences: array[int]) -> array[int]:
    """Return the indexes of the ``keys`` that are in ``sequences``. Both arrays must rise."""
    places: array[int] = array("q")
    at = 0
    end = len(sequences)
    for place, key in enumerate(keys):
        while at < end and sequences[at] < key:
            at += 1
        if at == end:
            break
        if sequences[at] == key:
            places.append(place)
    return places
