"""Definitions of a running broker or of a configuration, for a second broker with the same objects.

Messages are no part of the definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from spanwire.broker.broker import Broker
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.reserved_destinations import is_control
from spanwire.logs.levels import chosen_levels
from spanwire.model.destination import Destination
from spanwire.service.administration.connector_definitions import connector_definition, network_definition
from spanwire.service.administration.usage import usage_limits
from spanwire.service.config.model import BrokerConfiguration
from spanwire.transports.connector import TransportConnector

View = dict[str, object]
PAUSED: Final = "paused"
LIMITS: Final = ("memory_limit_bytes", "store_limit_bytes", "temporary_limit_bytes", "maximum_uncommitted")


class DefinedNetworking(Protocol):
    """The part of the network connectors used here (`spanwire.service.networking.network_connectors`)."""

    def definitions(self) -> list[View]:
        """Return the definition of each network connector."""
        ...


class DefinedBridges(Protocol):
    """The part of the bridges used here (`spanwire.service.children.bridge_process`)."""

    def rows(self) -> list[View]:
        """Return a row for each bridge."""
        ...


class Definitions:
    """The definitions of one running broker, one row for each object."""

    def __init__(
        self,
        broker: Broker,
        connectors: Sequence[TransportConnector],
        networking: DefinedNetworking,
        bridges: DefinedBridges | None,
    ) -> None:
        """``bridges`` is None for a broker without bridges."""
        self._broker_name: Final = broker.name
        self._overview: Final = broker.overview
        self._connectors: Final = connectors
        self._networking: Final = networking
        self._bridges: Final = bridges

    def rows(self) -> Iterator[View]:
        """Yield definitions: limits, destinations, subscriptions, connectors, strategies, bridges, loggers."""
        statistics = self._overview.statistics_of(self._overview.totals(False))  # its sums, not added up, are unused
        yield {"kind": "limits", **{name: getattr(statistics, name) for name in LIMITS}}
        yield from self._destinations()
        yield from self._subscriptions()
        for connector in self._connectors:
            yield connector_definition(connector.settings, is_started=connector.is_started)
        yield from self._networking.definitions()
        yield from self._strategies()
        for bridge in [] if self._bridges is None else self._bridges.rows():
            yield {"kind": "bridge", "name": bridge["name"], PAUSED: bridge["state"] == PAUSED}
        for row in chosen_levels():
            yield {"kind": "logger", "name": row["logger"], "level": row["level"]}

    def _destinations(self) -> Iterator[View]:
        for destination in self._overview.destinations():
            if destination.removed or not _is_defined(destination.name):
                continue
            view = self._overview.destination_view(destination)
            details = self._overview.destination_details(destination)
            yield {
                **_destination(destination.name, destination.policy),
                "memory_limit_bytes": view.memory_limit_bytes,
                "statistics_enabled": details.statistics_enabled,
                **({PAUSED: view.paused} if destination.name.is_queue else {}),
            }

    def _subscriptions(self) -> Iterator[View]:
        """Yield the durable subscriptions, except subscriptions of bridges, because bridges subscribe again."""
        for durable in self._overview.durables():
            terms = durable.terms
            if not terms.client_id.endswith(f"_inbound_{self._broker_name}"):
                yield {
                    "kind": "subscription",
                    "client_id": terms.client_id,
                    "name": terms.name,
                    "topic": terms.topic.qualified_name,
                    "selector": terms.selector or "",
                    "no_local": terms.no_local,
                }

    def _strategies(self) -> Iterator[View]:
        for watch in self._overview.strategies():
            strategy = self._overview.strategy_view(watch)
            yield {
                "kind": "strategy",
                "name": strategy.name,
                "max_slow_count": strategy.max_slow_count,
                "max_slow_ms": strategy.max_slow_ms,
                "max_since_ack_ms": 0 if strategy.max_since_ack_ms is None else strategy.max_since_ack_ms,
                "ignores_idle": strategy.ignores_idle,
                "ignores_network": strategy.ignores_network,
            }


def definition_rows(
    broker: Broker,
    connectors: Sequence[TransportConnector],
    networking: DefinedNetworking,
    bridges: DefinedBridges | None,
) -> Iterator[View]:
    """Return the definitions of a running broker, for the control socket (`Definitions`)."""
    return Definitions(broker, connectors, networking, bridges).rows()


def configured_rows(configuration: BrokerConfiguration, directory: Path) -> Iterator[View]:
    """Yield the definitions of a configuration: the objects of a newly started broker.

    ``directory`` is the directory of the journal, or the existing directory around the journal, for limits in percent
    of the disk.
    """
    limits = usage_limits(configuration.usage, directory if configuration.persistence.persistent else None)
    yield {
        "kind": "limits",
        "memory_limit_bytes": limits.memory_bytes,
        "store_limit_bytes": limits.store_bytes,
        "temporary_limit_bytes": limits.temporary_bytes,
        "maximum_uncommitted": configuration.max_uncommitted,
    }
    yield from _configured_destinations(configuration.destinations, PolicyMap(list(configuration.policies)))
    for settings in configuration.connectors:
        yield connector_definition(settings, is_started=settings.auto_start)
    for network in configuration.network_connectors:
        yield network_definition(network, is_started=network.auto_start, stores=configuration.stores)
    for bridge in (*configuration.bridges, *configuration.routes):
        yield {"kind": "bridge", "name": bridge.name, PAUSED: not bridge.auto_start}


def _configured_destinations(destinations: Iterable[Destination], policies: PolicyMap) -> Iterator[View]:
    for destination in destinations:
        if _is_defined(destination):
            policy = policies.entry_for(destination)
            yield {**_destination(destination, policy), "memory_limit_bytes": policy.memory_limit_bytes}


def _is_defined(destination: Destination) -> bool:
    """Return True for a destination of operators and clients, False for an internal one of the broker."""
    return not (destination.is_temporary or destination.is_advisory or is_control(destination))


def _destination(destination: Destination, policy: PolicyEntry) -> View:
    row: View = {
        "kind": "queue" if destination.is_queue else "topic",
        "name": destination.name,
        "producer_flow_control": policy.producer_flow_control,
        "blocked_warning_ms": policy.blocked_producer_warning_interval_ms,
    }
    return row if destination.is_queue else {**row, "audits_copies": policy.topic.audits_copies}
