"""Distributes the work for all consumers or senders over tasks of Spark, each with the whole network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.model.routing import MAX_PATH
from spanwire.pipeline.simulation.demand_follower import Demand, DemandFollower, no_demand
from spanwire.pipeline.simulation.flows import MAX_WAYS, STARTS, Flow, Flows
from spanwire.pipeline.simulation.graph import Graph
from spanwire.pipeline.simulation.reach import WORD, within_reach
from spanwire.pipeline.simulation.rules import Rules

ROWS: Final = 1 << 18  # rows of one batch; 8 MB
DEMAND: Final = "link int, subscriptions double, frames double, nearest byte, preferred double"
COUNTS: Final = "hops int, brokers bigint"
FLOWS: Final = "start int, arrived array<double>, stuck array<double>, no_consumers double"

Task = Callable[[int], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Network:
    """The data of all tasks: a graph, its rules, and ``consumers`` consumers at each goal."""

    graph: Graph
    rules: Rules
    goals: np.ndarray
    consumers: int


class SparkSimulation:
    """A network on a Spark session; `close` removes it from the executors."""

    def __init__(self, spark: SparkSession, network: Network) -> None:
        self._spark: Final = spark
        self._network: Final = network
        self._shared: Final[Broadcast] = spark.sparkContext.broadcast(network)
        self._tasks: Final = max(spark.sparkContext.defaultParallelism, 1)

    def close(self) -> None:
        """Remove the network from the executors."""
        self._shared.unpersist()

    def demand(self) -> Demand:
        """Follow the demand of each goal independently and return the sum."""
        tasks = min(self._tasks, self._network.goals.size)
        shared = self._shared

        def follow(part: int) -> Iterator[pa.RecordBatch]:
            network: Network = shared.value
            goals = network.goals[part::tasks]
            return demand_batches(DemandFollower(network.graph, network.rules, goals, network.consumers).run())

        return demand_of(self._run(follow, tasks, DEMAND), self._network.graph.links)

    def reach(self, goals: int, ttl: int | np.ndarray, farthest: int, open_links: np.ndarray | None) -> np.ndarray:
        """Return the numbers of brokers by hops from the first ``goals`` goals."""
        shared = self._shared
        links = None if open_links is None else self._spark.sparkContext.broadcast(open_links)

        def search(word: int) -> Iterator[pa.RecordBatch]:
            network: Network = shared.value
            some = network.goals[word * WORD : min((word + 1) * WORD, goals)]
            counts = within_reach(network.graph, some, ttl, farthest, None if links is None else links.value)
            yield pa.record_batch({"hops": np.arange(counts.size, dtype=np.int32), "brokers": counts})

        table = self._run(search, -(-goals // WORD), COUNTS)
        total = np.zeros(farthest + 1, np.int64)
        np.add.at(total, table.column("hops").to_numpy(), table.column("brokers").to_numpy())
        return total

    def flows(self, demand: Demand, starts: np.ndarray, most_ways: int = MAX_WAYS) -> Flow:
        """Follow messages from these brokers.

        Raises:
            ConfigurationError: a message has too many paths.
        """
        shared, shared_arguments = self._shared, self._spark.sparkContext.broadcast((demand, starts))

        def flow(part: int) -> Iterator[pa.RecordBatch]:
            network: Network = shared.value
            demand, starts = shared_arguments.value
            at = np.zeros(network.graph.brokers)
            at[network.goals] = network.consumers
            flows = Flows(network.graph, network.rules, demand, at, most_ways)
            for some in flows_of(flows, starts[part * STARTS : (part + 1) * STARTS]):
                yield flow_batch(some)

        table = self._run(flow, -(-starts.size // STARTS), FLOWS)
        if pc.min(table.column("start")).as_py() < 0:
            raise ConfigurationError(
                f"a message has more than {most_ways:,} ways here; set a lower messageTTL, or leave "
                "decreaseNetworkConsumerPriority on"
            )
        return flow_of(table)

    def _run(self, task: Task, count: int, schema: str) -> pa.Table:
        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from task(number)

        numbers = self._spark.range(0, count, 1, min(count, 4 * self._tasks))
        return numbers.mapInArrow(run, schema).toArrow()


def demand_batches(demand: Demand) -> Iterator[pa.RecordBatch]:
    """Yield the links with demand, and a row per distance, whose link is -1 minus the hops."""
    links = np.flatnonzero((demand.frames > 0) | (demand.subscriptions > 0)).astype(np.int32)
    for start in range(0, links.size, ROWS):
        some = links[start : start + ROWS]
        yield _demand_batch(
            some, demand.subscriptions[some], demand.frames[some], demand.nearest[some], demand.preferred[some]
        )
    hops = np.flatnonzero(demand.by_hops).astype(np.int32)
    empty = np.zeros(hops.size)
    yield _demand_batch(-1 - hops, demand.by_hops[hops], empty, empty.astype(np.int8), empty)


def _demand_batch(
    links: np.ndarray, subscriptions: np.ndarray, frames: np.ndarray, nearest: np.ndarray, preferred: np.ndarray
) -> pa.RecordBatch:
    names = ["link", "subscriptions", "frames", "nearest", "preferred"]
    return pa.record_batch([pa.array(column) for column in (links, subscriptions, frames, nearest, preferred)], names)


def demand_of(table: pa.Table, links: int) -> Demand:
    """Return the sum of the batches of several tasks."""
    demand = no_demand(links)
    for batch in table.to_batches():
        link, subscriptions, frames, nearest, preferred = (column.to_numpy() for column in batch.columns)
        hops = link < 0
        np.add.at(demand.by_hops, -1 - link[hops], subscriptions[hops])
        there = ~hops
        _add(demand, link[there], subscriptions[there], frames[there], nearest[there], preferred[there])
    return demand


def _add(
    demand: Demand,
    link: np.ndarray,
    subscriptions: np.ndarray,
    frames: np.ndarray,
    nearest: np.ndarray,
    preferred: np.ndarray,
) -> None:
    """Add rows of one task, which has each link at most once."""
    demand.subscriptions[link] += subscriptions
    demand.frames[link] += frames
    known = demand.nearest[link]
    nearer = (nearest > 0) & ((known == 0) | (nearest < known))
    demand.preferred[link] = np.where(
        nearer, preferred, demand.preferred[link] + np.where(nearest == known, preferred, 0)
    )
    demand.nearest[link] = np.where(nearer, nearest, known)


def flows_of(flows: Flows, starts: np.ndarray) -> Iterator[Flow]:
    """Yield flows for all ``starts``, divided until each part has few enough paths.

    A start with too many paths yields a flow whose start is -1 minus its number.
    """
    try:
        yield flows.follow(starts)
    except OverflowError:
        if starts.size == 1:
            nothing = np.zeros((1, MAX_PATH + 1))
            yield Flow(-1 - starts, nothing, nothing, np.zeros(1))
            return
        middle = starts.size // 2
        yield from flows_of(flows, starts[:middle])
        yield from flows_of(flows, starts[middle:])


def flow_batch(flow: Flow) -> pa.RecordBatch:
    """Return a row for each start."""
    return pa.record_batch(
        {
            "start": flow.starts.astype(np.int32),
            "arrived": pa.array(list(flow.arrived), pa.list_(pa.float64())),
            "stuck": pa.array(list(flow.stuck), pa.list_(pa.float64())),
            "no_consumers": flow.no_consumers,
        }
    )


def flow_of(table: pa.Table) -> Flow:
    """Return the flow of rows made by `flow_batch`."""
    arrived, stuck = (
        table.column(name).combine_chunks().flatten().to_numpy().reshape(-1, MAX_PATH + 1)
        for name in ("arrived", "stuck")
    )
    return Flow(table.column("start").to_numpy(), arrived, stuck, table.column("no_consumers").to_numpy())
