"""Interprets the tree of elements: looks every word up, collects all obstacles, and raises at the end."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.scheduler.schedule import DEFAULT_MAX_REPEAT, MAX_REPEAT, SchedulerSettings
from spanwire.documents.element import Attribute, Element
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.addresses.uri import connector_settings, redacted
from spanwire.service.config.interpretation.announcements import announcement
from spanwire.service.config.interpretation.persistence import PersistenceInterpreter
from spanwire.service.config.interpretation.plugins import PluginInterpreter
from spanwire.service.config.interpretation.published import PublishedInterpreter
from spanwire.service.config.interpretation.usage import UsageInterpreter
from spanwire.service.config.interpretation.virtual import VirtualInterpreter
from spanwire.service.config.model import BrokerConfiguration, TracingConfiguration, WebConfiguration, WebTls
from spanwire.service.config.policies.policies import PolicyInterpreter
from spanwire.service.config.readers.broker_uri import read_lists
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.service.config.security.security import SecurityInterpreter
from spanwire.service.config.security.tls import Stores, connector_tls, read_stores
from spanwire.service.config.security.user_files import RealmFile
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.tables import bridge_attributes, broker_attributes
from spanwire.service.config.tables.handling import COMMON, HONOURED, LATER, NO_EFFECT, ONLY, Rule, Words
from spanwire.service.config.values.decryption import Decryption
from spanwire.service.config.values.diagnostics import MAX_CLASS, Findings
from spanwire.service.config.values.values import Settings
from spanwire.service.config.web_mounts import WebMount, read_mounts
from spanwire.service.machine.local_zone import LocalZone
from spanwire.transports.base import ConnectorSettings

if TYPE_CHECKING:
    from spanwire.bridges.model.definition import BridgeDefinition
    from spanwire.network.connector.link import NetworkConnectorSettings
    from spanwire.service.config.interpretation.jms_bridges import BridgeInterpreter
    from spanwire.service.config.interpretation.network import NetworkInterpreter

MAX_BROKER_NAME: Final = 255  # characters; the name is part of directory names
LOGIN_CONFIG: Final = "java.security.auth.login.config"  # the Java property that names the JAAS configuration
CONTEXT_HOOKS: Final = frozenset(
    {"org.apache.activemq.hooks.SpringContextHook", "org.apache.activemq.hooks.osgi.SpringOsgiContextHook"}
)
NO_CONTEXT: Final = "there is no Spring context here to close"
IN_PROCESS: Final = "vm:"
BEAN: Final = "bean"
REFERENCE: Final = "#"  # begins the name of a bean in the value of an attribute
# Attributes whose value may be a bean as well. In others the character begins a text like any other.
OBJECTS: Final = frozenset("dataDirectoryFile deadLetterQueue directory discoveryUri uri".split())
OWN_CLASS: Final = "a Java class; Spanwire runs none"
NAMED: Final = ("queue", "topic")
PHYSICAL_NAME: Final = "physicalName"
LATER_ELEMENTS: Final = frozenset(name for name, rule in words.BROKER.children.items() if rule.kind == LATER)
FOREIGN_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._\-:]")  # ActiveMQ's rule for broker names


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Interprets a ``broker`` element."""

    findings: Findings
    base: Path
    variables: Variables
    decryption: Decryption

    def broker(self, broker: Element) -> BrokerConfiguration:
        """Return the configuration; valid only if the findings have no faults."""
        try:
            read_lists(broker)
        except ConfigurationError as error:
            self.findings.error(broker.line, f"<broker>: {error}")
        self.check(broker, words.BROKER)
        settings = Settings(broker, self.findings)
        self._vm_connector(broker)
        self.inner(broker, "managementContext", words.MANAGEMENT)
        self._shutdown_hooks(broker)
        self._start(broker)
        plugins = self.inner(broker, "plugins", words.PLUGINS)
        security = self._security()
        contexts = self.inner(broker, "sslContext", words.SSL_CONTEXT)
        stores = self._stores(contexts)
        values = broker_attributes.BROKER.values(settings)
        if values.get("data_directory") is not None:
            values["data_directory"] = self.base / values["data_directory"]
        usage = UsageInterpreter(self.findings, self.inner, self.variables.environment).usage(broker)
        return BrokerConfiguration(
            broker_name=self._broker_name(broker),
            connectors=self.connectors(broker, stores),
            network_connectors=self._network_connectors(broker, stores),
            bridges=self._bridges(broker),
            persistence=PersistenceInterpreter(self.findings, self.inner, self.base).persistence(
                broker, usage.store.limit_bytes
            ),
            usage=usage,
            destinations=self._destinations(broker),
            virtual=VirtualInterpreter(self.findings, self.inner).virtual(broker),
            scheduler=_scheduler(settings),
            upkeep=UpkeepSettings(**broker_attributes.UPKEEP.values(settings)),
            policies=PolicyInterpreter(self.findings, self.inner).policies(broker),
            plugins=PluginInterpreter(self.findings, self.inner).plugins(broker, plugins),
            runtime=PluginInterpreter(self.findings, self.inner).runtime(plugins),
            web=self._web(broker, stores),
            tracing=self._tracing(broker),
            stores=stores,
            authentication=security.authentication(plugins),
            authorization=security.authorization(plugins),
            source=self.findings.source,
            warnings=self.findings.warnings,
            skipped=self.findings.skipped,
            **values,
        )

    def _stores(self, contexts: list[Element]) -> Stores:
        return read_stores(contexts, self.findings, self.base, self.variables, self.decryption)

    def _network_connectors(self, broker: Element, stores: Stores) -> tuple[NetworkConnectorSettings, ...]:
        """Return the network connectors.

        Warn if advisories are off, so that bridges learn of no consumers here.
        """
        connectors: tuple[NetworkConnectorSettings, ...] = ()
        if any(child.name == "networkConnectors" for child in broker.children):
            interpreter = cast("type[NetworkInterpreter]", registry.load(registry.NETWORK_INTERPRETER))
            reader = interpreter(self.findings, self.inner, self.decryption, self._stores)
            connectors = reader.connectors(broker, stores)
        if not Settings(broker, self.findings).flag("advisorySupport", True):
            if any(not connector.bridge.static_bridge for connector in connectors):
                self.findings.warn(
                    broker.attributes["advisorySupport"].line,
                    "advisorySupport of <broker> is false: bridges to this broker learn of no consumers here, only "
                    "static ones forward",
                )
        return connectors

    def _bridges(self, broker: Element) -> tuple[BridgeDefinition, ...]:
        """Return the native JMS bridges of the broker."""
        groups = self.inner(broker, "jmsBridgeConnectors", bridge_attributes.CONNECTORS)
        if not any(group.children for group in groups):
            return ()
        interpreter = cast("type[BridgeInterpreter]", registry.load(registry.BRIDGE_INTERPRETER))
        name = broker.value("brokerName") or broker.value("name") or DEFAULT_BROKER_NAME
        return interpreter(self.findings, self.inner, self.decryption, name).bridges(groups)

    def check(self, element: Element, known: Words) -> None:
        """Report settings and inner elements that are unknown, of a later version, or without effect."""
        for name, setting in element.attributes.items():
            rule = known.settings.get(name) or COMMON.get(name)
            if rule is None or (name in OBJECTS and setting.value.startswith(REFERENCE)):
                self._other_setting(element, name, setting, known)
            else:
                self._check_setting(f"{name} of <{element.name}>", setting, rule, known.guards)
        for child in element.children:
            rule = known.children.get(child.name) or COMMON.get(child.name)
            if rule is None:
                self._other_element(element, child, known)
            elif rule.kind == LATER and not (rule.holder and _is_empty(child)):
                self._later(child.line, f"<{child.name}>", rule, known.guards)
                self._empty_names(child)
            elif rule.kind == NO_EFFECT:
                self.findings.warn(child.line, f"<{child.name}> has no effect: {rule.note}")
        if element.text.strip():
            self.findings.error(element.line, f"<{element.name}> contains text, which has no meaning; remove it")

    def _other_setting(self, element: Element, name: str, setting: Attribute, known: Words) -> None:
        """Report an attribute that is the name of an inner element, or unknown."""
        rule = known.children.get(name)
        word = f"{name} of <{element.name}>"
        if name in OBJECTS and name in known.settings:
            self.findings.error(setting.line, f"{word} names a bean, and none is built; write its value")
        elif rule is None:
            self.findings.unknown(setting.line, f"attribute of <{element.name}>", name, known.settings)
        elif rule.kind == HONOURED:
            advice = f"write <{name}> inside <{element.name}>"
            self.findings.error(setting.line, f"{word} names a bean, and none is built; {advice}")
        else:
            self._check_setting(word, setting, rule, known.guards)

    def _other_element(self, element: Element, child: Element, known: Words) -> None:
        """Report an element that is the name of an attribute, a bean, or unknown."""
        rule = known.settings.get(child.name)
        word = f"<{child.name}> in <{element.name}>"
        if rule is not None and rule.kind == LATER:
            self._later(child.line, word, rule, known.guards)
        elif rule is not None and rule.kind == NO_EFFECT:
            self.findings.warn(child.line, f"{word} has no effect: {rule.note}")
        elif rule is not None:
            advice = f'write {child.name}="…" at <{element.name}>'
            self.findings.error(child.line, f"{word} holds an object, and none is built; {advice}")
        elif child.name == BEAN and known is not words.BROKER:
            self.findings.not_yet(child.line, word, OWN_CLASS, guards=known.guards)
        else:
            self.findings.unknown(child.line, f"element in <{element.name}>", child.name, known.children)

    def _check_setting(self, word: str, setting: Attribute, rule: Rule, guards: bool) -> None:
        asks = setting.value.strip().lower() not in rule.values
        if rule.kind == NO_EFFECT and asks:
            self.findings.warn(setting.line, f"{word} has no effect: {rule.note}")
        elif rule.kind == LATER:
            self._later(setting.line, word, rule, guards)
        elif rule.kind == ONLY and asks:
            self._later(setting.line, f"{word} with another value than {' or '.join(rule.values)}", rule, guards)

    def _later(self, line: int, word: str, rule: Rule, guards: bool) -> None:
        self.findings.not_yet(line, word, rule.note, rule.advice, guards=guards or rule.guards)

    def _empty_names(self, element: Element) -> None:
        """Report empty physicalNames everywhere, also inside of unsupported elements."""
        for child in element.children:
            if child.value("physicalName") == "":
                line = child.attributes["physicalName"].line
                self.findings.error(line, f"physicalName of <{child.name}> is empty")
            self._empty_names(child)

    def inner(self, element: Element, name: str, known: Words) -> list[Element]:
        """Return all inner elements with a name, checked.

        An outer element with a single inner element of the same name stands for the inner element.
        """
        elements = []
        for child in element.children:
            if child.name != name:
                continue
            while len(child.children) == 1 and child.children[0].name == name and not child.attributes:
                child = child.children[0]
            if name in NAMED and PHYSICAL_NAME not in child.attributes and "name" in child.attributes:
                child.attributes[PHYSICAL_NAME] = child.attributes.pop("name")
            self.check(child, known)
            elements.append(child)
        return elements

    def _broker_name(self, broker: Element) -> str:
        settings = Settings(broker, self.findings)
        name = settings.text("brokerName")
        alias = settings.text("name")
        if alias is not None:
            line = broker.attributes["name"].line
            if name is not None and name != alias:
                self.findings.error(line, "name and brokerName of <broker> differ; keep brokerName")
            self.findings.warn(line, "name of <broker> is read as brokerName; write brokerName")
            name = name or alias
        if name is None:
            return DEFAULT_BROKER_NAME
        if not name or len(name) > MAX_BROKER_NAME:
            self.findings.error(broker.line, f"brokerName of <broker> must have 1 to {MAX_BROKER_NAME} characters")
            return DEFAULT_BROKER_NAME
        allowed = FOREIGN_CHARACTER.sub("_", name)
        if allowed != name:
            self.findings.warn(broker.line, f"brokerName is taken as {allowed!r}: other characters become underscores")
        return allowed

    def _security(self) -> SecurityInterpreter:
        path = Path(
            self.variables.value(LOGIN_CONFIG) or f"{self.variables.value('activemq.conf') or '.'}/login.config"
        )
        return SecurityInterpreter(self.findings, self.inner, path, self.variables.replace, self.decryption)

    def _shutdown_hooks(self, broker: Element) -> None:
        for hooks in self.inner(broker, "shutdownHooks", words.SHUTDOWN_HOOKS):
            for hook in hooks.children:
                class_name = hook.value("class") or ""
                if class_name in CONTEXT_HOOKS:
                    self.findings.warn(hook.line, f"the bean of class {class_name} has no effect: {NO_CONTEXT}")
                else:
                    shown = class_name[:MAX_CLASS] or "?"
                    self.findings.not_yet(hook.line, f"the shutdown hook {shown}", "custom shutdown hooks")

    def _start(self, broker: Element) -> None:
        if not Settings(broker, self.findings).flag("start", True):
            line = broker.attributes["start"].line
            self.findings.warn(line, "start of <broker> has no effect: spanwire start starts the broker at once")

    def _web(self, broker: Element, stores: Stores) -> WebConfiguration | None:
        """Return the address of the web process, which Spanwire alone has."""
        for web in self.inner(broker, "web", words.WEB):
            settings = Settings(web, self.findings)
            has_tls = WebTls(**broker_attributes.WEB_TLS.values(settings)).is_on
            options = {name: web.value(name) or "" for name in web.attributes}
            tls = connector_tls("<web>", options, stores, web.line, self.findings) if has_tls else None
            address = broker_attributes.WEB.values(settings)
            return WebConfiguration(**address, tls=tls, realm=self._realm(web), mounts=self._mounts(web))
        return None

    def _tracing(self, broker: Element) -> TracingConfiguration | None:
        """Return the settings of traces, which Spanwire alone has."""
        for tracing in self.inner(broker, "tracing", words.TRACING):
            return TracingConfiguration(**broker_attributes.TRACING.values(Settings(tracing, self.findings)))
        return None

    def _mounts(self, web: Element) -> tuple[WebMount, ...]:
        """Return the further paths of ActiveMQ's web applications."""
        try:
            return read_mounts(web.value("mounts") or "")
        except ValueError as error:
            self.findings.error(web.attributes["mounts"].line, f"mounts of <web>: {error}")
            return ()

    def _realm(self, web: Element) -> RealmFile | None:
        """Return the file of the web port's users."""
        written = web.attributes.get("realm")
        if written is None:
            return None
        realm = RealmFile(self.base / written.value.removeprefix("file:"))
        try:
            realm.read()
        except ConfigurationError as error:
            self.findings.error(written.line, str(error))
        return realm

    def _vm_connector(self, broker: Element) -> None:
        attribute = broker.attributes.get("vmConnectorURI")
        own = self._own_address(broker)
        if attribute is not None and attribute.value.strip().partition("?")[0] != own:
            self.findings.warn(
                attribute.line, f"vmConnectorURI of <broker> has no effect: clients in this process find it as {own}"
            )

    def _own_address(self, broker: Element) -> str:
        return f"{IN_PROCESS}//{broker.value('brokerName') or broker.value('name') or DEFAULT_BROKER_NAME}"

    def _in_process(self, broker: Element, uri: Attribute) -> None:
        """Warn about a connector for clients in the broker's process; such clients find the broker by name."""
        own = self._own_address(broker)
        asked = uri.value.strip().partition("?")[0].rstrip("/")
        if asked != own:
            self.findings.warn(
                uri.line,
                f"<transportConnector> at {redacted(asked)} has no effect: clients in this process find it as {own}",
            )

    def connectors(self, broker: Element, stores: Stores) -> tuple[ConnectorSettings, ...]:
        """Return the settings of all transport connectors; unusable ones leave findings."""
        connectors: list[ConnectorSettings] = []
        taken: list[tuple[ConnectorSettings, int]] = []
        for group in self.inner(broker, "transportConnectors", words.CONNECTORS):
            for connector in self.inner(group, "transportConnector", words.TRANSPORT_CONNECTOR):
                uri = connector.attributes.get("uri")
                if uri is None:
                    self.findings.error(connector.line, '<transportConnector> has no uri; write uri="tcp://host:port"')
                    continue
                if uri.value.strip().lower().startswith(IN_PROCESS):
                    self._in_process(broker, uri)
                    continue
                settings = connector_settings(uri.value, connector.value("name"), uri.line, self.findings, stores)
                discovery_uri = announcement(connector, self.findings)
                published = PublishedInterpreter(self.findings, self.inner).published(connector)
                if settings is not None:
                    settings = replace(settings, discovery_uri=discovery_uri, published=published)
                    settings = self._quotas(connector, settings)
                    connectors.append(settings)
                    if settings.auto_start:
                        self._own_port(settings, uri.line, taken)
        return tuple(connectors)

    def _own_port(self, settings: ConnectorSettings, line: int, taken: list[tuple[ConnectorSettings, int]]) -> None:
        """Report a port that an earlier connector of the file takes; the system would blame another program."""
        for other, place in taken:
            hosts = {settings.host.lower(), other.host.lower()}
            if settings.port and settings.port == other.port and (len(hosts) == 1 or _has_all(hosts)):
                reason = f"port {other.port} is that of {other.uri()} in line {place} already; give each its own"
                self.findings.error(line, reason)
                return
        taken.append((settings, line))

    def _quotas(self, connector: Element, settings: ConnectorSettings) -> ConnectorSettings:
        """Return the settings with limits and options per connection; 0 does not disable a limit."""
        values = broker_attributes.TRANSPORT_CONNECTOR.values(Settings(connector, self.findings))
        return replace(
            settings,
            cluster_filter=self._patterns(connector, "updateClusterFilter"),
            **values,
        )

    def _patterns(self, element: Element, name: str) -> tuple[str, ...]:
        """Return comma-separated regular expressions."""
        patterns: list[str] = []
        for pattern in (Settings(element, self.findings).text(name) or "").split(","):
            try:
                re.compile(pattern.strip())
            except re.error as error:
                line = element.attributes[name].line
                self.findings.error(line, f"{name}: {pattern.strip()!r} is no regular expression: {error}")
            else:
                patterns += [pattern.strip()] if pattern.strip() else []
        return tuple(patterns)

    def _destinations(self, broker: Element) -> tuple[Destination, ...]:
        destinations: list[Destination] = []
        for group in self.inner(broker, "destinations", words.DESTINATIONS):
            for name, kind in (("queue", QUEUE), ("topic", TOPIC)):
                for element in self.inner(group, name, words.DESTINATION):
                    destination = Settings(element, self.findings).physical_name(kind)
                    if destination is not None:
                        destinations.append(destination)
        return tuple(destinations)


