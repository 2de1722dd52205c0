"""Advisory topics: advisories about connections, producers, consumers, destinations and messages.

No advisory is built without a listener. A new listener first gets advisories about existing objects.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.advisories.advisory_delivery import AdvisoryDelivery, AdvisoryDispatcher
from spanwire.broker.advisories.advisory_names import (
    anonymous_producer_advisory,
    behind,
    bridge_advisory,
    connection_advisory,
    consumer_advisory,
    destination_advisory,
    failed_forward_advisory,
    master_advisory,
    message_advisory,
    producer_advisory,
    public,
    standing_consumer,
    virtual_consumer_advisory,
)
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import MESSAGE_ADVISORIES, MessageAdvisories
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import AdvisedMessage, AdvisoryFormat, LinkedBroker, RemovedSubject, RoutedDestination
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.audit_log import printable
from spanwire.broker.topic.durable_subscription import SubscriptionTerms
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, TOPIC, Destination
from spanwire.model.errors import JmsError, ProtocolError, ResourceAllocationError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message
from spanwire.model.routing import BRIDGE_DURABLE_PREFIX, NO_PATH

MAX_UNHEARD: Final = 10_000  # remembered topics without listeners; a full table is cleared
LEAST_BEHIND: Final = 1_000  # pending advisories allowed to each listener when memory is short
REPLAYS_BEHIND: Final = 2  # further pending advisories allowed for each replayed advisory

logger = logging.getLogger(__name__)


class Advisories(MessageAdvisories, AdvisoryDispatcher):
    """Publishes advisories to topics with listeners."""

    def __init__(
        self,
        context: BrokerContext,
        destinations: DestinationMap,
        advisory_format: AdvisoryFormat,
        access: AccessControl,
        formats: MessageFormats,
        anonymous_producers: bool,
        demand_id: str = "",
    ) -> None:
        """Take the parts of the broker.

        With a ``demand_id``, advisories show a queue behind a virtual destination as if the queue always had a
        consumer; ``demand_id`` is the connection id of the consumer.
        """
        self._access: Final[AccessControl] = access
        self._context: Final[BrokerContext] = context
        self._destinations: Final[DestinationMap] = destinations
        self._format: Final[AdvisoryFormat] = advisory_format
        self._formats: Final[MessageFormats] = formats
        self._anonymous_producers: Final[bool] = anonymous_producers
        self._demand_id: Final[str] = demand_id
        self._listeners: Final[dict[Subscription, int]] = {}  # with the number of pending advisories allowed to each
        self._ended: Subscription | None = None  # a listener that is being ended
        self._number = 0
        self._has_pattern_listeners = False  # True once an advisory topic was made for a wildcard listener
        self._paths: Final[dict[str, tuple[str, ...]]] = {}  # broker paths of remote temporary destinations
        self._unheard: Final[dict[str, None]] = {}  # events without listeners since the last listener came
        self._links: Final[list[LinkedBroker]] = []
        self._delivery: Final[AdvisoryDelivery] = AdvisoryDelivery(self, context)

    def listener_added(self, subscription: Subscription) -> None:
        """Note a new subscription, possibly a listener of an advisory topic."""
        if may_hear(subscription):
            self._listeners[subscription] = LEAST_BEHIND
            self._unheard.clear()

    @property
    def listener_count(self) -> int:
        """The number of listeners: the most steps of one advisory."""
        return len(self._listeners)

    def listener_removed(self, subscription: Subscription) -> None:
        """Forget a removed subscription."""
        self._listeners.pop(subscription, None)
        if self._ended is subscription:
            self._ended = None

    def connection_added(self, info: ConnectionInfo) -> None:
        """Publish the login of a client."""
        self._publish(connection_advisory(), public(info), {})

    def connection_removed(self, info: ConnectionInfo) -> None:
        """Publish the end of a connection."""
        self._publish(connection_advisory(), RemovedSubject(info.connection_id, info.connection_id), {})

    def note_route(self, destination: Destination, broker_path: tuple[str, ...]) -> None:
        """Note that the temporary ``destination`` lies beyond the brokers of ``broker_path``.

        The destination is about to be made.
        """
        self._paths[destination.qualified_name] = broker_path

    def destination_subject(self, destination: Destination) -> object:
        """Return the subject of advisories about ``destination``, with the broker path of a remote temporary
        destination.
        """
        path = self._paths.get(destination.qualified_name)
        return destination if path is None else RoutedDestination(destination, path)

    def destination_added(self, destination: Destination, connection_id: str) -> None:
        """Publish a new queue or topic."""
        if not destination.is_advisory:
            self._publish(destination_advisory(destination), self.destination_subject(destination), {})
            for source, info in self.standing_demand(destination):
                self._publish(virtual_consumer_advisory(source), info, {"consumerCount": 1})

    def standing_demand(self, destination: Destination) -> list[tuple[Destination, ConsumerInfo]]:
        """Return the virtual destinations with demand as long as the queue ``destination`` exists.

        The result has a standing consumer for each virtual destination.
        """
        if not self._demand_id or destination.kind != QUEUE:
            return []
        info = standing_consumer(self._demand_id, destination)
        return [(source, behind(info, source)) for source in self._destinations.virtual_sources(destination)]

    def standing_subscriber(self, terms: SubscriptionTerms) -> list[tuple[Destination, ConsumerInfo]]:
        """Return the virtual topics with demand as long as a durable subscription exists.

        The result has a standing consumer for each virtual topic. Subscriptions of bridges are left out, because the
        brokers behind the bridges publish such demand as well.
        """
        consumers: list[tuple[Destination, ConsumerInfo]] = []
        if not self._demand_id or terms.name.startswith(BRIDGE_DURABLE_PREFIX):
            return consumers
        consumer_id = ConsumerId(f"{self._demand_id}:{terms.key}", 0, 0)
        for topic in terms.topic.parts():
            info = ConsumerInfo(consumer_id, topic, subscription_name=terms.name, client_id=terms.client_id)
            for source in self._destinations.virtual_sources(topic):
                consumers.append((source, behind(info, source)))
        return consumers

    def destination_removed(self, destination: Destination, connection_id: str) -> None:
        """Publish a removed queue or topic.

        An advisory topic about the destination is forgotten if all listeners use wildcards.
        """
        if destination.is_advisory:
            return
        self._paths.pop(destination.qualified_name, None)
        self._publish(destination_advisory(destination), RemovedSubject(connection_id, destination), {})
        for source, info in self.standing_demand(destination):
            gone = RemovedSubject(info.consumer_id.connection_id, info.consumer_id)
            self._publish(virtual_consumer_advisory(source), gone, {"consumerCount": 0})
        self._forget(consumer_advisory(destination))
        self._forget(producer_advisory(destination))
        if self._has_pattern_listeners:
            for kind in MESSAGE_ADVISORIES:
                self._forget(message_advisory(kind, destination))

    def _forget(self, topic_name: Destination) -> None:
        topic = self._destinations.topic(topic_name)
        if topic is None:
            return
        for subscription in topic.subscriptions:
            wanted = subscription.info.destination
            if (wanted.is_composite or not wanted.is_pattern) and topic_name in wanted.parts():
                return
        self._destinations.remove(topic_name)
        self._delivery.forget(topic)

    def detach_listeners(self, topic: Topic) -> None:
        """Detach the listeners of the forgotten ``topic``."""
        for subscription in topic.detach_all():
            self._destinations.wildcards.recount(subscription)
        topic.drop()  # the topic may have retained messages since

    def consumer_added(self, info: ConsumerInfo, destination: Destination, count: int) -> None:
        """Publish a new consumer of ``destination``; ``count`` is the new number of consumers."""
        if not destination.is_advisory:
            path = info.broker_path
            self._publish(consumer_advisory(destination), info, {"consumerCount": count}, path)
            for source in self._destinations.virtual_sources(destination):
                self._publish(virtual_consumer_advisory(source), behind(info, source), {"consumerCount": count}, path)

    def consumer_removed(self, info: ConsumerInfo, destination: Destination, count: int) -> None:
        """Publish a removed consumer of ``destination``; ``count`` is the new number of consumers."""
        if not destination.is_advisory:
            subject = RemovedSubject(info.consumer_id.connection_id, info.consumer_id)
            path = info.broker_path
            self._publish(consumer_advisory(destination), subject, {"consumerCount": count}, path)
            for source in self._destinations.virtual_sources(destination):
                gone = behind(info, source).consumer_id
                self._publish(
                    virtual_consumer_advisory(source),
                    RemovedSubject(gone.connection_id, gone),
                    {"consumerCount": count},
                    path,
                )
            if destination.is_pattern:
                self._forget(consumer_advisory(destination))  # no removal forgets the topic of a pattern

    def subscription_removed(self, terms: SubscriptionTerms, connection_id: str) -> None:
        """Publish a deleted durable subscription."""
        for topic in terms.topic.parts():
            if not topic.is_advisory:
                self._publish(consumer_advisory(topic), RemovedSubject(connection_id, terms), {})
                for source in self._destinations.virtual_sources(topic):
                    self._publish(virtual_consumer_advisory(source), RemovedSubject(connection_id, terms), {})
        for source, info in self.standing_subscriber(terms):
            gone = RemovedSubject(info.consumer_id.connection_id, info.consumer_id)
            self._publish(virtual_consumer_advisory(source), gone, {"consumerCount": 0})

    def producer_added(self, info: ProducerInfo, destination: Destination, count: int) -> None:
        """Publish a new producer of ``destination``; ``count`` is the new number of producers."""
        if not destination.is_advisory:
            self._publish(producer_advisory(destination), info, {"producerCount": count})

    def producer_removed(self, info: ProducerInfo, destination: Destination, count: int) -> None:
        """Publish a removed producer of ``destination``; ``count`` is the new number of producers."""
        if not destination.is_advisory:
            subject = RemovedSubject(info.producer_id.connection_id, info.producer_id)
            self._publish(producer_advisory(destination), subject, {"producerCount": count})

    def anonymous_producer_added(self, info: ProducerInfo) -> None:
        """Publish a new producer without a destination."""
        if self._anonymous_producers:
            self._publish(anonymous_producer_advisory(), info, {"producerCount": 0})

    def anonymous_producer_removed(self, info: ProducerInfo) -> None:
        """Publish a removed producer without a destination."""
        if self._anonymous_producers:
            subject = RemovedSubject(info.producer_id.connection_id, info.producer_id)
            self._publish(anonymous_producer_advisory(), subject, {"producerCount": 0})

    def bridge_started(self, link: LinkedBroker) -> None:
        """Publish the start of a bridge to or from another broker."""
        self._links.append(link)
        self._publish(bridge_advisory(), link, _bridge_properties(link))

    def bridge_stopped(self, link: LinkedBroker) -> None:
        """Publish the end of a bridge, if the bridge had started."""
        if link in self._links:
            self._links.remove(link)
            self._publish(bridge_advisory(), link, {"started": False})

    def became_master(self) -> None:
        """Publish the start of service of this broker."""
        self._publish(master_advisory(), None, {})

    def forward_failed(self, message: Message, cause: str) -> None:
        """Publish ``message`` after a bridge could not forward the message."""
        self._publish(failed_forward_advisory(), AdvisedMessage(message, True), {"cause": cause})

    def has_listeners(self, kind: str, about: Destination) -> bool:
        """Return True if events of ``kind`` about ``about`` have listeners."""
        return self._message_topic(kind, about) is not None

    def publish(self, kind: str, about: Destination, subject: object, properties: dict[str, object]) -> None:
        """Publish an event about a consumer, a producer or (None) the destination itself."""
        topic = self._message_topic(kind, about)
        if topic is not None:
            self._deliver(topic, self._message(topic.name, subject, properties))

    def publish_message(
        self, kind: str, about: Destination, message: Message, whole: bool, properties: dict[str, object]
    ) -> None:
        """Publish an event about a message."""
        self.publish(kind, about, AdvisedMessage(message, whole), properties)

    def pass_on(self, kind: str, about: Destination, message: Message) -> None:
        """Hand the message itself to the listeners."""
        topic = self._message_topic(kind, about)
        if topic is not None:
            self._deliver(topic, self._readdressed(message, topic.name))

    def _deliver(self, topic: Topic, message: Message) -> None:
        self._context.count_made(message)
        self._delivery.deliver(topic, message)

    def _message_topic(self, kind: str, about: Destination) -> Topic | None:
        """Return the topic for events of ``kind`` about ``about``, None without listeners.

        The absence of listeners is remembered, so that an expired message costs no more with many wildcard listeners.
        Messages of advisory topics cause no events.
        """
        if not self._listeners or about.is_advisory:
            return None
        key = f"{kind} {about.qualified_name}"
        if key in self._unheard:
            return None
        topic = self._topic(message_advisory(kind, about))
        if topic is None:
            if len(self._unheard) >= MAX_UNHEARD:
                self._unheard.clear()
            self._unheard[key] = None
        return topic

    def _readdressed(self, message: Message, destination: Destination) -> Message:
        """Return a copy for ``destination`` without an original destination, as in ActiveMQ.

        A message that cannot be decoded keeps its original destination in the copy.
        """
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            view.destination = destination
            return message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message_format.readdressed(message, destination)

    @property
    def advises_of_anonymous_producers(self) -> bool:
        """True if producers without a destination cause advisories."""
        return self._anonymous_producers

    def replay_links(self, subscription: Subscription) -> None:
        """Send advisories about existing bridges to a new listener."""
        for link in self._links:
            self.publish_to(subscription, bridge_advisory(), link, _bridge_properties(link))

    def allow_replayed(self, subscription: Subscription, count: int) -> None:
        """Allow a new listener more pending advisories, after a replay of ``count`` advisories."""
        if subscription in self._listeners:
            self._listeners[subscription] += REPLAYS_BEHIND * count

    def _publish(
        self,
        topic_name: Destination,
        subject: object,
        properties: dict[str, object],
        path: tuple[str, ...] = NO_PATH,
    ) -> None:
        """Publish to all listeners except for the brokers of ``path``, because those know the subject already."""
        topic = self._topic(topic_name)
        if topic is not None:
            message = self._message(topic_name, subject, properties)
            message.broker_path = path
            self._delivery.deliver(topic, message)

    def dispatch_advisory(self, topic: Topic, message: Message) -> None:
        """Dispatch ``message`` to the listeners.

        Sends do not wait for memory of advisories. When advisories take more than their share, the listener furthest
        behind is ended, and may come back for a new replay.
        """
        topic.accept(message)
        share = self._destinations.advisory_usage
        if 0 < share.limit_bytes < share.used_bytes and self._ended is None:
            self._end_furthest_behind()

    def _end_furthest_behind(self) -> None:
        furthest: Subscription | None = None
        behind = 0
        too_many = 0
        for subscription, allowed in self._listeners.items():
            if len(subscription.pending) >= allowed + too_many:
                waiting = sum([reference.destination.name.is_advisory for reference in subscription.pending])
                if waiting >= allowed + too_many:
                    furthest = subscription
                    behind = waiting
                    too_many = waiting - allowed
        if furthest is None:
            return
        self._ended = furthest
        info = furthest.info
        reason = ResourceAllocationError(
            f"{behind} advisories wait for consumer {info.consumer_id} of {info.destination}, and they take more than "
            f"their share of memoryUsage: read them faster, or listen to fewer"
        )
        logger.warning("connection %s is ended: %s", printable(info.consumer_id.connection_id), printable(str(reason)))
        furthest.output.close_with(reason)

    def _topic(self, topic_name: Destination) -> Topic | None:
        """Return the advisory topic, None without listeners."""
        if not self._listeners:
            return None
        topic = self._destinations.topic(topic_name)
        if topic is None:
            listeners = self._destinations.pattern_subscriptions(topic_name)
            if not listeners:
                return None
            topic = self._make(topic_name, listeners)
        elif self._context.joins:
            self._context.complete_joins(topic)
        return topic if topic.subscriptions else None

    def _make(self, topic_name: Destination, listeners: list[Subscription]) -> Topic:
        self._has_pattern_listeners = True
        topic = self._destinations.create(topic_name)
        assert isinstance(topic, Topic)
        for subscription in listeners:
            if self._access.may_read(subscription.principal, topic_name):
                topic.attach(subscription)
                self._destinations.wildcards.recount(subscription)
        return topic

    def publish_to(
        self, subscription: Subscription, topic_name: Destination, subject: object, properties: dict[str, object]
    ) -> bool:
        """Send an advisory to a single listener.

        Return False if the listener did not ask for the topic or may not read it.
        """
        wanted = False
        for part in subscription.info.destination.parts():
            wanted = wanted or part.matches(topic_name)
        if not wanted:
            return False
        topic = self._destinations.topic(topic_name)
        if topic is None:
            topic = self._make(topic_name, self._destinations.pattern_subscriptions(topic_name))
        elif self._context.joins:
            self._context.complete_joins(topic)
        if topic not in subscription.destinations:
            return False
        message = self._message(topic_name, subject, properties)
        topic.hold(message)
        subscription.pending.append(MessageReference(topic, message, 0, self._context.next_order(), 0))
        return True

    def _message(self, topic_name: Destination, subject: object, properties: dict[str, object]) -> Message:
        self._number += 1
        return self._format.advisory(topic_name, subject, properties, self._number, self._context.wall_ms)


def _bridge_properties(link: LinkedBroker) -> dict[str, object]:
    return {"started": True, "createdByDuplex": link.by_duplex, "remoteIp": link.remote_address}


def may_hear(subscription: Subscription) -> bool:
    """Return True if a subscription may include advisory topics."""
    for part in subscription.info.destination.parts():
        if part.is_advisory or (part.is_pattern and part.kind == TOPIC):
            return True
    return False
