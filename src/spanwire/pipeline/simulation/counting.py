"""Counts demand by distance without following it: subscriptions over each link, all at once.

A subscription goes on from broker to broker, but not back over its last link. With at most one path between any two
brokers the numbers are exact. Otherwise a path may meet itself unnoticed, and the numbers are upper bounds.
"""

from __future__ import annotations

import numpy as np

from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.demand_follower import Demand, no_demand
from spanwire.pipeline.simulation.graph import Graph, Opposites
from spanwire.pipeline.simulation.rules import Rules


def count(graph: Graph, rules: Rules, goals: np.ndarray, consumers: int, exact: bool) -> Demand:
    """Return the demand of ``consumers`` at each goal, as if no link joined or suppressed demand.

    ``exact`` must be true for a forest. Numbers above 2**53 are rounded.
    """
    demand = no_demand(graph.links)
    demand.exact = exact
    opposites = Opposites(graph)
    at = np.zeros(graph.brokers)
    at[goals] = consumers
    there = at[graph.far]
    demand.frames += np.where(rules.hears, there, 0.0)
    carried = np.where(np.asarray(rules.conduit), there > 0, there)
    for hops in range(1, MAX_PATH + 1):
        carried = np.where(
            np.asarray(rules.wants) & rules.hears & (hops <= np.asarray(rules.consumer_ttl)), carried, 0.0
        )
        total = carried.sum()
        if not total:
            break
        demand.subscriptions += carried
        demand.by_hops[hops] = total
        new = (demand.nearest == 0) & (carried > 0)
        demand.nearest[new] = hops
        demand.preferred[new] = carried[new]
        if hops == MAX_PATH:
            break
        advised = np.bincount(graph.near, weights=carried, minlength=graph.brokers)[graph.far] - opposites.sums(carried)
        carried = np.where(rules.hears, np.maximum(advised, 0.0), 0.0)
        demand.frames += carried
    return demand
