"""A network of brokers as arrays: numbered brokers, and links in the direction of messages.

    link        0   1   2   3   4        sorted by ``far``, otherwise in the original order
    near        3   7   0   3   9        source of messages, with the subscriptions of the bridge
    far         0   0   1   1   1        target of messages, with the consumers
    incoming    0       2           5    at broker b: links incoming[b] to incoming[b + 1] lead to b

A duplex connector is two links. `spanwire.pipeline.simulation.rules` decides what passes a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spanwire.model.errors import ConfigurationError

MAX_BROKERS: Final = 1_000_000  # brokers; the documented size, which fits into 3 GiB
MAX_CONNECTORS: Final = 5_000_000  # connectors; each is one link, or two if duplex


@dataclass(frozen=True, slots=True)
class Graph:
    """Brokers and links.

    ``order`` has the original index of each link. ``outgoing`` and ``by_near`` correspond to ``incoming``: the links
    by_near[outgoing[b]:outgoing[b + 1]] leave broker b.
    """

    brokers: int
    near: np.ndarray  # int32
    far: np.ndarray  # int32
    incoming: np.ndarray  # int64
    by_near: np.ndarray  # int32
    outgoing: np.ndarray  # int64
    order: np.ndarray  # int32

    @property
    def links(self) -> int:
        """Return the number of links."""
        return int(self.near.size)


def graph_of(brokers: int, near: np.ndarray, far: np.ndarray) -> Graph:
    """Return the graph of these links.

    Raises:
        ConfigurationError: there are more brokers than `MAX_BROKERS` or more links than twice `MAX_CONNECTORS`.
    """
    if brokers > MAX_BROKERS:
        raise ConfigurationError(f"{brokers:,} brokers are more than the {MAX_BROKERS:,} that can be simulated")
    if near.size > 2 * MAX_CONNECTORS:
        raise ConfigurationError(
            f"{near.size:,} links are more than the {2 * MAX_CONNECTORS:,} (a duplex one is two) that can be simulated"
        )
    order = np.argsort(far, kind="stable").astype(np.int32)
    sorted_near = near[order].astype(np.int32)
    by_near = np.argsort(sorted_near, kind="stable").astype(np.int32)
    return Graph(
        brokers,
        sorted_near,
        far[order].astype(np.int32),
        _starts(far, brokers),
        by_near,
        _starts(near, brokers),
        order,
    )


def _starts(ends: np.ndarray, brokers: int) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(np.bincount(ends, minlength=brokers))))


class Opposites:
    """The links in the opposite direction, for each link of a graph."""

    def __init__(self, graph: Graph) -> None:
        keys, self._pair_of_link, back = _pairs(graph)
        self._size = int(keys.size)
        self._opposite_pair = np.minimum(np.searchsorted(keys, back), max(self._size - 1, 0)).astype(np.int32)
        self._has = keys[self._opposite_pair] == back if self._size else np.zeros(0, bool)

    def sums(self, amounts: np.ndarray) -> np.ndarray:
        """Return for each link the sum of ``amounts`` over the links in the opposite direction."""
        sums = np.bincount(self._pair_of_link, weights=amounts, minlength=self._size)
        return np.where(self._has, sums[self._opposite_pair], 0.0)


def _pairs(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ordered pairs of linked brokers, the pair of each link, and the key of the opposite pair."""
    ahead = graph.near.astype(np.int64) * graph.brokers + graph.far
    keys, pair_of_link = np.unique(ahead, return_inverse=True)
    return keys, pair_of_link.astype(np.int32), graph.far.astype(np.int64) * graph.brokers + graph.near


def is_forest(graph: Graph) -> bool:
    """Return True if there is at most one path between any two brokers, ignoring directions."""
    if graph.links > 2 * (graph.brokers - 1):
        return False
    low = np.minimum(graph.near, graph.far).astype(np.int64)
    high = np.maximum(graph.near, graph.far)
    edges, first = np.unique(low * graph.brokers + high, return_index=True)
    ahead = np.unique(graph.near.astype(np.int64) * graph.brokers + graph.far).size
    if ahead != graph.links:
        return False
    return bool(edges.size + components(graph.brokers, graph.near[first], graph.far[first]) == graph.brokers)


def components(brokers: int, near: np.ndarray, far: np.ndarray) -> int:
    """Return the number of connected components."""
    part = np.arange(brokers, dtype=np.int64)
    while True:
        low = np.minimum(part[near], part[far])
        before = part.copy()
        np.minimum.at(part, part[near], low)
        np.minimum.at(part, part[far], low)
        while True:
            shorter = part[part]
            if np.array_equal(shorter, part):
                break
            part = shorter
        if np.array_equal(part, before):
            return int(np.unique(part).size)
