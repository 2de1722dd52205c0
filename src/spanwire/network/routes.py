"""Several routes to one consumer: which of them the bridges of one broker take.

In a network with loops a consumer is heard of through several neighbours. Where duplicates are suppressed, only the
subscription of the best priority is made; the others are remembered, and are looked at again when it goes.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.environment import Time
from spanwire.network.demand import DemandSubscription, Forwarding, RemoteConsumer

MAX_PASSED_OVER: Final = 10_000  # of one broker, as many as the demand of one bridge; beyond, a break needs news


class PassedOver:
    """A consumer that a bridge does not serve because there is a better route."""

    __slots__ = ("bridge", "consumer")

    def __init__(self, bridge: Forwarding, consumer: RemoteConsumer) -> None:
        self.bridge: Final[Forwarding] = bridge
        self.consumer: Final[RemoteConsumer] = consumer


class NetworkRoutes:
    """The subscriptions of all bridges of one broker, by the consumers that they stand for; ``most`` consumers are
    remembered that a better route serves.
    """

    def __init__(self, most: int = MAX_PASSED_OVER) -> None:
        self._most: Final[int] = most
        self._serving: Final[dict[str, list[DemandSubscription]]] = {}
        self._passed_over: Final[list[PassedOver]] = []

    @property
    def passed_over(self) -> int:
        """How many remote consumers are left to a better route."""
        return len(self._passed_over)

    def rivals(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """The subscriptions that serve one of the consumers that ``consumer`` stands for."""
        found: list[DemandSubscription] = []
        for alias in consumer.aliases():
            for demand in self._serving.get(alias, []):
                if not demand.leaving and demand not in found:
                    found.append(demand)
        return found

    def withdraw(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """``demand`` is no route to this consumer any more."""
        for alias in consumer.aliases():
            serving = self._serving.get(alias)
            if serving is not None and demand in serving:
                serving.remove(demand)
                if not serving:
                    del self._serving[alias]

    def serves(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        """``demand`` is a route to this consumer."""
        for alias in consumer.aliases():
            serving = self._serving.setdefault(alias, [])
            if demand not in serving:
                serving.append(demand)

    def pass_over(self, bridge: Forwarding, consumer: RemoteConsumer) -> None:
        """There is a better route to this consumer than by ``bridge``."""
        if len(self._passed_over) < self._most:
            self._passed_over.append(PassedOver(bridge, consumer))

    def forget(self, bridge: Forwarding, consumer_id: str | None = None) -> None:
        """A passed over consumer is gone; with None all that ``bridge`` told of."""
        kept = [
            entry
            for entry in self._passed_over
            if entry.bridge is not bridge
            or (consumer_id is not None and str(entry.consumer.info.consumer_id) != consumer_id)
        ]
        if len(kept) != len(self._passed_over):
            self._passed_over[:] = kept

    def serves_no_more(self, demand: DemandSubscription, consumer: RemoteConsumer, now: Time) -> None:
        """``demand`` is no route to this consumer any more: others may be."""
        self.withdraw(demand, consumer)
        aliases = consumer.aliases()
        again: list[PassedOver] = []
        kept: list[PassedOver] = []
        for entry in self._passed_over:
            chosen = again if _meet(entry.consumer.aliases(), aliases) else kept
            chosen.append(entry)
        if again:
            self._passed_over[:] = kept
            for entry in again:
                entry.bridge.reconsider(entry.consumer, now)


def _meet(some: list[str], others: list[str]) -> bool:
    return any(one in others for one in some)
