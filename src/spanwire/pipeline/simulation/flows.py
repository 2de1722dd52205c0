"""Where messages of a queue go that are sent at each of many brokers, when all consumers have room.

At each broker the consumers and subscriptions of the highest priority get the same share of what comes; a message goes
to no broker that it has passed, and makes no more hops than the messageTTL of the link says. What finds no way on stays
where it is. Every way is followed with the part of the message that goes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from spanwire.model.routing import MAX_PATH, network_priority
from spanwire.pipeline.simulation.demand_follower import Demand, expand
from spanwire.pipeline.simulation.graph import Graph
from spanwire.pipeline.simulation.rules import Rules

STARTS: Final = 256  # that are followed together
NO_PRIORITY: Final = -1_000  # lower than any
NOTHING: Final = 0.5  # less than one in all shares of a broker, whatever was rounded
MAX_WAYS: Final = 2_000_000  # of those together; in a mesh whose messageTTL is high there are more than can be followed


@dataclass(frozen=True, slots=True)
class Flow:
    """What became of one message from each start. ``arrived`` and ``stuck`` have a row for each start and a column for
    each number of hops; with what had ``no_consumers`` to go to where it was sent, a row is 1 in all.
    """

    starts: np.ndarray
    arrived: np.ndarray
    stuck: np.ndarray
    no_consumers: np.ndarray


class Flows:
    """Follows messages through the demand of consumers, so many at each broker of ``consumers_at``."""

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
        """What becomes of messages from these brokers. Raises `OverflowError` for more than ``most_ways``."""
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
        """Who gets messages at these brokers that came along ``path``: for each way on the place in ``at``, that among
        the links by `Graph.by_near`, and its share; and the share of consumers right here.
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
    """The priority of subscriptions for consumers so many hops away, as `spanwire.model.routing.network_priority`."""
    if not rules.decreases:
        return np.zeros(hops.size, np.int32)
    known = [network_priority(("",) * count, rules.priority_base) for count in range(MAX_PATH + 1)]
    return np.array(known, np.int32)[hops]
