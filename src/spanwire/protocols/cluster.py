"""Which other brokers the clients of one connector are told of (ActiveMQ, Transport Connector: updateClusterClients).

A client that connects again by itself hears of them after its login and whenever they change. With ``rebalance`` it is
asked to spread, too; each client gets the same brokers with another one first, so that those that keep the order of
their list spread as well.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, Protocol

MAX_BROKERS: Final = 64  # in one list: as many as a client takes
SEPARATOR: Final = ","
MEMBERS_PER_TURN: Final = 500  # clients that are told of a change in one turn, some microseconds each
MAX_NAME: Final = 256  # characters of a broker's name that patterns are compared with; others choose it


class ClusterMember(Protocol):
    """The connection of a client that wants to hear."""

    def advise(self, connected_brokers: str, rebalance: bool) -> None:
        """Tell the client."""
        ...


class ClusterClients:
    """The clients of one connector. Leaves finding brokers to the caller, and asking whether one `may_be_told`:
    ``patterns`` of names, any when there are none (updateClusterFilter).
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
        self._pending: Final[dict[ClusterMember, None]] = {}  # those that are still to hear of a change
        self._announcements = 0

    def is_announced(self, name: str) -> bool:
        """Whether clients hear of the broker of this name."""
        if not self._patterns:
            return True
        return any(re.fullmatch(pattern, name[:MAX_NAME]) is not None for pattern in self._patterns)

    def join(self, member: ClusterMember, is_reconnected: bool) -> None:
        """A client has logged in; one that ``is_reconnected`` has had to move already and is not asked to."""
        self._members[member] = None
        member.advise(self._listing(), self.rebalances and not is_reconnected)

    def leave(self, member: ClusterMember) -> None:
        """It is gone."""
        self._members.pop(member, None)
        self._pending.pop(member, None)

    def change(self, brokers: list[str]) -> None:
        """These brokers are there now, this one included. The first clients hear of it; `tell_more` is for the rest."""
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
        """Tell further clients of the last change; True while there are others. To be called in turns of their own."""
        for member in list(islice(self._pending, MEMBERS_PER_TURN)):
            del self._pending[member]
            member.advise(self._listing(), self.rebalances)
        return len(self._pending) > 0

    def _listing(self) -> str:
        if not self.updates or not self.brokers:
            return ""
        start = self._announcements % len(self.brokers) if self.rebalances else 0
        self._announcements += 1
        return SEPARATOR.join(self.brokers[start:] + self.brokers[:start])
