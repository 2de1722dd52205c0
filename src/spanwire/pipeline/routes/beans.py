"""Brokers that a route file names: ``brokers``, and beans of Camel's components, whose ids are URI schemes.

A component finds its broker through its own ``brokerURL`` or through ``configuration`` and ``connectionFactory``. What
cannot be reached from another process, or does not speak OpenWire, is kept with the reason, which is told when an
endpoint uses it; ``overrides`` (from the command line) give such a name a URL.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Final

from spanwire.client.redaction import redacted
from spanwire.pipeline.options import COMMON
from spanwire.pipeline.routes.endpoints import Broker
from spanwire.pipeline.routes.nodes import Mapping, Node, Place, items_of, mapping_of

MAX_REFERENCES: Final = 8  # from a component over its configuration and pools to its factory
COMPONENTS: Final = ("ActiveMQComponent", "JmsComponent")
FACTORIES: Final = ("ActiveMQConnectionFactory", "ActiveMQSslConnectionFactory", "ActiveMQXAConnectionFactory")
REFERENCES: Final = ("configuration", "connectionFactory", "targetConnectionFactory")
FACTORY_NAMES: Final[dict[str, str]] = {
    "brokerURL": "url",
    "brokerUrl": "url",
    "userName": "user",
    "username": "user",
    "password": "password",
    "clientID": "clientId",
}
IN_PROCESS: Final = ("vm:", "peer:")
BEAN_WORDS: Final = ("name", "type", "properties")
BROKER_WORDS: Final = tuple(name for name in COMMON if name != "destination")


@dataclass(frozen=True, slots=True)
class Bean:
    """One bean: its class and its properties; a reference begins with ``#``."""

    place: Place
    type: str
    properties: dict[str, str]

    @property
    def short_type(self) -> str:
        """The class without its package."""
        return self.type.rpartition(".")[2]


def beans_of(node: Node) -> dict[str, Bean]:
    """The members of ``beans``. Raises `ConfigurationError`."""
    found: dict[str, Bean] = {}
    for item in items_of(node, "beans"):
        bean = mapping_of(item, "a bean")
        bean.check("word of a bean", BEAN_WORDS)
        properties = bean.node("properties")
        values = texts_of(mapping_of(properties, "properties")) if properties is not None else {}
        found[bean.needed("name", "a bean")] = Bean(bean.place, bean.needed("type", "a bean"), values)
    return found


def texts_of(mapping: Mapping) -> dict[str, str]:
    """All words of a mapping by name."""
    return {name: mapping.needed(name, "this") for name in mapping.entries}


def brokers_of(node: Node) -> dict[str, Broker]:
    """The members of ``brokers``. Raises `ConfigurationError`."""
    found: dict[str, Broker] = {}
    for name, entry in mapping_of(node, "brokers").entries.items():
        values = mapping_of(entry.value, f"the broker {name}")
        values.check("word of a broker", BROKER_WORDS)
        found[name] = Broker(entry.place, texts_of(values))
    return found


def with_beans(
    brokers: AnyMapping[str, Broker], beans: AnyMapping[str, Bean], overrides: AnyMapping[str, str], file: str
) -> dict[str, Broker]:
    """All brokers by name."""
    found = dict(brokers)
    for name, bean in beans.items():
        if bean.short_type in COMPONENTS:
            found[name] = _component(bean, beans, name)
    for name, url in overrides.items():
        before = found.get(name)
        options = {} if before is None else before.options
        found[name] = Broker(Place(file, 1) if before is None else before.place, {**options, "url": url})
    return found


def _component(bean: Bean, beans: AnyMapping[str, Bean], name: str) -> Broker:
    found = bean
    options: dict[str, str] = {}
    for _ in range(MAX_REFERENCES):
        options |= {own: found.properties[word] for word, own in FACTORY_NAMES.items() if word in found.properties}
        if "url" in options:
            return _reachable(Broker(bean.place, options), name)
        reference = next((found.properties[word] for word in REFERENCES if word in found.properties), None)
        if reference is None:
            break
        following = beans.get(reference.removeprefix("#").removeprefix("bean:"))
        if following is None:
            raise found.place.unknown("bean", reference.removeprefix("#"), list(beans))
        found = following
    if found.short_type in (*COMPONENTS, *FACTORIES):
        return Broker(bean.place, {**options, "url": "tcp://127.0.0.1:61616"})
    reason = f"is reached through {found.short_type}, which is none of a broker with OpenWire"
    return Broker(bean.place, {}, f"{reason}; give it one with --broker {name}=URL")


def _reachable(broker: Broker, name: str) -> Broker:
    url = broker.options["url"]
    if url.startswith(IN_PROCESS):
        reason = f"is {redacted(url)}, a broker inside another process; say where it listens with --broker {name}=URL"
        return Broker(broker.place, {}, reason)
    return broker
