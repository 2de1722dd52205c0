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

    def transfer(self, runs: TransferRuns, sequence: int, target: Traits) -> None:
        """Move the traits of the messages in ``runs`` to the traits of the ``target``.

        The messages get rising sequences from ``sequence`` on.
        """
        labels = Labels()
        for run, first in enumerate(runs.firsts):
            labels.add(first, runs.counts[run], 0, sequence, 0)
            sequence += runs.counts[run]
        prioritised, priorities = self._prioritised, self._priorities
        expiring, expirations = self._expiring, self._expirations
        self._prioritised, self._priorities = array("q"), array("B")
        self._expiring, self._expirations = array("q"), array("q")
        for index, key in enumerate(prioritised):
            run = labels.run_index(key)
            if run == NOT_PASSED:
                self.add_priority(key, priorities[index])
            else:
                target.add_priority(labels.other(run, key), priorities[index])
        for index, key in enumerate(expiring):
            run = labels.run_index(key)
            if run == NOT_PASSED:
                self.add_expiration(key, expirations[index])
            else:
                target.add_expiration(labels.other(run, key), expirations[index])

    def priorities(self, sequences: array[int]) -> dict[int, int]:
        """Return priorities by sequence for the messages in ``sequences``, which must rise."""
        priorities: dict[int, int] = {}
        keys, values = in_key_order(self._prioritised, self._priorities)
        for index in common_indexes(keys, sequences):
            priorities[keys[index]] = values[index]
        return priorities

    def expirations(self, sequences: array[int]) -> Expirations:
        """Return the expirations of the messages in ``sequences``, which must rise."""
        expirations = Expirations(array("q"), array("q"))
        keys, values = in_key_order(self._expiring, self._expirations)
        for index in common_indexes(keys, sequences):
            expirations.sequences.append(keys[index])
            expirations.wall_ms.append(values[index])
        return expirations


def in_key_order(keys: array[int], values: array[int]) -> tuple[array[int], array[int]]:
    """Return both arrays in the strictly rising order of ``keys``; of equal keys the last counts."""
    last = -1
    for key in keys:
        if key <= last:
            break
        last = key
    else:
        return keys, values
    latest: dict[int, int] = {}
    for index, key in enumerate(keys):
        latest[key] = values[index]
    rising = sorted(latest)
    return array("q", rising), array("q", [latest[key] for key in rising])


def common_indexes(keys: array[int], sequences: array[int]) -> array[int]:
    """Return the indexes of the ``keys`` that are in ``sequences``. Both arrays must rise."""
    indexes: array[int] = array("q")
    cursor = 0
    end = len(sequences)
    for index, key in enumerate(keys):
        while cursor < end and sequences[cursor] < key:
            cursor += 1
        if cursor == end:
            break
        if sequences[cursor] == key:
            indexes.append(index)
    return indexes
