"""Interprets ``jmsBridgeConnectors``: each inbound or outbound bridge becomes a bridge of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spanwire.bridges.files.bridge_beans import BRIDGE, read_bridge_beans
from spanwire.bridges.jndi.environment import check_name, read_environment
from spanwire.bridges.jndi.local_names import LocalNames
from spanwire.bridges.model.definition import (
    BridgeDefinition,
    ConnectionFactory,
    RetryPolicy,
    Source,
    Target,
)
from spanwire.bridges.model.directory import Directory
from spanwire.bridges.model.java_factory import JavaFactory
from spanwire.bridges.model.qualities import is_same_broker
from spanwire.bridges.model.steps import REPLY_CACHE_SIZE, ClearReplyTo, Convert, ProxyReplyTo, Step
from spanwire.bridges.model.this_broker import THIS_BROKER, bridge_reached_at
from spanwire.bridges.running.convertors import NAME as CONVERTOR
from spanwire.bridges.running.process import check_bridge
from spanwire.client.addressing.redaction import redacted
from spanwire.documents.element import Attribute, Element
from spanwire.ldap.ldap_url import parse_ldap_url
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError, InvalidSelectorError
from spanwire.model.secret import Secret
from spanwire.routes.readers.bridge_parameters import FOREVER, MAX_MS, MAX_RETRIES
from spanwire.selector.parser import parse_selector
from spanwire.service.config.readers.properties import Variables, read_properties
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.service.config.tables import bridge_attributes as words
from spanwire.service.config.tables.handling import Words
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_CLASS, MAX_WORD, Findings, read_text_file
from spanwire.service.config.values.values import Settings

MAX_BRIDGES: Final = 1_000  # bridges of one broker; each has two connections
MAX_REPLIES: Final = 100_000  # reply destinations of one bridge; each has a temporary queue and a consumer
FIRST_DELAY_MS: Final = 1_000  # default of initialReconnectDelay
LONGEST_DELAY_MS: Final = 30_000  # default of maximumReconnectDelay
MULTIPLIER: Final = 2.0  # default of backOffMultiplier
MAX_MULTIPLIER: Final = 100.0
PASS_THROUGH: Final = "org.apache.activemq.network.jms.SimpleJmsMessageConvertor"
JAVA_CLASS: Final = re.compile(r"[\w$]+(?:\.[\w$]+)+")
IN_PROCESS: Final = ("vm:", "peer:")
ANY_BROKER: Final = "tcp://127.0.0.1:61616"  # in place of this broker's address, for the checks

LDAP: Final = "ldap"  # a provider
JVM: Final = "jvm"  # a provider
OUTBOUND_TEMPLATE: Final = "jndiOutboundTemplate"
LOCAL_NAMES: Final = ("jndiLocalTemplate", "localConnectionFactoryName")

Inner = Callable[[Element, str, Words], list[Element]]


@dataclass(frozen=True, slots=True)
class Kind:
    """Queues or topics: the word in the names, and the words of the elements."""

    name: str
    kind: int
    connector: Words
    inbound: tuple[Words, Words]  # of the list and of one bridge
    outbound: tuple[Words, Words]


KINDS: Final = (
    Kind(
        "Queue",
        QUEUE,
        words.QUEUE_CONNECTOR,
        (words.INBOUND_QUEUES, words.INBOUND_QUEUE),
        (words.OUTBOUND_QUEUES, words.OUTBOUND_QUEUE),
    ),
    Kind(
        "Topic",
        TOPIC,
        words.TOPIC_CONNECTOR,
        (words.INBOUND_TOPICS, words.INBOUND_TOPIC),
        (words.OUTBOUND_TOPICS, words.OUTBOUND_TOPIC),
    ),
)


@dataclass(frozen=True, slots=True)
class Side:
    """A broker, and perhaps names under which its destinations are looked up first."""

    factory: ConnectionFactory
    names: LocalNames | None = None

    def destination(self, written: Destination) -> Destination:
        """Return the destination of a name, else the written destination."""
        found = None if self.names is None else self.names.destination(written.name)
        return written if found is None else found


@dataclass(frozen=True, slots=True)
class Sides:
    """Both brokers of a connector, with the client ids there."""

    local: Side
    remote: Side
    local_client: str | None
    remote_client: str | None
    retry: RetryPolicy
    cache_size: int  # reply destinations that are represented at a time
    convertors: dict[str, str | None]  # by direction


class BridgeInterpreter:
    """Interprets the native JMS bridges of a broker; ``inner`` returns checked inner elements."""

    def __init__(self, findings: Findings, inner: Inner, decryption: Decryption, broker_name: str) -> None:
        self._findings: Final = findings
        self._inner: Final = inner
        self._decryption: Final = decryption
        self._broker_name: Final = broker_name
        self._bridges: Final[dict[str, BridgeDefinition]] = {}
        self._connectors: Final[set[str]] = set()
        self._subscriptions: Final[dict[tuple[str, str], set[str]]] = {}  # names by broker and client id

    def bridges(self, groups: list[Element]) -> tuple[BridgeDefinition, ...]:
        """Return the bridges of all connectors; faults are in the findings."""
        for group in groups:
            for kind in KINDS:
                for connector in self._inner(group, f"jms{kind.name}Connector", kind.connector):
                    self._connector(connector, kind)
        if len(self._bridges) > MAX_BRIDGES:
            self._findings.error(groups[0].line, f"<jmsBridgeConnectors> has more than {MAX_BRIDGES} bridges")
        return tuple(self._bridges.values())

    def _connector(self, connector: Element, kind: Kind) -> None:
        name = self._connector_name(connector)
        convertors = {direction: self._convertor(connector, direction) for direction in ("inbound", "outbound")}
        bridges = [("inbound", bridge) for bridge in self._each(connector, kind, "inbound", kind.inbound)]
        bridges += [("outbound", bridge) for bridge in self._each(connector, kind, "outbound", kind.outbound)]
        if not bridges:
            self._findings.warn(connector.line, f"<{connector.name}> has no effect: it has no bridges")
            return
        sides = self._sides(connector, kind, name, convertors)
        if sides is not None:
            for direction, bridge in bridges:
                self._bridge(bridge, kind, name, direction, sides)

    def _each(self, connector: Element, kind: Kind, direction: str, tables: tuple[Words, Words]) -> Iterator[Element]:
        for group in self._inner(connector, f"{direction}{kind.name}Bridges", tables[0]):
            yield from self._inner(group, f"{direction}{kind.name}Bridge", tables[1])

    def _connector_name(self, connector: Element) -> str:
        name = connector.value("name") or connector.value("id")
        if name is None:
            name, number = connector.name, 1
            while name in self._connectors:
                number += 1
                name = f"{connector.name}-{number}"
        elif name in self._connectors:
            self._findings.error(connector.line, f"a second connector is named {name!r}; names must differ")
        self._connectors.add(name)
        return name

    def _convertor(self, connector: Element, direction: str) -> str | None:
        """Return the name of the convertor of a direction, or None for messages that stay as they are."""
        word = f"{direction}MessageConvertor"
        setting = connector.attributes.get(word)
        name = "" if setting is None else setting.value.strip()
        if setting is None or not name or name == PASS_THROUGH:
            return None
        if JAVA_CLASS.fullmatch(name) is not None:
            short = name.rpartition(".")[2][:MAX_WORD]
            self._findings.error(
                setting.line,
                f"{word} is the Java class {name[:MAX_CLASS]}, and Spanwire runs no Java classes; write it as the "
                f'Python function convert in {short}.py of the directory of --convertors, and write {word}="#{short}"',
            )
        elif CONVERTOR.fullmatch(name) is None:
            self._findings.error(
                setting.line, f"{word} {name[:MAX_WORD]!r} is no name of a convertor; write letters, digits, - and _"
            )
        return name

    def _sides(self, connector: Element, kind: Kind, name: str, convertors: dict[str, str | None]) -> Sides | None:
        settings = Settings(connector, self._findings)
        word = f"outbound{kind.name}ConnectionFactory"
        local = self._side(connector, f"local{kind.name}ConnectionFactory", LOCAL_NAMES)
        remote = self._side(connector, word, (OUTBOUND_TEMPLATE, f"{word}Name"))
        if remote is None:
            if f"outbound{kind.name}Connection" not in connector.attributes:
                self._findings.error(connector.line, f"<{connector.name}> {name} has no {word}; name the other broker")
            return None
        return Sides(
            self._with_login(connector, local or Side(ConnectionFactory(THIS_BROKER)), "local"),
            self._with_login(connector, remote, "outbound"),
            settings.text("localClientId"),
            settings.text("outboundClientId"),
            self._retry(connector),
            settings.number("replyToDestinationCacheSize", REPLY_CACHE_SIZE, 1, MAX_REPLIES),
            convertors,
        )

    def _side(self, connector: Element, name: str, names: tuple[str, str]) -> Side | None:
        """Return the broker of a factory, or of the name of a factory in the directory of a template."""
        for element in self._inner(connector, name, words.FACTORY):
            for java in self._inner(element, "java", words.JAVA):
                return Side(self._java_factory(java))
            return Side(
                ConnectionFactory(
                    self._url(element, element.attributes.get("brokerURL"), f"<{element.name}>"),
                    element.value("userName"),
                    self._secret(element, "password"),
                    element.value("trustStore"),
                    self._secret(element, "trustStorePassword"),
                    element.value("keyStore"),
                    self._secret(element, "keyStorePassword"),
                )
            )
        template, looked_up = names
        attribute = connector.attributes.get(looked_up)
        if attribute is None:
            return None
        for element in self._inner(connector, template, words.TEMPLATE):
            side = self._looked_up(connector, element, attribute)
            return Side(ConnectionFactory(ANY_BROKER)) if side is None else side  # after an error
        self._findings.error(attribute.line, f"{looked_up} of <{connector.name}> needs {template}")
        return Side(ConnectionFactory(ANY_BROKER))

    def _java_factory(self, java: Element) -> ConnectionFactory:
        """Return the factory of another JMS provider, by the provider for Java."""
        class_name, jars = (java.value("class") or "").strip(), (java.value("jars") or "").split()
        if JAVA_CLASS.fullmatch(class_name) is None:
            self._findings.error(java.line, f"class of <java> is {class_name[:MAX_CLASS]!r}, no name of a Java class")
        properties = [
            (prop.value("key") or "", Secret(self._decrypted(prop))) for prop in self._inner(java, "prop", words.PROP)
        ]
        factory = JavaFactory(class_name, tuple(properties), jars=tuple(jars))
        return ConnectionFactory(f"jvm:{class_name}", provider=JVM, java=factory)

    def _looked_up(self, connector: Element, template: Element, attribute: Attribute) -> Side | None:
        """Return the broker of a name in a directory; None after an error."""
        prefers = Settings(connector, self._findings).flag("preferJndiDestinationLookup", False)
        try:
            context = read_environment(self._environment(template))
            name = check_name(attribute.value)
            if isinstance(context, Directory):
                entry = str(parse_ldap_url(context.url).entry(name))
                directory = replace(context, finds_destinations=prefers)
                return Side(ConnectionFactory(entry, provider=LDAP, directory=directory))
            factory = context.factory(name)
        except ConfigurationError as error:
            self._findings.error(attribute.line, str(error))
            return None
        url = self._url(template, Attribute(factory.url, template.line), f"<{template.name}>")
        return Side(replace(factory, url=url), context if prefers else None)

    def _environment(self, template: Element) -> dict[str, str]:
        """Return the properties of a template; its own come before those of its file."""
        properties: dict[str, str] = {}
        file = template.attributes.get("file")
        if file is not None:
            name = file.value.strip().removeprefix("file:")
            if ":" in name.partition("/")[0]:
                raise ConfigurationError(f"the properties file {name[:MAX_WORD]!r} must be a file: location")
            path = Path(self._findings.source).parent / (name[2:] if name.startswith("///") else name)
            try:
                properties.update(read_properties(read_text_file(path).decode("utf-8")))
            except UnicodeDecodeError:
                raise ConfigurationError(f"the properties file {path} is not in UTF-8") from None
        for prop in self._inner(template, "prop", words.PROP):
            properties[prop.value("key") or ""] = self._decrypted(prop)
        return properties

    def _decrypted(self, prop: Element) -> str:
        secret = self._secret(prop, "value")
        return "" if secret is None else secret.reveal()

    def _url(self, factory: Element, attribute: Attribute | None, shown: str) -> str:
        """Return the URL of a factory; ``vm:`` with the name of this broker is this broker."""
        if attribute is None or not attribute.value.strip():
            self._findings.error(factory.line, f'{shown} has no brokerURL; write brokerURL="tcp://host:port"')
            return ANY_BROKER
        url = attribute.value.strip()
        if not url.lower().startswith(IN_PROCESS):
            return url
        if url.partition("?")[0].rstrip("/") == f"{THIS_BROKER}//{self._broker_name}":
            return THIS_BROKER
        self._findings.error(
            attribute.line,
            f"brokerURL {redacted(url)} is a broker in another process; write its address, such as tcp://host:61616, "
            f"or {THIS_BROKER}//{self._broker_name} for this broker",
        )
        return ANY_BROKER

    def _with_login(self, connector: Element, side: Side, word: str) -> Side:
        user, password = connector.value(f"{word}Username"), self._secret(connector, f"{word}Password")
        factory = side.factory
        if user is not None:
            factory = replace(factory, user_name=user)
        return Side(factory if password is None else replace(factory, password=password), side.names)

    def _secret(self, element: Element, name: str) -> Secret | None:
        attribute = element.attributes.get(name)
        if attribute is None:
            return None
        try:
            return Settings(element, self._findings).secret(name, self._decryption)
        except ConfigurationError as error:
            self._findings.error(attribute.line, f"{name} of <{element.name}>: {error}")
            return None

    def _retry(self, connector: Element) -> RetryPolicy:
        for policy in self._inner(connector, "reconnectionPolicy", words.POLICY):
            settings = Settings(policy, self._findings)
            attempts = settings.number("maxReconnectAttempts", FOREVER, FOREVER, MAX_RETRIES)
            first_ms = settings.number("initialReconnectDelay", FIRST_DELAY_MS, 1, MAX_MS)
            longest_ms = settings.number("maximumReconnectDelay", LONGEST_DELAY_MS, 1, MAX_MS)
            is_growing = settings.flag("useExponentialBackOff", False)
            multiplier = self._multiplier(settings)
            return RetryPolicy(attempts, first_ms, multiplier if is_growing else 1.0, longest_ms)
        return RetryPolicy(FOREVER, FIRST_DELAY_MS)

    def _multiplier(self, settings: Settings) -> float:
        text = settings.text("backOffMultiplier")
        try:
            value = MULTIPLIER if text is None else float(text)
        except ValueError:
            value = 0.0
        if not 1.0 <= value <= MAX_MULTIPLIER:
            settings.error_of("backOffMultiplier", f" must be a number from 1 to {MAX_MULTIPLIER:g}")
            return MULTIPLIER
        return value

    def _bridge(self, bridge: Element, kind: Kind, connector: str, direction: str, sides: Sides) -> None:
        settings = Settings(bridge, self._findings)
        remote_word, local_word = f"{direction}{kind.name}Name", f"local{kind.name}Name"
        is_inbound = direction == "inbound"
        if remote_word not in bridge.attributes:
            self._findings.error(bridge.line, f"<{bridge.name}> has no {remote_word}")
            return
        remote = settings.destination(remote_word, kind.kind, pattern=is_inbound and local_word in bridge.attributes)
        local = settings.destination(local_word, kind.kind, pattern=not is_inbound)
        if remote is None or (local is None and local_word in bridge.attributes):
            return
        name = self._bridge_name(bridge, f"{connector}.{direction}.{remote.name}")
        consumer = settings.text("consumerName")
        client = self._client_id(bridge, name, direction, sides, consumer)
        source_side, target_side = (sides.remote, sides.local) if is_inbound else (sides.local, sides.remote)
        source_name, target_name = (remote, local or remote) if is_inbound else (local or remote, remote)
        definition = BridgeDefinition(
            name,
            Source(source_side.factory, source_side.destination(source_name), self._selector(bridge), consumer, client),
            Target(target_side.factory, target_side.destination(target_name)),
            retry=sides.retry,
            written_at=f"{self._findings.source}:{bridge.line}",
        )
        self._add(bridge, definition, sides.cache_size, sides.convertors[direction])

    def _bridge_name(self, bridge: Element, default: str) -> str:
        """Return the id of a bridge, else a name with a number if several bridges have the same destination."""
        name = bridge.value("id")
        if name is not None:
            if name in self._bridges:
                self._findings.error(bridge.line, f"a second bridge has the id {name!r}; ids must differ")
            return name
        name, number = default, 1
        while name in self._bridges:
            number += 1
            name = f"{default}-{number}"
        return name

    def _client_id(self, bridge: Element, name: str, direction: str, sides: Sides, consumer: str | None) -> str | None:
        """Return the client id of the connection of a bridge to its source.

        The id of the connector is for its durable subscriptions, which belong to the id and share a connection. A
        broker accepts a client id once, so the other bridges, with connections of their own, add their name.
        """
        client = sides.remote_client if direction == "inbound" else sides.local_client
        if client is None:
            if consumer is not None:
                word = "outboundClientId" if direction == "inbound" else "localClientId"
                self._findings.error(bridge.line, f"consumerName of <{bridge.name}> needs {word} of the connector")
            return None
        if consumer is None:
            return f"{client}-{name}"
        factory = (sides.remote if direction == "inbound" else sides.local).factory
        names = self._subscriptions.setdefault((factory.url, client), set())
        if consumer in names:
            self._findings.error(
                bridge.line,
                f"a second bridge has the consumerName {consumer!r} under the client id {client!r}; names must differ",
            )
        elif names and factory.provider == JVM:
            self._findings.not_yet(
                bridge.line,
                f"a second bridge with consumerName under the client id {client!r} of a provider in Java",
                "several durable subscriptions of one client id",
                "put the bridge into a connector of its own with another client id",
            )
        names.add(consumer)
        return client

    def _selector(self, bridge: Element) -> str | None:
        text = bridge.value("selector")
        if text is None or not text.strip():
            return None
        try:
            parse_selector(text)
        except InvalidSelectorError as error:
            self._findings.error(bridge.attributes["selector"].line, f"selector of <{bridge.name}>: {error}")
        return text

    def _steps(
        self, settings: Settings, definition: BridgeDefinition, cache_size: int, convertor: str | None
    ) -> tuple[Step, ...]:
        conversion = () if convertor is None else (Convert(convertor),)
        if not settings.flag("doHandleReplyTo", True):
            return (ClearReplyTo(), *conversion)
        return conversion if is_same_broker(definition) else (ProxyReplyTo(cache_size), *conversion)

    def _add(self, bridge: Element, definition: BridgeDefinition, cache_size: int, convertor: str | None) -> None:
        source, target = definition.source, definition.target
        if source.factory.url == target.factory.url and source.destination == target.destination:
            self._findings.warn(
                bridge.line,
                f"the bridge {definition.name} does not start, because {source.destination} would go round to itself; "
                "name another broker or another destination",
            )
            return
        steps = self._steps(Settings(bridge, self._findings), definition, cache_size, convertor)
        definition = replace(definition, steps=steps)
        try:
            check_bridge(bridge_reached_at(definition, ANY_BROKER))
        except ConfigurationError as error:
            self._findings.error(bridge.line, str(error))
        self._bridges[definition.name] = definition


def bridges_beside(
    root: Element, broker: Element, findings: Findings, variables: Variables
) -> tuple[tuple[BridgeDefinition, ...], list[Element]]:
    """Return the JMS bridges that stand beside a broker as beans, and the beans that they need."""
    used = [element for element in root.children if BRIDGE.fullmatch(element.value("class") or "") is not None]
    name = broker.value("brokerName") or broker.value("name") or DEFAULT_BROKER_NAME
    try:
        found = read_bridge_beans(root, findings.source, variables.replace, variables.replace(name))
        for definition in found.bridges:
            check_bridge(bridge_reached_at(definition, ANY_BROKER))
    except ConfigurationError as error:
        findings.add_obstacle(str(error))
        return (), [*used, *root.children]  # the beans that a bridge needs are not known
    for line, text in found.warnings:
        findings.warn(line, text)
    return tuple(found.bridges), found.used
