"""Brokers of a route file that a provider of bridges reaches in place of OpenWire.

A broker's word ``provider``, or the scheme of its URL, names the provider. The words are those of a connection factory
in a file of bridges; ``properties`` and ``jndi`` are flat here, such as ``properties.hostName``.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from typing import Final

from spanwire.registry import BRIDGE_PROVIDERS
from spanwire.routes.readers.nodes import Items, Location, Mapping, mapping_of, text_of

OPENWIRE: Final = "openwire"
JVM: Final = "jvm"
URL: Final = "url"
WORD: Final = "provider"
# Providers by the scheme of their URLs, for who writes the URL alone.
SCHEMES: Final[dict[str, str]] = {
    "mqtt": "mqtt",
    "mqtts": "mqtt",
    "kafka": "kafka",
    "kafka+ssl": "kafka",
    "nats": "nats",
    "nats+ssl": "nats",
    "redis": "redis",
    "rediss": "redis",
    "sqs": "sqs",
    "sqs+ssl": "sqs",
    "stomp": "stomp",
    "stomp+ssl": "stomp",
    "amqp": "amqp091",
    "amqps": "amqp091",
}
JAR_LIST: Final = "jars"
TABLES: Final = ("properties", "jndi")
JAVA: Final = ("factoryClass", "jndiName", JAR_LIST)  # and the tables
STORES: Final = ("trustStore", "trustStorePassword", "keyStore", "keyStorePassword")
FACTORY: Final = (URL, "user", "password", *STORES, WORD, *JAVA)
READ: Final = ("clientId", "selector", "subscription", "subscriptionDurable", "maxRowsPerBatch", "qualityOfServiceMode")
BATCH_TIME: Final = "maxBatchMs"  # of a jmsBridge
WRITE: Final = ("persistent", "priority", "timeToLiveMs", "dropTemporaryReplyTo", "qualityOfServiceMode")
WITHOUT_CLIENT_ID: Final = ("amqp091", "kafka", "nats", "redis")  # providers whose subscriptions have a name alone


def provider_of(options: AnyMapping[str, str], location: Location) -> str:
    """Return the provider of a broker with the given options.

    Raises:
        ConfigurationError: there is no such provider.
    """
    name = options.get(WORD)
    if name is None:
        return SCHEMES.get(options.get(URL, "").partition(":")[0].lower(), OPENWIRE)
    if name not in BRIDGE_PROVIDERS:
        raise location.unknown(WORD, name, BRIDGE_PROVIDERS)
    return name


def factory_texts(words: Mapping) -> dict[str, str]:
    """Return the words of a broker as texts by name.

    Raises:
        ConfigurationError: a word is no text, table or list of texts.
    """
    texts: dict[str, str] = {}
    for name, entry in words.entries.items():
        if name in TABLES:
            for key, inner in mapping_of(entry.value, name).entries.items():
                texts[f"{name}.{key}"] = text_of(inner.value, key)
        elif name == JAR_LIST and isinstance(entry.value, Items):
            texts[name] = ",".join(text_of(item, name) for item in entry.value.items)
        elif (text := words.text(name)) is not None:
            texts[name] = text
    return texts


def is_known(name: str, allowed: tuple[str, ...]) -> bool:
    """Return True for an option of an endpoint; ``allowed`` are those of a source, or of a target."""
    return name in FACTORY or name in allowed or any(name.startswith(f"{table}.") for table in TABLES)


def subscribe(options: dict[str, str], provider: str, route: str, is_durable: bool) -> None:
    """Complete the options of a source that is a topic: a durable subscription, named after the route."""
    if not options["destination"].startswith("topic://"):
        options.pop("subscriptionDurable", None)
        return
    default = str(is_durable or "subscription" in options).lower()
    if options.pop("subscriptionDurable", default).lower() != "false":
        options.setdefault("subscription", route)
        if provider not in WITHOUT_CLIENT_ID:
            options.setdefault("clientId", f"spanwire.{route}")


def without_provider(options: AnyMapping[str, str]) -> dict[str, str]:
    """Return the options of a broker that gets another URL: the new one names the provider."""
    java = (*JAVA, WORD)
    return {
        name: value
        for name, value in options.items()
        if name not in java and not any(name.startswith(f"{table}.") for table in TABLES)
    }
