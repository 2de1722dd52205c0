"""LEDGER records: the sums of one destination in the check-point of a segment.

A record has the sums of `spanwire.model.ledger.Sums` that are above zero: a u64 with a bit for each term, then a u64
for each bit, in rising order. The field ``sequence`` is 0 for the sums of the destination, else the link. Number 0
stands for all destinations that were removed; its record is in each check-point, and says that the ledger is kept.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.model.ledger import OTHER_LINKS, TERMS, Sums
from spanwire.stores.journal.segments.record import record_size

REMOVED_DESTINATIONS: Final = 0  # the number in the record
SUM_BYTES: Final = 8
EMPTY_RECORD: Final = record_size(SUM_BYTES)

_SUM: Final = Struct("<Q")


def ledger_bytes(sums: Sums, is_always: bool = False) -> int:
    """Return the bytes of all records of ``sums``; ``is_always`` writes one even without a sum above 0."""
    size = sums.terms * SUM_BYTES
    if is_always or _has_any(sums.counts):
        size += EMPTY_RECORD
    if sums.over is not None:
        for counts in sums.over.values():
            if _has_any(counts):
                size += EMPTY_RECORD
    return size


def _has_any(counts: list[int]) -> bool:
    for count in counts:
        if count != 0:
            return True
    return False


def ledger_payloads(sums: Sums, is_always: bool = False) -> list[tuple[int, bytes]]:
    """Return link and payload of each record of ``sums``, the destination's own first."""
    payloads: list[tuple[int, bytes]] = []
    if is_always or _has_any(sums.counts):
        payloads.append((0, _payload(sums.counts)))
    if sums.over is not None:
        for link, counts in sums.over.items():
            if _has_any(counts):
                payloads.append((link, _payload(counts)))
    return payloads


def _payload(counts: list[int]) -> bytes:
    bits = 0
    parts = [b""]
    for term, count in enumerate(counts):
        if count != 0:
            bits |= 1 << term
            parts.append(_SUM.pack(count))
    parts[0] = _SUM.pack(bits)
    return b"".join(parts)


def restore_sums(sums: Sums, link: int, payload: bytes) -> bool:
    """Take the sums of a record into empty ``sums``; return False if the payload is none."""
    if len(payload) < SUM_BYTES or len(payload) % SUM_BYTES != 0 or not 0 <= link <= OTHER_LINKS:
        return False
    bits: int = _SUM.unpack_from(payload)[0]
    if bits >> TERMS != 0 or bits.bit_count() != len(payload) // SUM_BYTES - 1:
        return False
    counts = sums.counts if link == 0 else sums.link_counts(link)
    offset = SUM_BYTES
    for term in range(TERMS):
        if bits >> term & 1:
            count: int = _SUM.unpack_from(payload, offset)[0]
            if count == 0:
                return False
            if counts[term] == 0:
                sums.terms += 1
            counts[term] = count
            offset += SUM_BYTES
    return True
