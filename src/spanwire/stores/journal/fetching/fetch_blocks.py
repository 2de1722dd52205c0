"""Which reads one system call can answer."""

from __future__ import annotations

from typing import Final

from spanwire.stores.journal.fetching.fetch import Read

MAX_BLOCK_BYTES: Final = 1024 * 1024  # read with one system call; a bigger message is read alone
MAX_GAP_BYTES: Final = 16 * 1024  # reading over what is not asked for costs less than another call
OFFSET_BITS: Final = 32  # a segment has at most 4 GiB


def blocks(reads: list[Read]) -> list[list[int]]:
    """Groups reads that one system call can answer; each group holds places in ``reads`` in the order of the file."""
    grouped: list[list[int]] = []
    group: list[int] = []
    segment = -1
    start = 0
    end = 0
    for place in _order(reads):
        read = reads[place]
        behind = read.offset + read.size
        if read.segment == segment and read.offset - end <= MAX_GAP_BYTES and behind - start <= MAX_BLOCK_BYTES:
            group.append(place)
        else:
            group = [place]
            grouped.append(group)
            segment = read.segment
            start = read.offset
        end = behind
    return grouped


def _order(reads: list[Read]) -> list[int]:
    """Their places in the order of the files, in which they mostly are."""
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
