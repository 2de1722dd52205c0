"""Producers: registration and removal."""

from __future__ import annotations

from typing import Final

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.info import ProducerInfo


class ProducerRegistry:
    """Adds and removes the producers of connections. Rights are checked again with each message."""

    def __init__(
        self,
        destination_map: DestinationMap,
        destinations: Destinations,
        access: AccessControl,
        advisories: Advisories | None,
    ) -> None:
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._access: Final[AccessControl] = access
        self._advisories: Final[Advisories | None] = advisories

    def add(self, state: ConnectionState, info: ProducerInfo) -> None:
        """Register a producer; a registered producer stays unchanged."""
        key = str(info.producer_id)
        if key in state.producers:
            return
        if len(state.producers) >= state.info.max_producers:
            raise ResourceAllocationError(
                f"Can't add producer on connection {state.connection_id}: at maximum limit: {state.info.max_producers}"
            )
        parts = self._parts(state, info)
        state.producers[key] = info
        if info.destination is None and self._advisories is not None:
            self._advisories.anonymous_producer_added(info)
        for part in parts:
            destination = self._map.find(part)
            if destination is not None:
                destination.producers += 1
                destination.visits += 1
                if self._advisories is not None:
                    self._advisories.producer_added(info, part, destination.producers)

    def _parts(self, state: ConnectionState, info: ProducerInfo) -> list[Destination]:
        """Return the physical destinations of the producer. All are checked before the first is made."""
        if info.destination is None:
            return []
        parts = [part for part in info.destination.parts() if not part.is_pattern]
        for part in parts:
            self._access.check_write(state, part)
        self._destinations.ensure_all(state, parts, True)
        return parts

    def remove(self, state: ConnectionState, key: str) -> int:
        """Remove a producer and return the number of steps, mostly for advisories.

        Raises:
            JmsError: the producer is not registered.
        """
        info = state.producers.pop(key, None)
        if info is None:
            raise JmsError(f"Cannot remove a producer that had not been registered: {key}")
        if info.destination is None:
            if self._advisories is not None:
                self._advisories.anonymous_producer_removed(info)
            return self._delivery_steps()
        parts = info.destination.parts()
        for part in parts:
            destination = self._map.find(part)
            if destination is not None and destination.producers > 0:  # a new one counts from 0
                destination.producers -= 1
                if self._advisories is not None:
                    self._advisories.producer_removed(info, part, destination.producers)
        return len(parts) * self._delivery_steps()

    def _delivery_steps(self) -> int:
        return 1 if self._advisories is None else 1 + self._advisories.listener_count
