"""Interprets the ``networkConnectors`` of a configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from spanwire.discovery.addresses.allowed_hosts import networks_of
from spanwire.discovery.addresses.composite import MAX_DEPTH, parse_composite
from spanwire.discovery.addresses.reconnect import OPTIONS as RECONNECT_OPTIONS
from spanwire.discovery.addresses.reconnect import ReconnectSettings
from spanwire.discovery.addresses.static import MASTER_SLAVE, SCHEMES, parse_list, parse_static
from spanwire.discovery.groups.agent_names import AGENTS
from spanwire.discovery.groups.agent_settings import parse_agent
from spanwire.discovery.groups.gossip_settings import GOSSIP, GossipSettings, parse_gossip
from spanwire.discovery.groups.sightings import FAILED_SIGHTING
from spanwire.documents.element import Element
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.network.connector.link import DiscoverySettings, NetworkConnectorSettings, RemoteAddress
from spanwire.network.demand.bridge_settings import DEFAULT_NAME, BridgeSettings
from spanwire.service.config.interpretation.addresses.connector_uri import take_settings
from spanwire.service.config.interpretation.addresses.failover_options import FailoverOptions
from spanwire.service.config.interpretation.addresses.remote_options import RemoteOptions
from spanwire.service.config.interpretation.addresses.uri import LATER_SCHEMES, is_tls, parse_uri, redacted
from spanwire.service.config.security.tls import Stores
from spanwire.service.config.tables.attribute_table import NAMED_SETTINGS, SSL_CONTEXT
from spanwire.service.config.tables.broker_attributes import NETWORK_CONNECTOR
from spanwire.service.config.tables.handling import NO_EFFECT, YES, Rule, Words, all_of, honoured, later
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import Findings
from spanwire.service.config.values.values import NUMBER, Settings, as_flag
from spanwire.tls.settings import ClientTlsSettings

MAX_DELAY_MS: Final = 24 * 3600 * 1000
NO_LIMIT: Final = -1  # attempts without limit, as in a client's URL; 0 is equivalent
DEFAULT_PORT: Final = 61616  # ActiveMQ's default
DECIMAL: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?", re.ASCII)
DISCOVERY: Final = "discovery"
FAILOVER: Final = "failover"
FLAT: Final = ("static", "simple")  # lists with separate members, also inside of other lists
FANOUT: Final = "fanout"
CLIENTS: Final = ("peer", "vm")  # schemes for clients only, not for links between brokers
WEB_PORTS: Final = {"http": 80, "https": 443}
TRANSPORTS: Final = ("tcp", "nio", "ssl", "nio+ssl", "auto", "auto+nio", "auto+ssl", "auto+nio+ssl", "http", "https")
FORCE_DURABLE: Final = "forceDurable"
ADVISED: Final = Rule(NO_EFFECT, note="a bridge reads advisories at a fixed pace")
JAVA: Final = Rule(NO_EFFECT, note="it tunes the Java implementation")


OWN_BRIDGES: Final = "custom bridges; Spanwire runs no Java classes"
CONNECTOR: Final = Words(
    settings={
        **honoured(NETWORK_CONNECTOR),
        "messageLoadBalancing": later(
            "load balancing by the words of Artemis",
            "remove it for ON_DEMAND, write <excludedDestinations> for OFF, <staticallyIncludedDestinations> for more",
        ),
        "redistributionDelay": later(
            "a delay of redistribution by the words of Artemis",
            "set replayDelay and replayWhenNoConsumers of the queue",
        ),
        **all_of(YES, "uri password remotePassword sendLoginToDiscovered autoStart"),
        "dispatchAsync": Rule(NO_EFFECT, ("true", "false"), "dispatch never waits for a socket"),
        "advisoryPrefetchSize": ADVISED,
        "advisoryAckPercentage": ADVISED,
        "gcDestinationViews": JAVA,
        "gcSweepTime": JAVA,
        "objectName": JAVA,
        "useBrokerNameAsIdSeed": JAVA,
        "useBrokerNamesAsIdSeed": JAVA,
        "useBrokerNameAsIdSees": JAVA,  # as the schema spells it
        **all_of(
            later("links by other words", "write uri, remove it"), "brokerURL discoveryURI localUri discoveryAgent"
        ),
        **all_of(later("links under the name of another broker"), "brokerName"),
        **all_of(later(OWN_BRIDGES), "bridgeFactory connectionFilter"),
    },
    children={
        "excludedDestinations": YES,
        "dynamicallyIncludedDestinations": YES,
        "staticallyIncludedDestinations": YES,
        "sslContext": YES,
        "durableDestinations": Rule(NO_EFFECT, note="the durable subscriptions of bridges are found in the store"),
        **all_of(later("links by other words", "write uri, remove it"), "discoveryAgent discoveryURI localUri"),
        **all_of(later(OWN_BRIDGES), "bridgeFactory connectionFilter"),
    },
    tables=(NETWORK_CONNECTOR,),
)
CONNECTORS: Final = Words(
    {},
    {
        "networkConnector": YES,
        "ldapNetworkConnector": later("brokers that a directory names", "write a <networkConnector> for each broker"),
        "multicastNetworkConnector": later(
            "links by other words", 'write <networkConnector uri="multicast://default"/>'
        ),
    },
)
LIST: Final = Words({}, {"queue": YES, "topic": YES})
NAMED: Final = Words(NAMED_SETTINGS, {})

Inner = Callable[[Element, str, Words], list[Element]]


@dataclass(frozen=True, slots=True)
class NetworkInterpreter:
    """Interprets the network connectors of a broker.

    ``inner`` returns checked inner elements, and ``own_stores`` reads the ``sslContext`` of a connector.
    """

    findings: Findings
    inner: Inner
    decryption: Decryption
    own_stores: Callable[[list[Element]], Stores]

    def connectors(self, broker: Element, stores: Stores) -> tuple[NetworkConnectorSettings, ...]:
        """Return all network connectors; faults are in the findings."""
        connectors: list[NetworkConnectorSettings] = []
        names: set[str] = set()
        for group in self.inner(broker, "networkConnectors", CONNECTORS):
            for element in self.inner(group, "networkConnector", CONNECTOR):
                take_settings(element, CONNECTOR, self.findings)
                contexts = self.inner(element, "sslContext", SSL_CONTEXT)
                connector = self._connector(element, self.own_stores(contexts) if contexts else stores)
                name = element.value("name") or DEFAULT_NAME
                if name in names:
                    self.findings.error(
                        element.line, f"a second <networkConnector> is called {name!r}; give each its own name"
                    )
                names.add(name)
                if connector is not None:
                    auto_start = Settings(element, self.findings).flag("autoStart", True)
                    written = element.attributes["uri"].value.strip()
                    connectors.append(replace(connector, auto_start=auto_start, written=written))
        return tuple(connectors)

    def _connector(self, element: Element, stores: Stores) -> NetworkConnectorSettings | None:
        bridge = self._bridge(element)
        uri = element.attributes.get("uri")
        if uri is None:
            self.findings.error(element.line, '<networkConnector> has no uri; write uri="static:(tcp://host:port)"')
            return None
        scheme = ""
        try:
            text = self._unfolded(uri.value)
            scheme = text.partition(":")[0].lower()
            if scheme in AGENTS:
                return self._discovering(element, bridge, text, stores)
            if scheme in SCHEMES:
                return self._listing(element, bridge, text, stores)
            if scheme == GOSSIP:
                return self._gossiping(element, bridge, text, stores)
        except ConfigurationError as error:
            self.findings.error(uri.line, str(error))
            return None
        self._refuse_scheme(uri.line, scheme)
        return None

    def _refuse_scheme(self, line: int, scheme: str) -> None:
        """Report an unsupported scheme of a connector's URI."""
        if scheme in CLIENTS:
            self.findings.error(line, f"{scheme}: is for clients and links no brokers; write static:(tcp://host:port)")
        elif scheme == FANOUT:
            self._refuse_fanout(line)
        else:
            self.findings.unknown(line, "discovery agent", scheme, [*SCHEMES, *AGENTS, DISCOVERY, GOSSIP], spelt=True)

    def _refuse_fanout(self, line: int) -> None:
        self.findings.not_yet(
            line,
            "fanout: of <networkConnector>",
            "one link to several brokers",
            "write static:(uri,uri), a link to each",
        )

    def _unfolded(self, text: str) -> str:
        """Return the URI inside of ``discovery:(agent)?options`` with the options.

        ``failover:(…)`` is returned as a list of one.

        Raises `ConfigurationError`.
        """
        text = text.strip()
        scheme = text.partition(":")[0].lower()
        if scheme == FAILOVER:
            return f"static:({text})"
        if scheme != DISCOVERY:
            return text
        composite = parse_composite(text)
        if len(composite.parts) != 1:
            raise ConfigurationError("discovery: has one agent; write discovery:(multicast://default)")
        inner = composite.parts[0]
        return f"{inner}{'&' if _has_options(inner) else '?'}{composite.query}" if composite.query else inner

    def _discovering(
        self, element: Element, bridge: BridgeSettings, text: str, stores: Stores
    ) -> NetworkConnectorSettings:
        """Return a connector with a link to each discovered broker. Raises `ConfigurationError`."""
        line = element.attributes["uri"].line
        agent = parse_agent(text)
        sends_login = self._sends_login(element, "any host in reach of the group can request the login")
        address, _, query = text.partition("?")
        pairs = [pair for pair in query.split("&") if pair.partition("=")[0] in RECONNECT_OPTIONS]
        discovery = DiscoverySettings(
            agent, address, ClientTlsSettings(stores.trust_store, stores.key_store), sends_login
        )
        reconnect = self._reconnect("&".join(pairs), line, text.partition(":")[0].lower(), FAILED_SIGHTING)
        return NetworkConnectorSettings(bridge, (), reconnect, element.line, discovery)

    def _sends_login(self, element: Element, danger: str) -> bool:
        """Return True if the login goes to brokers that were found, which is warned of."""
        sends_login = Settings(element, self.findings).flag("sendLoginToDiscovered", False)
        if sends_login:
            line = element.attributes["sendLoginToDiscovered"].line
            self.findings.warn(line, f"sendLoginToDiscovered of <networkConnector>: {danger}")
        return sends_login

    def _gossiping(
        self, element: Element, bridge: BridgeSettings, text: str, stores: Stores
    ) -> NetworkConnectorSettings | None:
        """Return a connector with links to seeds, and to brokers that they know. Raises `ConfigurationError`."""
        line = element.attributes["uri"].line
        gossip = parse_gossip(text)
        reconnect = self._reconnect(gossip.reconnect, line, GOSSIP, ReconnectSettings())
        seeds = [remote for remote in (self._remote(uri, line, stores) for uri in gossip.seeds) if remote is not None]
        if len(seeds) < len(gossip.seeds):
            return None
        networks = gossip.networks or networks_of([seed.host for seed in seeds])
        sends_login = self._sends_login(element, "a broker of the network can request the login for any allowed host")
        discovery = DiscoverySettings(
            GossipSettings(networks, gossip.max_links),
            f"{GOSSIP}:({','.join(seed.uri for seed in seeds)})",
            ClientTlsSettings(stores.trust_store, stores.key_store),
            sends_login,
        )
        return NetworkConnectorSettings(bridge, tuple(seeds), reconnect, element.line, discovery)

    def _listing(
        self, element: Element, bridge: BridgeSettings, text: str, stores: Stores
    ) -> NetworkConnectorSettings | None:
        """Return a connector with a link to each of the listed brokers, or to a single listed broker.

        Raises `ConfigurationError`.
        """
        line = element.attributes["uri"].line
        listed = parse_static(text)
        reconnect = self._reconnect(listed.options, line, text.partition(":")[0].lower(), ReconnectSettings())
        if listed.is_one:
            group = self._one_of(listed.uris, False, line, stores)
            remotes = [] if group is None else [group]
        else:
            uris = self._flat(listed.uris, line, 1)
            remotes = [remote for remote in (self._listed(uri, line, stores) for uri in uris) if remote is not None]
        return NetworkConnectorSettings(bridge, tuple(remotes), reconnect, element.line) if remotes else None

    def _flat(self, uris: Sequence[str], line: int, depth: int) -> list[str]:
        """Return the entries of a list and of plain lists inside. Raises `ConfigurationError`."""
        if depth > MAX_DEPTH:
            raise ConfigurationError(f"a URI has more than {MAX_DEPTH} lists inside each other")
        flat_uris: list[str] = []
        for uri in uris:
            inner = uri.partition(":")[0].lower()
            if inner not in FLAT:
                flat_uris.append(uri)
                continue
            listed = parse_static(uri)
            if listed.options:
                self.findings.error(line, f"options of {inner}: inside of a list have no meaning; write them outside")
            flat_uris += self._flat(listed.uris, line, depth + 1)
        return flat_uris

    def _listed(self, text: str, line: int, stores: Stores) -> RemoteAddress | None:
        """Return an entry of a list: an address, or one of several in ``failover:(…)`` or ``masterslave:(…)``."""
        scheme, _, rest = text.partition(":")
        if scheme.lower() not in (FAILOVER, MASTER_SLAVE):
            return self._remote(text, line, stores)
        try:
            if scheme.lower() == MASTER_SLAVE:
                return self._one_of(parse_static(text).uris, False, line, stores)
            uris, query = parse_list(FAILOVER, rest)
        except ConfigurationError as error:
            self.findings.error(line, str(error))
            return None
        options = FailoverOptions(query, line, self.findings)
        return self._one_of([options.nested(uri) for uri in uris], options.shuffles, line, stores)

    def _one_of(self, uris: Sequence[str], shuffled: bool, line: int, stores: Stores) -> RemoteAddress | None:
        """Return the addresses as one remote address, or None if an address is wrong."""
        remotes = [remote for remote in (self._remote(uri, line, stores) for uri in uris) if remote is not None]
        if len(remotes) < len(uris):
            return None
        return replace(remotes[0], others=tuple(remotes[1:]), shuffled=shuffled and len(remotes) > 1)

    def _bridge(self, element: Element) -> BridgeSettings:
        settings = Settings(element, self.findings)
        forced: list[Destination] = []
        return BridgeSettings(
            password=self._secret(element, "password"),
            remote_password=self._secret(element, "remotePassword"),
            excluded=self._destinations(element, "excludedDestinations"),
            included=self._destinations(element, "dynamicallyIncludedDestinations", forced),
            static=self._destinations(element, "staticallyIncludedDestinations"),
            forced_durable=tuple(forced),
            **NETWORK_CONNECTOR.values(settings),
        )

    def _secret(self, element: Element, name: str) -> Secret | None:
        if name not in element.attributes:
            return None
        try:
            return Settings(element, self.findings).secret(name, self.decryption)
        except ConfigurationError as error:
            self.findings.error(element.attributes[name].line, f"{name} of <networkConnector>: {error}")
            return None

    def _destinations(
        self, element: Element, name: str, forced: list[Destination] | None = None
    ) -> tuple[Destination, ...]:
        """Return the names and patterns of a list.

        Append topics with ``?forceDurable=true`` to ``forced`` as well.
        """
        destinations: list[Destination] = []
        for group in self.inner(element, name, LIST):
            for kind_name, kind in (("queue", QUEUE), ("topic", TOPIC)):
                for entry in self.inner(group, kind_name, NAMED):
                    if "physicalName" not in entry.attributes:
                        self.findings.error(entry.line, f"<{kind_name}> of <{name}> has no physicalName")
                        continue
                    options = self._take_options(entry)
                    destination = Settings(entry, self.findings).destination("physicalName", kind, pattern=True)
                    if destination is not None:
                        destinations.append(destination)
                        if self._forces(entry, options, forced is not None) and forced is not None:
                            forced.append(destination)
        return tuple(destinations)

    def _take_options(self, entry: Element) -> str:
        """Remove the options after a name and return them."""
        attribute = entry.attributes["physicalName"]
        attribute.value, _, options = attribute.value.partition("?")
        return options

    def _forces(self, entry: Element, options: str, allowed: bool) -> bool:
        line = entry.attributes["physicalName"].line
        forces = False
        for pair in (part for part in options.split("&") if part):
            name, _, value = pair.partition("=")
            flag = as_flag(value)
            if name != FORCE_DURABLE or not allowed:
                self.findings.unknown(line, f"option of <{entry.name}>", name, [FORCE_DURABLE] if allowed else [])
            elif flag is None:
                self.findings.error(line, f"the option {name} of <{entry.name}> must be true or false")
            else:
                forces = flag
        return forces

    def _remote(self, text: str, line: int, stores: Stores) -> RemoteAddress | None:
        inner = text.partition(":")[0].lower()
        if inner == FANOUT:
            self._refuse_fanout(line)
            return None
        if inner in (*SCHEMES, *AGENTS, FAILOVER, DISCOVERY, GOSSIP, *CLIENTS) and inner not in TRANSPORTS:
            self.findings.error(line, f"{inner}: is no address of one broker, as is wanted here; write tcp://host:port")
            return None
        uri = parse_uri(text, lambda reason: self.findings.error(line, reason))
        if uri is None:
            return None
        if uri.scheme in LATER_SCHEMES:
            word = f"the transport {uri.scheme}:// of a network connector"
            self.findings.not_yet(line, word, LATER_SCHEMES[uri.scheme], "write tcp://host:port, remove it")
            return None
        if uri.scheme not in TRANSPORTS:
            self.findings.unknown(line, "transport of a network connector", uri.scheme, TRANSPORTS, spelt=True)
            return None
        port = uri.port
        if port is None:
            port = WEB_PORTS.get(uri.scheme, DEFAULT_PORT)
            self.findings.warn(line, f"the uri {redacted(text)} names no port; {port} is taken")
        if not uri.host or port == 0:
            self.findings.error(line, f"the uri {redacted(text)} names no host or port; write tcp://host:port")
            return None
        options = RemoteOptions(uri, line, self.findings)
        host = f"[{uri.host}]" if ":" in uri.host else uri.host
        address = f"{uri.scheme}://{host}:{port}"
        tls = options.tls(f"the address {address}", stores) if is_tls(uri) else None
        return RemoteAddress(address, uri.host, port, tls, options.max_inactivity_ms, options=options.socket_options())

    def _reconnect(self, query: str, line: int, agent: str, default: ReconnectSettings) -> ReconnectSettings:
        """Return the agent's options for reconnecting."""
        values: dict[str, str] = {}
        for pair in (part for part in query.split("&") if part):
            name, _, value = pair.partition("=")
            values[name] = value.strip()
        known = {
            "initialReconnectDelay": default.initial_delay_ms,
            "maxReconnectDelay": default.max_delay_ms,
            "maxReconnectAttempts": default.max_attempts,
            "minConnectTime": default.min_connect_ms,
        }
        for name, value in values.items():
            if name in known:
                lowest = NO_LIMIT if name == "maxReconnectAttempts" else 0
                if NUMBER.fullmatch(value) and lowest <= int(value) <= MAX_DELAY_MS:
                    known[name] = max(0, int(value))
                else:
                    wanted = f"must be a whole number from {lowest} to {MAX_DELAY_MS}"
                    self.findings.error(line, f"the option {name} of {agent}: {wanted}")
            elif name not in ("useExponentialBackOff", "backOffMultiplier"):
                self.findings.unknown(line, f"option of {agent}:", name, RECONNECT_OPTIONS, spelt=True)
        exponential = as_flag(values.get("useExponentialBackOff", "true" if default.exponential else "false"))
        multiplier = values.get("backOffMultiplier", "2")
        if exponential is None:
            self.findings.error(line, f"the option useExponentialBackOff of {agent}: must be true or false")
        if not DECIMAL.fullmatch(multiplier) or float(multiplier) < 1:
            self.findings.error(line, f"the option backOffMultiplier of {agent}: must be a number from 1 on")
            multiplier = "2"
        return ReconnectSettings(
            initial_delay_ms=known["initialReconnectDelay"],
            max_delay_ms=known["maxReconnectDelay"],
            exponential=exponential is not False,
            multiplier=float(multiplier),
            max_attempts=known["maxReconnectAttempts"],
            min_connect_ms=known["minConnectTime"],
        )


def _has_options(text: str) -> bool:
    """Return True if a URI has options outside of parentheses; inner options belong to inner URIs."""
    return "?" in text.rpartition(")")[2]
