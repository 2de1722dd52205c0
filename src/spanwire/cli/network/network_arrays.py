"""Converts the network of configuration files for the simulation. Needs the extra ``spark``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spanwire.broker.advisories.advisory_names import consumer_advisory
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.routing import NO_PATH
from spanwire.pipeline.simulation.graph import Graph, graph_of
from spanwire.pipeline.simulation.rules import Rules, limited
from spanwire.service.network_lint.network_plan import NetworkPlan, PlannedBroker, PlannedLink


def read_plan(plan: NetworkPlan, destination: Destination) -> tuple[Graph, Rules]:
    """Return the graph of brokers and links, and the rules for ``destination``.

    Raises:
        ConfigurationError: the network has static destinations or connectors with different priorities; only
            ``spanwire network route`` supports these.
    """
    numbers = {name: number for number, name in enumerate(plan.brokers)}
    _check_ids(list(plan.brokers.values()))
    for link in plan.links:
        settings = link.settings
        if settings.is_permitted(destination) and any(pattern.matches(destination) for pattern in settings.static):
            raise ConfigurationError(
                f"{link.location}: {destination} is a static destination of connector {settings.name}, which goes "
                "there also without consumers; only spanwire network route supports this"
            )
    graph = graph_of(
        len(numbers),
        np.array([numbers[link.near] for link in plan.links], np.int64),
        np.array([numbers[link.far] for link in plan.links], np.int64),
    )
    links = [plan.links[index] for index in graph.order]
    return graph, _rules(plan, links, destination)


def _rules(plan: NetworkPlan, links: Sequence[PlannedLink], destination: Destination) -> Rules:
    heard = [link for link in links if not link.settings.static_bridge]
    bases = {(link.settings.decrease_priority, link.settings.priority_base) for link in heard}
    if len(bases) > 1:
        raise ConfigurationError(
            "these connectors differ in decreaseNetworkConsumerPriority or consumerPriorityBase; only spanwire network "
            "route supports this"
        )
    decreases, base = bases.pop() if bases else (True, Rules().priority_base)

    def wants(link: PlannedLink) -> bool:
        silent = not plan.brokers[link.near].advisories or not plan.brokers[link.far].advisories
        return not silent and link.settings.is_demand(destination, NO_PATH, plan.brokers[link.near].broker_id)

    def joins(link: PlannedLink) -> bool:
        return link.settings.conduit and (not destination.is_queue or link.settings.conduit_network_queues)

    return Rules(
        consumer_ttl=_numbers(links, lambda link: limited(link.settings.consumer_ttl)),
        message_ttl=_numbers(links, lambda link: limited(link.settings.message_ttl)),
        hears=_truths(links, lambda link: plan.brokers[link.far].advisories and _hears(link, destination)),
        wants=_truths(links, wants),
        conduit=_truths(links, lambda link: link.settings.conduit),
        joins=_truths(links, joins),
        suppress=_truths(links, lambda link: link.settings.is_suppressed(destination)),
        decreases=decreases,
        priority_base=base,
        is_topic=not destination.is_queue,
    )


def _hears(link: PlannedLink, destination: Destination) -> bool:
    advisory = consumer_advisory(destination)
    topics = link.settings.advisory_topics()
    return any(parse_destination(f"topic://{topic}").matches(advisory) for topic in topics.split(",") if topic)


def _check_ids(brokers: Sequence[PlannedBroker]) -> None:
    known: dict[str, str] = {}
    for broker in brokers:
        other = known.setdefault(broker.broker_id, broker.name)
        if other != broker.name:
            raise ConfigurationError(
                f"brokers {other} and {broker.name} have the same id {broker.broker_id}; give each its own brokerId"
            )


def _numbers(links: Sequence[PlannedLink], value: Callable[[PlannedLink], int]) -> int | np.ndarray:
    numbers = [value(link) for link in links]
    return numbers[0] if len(set(numbers)) == 1 else np.array(numbers, np.int32)


def _truths(links: Sequence[PlannedLink], value: Callable[[PlannedLink], bool]) -> bool | np.ndarray:
    truths = [value(link) for link in links]
    return truths[0] if len(set(truths)) == 1 else np.array(truths, bool)
