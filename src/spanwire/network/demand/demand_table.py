"""The demand of one bridge: its remote consumers, and the subscription that serves each of them.

The table finds the subscriptions that another consumer may share, and describes a new one.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.message import Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX, NO_HOPS, NetworkFilter, Refusals
from spanwire.network.demand.bridge_settings import BRIDGE_SESSION, MAX_DEMAND, BridgeSettings
from spanwire.network.demand.demand_subscription import DemandSubscription, RemoteConsumer


class DemandTable:
    """The remote consumers of a bridge, and the subscriptions for them.

    `BridgeSettings` decide about demand, and the bridge makes the subscriptions.
    """

    def __init__(
        self, settings: BridgeSettings, remote_broker_id: str, local_connection_id: str, broker_name: str = ""
    ) -> None:
        self._settings: Final[BridgeSettings] = settings
        self._filter: Final[NetworkFilter] = NetworkFilter(
            remote_broker_id, settings.message_ttl, settings.excluded, settings.let_through
        )
        self._path: Final[tuple[str, ...]] = (remote_broker_id,)
        self._connection_id: Final[str] = local_connection_id
        self._broker_name: Final[str] = broker_name
        self._number = 0
        self._remote: Final[dict[str, list[DemandSubscription]]] = {}
        self.subscriptions: Final[list[DemandSubscription]] = []
        self._named: Final[dict[str, list[DemandSubscription]]] = {}  # subscriptions without a wildcard, by destination
        self._patterns: Final[list[DemandSubscription]] = []  # subscriptions with a wildcard
        self._durable: Final[dict[str, DemandSubscription]] = {}  # by the name of the durable subscription

    def can_forward(self, message: Message) -> bool:
        """Return True if a message of a durable subscription may go to the remote broker.

        A durable subscription has no filter, because filtered messages would wait for ever. So the bridge applies the
        filter before forwarding.
        """
        if not self._filter.passes(message.broker_path):
            return False
        if not self._filter.covers(message.destination):
            self._filter.refusals.excluded += 1
            return False
        return True

    @property
    def refusals(self) -> Refusals:
        """The counters of messages not forwarded, by reason."""
        return self._filter.refusals

    @property
    def remote_count(self) -> int:
        """The number of remote consumers."""
        return len(self._remote)

    def destinations(self, at_most: int) -> tuple[str, ...]:
        """Return the names of at most ``at_most`` subscribed destinations."""
        names = {demand.info.destination.qualified_name for demand in self.subscriptions}
        return tuple(sorted(names)[:at_most])

    def all_destinations(self) -> tuple[Destination, ...]:
        """Return the subscribed destinations, `MAX_DEMAND` at most; those of composites one by one."""
        found: dict[str, Destination] = {}
        for demand in self.subscriptions:
            for part in demand.info.destination.parts():
                found[part.qualified_name] = part
        return tuple(found.values())

    def ways(self, at_most: int) -> tuple[tuple[str, ...], ...]:
        """Return at most ``at_most`` paths of broker ids to consumers beyond the remote broker, nearest first.

        With several consumers behind a conduit, the path is that of the first.
        """
        matches: set[tuple[str, ...]] = set()
        for demand in self.subscriptions:
            for consumer in demand.consumers.values():
                if len(consumer.path) > 1 and len(matches) < at_most:
                    matches.add(consumer.path[::-1])
        return tuple(sorted(matches))

    def is_known(self, consumer_id: ConsumerId) -> bool:
        """Return True if the bridge serves the remote consumer."""
        return str(consumer_id) in self._remote

    def serving(self, consumer_id: ConsumerId) -> list[DemandSubscription]:
        """Return the subscriptions for a remote consumer."""
        return self._remote.get(str(consumer_id), [])

    def is_full(self) -> bool:
        """Return True if the bridge serves as many remote consumers as it may."""
        return len(self._remote) >= MAX_DEMAND

    def needs_durable(self, consumer: RemoteConsumer) -> bool:
        """Return True if messages for a consumer must wait while the link is down."""
        destination = consumer.destination
        if destination.is_queue or destination.is_temporary:
            return False
        return consumer.info.subscription_name is not None or self._settings.is_forced_durable(destination)

    def joinable(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """Return the subscriptions able to serve another consumer.

        With a conduit they cover the consumer's destination. Without a conduit only the consumer's earlier durable
        subscription is suitable.
        """
        durable = self.needs_durable(consumer)
        if durable and not self._settings.conduit:
            own = self._durable.get(self._durable_name(consumer))
            if own is None or own.is_ending or own.info.selector != self._selector(consumer):
                return []
            return [own]
        if not self._can_share(consumer.info):
            return []
        return [demand for demand in self.covering(consumer.destination) if demand.is_durable or not durable]

    def same_durable(self, name: str | None) -> DemandSubscription | None:
        """Return the subscription of the durable subscription ``name``."""
        return None if name is None else self._durable.get(name)

    def _durable_name(self, consumer: RemoteConsumer) -> str:
        info = None if self._settings.conduit else consumer.info
        return durable_name(self._broker_name, consumer.destination, info)

    def _selector(self, consumer: RemoteConsumer) -> str | None:
        """Return the selector of a subscription for a consumer, or None for shareable subscriptions."""
        info = consumer.info
        if self._settings.conduit or (info.subscription_name is None and self.needs_durable(consumer)):
            return None
        selector = info.selector.strip() if info.selector is not None else ""
        return selector or None  # a durable subscription has None in place of ""

    def join(self, consumer: RemoteConsumer) -> bool:
        """Let all `joinable` subscriptions serve a consumer; False without any."""
        matches = self.joinable(consumer)
        if not matches:
            return False
        for demand in matches:
            demand.add_consumer(consumer)
        self._remote[consumer.key] = matches
        return True

    def _can_share(self, info: ConsumerInfo) -> bool:
        if not self._settings.conduit:
            return False
        return not info.network_subscription or not info.destination.is_queue or self._settings.conduit_network_queues

    def farther(self, consumer: RemoteConsumer) -> list[DemandSubscription]:
        """Return the shareable subscriptions made for consumers farther away, if all are.

        Other brokers know the distance of a subscription's first consumer only. A nearer consumer may be within
        consumerTTL for them, so a subscription announcing the nearer consumer must replace the older one.
        """
        if not self._can_share(consumer.info) or self.needs_durable(consumer):
            return []
        matches: list[DemandSubscription] = []
        for demand in self.covering(consumer.destination):
            if (
                demand.is_standing
                or demand.is_durable
                or demand.info.destination != consumer.destination
                or len(demand.info.broker_path) <= len(consumer.path)
            ):
                return []
            matches.append(demand)
        return matches

    def covering(self, destination: Destination) -> list[DemandSubscription]:
        """Return the subscriptions to all of ``destination`` open to several consumers."""
        matches: list[DemandSubscription] = []
        for demand in [*self._named.get(destination.qualified_name, []), *self._patterns]:
            if demand.is_ending or (demand.from_network and not self._settings.conduit_network_queues):
                continue
            if demand.info.selector is not None:
                continue  # a durable subscription made before the connector became a conduit
            if _covers(demand.info.destination, destination):
                matches.append(demand)
        return matches

    def local_info(self, consumer: RemoteConsumer) -> ConsumerInfo:
        """Return the ConsumerInfo of a new subscription for a consumer."""
        settings = self._settings
        info = consumer.info
        name = self._durable_name(consumer) if self.needs_durable(consumer) else None
        return ConsumerInfo(
            self._next_id(),
            consumer.destination,
            prefetch_size=settings.prefetch_size,
            selector=self._selector(consumer),
            subscription_name=name,
            exclusive=info.exclusive,
            priority=settings.priority(info.priority, consumer.path),
            network_subscription=True,
            broker_path=consumer.path,
            network_consumer_path=consumer.behind(),
            network_filter=self._filter if name is None else None,
        )

    def herald_info(self, consumer: RemoteConsumer) -> ConsumerInfo:
        """Return the ConsumerInfo of a subscription that announces a consumer and takes no message."""
        return ConsumerInfo(
            self._next_id(),
            consumer.destination,
            prefetch_size=self._settings.prefetch_size,
            priority=self._settings.priority(consumer.info.priority, consumer.path),
            network_subscription=True,
            broker_path=consumer.path,
            network_consumer_path=consumer.behind(),
            network_filter=NetworkFilter(self._path[0], NO_HOPS),
        )

    def static_info(
        self, destination: Destination, subscription_name: str | None = None, selector: str | None = None
    ) -> ConsumerInfo:
        """Return the ConsumerInfo of a standing subscription."""
        settings = self._settings
        consumer_id = self._next_id()
        return ConsumerInfo(
            consumer_id,
            destination,
            prefetch_size=settings.prefetch_size,
            selector=selector,
            subscription_name=subscription_name,
            priority=settings.priority(0, self._path),
            network_subscription=True,
            broker_path=self._path,
            network_consumer_path=(consumer_id,),
            network_filter=self._filter if subscription_name is None else None,
        )

    def _next_id(self) -> ConsumerId:
        self._number += 1
        return ConsumerId(self._connection_id, BRIDGE_SESSION, self._number)

    def add(self, demand: DemandSubscription, consumer: RemoteConsumer | None) -> None:
        """Add ``demand``, made for ``consumer``, or standing for None."""
        if consumer is not None:
            self._remote[consumer.key] = [demand]
            demand.add_consumer(consumer)
        self.subscriptions.append(demand)
        destination, name = demand.info.destination, demand.info.subscription_name
        if name is not None:
            self._durable[name] = demand
        if destination.is_pattern:
            self._patterns.append(demand)
        else:
            self._named.setdefault(destination.qualified_name, []).append(demand)

    def remove_consumer(self, consumer_id: ConsumerId) -> list[DemandSubscription]:
        """Remove a remote consumer. Returns its subscriptions, with the consumer still listed."""
        return self._remote.pop(str(consumer_id), [])

    def is_idle(self, demand: DemandSubscription) -> bool:
        """Return True if ``demand`` has no consumers and no durable subscribers, present or absent."""
        if demand.is_standing or demand.consumers:
            return False
        return not demand.subscribers or self._settings.dynamic_only

    def remove_subscriber(self, key: str) -> list[DemandSubscription]:
        """Remove a durable subscriber. Returns the durable subscriptions without need now."""
        needless: list[DemandSubscription] = []
        for demand in self.subscriptions:
            if key in demand.subscribers:
                demand.subscribers.discard(key)
                if not demand.subscribers and self.is_idle(demand):
                    needless.append(demand)
        return needless

    def remove(self, demand: DemandSubscription) -> None:
        """Remove ``demand``."""
        if demand in self.subscriptions:
            self.subscriptions.remove(demand)
            self._unlist(demand)
        for key in list(demand.consumers):
            served = self._remote.get(key)
            if served is not None and demand in served:
                served.remove(demand)
                if not served:
                    del self._remote[key]

    def _unlist(self, demand: DemandSubscription) -> None:
        destination, name = demand.info.destination, demand.info.subscription_name
        if name is not None and self._durable.get(name) is demand:
            del self._durable[name]
        if destination.is_pattern:
            self._patterns.remove(demand)
            return
        same = self._named[destination.qualified_name]
        same.remove(demand)
        if not same:
            del self._named[destination.qualified_name]


def durable_name(broker_name: str, topic: Destination, info: ConsumerInfo | None) -> str:
    """Return the local name of a durable subscription for remote ones; without a conduit each has a name.

    The name stays the same after every reconnect, so the bridge finds the waiting messages.
    """
    if info is None or info.subscription_name is None:
        return f"{BRIDGE_DURABLE_PREFIX}{broker_name}_{topic.name}"
    return f"{BRIDGE_DURABLE_PREFIX}{broker_name}_{topic.name}_{info.client_id or ''}_{info.subscription_name}"


def _covers(pattern: Destination, destination: Destination) -> bool:
    return pattern == destination or (pattern.is_pattern and pattern.matches(destination))
