"""Groups reads for few system calls."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.fetching.fetch import Read

MAX_BLOCK_BYTES: Final = 1024 * 1024  # bytes of one system call; a bigger message is read alone
MAX_GAP_BYTES: Final = 16 * 1024  # bytes; reading over a smaller gap costs less than another call
OFFSET_BITS: Final = 32  # a segment has at most 4 GiB


def blocks(reads: list[Read]) -> list[list[int]]:
    """Return groups of indices of ``reads`` for one system call each, in the order of the file."""
    grouped: list[list[int]] = []
    group: list[int] = []
    segment = -1
    start = 0
    end = 0
    for index in _order(reads):
        read = reads[index]
        behind = read.offset + read.size
        if read.segment == segment and read.offset - end <= MAX_GAP_BYTES and behind - start <= MAX_BLOCK_BYTES:
            group.append(index)
        else:
            group = [index]
            grouped.append(group)
            segment = read.segment
            start = read.offset
        end = behind
    return grouped


def _order(reads: list[Read]) -> list[int]:
    """Return the indices of ``reads`` in the order of the files, which mostly is the given order."""
    order = list(range(len(reads)))
    keys: list[int] = []
    last = -1
    rising = True
    for read in reads:
        key = read.segment << OFFSET_BITS | read.offset
        if key < last:
            rising = False
        keys.append(key)
        last = key
    if not rising:
        order.sort(key=keys.__getitem__)
    return order
