"""Several configuration files as one network: which connector leads to which of the brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.discovery.group import MulticastSettings, parse_multicast
from spanwire.model.errors import ConfigurationError
from spanwire.network.connector import NetworkConnectorSettings, RemoteAddress
from spanwire.network.plan import NetworkPlan, PlannedBroker, PlannedLink
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration

LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})


@dataclass(frozen=True, slots=True)
class NetworkFiles:
    """The brokers of some files, by name; ``refused`` are the lines about files that cannot be read, ``strangers`` the
    connectors that lead to none of these brokers.
    """

    configurations: tuple[BrokerConfiguration, ...]
    refused: tuple[str, ...]
    plan: NetworkPlan
    strangers: tuple[str, ...]

    def named(self, name: str) -> BrokerConfiguration | None:
        """The first broker of this name."""
        return next((one for one in self.configurations if one.broker_name == name), None)


def read_network(paths: Sequence[str], environment: Mapping[str, str] | None = None) -> NetworkFiles:
    """All files; what cannot be honoured elsewhere than in a network is left out."""
    found: list[BrokerConfiguration] = []
    refused: list[str] = []
    for path in paths:
        try:
            found.append(load_configuration(path, environment=environment, skip_unsupported=True))
        except ConfigurationError as error:
            refused += str(error).splitlines()
    strangers: list[str] = []
    links: list[PlannedLink] = []
    for configuration in found:
        for connector in configuration.network_connectors:
            links += _links(configuration, connector, found, strangers)
    brokers = [PlannedBroker(one.broker_name, one.broker_id or one.broker_name, one.advisory_support) for one in found]
    return NetworkFiles(tuple(found), tuple(refused), NetworkPlan(brokers, links), tuple(strangers))


def place_of(configuration: BrokerConfiguration, connector: NetworkConnectorSettings) -> str:
    """File and line of a connector."""
    return f"{configuration.source}:{connector.line}"


def _links(
    near: BrokerConfiguration,
    connector: NetworkConnectorSettings,
    brokers: Sequence[BrokerConfiguration],
    strangers: list[str],
) -> list[PlannedLink]:
    links: list[PlannedLink] = []
    place = place_of(near, connector)
    ends = [] if connector.discovery is None else _announced(connector.discovery.agent, near, brokers)
    for remote in connector.remotes:
        known = [one for one in (_listening(address, brokers) for address in (remote, *remote.others)) if one]
        if not known:
            strangers.append(f"{place}: {remote.uri} of connector {connector.bridge.name} is none of these brokers")
        ends += known[:1]
    for far in ends:
        links.append(PlannedLink(near.broker_name, far.broker_name, connector.bridge, place))
        if connector.bridge.duplex:
            links.append(PlannedLink(far.broker_name, near.broker_name, connector.bridge, place, reverse=True))
    return links


def _announced(
    group: MulticastSettings, near: BrokerConfiguration, brokers: Sequence[BrokerConfiguration]
) -> list[BrokerConfiguration]:
    """The other brokers that meet there."""
    found: list[BrokerConfiguration] = []
    for broker in brokers:
        agents = [parse_multicast(one.discovery_uri) for one in broker.connectors if one.discovery_uri]
        places = [(agent.host, agent.port, agent.group) for agent in agents]
        if broker is not near and (group.host, group.port, group.group) in places:
            found.append(broker)
    return found


def _listening(remote: RemoteAddress, brokers: Sequence[BrokerConfiguration]) -> BrokerConfiguration | None:
    """The broker that listens there: the one of that host and port, else of a host that may be any."""
    at_port = [
        (broker, connector.host)
        for broker in brokers
        for connector in broker.connectors
        if connector.port == remote.port and connector.port != 0
    ]
    for broker, host in at_port:
        if host == remote.host or (host in LOCAL and remote.host in LOCAL):
            return broker
    open_to_all = [broker for broker, host in at_port if host in ("0.0.0.0", "::", "")]
    by_name = [broker for broker in open_to_all if broker.broker_name.lower() in remote.host.lower().split(".")]
    chosen = by_name or open_to_all
    return chosen[0] if len(chosen) == 1 else None
