"""Duplicate suppression: chooses among several routes of a broker's bridges to a consumer.

In a network with loops several neighbours announce a consumer. With suppression only the subscription of the best
priority is made. The other routes are remembered, and reconsidered after the end of the subscription.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.environment import Time
from spanwire.network.demand.demand_subscription import DemandBridge, DemandSubscription, RemoteConsumer
from spanwire.network.demand.remote_registry import RemoteBrokerRegistry

MAX_PASSED_OVER: Final = 10_000  # consumers, as many as one bridge serves; beyond, another route needs a new advisory


class PassedOverConsumer:
    """A consumer not served by a bridge because of a better route; ``number`` is their order."""

    __slots__ = ("aliases", "bridge", "consumer", "number")

    def __init__(self, bridge: DemandBridge, consumer: RemoteConsumer, number: int) -> None:
        self.bridge: Final[DemandBridge] = bridge
        self.consumer: Final[RemoteConsumer] = consumer
        self.number: Final[int] = number
        self.aliases: Final[list[str]] = consumer.aliases()


class NetworkRoutes:
    """The subscriptions of all bridges of a broker, by the consumers behind them.

    At most ``max_passed_over`` consumers with a better route are remembered. ``remote_brokers`` are the brokers at the
    other ends.
    """

    def __init__(self, max_passed_over: int = MAX_PASSED_OVER) -> None:
        self.remote_brokers: Final[RemoteBrokerRegistry] = RemoteBrokerRegistry()
        self.heralds = 0  # of all bridges
        self._max_passed_over: Final[int] = max_passed_over
        self._serving: Final[dict[str, dict[DemandSubscription, RemoteConsumer]]] = {}
        self._passed_over: Final[
            dict[DemandBridge, dict[str, PassedOverConsumer]]
        ] = {}  # by bridge and id of the consumer
        self._by_alias: Final[dict[str, dict[PassedOverConsumer, None]]] = {}
        self._number = 0

    @property
    def passed_over(self) -> int:
        """The number of remote consumers left to a better route."""
        return sum([len(entries) for entries in self._passed_over.values()])

    def rivals(self, consumer: RemoteConsumer) -> dict[DemandSubscription, RemoteConsumer]:
        """Return the subscriptions for any of the consumers behind ``consumer``, each with the best route in it."""
        rivals: dict[DemandSubscription, RemoteConsumer] = {}
        for alias in consumer.aliases():
            for demand, served in self._serving.get(alias, {}).items():
                if not demand.is_ending and (demand not in rivals or rivals[demand].priority < served.priority):
                    rivals[demand] = served
        return rivals

    def has_other_route(self, consumer: RemoteConsumer) -> bool:
        """Return True if a bridge has passed over one of the consumers behind ``consumer``."""
        return any(alias in self._by_alias for alias in consumer.aliases())

    def remove_route(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """Remove ``demand`` as a route to ``consumer``."""
        for alias in consumer.aliases():
            serving = self._serving.get(alias)
            if serving is not None and demand in serving and serving[demand].key == consumer.key:
                del serving[demand]
                if not serving:
                    del self._serving[alias]

    def add_route(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """Add ``demand`` as a route to ``consumer``."""
        for alias in consumer.aliases():
            self._serving.setdefault(alias, {})[demand] = consumer

    def pass_over(self, bridge: DemandBridge, consumer: RemoteConsumer) -> None:
        """Remember a consumer with a better route than ``bridge``."""
        key = consumer.key
        self.forget(bridge, key)
        if self.passed_over >= self._max_passed_over:
            return
        self._number += 1
        entry = PassedOverConsumer(bridge, consumer, self._number)
        self._passed_over.setdefault(bridge, {})[key] = entry
        for alias in entry.aliases:
            self._by_alias.setdefault(alias, {})[entry] = None

    def forget(self, bridge: DemandBridge, consumer_id: str | None = None) -> None:
        """Forget a passed over consumer, or with None all consumers passed over by ``bridge``."""
        entries = self._passed_over.get(bridge)
        if entries is None:
            return
        if consumer_id is None:
            for entry in list(entries.values()):
                self._drop(entry)
        elif consumer_id in entries:
            self._drop(entries[consumer_id])

    def _drop(self, entry: PassedOverConsumer) -> None:
        entries = self._passed_over[entry.bridge]
        del entries[entry.consumer.key]
        if not entries:
            del self._passed_over[entry.bridge]
        for alias in entry.aliases:
            others = self._by_alias.get(alias)
            if others is not None:
                others.pop(entry, None)
                if not others:
                    del self._by_alias[alias]

    def lose_route(self, demand: DemandSubscription, consumer: RemoteConsumer, now: Time) -> None:
        """Remove ``demand`` as a route to ``consumer``, and let other bridges reconsider the consumer."""
        self.remove_route(demand, consumer)
        entries_by_number: dict[int, PassedOverConsumer] = {}
        for alias in consumer.aliases():
            for entry in self._by_alias.get(alias, {}):
                entries_by_number[entry.number] = entry
        for entry in entries_by_number.values():
            self._drop(entry)
        for number in sorted(entries_by_number):
            entries_by_number[number].bridge.reconsider(entries_by_number[number].consumer, now)
