"""Distances between brokers along the links of messages.

A search goes from consumers against the direction of messages. `nearest` returns the distance of each broker to the
nearest consumer. `within_reach` counts brokers by distance to each of many consumers: 64 consumers share a word, so one
pass over the links is one hop for all 64.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from spanwire.pipeline.simulation.demand_follower import expand
from spanwire.pipeline.simulation.graph import Graph

WORD: Final = 64  # goals of one search, one bit each
UNREACHED: Final = -1


def nearest(graph: Graph, goals: np.ndarray) -> np.ndarray:
    """Return the hops from each broker to the nearest goal, or `UNREACHED` without a path."""
    hops = np.full(graph.brokers, UNREACHED, np.int32)
    hops[goals] = 0
    front = np.unique(goals)
    distance = 0
    while front.size:
        distance += 1
        _, links = expand(graph.incoming, front)
        reached = graph.near[links]
        reached = reached[hops[reached] == UNREACHED]
        hops[reached] = distance
        front = np.flatnonzero(hops == distance) if reached.size > graph.brokers >> 5 else np.unique(reached)
    return hops


def within_reach(
    graph: Graph, goals: np.ndarray, ttl: int | np.ndarray, farthest: int, open_links: np.ndarray | None = None
) -> np.ndarray:
    """Return the numbers of brokers at 1, 2 … ``farthest`` hops from `WORD` goals, all goals together.

    A link is used for at most ``ttl`` hops, and only if in ``open_links``, if given.
    """
    words = np.zeros(graph.brokers, np.uint64)
    np.bitwise_or.at(words, goals, np.left_shift(np.uint64(1), np.arange(goals.size, dtype=np.uint64)))
    seen = words.copy()
    leaving = np.flatnonzero(np.diff(graph.outgoing))
    far = graph.far[graph.by_near]
    shut = None if open_links is None else ~open_links[graph.by_near]
    limits = np.asarray(ttl) if np.ndim(ttl) == 0 else np.asarray(ttl)[graph.by_near]
    counts = np.zeros(farthest + 1, np.int64)
    for hops in range(1, farthest + 1):
        if not leaving.size or hops > limits.max():
            break
        arriving = words[far]
        if shut is not None:
            arriving[shut] = 0
        if limits.ndim:
            arriving[hops > limits] = 0
        words = np.zeros(graph.brokers, np.uint64)
        words[leaving] = np.bitwise_or.reduceat(arriving, graph.outgoing[leaving])
        words &= ~seen
        counts[hops] = int(np.bitwise_count(words).sum(dtype=np.int64))
        if not counts[hops]:
            break
        seen |= words
    return counts
