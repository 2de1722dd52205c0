"""Connectors between generated brokers, as two arrays.

The first array has the broker with the connector, the second the other broker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.simulation.graph import MAX_BROKERS, MAX_CONNECTORS

MAX_REPAIRS: Final = 1_000  # rounds; a few suffice unless the network is nearly a full mesh

Connectors = tuple[np.ndarray, np.ndarray]


def hub(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Connect each other broker to broker 0."""
    return np.arange(1, brokers), np.zeros(brokers - 1, np.int64)


def ring(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Connect each broker to the next."""
    near = np.arange(brokers if brokers > 2 else brokers - 1)
    return near, (near + 1) % brokers


def tree(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Connect each broker to its parent, which has ``degree`` children."""
    near = np.arange(1, brokers)
    return near, (near - 1) // degree


def grid(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Connect each broker to its right and lower neighbour, with about as many rows as columns."""
    columns = int(np.ceil(np.sqrt(brokers)))
    index = np.arange(brokers)
    right = index[(index % columns < columns - 1) & (index + 1 < brokers)]
    below = index[index + columns < brokers]
    return np.concatenate((right, below)), np.concatenate((right + 1, below + columns))


def mesh(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Connect each pair of brokers."""
    if brokers * (brokers - 1) // 2 > MAX_CONNECTORS:
        raise too_many(f"a full mesh of {brokers:,} brokers", brokers * (brokers - 1) // 2)
    near, far = np.triu_indices(brokers, 1)
    return near, far


def regular(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Give each broker ``degree`` random neighbours; repeated pairs are drawn again together with others."""
    if degree >= brokers or brokers * degree % 2:
        raise ConfigurationError(
            f"there is no network in which each of {brokers:,} brokers has {degree} neighbours: "
            "that takes more brokers than neighbours, and one of both even"
        )
    ends = random.permutation(np.repeat(np.arange(brokers, dtype=np.int64), degree)).reshape(-1, 2)
    for _ in range(MAX_REPAIRS):
        low, high = ends.min(axis=1), ends.max(axis=1)
        wrong = np.ones(low.size, bool)
        wrong[np.unique(low * brokers + high, return_index=True)[1]] = False
        wrong |= low == high
        bad = np.flatnonzero(wrong)
        if not bad.size:
            return low, high
        extra = random.choice(low.size, min(2 * bad.size + 4, low.size), replace=False)
        drawn = np.union1d(bad, extra)
        ends[drawn] = random.permutation(ends[drawn].reshape(-1)).reshape(-1, 2)
    raise ConfigurationError(
        f"no network was found in which each of {brokers:,} brokers has {degree} neighbours; try another --seed"
    )


def scale_free(brokers: int, degree: int, random: np.random.Generator) -> Connectors:
    """Add brokers one by one, each with half of ``degree`` connectors to earlier brokers.

    An earlier broker is chosen in proportion to its links (Barabasi and Albert, Emergence of Scaling in Random
    Networks). A broker that draws the same neighbour twice has one connector less.
    """
    each = max(degree // 2, 1)
    near = np.repeat(np.arange(1, brokers, dtype=np.int64), each)
    first = (near - 1) * each  # the first connector of the same broker
    # Both ends of all earlier connectors stand in a row: even positions are known, odd positions were drawn.
    drawn = np.floor(random.random(near.size) * np.maximum(2 * first, 1)).astype(np.int64)
    drawn[first == 0] = -1  # broker 1 can only choose broker 0
    far = np.full(near.size, -1, np.int64)
    far[first == 0] = 0
    undecided = np.flatnonzero(far < 0)
    while undecided.size:
        index = drawn[undecided]
        even = index % 2 == 0
        far[undecided[even]] = near[index[even] // 2]
        odd = undecided[~even]
        seen = index[~even] // 2
        known = far[seen] >= 0
        far[odd[known]] = far[seen[known]]
        drawn[odd[~known]] = drawn[seen[~known]]
        undecided = odd[~known]
    _, first_indexes = np.unique(near * brokers + far, return_index=True)
    chosen = np.sort(first_indexes)
    return near[chosen], far[chosen]


TOPOLOGIES: Final[dict[str, tuple[Callable[[int, int, np.random.Generator], Connectors], int]]] = {
    "hub": (hub, 0),
    "ring": (ring, 0),
    "tree": (tree, 2),
    "grid": (grid, 0),
    "regular": (regular, 4),
    "scale-free": (scale_free, 4),
    "mesh": (mesh, 0),
}


def generate(kind: str, brokers: int, degree: int | None, seed: int) -> Connectors:
    """Return the connectors of a topology.

    Raises:
        ConfigurationError: there is no such network.
    """
    make, usual = TOPOLOGIES[kind]
    if degree is not None and not usual:
        raise ConfigurationError(f"--degree: a {kind} network has none to choose")
    if not 2 <= brokers <= MAX_BROKERS:
        raise ConfigurationError(f"--brokers is {brokers:,}; 2 to {MAX_BROKERS:,} can be simulated")
    chosen = usual if degree is None else degree
    if degree is not None and not 1 <= degree <= brokers:
        raise ConfigurationError(f"--degree is {chosen:,}; 1 to the number of brokers is possible")
    if kind in ("regular", "scale-free") and brokers * chosen // 2 > MAX_CONNECTORS:
        raise too_many(f"a network of {brokers:,} brokers with {chosen} links each", brokers * chosen // 2)
    return make(brokers, chosen, np.random.default_rng(seed))


def too_many(network: str, connectors: int) -> ConfigurationError:
    """Return the error for a network that is too large."""
    return ConfigurationError(f"{network} has {connectors:,} connectors; {MAX_CONNECTORS:,} are the most")


def directed_links(connectors: Connectors, duplex: bool) -> Connectors:
    """Return the links of connectors; if ``duplex``, each followed by the opposite link."""
    near, far = connectors
    if not duplex:
        return near, far
    return np.stack((near, far), axis=1).reshape(-1), np.stack((far, near), axis=1).reshape(-1)
