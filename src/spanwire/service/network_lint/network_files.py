"""Reads several configuration files as one network: the target brokers of each connector."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.discovery.groups.agent_settings import AgentSettings, parse_agent
from spanwire.discovery.groups.gossip_settings import GossipSettings
from spanwire.model.errors import ConfigurationError
from spanwire.network.connector.link import NetworkConnectorSettings, RemoteAddress
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.network_lint.network_facts import FileFacts, read_facts
from spanwire.service.network_lint.network_plan import NetworkPlan, PlannedBroker, PlannedLink

ADDRESS: Final = re.compile(r"[a-z+]{1,20}://(\[[0-9a-fA-F:.]{1,45}\]|[^\s,()?/:&\[\]]{1,255}):([0-9]{1,5})")
LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})


@dataclass(frozen=True, slots=True)
class NetworkFiles:
    """The brokers of some files, by name; ``errors`` are the lines about unreadable files.

    ``strangers`` describes the connectors to other brokers. In the plan every foreign address is an unknown broker.
    """

    configurations: tuple[BrokerConfiguration, ...]
    errors: tuple[str, ...]
    plan: NetworkPlan
    strangers: tuple[str, ...]
    facts: tuple[FileFacts, ...] = ()

    def facts_of(self, name: str) -> FileFacts:
        """Return the facts in the file of the first broker with a name."""
        matches = [facts for one, facts in zip(self.configurations, self.facts, strict=True) if one.broker_name == name]
        return matches[0] if matches else FileFacts()

    def brokers_at(self, uri: str) -> list[str]:
        """Return the names of the brokers with an address in a client's URI, in the order of the URI."""
        names: list[str] = []
        for host, port in ADDRESS.findall(uri):
            remote = RemoteAddress(uri, host.strip("[]"), int(port))
            broker = _listening_broker(remote, self.configurations)
            if broker is not None and broker.broker_name not in names:
                names.append(broker.broker_name)
        return names

    def broker_named(self, name: str) -> BrokerConfiguration | None:
        """Return the first broker with a name."""
        return next((one for one in self.configurations if one.broker_name == name), None)


def read_network(paths: Sequence[str], environment: Mapping[str, str] | None = None) -> NetworkFiles:
    """Return the network of all files, without unsupported settings of no effect on a network."""
    configurations: list[BrokerConfiguration] = []
    facts: list[FileFacts] = []
    errors: list[str] = []
    for path in paths:
        try:
            configurations.append(load_configuration(path, environment=environment, skip_unsupported=True))
            facts.append(read_facts(path))
        except ConfigurationError as error:
            errors += str(error).splitlines()
    strangers: list[str] = []
    links: list[PlannedLink] = []
    unknown: dict[str, PlannedBroker] = {}
    for configuration in configurations:
        for connector in configuration.network_connectors:
            links += _links(configuration, connector, configurations, strangers, unknown)
    brokers = [
        PlannedBroker(
            one.broker_name, one.broker_id or one.broker_name, one.advisory_support, PolicyMap(list(one.policies))
        )
        for one in configurations
    ]
    plan = NetworkPlan([*brokers, *unknown.values()], links)
    return NetworkFiles(tuple(configurations), tuple(errors), plan, tuple(strangers), tuple(facts))


def location_of(configuration: BrokerConfiguration, connector: NetworkConnectorSettings) -> str:
    """Return file and line of a connector."""
    return f"{configuration.source}:{connector.line}"


def _links(
    near: BrokerConfiguration,
    connector: NetworkConnectorSettings,
    brokers: Sequence[BrokerConfiguration],
    strangers: list[str],
    unknown: dict[str, PlannedBroker],
) -> list[PlannedLink]:
    links: list[PlannedLink] = []
    location = location_of(near, connector)
    agent = None if connector.discovery is None else connector.discovery.agent
    if isinstance(agent, GossipSettings):
        announced = _gossiping_brokers(near, brokers)
    else:
        announced = [] if agent is None else _announced_brokers(agent, near, brokers)
    ends = [one.broker_name for one in announced]
    for remote in connector.remotes:
        known = [one for one in (_listening_broker(address, brokers) for address in (remote, *remote.others)) if one]
        if not known:
            strangers.append(f"{location}: {remote.uri} of connector {connector.bridge.name} is none of these brokers")
            unknown[remote.uri] = PlannedBroker(remote.uri, remote.uri)
        ends.append(known[0].broker_name if known else remote.uri)
    if isinstance(agent, GossipSettings):  # one link to each, also to those that are seeds, and none to itself
        opened = _opened_by_others(near, announced) if connector.bridge.duplex else {near.broker_name}
        ends = [end for end in dict.fromkeys(ends) if end not in opened]
    for far in ends:
        links.append(PlannedLink(near.broker_name, far, connector.bridge, location))
        if connector.bridge.duplex:
            links.append(PlannedLink(far, near.broker_name, connector.bridge, location, reverse=True))
    return links


def _announced_brokers(
    group: AgentSettings, near: BrokerConfiguration, brokers: Sequence[BrokerConfiguration]
) -> list[BrokerConfiguration]:
    """Return the other brokers announced in a group."""
    announced: list[BrokerConfiguration] = []
    for broker in brokers:
        agents = [parse_agent(one.discovery_uri) for one in broker.connectors if one.discovery_uri]
        groups = [agent.description for agent in agents]
        if broker is not near and group.description in groups:
            announced.append(broker)
    return announced


def _gossiping_brokers(near: BrokerConfiguration, brokers: Sequence[BrokerConfiguration]) -> list[BrokerConfiguration]:
    """Return the other brokers with a gossip connector; a full mesh, as small networks are."""
    return [broker for broker in brokers if broker is not near and _gossip_bridges(broker)]


def _opened_by_others(near: BrokerConfiguration, others: Sequence[BrokerConfiguration]) -> set[str]:
    """Return the own name, and the brokers that open the duplex link of a pair: those with the lesser names."""
    openers = {one.broker_name for one in others if any(bridge.duplex for bridge in _gossip_bridges(one))}
    return {near.broker_name, *(name for name in openers if name < near.broker_name)}


def _gossip_bridges(broker: BrokerConfiguration) -> list[BridgeSettings]:
    """Return the settings of the links of each gossip connector."""
    return [
        one.bridge
        for one in broker.network_connectors
        if one.discovery is not None and isinstance(one.discovery.agent, GossipSettings)
    ]


def _listening_broker(remote: RemoteAddress, brokers: Sequence[BrokerConfiguration]) -> BrokerConfiguration | None:
    """Return the broker listening at an address: first by host and port, then by port alone."""
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
