"""``spanwire network simulate`` on a session of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.running import session_on
from spanwire.pipeline.simulation.graph import Graph, graph_of
from spanwire.pipeline.simulation.report import Naming, lines, summary, write
from spanwire.pipeline.simulation.rules import Rules
from spanwire.pipeline.simulation.simulation import simulate
from spanwire.pipeline.simulation.spread import Network
from spanwire.pipeline.simulation.topology import Connectors, both_ways, generated
from spanwire.pipeline.simulation.topology_file import read_connectors

ALL: Final = "ALL"
USUAL_SUBSCRIBERS: Final = 1_000
LOWEST_BASE: Final = -63  # with consumers 64 hops away the priority still fits into a Java byte
# What is known of ten million links comes back from each core: 300 MB.
SETTINGS: Final = {"spark.driver.memory": "3g", "spark.driver.maxResultSize": "0"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Where consumers are, and where to tell. ``subscribers`` is a number, `ALL`, or the usual number."""

    destination: str
    subscribers: str | None
    consumers: int
    seed: int
    master: str
    as_json: bool
    out: Path | None


def run_generated(kind: str, brokers: int, degree: int | None, duplex: bool, rules: Rules, choice: Choice) -> None:
    """Simulate a network of that kind."""
    connectors = generated(kind, brokers, degree, choice.seed)
    usual = "" if degree is None else f", degree {degree}"
    _run_connectors(connectors, brokers, duplex, rules, Naming(f"{kind}{usual}", "", 0), choice)


def run_file(path: Path, duplex: bool, rules: Rules, choice: Choice) -> None:
    """Simulate the network of a list of connectors."""
    connectors, names = read_connectors(path)
    _run_connectors(connectors, len(names), duplex, rules, Naming(str(path), "", 0, names), choice)


def _run_connectors(
    connectors: Connectors, brokers: int, duplex: bool, rules: Rules, naming: Naming, choice: Choice
) -> None:
    graph = graph_of(brokers, *both_ways(connectors, duplex))
    _run(graph, rules, Naming(naming.network, choice.destination, connectors[0].size, naming.brokers), choice)


def run_planned(
    read: Callable[[], tuple[Graph, Rules]], files: int, connectors: int, names: list[str], choice: Choice
) -> None:
    """Simulate the network of configuration files."""
    graph, rules = read()
    _run(graph, rules, Naming(f"{files} files", choice.destination, connectors, names), choice)


def _run(graph: Graph, rules: Rules, naming: Naming, choice: Choice) -> None:
    if rules.priority_base < LOWEST_BASE:
        raise ConfigurationError(f"consumerPriorityBase is {rules.priority_base}; {LOWEST_BASE} is the lowest here")
    goals = chosen_goals(graph.brokers, choice.subscribers, choice.seed)
    started = time.monotonic()
    with session_on(choice.master, "spanwire network simulate", SETTINGS) as spark:
        outcome = simulate(spark, Network(graph, rules, goals, choice.consumers), choice.seed)
    found = summary(outcome, naming, time.monotonic() - started, _resident_mib())
    if choice.out is not None:
        write(choice.out, outcome, found, naming)
    text = json.dumps(found, indent=2) if choice.as_json else "\n".join(lines(outcome, found, naming))
    sys.stdout.write(text + "\n")


def chosen_goals(brokers: int, subscribers: str | None, seed: int) -> np.ndarray:
    """The brokers with consumers, in an order that is as random. Raises `ConfigurationError`."""
    if subscribers == ALL:
        count = brokers
    elif subscribers is None:
        count = min(brokers, USUAL_SUBSCRIBERS)
    elif subscribers.isascii() and subscribers.isdecimal() and len(subscribers) <= 7 and int(subscribers) > 0:
        count = int(subscribers)
    else:
        raise ConfigurationError(f"--subscribers is {subscribers[:60]!r}; write a number from 1 on, or {ALL}")
    if count > brokers:
        raise ConfigurationError(f"--subscribers is {count:,}, and there are {brokers:,} brokers")
    return np.random.default_rng(seed).permutation(brokers)[:count]


def _resident_mib() -> int:
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib // (1024 if sys.platform != "darwin" else 1024 * 1024)
