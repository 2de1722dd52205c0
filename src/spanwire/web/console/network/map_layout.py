"""Draws a map: places of brokers or clusters on a grid, and a curve for each linked pair.

The places follow from names and links, so brokers do not jump when a state or counter changes.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, cast

from spanwire import registry
from spanwire.web.console.network.known_network import KnownLink, KnownNetwork
from spanwire.web.console.network.map_grid import CELL_X, CELL_Y, MapGrid

MOST_DRAWN: Final = 100  # brokers that are legible on a screen; more are drawn as clusters, or around one of them
MARGIN: Final = 12
BOW: Final = 9  # units by which the two directions of a link stand apart
RADIUS: Final = 9
CLUSTER_RADIUS: Final = 16
REMEMBERED: Final = 32  # layouts of networks that have not changed since

Edge = tuple[str, str]
Positions = Callable[[Sequence[str], Sequence[Edge]], dict[str, tuple[float, float]]]
Communities = Callable[[Sequence[str], Sequence[Edge]], list[list[str]]]


@dataclass(frozen=True, slots=True)
class Place:
    """The middle of a broker or cluster; ``members`` are the brokers of a cluster, or the single broker."""

    name: str
    x: float
    y: float
    members: tuple[str, ...]

    @property
    def radius(self) -> int:
        """Return the radius of the circle."""
        return RADIUS if len(self.members) == 1 else CLUSTER_RADIUS


@dataclass(slots=True)
class Curve:
    """All links of one direction between two places; ``x`` and ``y`` are the middle."""

    near: str
    far: str
    path: str
    x: float
    y: float
    links: list[KnownLink]

    @property
    def kind(self) -> str:
        """Return the class of the curve: the worst of its links counts."""
        if not all(link.is_good for link in self.links):
            return "bad"
        return "good" if any(link.state for link in self.links) else "reported"


@dataclass(slots=True)
class MapLayout:
    """A drawn map and its size.

    ``is_clustered`` if places are clusters; ``beyond`` counts brokers not drawn.
    """

    places: list[Place]
    curves: list[Curve] = field(default_factory=list)
    width: float = 0
    height: float = 0
    is_clustered: bool = False
    beyond: int = 0


def layout(network: KnownNetwork, around: str = "") -> MapLayout:
    """Return the map of a network.

    A network of more than `MOST_DRAWN` brokers is drawn as clusters. With ``around`` only the nearest brokers of the
    named broker are drawn.
    """
    names = list(network.brokers)
    edges = [(link.near, link.far) for link in network.links.values()]
    if around in network.brokers and len(names) > MOST_DRAWN:
        names = _nearest(around, edges)
    is_clustered = len(names) > MOST_DRAWN
    groups = _clusters(tuple(sorted(names)), tuple(sorted(set(edges)))) if is_clustered else tuple(
        (name, (name,)) for name in sorted(names)
    )  # fmt: skip
    group_of = {member: name for name, members in groups for member in members}
    joined: dict[Edge, list[KnownLink]] = defaultdict(list)
    for link in network.links.values():
        near, far = group_of.get(link.near), group_of.get(link.far)
        if near is not None and far is not None and near != far:
            joined[near, far].append(link)
    at = _cells(tuple(name for name, _ in groups), tuple(sorted(joined)))
    places = {
        name: Place(name, MARGIN + (x + 0.5) * CELL_X, MARGIN + (y + 0.5) * CELL_Y - 12, members)
        for name, members in groups
        for x, y in [at[name]]
    }
    curves = [Curve(near, far, *_path(places[near], places[far]), links) for (near, far), links in joined.items()]
    return MapLayout(
        list(places.values()),
        curves,
        2 * MARGIN + CELL_X * (1 + max(x for x, _ in at.values())),
        2 * MARGIN + CELL_Y * (1 + max(y for _, y in at.values())),
        is_clustered,
        len(network.brokers) - sum(len(members) for _, members in groups),
    )


def _nearest(start: str, edges: Iterable[Edge]) -> list[str]:
    """Return the brokers nearest to one, `MOST_DRAWN` at most."""
    beside: dict[str, set[str]] = defaultdict(set)
    for near, far in edges:
        beside[near].add(far)
        beside[far].add(near)
    found, waiting = {start: None}, deque([start])
    while waiting and len(found) < MOST_DRAWN:
        for name in sorted(beside[waiting.popleft()]):
            if name not in found and len(found) < MOST_DRAWN:
                found[name] = None
                waiting.append(name)
    return list(found)


@lru_cache(maxsize=REMEMBERED)
def _clusters(names: tuple[str, ...], edges: tuple[Edge, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the clusters, each under the name of the broker with most links.

    Small clusters beyond the limit become one cluster.
    """
    find = cast(Communities, registry.load(registry.MAP_COMMUNITIES))
    degrees: dict[str, int] = defaultdict(int)
    for near, far in edges:
        degrees[near] += 1
        degrees[far] += 1
    groups = find(names, edges)
    rest = [name for group in groups[MOST_DRAWN - 1 :] for name in group]
    groups = [*groups[: MOST_DRAWN - 1], *([sorted(rest)] if rest else [])]
    return tuple((min(group, key=lambda name: (-degrees[name], name)), tuple(group)) for group in groups)


@lru_cache(maxsize=REMEMBERED)
def _cells(names: tuple[str, ...], edges: tuple[Edge, ...]) -> dict[str, tuple[float, int]]:
    """Return a column and row of the grid for each name."""
    if len(names) < 3:
        return {name: (2 * number, 0) for number, name in enumerate(names)}
    place = cast(Positions, registry.load(registry.MAP_POSITIONS))
    grid = MapGrid(place(names, edges), edges)
    grid.shorten()
    return grid.compact()


def _path(near: Place, far: Place) -> tuple[str, float, float]:
    """Return a curve from one circle to another, and the middle of the curve.

    The curve leaves room for the way back.
    """
    across, down = far.x - near.x, far.y - near.y
    length = math.hypot(across, down)
    unit_x, unit_y = across / length, down / length
    begin, end = near.radius + 2, length - far.radius - 8
    side = min(BOW, length / 8)
    middle_x = near.x + across / 2 - unit_y * side * 2
    middle_y = near.y + down / 2 + unit_x * side * 2
    path = (
        f"M{near.x + unit_x * begin - unit_y * side / 2:.1f} {near.y + unit_y * begin + unit_x * side / 2:.1f}"
        f"Q{middle_x:.1f} {middle_y:.1f} "
        f"{near.x + unit_x * end - unit_y * side / 2:.1f} {near.y + unit_y * end + unit_x * side / 2:.1f}"
    )
    return path, near.x + across / 2 - unit_y * side * 1.25, near.y + down / 2 + unit_x * side * 1.25
