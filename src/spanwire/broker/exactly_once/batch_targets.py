"""The destinations of a batch that is committed."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.model.destination import SUBSCRIPTION, Destination

MADE_STEPS: Final = 20  # steps in the time of which a destination is made


class BatchTargets:
    """Finds the destinations of messages, and makes missing ones, whose steps are counted in ``steps``."""

    def __init__(self, destination_map: DestinationMap, destinations: Destinations) -> None:
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self.steps = 0

    def resolve(self, target: Destination) -> BrokerDestination | None:
        """Return the destination of a copy, None if the durable subscription is gone."""
        self.steps += 1
        if target.kind == SUBSCRIPTION:
            durable = self._map.durables.get(target.name)
            return None if durable is None else durable.queue
        destination = self._map.find(target)
        if destination is not None:
            return destination
        self.steps += MADE_STEPS
        return self._destinations.ensure_own(target)
