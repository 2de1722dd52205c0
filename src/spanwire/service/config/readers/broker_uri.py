"""Reads broker URIs and ``properties:PATH`` (ActiveMQ, Broker Configuration URI).

A broker URI is ``broker:(tcp://host:port,network:static:(tcp://other:port))/NAME?option=value``. The inner URIs become
transport connectors, or network connectors after ``network:``. The options become attributes of the ``broker`` element.
``transportConnectorURIs`` and ``networkConnectorURIs``, in properties or attributes, are lists of such URIs. The result
is the same tree as from XML and TOML, so every word is checked alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from spanwire.discovery.addresses.composite import parse_composite, split_parts
from spanwire.documents.element import Attribute, Element
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.readers.properties import read_properties
from spanwire.service.config.values.diagnostics import read_text_file

NETWORK: Final = "network:"
PROXY: Final = "proxy:"
TRANSPORT_LIST: Final = "transportConnectorURIs"
NETWORK_LIST: Final = "networkConnectorURIs"
NAME: Final = "brokerName"


def broker_element(text: str) -> Element:
    """Return the ``broker`` element of ``broker:(…)``; raises `ConfigurationError`."""
    composite = parse_composite(text)
    if composite.scheme != "broker" or not composite.is_list:
        raise ConfigurationError("a broker URI is written broker:(tcp://host:port)/NAME?option=value")
    options = dict(composite.options)
    name = composite.path.strip("/")
    if name and options.setdefault(NAME, name) != name:
        raise ConfigurationError("the path and brokerName of the broker: uri differ; keep one of them")
    networks = [part.removeprefix(NETWORK) for part in composite.parts if part.startswith(NETWORK)]
    return element(options, [part for part in composite.parts if not part.startswith(NETWORK)], networks)


def properties_element(path: Path) -> Element:
    """Return the ``broker`` element of a properties file; raises `ConfigurationError`."""
    try:
        text = read_text_file(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: is not in UTF-8; save it as UTF-8") from error
    options = {name.removeprefix("broker."): value.strip() for name, value in read_properties(text).items()}
    broker = element(options, (), ())
    read_lists(broker)
    return broker


def read_lists(broker: Element) -> None:
    """Replace the two list attributes of ``broker`` by connectors; raises `ConfigurationError`."""
    lists: list[Sequence[str]] = []
    line = broker.line
    for name in (TRANSPORT_LIST, NETWORK_LIST):
        attribute = broker.attributes.pop(name, None)
        if attribute is not None:
            line = attribute.line
        lists.append(split_parts(name, attribute.value) if attribute is not None and attribute.value.strip() else ())
    _add(broker, lists[0], lists[1], line)


def element(options: Mapping[str, str], transports: Sequence[str], networks: Sequence[str]) -> Element:
    """Return a ``broker`` element with attributes and connectors."""
    if any(uri.startswith(PROXY) for uri in transports):
        raise ConfigurationError("proxy: of the broker: uri is not supported; write network:static:(tcp://host:port)")
    broker = Element("broker", 1, attributes={name: Attribute(value, 1) for name, value in options.items()})
    broker.attributes.setdefault(NAME, Attribute("localhost", 1))
    _add(broker, transports, networks, 1)
    return broker


def _add(broker: Element, transports: Sequence[str], networks: Sequence[str], line: int) -> None:
    connectors = [Element("transportConnector", line, attributes={"uri": Attribute(uri, line)}) for uri in transports]
    links = [_link(uri, f"NC-{number}", line) for number, uri in enumerate(networks, 1)]
    if connectors:
        broker.children.append(Element("transportConnectors", line, children=connectors))
    if links:
        broker.children.append(Element("networkConnectors", line, children=links))


def _link(uri: str, name: str, line: int) -> Element:
    """Return a network connector with the name in the URI, or else with ``name``.

    See `spanwire.service.config.interpretation.addresses.connector_uri`.
    """
    link = Element("networkConnector", line, attributes={"uri": Attribute(uri, line)})
    if "?name=" not in uri and "&name=" not in uri:
        link.attributes["name"] = Attribute(name, line)
    return link
