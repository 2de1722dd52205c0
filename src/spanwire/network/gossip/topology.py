"""Chooses the members to which a broker links, without asking them. Pure.

Brokers that know the same members choose symmetrically: if one links to another, the other links to it.
"""

from __future__ import annotations

from collections.abc import Collection


def neighbours(own: str, others: Collection[str], limit: int) -> set[str]:
    """Return all others, or ``limit`` of them if there are more.

    The names in order form a ring. Chosen are both neighbours in it, so that all brokers are connected, then those at
    distances of 2, 4, 8 and so on, which keeps ways short, then the nearest of the rest.
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
