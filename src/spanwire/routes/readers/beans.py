"""Brokers in a route file: ``brokers``, and beans of Camel's components, with ids as URI schemes.

A component finds the broker by ``brokerURL``, or by ``configuration`` and ``connectionFactory``. A broker out of reach
for another process is stored with the reason; an endpoint at the broker reports the reason. A factory of another vendor
belongs to the provider ``jvm``. ``overrides`` of the command line give a broker's name a URL. Properties without effect
cause warnings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from typing import Final

from spanwire.client.addressing.redaction import redacted
from spanwire.pipeline.options import COMMON, STORES
from spanwire.routes import consumers, providers
from spanwire.routes.endpoints import NO_HOST, THIS_BROKER, Broker, Host
from spanwire.routes.readers.nodes import Location, Mapping, Node, Word, items_of, mapping_of

MAX_REFERENCES: Final = 8  # from a component over configuration and pools to its factory; ends circles
COMPONENTS: Final = ("ActiveMQComponent", "JmsComponent")
XA_FACTORY: Final = "ActiveMQXAConnectionFactory"
FACTORIES: Final = ("ActiveMQConnectionFactory", "ActiveMQSslConnectionFactory", XA_FACTORY)
REFERENCES: Final = ("configuration", "connectionFactory", "targetConnectionFactory")
# The data source's names for properties of both sides, of a reader, and of a writer.
COMMON_NAMES: Final[dict[str, str]] = {
    "brokerURL": "url",
    "brokerUrl": "url",
    "userName": "user",
    "username": "user",
    "password": "password",
    "clientID": "clientId",
    "clientId": "clientId",
    **{name: name for name in STORES},
}
READ_NAMES: Final[dict[str, str]] = {"selector": "selector", "durableSubscriptionName": "subscription"}
WRITE_NAMES: Final[dict[str, str]] = {
    "deliveryPersistent": "persistent",
    "priority": "priority",
    "timeToLive": "timeToLiveMs",
}
# Properties that change no route: how fast and by how many connections a broker is reached, which each engine decides.
TUNING: Final = frozenset(
    (
        "cacheLevel cacheLevelName acceptMessagesWhileStopping "
        "idleTaskExecutionLimit idleConsumerLimit maxMessagesPerTask receiveTimeout recoveryInterval taskExecutor "
        "testConnectionOnStartup transacted lazyCreateTransactionManager mapJmsMessage preserveMessageQos "
        "disableReplyTo usePooledConnection useSingleConnection trustAllPackages trustedPackages exceptionListener "
        "acknowledgementMode acknowledgementModeName explicitQosEnabled useAsyncSend alwaysSyncSend dispatchAsync "
        "alwaysSessionAsync optimizeAcknowledge copyMessageOnSend useCompression watchTopicAdvisories prefetchPolicy "
        "producerWindowSize closeTimeout sendTimeout connectResponseTimeout clientIDPrefix connectionIDPrefix "
        "asyncConsumer statsEnabled maxThreadPoolSize "
        "warnAboutUnstartedConnectionTimeout objectMessageSerializationDefered"
    ).split()
)
NUMBERS: Final = {name: name for name in consumers.NAMES}
CONFIGURATIONS: Final = ("JmsConfiguration", "ActiveMQConfiguration")
IN_PROCESS: Final = ("vm:", "peer:")
NOT_UNDERSTOOD: Final = "not understood"  # entry of a bean of XML with its fault, which matters if the bean is needed
BEAN_WORDS: Final = ("name", "type", "properties")
ANY_FACTORY: Final = re.compile(r"(?:[\w$]+\.)+[\w$]*ConnectionFactory")
BROKER_WORDS: Final = (
    *(name for name in COMMON if name != "destination"),
    "userName",
    providers.WORD,
    *providers.JAVA,
    *providers.TABLES,
)


@dataclass(frozen=True, slots=True)
class Bean:
    """One bean: class, properties and fault; a reference begins with ``#``."""

    location: Location
    type: str
    properties: Mapping
    fault: Word | None = None

    def check(self) -> None:
        """Check that all parts of the bean are understood.

        Raises:
            ConfigurationError: a part is not.
        """
        if self.fault is not None:
            raise self.fault.location.error(self.fault.text or "")

    @property
    def short_type(self) -> str:
        """Return the class without the package."""
        return self.type.rpartition(".")[2]

    def values(self, names: AnyMapping[str, str]) -> dict[str, str]:
        """Return the values of these properties under the names of the data source.

        Raises:
            ConfigurationError: a placeholder has no value.
        """
        values = [(own, self.properties.text(name)) for name, own in names.items()]
        return {own: value for own, value in values if value is not None}

    def reference(self) -> str | None:
        """Return the next bean on the way to the broker, or ``None``."""
        for name in REFERENCES:
            bean = self.properties.text(name)
            if bean is not None:
                return bean.removeprefix("#").removeprefix("bean:")
        return None

    def unused_properties(self) -> list[str]:
        """Return the names of properties without effect."""
        known = {*COMMON_NAMES, *READ_NAMES, *WRITE_NAMES, *REFERENCES, *consumers.NAMES}
        return [name for name in self.properties.entries if name not in known]


