"""Removal of unused objects: idle destinations, and durable subscriptions without a subscriber.

Both are searched for periodically, a slice at a time. A message thus causes no costs for the search.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination

NEVER: Final = -1
NEVER_DUE: Final = float("inf")
MIN_PERIOD_SECONDS: Final = 0.05  # seconds between two searches, even if the configuration asks for less
DEFAULT_OFFLINE_CHECK_MS: Final = 300_000  # milliseconds; ActiveMQ's default of offlineDurableSubscriberTaskSchedule
MAX_LOOKED_AT: Final = 500  # destinations examined in one turn
MAX_REMOVED: Final = 50  # destinations or subscriptions removed in one turn

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UpkeepSettings:
    """Settings of the search for unused objects; a period of 0 means never.

    One search removes at most ``max_removed`` destinations (0: no limit). Durable subscriptions without a subscriber
    for ``offline_timeout_ms`` (-1: never) are deleted. With ``expire_active_durables`` the expiry sweep includes
    durable subscriptions with an active subscriber; otherwise messages of such subscriptions expire only at dispatch.
    """

    destinations_period_ms: int = 0
    max_removed: int = 0
    offline_timeout_ms: int = NEVER
    offline_check_ms: int = DEFAULT_OFFLINE_CHECK_MS
    expire_active_durables: bool = False


class IdleMark:
    """The beginning of a destination's idle time, and the traffic until then."""

    __slots__ = ("destination", "since", "traffic")

    def __init__(self, destination: BrokerDestination, since: float, traffic: int) -> None:
        self.destination: Final[BrokerDestination] = destination
        self.since: Final[float] = since
        self.traffic: Final[int] = traffic


class Upkeep:
    """Finds and removes unused objects. Time is the time of the current turn."""

    def __init__(
        self,
        settings: UpkeepSettings,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        durables: DurableSubscriptions,
    ) -> None:
        self._settings: Final[UpkeepSettings] = settings
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._durables: Final[DurableSubscriptions] = durables
        self._marks: Final[dict[str, IdleMark]] = {}
        self._to_look_at: list[BrokerDestination] = []
        self._removed = 0  # destinations removed by the current search
        self._destinations_due = NEVER_DUE
        self._offline_due = NEVER_DUE
        if settings.destinations_period_ms > 0:
            self._destinations_due = 0.0
        if settings.offline_timeout_ms >= 0 and settings.offline_check_ms > 0:
            self._offline_due = 0.0

    def next_timeout(self) -> float | None:
        """Return the time of the next call of `run` in monotonic seconds, or None without a configured search."""
        if self._to_look_at:
            return 0.0
        due = min(self._destinations_due, self._offline_due)
        return None if due == NEVER_DUE else due

    def run(self) -> None:
        """Do one slice of the due work."""
        now = self._context.monotonic
        if now >= self._destinations_due:
            self._destinations_due = now + max(self._settings.destinations_period_ms / 1000, MIN_PERIOD_SECONDS)
            self._begin_to_look()
        if self._to_look_at:
            self._look()
        if now >= self._offline_due:
            self._offline_due = now + max(self._settings.offline_check_ms / 1000, MIN_PERIOD_SECONDS)
            if self._durables.remove_offline(self._settings.offline_timeout_ms, MAX_REMOVED):
                self._offline_due = now  # there are more: in the next turn

    def _begin_to_look(self) -> None:
        if self._to_look_at:
            return
        removable = self._map.removable
        for name in [name for name, mark in self._marks.items() if removable.get(name) is not mark.destination]:
            del self._marks[name]
        self._to_look_at = list(removable.values())
        self._to_look_at.reverse()
        self._removed = 0

    def _look(self) -> None:
        most = self._settings.max_removed
        removed = 0
        for _ in range(min(MAX_LOOKED_AT, len(self._to_look_at))):
            if removed == MAX_REMOVED:
                return
            destination = self._to_look_at.pop()
            if destination.removed or not self._is_unused(destination):
                continue
            if most > 0 and self._removed >= most:
                self._to_look_at.clear()
                return
            removed += 1
            self._removed += 1
            self._remove(destination)

    def _is_unused(self, destination: BrokerDestination) -> bool:
        """Return True if ``destination`` has been idle for long enough: no users or messages since the mark."""
        name = destination.name.qualified_name
        if not is_idle(destination):
            self._marks.pop(name, None)
            return False
        now = self._context.monotonic
        traffic = destination.enqueued + destination.visits
        mark = self._marks.get(name)
        if mark is None or mark.destination is not destination or mark.traffic != traffic:
            self._marks[name] = IdleMark(destination, now, traffic)
            return False
        return now - mark.since >= destination.policy.inactive_timeout_ms / 1000

    def _remove(self, destination: BrokerDestination) -> None:
        logger.info("%s: unused for %d ms: removed", destination.name, destination.policy.inactive_timeout_ms)
        self._marks.pop(destination.name.qualified_name, None)
        self._destinations.remove_idle(destination)


def is_idle(destination: BrokerDestination) -> bool:
    """Return True if ``destination`` has no consumers, browsers, producers or messages.

    Depending on the policy, consumers of bridges do not count.
    """
    if destination.producers > 0 or destination.visitors > 0 or destination.withheld > 0 or destination.waiting() > 0:
        return False
    if destination.in_flight > 0 or destination.paused or destination.is_searching() or destination.durable_count > 0:
        return False
    subscriptions = destination.attached()
    if not destination.policy.gc_with_network_consumers:
        return not subscriptions
    return all(subscription.info.network_subscription for subscription in subscriptions)
