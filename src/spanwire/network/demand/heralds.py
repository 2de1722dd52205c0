"""Announces the further consumers behind a conduit where the first one has another route.

Other brokers know only the consumer for which a conduit's subscription was made. A neighbour with an equal or better
route to that consumer passes the subscription over, and would never hear of the others. A *herald* is a local consumer
that takes no message. Its advisory announces one consumer of a further broker.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.routing import within
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.demand_subscription import DemandBridge, DemandSubscription, RemoteConsumer
from spanwire.network.demand.demand_table import DemandTable
from spanwire.network.demand.duplicate_suppression import NetworkRoutes

MAX_HERALDS: Final = 1_000  # of one broker; a tenth of the consumers that a neighbour's bridge serves

logger = logging.getLogger(__name__)


class Heralds:
    """The heralds of one bridge, by subscription and by the broker of the announced consumer.

    One herald for each broker is enough, because all consumers of a broker have the same routes. Without a limit of
    hops there are none, because messages then reach every consumer over the route to the first one.
    """

    def __init__(
        self,
        broker: Broker,
        client: ConnectionState,
        settings: BridgeSettings,
        table: DemandTable,
        bridge: DemandBridge,
        routes: NetworkRoutes,
    ) -> None:
        self._broker: Final[Broker] = broker
        self._client: Final[ConnectionState] = client
        self._settings: Final[BridgeSettings] = settings
        self._table: Final[DemandTable] = table
        self._bridge: Final[DemandBridge] = bridge
        self._routes: Final[NetworkRoutes] = routes
        self._heralds: Final[dict[DemandSubscription, dict[str, tuple[str, DemandSubscription]]]] = {}
        self.at_most = MAX_HERALDS  # of all bridges
        self._count = 0
        self._has_warned = False

    def __len__(self) -> int:
        return self._count

    def is_needed(self, demand: DemandSubscription, consumer: RemoteConsumer) -> bool:
        """Return True if other brokers may not hear of ``consumer`` behind ``demand``.

        Another bridge may have passed over a route to it. If the limit of hops ends the announcement of ``demand`` at
        the neighbours, another route of theirs ends there too, and this broker does not hear of it. A subscription with
        a wildcard may announce a consumer farther away.
        """
        hops = len(demand.info.broker_path)
        is_at_rim = hops == self._settings.consumer_ttl - 1
        return is_at_rim or len(consumer.path) < hops or self._routes.has_other_route(consumer)

    def begin(self, demand: DemandSubscription, now: Time) -> None:
        """Announce the further consumers of ``demand`` from now on."""
        destination = demand.info.destination
        if demand in self._heralds or demand.is_ending or demand.is_standing or demand.is_durable:
            return
        if destination.is_queue or destination.is_temporary or not self._settings.limits_hops:
            return
        self._heralds[demand] = {}
        for consumer in list(demand.consumers.values()):
            self.on_joined(demand, consumer, now)

    def on_joined(self, demand: DemandSubscription, consumer: RemoteConsumer, now: Time) -> None:
        """Announce ``consumer`` if it is the first one of its broker that other brokers may hear of."""
        heralds = self._heralds.get(demand)
        origin = consumer.path[0]
        key = _key(consumer)
        if heralds is None or key in heralds or origin == demand.info.broker_path[0]:
            return
        if not within(len(consumer.path), self._settings.consumer_ttl):
            return
        if self._routes.heralds >= self.at_most:
            self._warn(
                f"more than {self.at_most} consumers of other brokers would have to be announced to further ones"
            )
            return
        herald = DemandSubscription(self._bridge, self._table.herald_info(consumer), False)
        try:
            herald.subscription = self._broker.add_consumer(self._client, herald.info, herald, now)
        except JmsError as error:
            self._warn(str(error))
            return
        heralds[key] = (consumer.key, herald)
        self._add(1)

    def _add(self, more: int) -> None:
        self._count += more
        self._routes.heralds += more

    def _warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "network connector %s: %s; some brokers may send messages of topics to one of these consumers alone: "
                "raise networkTTL of the network connectors",
                self._settings.name, reason,
            )  # fmt: skip

    def on_left(self, demand: DemandSubscription, consumer: RemoteConsumer, now: Time) -> None:
        """Announce another consumer of the same broker instead of ``consumer``, which has left ``demand``."""
        heralds = self._heralds.get(demand)
        key = _key(consumer)
        if heralds is None or key not in heralds or heralds[key][0] != consumer.key:
            return
        self._remove(heralds.pop(key)[1], now)
        for other in list(demand.consumers.values()):
            self.on_joined(demand, other, now)

    def end(self, demand: DemandSubscription, now: Time) -> None:
        """End the heralds of ``demand``."""
        for _, herald in self._heralds.pop(demand, {}).values():
            self._remove(herald, now)

    def clear(self) -> None:
        """Forget all heralds, because the connection of the bridge ends."""
        self._heralds.clear()
        self._add(-self._count)

    def _remove(self, herald: DemandSubscription, now: Time) -> None:
        self._add(-1)
        consumer_id = herald.info.consumer_id
        if str(consumer_id) in self._client.consumers:
            self._broker.remove_consumer(self._client, consumer_id, LAST_DELIVERED_UNKNOWN, now)


def _key(consumer: RemoteConsumer) -> str:
    return f"{consumer.path[0]} {consumer.destination.qualified_name}"
