"""Announces other brokers to the clients of a connector.

See ActiveMQ, "Transport Connector", updateClusterClients.

A client that reconnects by itself gets the list of brokers after its login and after every change. With ``rebalance``
the client is also asked to spread. Each client gets the list rotated by one more, so that clients that keep the order
of their list spread as well.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, Protocol

MAX_BROKERS: Final = 64  # brokers in one list; as many as a client accepts
SEPARATOR: Final = ","
MEMBERS_PER_TURN: Final = 500  # clients that learn of a change in one turn; each takes some microseconds
MAX_NAME: Final = 256  # characters of a broker's name compared with patterns; other brokers choose the name


class ClusterMember(Protocol):
    """The connection of a client that accepts the list of brokers."""

    def advise(self, connected_brokers: str, rebalance: bool) -> None:
        """Send the client the list of brokers."""
        ...


class ClusterClients:
    """The clients of a connector that get the list of brokers.

    The caller finds the brokers and asks `is_announced` for each. ``patterns`` are regular expressions for broker names
    (updateClusterFilter); without patterns all brokers are announced.
    """

    def __init__(
        self, updates: bool, rebalances: bool, updates_on_remove: bool, patterns: tuple[str, ...] = ()
    ) -> None:
        self.updates: Final[bool] = updates
        self.rebalances: Final[bool] = rebalances
        self.updates_on_remove: Final[bool] = updates_on_remove
        self.brokers: list[str] = []
        self._patterns: Final[tuple[str, ...]] = patterns
        self._members: Final[dict[ClusterMember, None]] = {}
        self._pending: Final[dict[ClusterMember, None]] = {}  # members that do not know the last change yet
        self._spreading: Final[dict[ClusterMember, None]] = {}  # members that an operator spreads
        self._targets: list[str] = []  # the brokers that these spread over
        self._announcements = 0

    def is_announced(self, name: str) -> bool:
        """Return True if clients may learn of the broker with this name."""
        if not self._patterns:
            return True
        return any(re.fullmatch(pattern, name[:MAX_NAME]) is not None for pattern in self._patterns)

    def join(self, member: ClusterMember, is_reconnected: bool) -> None:
        """Add a client after its login; a client that ``is_reconnected`` has just moved and is asked to stay."""
        self._members[member] = None
        member.advise(self._listing(), self.rebalances and not is_reconnected)

    def leave(self, member: ClusterMember) -> None:
        """Remove a disconnected client."""
        self._members.pop(member, None)
        self._pending.pop(member, None)
        self._spreading.pop(member, None)

    @property
    def announces(self) -> bool:
        """True if clients get the list of brokers by the settings of the connector."""
        return self.updates or self.rebalances

    def spread(self, brokers: list[str]) -> int:
        """Ask all clients once to spread over ``brokers``, whatever the settings of the connector.

        The caller asks them by `announce_more`.

        Returns:
            The number of clients.
        """
        self._targets = brokers[:MAX_BROKERS]
        self._spreading.update(self._members)
        return len(self._members)

    def change(self, brokers: list[str]) -> None:
        """Set the connected brokers, this broker included, and announce a change to the first clients.

        The caller announces the change to the other clients by `announce_more`.
        """
        brokers = brokers[:MAX_BROKERS]
        if brokers == self.brokers:
            return
        has_new = any(uri not in self.brokers for uri in brokers)
        self.brokers = brokers
        if not has_new and not self.updates_on_remove:
            return
        self._pending.clear()
        self._pending.update(self._members)
        self.announce_more()

    def announce_more(self) -> bool:
        """Announce the last change to further clients, in a turn of its own.

        Returns:
            True while other clients are still to be informed.
        """
        for member in list(islice(self._pending, MEMBERS_PER_TURN)):
            del self._pending[member]
            member.advise(self._listing(), self.rebalances)
        for member in list(islice(self._spreading, MEMBERS_PER_TURN)):
            del self._spreading[member]
            member.advise(self._rotated(self._targets), True)
        return len(self._pending) > 0 or len(self._spreading) > 0

    def _listing(self) -> str:
        if not self.updates or not self.brokers:
            return ""
        return self._rotated(self.brokers) if self.rebalances else SEPARATOR.join(self.brokers)

    def _rotated(self, brokers: list[str]) -> str:
        start = self._announcements % len(brokers)
        self._announcements += 1
        return SEPARATOR.join(brokers[start:] + brokers[:start])
