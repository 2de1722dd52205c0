"""Demand followed from broker to broker: every subscription that a consumer leads to, and every advisory about one.

A row is a subscription of a bridge: its link, the broker where it is, and the brokers that it stands for, that of the
consumer first. From it go advisories over all links that lead to its broker, but to no broker of its path; each of them
makes the next row there, or none. All rows of one distance are looked at before those of the next; rows of the same
distance in the order in which they were made. So a network in which everything takes the same time behaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.graph import Graph
from spanwire.pipeline.simulation.rules import Rules

CHUNK: Final = 1 << 20  # advisories that are looked at together: some 50 MB


@dataclass(frozen=True, slots=True)
class Rows:
    """Subscriptions of one distance; ``path`` has a column for each broker that they stand for."""

    goal: np.ndarray  # place in the list of consumers' brokers
    at: np.ndarray  # broker
    link: np.ndarray
    weight: np.ndarray  # so many subscriptions that have all of this in common
    path: tuple[np.ndarray, ...]

    def part(self, chosen: slice | np.ndarray) -> Rows:
        """Some of them."""
        return Rows(
            self.goal[chosen],
            self.at[chosen],
            self.link[chosen],
            self.weight[chosen],
            tuple(column[chosen] for column in self.path),
        )


@dataclass(slots=True)
class Demand:
    """What there is once all is settled, for each link: how many subscriptions and advisories about them, how far the
    nearest consumer is (0: there is none), and how many subscriptions are for one so near. ``by_hops`` counts
    subscriptions by the length of their paths. Exact, or else the most that there can be.
    """

    subscriptions: np.ndarray
    frames: np.ndarray
    nearest: np.ndarray
    preferred: np.ndarray
    by_hops: np.ndarray
    exact: bool = True


def no_demand(links: int) -> Demand:
    """Nobody consumes."""
    return Demand(np.zeros(links), np.zeros(links), np.zeros(links, np.int8), np.zeros(links), np.zeros(MAX_PATH + 1))


class DemandFollower:
    """Follows the demand of consumers at ``goals``, ``consumers`` at each of them. Where no link joins that of
    different brokers, the demand of each goal is a matter of its own, and may be followed elsewhere.
    """

    def __init__(self, graph: Graph, rules: Rules, goals: np.ndarray, consumers: int = 1) -> None:
        self.demand: Final[Demand] = no_demand(graph.links)
        self._graph: Final = graph
        self._rules: Final = rules
        self._goals: Final = goals
        self._consumers: Final = consumers
        self._served_pairs = ServedPairs()
        self._open: np.ndarray | None = None  # of each broker, its links without a subscription, where such is of use

    def run(self) -> Demand:
        """All of it."""
        goal_indexes = np.arange(self._goals.size)
        if self._rules.any_joins:
            if bool(np.all(self._rules.joins)):
                self._open = np.bincount(self._graph.near, minlength=self._graph.brokers)
            self._by_distance(self._first(goal_indexes))
        elif self._rules.any_suppress:
            for goal_index in goal_indexes:
                self._served_pairs = ServedPairs()
                self._by_distance(self._first(goal_indexes[goal_index : goal_index + 1]))
        else:
            self._in_any_order(self._first(goal_indexes))
        return self.demand

    def _by_distance(self, rows: Rows) -> None:
        while rows.at.size:
            rows = concatenate([self._next(part) for part in self._chunks(rows)])
            if self._open is not None:
                self._served_pairs.forget(self._open == 0, self._goals.size)

    def _in_any_order(self, rows: Rows) -> None:
        pending = [rows]
        while pending:  # the farthest first, so that few wait
            parts = self._chunks(pending.pop())
            first = next(parts, None)
            if first is None:
                continue
            pending += parts
            pending.append(self._next(first))

    def _chunks(self, rows: Rows) -> Iterator[Rows]:
        """All of ``rows``, in parts that lead to `CHUNK` advisories at most, or have one row."""
        degree = self._graph.incoming[rows.at + 1] - self._graph.incoming[rows.at]
        total = np.cumsum(degree)
        start = 0
        while start < rows.at.size:
            done = int(total[start - 1]) if start else 0
            end = max(int(np.searchsorted(total, done + CHUNK, side="right")), start + 1)
            yield rows.part(slice(start, end))
            start = end

    def _first(self, goal_indexes: np.ndarray) -> Rows:
        """The subscriptions of direct neighbours of these goals."""
        rules = self._rules
        row, links = expand(self._graph.incoming, self._goals[goal_indexes])
        goal_index = goal_indexes[row]
        hears = _mask(rules.hears, links)
        np.add.at(self.demand.frames, links[hears], float(self._consumers))
        ahead = hears & _mask(rules.wants, links) & _within(0, rules, links)
        goal_index, links = goal_index[ahead], links[ahead]
        weight = np.where(_mask(rules.conduit, links), 1.0, float(self._consumers))
        return self._add_subscriptions(
            Rows(
                goal_index.astype(np.int32),
                self._graph.near[links],
                links,
                weight,
                (self._goals[goal_index].astype(np.int32),),
            )
        )

    def _next(self, rows: Rows) -> Rows:
        """The subscriptions that advisories about ``rows`` lead to."""
        graph, rules = self._graph, self._rules
        row, links = expand(graph.incoming, rows.at)
        near = graph.near[links]
        advised = _mask(rules.hears, links)
        for column in rows.path:
            advised &= near != column[row]
        if len(rows.path) >= MAX_PATH:
            advised[:] = False
        row, links = row[advised], links[advised]
        np.add.at(self.demand.frames, links, rows.weight[row])
        ahead = _mask(rules.wants, links) & _within(len(rows.path), rules, links)
        row, links = row[ahead], links[ahead]
        path = (*(column[row] for column in rows.path), rows.at[row])
        return self._add_subscriptions(Rows(rows.goal[row], graph.near[links], links, rows.weight[row], path))

    def _add_subscriptions(self, asked: Rows) -> Rows:
        """Those of ``asked`` that become subscriptions, which are counted."""
        rules, demand = self._rules, self.demand
        rows = asked if self._open is None else asked.part(self._open[asked.at] > 0)
        if rules.any_suppress and rows.at.size:
            rows = rows.part(self._best_routes(rows))
        if rules.any_joins and rows.at.size:
            joins = _mask(rules.joins, rows.link)
            first = np.zeros(rows.at.size, bool)
            first[np.unique(rows.link, return_index=True)[1]] = True
            rows = rows.part(~joins | (first & (demand.subscriptions[rows.link] == 0)))
        hops = len(rows.path)
        if self._open is not None:
            np.subtract.at(self._open, rows.at, 1)
        np.add.at(demand.subscriptions, rows.link, rows.weight)
        demand.by_hops[hops] += rows.weight.sum()
        known = demand.nearest[rows.link]
        nearer = rows.link[(known == 0) | (known > hops)]
        demand.preferred[nearer] = 0.0
        demand.nearest[nearer] = hops
        best = demand.nearest[rows.link] == hops
        np.add.at(demand.preferred, rows.link[best], rows.weight[best])
        return rows

    def _best_routes(self, rows: Rows) -> np.ndarray:
        """Of which no better route to the same consumer is there; marks what is served."""
        keys, first = np.unique(rows.at.astype(np.int64) * self._goals.size + rows.goal, return_index=True)
        selected = ~_mask(self._rules.suppress, rows.link)
        selected[first[self._served_pairs.add(keys)]] = True
        return selected


class ServedPairs:
    """Which pairs of a broker and a goal have a route: sorted arrays, each more than twice as long as the next."""

    def __init__(self) -> None:
        self._parts: Final[list[np.ndarray]] = []

    def add(self, keys: np.ndarray) -> np.ndarray:
        """One more route for each of these different, sorted ``keys``; which of them are the first."""
        new = np.ones(keys.size, bool)
        for part in self._parts:
            positions = np.minimum(np.searchsorted(part, keys), part.size - 1)
            new &= part[positions] != keys
        fresh = keys[new]
        if fresh.size:
            self._parts.append(fresh)
        while len(self._parts) > 1 and 2 * self._parts[-1].size >= self._parts[-2].size:
            last = self._parts.pop()
            self._parts.append(np.sort(np.concatenate((self._parts.pop(), last)), kind="stable"))
        return new

    def forget(self, brokers: np.ndarray, goals: int) -> None:
        """Nobody will ask for these brokers; keys have so many goals."""
        remaining = [part[~brokers[part // goals]] for part in self._parts]
        self._parts.clear()
        self._parts.extend([part for part in remaining if part.size])


def expand(starts: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each of the brokers ``at`` in turn the numbers from starts[broker] to starts[broker + 1]: with each its place
    in ``at``.
    """
    first = starts[at]
    degree = starts[at + 1] - first
    row = np.repeat(np.arange(at.size, dtype=np.int32), degree)
    shift = (first - (np.cumsum(degree) - degree)).astype(np.int32)
    return row, np.arange(row.size, dtype=np.int32) + shift[row]


def _mask(values: bool | np.ndarray, links: np.ndarray) -> np.ndarray:
    return np.full(links.size, values) if isinstance(values, bool) else values[links]


def _within(hops: int, rules: Rules, links: np.ndarray) -> np.ndarray:
    ttl = rules.consumer_ttl
    return np.full(links.size, hops < ttl) if isinstance(ttl, int) else hops < ttl[links]


def concatenate(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.goal for part in parts]),
        np.concatenate([part.at for part in parts]),
        np.concatenate([part.link for part in parts]),
        np.concatenate([part.weight for part in parts]),
        tuple(np.concatenate(columns) for columns in zip(*(part.path for part in parts), strict=True)),
    )
