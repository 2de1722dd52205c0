"""The clients of a network, as described in a TOML file for ``spanwire network lint --clients``.

    [[client]]
    uri = "failover:(tcp://a.example:61616,tcp://b.example:61616)"    # or broker = "A"
    consumes = "queue://ORDERS"
    selector = "region = 'us'"
    consumers = 2

A client ``consumes`` from destinations or ``sends`` to them, each a string or a list. With ``requests`` the client
receives replies in a temporary queue. ``group_size`` is the number of messages in one message group.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spanwire.documents.spelling import suggestion
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.errors import ConfigurationError, InvalidDestinationError
from spanwire.service.config.values.diagnostics import read_text_file

TABLE: Final = re.compile(r"\s*\[\[\s*client\s*\]\]")
WORDS: Final = ("broker", "uri", "consumes", "sends", "selector", "consumers", "requests", "group_size")
MAX_COUNT: Final = 1_000_000_000  # largest number of consumers of one client, or of messages of one group


@dataclass(frozen=True, slots=True)
class DescribedClient:
    """A client; ``uri`` is empty for a client of the broker ``broker``."""

    location: str
    broker: str = ""
    uri: str = ""
    consumes: tuple[Destination, ...] = ()
    sends: tuple[Destination, ...] = ()
    selector: str = ""
    consumers: int = 1
    requests: bool = False
    group_size: int = 0

    @property
    def is_fanout(self) -> bool:
        """True if the client is connected to all brokers of its URI at a time."""
        return self.uri.lower().startswith("fanout:")


def read_clients(path: str) -> tuple[DescribedClient, ...]:
    """Return the clients of a file. Raises `ConfigurationError` with file and line."""
    content = read_text_file(Path(path))
    try:
        text = content.decode("utf-8")
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}:1: the TOML is broken: {error}") from None
    lines = [number for number, line in enumerate(text.splitlines(), 1) if TABLE.match(line)]
    tables = document.get("client")
    if set(document) - {"client"} or not isinstance(tables, list) or len(lines) != len(tables):
        raise ConfigurationError(f"{path}:1: write a [[client]] table for each client and nothing else")
    return tuple(_Reader(f"{path}:{line}", table).client() for line, table in zip(lines, tables, strict=True))


class _Reader:
    """Reads one table."""

    def __init__(self, location: str, table: Mapping[str, object]) -> None:
        self._location: Final = location
        self._table: Final = table

    def client(self) -> DescribedClient:
        """Return the client in the table."""
        for word in self._table:
            if word not in WORDS:
                raise self._error(f"unknown word {word!r}{suggestion(word, WORDS)}")
        broker, uri = self._text("broker"), self._text("uri")
        if bool(broker) == bool(uri):
            raise self._error("a client needs a broker or a uri")
        return DescribedClient(
            self._location,
            broker,
            uri,
            self._destinations("consumes"),
            self._destinations("sends"),
            self._text("selector"),
            self._number("consumers", 1),
            self._flag("requests"),
            self._number("group_size", 0),
        )

    def _error(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"{self._location}: {reason}")

    def _text(self, word: str) -> str:
        value = self._table.get(word, "")
        if not isinstance(value, str):
            raise self._error(f"{word} must be a text")
        return value.strip()

    def _flag(self, word: str) -> bool:
        value = self._table.get(word, False)
        if not isinstance(value, bool):
            raise self._error(f"{word} must be true or false")
        return value

    def _number(self, word: str, default: int) -> int:
        value = self._table.get(word, default)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_COUNT:
            raise self._error(f"{word} must be a whole number from 0 to {MAX_COUNT}")
        return value

    def _destinations(self, word: str) -> tuple[Destination, ...]:
        value = self._table.get(word, [])
        names = value if isinstance(value, list) else [value]
        destinations: list[Destination] = []
        for name in names:
            try:
                if not isinstance(name, str) or "://" not in name:
                    raise self._error(f"{word} must name destinations such as queue://ORDERS")
                destinations.append(parse_destination(name))
            except InvalidDestinationError as error:
                raise self._error(f"{word}: {error}") from None
        return tuple(destinations)