def beans_of(node: Node) -> dict[str, Bean]:
    """Return the members of ``beans``.

    Raises:
        ConfigurationError: a bean is faulty.
    """
    beans: dict[str, Bean] = {}
    for item in items_of(node, "beans"):
        bean = mapping_of(item, "a bean")
        bean.check("word of a bean", (*BEAN_WORDS, NOT_UNDERSTOOD) if NOT_UNDERSTOOD in bean.entries else BEAN_WORDS)
        properties = bean.node("properties")
        values = Mapping(bean.location) if properties is None else mapping_of(properties, "properties")
        fault = bean.node(NOT_UNDERSTOOD)
        beans[bean.require("name", "a bean")] = Bean(
            bean.location, bean.text("type") or "", values, fault if isinstance(fault, Word) else None
        )
    return beans


def texts_of(mapping: Mapping) -> dict[str, str]:
    """Return all words of a mapping by name, without null."""
    texts = {name: mapping.text(name) for name in mapping.entries}
    return {name: text for name, text in texts.items() if text is not None}


def brokers_of(node: Node) -> dict[str, Broker]:
    """Return the members of ``brokers``.

    Raises:
        ConfigurationError: a broker is faulty.
    """
    brokers: dict[str, Broker] = {}
    for name, entry in mapping_of(node, "brokers").entries.items():
        values = mapping_of(entry.value, f"the broker {name}")
        values.check("word of a broker", BROKER_WORDS)
        texts = providers.factory_texts(values)
        brokers[name] = Broker(entry.location, {COMMON_NAMES.get(word, word): text for word, text in texts.items()})
    return brokers


