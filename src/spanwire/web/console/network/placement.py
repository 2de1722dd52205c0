"""Positions of brokers and clusters of a large network, by NetworkX. Loaded for the first map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import networkx

SEED: Final = 7  # so that the same network is always drawn the same
ITERATIONS: Final = 60

Edge = tuple[str, str]


def positions(names: Sequence[str], edges: Sequence[Edge]) -> dict[str, tuple[float, float]]:
    """Return a position of each node, from -1 to 1: linked nodes are near each other."""
    placed = networkx.spring_layout(_graph(names, edges), seed=SEED, iterations=ITERATIONS)
    return {name: (float(x), float(y)) for name, (x, y) in placed.items()}


def communities(names: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """Return groups of nodes with more edges among each other than to others, the largest first."""
    found = networkx.community.louvain_communities(_graph(names, edges), seed=SEED)
    return sorted((sorted(group) for group in found), key=lambda group: (-len(group), group))


def _graph(names: Sequence[str], edges: Sequence[Edge]) -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_nodes_from(sorted(names))
    graph.add_edges_from(sorted({(min(edge), max(edge)) for edge in edges}))
    return graph
