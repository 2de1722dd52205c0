"""Finds the brokers of discovery groups repeatedly, for a query that reads from all brokers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlencode

from spanwire.client.addressing.address import JMS_PREFIX, parse_url
from spanwire.client.io.environment import find_brokers
from spanwire.discovery.addresses.composite import parse_composite
from spanwire.model.errors import JmsError
from spanwire.pipeline.options import Login

SEARCH_INTERVAL_S: Final = 10.0  # seconds between two searches; a search by multicast takes about one

logger = logging.getLogger(__name__)


class BrokerFinder:
    """The brokers found so far, including brokers that are silent now."""

    def __init__(self, groups: Sequence[str], clock: Callable[[], float], find: Callable[[str], list[str]]) -> None:
        """Search the groups with ``find``, which returns URLs and raises `JmsError` if there are none."""
        self._groups: Final = tuple(groups)
        self._clock: Final = clock
        self._find: Final = find
        self._found: dict[str, None] = {}
        self._thread: threading.Thread | None = None
        self._due = 0.0

    def first(self) -> list[str]:
        """Search all groups once and return the URLs of the brokers."""
        self._search()
        self._due = self._clock() + SEARCH_INTERVAL_S
        return list(self._found)

    def found(self) -> list[str]:
        """Return the URLs of the brokers found so far, and search in a thread from time to time."""
        is_searching = self._thread is not None and self._thread.is_alive()
        if self._groups and not is_searching and self._clock() >= self._due:
            self._due = self._clock() + SEARCH_INTERVAL_S
            self._thread = threading.Thread(target=self._search, name="spanwire-broker-finder", daemon=True)
            self._thread.start()
        return list(self._found)

    def _search(self) -> None:
        for group in self._groups:
            try:
                urls = self._find(group)
            except JmsError as error:
                logger.info("searching for brokers: %s", error)
                continue
            self._found = {**self._found, **dict.fromkeys(urls)}


def find_in_group(login: Login, group: str) -> list[str]:
    """Return the URLs of the brokers that a group has now, each with the options of the group's URL.

    Raises:
        JmsError: no broker was announced, or none may receive the login.
    """
    password = None if login.password is None else login.password.reveal()
    url = parse_url(group, login.user, password, login.client_id)
    options = {name: value for name, value in parse_composite(group).options.items() if name.startswith(JMS_PREFIX)}
    query = urlencode({**url.discovered, **options})
    addresses = url.addresses if url.group is None else find_brokers(url, url.group, login.tls)
    return [f"{address.url}?{query}" if query else address.url for address in addresses]
