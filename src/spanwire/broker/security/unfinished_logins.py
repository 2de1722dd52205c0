"""Connections that end before anybody has logged in: port scanners, half-open clients, sockets that say nothing.

Whoever opens thousands of them cannot fill the log: of one address one line is written in `WINDOW`, and the next one
says how many there were meanwhile.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.security.audit_log import host_of, printable

WINDOW: Final = 10.0  # seconds between two lines about one address
MAX_HOSTS: Final = 1_000  # counted apart; the address heard of longest ago makes room, with its count
MAX_LINES: Final = 100  # in one window, of all addresses

logger = logging.getLogger(__name__)


class _Count:
    """What was not written about one address since its last line."""

    __slots__ = ("not_written", "written_at")

    def __init__(self, written_at: float) -> None:
        self.written_at = written_at
        self.not_written = 0


class UnfinishedLogins:
    """Writes and counts. Time is passed in, in monotonic seconds; closing the connection is left to its protocol."""

    def __init__(self) -> None:
        self._hosts: Final[dict[str, _Count]] = {}
        self._window_end = 0.0
        self._lines = 0

    def ended(self, address: str, protocol: str, reason: str, now: float) -> None:
        """The connection of ``address`` was closed before its login, because of ``reason``."""
        host = host_of(address)
        count = self._hosts.get(host)
        if now >= self._window_end:
            self._window_end = now + WINDOW
            self._lines = 0
        if (count is not None and now < count.written_at + WINDOW) or self._lines >= MAX_LINES:
            self._counted(host, count, now)
            return
        not_written = 0
        if count is not None:
            not_written = count.not_written
            del self._hosts[host]
        self._remember(host, _Count(now))
        self._lines += 1
        more = f"; {not_written} more from there since the last line" if not_written else ""
        logger.warning("%s connection of %s closed: %s%s", protocol, printable(address), printable(reason), more)

    def _counted(self, host: str, count: _Count | None, now: float) -> None:
        if count is None:
            count = _Count(now - WINDOW)
            self._remember(host, count)
        count.not_written += 1

    def _remember(self, host: str, count: _Count) -> None:
        if len(self._hosts) >= MAX_HOSTS:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = count
