"""The provider for JMS providers in Java."""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from spanwire.bridges.jars import DIRECTORY, JAR
from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.provider_description import ProviderDescription
from spanwire.bridges.owned_files import check_directory, check_file
from spanwire.bridges.ports import LocalTransaction, MessageSource, MessageTarget, XaSource, XaTarget
from spanwire.bridges.providers.jvm.connections import HostConnection, JvmConnection, JvmTarget
from spanwire.bridges.providers.jvm.host import JvmHost
from spanwire.bridges.providers.jvm.xa_connections import JvmXaSource, JvmXaTarget
from spanwire.extras import install_command
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret

DESCRIPTION: Final = ProviderDescription(
    name="jvm",
    local_transactions=True,
    xa=True,  # with a factory that has it; the connection finds out
    cannot_cross=(
        "JMSMessageID and JMSTimestamp are new at the target; addMessageIDInHeader keeps the id",
        "JMSRedelivered and JMSXDeliveryCount begin anew",
        "an ObjectMessage becomes a dead letter, because its object would have to be deserialized",
        "properties that begin with JMSX or JMS_ belong to the provider and stay behind, but for the message group",
        "maps and lists inside of properties, maps and streams do not exist in JMS; such a message is a dead letter",
    ),
)

# The hosts of each event loop by their jars.
_hosts: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, ...], JvmHost]]] = WeakKeyDictionary()


class JvmProvider:
    """Opens sources, targets and transactions in the host of a factory's jars."""

    def describe(self) -> ProviderDescription:
        """Return the promises of the provider."""
        return DESCRIPTION

    def check_source(self, source: Source) -> None:
        """Raise `ConfigurationError` for a factory without class or jars, or an invalid durable subscription."""
        _check(source.factory)
        if source.destination.is_pattern:
            raise ConfigurationError(f"{source.destination} is a pattern, which JMS does not have")
        if source.subscription is None:
            return
        if source.destination.is_queue:
            raise ConfigurationError(
                f"subscriptionName is for topics, and {source.destination} is a queue; remove subscriptionName"
            )
        if source.client_id is None:
            raise ConfigurationError("a durable subscription needs a client id; set clientID beside subscriptionName")

    def check_target(self, target: Target) -> None:
        """Raise `ConfigurationError` for a factory without class or jars, or a wrong destination."""
        _check(target.factory)
        if target.destination.is_pattern:
            raise ConfigurationError(f"{target.destination} is a pattern, and a target is one queue or topic")

    async def open_source(self, source: Source, credit: int) -> MessageSource:
        """Connect and consume. The factory's settings bound the provider's dispatch ahead."""
        connection = JvmConnection(_host(source.factory))
        await _open(connection, source.factory, source, None)
        return connection

    async def open_target(self, target: Target) -> MessageTarget:
        """Connect and produce."""
        connection = JvmTarget(_host(target.factory))
        await _open(connection, target.factory, None, target)
        return connection

    async def open_transaction(self, source: Source, target: Target, credit: int) -> LocalTransaction:
        """Connect once, consume and produce."""
        connection = JvmConnection(_host(source.factory))
        await _open(connection, source.factory, source, target)
        return connection

    async def open_xa_source(self, source: Source, credit: int) -> XaSource:
        """Connect and consume. Raises `JmsError` for a factory without XA."""
        connection = JvmXaSource(_host(source.factory))
        await _open(connection, source.factory, source, None, has_xa=True)
        return connection

    async def open_xa_target(self, target: Target) -> XaTarget:
        """Connect and produce. Raises `JmsError` for a factory without XA."""
        connection = JvmXaTarget(_host(target.factory))
        await _open(connection, target.factory, None, target, has_xa=True)
        return connection


def _check(factory: ConnectionFactory) -> None:
    if importlib.util.find_spec("jpype") is None:
        raise ConfigurationError(f"the provider jvm needs the extra jvm; run {install_command('jvm')}")
    if factory.java is None:
        raise ConfigurationError("the provider jvm needs factoryClass, or jndiName and jndi, in its connection factory")


def _host(factory: ConnectionFactory) -> JvmHost:
    assert factory.java is not None
    if not factory.java.jars or not all(jar.startswith("/") for jar in factory.java.jars):
        raise ConfigurationError("the jars of the JMS provider are not found yet; see spanwire.bridges.jars")
    hosts = _hosts.setdefault(asyncio.get_running_loop(), {})
    host = hosts.get(factory.java.jars)
    if host is None or host.has_ended:
        for directory in {Path(jar).parent for jar in factory.java.jars}:
            check_directory(directory, DIRECTORY)
        for jar in factory.java.jars:
            check_file(Path(jar), JAR)
        host = hosts[factory.java.jars] = JvmHost(factory.java.jars)
    return host


async def _open(
    connection: HostConnection,
    factory: ConnectionFactory,
    source: Source | None,
    target: Target | None,
    has_xa: bool = False,
) -> None:
    java = factory.java
    assert java is not None
    await connection.open(
        {
            "factory": {
                "class_name": java.class_name,
                "properties": _revealed(java.properties),
                "jndi_name": java.jndi_name,
                "environment": _revealed(java.environment),
            },
            "xa": has_xa,
            "user": factory.user_name,
            "password": None if factory.password is None else factory.password.reveal(),
            "client_id": None if source is None else source.client_id,
            "source": None if source is None else source.destination.qualified_name,
            "selector": None if source is None else source.selector,
            "subscription": None if source is None else source.subscription,
            "target": None if target is None else target.destination.qualified_name,
        }
    )


def _revealed(values: tuple[tuple[str, Secret], ...]) -> list[tuple[str, str]]:
    return [(name, value.reveal()) for name, value in values]
