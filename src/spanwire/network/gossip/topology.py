"""Chooses the members to be linked by a broker, without questions to the members. Pure.

Brokers that know the same members choose symmetrically: links are chosen from both ends.
"""

from __future__ import annotations

from collections.abc import Collection


def neighbours(own: str, others: Collection[str], limit: int) -> set[str]:
    """Return all others, or ``limit`` others if there are more.

    The names in order form a ring. Chosen are both neighbours in the ring, so that all brokers are connected, then the
    names at distances of 2, 4, 8 and so on, to keep paths short, then the nearest of the rest.
    """
    if len(others) <= limit:
        return set(others) - {own}
    ring = sorted({own, *others})
    size, place = len(ring), ring.index(own)
    half = size // 2
    doubled = [1 << power for power in range(half.bit_length()) if 1 << power <= half]
    chosen: dict[str, None] = {}
    for distance in dict.fromkeys([*doubled, *range(1, half + 1)]):
        pair = {ring[(place + distance) % size], ring[(place - distance) % size]} - {own} - set(chosen)
        if len(chosen) + len(pair) > limit:
            break  # half a pair would not be symmetric
        chosen.update(dict.fromkeys(sorted(pair)))
    return set(chosen) or {ring[(place + 1) % size]}
