"""Broker configurations adapted for tests: free ports of the loopback, messages in memory."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from spanwire.broker.security.authentication import REQUIRED
from spanwire.model.errors import ConfigurationError
from spanwire.model.secret import Secret
from spanwire.service.config.loading import load_configuration
from spanwire.service.config.model import (
    AuthenticationConfiguration,
    BrokerConfiguration,
    LoginModuleConfiguration,
    UserConfiguration,
    default_configuration,
)
from spanwire.service.config.reading import read_configuration
from spanwire.service.config.reference import DEFAULT_BROKER_NAME
from spanwire.transports.base import ConnectorSettings

LOOPBACK: Final = "127.0.0.1"
XML_NAME: Final = "activemq.xml"
TOML_NAME: Final = "spanwire.toml"

Source = str | Path | BrokerConfiguration | None

_numbers: Final = itertools.count(1)


def read_source(source: Source, placeholders: Mapping[str, str] | None = None) -> BrokerConfiguration:
    """Read a configuration: XML or TOML text, the path of a file, or None for the default configuration.

    Raises `ConfigurationError` with one line per obstacle.
    """
    if source is None:
        return replace(default_configuration(), source="default of the tests")
    if isinstance(source, BrokerConfiguration):
        return source
    if isinstance(source, str) and (source.lstrip().startswith("<") or "\n" in source or "=" in source):
        name = XML_NAME if source.lstrip().startswith("<") else TOML_NAME
        return read_configuration(source.encode("utf-8"), Path(name), placeholders or {}, os.environ)
    return load_configuration(str(source), placeholders or {})


def for_test(
    configuration: BrokerConfiguration,
    *,
    name: str | None = None,
    persistent: bool = False,
    users: Mapping[str, str] | None = None,
    sockets: bool = True,
    keep_ports: bool = False,
) -> BrokerConfiguration:
    """Return the configuration adapted for a test.

    Arguments:
        name: Name of the broker; replaces the default name by a unique one if None.
        persistent: Keep the journal of the configuration; otherwise messages stay in memory.
        users: Names and passwords, for a configuration without authentication.
        sockets: False removes all connectors.
        keep_ports: Keep hosts and ports; otherwise free ports of the loopback are used.

    Raises:
        ConfigurationError: ``users`` for a configuration with authentication.
    """
    connectors = configuration.connectors if sockets else ()
    if not keep_ports:
        connectors = tuple(replace(connector, host=LOOPBACK, port=0) for connector in connectors)
    lock = replace(configuration.persistence.lock, fail_if_locked=True)  # a test must end, not wait for another one
    return replace(
        configuration,
        broker_name=name or _own_name(configuration),
        connectors=connectors,
        persistence=replace(
            configuration.persistence,
            persistent=persistent and configuration.persistence.persistent,
            directory=None,
            lock=lock,
        ),
        authentication=_authentication(configuration, users),
    )


def with_ports(configuration: BrokerConfiguration, ports: list[int]) -> BrokerConfiguration:
    """Return the configuration with the ports that the connectors got."""
    connectors: list[ConnectorSettings] = []
    for connector, port in zip(configuration.connectors, ports, strict=True):
        connectors.append(replace(connector, port=port))
    return replace(configuration, connectors=tuple(connectors))


def _own_name(configuration: BrokerConfiguration) -> str:
    if configuration.broker_name != DEFAULT_BROKER_NAME:
        return configuration.broker_name
    return f"test-{os.getpid()}-{next(_numbers)}"


def _authentication(
    configuration: BrokerConfiguration, users: Mapping[str, str] | None
) -> AuthenticationConfiguration | None:
    if not users:
        return configuration.authentication
    if configuration.authentication is not None:
        raise ConfigurationError(
            f"{configuration.source}: has users of its own; add yours there, or leave out its authentication"
        )
    known = tuple(UserConfiguration(name, Secret(password)) for name, password in users.items())
    return AuthenticationConfiguration((LoginModuleConfiguration(REQUIRED, users=known),))
