"""The audit log: one line in the logger ``spanwire.audit`` for each refused action.

A line names user, address, protocol and action, never a password. Above a limit lines are counted instead of written,
so that a peer cannot fill the log; the next written line reports the count.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext

WINDOW: Final = 10.0  # seconds of one count
MAX_LINES_PER_HOST: Final = 20  # lines of one host in a window: a person reads no more
MAX_LINES: Final = 200  # lines of all hosts in a window
MAX_HOSTS: Final = 1_000  # hosts counted separately; others share the common limit
MAX_TEXT: Final = 200  # characters of a value chosen by a peer

logger = logging.getLogger("spanwire.audit")


class AuditLog:
    """Writes refusals. `AccessControl` and `Logins` decide about refusals."""

    def __init__(self, context: BrokerContext) -> None:
        self._context: Final[BrokerContext] = context
        self._hosts: Final[dict[str, int]] = {}
        self._window_end = 0.0
        self._lines = 0
        self._suppressed = 0

    def refused(self, user: str | None, address: str, protocol: str, what: str) -> None:
        """Write that ``user`` at ``address`` may not do ``what``, for example "write to queue://A"."""
        if self._context.monotonic >= self._window_end:
            self._window_end = self._context.monotonic + WINDOW
            self._hosts.clear()
            self._lines = 0
        host = host_of(address)
        count = self._hosts.get(host, 0)
        if count >= MAX_LINES_PER_HOST or self._lines >= MAX_LINES:
            self._suppressed += 1
            return
        if count > 0 or len(self._hosts) < MAX_HOSTS:
            self._hosts[host] = count + 1
        self._lines += 1
        if self._suppressed:
            logger.warning("%d more refusals were not written", self._suppressed)
            self._suppressed = 0
        logger.warning(
            "refused: user %s at %s (%s) may not %s",
            "null" if user is None else printable(user),
            printable(address),
            printable(protocol),
            printable(what),
        )


def host_of(address: str) -> str:
    """Return the host of an address: ``10.0.0.1`` for ``tcp://10.0.0.1:40000``."""
    start = address.find("://")
    text = address[start + 3 :] if start >= 0 else address
    colon = text.rfind(":")
    return text[:colon] if colon >= 0 else text


def printable(text: str) -> str:
    """A peer's words on one line of bounded length."""
    shown = "".join([character if character.isprintable() else "?" for character in text[:MAX_TEXT]])
    return shown if len(text) <= MAX_TEXT else shown + "…"


def of_user(name: str) -> str:
    """Return the words of a line about a user's task; the command line begins tasks without a user."""
    return f" of user {printable(name)}" if name else ""
