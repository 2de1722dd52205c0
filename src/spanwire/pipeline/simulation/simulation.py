"""Simulates a network with consumers at some of its brokers, by all parts of this package.

If a part would exceed its limit, the outcome says so. Demand is then counted instead of followed, an upper bound;
distances and messages are determined for a sample of brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from spanwire.pipeline.simulation.counting import count
from spanwire.pipeline.simulation.demand_follower import Demand, DemandFollower
from spanwire.pipeline.simulation.flows import MAX_WAYS
from spanwire.pipeline.simulation.graph import is_forest
from spanwire.pipeline.simulation.reach import UNREACHED, WORD, nearest
from spanwire.pipeline.simulation.rules import Rules
from spanwire.pipeline.simulation.spread import Network, SparkSimulation

MAX_FOLLOWED: Final = 2_000_000_000  # advisories; 80 s of CPU
MAX_SEARCHED: Final = 5_000_000_000  # links times hops times words of 64 goals; 100 s of CPU
MAX_STARTS: Final = 20_000  # brokers whose messages are followed; a sample of more


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the work; tests use smaller ones."""

    followed: int = MAX_FOLLOWED
    searched: int = MAX_SEARCHED
    starts: int = MAX_STARTS
    ways: int = MAX_WAYS


USUAL: Final = Limits()


@dataclass(frozen=True, slots=True)
class Sharing:
    """One message of a queue from each of ``starts`` brokers.

    ``arrived`` and ``stuck`` count messages by hops. ``not_heard`` and ``no_way`` count messages that stay at the
    start, because no consumer is known there or no link leads to one.
    """

    starts: int
    arrived: np.ndarray
    stuck: np.ndarray
    not_heard: float
    no_way: float


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of a broker and a goal, for ``goals`` goals.

    ``heard`` counts pairs by hops in which the broker knows of the consumers; ``arrived`` counts the copies of a
    topic's messages, or is ``None`` if not determined.
    """

    goals: int
    heard: np.ndarray
    arrived: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a simulation; ``away`` is the distance of each broker to the nearest consumer."""

    network: Network
    forest: bool
    away: np.ndarray
    demand: Demand
    pairs: Pairs
    sharing: Sharing | None


def simulate(spark: SparkSession, network: Network, seed: int = 1, limits: Limits = USUAL) -> Outcome:
    """Simulate the network.

    Raises:
        ConfigurationError: a message has too many paths.
    """
    graph, rules = network.graph, network.rules
    forest = is_forest(graph)
    away = nearest(graph, network.goals)
    spread = SparkSimulation(spark, network)
    try:
        demand = _demand(spread, network, forest, limits)
        pairs = _pairs(spread, network, forest, demand, limits)
        sharing = None if rules.is_topic else _sharing(spread, network, away, demand, seed, limits)
    finally:
        spread.close()
    return Outcome(network, forest, away, demand, pairs, sharing)


def _demand(spread: SparkSimulation, network: Network, forest: bool, limits: Limits) -> Demand:
    graph, rules = network.graph, network.rules
    counted = count(graph, rules, network.goals, network.consumers, forest and not rules.has_joins)
    if counted.exact or counted.frames.sum() > _follow_limit(network, limits):
        return counted
    if rules.has_joins:  # the goals are not independent
        return DemandFollower(graph, rules, network.goals, network.consumers).run()
    return spread.demand()


def _follow_limit(network: Network, limits: Limits) -> float:
    """Return the number of counted advisories up to which demand is followed.

    If each link has at most one subscription, fewer advisories are followed than counted.
    """
    graph = network.graph
    if not np.all(network.rules.joins):
        return limits.followed
    advisories = float((np.diff(graph.incoming) * np.diff(graph.outgoing)).sum())
    return np.inf if advisories <= limits.followed else limits.followed


def _pairs(spread: SparkSimulation, network: Network, forest: bool, demand: Demand, limits: Limits) -> Pairs:
    graph, rules = network.graph, network.rules
    farthest = rules.farthest_demand
    wanted = None if rules.is_uniform else np.broadcast_to(np.asarray(rules.wants) & rules.hears, (graph.links,))
    if forest and not rules.is_topic:
        alone = replace(rules, conduit=True, joins=False, suppress=False)
        heard = count(graph, alone, network.goals, 1, exact=True).by_hops[: farthest + 1]
        return Pairs(network.goals.size, heard.astype(np.int64), None)
    goals = _searched_goals(network, farthest * (2 if rules.is_topic else 1), limits)
    heard = spread.reach(goals, rules.consumer_ttl, farthest, wanted)
    arrived = None
    if rules.is_topic and np.ndim(rules.message_ttl) == 0:
        arrived = spread.reach(goals, rules.message_ttl, rules.farthest_message, demand.subscriptions > 0)
    return Pairs(goals, heard, arrived)


def _searched_goals(network: Network, hops: int, limits: Limits) -> int:
    """Return the number of goals whose distances are determined."""
    words = max(limits.searched // max(network.graph.links * hops, 1), 1)
    return min(int(network.goals.size), words * WORD)


def _sharing(
    spread: SparkSimulation, network: Network, away: np.ndarray, demand: Demand, seed: int, limits: Limits
) -> Sharing | None:
    rules = network.rules
    if rules.is_uniform and rules.decreases and rules.priority_base < 0:
        return shared_by_distance(rules, away)
    if not demand.exact:
        return None
    brokers = network.graph.brokers
    starts = np.arange(brokers)
    if brokers > limits.starts:
        starts = np.sort(np.random.default_rng(seed).choice(brokers, limits.starts, replace=False))
    flow = spread.flows(demand, starts, limits.ways)
    unserved = flow.starts[flow.no_consumers > 0]
    return Sharing(
        starts.size,
        flow.arrived.sum(axis=0),
        flow.stuck.sum(axis=0),
        float((away[unserved] != UNREACHED).sum()),
        float((away[unserved] == UNREACHED).sum()),
    )


def shared_by_distance(rules: Rules, away: np.ndarray) -> Sharing:
    """Return the messages of all brokers if all connectors agree and the nearest consumers come first.

    Each message then takes a shortest path to one of the nearest consumers.
    """
    demand, message = rules.farthest_demand, rules.farthest_message
    reach = min(demand, message)
    hops = np.bincount(np.maximum(away, 0), weights=away >= 0, minlength=max(demand, message) + 2)
    stuck = np.zeros(message + 1)
    stuck[message] = hops[message + 1 : demand + 1].sum()
    return Sharing(
        away.size, hops[: reach + 1], stuck, float(hops[demand + 1 :].sum()), float((away == UNREACHED).sum())
    )
