"""Interprets the ``publishedAddressPolicy`` of a ``transportConnector``.

A mapping is an attribute, ``hostMapping="10.0.0.5=broker.example.com"`` (several with commas), or an element with
entries: ``<hostMapping><entry key="10.0.0.5" value="broker.example.com"/></hostMapping>``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from spanwire.documents.element import Element
from spanwire.service.config.tables import attribute_table as words
from spanwire.service.config.tables import broker_attributes
from spanwire.service.config.tables.handling import Words
from spanwire.service.config.values.diagnostics import MAX_WORD, Findings
from spanwire.service.config.values.values import Settings
from spanwire.transports.published_address import MAX_MAPPED, PublishedAddress

POLICY: Final = "publishedAddressPolicy"
HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.:\-]{0,252})", re.ASCII)
MAX_PORT: Final = 65_535
SEPARATORS: Final = re.compile(r"[,;\s]+")


@dataclass(frozen=True, slots=True)
class PublishedInterpreter:
    """Interprets the published address of a connector; ``inner`` returns checked inner elements."""

    findings: Findings
    inner: Callable[[Element, str, Words], list[Element]]

    def published(self, connector: Element) -> PublishedAddress | None:
        """Return the rules for the address of a connector, None without the element."""
        for policy in self.inner(connector, POLICY, words.PUBLISHED):
            hosts = [
                (old, new) for old, new, line in self._pairs(policy, "hostMapping") if self._are_hosts(old, new, line)
            ]
            ports = [
                (int(old), int(new))
                for old, new, line in self._pairs(policy, "portMapping")
                if self._are_ports(old, new, line)
            ]
            if max(len(hosts), len(ports)) > MAX_MAPPED:
                self.findings.error(policy.line, f"<{POLICY}> maps more than {MAX_MAPPED} hosts or ports")
            values = broker_attributes.PUBLISHED.values(Settings(policy, self.findings))
            return PublishedAddress(hosts=tuple(hosts), ports=tuple(ports), **values)
        return None

    def _pairs(self, policy: Element, name: str) -> Iterator[tuple[str, str, int]]:
        """Yield each pair of a mapping with its line."""
        attribute = policy.attributes.get(name)
        if attribute is not None:
            for pair in filter(None, SEPARATORS.split(attribute.value)):
                old, _, new = pair.partition("=")
                yield old, new, attribute.line
        for holder in self.inner(policy, name, words.MAPPING):
            for group in (
                holder,
                *self.inner(holder, "map", words.MAPPING),
                *self.inner(holder, "props", words.MAPPING),
            ):
                for entry in self.inner(group, "entry", words.MAP_ENTRY):
                    yield self._part(entry, "key"), self._part(entry, "value"), entry.line
                for prop in (child for child in group.children if child.name == "prop"):
                    yield (prop.value("key") or "").strip(), prop.text.strip(), prop.line

    def _part(self, entry: Element, name: str) -> str:
        """Return the key or the value of an entry: an attribute, or the text of an inner element."""
        inner = entry.child(name)
        return (entry.value(name) or ("" if inner is None else inner.text)).strip()

    def _are_hosts(self, old: str, new: str, line: int) -> bool:
        for host in (old, new):
            if HOST.fullmatch(host) is None:
                self.findings.error(line, f"hostMapping of <{POLICY}>: {host[:MAX_WORD]!r} is no host; write old=new")
                return False
        return True

    def _are_ports(self, old: str, new: str, line: int) -> bool:
        for port in (old, new):
            if not (port.isascii() and port.isdecimal() and 0 < int(port[:6]) <= MAX_PORT):
                self.findings.error(line, f"portMapping of <{POLICY}>: {port[:MAX_WORD]!r} is no port; write old=new")
                return False
        return True
