"""Spreads the clients of connectors once over the linked brokers, at the request of an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.transports.connector import TransportConnector

MAX_NAMES: Final = 100  # connectors in one request; bounds the work of one request


class ClientSpread:
    """Asks failover clients to spread, as ``rebalanceClusterClients`` does after each change."""

    def __init__(
        self,
        listening: Sequence[TransportConnector],
        brokers_for: Callable[[TransportConnector], list[str]],
        wake: Callable[[], None],
    ) -> None:
        """``brokers_for`` returns the addresses of own and linked brokers; ``wake`` ends a turn soon."""
        self._listening: Final = listening
        self._brokers_for: Final = brokers_for
        self._wake: Final = wake

    async def rebalance(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Ask the failover clients of ``connectors`` once to spread over the broker and the linked brokers.

        Returns:
            For each connector ``clients`` and ``brokers``, the numbers of both.

        Raises:
            ConfigurationError: a name is unknown, or no broker is linked
        """
        rows: list[dict[str, object]] = []
        for listener in self._named(arguments.get("connectors")):
            brokers = self._brokers_for(listener)
            if len(brokers) < 2:
                raise ConfigurationError(
                    f"clients of {listener.name[:100]} may learn of no linked broker: they spread over the brokers of "
                    "running links; spanwire link list shows them"
                )
            rows.append({"name": listener.name, "clients": listener.cluster.spread(brokers), "brokers": len(brokers)})
            while listener.cluster.announce_more():
                self._wake()  # no client has sent anything, so nothing else would flush what it is sent
                await asyncio.sleep(0)
            self._wake()
        return rows

    def _named(self, names: object) -> list[TransportConnector]:
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"connectors must be a list of 1 to {MAX_NAMES} names of connectors")
        by_name = {listener.name: listener for listener in self._listening}
        for name in names:
            if not isinstance(name, str) or name not in by_name:
                known = ", ".join(by_name) or "none"
                raise ConfigurationError(f"unknown connector {str(name)[:100]}; known are {known}")
        return [by_name[name] for name in dict.fromkeys(names)]
