"""A link of a gossip connector to a configured broker, tried for as long as the connector runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.network.connector.link import Link, NetworkConnectorSettings, RemoteAddress
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.transports.loop.turn import Turn

LOOK_S: Final = 1.0  # seconds between two looks whether the other broker's link has ended

logger = logging.getLogger(__name__)


class SeedLink(Link):
    """A link to a seed, closed in favour of the seed broker's own duplex link.

    The log says only once that the seed is this broker itself.

    All brokers of a network may have the same list of seeds. ``is_served`` returns True for the name of a broker whose
    link goes before this one.
    """

    def __init__(
        self,
        settings: NetworkConnectorSettings,
        remote: RemoteAddress,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        routes: NetworkRoutes,
        is_served: Callable[[str], bool],
    ) -> None:
        super().__init__(settings, remote, broker, broker_url, turn, routes)
        self._is_served: Final = is_served
        self._has_said = False

    @property
    def leads_to_itself(self) -> bool:
        """True if the seed was this broker at the last attempt.

        A name of several brokers may lead elsewhere later.
        """
        return self._leads_to_itself and self.running_remote == ""

    @property
    def running_remote(self) -> str:
        """The name of the remote broker, "" while the link does not run."""
        peer = self.peer()
        return "" if peer is None else peer.name

    def make_way(self) -> None:
        """Close a link to a broker whose own link goes before."""
        if self.running_remote and self._is_served(self.running_remote) and self._pump is not None:
            self._pump.close(self._turn.clock.now())

    async def _wait_for_retry(self, uptime_s: float) -> bool:
        if not self._leads_to_itself:
            return await super()._wait_for_retry(uptime_s)
        if not self._has_said:
            self._has_said = True
            logger.info("network connector %s: the seed %s is this broker itself",
                        self._settings.bridge.name, self._remote.uri)  # fmt: skip
        await asyncio.sleep(self._settings.reconnect.max_delay_ms / 1000)
        return False

    async def _attempt(self, remote: RemoteAddress) -> str:
        while self._remote_name and self._is_served(self._remote_name):
            self._reason = f"broker {self._remote_name} has opened a link"
            await asyncio.sleep(LOOK_S)
        return await super()._attempt(remote)
