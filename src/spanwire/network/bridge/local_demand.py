"""Demand of a bridge at its own broker: subscribes there for the consumers of the remote broker.

The bridge is a client of the local broker in process. Advisories of the remote broker become subscriptions here.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import LinkedBroker
from spanwire.broker.security.audit_log import printable
from spanwire.broker.topic.durable_subscription import subscription_key
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX
from spanwire.network.bridge.remote_broker import RemoteBroker
from spanwire.network.demand.advisory_reader import AdvisoryReader
from spanwire.network.demand.bridge_settings import MAX_DEMAND, BridgeSettings
from spanwire.network.demand.demand_subscription import (
    DemandBridge,
    DemandSubscription,
    RemoteConsumer,
    is_of_a_bridge,
    subscriber_key,
)
from spanwire.network.demand.demand_table import DemandTable
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.durable_sync import subscriptions_in
from spanwire.network.demand.heralds import Heralds
from spanwire.network.demand.temporary_destinations import TemporaryDestinations
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure

MAX_LOGGED_REFUSALS: Final = 10  # refused consumers of one bridge; a peer must not fill the log

logger = logging.getLogger(__name__)


class LocalDemand:
    """The subscriptions of one bridge at the local broker; ``client`` is the bridge's connection there.

    `BridgeSettings` decides about demand. The bridge forwards and acknowledges messages.
    """

    def __init__(
        self,
        broker: Broker,
        client: ConnectionState,
        settings: BridgeSettings,
        remote: RemoteBroker,
        bridge: DemandBridge,
        routes: NetworkRoutes,
    ) -> None:
        self.client: Final[ConnectionState] = client
        self.demand: Final[DemandTable] = DemandTable(settings, remote.broker_id, client.connection_id, broker.name)
        self.heralds: Final[Heralds] = Heralds(broker, client, settings, self.demand, bridge, routes)
        self.unserved = 0
        self._broker: Final[Broker] = broker
        self._settings: Final[BridgeSettings] = settings
        self._remote: Final[RemoteBroker] = remote
        self._bridge: Final[DemandBridge] = bridge
        self._routes: Final[NetworkRoutes] = routes
        self._temporaries: Final[TemporaryDestinations] = TemporaryDestinations(
            broker, client, settings, remote.broker_id
        )
        self._reader: Final[AdvisoryReader] = AdvisoryReader()
        self._refusals_logged = 0
        self._is_held = False
        self._has_started = False
        self._early_subscription_info: wire.BrokerSubscriptionInfo | None = None
        address = client.info.remote_address if remote.is_inbound else remote.url
        self._linked_broker: Final[LinkedBroker] = LinkedBroker(
            remote.broker_id, remote.name, remote.url, remote.is_inbound, address
        )

    def start(self, now: Time) -> None:
        """Subscribe to standing demand, because the remote broker has accepted the bridge."""
        self._has_started = True
        settings = self._settings
        if self._broker.advisories is not None:
            self._broker.advisories.bridge_started(self._linked_broker)
        for destination in settings.static:
            if settings.is_permitted(destination):
                self._subscribe_standing(self.demand.static_info(destination), now)
            else:
                logger.warning(
                    "network connector %s: %s is static and excluded, so it is not forwarded",
                    settings.name,
                    destination,
                )
        if settings.dynamic_only:
            return
        for terms in self._broker.operations.durable_terms(self.client.info.client_id or ""):
            if terms.name.startswith(BRIDGE_DURABLE_PREFIX) and settings.is_permitted(terms.topic):
                self._subscribe_standing(self.demand.static_info(terms.topic, terms.name, terms.selector), now)
        info = self._early_subscription_info
        if info is not None:
            self._early_subscription_info = None
            self.on_subscription_info(info, now)

    def _subscribe_standing(self, info: ConsumerInfo, now: Time) -> None:
        try:
            self._subscribe(info, None, now)
        except JmsError as error:
            self._log_refusal(error)

    def on_advisory(self, subject: DataStructure | None, now: Time) -> None:
        """Act on an advisory of the remote broker with this data structure."""
        try:
            if isinstance(subject, wire.ConsumerInfo):
                consumer = self._reader.consumer(subject, self._remote.broker_id)
                if consumer is not None:
                    self._add(consumer, now)
            elif isinstance(subject, wire.RemoveInfo):
                consumer_id = self._reader.removed_consumer_id(subject)
                if consumer_id is not None:
                    self._remove_consumer(consumer_id, now)
            elif isinstance(subject, wire.DestinationInfo):
                self._temporaries.on_advisory(subject, now)
            elif isinstance(subject, wire.RemoveSubscriptionInfo):
                self._on_unsubscribe(subscriber_key(subject.client_id, subject.subscription_name or ""), now)
        except JmsError as error:
            self._log_refusal(error)

    def _on_unsubscribe(self, key: str, now: Time) -> None:
        """End the subscriptions for an ended durable subscription of the remote broker."""
        for demand in self.demand.remove_subscriber(key):
            self._remove(demand, now)
        remote = self._broker.remote_subscribers
        in_use = {demand.info.subscription_name for demand in self.demand.subscriptions}
        for terms in self._broker.operations.terms_of(remote.serving(key)):
            if terms.client_id == self.client.info.client_id:
                remote.remove(terms.key, key)
                others = remote.of(terms.key)
                if others is not None and not others and terms.name not in in_use:
                    self._broker.unsubscribe(self.client, terms.name, now)

    def on_subscription_info(self, command: wire.BrokerSubscriptionInfo, now: Time) -> None:
        """Compare the durable subscriptions with the remote broker's list (``syncDurableSubs``).

        Durable subscribers in the list are served even while they are away. Subscriptions without any subscriber end.
        """
        settings = self._settings
        if not settings.sync_durable or settings.dynamic_only:
            return
        if not self._has_started:
            self._early_subscription_info = command  # compared after `start`, which restores durable subscriptions
            return
        remote_keys: set[str] = set()
        for info in subscriptions_in(command, settings):
            remote_keys.add(subscriber_key(info.client_id, info.subscription_name or ""))
            try:
                consumer = self._reader.consumer(info, self._remote.broker_id)
                if consumer is not None:
                    self._add(consumer, now)
                    self._remove_consumer(consumer.info.consumer_id, now)
            except JmsError as error:
                self._log_refusal(error)
        for demand in list(self.demand.subscriptions):
            if demand.is_durable:
                self._compare(demand, remote_keys)
                if self.demand.is_idle(demand):
                    self._remove(demand, now)

    def _compare(self, demand: DemandSubscription, remote_keys: set[str]) -> None:
        """Remove from ``demand`` the subscribers missing in ``remote_keys``.

        ``remote_keys`` are all durable subscriptions of the remote broker's own clients. The list has no subscriptions
        of bridges.
        """
        remote, key = self._broker.remote_subscribers, self._stored_key(demand)
        demand.is_standing = False  # the subscribers are known now
        remote.begin(key)
        for subscriber in list(demand.subscribers):
            if subscriber not in remote_keys and not is_of_a_bridge(subscriber):
                demand.subscribers.discard(subscriber)
                remote.remove(key, subscriber)

    def _add(self, consumer: RemoteConsumer, now: Time) -> None:
        demand = self.demand
        info, path = consumer.info, consumer.path[:-1]
        if info.browser or demand.is_known(info.consumer_id):
            return
        part = self._settings.demand_part(info.destination, path, self._broker.broker_id)
        if part is None:
            self.unserved += 1
            self._announce_others(consumer, now)
            return
        consumer.destination = part
        if demand.is_full():
            raise JmsError(f"the remote broker has more than {MAX_DEMAND} consumers; further ones are not served")
        farther = demand.farther(consumer)
        worse = list(farther)
        released: list[tuple[DemandBridge, RemoteConsumer]] = []
        local_info = demand.local_info(consumer)
        consumer.priority = local_info.priority
        if self._settings.is_suppressed(part) and not self._is_best(consumer, worse, released):
            self._routes.forget(self._bridge, str(info.consumer_id))
            self._routes.pass_over(self._bridge, consumer)
            self._announce_others(consumer, now)
            return
        if not farther and demand.join(consumer):
            self._note_joined(consumer, now)
            self._replace(worse, released, None, consumer, now)
            return
        if local_info.subscription_name is not None and self._settings.conduit:
            for other in demand.covering(part):
                if other not in worse and not other.is_standing:
                    worse.append(other)
        self._end_same_durable(local_info, now)
        self._replace(worse, released, local_info, consumer, now)

    def _announce_others(self, consumer: RemoteConsumer, now: Time) -> None:
        """Announce all consumers that are served together with ``consumer``, to which the remote broker has a route.

        The remote broker may have passed over the subscription that serves them all.
        """
        if self._broker.broker_id in consumer.path:
            return  # the route leads through this broker
        for rival in self._routes.rivals(consumer):
            rival.bridge.announce_others(rival, now)

    def _note_joined(self, consumer: RemoteConsumer, now: Time) -> None:
        for sharing in self.demand.serving(consumer.info.consumer_id):
            self._routes.add_route(sharing, consumer)
            self._note_subscriber(sharing, consumer)
            if self.heralds.is_needed(sharing, consumer):
                self.heralds.begin(sharing, now)
            self.heralds.on_joined(sharing, consumer, now)

    def _end_same_durable(self, local_info: ConsumerInfo, now: Time) -> None:
        """End at once a subscription with the durable name of ``local_info``.

        The subscription cannot serve the consumer of ``local_info``: it is ending, or the remote durable subscription
        has another selector now.
        """
        demand = self.demand.same_durable(local_info.subscription_name)
        if demand is None:
            return
        demand.is_ending = True
        subscription = demand.subscription
        if subscription is not None and not subscription.removed:
            self._bridge.acknowledge_confirmed(subscription, demand, now)
        demand.in_flight.clear()
        self.end(demand, now)

    def _is_best(
        self,
        consumer: RemoteConsumer,
        worse: list[DemandSubscription],
        released: list[tuple[DemandBridge, RemoteConsumer]],
    ) -> bool:
        """Return True if no other route serves this consumer as well; add worse routes to ``worse``.

        A conduit's subscription for a nearer consumer stays, and this consumer's worse route goes to ``released``.

        Messages wait in a durable subscription. So a durable subscription is never replaced, and serves all joinable
        consumers.
        """
        joinable = self.demand.joinable(consumer)
        if any(own.is_durable for own in joinable):
            return True
        each_way_counts = self._settings.limits_hops and not consumer.destination.is_queue
        for rival, served in self._routes.rivals(consumer).items():
            if rival in joinable:
                continue
            priority = served.priority if each_way_counts else rival.info.priority
            if rival.is_durable or priority >= consumer.priority:
                return False
            if each_way_counts:
                released.append((rival.bridge, served))
            elif rival not in worse:
                worse.append(rival)
        return True

    def _replace(
        self,
        worse: list[DemandSubscription],
        released: list[tuple[DemandBridge, RemoteConsumer]],
        info: ConsumerInfo | None,
        consumer: RemoteConsumer,
        now: Time,
    ) -> None:
        """End the ``worse`` subscriptions, and subscribe for ``consumer`` instead unless ``info`` is None.

        The other consumers of the ended subscriptions, and the ``released`` ones, are reconsidered.
        """
        displaced: list[RemoteConsumer] = []
        bridges: list[DemandBridge] = []
        for other in worse:
            for one in other.bridge.replace_demand(other, now):
                displaced.append(one)
                bridges.append(other.bridge)
        if info is not None:
            self._subscribe(info, consumer, now)
        for bridge, one in released:
            bridge.release(one, now)
            displaced.append(one)
            bridges.append(bridge)
        for index, one in enumerate(displaced):
            bridges[index].reconsider(one, now)

    def _subscribe(self, info: ConsumerInfo, consumer: RemoteConsumer | None, now: Time) -> None:
        from_network = False
        if consumer is not None:
            from_network = consumer.info.network_subscription and consumer.info.destination.is_queue
        demand = DemandSubscription(self._bridge, info, from_network, is_standing=consumer is None)
        subscription = self._broker.add_consumer(self.client, info, demand, now)
        demand.subscription = subscription
        self.demand.add(demand, consumer)
        if demand.is_durable:
            self._recall_subscribers(demand)
        if consumer is not None:
            self._routes.add_route(demand, consumer)
            self._note_subscriber(demand, consumer)
            if self.heralds.is_needed(demand, consumer):
                self.heralds.begin(demand, now)
        if self._is_held:
            self._broker.set_prefetch(subscription, 0, now)
        self._broker.start_consumer(subscription, now)

    def hold(self, is_held: bool, now: Time) -> None:
        """Take no further messages for the remote broker until this is called with False."""
        self._is_held = is_held
        for demand in self.demand.subscriptions:
            subscription = demand.subscription
            if subscription is not None and not subscription.removed and not demand.is_ending:
                self._broker.set_prefetch(subscription, 0 if is_held else demand.info.prefetch_size, now)

    def _recall_subscribers(self, demand: DemandSubscription) -> None:
        """Restore the known durable subscribers behind a durable subscription older than the bridge."""
        known = self._broker.remote_subscribers.of(self._stored_key(demand))
        if known is not None:
            demand.is_standing = False
            demand.subscribers = known | demand.subscribers

    def _note_subscriber(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        info = consumer.info
        if demand.is_durable and info.subscription_name is not None:
            subscriber = subscriber_key(info.client_id, info.subscription_name)
            self._broker.remote_subscribers.add(self._stored_key(demand), subscriber)

    def _stored_key(self, demand: DemandSubscription) -> str:
        return subscription_key(self.client.info.client_id or "", demand.info.subscription_name or "")

    def _remove_consumer(self, consumer_id: ConsumerId, now: Time) -> None:
        key = str(consumer_id)
        self._routes.forget(self._bridge, key)
        for demand in self.demand.remove_consumer(consumer_id):
            consumer = demand.consumers.pop(key, None)
            if self.demand.is_idle(demand):
                self._remove(demand, now)
            elif consumer is not None:
                self.heralds.on_left(demand, consumer, now)
                self._renew(demand, now)
            if consumer is not None:
                self._routes.lose_route(demand, consumer, now)

    def _renew(self, demand: DemandSubscription, now: Time) -> None:
        """Subscribe anew for the consumers behind ``demand`` if there is none any more on the path that it announces.

        Other brokers could not find a loop by a wrong path, and the bridges would serve each other for ever. Messages
        that wait in a topic's subscription would be lost, so such a subscription stays.
        """
        subscription = demand.subscription
        if demand.is_durable or demand.is_standing or subscription is None or subscription.pending:
            return
        if any(other.path == demand.info.broker_path for other in demand.consumers.values()):
            return
        others = sorted(demand.consumers.values(), key=_distance)
        self.demand.remove(demand)
        demand.consumers.clear()
        demand.is_ending = True
        for other in others:
            self._routes.remove_route(demand, other)
        for other in others:
            self.reconsider(other, now)
        self._remove(demand, now)  # only now, so that neighbours have demand all the time

    def release(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve ``consumer`` no longer; what was announced besides goes on."""
        for demand in self.demand.remove_consumer(consumer.info.consumer_id):
            demand.consumers.pop(consumer.key, None)
            self._routes.remove_route(demand, consumer)
            if self.demand.is_idle(demand):
                self._remove(demand, now)
            else:
                self.heralds.on_left(demand, consumer, now)
                self._renew(demand, now)

    def take_back(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """End ``demand`` and return its remote consumers."""
        consumers = list(demand.consumers.values())
        self.demand.remove(demand)
        demand.consumers.clear()
        self._remove(demand, now)
        for consumer in consumers:
            self._routes.remove_route(demand, consumer)
        return consumers

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """Serve this consumer after all, if there is demand."""
        try:
            self._add(consumer, now)
        except JmsError as error:
            self._log_refusal(error)

    def _remove(self, demand: DemandSubscription, now: Time) -> None:
        """Take no more messages; the subscription ends after the last answer for its messages."""
        self.heralds.end(demand, now)
        subscription = demand.subscription
        if subscription is None or subscription.removed:
            return
        demand.is_ending = True
        if demand.in_flight:
            self._broker.set_prefetch(subscription, 0, now)
        else:
            self.end(demand, now)

    def end(self, demand: DemandSubscription, now: Time) -> None:
        """Remove ``demand`` and its subscription. Call only without messages in flight."""
        self.heralds.end(demand, now)
        self.demand.remove(demand)
        info = demand.info
        if str(info.consumer_id) in self.client.consumers:
            self._broker.remove_consumer(self.client, info.consumer_id, LAST_DELIVERED_UNKNOWN, now)
            if info.subscription_name is not None and not demand.subscribers:
                self._broker.unsubscribe(self.client, info.subscription_name, now)
        self._temporaries.on_demand_ended(info.destination, now)

    def on_demand_ended(self, demand: DemandSubscription) -> None:
        """Forget ``demand``, because the broker has removed the destination."""
        demand.is_ending = True
        self.heralds.end(demand, self._broker.environment.now())
        self.demand.remove(demand)

    def close(self, now: Time) -> None:
        """End all subscriptions, because the bridge is closed.

        Confirmed messages are acknowledged, even behind others without an answer. The others return to their queues.
        """
        for subscription in self.client.consumers.values():
            subscription.started = False
        for demand in self.demand.subscriptions:
            own = demand.subscription
            if own is None or own.removed:
                continue
            self._bridge.acknowledge_confirmed(own, demand, now)
        self.heralds.clear()
        self._broker.remove_connection(self.client, now)
        self._broker.assembly.context.departed += 1
        if self._broker.advisories is not None:
            self._broker.advisories.bridge_stopped(self._linked_broker)
        self._routes.forget(self._bridge)
        for demand in self.demand.subscriptions:
            demand.is_ending = True
            demand.in_flight.clear()
        for demand in self.demand.subscriptions:
            for consumer in demand.consumers.values():
                self._routes.lose_route(demand, consumer, now)

    def _log_refusal(self, error: JmsError) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            logger.warning(
                "a subscription for broker %s is refused, so its messages are not forwarded: %s",
                self._remote.name,
                printable(str(error)),
            )


def _distance(consumer: RemoteConsumer) -> int:
    return len(consumer.path)
