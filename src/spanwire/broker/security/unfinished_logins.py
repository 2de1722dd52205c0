"""Connections closed before a login: port scanners, half-open clients, silent sockets.

For each address one line is logged in `WINDOW`, so that thousands of connections cannot fill the log; the next line
reports the number of unlogged connections.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.security.audit_log import host_of, printable

WINDOW: Final = 10.0  # seconds between two log lines about one address
MAX_HOSTS: Final = 1_000  # addresses counted separately; the oldest one is dropped
MAX_LINES: Final = 100  # log lines of all addresses in one window

logger = logging.getLogger(__name__)


class _Count:
    """The connections of one address since the last log line."""

    __slots__ = ("not_written", "written_at")

    def __init__(self, written_at: float) -> None:
        self.written_at = written_at
        self.not_written = 0


class UnfinishedLogins:
    """Logs and counts. Time is passed in, in monotonic seconds; the protocol closes the connection."""

    def __init__(self) -> None:
        self._hosts: Final[dict[str, _Count]] = {}
        self._window_end = 0.0
        self._lines = 0

    def ended(self, address: str, protocol: str, reason: str, now: float) -> None:
        """Log that a connection of ``address`` was closed before the login because of ``reason``."""
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
