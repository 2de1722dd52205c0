"""Messages that were lost with the memory of the run before: the store never had them.

An orderly stop counts them, exactly, and leaves the counts in the store. After a crash nobody knows: the arrival of a
message that is only in memory leaves no trace on the disk, and neither does its departure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from spanwire.broker.metadata import LOST_MESSAGES
from spanwire.broker.persistence.stored_sums import StoreLedger
from spanwire.broker.ports import MetadataStore
from spanwire.model.destination import Destination

KEY: Final = b"stop"
MAX_NAMES: Final = 2_000  # destinations counted apart, those with most messages; a name has 1,000 bytes at most
OTHERS: Final = "other destinations"  # the name of all others together
MAX_ESCAPED: Final = 400 * 1024  # bytes of names in the record, which may have 1 MiB with its escapes


class LostMessages:
    """The counts of the run before by destination. ``is_known`` is False unless it was stopped in order."""

    def __init__(self, store: MetadataStore, ledger: StoreLedger) -> None:
        self._store: Final[MetadataStore] = store
        self._ledger: Final[StoreLedger] = ledger
        self.is_known = False
        self.counts: dict[str, int] = {}

    def restore(self, metadata: dict[bytes, bytes], clean: bool) -> None:
        """Take the counts from the store; ``clean`` is True if its last run was stopped in order.

        They hold for this run alone, so they are discarded.
        """
        value = metadata.get(KEY)
        if value is None:
            return
        self._store.discard_metadata(LOST_MESSAGES, KEY)
        if clean:
            self.counts = _counts_in(value)
            self.is_known = True

    def note_stop(self, waiting: Iterable[tuple[Destination, int]]) -> None:
        """Store how many of the pending messages of destinations the store does not have.

        Call when all connections are closed and all messages for the store are in it.
        """
        found: list[tuple[int, str]] = []
        for destination, pending in waiting:
            stored = self._ledger.sums(destination)
            lost = pending - (0 if stored is None else stored.pending)
            if lost > 0:
                found.append((lost, destination.qualified_name))
        found.sort(reverse=True)
        counts: dict[str, int] = {}
        size = others = 0
        for lost, name in found:
            size += len(json.dumps(name))
            if len(counts) < MAX_NAMES and size <= MAX_ESCAPED:
                counts[name] = lost
            else:
                others += lost
        if others > 0:
            counts[OTHERS] = others
        self._store.put_metadata(LOST_MESSAGES, KEY, json.dumps(counts).encode("ascii"))


def _counts_in(value: bytes) -> dict[str, int]:
    content: object = json.loads(value)  # the journal has checked the sum of its bytes
    counts: dict[str, int] = {}
    if isinstance(content, dict):
        for name, count in content.items():
            if isinstance(count, int) and count > 0:
                counts[str(name)] = count
    return counts