class BeanReader:
    """Makes brokers of the beans of components.

    ``warnings`` name properties without effect, and ``refusals`` properties with an effect on the engine embedded.
    """

    def __init__(self, beans: AnyMapping[str, Bean], host: Host = NO_HOST) -> None:
        self._host: Final[Host] = host
        self._beans: Final[AnyMapping[str, Bean]] = beans
        self._reported: Final[set[Location]] = set()
        self.warnings: Final[list[str]] = []
        self.refusals: Final[list[str]] = []

    def brokers(self, overrides: AnyMapping[str, str]) -> dict[str, Broker]:
        """Return the broker of each component by the component's id.

        A component with an overridden URL may have any URL or none.
        """
        brokers: dict[str, Broker] = {}
        for name, bean in self._beans.items():
            if bean.short_type in COMPONENTS:
                brokers[name] = self._component(bean, name, overrides.get(name))
            elif not bean.type and bean.fault is not None:  # it may be a component by its parent or factory
                brokers[name] = Broker(bean.location, {}, f"is a bean without a class: {bean.fault.text}")
        return brokers

    def _component(self, bean: Bean, name: str, url: str | None) -> Broker:
        current = bean
        options: dict[str, str] = {}
        read_options: dict[str, str] = {}
        write_options: dict[str, str] = {}
        numbers: dict[str, str] = {}
        for _ in range(MAX_REFERENCES):
            if url is None:
                current.check()
            self._warn_unused(current, is_reached=url is None)
            names = {word: own for word, own in COMMON_NAMES.items() if url is None or own != "url"}
            if url is None and _is_foreign(current):
                return replace(self._foreign(bean, current, options, read_options, write_options), consumers=numbers)
            options = current.values(names) | options
            read_options = current.values(READ_NAMES) | read_options
            write_options = current.values(WRITE_NAMES) | write_options
            numbers = current.values(NUMBERS) | numbers
            reference = current.reference()
            if reference is None:
                break
            if reference not in self._beans:
                raise current.location.unknown("bean", reference, list(self._beans))
            current = self._beans[reference]
        if url is not None:
            return Broker(bean.location, {**options, "url": url}, "", read_options, write_options, numbers)
        if "url" in options:
            if self._host.is_own(options["url"]):
                options["url"] = THIS_BROKER
            return self._reachable(Broker(bean.location, options, "", read_options, write_options, numbers), name)
        if current.short_type in (*COMPONENTS, *FACTORIES):
            return Broker(bean.location, {**options, "url": self._host.url}, "", read_options, write_options, numbers)
        reason = f"is reached through {current.short_type}, which is no connection factory"
        return Broker(bean.location, {}, f"{reason}; give it one with {self._host.advice(name)}")

    def _foreign(
        self,
        component: Bean,
        factory: Bean,
        options: dict[str, str],
        read_options: dict[str, str],
        write_options: dict[str, str],
    ) -> Broker:
        """Return the broker of another vendor's connection factory; Java sets the factory's properties."""
        java = {providers.WORD: providers.JVM, "factoryClass": factory.type}
        for name, entry in factory.properties.entries.items():
            text = factory.properties.text(name)
            if text is not None and text.startswith("#"):
                raise entry.location.error(
                    f"{name} of {factory.short_type} is a bean, and the provider jvm sets texts and numbers alone"
                )
            if text is not None:
                java[f"properties.{name}"] = text
        return Broker(component.location, {**options, **java}, "", read_options, write_options)

    def _reachable(self, broker: Broker, name: str) -> Broker:
        """Return the broker, or the reason for a broker out of reach of other processes."""
        url = broker.options["url"]
        if url == THIS_BROKER or not url.startswith(IN_PROCESS):
            return broker
        reason = f"is {redacted(url)}, a broker inside another process; say where it listens with"
        return Broker(broker.location, {}, f"{reason} {self._host.advice(name)}")

    def _warn_unused(self, bean: Bean, is_reached: bool) -> None:
        """Note the properties of a bean without effect, once per bean.

        ``is_reached`` is False for beans in place of which the command line gives a URL.
        """
        if bean.location in self._reported:
            return
        self._reported.add(bean.location)
        unused = bean.unused_properties()
        is_known = bean.short_type in (*COMPONENTS, *CONFIGURATIONS, *FACTORIES)
        for name in unused if is_known and is_reached else ():
            if name not in TUNING:
                entry = bean.properties.entries[name]
                text = f"{name} of {bean.short_type} is not supported by the engine embedded; remove it"
                self.refusals.append(str(entry.location.error(text)))
        if unused:
            verb = "has" if len(unused) == 1 else "have"
            self.warnings.append(
                str(bean.location.error(f"{', '.join(unused)} of {bean.short_type} {verb} no effect here"))
            )
        if bean.short_type == XA_FACTORY:
            text = f"{XA_FACTORY} makes no XA transactions here; for once and only once see qualityOfServiceMode"
            self.warnings.append(str(bean.location.error(text)))


def _is_foreign(bean: Bean) -> bool:
    """Return True for a connection factory of another vendor, and not for a pool of another factory."""
    return (
        bean.short_type not in FACTORIES and bean.reference() is None and ANY_FACTORY.fullmatch(bean.type) is not None
    )


def with_overrides(brokers: AnyMapping[str, Broker], overrides: AnyMapping[str, str], file: str) -> dict[str, Broker]:
    """Return all brokers by name, with the URLs of the command line."""
    result_brokers = dict(brokers)
    for name, url in overrides.items():
        configured = result_brokers.get(name)
        if configured is None:
            result_brokers[name] = Broker(Location(file, 1), {"url": url})
        else:
            options = {**providers.without_provider(configured.options), "url": url}
            result_brokers[name] = replace(configured, options=options, reason="")
    return result_brokers