def _scheduler(settings: Settings) -> SchedulerSettings | None:
    max_repeat = settings.number("maxSchedulerRepeatAllowed", DEFAULT_MAX_REPEAT, 0, MAX_REPEAT)
    return SchedulerSettings(max_repeat, LocalZone()) if settings.flag("schedulerSupport", False) else None


def _has_all(hosts: set[str]) -> bool:
    """Return True if one of two hosts stands for all IPv4 addresses, and the other one is such an address."""
    return "0.0.0.0" in hosts and not any(":" in host for host in hosts)


def _is_empty(element: Element) -> bool:
    return not (element.attributes or element.children or element.text.strip())


def replace_placeholders(element: Element, variables: Variables, findings: Findings) -> None:
    """Replace the placeholders of every setting; report placeholders without a value."""
    pending = [element]
    while pending:
        current = pending.pop()
        pending.extend(child for child in current.children if child.name not in LATER_ELEMENTS)
        for name, setting in current.attributes.items():
            word = f"{name} of <{current.name}>"
            if "#{" in setting.value:
                text = f"{word} holds an expression #{{…}}, which is not evaluated; write its value"
                findings.unresolved(setting.line, text, setting.value)
                continue
            try:
                setting.value = variables.replace(setting.value)
            except ConfigurationError as error:
                findings.unresolved(setting.line, f"{word}: {error}", setting.value)
