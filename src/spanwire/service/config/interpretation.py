"""From the neutral tree to the model: every word is looked up, every obstacle noted, nothing raised before the end."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from spanwire.broker.policy import DEFAULT_DEAD_LETTER_QUEUE, DEFAULT_EXPIRE_PERIOD_MS, DeadLetterStrategy, PolicyEntry
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config import words
from spanwire.service.config.decryption import Decryption
from spanwire.service.config.document import Attribute, Element, Findings
from spanwire.service.config.model import (
    DEFAULT_BROKER_NAME,
    DEFAULT_SEGMENT_BYTES,
    BrokerConfiguration,
    PersistenceConfiguration,
    UsageConfiguration,
)
from spanwire.service.config.properties import UnknownPlaceholderError, Variables
from spanwire.service.config.security import SecurityInterpreter
from spanwire.service.config.tls import read_stores
from spanwire.service.config.uri import connector_settings
from spanwire.service.config.values import Settings
from spanwire.service.config.words import LATER, NO_EFFECT, ONLY, Rule, Words
from spanwire.transports.base import ConnectorSettings

GIB: Final = 1024**3
ASSUMED_HEAP_BYTES: Final = GIB  # -Xmx1G of ActiveMQ's own start script: what percentOfJvmHeap is a share of
MAX_PREFETCH: Final = 32_766  # hard cap of any prefetch
MIN_SEGMENT_BYTES: Final = 1024 * 1024
MAX_SEGMENT_BYTES: Final = 2 * GIB - 1  # a Java int, KahaDB's own bound
MAX_BROKER_NAME: Final = 255  # characters; the name stands in directory names
LOGIN_CONFIG: Final = "java.security.auth.login.config"  # the Java property that names the JAAS configuration
MAX_PER_CONNECTION: Final = 100_000  # consumers or producers that a connector can be told to grant
MAX_DAY_MS: Final = 24 * 3600 * 1000
LATER_ELEMENTS: Final = frozenset(name for name, rule in words.BROKER.children.items() if rule.kind == LATER)
FOREIGN_CHARACTER: Final = re.compile(r"[^A-Za-z0-9._\-:]")  # ActiveMQ's rule for broker names


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Interprets one ``broker`` element."""

    findings: Findings
    base: Path
    variables: Variables
    decryption: Decryption

    def broker(self, broker: Element) -> BrokerConfiguration:
        """The configuration; what cannot be honoured is in the findings, so look there first."""
        self.check(broker, words.BROKER)
        settings = Settings(broker, self.findings)
        self._management(broker)
        plugins = self.inner(broker, "plugins", words.PLUGINS)
        security = self._security()
        data_directory = settings.text("dataDirectory")
        return BrokerConfiguration(
            broker_name=self._broker_name(broker),
            broker_id=settings.text("brokerId") or None,
            data_directory=None if data_directory is None else self._directory(broker, "dataDirectory"),
            advisory_support=settings.flag("advisorySupport", True),
            delete_all_messages_on_startup=settings.flag("deleteAllMessagesOnStartup", False),
            start=settings.flag("start", True),
            connectors=self._connectors(broker),
            persistence=self._persistence(broker, settings.flag("persistent", True)),
            usage=self._usage(broker),
            destinations=self._destinations(broker),
            policies=self._policies(broker),
            authentication=security.authentication(plugins),
            authorization=security.authorization(plugins),
            source=self.findings.source,
            warnings=tuple(self.findings.warnings),
        )

    def check(self, element: Element, known: Words) -> None:
        """Notes every setting and inner element that is unknown, of a later version, or without effect."""
        for name, setting in element.attributes.items():
            rule = known.settings.get(name)
            if rule is None:
                self.findings.unknown(setting.line, f"attribute of <{element.name}>", name, known.settings)
            else:
                self._check_setting(f"{name} of <{element.name}>", setting, rule)
        for child in element.children:
            rule = known.children.get(child.name)
            if rule is None:
                self.findings.unknown(child.line, f"element in <{element.name}>", child.name, known.children)
            elif rule.kind == LATER and (child.attributes or child.children or child.text.strip()):
                self.findings.not_yet(child.line, f"<{child.name}>")
                self._empty_names(child)
            elif rule.kind == NO_EFFECT:
                self.findings.warn(child.line, f"<{child.name}> has no effect: {rule.note}")
        if element.text.strip():
            self.findings.error(element.line, f"<{element.name}> holds text, which nothing reads; remove it")

    def _check_setting(self, word: str, setting: Attribute, rule: Rule) -> None:
        if rule.kind == NO_EFFECT:
            self.findings.warn(setting.line, f"{word} has no effect: {rule.note}")
        elif rule.kind == LATER:
            self.findings.not_yet(setting.line, word)
        elif rule.kind == ONLY and setting.value.strip().lower() not in rule.values:
            if rule.note:
                self.findings.error(setting.line, f"{word} cannot be honoured: {rule.note}")
            else:
                self.findings.not_yet(setting.line, f"{word} with another value than {' or '.join(rule.values)}")

    def _empty_names(self, element: Element) -> None:
        """An empty physicalName is a fault wherever it stands, also inside what is not read yet."""
        for child in element.children:
            if child.value("physicalName") == "":
                line = child.attributes["physicalName"].line
                self.findings.error(line, f"physicalName of <{child.name}> is empty")
            self._empty_names(child)

    def inner(self, element: Element, name: str, known: Words) -> list[Element]:
        """All inner elements of this name, checked. One that only repeats its own name stands for its inner one."""
        found = []
        for child in element.children:
            if child.name != name:
                continue
            while len(child.children) == 1 and child.children[0].name == name and not child.attributes:
                child = child.children[0]
            self.check(child, known)
            found.append(child)
        return found

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

    def _directory(self, element: Element, name: str) -> Path | None:
        text = Settings(element, self.findings).text(name)
        text = None if text is None else text.removeprefix("file:")
        if not text or any(character < " " for character in text):
            self.findings.error(element.attributes[name].line, f"{name} of <{element.name}> is no directory name")
            return None
        path = Path(text)
        return path if path.is_absolute() else self.base / path

    def _security(self) -> SecurityInterpreter:
        path = Path(
            self.variables.value(LOGIN_CONFIG) or f"{self.variables.value('activemq.conf') or '.'}/login.config"
        )
        return SecurityInterpreter(self.findings, self.inner, path, self.variables.replace, self.decryption)

    def _management(self, broker: Element) -> None:
        self.inner(broker, "managementContext", words.MANAGEMENT)

    def _connectors(self, broker: Element) -> tuple[ConnectorSettings, ...]:
        contexts = self.inner(broker, "sslContext", words.SSL_CONTEXT)
        stores = read_stores(contexts, self.findings, self.base, self.variables, self.decryption)
        found: list[ConnectorSettings] = []
        for group in self.inner(broker, "transportConnectors", words.CONNECTORS):
            for connector in self.inner(group, "transportConnector", words.TRANSPORT_CONNECTOR):
                uri = connector.attributes.get("uri")
                if uri is None:
                    self.findings.error(connector.line, '<transportConnector> has no uri; write uri="tcp://host:port"')
                    continue
                settings = connector_settings(uri.value, connector.value("name"), uri.line, self.findings, stores)
                if settings is not None:
                    found.append(self._quotas(connector, settings))
        return tuple(found)

    def _quotas(self, connector: Element, settings: ConnectorSettings) -> ConnectorSettings:
        """With what each connection may have; 0 is no way to switch a limit off."""
        values = Settings(connector, self.findings)
        return replace(
            settings,
            max_consumers=values.number(
                "maximumConsumersAllowedPerConnection", settings.max_consumers, 1, MAX_PER_CONNECTION
            ),
            max_producers=values.number(
                "maximumProducersAllowedPerConnection", settings.max_producers, 1, MAX_PER_CONNECTION
            ),
        )

    def _persistence(self, broker: Element, persistent: bool) -> PersistenceConfiguration:
        directory: Path | None = None
        segment_bytes = DEFAULT_SEGMENT_BYTES
        for adapter in self.inner(broker, "persistenceAdapter", words.PERSISTENCE):
            if len(adapter.children) > 1:
                self.findings.error(
                    adapter.children[1].line, "<persistenceAdapter> holds more than one adapter; keep one"
                )
            if adapter.child("memoryPersistenceAdapter") is not None:
                persistent = False
            for store in self.inner(adapter, "kahaDB", words.KAHA_DB):
                segment_bytes = Settings(store, self.findings).size("journalMaxFileLength", DEFAULT_SEGMENT_BYTES)
                if not MIN_SEGMENT_BYTES <= segment_bytes <= MAX_SEGMENT_BYTES:
                    self.findings.error(
                        store.line, "journalMaxFileLength of <kahaDB> must be from 1 mb to just under 2 gb"
                    )
                if "directory" in store.attributes:
                    directory = self._directory(store, "directory")
        return PersistenceConfiguration(persistent, directory, segment_bytes)

    def _usage(self, broker: Element) -> UsageConfiguration:
        limit = UsageConfiguration().memory_limit_bytes
        for usage in self.inner(broker, "systemUsage", words.SYSTEM_USAGE):
            for memory in self.inner(usage, "memoryUsage", words.MEMORY_USAGE):
                settings = Settings(memory, self.findings)
                percent = (
                    settings.number("percentOfJvmHeap", 0, 1, 100) if "percentOfJvmHeap" in memory.attributes else 0
                )
                if percent:
                    limit = ASSUMED_HEAP_BYTES * percent // 100
                    self.findings.warn(
                        memory.attributes["percentOfJvmHeap"].line,
                        f"percentOfJvmHeap is taken as {percent} % of 1 gb, ActiveMQ's usual heap; write limit instead",
                    )
                limit = settings.size("limit", limit)
        if limit <= 0:
            self.findings.error(broker.line, "the limit of <memoryUsage> must be above 0")
        return UsageConfiguration(limit)

    def _destinations(self, broker: Element) -> tuple[Destination, ...]:
        found: list[Destination] = []
        for group in self.inner(broker, "destinations", words.DESTINATIONS):
            for name, kind in (("queue", QUEUE), ("topic", TOPIC)):
                for element in self.inner(group, name, words.DESTINATION):
                    destination = self._physical_name(element, kind)
                    if destination is not None:
                        found.append(destination)
        return tuple(found)

    def _physical_name(self, element: Element, kind: int) -> Destination | None:
        if "physicalName" not in element.attributes:
            self.findings.error(element.line, f"<{element.name}> has no physicalName")
            return None
        return Settings(element, self.findings).destination("physicalName", kind, pattern=False)

    def _policies(self, broker: Element) -> tuple[PolicyEntry, ...]:
        found: list[PolicyEntry] = []
        for policy in self.inner(broker, "destinationPolicy", words.POLICY):
            groups = [policy, *self.inner(policy, "policyMap", words.POLICY_MAP)]
            for group in groups:
                for entries in self.inner(group, "policyEntries", words.POLICY_ENTRIES):
                    for element in self.inner(entries, "policyEntry", words.POLICY_ENTRY):
                        entry = self._policy_entry(element)
                        if entry is not None:
                            found.append(entry)
        return tuple(found)

    def _policy_entry(self, element: Element) -> PolicyEntry | None:
        settings = Settings(element, self.findings)
        named = [name for name in ("queue", "topic") if name in element.attributes]
        if len(named) != 1:
            self.findings.error(element.line, "<policyEntry> must name either a queue or a topic")
            return None
        destination = settings.destination(named[0], QUEUE if named[0] == "queue" else TOPIC, pattern=True)
        if destination is None:
            return None
        return PolicyEntry(
            destination,
            memory_limit_bytes=settings.size("memoryLimit", 0),
            queue_prefetch=settings.number("queuePrefetch", -1, 0, MAX_PREFETCH),
            topic_prefetch=settings.number("topicPrefetch", -1, 0, MAX_PREFETCH + 1),
            queue_browser_prefetch=settings.number("queueBrowserPrefetch", -1, 0, MAX_PREFETCH),
            expire_messages_period_ms=settings.number("expireMessagesPeriod", DEFAULT_EXPIRE_PERIOD_MS, 0, MAX_DAY_MS),
            dead_letter=self._dead_letter_strategy(element),
        )

    def _dead_letter_strategy(self, entry: Element) -> DeadLetterStrategy:
        found = DeadLetterStrategy()
        for strategy in self.inner(entry, "deadLetterStrategy", words.DEAD_LETTER_STRATEGY):
            for shared in self.inner(strategy, "sharedDeadLetterStrategy", words.SHARED_DEAD_LETTERS):
                settings = Settings(shared, self.findings)
                found = DeadLetterStrategy(
                    self._dead_letter_queue(shared),
                    process_expired=settings.flag("processExpired", True),
                    process_non_persistent=settings.flag("processNonPersistent", False),
                )
        return found

    def _dead_letter_queue(self, shared: Element) -> str:
        named = Settings(shared, self.findings).qualified("deadLetterQueue")
        holders = self.inner(shared, "deadLetterQueue", words.DESTINATIONS)
        inner = [element for holder in holders for element in self.inner(holder, "queue", words.DESTINATION)]
        for element in inner:
            named = self._physical_name(element, QUEUE)
        if named is not None and named.kind != QUEUE:
            self.findings.error(shared.line, "deadLetterQueue of <sharedDeadLetterStrategy> must be a queue")
        return DEFAULT_DEAD_LETTER_QUEUE if named is None else named.name


def replace_placeholders(element: Element, variables: Variables, findings: Findings) -> None:
    """Replaces the placeholders of every setting that is read; those without a value are noted."""
    pending = [element]
    while pending:
        found = pending.pop()
        pending.extend(child for child in found.children if child.name not in LATER_ELEMENTS)
        for name, setting in found.attributes.items():
            word = f"{name} of <{found.name}>"
            if "#{" in setting.value:
                findings.error(
                    setting.line, f"{word} holds an expression #{{…}}, which is not evaluated; write its value"
                )
                continue
            try:
                setting.value = variables.replace(setting.value)
            except UnknownPlaceholderError as error:
                findings.unknown(setting.line, f"placeholder in {word}:", str(error), variables.names(), spelt=True)
            except ConfigurationError as error:
                findings.error(setting.line, f"{word}: {error}")
