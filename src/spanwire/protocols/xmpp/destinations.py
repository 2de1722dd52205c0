"""Destinations by the addresses of clients, without capital letters.

Clients write local parts in small letters (RFC 6122, Appendix A), destinations keep the first spelling. So an address
names the destination with exactly the same name, else the only destination with a difference in the size of letters,
else a new destination in small letters.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.ports import Principal
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.protocols.xmpp.codec.addresses import Jid, destination_of
from spanwire.protocols.xmpp.codec.errors import StanzaError

MAX_KNOWN: Final = 64  # addresses kept with their destination, of one connection
MAX_LISTED: Final = 1_000  # destinations in a roster or in a list of services; more are not shown
MAX_SCANNED: Final = 10_000  # destinations whose rights are asked for one list; takes some ten milliseconds
NAMES_PER_STEP: Final = 16  # names compared in one step of a request


class Destinations:
    """Finds destinations for one client in the ``domain`` of its stream."""

    def __init__(self, broker: Broker, principal: Principal, domain: str) -> None:
        self._broker: Final[Broker] = broker
        self._principal: Final[Principal] = principal
        self._domain: Final[str] = domain
        self._known: Final[dict[str, Destination]] = {}

    def find(self, jid: Jid, *, is_room: bool = False) -> Destination:
        """Return the destination of an address; a room is a topic in any domain.

        Raises:
            StanzaError: the address names no destination, or several.
        """
        written = destination_of(jid, self._domain)
        if is_room and written.kind == QUEUE:
            written = Destination(TOPIC, written.name)
        key = written.qualified_name
        known = self._known.get(key)
        if known is not None:
            return known
        similar = self._search(written)
        if similar is None:
            return written
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known[key] = similar
        return similar

    def _search(self, written: Destination) -> Destination | None:
        """Return the existing destination of the name, or the only similar destination; None without a match."""
        if written.is_composite or written.is_pattern or written.is_temporary:
            return written
        if self._broker.assembly.map.find(written) is not None:
            return written
        name = written.name.lower()
        similar: list[Destination] = []
        count = 0
        for destination in self._all(written.kind):
            count += 1
            if len(destination.name.name) == len(name) and destination.name.name.lower() == name:
                similar.append(destination.name)
        self._broker.assembly.context.steps += count // NAMES_PER_STEP
        if len(similar) > 1:
            reason = f"{len(similar)} destinations differ from {name[:80]!r} in capital letters only"
            raise StanzaError("modify", "not-acceptable", reason)
        return similar[0] if similar else None

    def readable(self, kind: int) -> list[Destination]:
        """Return the queues or topics readable for the client, by age."""
        access = self._broker.access
        found: list[Destination] = []
        count = 0
        for destination in islice(self._all(kind), MAX_SCANNED):
            count += 1
            name = destination.name
            if name.kind != kind or name.is_advisory or not access.may_read(self._principal, name):
                continue
            found.append(name)
            if len(found) >= MAX_LISTED:
                break
        self._broker.assembly.context.steps += count
        return found

    def _all(self, kind: int) -> Iterable[BrokerDestination]:
        destinations = self._broker.assembly.map
        return destinations.queues.values() if kind == QUEUE else destinations.topics.values()
