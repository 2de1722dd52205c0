"""Contexts whose names stand in the environment itself, as ActiveMQ Classic and Artemis have them.

    java.naming.provider.url = tcp://berlin:61616
    connectionFactoryNames = orders, bills          Classic
    connection.orders.userName = bridge             Classic
    connectionFactory.orders = tcp://berlin:61616   Artemis
    queue.inbox = shop.orders
    topic.news = shop.news

``dynamicQueues/NAME`` and ``dynamicTopics/NAME`` need no entry. Names with a leading slash are those of HornetQ and
JBoss, whose queues and topics without an entry are ``/queue/NAME`` and ``/topic/NAME``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from spanwire.bridges.model.definition import ConnectionFactory
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

URL: Final = "java.naming.provider.url"
PRINCIPAL: Final = "java.naming.security.principal"
CREDENTIALS: Final = "java.naming.security.credentials"
DEFAULT_NAMES: Final = "ConnectionFactory, QueueConnectionFactory, TopicConnectionFactory"
CLASSIC_URL: Final = "failover:(tcp://localhost:61616)"  # of a factory without a URL
DYNAMIC: Final = {"dynamicQueues/": QUEUE, "dynamicTopics/": TOPIC}
BOUND: Final = {"/queue/": QUEUE, "/topic/": TOPIC}  # where HornetQ and JBoss Messaging bind their destinations
PREFIXES: Final = {"queue.": QUEUE, "topic.": TOPIC}
STORE_NAMES: Final = ("trustStore", "trustStorePassword", "keyStore", "keyStorePassword")


class LocalNames(Protocol):
    """Finds names in an environment."""

    def factory(self, name: str) -> ConnectionFactory:
        """Return the connection factory of a name. Raises `ConfigurationError` for an unknown name."""
        ...

    def destination(self, name: str) -> Destination | None:
        """Return the destination of a name, or None for an unknown name."""
        ...


class ActiveMqNames:
    """The context of ``org.apache.activemq.jndi.ActiveMQInitialContextFactory``."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties: Final = properties

    def factory(self, name: str) -> ConnectionFactory:
        """Return the connection factory of a name of ``connectionFactoryNames``."""
        names = [word.strip() for word in self._properties.get("connectionFactoryNames", DEFAULT_NAMES).split(",")]
        name = name if name in names else name.lstrip("/")
        if name not in names:
            raise ConfigurationError(
                f"the JNDI environment has no connection factory {name[:60]!r}; connectionFactoryNames has "
                f"{', '.join(names)[:200]}"
            )
        prefix = f"connection.{name}."
        own = {key[len(prefix) :]: value for key, value in self._properties.items() if key.startswith(prefix)}
        values = {**self._properties, **own}
        url = values.get(URL, "").strip() or values.get("brokerURL", "").strip() or CLASSIC_URL
        return _factory(url, values)

    def destination(self, name: str) -> Destination | None:
        """Return the destination of ``queue.NAME`` or ``topic.NAME``."""
        return _destination(self._properties, name)


class ArtemisNames:
    """The context of ``org.apache.activemq.artemis.jndi.ActiveMQInitialContextFactory``."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties: Final = properties

    def factory(self, name: str) -> ConnectionFactory:
        """Return the connection factory of ``connectionFactory.NAME``."""
        if f"connectionFactory.{name}" not in self._properties:
            name = name.lstrip("/")
        url = self._properties.get(f"connectionFactory.{name}", "").strip()
        if not url and name == "ConnectionFactory":
            url = self._properties.get(URL, "").strip()
        if not url:
            raise ConfigurationError(f"the JNDI environment has no property connectionFactory.{name[:60]}")
        return _factory(url, self._properties)

    def destination(self, name: str) -> Destination | None:
        """Return the destination of ``queue.NAME`` or ``topic.NAME``."""
        return _destination(self._properties, name)


def _factory(url: str, values: Mapping[str, str]) -> ConnectionFactory:
    stores = [values.get(name) for name in STORE_NAMES]
    return ConnectionFactory(
        url,
        values.get("userName") or values.get(PRINCIPAL),
        _secret(values.get("password") or values.get(CREDENTIALS)),
        stores[0],
        _secret(stores[1]),
        stores[2],
        _secret(stores[3]),
    )


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)


def _destination(properties: Mapping[str, str], name: str) -> Destination | None:
    for prefix, kind in DYNAMIC.items():
        if name.startswith(prefix) and name != prefix:
            return Destination(kind, name[len(prefix) :])
    for prefix, kind in PREFIXES.items():
        physical = properties.get(prefix + name, "").strip()
        if physical:
            return Destination(kind, physical)
    for prefix, kind in BOUND.items():
        if name.startswith(prefix) and name != prefix:
            return Destination(kind, name[len(prefix) :])
    return None
