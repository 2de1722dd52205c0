"""Follows demand from broker to broker: all subscriptions for consumers, and advisories about them.

Advisories about a row go over all links that lead to its broker, except to brokers of its path; each makes the next row
there, or none. All rows of one distance are processed before those of the next, in the order of their creation. A
network in which each step takes the same time behaves in this way.

A row is a subscription of a bridge: its link, its broker, and the brokers that it stands for, the consumer's first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.graph import Graph
from spanwire.pipeline.simulation.rules import Rules

CHUNK: Final = 1 << 20  # advisories processed together; some 50 MB


@dataclass(frozen=True, slots=True)
class Rows:
    """Subscriptions of one distance; ``path`` has a column for each represented broker."""

    goal: np.ndarray  # index of the goal
    at: np.ndarray  # broker
    link: np.ndarray
    weight: np.ndarray  # number of equal subscriptions
    path: tuple[np.ndarray, ...]

    def part(self, chosen: slice | np.ndarray) -> Rows:
        """Return some of the rows."""
        return Rows(
            self.goal[chosen],
            self.at[chosen],
            self.link[chosen],
            self.weight[chosen],
            tuple(column[chosen] for column in self.path),
        )


@dataclass(slots=True)
class Demand:
    """The settled demand of each link.

    ``subscriptions`` and ``frames`` count subscriptions and advisories about them. ``nearest`` is the distance of the
    nearest consumer (0: none), ``preferred`` the number of subscriptions at that distance. ``by_hops`` counts
    subscriptions by the length of their paths. The numbers are exact, or else upper bounds.
    """

    subscriptions: np.ndarray
    frames: np.ndarray
    nearest: np.ndarray
    preferred: np.ndarray
    by_hops: np.ndarray
    exact: bool = True


def no_demand(links: int) -> Demand:
    """Return the demand without consumers."""
    return Demand(np.zeros(links), np.zeros(links), np.zeros(links, np.int8), np.zeros(links), np.zeros(MAX_PATH + 1))


class DemandFollower:
    """Follows the demand of ``consumers`` consumers at each goal.

    If no link joins the demand of different brokers, the goals are independent and may be followed in different tasks.
    """

    def __init__(self, graph: Graph, rules: Rules, goals: np.ndarray, consumers: int = 1) -> None:
        self.demand: Final[Demand] = no_demand(graph.links)
        self._graph: Final = graph
        self._rules: Final = rules
        self._goals: Final = goals
        self._consumers: Final = consumers
        self._served_pairs = ServedPairs()
        self._open: np.ndarray | None = None  # links of each broker without a subscription, if all links join demand

    def run(self) -> Demand:
        """Follow all demand."""
        goal_indexes = np.arange(self._goals.size)
        if self._rules.has_joins:
            if bool(np.all(self._rules.joins)):
                self._open = np.bincount(self._graph.near, minlength=self._graph.brokers)
            self._by_distance(self._first(goal_indexes))
        elif self._rules.has_suppress:
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
        while pending:  # the farthest first, so that the list stays short
            parts = self._chunks(pending.pop())
            first = next(parts, None)
            if first is None:
                continue
            pending += parts
            pending.append(self._next(first))

    def _chunks(self, rows: Rows) -> Iterator[Rows]:
        """Yield all rows in parts with at most `CHUNK` advisories, or with one row."""
        degree = self._graph.incoming[rows.at + 1] - self._graph.incoming[rows.at]
        total = np.cumsum(degree)
        start = 0
        while start < rows.at.size:
            done = int(total[start - 1]) if start else 0
            end = max(int(np.searchsorted(total, done + CHUNK, side="right")), start + 1)
            yield rows.part(slice(start, end))
            start = end

    def _first(self, goal_indexes: np.ndarray) -> Rows:
        """Return the subscriptions of direct neighbours of these goals."""
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
        """Return the subscriptions that advisories about ``rows`` lead to."""
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
        """Count the requested rows that become subscriptions, and return them."""
        rules, demand = self._rules, self.demand
        rows = asked if self._open is None else asked.part(self._open[asked.at] > 0)
        if rules.has_suppress and rows.at.size:
            rows = rows.part(self._best_routes(rows))
        if rules.has_joins and rows.at.size:
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
        """Return a mask of rows without a better route to the same consumer; record the served pairs."""
        keys, first = np.unique(rows.at.astype(np.int64) * self._goals.size + rows.goal, return_index=True)
        selected = ~_mask(self._rules.suppress, rows.link)
        selected[first[self._served_pairs.add(keys)]] = True
        return selected


class ServedPairs:
    """The pairs of a broker and a goal with a route.

    The pairs are sorted arrays, each more than twice as long as the next.
    """

    def __init__(self) -> None:
        self._parts: Final[list[np.ndarray]] = []

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Add sorted, different ``keys``; return a mask of the new ones."""
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
        """Remove the pairs of these brokers; a key is the broker times ``goals`` plus the goal."""
        remaining = [part[~brokers[part // goals]] for part in self._parts]
        self._parts.clear()
        self._parts.extend([part for part in remaining if part.size])


def expand(starts: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers from starts[broker] to starts[broker + 1] for each of the brokers ``at``.

    The first array has the index into ``at`` for each number.
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
