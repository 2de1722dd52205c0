"""Makes the gossip of a broker: the reports on its connectors, and the questions to other brokers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.discovery.addresses.address import read_address
from spanwire.model.environment import Environment
from spanwire.network.gossip.gossip import Gossip
from spanwire.network.gossip.kept_members import KeptMembers
from spanwire.network.gossip.members import MAX_ADDRESSES, Members
from spanwire.network.reports.known_brokers import Peer
from spanwire.service.published_addresses import announced_uri
from spanwire.transports.connector import TransportConnector

LOOK_UP_S: Final = 60.0  # seconds between two questions to the name service, which may hold up the loop


def make_gossip(
    broker: Broker,
    listening: Sequence[TransportConnector],
    accepted: Callable[[], Collection[str]],
    wake: Callable[[], None],
) -> Gossip:
    """Return the gossip of a broker.

    Args:
        broker: the broker.
        listening: the broker's transport connectors; open connectors suitable for links are reported.
        accepted: returns the names of the brokers at the other ends of accepted duplex links.
        wake: ends a turn of the broker soon.
    """

    addresses = OwnAddresses(listening, broker.environment)
    assembly = broker.assembly
    kept = KeptMembers(None if assembly.context.store is None else assembly.network_members, wake)
    return Gossip(Members(broker.name, broker.broker_id), addresses.now, accepted, broker.environment, _ask, kept)


class OwnAddresses:
    """The addresses of open connectors where brokers can link, looked up again after a while."""

    def __init__(self, listening: Sequence[TransportConnector], environment: Environment) -> None:
        self._listening: Final = listening
        self._environment: Final = environment
        self._looked_up: tuple[float, list[TransportConnector]] = (-math.inf, [])
        self._found: list[str] = []

    def now(self) -> list[str]:
        """Return the addresses."""
        opened = [one for one in self._listening if one.is_started]
        at, known = self._looked_up
        monotonic = self._environment.now().monotonic
        if known != opened or monotonic - at >= LOOK_UP_S:
            self._looked_up = monotonic, opened
            uris = [announced_uri(one, self._environment.host_name) for one in opened]
            self._found = [uri for uri in uris if read_address(uri) is not None][:MAX_ADDRESSES]
        return self._found


async def _ask(peer: Peer, text: str) -> str:
    """Ask a broker for members; the first question loads the client."""
    ask = cast("Callable[[Peer, str], Awaitable[str]]", registry.load(registry.GOSSIP_QUESTION))
    return await ask(peer, text)
