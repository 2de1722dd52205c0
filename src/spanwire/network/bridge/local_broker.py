"""The near end of a bridge: what it does at its own broker, where it is a client in process.

Advisories of the remote broker become subscriptions here; what those get is the bridge's to forward, and is
acknowledged here when the remote broker has answered.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import NO_TOKEN, LinkedBroker
from spanwire.broker.security.audit_log import printable
from spanwire.broker.topic.durable_subscription import subscription_key
from spanwire.model.acks import INDIVIDUAL_ACK, LAST_DELIVERED_UNKNOWN, POISON_ACK, STANDARD_ACK
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, MessageId
from spanwire.model.info import ConsumerInfo
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX
from spanwire.network.bridge.remote_broker import RemoteBroker
from spanwire.network.demand.advisory_reader import AdvisoryReader
from spanwire.network.demand.demand import (
    MAX_DEMAND,
    DemandSubscription,
    DemandTable,
    Forwarded,
    Forwarding,
    RemoteConsumer,
    is_of_a_bridge,
    subscriber_key,
)
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.demand.durable_sync import subscriptions_in
from spanwire.network.demand.temporary_destinations import RemoteTemporaries
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure

MAX_LOGGED_REFUSALS: Final = 10  # of one bridge; a peer must not fill the log

logger = logging.getLogger(__name__)


class LocalBroker:
    """The subscriptions of one bridge at its own broker; ``client`` is its connection there.

    Which remote consumers are demand is asked of `BridgeSettings`, encoding and answers are left to the bridge.
    """

    def __init__(
        self,
        broker: Broker,
        client: ConnectionState,
        settings: BridgeSettings,
        remote: RemoteBroker,
        bridge: Forwarding,
        routes: NetworkRoutes,
    ) -> None:
        self.client: Final[ConnectionState] = client
        self.demand: Final[DemandTable] = DemandTable(settings, remote.broker_id, client.connection_id, broker.name)
        self.acknowledged = 0
        self.failed = 0
        self.unserved = 0
        self._broker: Final[Broker] = broker
        self._settings: Final[BridgeSettings] = settings
        self._remote: Final[RemoteBroker] = remote
        self._bridge: Final[Forwarding] = bridge
        self._routes: Final[NetworkRoutes] = routes
        self._temporaries: Final[RemoteTemporaries] = RemoteTemporaries(broker, client, settings, remote.broker_id)
        self._reader: Final[AdvisoryReader] = AdvisoryReader()
        self._given_up: Final[list[tuple[Forwarded, str]]] = []
        self._touched: Final[list[DemandSubscription]] = []
        self._refusals_logged = 0
        self._has_started = False
        self._told_early: wire.BrokerSubscriptionInfo | None = None
        address = client.info.remote_address if remote.came_in else remote.url
        self._told: Final[LinkedBroker] = LinkedBroker(
            remote.broker_id, remote.name, remote.url, remote.came_in, address
        )

    def starts(self, now: Time) -> None:
        """The remote broker has accepted the bridge: what goes there whether or not anybody consumes."""
        self._has_started = True
        settings = self._settings
        if self._broker.advisories is not None:
            self._broker.advisories.bridge_started(self._told)
        for destination in settings.static:
            if settings.permits(destination):
                self._make_standing(self.demand.static_info(destination), now)
            else:
                logger.warning(
                    "network connector %s: %s is static and excluded, so it stays here", settings.name, destination
                )
        if settings.dynamic_only:
            return
        for terms in self._broker.operations.durable_terms(self.client.info.client_id or ""):
            if terms.name.startswith(BRIDGE_DURABLE_PREFIX) and settings.permits(terms.topic):
                self._make_standing(self.demand.static_info(terms.topic, terms.name, terms.selector), now)
        early = self._told_early
        if early is not None:
            self._told_early = None
            self.synchronised(early, now)

    def _make_standing(self, info: ConsumerInfo, now: Time) -> None:
        try:
            self._make(info, None, now)
        except JmsError as error:
            self._log_refusal(error)

    def told(self, subject: DataStructure | None, now: Time) -> None:
        """An advisory of the remote broker came."""
        try:
            if isinstance(subject, wire.ConsumerInfo):
                consumer = self._reader.consumer(subject, self._remote.broker_id)
                if consumer is not None:
                    self._add(consumer, now)
            elif isinstance(subject, wire.RemoveInfo):
                consumer_id = self._reader.removed_consumer(subject)
                if consumer_id is not None:
                    self._leave(consumer_id, now)
            elif isinstance(subject, wire.DestinationInfo):
                self._temporaries.told(subject, now)
            elif isinstance(subject, wire.RemoveSubscriptionInfo):
                self._unsubscribed(subscriber_key(subject.client_id, subject.subscription_name or ""), now)
        except JmsError as error:
            self._log_refusal(error)

    def _unsubscribed(self, key: str, now: Time) -> None:
        """A durable subscription of the remote broker has ended, and with it those here that stand for it alone."""
        for needless in self.demand.unsubscribed(key):
            self._remove(needless, now)
        remote = self._broker.remote_subscribers
        in_use = {demand.info.subscription_name for demand in self.demand.subscriptions}
        for terms in self._broker.operations.terms_of(remote.serving(key)):
            if terms.client_id == self.client.info.client_id:
                remote.remove(terms.key, key)
                others = remote.of(terms.key)
                if others is not None and not others and terms.name not in in_use:
                    self._broker.unsubscribe(self.client, terms.name, now)

    def synchronised(self, command: wire.BrokerSubscriptionInfo, now: Time) -> None:
        """The remote broker has told which durable subscriptions it has: those are served, also while nobody is there,
        and those here that stand for none of them end.
        """
        settings = self._settings
        if not settings.sync_durable or settings.dynamic_only:
            return
        if not self._has_started:
            self._told_early = command  # to be compared with the subscriptions that are not taken up yet
            return
        told: set[str] = set()
        for info in subscriptions_in(command, settings):
            told.add(subscriber_key(info.client_id, info.subscription_name or ""))
            try:
                consumer = self._reader.consumer(info, self._remote.broker_id)
                if consumer is not None:
                    self._add(consumer, now)
                    self._leave(consumer.info.consumer_id, now)
            except JmsError as error:
                self._log_refusal(error)
        for demand in list(self.demand.subscriptions):
            if demand.is_durable:
                self._compare(demand, told)
                if self.demand.is_idle(demand):
                    self._remove(demand, now)

    def _compare(self, demand: DemandSubscription, told: set[str]) -> None:
        """``told`` are all durable subscriptions of the remote broker's own clients; others than these are no longer
        behind ``demand``. It does not tell of those of its bridges.
        """
        remote, key = self._broker.remote_subscribers, self._stored_key(demand)
        demand.kept = False  # it was kept for want of knowledge
        remote.begin(key)
        for subscriber in list(demand.subscribers):
            if subscriber not in told and not is_of_a_bridge(subscriber):
                demand.subscribers.discard(subscriber)
                remote.remove(key, subscriber)

    def _add(self, consumer: RemoteConsumer, now: Time) -> None:
        demand = self.demand
        info, came = consumer.info, consumer.path[:-1]
        if info.browser or demand.is_known(info.consumer_id):
            return
        wanted = self._settings.wanted(info.destination, came, self._broker.broker_id)
        if wanted is None:
            self.unserved += 1
            return
        consumer.destination = wanted
        if demand.is_full():
            raise JmsError(f"the remote broker has more than {MAX_DEMAND} consumers; the demand of more is left out")
        farther = demand.farther(consumer)
        outdone = list(farther)
        made = demand.local_info(consumer)
        if self._settings.suppresses(wanted) and not self._is_best(consumer, made, outdone):
            self._routes.forget(self._bridge, str(info.consumer_id))
            self._routes.pass_over(self._bridge, consumer)
            return
        if not farther and demand.joined(consumer):
            for joined in demand.serving(info.consumer_id):
                self._routes.serves(joined, consumer)
                self._note_subscriber(joined, consumer)
            self._replace(outdone, None, consumer, now)
            return
        if made.subscription_name is not None and self._settings.conduit:
            for plain in demand.covering(wanted):
                if plain not in outdone and not plain.kept:
                    outdone.append(plain)
        self._make_way(made, now)
        self._replace(outdone, made, consumer, now)

    def _make_way(self, made: ConsumerInfo, now: Time) -> None:
        """End at once the subscription of the same durable name as ``made``, which cannot serve its consumer: it is
        leaving, or the durable subscription of the remote broker has another selector now.
        """
        demand = self.demand.same_durable(made.subscription_name)
        if demand is None:
            return
        demand.leaving = True
        subscription = demand.subscription
        if subscription is not None and not subscription.removed:
            self._acknowledge_settled(subscription, demand, now)
        demand.out.clear()
        self._end(demand, now)

    def _is_best(self, consumer: RemoteConsumer, made: ConsumerInfo, outdone: list[DemandSubscription]) -> bool:
        """Return True if no other route serves this consumer as well; those that are worse are added to ``outdone``. A
        durable subscription stays what it is, for messages wait in it, and so it takes in whoever may join it.
        """
        joinable = self.demand.joinable(consumer)
        if any(own.is_durable for own in joinable):
            return True
        for rival in self._routes.rivals(consumer):
            if rival in joinable:
                continue
            if rival.is_durable or rival.info.priority >= made.priority:
                return False
            if rival not in outdone:
                outdone.append(rival)
        return True

    def _replace(
        self, outdone: list[DemandSubscription], info: ConsumerInfo | None, consumer: RemoteConsumer, now: Time
    ) -> None:
        """End subscriptions, with a new one for ``consumer`` in their place unless ``info`` is None; what else they
        served is looked at anew.
        """
        homeless: list[RemoteConsumer] = []
        bridges: list[Forwarding] = []
        for other in outdone:
            for one in other.bridge.replaced(other, now):
                homeless.append(one)
                bridges.append(other.bridge)
        if info is not None:
            self._make(info, consumer, now)
        for place, one in enumerate(homeless):
            bridges[place].reconsider(one, now)

    def _make(self, info: ConsumerInfo, consumer: RemoteConsumer | None, now: Time) -> None:
        from_network = False
        if consumer is not None:
            from_network = consumer.info.network_subscription and consumer.info.destination.is_queue
        demand = DemandSubscription(self._bridge, info, from_network, kept=consumer is None)
        made = self._broker.add_consumer(self.client, info, demand, now)
        demand.subscription = made
        self.demand.add(demand, consumer)
        if demand.is_durable:
            self._recall_subscribers(demand)
        if consumer is not None:
            self._routes.serves(demand, consumer)
            self._note_subscriber(demand, consumer)
        self._broker.start_consumer(made, now)

    def _recall_subscribers(self, demand: DemandSubscription) -> None:
        """Take over what is known of the durable subscriptions behind one that was here before the bridge."""
        known = self._broker.remote_subscribers.of(self._stored_key(demand))
        if known is not None:
            demand.kept = False
            demand.subscribers = known | demand.subscribers

    def _note_subscriber(self, demand: DemandSubscription, consumer: RemoteConsumer) -> None:
        info = consumer.info
        if demand.is_durable and info.subscription_name is not None:
            subscriber = subscriber_key(info.client_id, info.subscription_name)
            self._broker.remote_subscribers.add(self._stored_key(demand), subscriber)

    def _stored_key(self, demand: DemandSubscription) -> str:
        return subscription_key(self.client.info.client_id or "", demand.info.subscription_name or "")

    def _leave(self, consumer_id: ConsumerId, now: Time) -> None:
        key = str(consumer_id)
        self._routes.forget(self._bridge, key)
        for demand in self.demand.leave(consumer_id):
            consumer = demand.consumers.pop(key, None)
            if self.demand.is_idle(demand):
                self._remove(demand, now)
            if consumer is not None:
                self._routes.serves_no_more(demand, consumer, now)

    def takes_back(self, demand: DemandSubscription, now: Time) -> list[RemoteConsumer]:
        """End ``demand``; gives the remote consumers that it served."""
        consumers = list(demand.consumers.values())
        self.demand.remove(demand)
        demand.consumers.clear()
        self._remove(demand, now)
        for consumer in consumers:
            self._routes.withdraw(demand, consumer)
        return consumers

    def reconsider(self, consumer: RemoteConsumer, now: Time) -> None:
        """This consumer may be served by this bridge after all."""
        try:
            self._add(consumer, now)
        except JmsError as error:
            self._log_refusal(error)

    def _remove(self, demand: DemandSubscription, now: Time) -> None:
        """Take nothing more; the subscription ends when the last of its messages is answered."""
        subscription = demand.subscription
        if subscription is None or subscription.removed:
            return
        demand.leaving = True
        if demand.out:
            self._broker.set_prefetch(subscription, 0, now)
        else:
            self._end(demand, now)

    def _end(self, demand: DemandSubscription, now: Time) -> None:
        self.demand.remove(demand)
        info = demand.info
        if str(info.consumer_id) in self.client.consumers:
            self._broker.remove_consumer(self.client, info.consumer_id, LAST_DELIVERED_UNKNOWN, now)
            if info.subscription_name is not None and not demand.subscribers:
                self._broker.unsubscribe(self.client, info.subscription_name, now)
        self._temporaries.consumer_gone(info.destination, now)

    def ended(self, demand: DemandSubscription) -> None:
        """The broker ended ``demand``: its destination is gone here."""
        demand.leaving = True
        self.demand.remove(demand)

    def answered(self, entry: Forwarded) -> None:
        """The remote broker has this message."""
        entry.settled = True
        self._touch(entry.demand)

    def gives_up(self, entry: Forwarded, cause: str) -> None:
        """This message can never be forwarded."""
        self.fails(entry, cause)
        self.buries(entry, cause)

    def fails(self, entry: Forwarded, cause: str) -> None:
        """This message could not be forwarded, now at least: count it, and tell whoever listens to that."""
        self.failed += 1
        advisories = self._broker.advisories
        if advisories is None or not self._settings.tells_failures:
            return
        reference = self.reference_of(entry)
        if reference is not None:
            advisories.forward_failed(reference.message, cause)

    def buries(self, entry: Forwarded, cause: str) -> None:
        """What has failed is not tried again: it goes to the dead letters."""
        self._given_up.append((entry, cause))

    def reference_of(self, entry: Forwarded) -> MessageReference | None:
        """Where a message that is out stands here; None when it is out no more."""
        subscription = entry.demand.subscription
        if subscription is None or subscription.removed:
            return None
        return subscription.find(entry.message_id)

    def settle(self, now: Time) -> None:
        """Acknowledge here what the remote broker has answered."""
        client = self.client
        while self._given_up:
            entry, cause = self._given_up.pop()
            self._give_up(client, entry, cause, now)
        while self._touched:
            demand = self._touched.pop()
            demand.touched = False
            taken = demand.take_settled()
            subscription = demand.subscription
            if subscription is None or subscription.removed:
                continue
            if taken:
                self.acknowledged += len(taken)
                self._broker.acknowledge(
                    client, subscription, STANDARD_ACK, taken[0].message_id, taken[-1].message_id, len(taken),
                    None, NO_TOKEN, now,
                )  # fmt: skip
            if demand.refused > 0:
                self._settle_behind(subscription, demand, now)
            if demand.leaving and not demand.out:
                self._end(demand, now)

    def _settle_behind(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        """A message that was refused does not hold up those behind it, which would fill the window."""
        kept: list[Forwarded] = []
        for entry in demand.out:
            if entry.settled:
                self._acknowledge_one(subscription, entry.message_id, now)
            else:
                kept.append(entry)
        demand.out.clear()
        demand.out.extend(kept)

    def _give_up(self, client: ConnectionState, entry: Forwarded, cause: str, now: Time) -> None:
        """A message that can never be forwarded: the dead letter queue keeps it."""
        shown = printable(str(entry.message_id))
        logger.warning("message %s cannot be forwarded to %s: %s", shown, self._remote.name, printable(cause))
        demand = entry.demand
        subscription = demand.subscription
        demand.out.remove(entry)
        if subscription is not None and not subscription.removed:
            message_id = entry.message_id
            self._broker.acknowledge(
                client, subscription, POISON_ACK, message_id, message_id, 1, None, NO_TOKEN, now, cause
            )
        self._touch(demand)

    def _touch(self, demand: DemandSubscription) -> None:
        if not demand.touched:
            demand.touched = True
            self._touched.append(demand)

    def leaves(self, now: Time) -> None:
        """The bridge is over. What the remote broker has is not to go there again, also when messages before it were
        not answered; the rest goes back in line.
        """
        for subscription in self.client.consumers.values():
            subscription.started = False
        for demand in self.demand.subscriptions:
            made = demand.subscription
            if made is None or made.removed:
                continue
            self._acknowledge_settled(made, demand, now)
        self._broker.remove_connection(self.client, now)
        if self._broker.advisories is not None:
            self._broker.advisories.bridge_stopped(self._told)
        self._given_up.clear()
        self._touched.clear()
        self._routes.forget(self._bridge)
        for demand in self.demand.subscriptions:
            demand.leaving = True
            demand.out.clear()
        for demand in self.demand.subscriptions:
            for consumer in demand.consumers.values():
                self._routes.serves_no_more(demand, consumer, now)

    def _acknowledge_settled(self, subscription: Subscription, demand: DemandSubscription, now: Time) -> None:
        for entry in demand.out:
            if entry.settled:
                self._acknowledge_one(subscription, entry.message_id, now)

    def _acknowledge_one(self, subscription: Subscription, message_id: MessageId, now: Time) -> None:
        try:
            self._broker.acknowledge(
                self.client, subscription, INDIVIDUAL_ACK, None, message_id, 1, None, NO_TOKEN, now
            )
            self.acknowledged += 1
        except SpanwireError as error:  # it goes there again, flagged
            logger.debug("message %s cannot be acknowledged at the end of a bridge: %s", message_id, error)

    def _log_refusal(self, error: JmsError) -> None:
        self._refusals_logged += 1
        if self._refusals_logged <= MAX_LOGGED_REFUSALS:
            logger.warning("demand of broker %s is not served: %s", self._remote.name, printable(str(error)))
