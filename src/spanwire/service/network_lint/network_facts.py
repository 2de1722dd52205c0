"""Facts in a broker's file beside the settings: version, lines and client URIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from spanwire.documents.element import Element
from spanwire.documents.xml import read_xml
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import ConfigurationError
from spanwire.service.config.toml import read_toml
from spanwire.service.config.values.diagnostics import read_text_file

VERSIONED_SCHEMA: Final = re.compile(rb"/activemq-core-([0-9]{1,2})\.([0-9]{1,2})[0-9.]{0,8}(?:-[A-Za-z]{1,10})?\.xsd")
CLIENT_SCHEMES: Final = ("failover:", "fanout:")
MAX_URI: Final = 4096  # characters of a client's URI; the rest is cut
Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ClientUri:
    """A client's URI with a ``failover:`` or ``fanout:`` list of brokers, and the place of the URI."""

    location: str
    uri: str


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of one file.

    Attributes:
        source: the path of the file.
        is_toml: True for a TOML file, a format of Spanwire alone.
        version: the version of ActiveMQ in the XML schema, None if unknown.
        lines: the line of the first setting or element, by name.
        unaudited: the queues with enableAudit="false".
        grouped: the queues with a message group factory.
        rebalancing_line: the line of a transport connector with rebalancing of clients, 0 without.
        clients: the client URIs.
        fanout_places: the places of network connectors to several brokers at a time.
    """

    source: str = ""
    is_toml: bool = False
    version: Version | None = None
    lines: dict[str, int] = field(default_factory=dict)
    unaudited: tuple[Destination, ...] = ()
    grouped: tuple[Destination, ...] = ()
    rebalancing_line: int = 0
    clients: tuple[ClientUri, ...] = ()
    fanout_places: tuple[str, ...] = ()

    def location(self, word: str) -> str:
        """Return file and line of the first setting or element with a name, or of the broker element."""
        return f"{self.source}:{self.lines.get(word, self.lines.get('broker', 1))}"

    def can_be_older(self, version: Version) -> bool:
        """Return True if the broker may be older than ``version``."""
        return not self.is_toml and (self.version is None or self.version < version)

    def is_older(self, version: Version) -> bool:
        """Return True if the file was written for an older version."""
        return self.version is not None and self.version < version


def read_facts(path: str) -> FileFacts:
    """Return the facts of a file, empty for an unreadable file."""
    try:
        content = read_text_file(Path(path))
        is_toml = path.lower().endswith(".toml")
        root = read_toml(content, path) if is_toml else read_xml(content, path)
    except ConfigurationError:
        return FileFacts(path)
    schema = None if is_toml else VERSIONED_SCHEMA.search(content)
    lines: dict[str, int] = {}
    queues: dict[str, list[Destination]] = {"unaudited": [], "grouped": []}
    clients: list[ClientUri] = []
    fanout_places: list[str] = []
    rebalancing_line = 0
    for element in _all(root):
        lines.setdefault(element.name, element.line)
        for name, attribute in element.attributes.items():
            lines.setdefault(name, attribute.line)
            if element.name != "networkConnector":
                clients += _clients(path, attribute.line, attribute.value)
            elif attribute.value.strip().lower().startswith("fanout:"):
                fanout_places.append(f"{path}:{attribute.line}")
        clients += _clients(path, element.line, element.text)
        if element.name == "policyEntry":
            _policy(element, queues)
        if element.name == "transportConnector" and _rebalances(element):
            rebalancing_line = rebalancing_line or element.line
    return FileFacts(
        path,
        is_toml,
        None if schema is None else (int(schema[1]), int(schema[2])),
        lines,
        tuple(queues["unaudited"]),
        tuple(queues["grouped"]),
        rebalancing_line,
        tuple(clients),
        tuple(fanout_places),
    )


def _all(element: Element) -> Iterator[Element]:
    yield element
    for child in element.children:
        yield from _all(child)


def _clients(path: str, line: int, text: str) -> list[ClientUri]:
    text = text.strip()
    return [ClientUri(f"{path}:{line}", text[:MAX_URI])] if text.lower().startswith(CLIENT_SCHEMES) else []


def _policy(element: Element, queues: dict[str, list[Destination]]) -> None:
    if "topic" in element.attributes:
        return
    queue = Destination(QUEUE, element.value("queue") or ">")
    if element.value("enableAudit") == "false":
        queues["unaudited"].append(queue)
    if any(name.startswith("messageGroupMapFactory") for name in _words(element)):
        queues["grouped"].append(queue)


def _words(element: Element) -> list[str]:
    return [*element.attributes, *[child.name for child in element.children]]


def _rebalances(element: Element) -> bool:
    return any(
        element.value(name) == "true"
        for name in ("updateClusterClients", "rebalanceClusterClients", "updateClusterClientsOnRemove")
    )
