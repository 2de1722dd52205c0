"""Places the brokers of a map: its own broker in the middle, others in columns by their distance. Pure.

The places follow from the names alone, so brokers do not jump when a state or counter changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.web.console.network.known_network import KnownBroker, KnownNetwork

WIDTH: Final = 200  # units of a box
HEIGHT: Final = 44
ROW: Final = 58
COLUMN: Final = 300
MARGIN: Final = 12
ONE_SIDE: Final = 6  # remote brokers that all stand on the right; more stand on both sides


@dataclass(frozen=True, slots=True)
class Place:
    """The upper left corner of a broker's box."""

    broker: KnownBroker
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Curve:
    """The path of a link between two boxes; ``is_seen`` is False for one that is reported."""

    near: KnownBroker
    far: KnownBroker
    path: str
    is_seen: bool


@dataclass(frozen=True, slots=True)
class MapLayout:
    """A drawn map and its size."""

    places: list[Place]
    curves: list[Curve]
    width: float
    height: float


def layout(network: KnownNetwork) -> MapLayout:
    """Return the places of all brokers, and the curves of all links."""
    below: dict[str, list[KnownBroker]] = {key: [] for key in network.brokers}
    for broker in network.brokers.values():
        if broker.before is not None:
            below[broker.before].append(broker)
    own = next(iter(network.brokers.values()))
    peers = below[own.key]
    half = (len(peers) + 1) // 2 if len(peers) > ONE_SIDE else len(peers)
    at: dict[str, tuple[float, float]] = {}
    heights = [
        _column(side, below, at, sign) for side, sign in ((peers[:half], 1), (peers[half:], -1)) if side
    ]  # fmt: skip
    most = max([*heights, 1.0])
    if len(heights) == 2:
        for key, (x, y) in at.items():
            at[key] = x, y + (most - heights[0 if x > 0 else 1]) / 2
    at[own.key] = 0, (most - 1) / 2
    left = min(x for x, _ in at.values())
    places = {
        key: Place(network.brokers[key], MARGIN + (x - left) * COLUMN, MARGIN + y * ROW) for key, (x, y) in at.items()
    }
    pairs = [(own.key, peer.key) for peer in peers] + sorted(network.reported)
    curves = [
        Curve(places[near].broker, places[far].broker, _path(places[near], places[far]), near == own.key)
        for near, far in dict.fromkeys(pairs)
        if far != own.key
    ]
    right = max(place.x for place in places.values())
    return MapLayout(list(places.values()), curves, right + WIDTH + MARGIN, most * ROW - ROW + HEIGHT + 2 * MARGIN)


def _column(
    brokers: list[KnownBroker], below: dict[str, list[KnownBroker]], at: dict[str, tuple[float, float]], sign: int
) -> float:
    """Place the brokers of one side, with those behind them; return the number of rows."""
    row = 0.0
    waiting = [(broker, 1, False) for broker in reversed(brokers)]
    while waiting:
        broker, depth, is_done = waiting.pop()
        behind = below[broker.key]
        if behind and not is_done:
            waiting.append((broker, depth, True))
            waiting += [(one, depth + 1, False) for one in reversed(behind)]
            continue
        if behind:
            rows = [at[one.key][1] for one in behind]
            at[broker.key] = sign * depth, (min(rows) + max(rows)) / 2
        else:
            at[broker.key] = sign * depth, row
            row += 1
    return row


def _path(near: Place, far: Place) -> str:
    if near.x == far.x:
        x, bow = near.x + WIDTH, 40
        return f"M{x:g} {near.y + HEIGHT / 2:g}c{bow} 0 {bow} {far.y - near.y:g} 0 {far.y - near.y:g}"
    begin, end = (near, far) if near.x < far.x else (far, near)
    x, middle = begin.x + WIDTH, (begin.x + WIDTH + end.x) / 2
    top, low = begin.y + HEIGHT / 2, end.y + HEIGHT / 2
    return f"M{x:g} {top:g}C{middle:g} {top:g} {middle:g} {low:g} {end.x:g} {low:g}"
