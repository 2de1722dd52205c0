"""Brokers that a route file names: ``brokers``, and beans of Camel's components, whose ids are URI schemes.

A component finds its broker through its own ``brokerURL`` or through ``configuration`` and ``connectionFactory``. What
cannot be reached from another process, or does not speak OpenWire, is kept with the reason, which is told when an
endpoint uses it; ``overrides`` (from the command line) give such a name a URL. A property that has no effect is told.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from typing import Final

from spanwire.client.addressing.redaction import redacted
from spanwire.pipeline.options import COMMON, DEFAULT_URL, STORES
from spanwire.routes.endpoints import Broker
from spanwire.routes.nodes import Mapping, Node, Place, items_of, mapping_of

MAX_REFERENCES: Final = 8  # from a component over its configuration and pools to its factory
COMPONENTS: Final = ("ActiveMQComponent", "JmsComponent")
XA_FACTORY: Final = "ActiveMQXAConnectionFactory"
FACTORIES: Final = ("ActiveMQConnectionFactory", "ActiveMQSslConnectionFactory", XA_FACTORY)
REFERENCES: Final = ("configuration", "connectionFactory", "targetConnectionFactory")
# Properties under the names that the data source has for the same thing: of both sides, of a reader, of a writer.
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
READING_NAMES: Final[dict[str, str]] = {"selector": "selector", "durableSubscriptionName": "subscription"}
SENDING_NAMES: Final[dict[str, str]] = {
    "deliveryPersistent": "persistent",
    "priority": "priority",
    "timeToLive": "timeToLiveMs",
}
IN_PROCESS: Final = ("vm:", "peer:")
BEAN_WORDS: Final = ("name", "type", "properties")
BROKER_WORDS: Final = tuple(name for name in COMMON if name != "destination")


@dataclass(frozen=True, slots=True)
class Bean:
    """One bean: its class and its properties; a reference begins with ``#``."""

    place: Place
    type: str
    properties: Mapping

    @property
    def short_type(self) -> str:
        """The class without its package."""
        return self.type.rpartition(".")[2]

    def taken(self, names: AnyMapping[str, str]) -> dict[str, str]:
        """The properties of these names, under the names that they have here. Raises `ConfigurationError` for a
        placeholder without a value.
        """
        found = [(own, self.properties.text(name)) for name, own in names.items()]
        return {own: value for own, value in found if value is not None}

    def reference(self) -> str | None:
        """The bean in which the way to the broker goes on, if it does."""
        for name in REFERENCES:
            found = self.properties.text(name)
            if found is not None:
                return found.removeprefix("#").removeprefix("bean:")
        return None

    def unused(self) -> list[str]:
        """The names of properties that have no effect here."""
        known = {*COMMON_NAMES, *READING_NAMES, *SENDING_NAMES, *REFERENCES}
        return [name for name in self.properties.entries if name not in known]


def beans_of(node: Node) -> dict[str, Bean]:
    """The members of ``beans``. Raises `ConfigurationError`."""
    found: dict[str, Bean] = {}
    for item in items_of(node, "beans"):
        bean = mapping_of(item, "a bean")
        bean.check("word of a bean", BEAN_WORDS)
        properties = bean.node("properties")
        values = Mapping(bean.place) if properties is None else mapping_of(properties, "properties")
        found[bean.needed("name", "a bean")] = Bean(bean.place, bean.text("type") or "", values)
    return found


def texts_of(mapping: Mapping) -> dict[str, str]:
    """All words of a mapping by name; what is null is left out."""
    found = {name: mapping.text(name) for name in mapping.entries}
    return {name: text for name, text in found.items() if text is not None}


def brokers_of(node: Node) -> dict[str, Broker]:
    """The members of ``brokers``. Raises `ConfigurationError`."""
    found: dict[str, Broker] = {}
    for name, entry in mapping_of(node, "brokers").entries.items():
        values = mapping_of(entry.value, f"the broker {name}")
        values.check("word of a broker", BROKER_WORDS)
        found[name] = Broker(entry.place, texts_of(values))
    return found


class BeanReader:
    """Makes brokers of the beans of components. ``warnings`` are lines about properties that have no effect."""

    def __init__(self, beans: AnyMapping[str, Bean]) -> None:
        self._beans: Final[AnyMapping[str, Bean]] = beans
        self._told: Final[set[Place]] = set()
        self.warnings: Final[list[str]] = []

    def brokers(self, overrides: AnyMapping[str, str]) -> dict[str, Broker]:
        """The broker of each component by the component's id; one whose URL is overridden may have any or none."""
        found: dict[str, Broker] = {}
        for name, bean in self._beans.items():
            if bean.short_type in COMPONENTS:
                found[name] = self._component(bean, name, overrides.get(name))
        return found

    def _component(self, bean: Bean, name: str, url: str | None) -> Broker:
        found = bean
        options: dict[str, str] = {}
        reading: dict[str, str] = {}
        sending: dict[str, str] = {}
        for _ in range(MAX_REFERENCES):
            self._tell(found)
            names = {word: own for word, own in COMMON_NAMES.items() if url is None or own != "url"}
            options = found.taken(names) | options
            reading = found.taken(READING_NAMES) | reading
            sending = found.taken(SENDING_NAMES) | sending
            reference = found.reference()
            if reference is None:
                break
            if reference not in self._beans:
                raise found.place.unknown("bean", reference, list(self._beans))
            found = self._beans[reference]
        if url is not None:
            return Broker(bean.place, {**options, "url": url}, "", reading, sending)
        if "url" in options:
            return _reachable(Broker(bean.place, options, "", reading, sending), name)
        if found.short_type in (*COMPONENTS, *FACTORIES):
            return Broker(bean.place, {**options, "url": DEFAULT_URL}, "", reading, sending)
        reason = f"is reached through {found.short_type}, which is none of a broker with OpenWire"
        return Broker(bean.place, {}, f"{reason}; give it one with --broker {name}=URL")

    def _tell(self, bean: Bean) -> None:
        """Name the properties of a bean that do nothing, once."""
        if bean.place in self._told:
            return
        self._told.add(bean.place)
        unused = bean.unused()
        if unused:
            verb = "has" if len(unused) == 1 else "have"
            self.warnings.append(
                str(bean.place.error(f"{', '.join(unused)} of {bean.short_type} {verb} no effect here"))
            )
        if bean.short_type == XA_FACTORY:
            text = f"{XA_FACTORY} makes no XA transactions here; for once and only once see qualityOfServiceMode"
            self.warnings.append(str(bean.place.error(text)))


def with_overrides(brokers: AnyMapping[str, Broker], overrides: AnyMapping[str, str], file: str) -> dict[str, Broker]:
    """All brokers by name, at the URLs of the command line where it gives one."""
    found = dict(brokers)
    for name, url in overrides.items():
        before = found.get(name)
        if before is None:
            found[name] = Broker(Place(file, 1), {"url": url})
        else:
            found[name] = replace(before, options={**before.options, "url": url}, reason="")
    return found


def _reachable(broker: Broker, name: str) -> Broker:
    url = broker.options["url"]
    if url.startswith(IN_PROCESS):
        reason = f"is {redacted(url)}, a broker inside another process; say where it listens with --broker {name}=URL"
        return Broker(broker.place, {}, reason)
    return broker
