"""Gossip of one broker: asks linked brokers for members, and answers their questions.

Drives the connectors.

    gossip.exchange(content, teller)       an answer to another broker
    gossip.join(connector); gossip.leave(connector)

Members are asked for over the addresses of links, as reports are. A question carries the members known to the asker, so
both brokers have equal tables afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, Protocol

from spanwire.model.errors import SpanwireError
from spanwire.network.gossip.kept_members import KeptMembers, Linked
from spanwire.network.gossip.members import Members
from spanwire.network.reports.known_brokers import Peer
from spanwire.transports.base import Clock

TICK_S: Final = 1.0  # seconds between two looks at links and members
ROUND_S: Final = 5.0  # seconds between two rounds of questions; a member is forgotten after twelve
CHANGE_S: Final = 10.0  # seconds after a change in which each tick has a round
FAN_OUT: Final = 3  # brokers asked in one round; others have their turn in the next
QUESTION_S: Final = 5.0  # seconds for one question with its login
SILENCE_S: Final = 600.0  # seconds until a broker that knows no gossip is asked again
MAX_MUTE: Final = 1_000  # addresses of such brokers

logger = logging.getLogger(__name__)
Ask = Callable[[Peer, str], Awaitable[str]]


class GossipConnector(Protocol):
    """A network connector with links to members."""

    def tick(self, now: float, members: dict[str, tuple[str, ...]], accepted: frozenset[str]) -> None:
        """Open and end links."""
        ...

    def peers(self) -> list[Peer]:
        """Return the remote brokers of the running links."""
        ...

    def recall(self, members: dict[str, Linked], now: float) -> None:
        """Try the addresses of members that were linked in the last run, by name."""
        ...

    def linked(self, now: float) -> dict[str, Linked]:
        """Return the members that were linked lately by name."""
        ...


class Gossip:
    """The gossip of one broker, shared by all its connectors.

    `spanwire.broker.network_ports.NetworkGossip` for others.
    """

    def __init__(
        self,
        members: Members,
        addresses: Callable[[], Sequence[str]],
        accepted: Callable[[], Collection[str]],
        clock: Clock,
        ask: Ask,
        kept: KeptMembers,
    ) -> None:
        """Take the sources.

        ``addresses`` returns the addresses of this broker's open connectors for other brokers, ``accepted`` the names
        of the brokers with a duplex link of their own to this broker. ``kept`` outlives this run.
        """
        self.members: Final = members
        self._addresses: Final = addresses
        self._accepted: Final = accepted
        self._clock: Final = clock
        self._ask: Final = ask
        self._kept: Final = kept
        self._connectors: Final[list[GossipConnector]] = []
        self._mute: Final[dict[str, float]] = {}  # addresses of brokers that know no gossip, until a time
        self._turn = 0
        self._asked_at = 0.0
        self._task: asyncio.Task[None] | None = None

    def exchange(self, content: bytes, teller: str) -> str:
        """Return the known members, and take the members known to ``teller``, the address of a client."""
        now = self.now()
        self._take_addresses()
        self.members.add(content, teller.rpartition(":")[0], now)  # one host has one share of what is kept
        return self.members.tell(now)

    def join(self, connector: GossipConnector) -> None:
        """Begin to drive a connector."""
        connector.recall(self._kept.recall(), self.now())
        self._connectors.append(connector)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def leave(self, connector: GossipConnector) -> None:
        """Drive a connector no more; questions end with the last connector."""
        if connector in self._connectors:
            self._connectors.remove(connector)
        if not self._connectors and self._task is not None:
            self._task.cancel()
            self._task = None

    def now(self) -> float:
        """Return monotonic seconds."""
        return self._clock.now().monotonic

    def _take_addresses(self) -> None:
        self.members.addresses = tuple(self._addresses())

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:  # the network must not fall apart by a single look
                logger.exception("gossip: unexpected error; the next look is in %g s", TICK_S)
            await asyncio.sleep(TICK_S)

    async def look(self) -> None:
        """Look at the links and members once, and ask if a round is due."""
        now = self.now()
        self._take_addresses()
        members, accepted = self.members.members(now), frozenset(self._accepted())
        for connector in list(self._connectors):
            connector.tick(now, members, accepted)
        linked: dict[str, Linked] = {}
        for connector in self._connectors:
            for name, one in connector.linked(now).items():
                if name not in linked or one.age_s < linked[name].age_s:
                    linked[name] = one
        self._kept.keep(linked, now)
        has_changed = now - self.members.changed_at < CHANGE_S
        peers = self._due(now)
        if peers and (has_changed or now - self._asked_at >= ROUND_S):
            self._asked_at = now
            await asyncio.gather(*(self._question(peer) for peer in peers))

    def _due(self, now: float) -> list[Peer]:
        """Return the brokers of the next round."""
        for uri in [uri for uri, until in self._mute.items() if until <= now]:
            del self._mute[uri]
        linked = {peer.name: peer for connector in self._connectors for peer in connector.peers()}
        names = sorted(name for name, peer in linked.items() if peer.uri not in self._mute)
        chosen = choose(names, self._turn)
        self._turn += len(chosen)
        return [linked[name] for name in chosen]

    async def _question(self, peer: Peer) -> None:
        try:
            async with asyncio.timeout(QUESTION_S):
                answer = await self._ask(peer, self.members.tell(self.now()))
        except (SpanwireError, OSError) as error:  # TimeoutError is one
            if not isinstance(error, OSError) and len(self._mute) < MAX_MUTE:
                self._mute[peer.uri] = self.now() + SILENCE_S
                logger.info("gossip: broker %s at %s: %s", peer.name, peer.uri, error)
            return
        self.members.add(answer, peer.name, self.now())


def choose(names: Sequence[str], turn: int) -> list[str]:
    """Return `FAN_OUT` of the names, beginning after the names of the round before."""
    count = min(FAN_OUT, len(names))
    return [names[(turn + index) % len(names)] for index in range(count)]
