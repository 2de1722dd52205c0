"""Several routes to one consumer: which of them the bridges of one broker take.

In a network with loops a consumer is heard of through several neighbours. Where duplicates are suppressed, only the
subscription of the best priority is made; the others are remembered, and are looked at again when it goes.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.environment import Time
from spanwire.network.demand.demand import DemandBridge, DemandSubscription, RemoteConsumer
from spanwire.network.demand.remote_registry import RemoteBrokerRegistry

MAX_PASSED_OVER: Final = 10_000  # of one broker, as many as the demand of one bridge; beyond, a break needs news


class PassedOverConsumer:
    """A consumer that a bridge does not serve because there is a better route; ``number`` gives their order."""

    __slots__ = ("aliases", "bridge", "consumer", "number")

    def __init__(self, bridge: DemandBridge, consumer: RemoteConsumer, number: int) -> None:
        self.bridge: Final[DemandBridge] = bridge
        self.consumer: Final[RemoteConsumer] = consumer
        self.number: Final[int] = number
        self.aliases: Final[list[str]] = consumer.aliases()


class NetworkRoutes:
    """The subscriptions of all bridges of one broker, by the consumers that they stand for; ``max_passed_over`` are
    remembered that a better route serves. ``remote_brokers`` are the brokers to which those bridges lead.
    """

    def __init__(self, max_passed_over: int = MAX_PASSED_OVER) -> None:
        self.remote_brokers: Final[RemoteBrokerRegistry] = RemoteBrokerRegistry()
        self._max_passed_over: Final[int] = max_passed_over
        self._serving: Final[dict[str, list[DemandSubscription]]] = {}
        self._passed_over: Final[
            dict[DemandBridge, dict[str, PassedOverConsumer]]
        ] = {}  # by bridge and id of the consumer
        self._by_alias: Final[dict[str, dict[PassedOverConsumer, None]]] = {}
        self._number = 0

    @property
    def passed_over(self) -> int:
        """How many remote consumers are left to a better route."""
        return sum([len(entries) for entries in self._passed_over.values()])

    def rivals(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """The subscriptions that serve one of the consumers that ``consumer`` stands for."""
        rivals: list[DemandSubscription] = []
        for alias in consumer.aliases():
            for demand in self._serving.get(alias, []):
                if not demand.is_ending and demand not in rivals:
                    rivals.append(demand)
        return rivals

    def remove_route(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """``demand`` is no route to this consumer any more."""
        for alias in consumer.aliases():
            serving = self._serving.get(alias)
            if serving is not None and demand in serving:
                serving.remove(demand)
                if not serving:
                    del self._serving[alias]

    def add_route(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """``demand`` is a route to this consumer."""
        for alias in consumer.aliases():
            serving = self._serving.setdefault(alias, [])
            if demand not in serving:
                serving.append(demand)

    def pass_over(self, bridge: DemandBridge, consumer: RemoteConsumer) -> None:
        """There is a better route to this consumer than by ``bridge``."""
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
        """A passed over consumer is gone; with None all that ``bridge`` told of."""
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
        """``demand`` is no route to this consumer any more: others may be."""
        self.remove_route(demand, consumer)
        entries_by_number: dict[int, PassedOverConsumer] = {}
        for alias in consumer.aliases():
            for entry in self._by_alias.get(alias, {}):
                entries_by_number[entry.number] = entry
        for entry in entries_by_number.values():
            self._drop(entry)
        for number in sorted(entries_by_number):
            entries_by_number[number].bridge.reconsider(entries_by_number[number].consumer, now)
