"""Demand counted without following it: so many subscriptions over each link for each distance, all at once.

A subscription goes on from broker to broker, but not back to where it came from. Where there is one way at most between
any two brokers that is all: the numbers are exact. Elsewhere a path may meet itself, which is not seen here: then they
are the most that there can be.
"""

from __future__ import annotations

import numpy as np

from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.demand_follower import Demand, no_demand
from spanwire.pipeline.simulation.graph import Graph, Opposites
from spanwire.pipeline.simulation.rules import Rules


def count(graph: Graph, rules: Rules, goals: np.ndarray, consumers: int, exact: bool) -> Demand:
    """The demand of ``consumers`` at each of ``goals``, as if no link joined or suppressed any; ``exact`` says whether
    the graph is a forest. Numbers above 2**53 are rounded.
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
