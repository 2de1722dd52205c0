"""Runs ``spanwire network simulate`` on a session of its own."""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.route_runner import session_on
from spanwire.pipeline.simulation.graph import Graph, graph_of
from spanwire.pipeline.simulation.report import Naming, make_directory, summary, summary_lines, write
from spanwire.pipeline.simulation.rules import Rules
from spanwire.pipeline.simulation.simulation import simulate
from spanwire.pipeline.simulation.spread import Network
from spanwire.pipeline.simulation.topology import Connectors, directed_links, generate
from spanwire.pipeline.simulation.topology_file import read_connectors

ALL: Final = "ALL"
USUAL_SUBSCRIBERS: Final = 1_000
LOWEST_BASE: Final = -63  # lowest priority; 64 hops less still fit into a Java byte
# Each core returns the demand of ten million links: 300 MB.
SETTINGS: Final = {"spark.driver.memory": "3g", "spark.driver.maxResultSize": "0"}


@dataclass(frozen=True, slots=True)
class Choice:
    """Consumers and output of a simulation.

    ``subscribers`` is a number, `ALL`, or ``None`` for the default.
    """

    destination: str
    subscribers: str | None
    consumers: int
    seed: int
    master: str
    as_json: bool
    directory: Path | None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A network for a simulation."""

    network: Network
    naming: Naming


def generated_network(
    kind: str, brokers: int, degree: int | None, duplex: bool, rules: Rules, choice: Choice
) -> Prepared:
    """Generate a network of a topology."""
    connectors = generate(kind, brokers, degree, choice.seed)
    usual = "" if degree is None else f", degree {degree}"
    naming = Naming(f"{kind}{usual}", choice.destination, int(connectors[0].size))
    return _prepare(_build_graph(brokers, connectors, duplex), rules, naming, choice)


def listed_network(path: Path, duplex: bool, rules: Rules, choice: Choice) -> Prepared:
    """Return the network of a list of connectors."""
    connectors, names = read_connectors(path)
    naming = Naming(str(path), choice.destination, int(connectors[0].size), names)
    return _prepare(_build_graph(len(names), connectors, duplex), rules, naming, choice)


def planned_network(graph: Graph, rules: Rules, connectors: int, names: list[str], choice: Choice) -> Prepared:
    """Return the network of configuration files."""
    return _prepare(graph, rules, Naming("files", choice.destination, connectors, names), choice)


def _build_graph(brokers: int, connectors: Connectors, duplex: bool) -> Graph:
    return graph_of(brokers, *directed_links(connectors, duplex))


def _prepare(graph: Graph, rules: Rules, naming: Naming, choice: Choice) -> Prepared:
    if rules.priority_base < LOWEST_BASE:
        raise ConfigurationError(f"consumerPriorityBase is {rules.priority_base}; {LOWEST_BASE} is the lowest here")
    if choice.directory is not None:
        make_directory(choice.directory)
    goals = choose_goals(graph.brokers, choice.subscribers, choice.seed)
    return Prepared(Network(graph, rules, goals, choice.consumers), naming)


def run(prepared: Prepared, choice: Choice) -> None:
    """Simulate on a session and print the outcome.

    Raises:
        ConfigurationError: Spark fails.
    """
    try:
        with session_on(choice.master, "spanwire network simulate", SETTINGS) as spark:
            print_outcome(spark, prepared, choice)
    except (Py4JError, PySparkException) as error:
        raise ConfigurationError(f"Spark on {choice.master}: {cause(str(error))}") from None


def cause(text: str) -> str:
    """Return the line of Spark's error with the reason; in Java's report the line after a colon."""
    text_lines = text.splitlines() or [""]
    java_lines = [text_line[2:] for text_line in text_lines if text_line.startswith(": ")]
    return (java_lines or text_lines)[0][:300]


def print_outcome(spark: SparkSession, prepared: Prepared, choice: Choice) -> None:
    """Simulate, print the outcome, and write it to files if asked."""
    started = time.monotonic()
    outcome = simulate(spark, prepared.network, choice.seed)
    values = summary(outcome, prepared.naming, time.monotonic() - started, _resident_mib())
    if choice.directory is not None:
        write(choice.directory, outcome, values, prepared.naming)
    text = (
        json.dumps(values, indent=2) if choice.as_json else "\n".join(summary_lines(outcome, values, prepared.naming))
    )
    sys.stdout.write(text + "\n")


def choose_goals(brokers: int, subscribers: str | None, seed: int) -> np.ndarray:
    """Return the brokers with consumers, in random order.

    Raises:
        ConfigurationError: the number of brokers is invalid.
    """
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
