"""Paths of messages of a queue, sent at each of many brokers, while all consumers have room.

At each broker the consumers and subscriptions of the highest priority share the messages equally. A message visits no
broker twice and makes at most messageTTL hops of a link. A message without a further path is stuck. Each path is
followed with its share of the message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spanwire.model.routing import MAX_PATH, network_priority
from spanwire.pipeline.simulation.demand_follower import Demand, expand
from spanwire.pipeline.simulation.graph import Graph
from spanwire.pipeline.simulation.rules import Rules

STARTS: Final = 256  # starts followed together
NO_PRIORITY: Final = -1_000  # lower than any priority
NOTHING: Final = 0.5  # shares of a broker have the sum 0 or 1, apart from rounding
MAX_WAYS: Final = 2_000_000  # paths followed together; a mesh with a high messageTTL has more


@dataclass(frozen=True, slots=True)
class Flow:
    """The fate of one message from each start.

    ``arrived`` and ``stuck`` have a row per start and a column per number of hops. A row of both, plus ``no_consumers``
    for messages without any target at the start, has the sum 1.
    """

    starts: np.ndarray
    arrived: np.ndarray
    stuck: np.ndarray
    no_consumers: np.ndarray


class Flows:
    """Follows messages through the demand of ``consumers_at`` consumers at each broker."""

    def __init__(
        self, graph: Graph, rules: Rules, demand: Demand, consumers_at: np.ndarray, most_ways: int = MAX_WAYS
    ) -> None:
        self._most_ways: Final = most_ways
        self._graph: Final = graph
        self._consumers_at: Final = consumers_at.astype(np.float64)
        weight = demand.preferred if rules.decreases else demand.subscriptions
        self._weight: Final = weight[graph.by_near]
        self._far: Final = graph.far[graph.by_near]
        self._priority: Final = priorities(rules, demand.nearest[graph.by_near])
        self._ttl: Final = np.broadcast_to(np.asarray(rules.message_ttl), (graph.links,))[graph.by_near]
        wanted = np.bincount(graph.near, weights=demand.subscriptions > 0, minlength=graph.brokers)
        self._asked_for: Final = (wanted > 0) | (consumers_at > 0)

    def follow(self, starts: np.ndarray) -> Flow:
        """Follow messages from these brokers.

        Raises:
            OverflowError: there are more than ``most_ways`` paths.
        """
        flow = Flow(
            starts,
            np.zeros((starts.size, MAX_PATH + 1)),
            np.zeros((starts.size, MAX_PATH + 1)),
            np.where(self._asked_for[starts], 0.0, 1.0),
        )
        start = np.flatnonzero(self._asked_for[starts]).astype(np.int32)
        at, amount = starts[start].astype(np.int32), np.ones(start.size)
        path: tuple[np.ndarray, ...] = ()
        for hops in range(MAX_PATH + 1):
            row, link_index, share, here = self._shares(at, path)
            flow.arrived[:, hops] = np.bincount(start, weights=amount * here, minlength=starts.size)
            stays = np.bincount(row, weights=share, minlength=at.size) + here < NOTHING
            flow.stuck[:, hops] = np.bincount(start[stays], weights=amount[stays], minlength=starts.size)
            if link_index.size > self._most_ways:
                raise OverflowError
            if not link_index.size:
                break
            path = (*(column[row] for column in path), at[row])
            at, start, amount = self._far[link_index], start[row], amount[row] * share
        return flow

    def _shares(
        self, at: np.ndarray, path: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the next links of messages at these brokers with shares, and the shares of local consumers.

        The first array has the index into ``at`` for each next link, the second the position of the link by
        `Graph.by_near`.
        """
        row, link_index = expand(self._graph.outgoing, at)
        may = (self._weight[link_index] > 0) & (len(path) < self._ttl[link_index])
        for column in path:
            may &= self._far[link_index] != column[row]
        row, link_index = row[may], link_index[may]
        local = self._consumers_at[at]
        highest = np.where(local > 0, 0, NO_PRIORITY)
        np.maximum.at(highest, row, self._priority[link_index])
        best = self._priority[link_index] == highest[row]
        row, link_index = row[best], link_index[best]
        local = np.where(highest == 0, local, 0.0)
        whole = np.bincount(row, weights=self._weight[link_index], minlength=at.size) + local
        return row, link_index, self._weight[link_index] / whole[row], local / np.maximum(whole, 1.0)


def priorities(rules: Rules, hops: np.ndarray) -> np.ndarray:
    """Return the priorities of subscriptions by hops, as `spanwire.model.routing.network_priority`."""
    if not rules.decreases:
        return np.zeros(hops.size, np.int32)
    known = [network_priority(("",) * count, rules.priority_base) for count in range(MAX_PATH + 1)]
    return np.array(known, np.int32)[hops]
