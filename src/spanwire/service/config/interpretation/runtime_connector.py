"""Interprets connectors added to a running broker by an operator, with a configuration file's rules."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spanwire.discovery.groups.agent_settings import HttpRegistrySettings
from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.interpretation.interpretation import Interpreter
from spanwire.service.config.interpretation.network import NetworkInterpreter
from spanwire.service.config.readers.properties import Variables
from spanwire.service.config.security.tls import NO_STORES, Stores
from spanwire.service.config.values.decryption import PREFIX, Decryption
from spanwire.service.config.values.diagnostics import Findings

if TYPE_CHECKING:
    from spanwire.network.connector.link import NetworkConnectorSettings
    from spanwire.transports.base import ConnectorSettings

SOURCE: Final = "request"
LINE: Final = 1
PASSWORDS: Final = ("password", "remotePassword")  # of a link, and may be encrypted with the broker's master password
DESTINATION_LISTS: Final = ("excludedDestinations", "dynamicallyIncludedDestinations", "staticallyIncludedDestinations")


def read_connector(attributes: Mapping[str, str | list[str]], stores: Stores | None) -> NetworkConnectorSettings:
    """Return the settings of a network connector.

    Args:
        attributes: attributes of ``<networkConnector>``, ``uri`` among them, and the names of its inner
            `DESTINATION_LISTS`, such as ``queue://ORDERS.>``. Passwords may be ``ENC(…)``.
        stores: key and trust store of the broker, for links with TLS.

    Raises:
        ConfigurationError: an attribute or the uri is refused, each reason on a line of its own
    """
    findings = Findings(SOURCE)
    broker = _broker("networkConnector", attributes)
    decryption = Decryption(os.environ)
    checks = Interpreter(findings, Path(), Variables({}, {}), decryption)
    reader = NetworkInterpreter(findings, checks.inner, decryption, lambda elements: NO_STORES)
    settings = reader.connectors(broker, NO_STORES if stores is None else stores)
    _raise_if_any(findings)
    discovery = settings[0].discovery
    if discovery is not None and isinstance(discovery.agent, HttpRegistrySettings):
        raise ConfigurationError(
            "a registry by HTTP is named in a configuration file only; write static:(tcp://host:port)"
        )
    return settings[0]


def read_listener(attributes: Mapping[str, str], stores: Stores | None) -> ConnectorSettings:
    """Return the settings of a transport connector.

    Args:
        attributes: attributes of ``<transportConnector>``, ``uri`` among them.
        stores: key and trust store of the broker, for connectors with TLS.

    Raises:
        ConfigurationError: an attribute or the uri is refused, each reason on a line of its own
    """
    findings = Findings(SOURCE)
    checks = Interpreter(findings, Path(), Variables({}, {}), Decryption({}))
    settings = checks.connectors(_broker("transportConnector", attributes), NO_STORES if stores is None else stores)
    _raise_if_any(findings)
    if not settings:
        raise ConfigurationError("clients in the broker's process need no connector; write tcp://host:port")
    return settings[0]


def _broker(name: str, attributes: Mapping[str, str | list[str]]) -> Element:
    """Return ``<broker>`` with one connector. Raises `ConfigurationError` for an encrypted attribute."""
    texts = {name: value for name, value in attributes.items() if isinstance(value, str)}
    encrypted = next(
        (name for name, value in texts.items() if value.strip().startswith(PREFIX) and name not in PASSWORDS), None
    )
    if encrypted is not None:
        raise ConfigurationError(f"{encrypted[:60]} is encrypted, which only a configuration file can be")
    values = {name: Attribute(value, LINE) for name, value in texts.items()}
    lists = [_list(name, value) for name, value in attributes.items() if isinstance(value, list)]
    group = Element(f"{name}s", LINE, children=[Element(name, LINE, attributes=values, children=lists)])
    return Element("broker", LINE, children=[group])


def _list(name: str, destinations: list[str]) -> Element:
    """Return a list of destinations. Raises `ConfigurationError`."""
    if name not in DESTINATION_LISTS:
        raise ConfigurationError(f"{name[:60]} is no list of destinations; there are {', '.join(DESTINATION_LISTS)}")
    entries = []
    for destination in destinations:
        kind, separator, physical = destination.partition("://")
        if kind not in ("queue", "topic") or not separator:
            raise ConfigurationError(f"{destination[:80]} in {name}: write queue://NAME or topic://NAME")
        entries.append(Element(kind, LINE, attributes={"physicalName": Attribute(physical, LINE)}))
    return Element(name, LINE, children=entries)


def _raise_if_any(findings: Findings) -> None:
    try:
        findings.raise_if_any()
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace(f"{SOURCE}:{LINE}: ", "")) from error
