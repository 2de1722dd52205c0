"""Replay of advisories about existing objects for a new listener, in the order of ActiveMQ.

The order is: destinations, bridges, durable subscriptions without active subscriber, connections, producers and
consumers. A listener for temporary destinations only, as every client of ActiveMQ has, causes no search among other
objects. A broker gets no advisories about consumers that it announced itself.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.advisories.advisory_names import (
    anonymous_producer_advisory,
    behind,
    connection_advisory,
    consumer_advisory,
    destination_advisory,
    producer_advisory,
    public,
    virtual_consumer_advisory,
)
from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import ADVISORY_PREFIX, QUEUE, TEMP_QUEUE, TEMP_TOPIC, TOPIC, Destination
from spanwire.model.info import ProducerInfo

LOOKS_PER_SLICE: Final = 1_000  # objects examined in one slice, with or without an advisory

_PRODUCERS: Final = "Producer."
_CONSUMERS: Final = "Consumer."
_VIRTUAL: Final = "VirtualDestination.Consumer."


class Replay(Job):
    """Replays to one listener.

    A slice ends after `SLICE_MESSAGES` advisories or `LOOKS_PER_SLICE` examined objects.

    Objects removed before their turn are skipped. Ordinary
    advisories report removals and additions meanwhile.
    """

    def __init__(
        self,
        advisories: Advisories,
        destinations: DestinationMap,
        connections: list[ConnectionState],
        subscription: Subscription,
        context: BrokerContext,
    ) -> None:
        wanted = subscription.info.destination
        self._advisories: Final[Advisories] = advisories
        self._destinations: Final[DestinationMap] = destinations
        self._subscription: Final[Subscription] = subscription
        self._context: Final[BrokerContext] = context
        self._all_destinations: Final[list[BrokerDestination]] = destinations.all()
        self._connections: Final[list[ConnectionState]] = connections
        self._of_kind: Final[dict[int, bool]] = {
            QUEUE: may_hear_of(wanted, "Queue"),
            TOPIC: may_hear_of(wanted, "Topic"),
            TEMP_QUEUE: may_hear_of(wanted, "TempQueue"),
            TEMP_TOPIC: may_hear_of(wanted, "TempTopic"),
        }
        self._of_virtual: Final[bool] = may_hear_of(wanted, _VIRTUAL)
        self._of_connections: Final[bool] = may_hear_of(wanted, "Connection")
        self._of_producers: Final[bool] = may_hear_of(wanted, _PRODUCERS)
        self._of_consumers: Final[bool] = self._of_virtual or may_hear_of(wanted, _CONSUMERS)
        self._durables: Final[list[DurableSubscription]] = (
            list(destinations.durables.values()) if self._of_virtual else []
        )
        self._next_durable = 0
        self._next_destination = 0
        self._next_connection = 0
        self._links_published = False
        self._producers: list[ProducerInfo] = []  # of the current connection, the next producer last
        self._consumers: list[Subscription] = []
        self._looks = 0
        self._published = 0

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        subscription = self._subscription
        if subscription.removed:
            return False
        self._looks = LOOKS_PER_SLICE
        self._published = 0
        before = len(subscription.pending)
        more = self._publish_destinations() or self._publish_durables() or self._publish_connections()
        self._advisories.allow_replayed(subscription, len(subscription.pending) - before)
        if subscription.started:
            subscription.drain(self._context.wall_ms)
        return more

    def _is_over(self) -> bool:
        return self._published >= SLICE_MESSAGES or self._looks <= 0

    def _publish(self, topic_name: Destination, subject: object, properties: dict[str, object]) -> None:
        if self._advisories.publish_to(self._subscription, topic_name, subject, properties):
            self._published += 1

    def _publish_destinations(self) -> bool:
        """Return True while more destinations are left."""
        if not self._of_virtual and True not in self._of_kind.values():
            self._next_destination = len(self._all_destinations)
        while self._next_destination < len(self._all_destinations):
            if self._is_over():
                return True
            destination = self._all_destinations[self._next_destination]
            self._next_destination += 1
            self._looks -= 1
            if not destination.removed and not destination.name.is_advisory:
                self._publish_destination(destination.name)
        if not self._links_published:
            self._links_published = True
            self._advisories.replay_links(self._subscription)
        return False

    def _publish_destination(self, destination: Destination) -> None:
        if self._of_kind[destination.kind]:
            self._publish(destination_advisory(destination), self._advisories.destination_subject(destination), {})
        if self._of_virtual:
            for source, info in self._advisories.standing_demand(destination):
                self._publish(virtual_consumer_advisory(source), info, {"consumerCount": 1})

    def _publish_durables(self) -> bool:
        """Return True while more durable subscriptions are left."""
        while self._next_durable < len(self._durables):
            if self._is_over():
                return True
            durable = self._durables[self._next_durable]
            self._next_durable += 1
            self._looks -= 1
            if not durable.active and not durable.queue.removed:
                for source, info in self._advisories.standing_subscriber(durable.terms):
                    self._publish(virtual_consumer_advisory(source), info, {"consumerCount": 0})
        return False

    def _publish_connections(self) -> bool:
        """Return True while more connections are left."""
        if not (self._of_connections or self._of_producers or self._of_consumers):
            return False
        while True:
            while self._producers or self._consumers:
                if self._is_over():
                    return True
                self._looks -= 1
                if self._producers:
                    self._publish_producer(self._producers.pop())
                else:
                    self._publish_consumer(self._consumers.pop())
            if self._next_connection == len(self._connections):
                return False
            if self._is_over():
                return True
            self._begin(self._connections[self._next_connection])
            self._next_connection += 1
            self._looks -= 1

    def _begin(self, state: ConnectionState) -> None:
        if state.removed:
            return
        if self._of_connections:
            self._publish(connection_advisory(), public(state.info), {})
        if self._of_producers:
            self._producers = list(state.producers.values())
            self._producers.reverse()
        if self._of_consumers:
            self._consumers = list(state.consumers.values())
            self._consumers.reverse()

    def _publish_producer(self, info: ProducerInfo) -> None:
        state = self._connections[self._next_connection - 1]
        if state.removed or state.producers.get(str(info.producer_id)) is not info:
            return
        if info.destination is None:
            if self._advisories.advises_of_anonymous_producers:
                self._publish(anonymous_producer_advisory(), info, {"producerCount": 0})
            return
        for part in info.destination.parts():
            if not part.is_advisory:
                destination = self._destinations.find(part)
                self._publish(
                    producer_advisory(part), info, {"producerCount": destination.producers if destination else 0}
                )

    def _publish_consumer(self, consumer: Subscription) -> None:
        info = consumer.info
        if consumer.removed or info is self._subscription.info:
            return
        network_filter = self._subscription.network_filter
        if network_filter is not None and not network_filter.passes(info.broker_path):
            return
        for part in info.destination.parts():
            if part.is_advisory:
                continue
            destination = self._destinations.find(part)
            count = destination.consumer_count if destination else 0
            self._publish(consumer_advisory(part), info, {"consumerCount": count})
            if self._of_virtual:
                for source in self._destinations.virtual_sources(part):
                    self._publish(virtual_consumer_advisory(source), behind(info, source), {"consumerCount": count})


def may_hear_of(wanted: Destination, family: str) -> bool:
    """Return True if ``wanted`` may include topics of ``family``.

    The names of such topics, behind the advisory prefix, begin with ``family``.

    Of a pattern only the part before the first wildcard counts.
    """
    begin = ADVISORY_PREFIX + family
    for part in wanted.parts():
        if part.kind != TOPIC:
            continue
        if not part.is_pattern:
            if part.name.startswith(begin):
                return True
            continue
        known = ""
        for element in part.elements:
            if element in ("*", ">"):
                break
            known += element + "."
        if begin.startswith(known) or known.startswith(begin):
            return True
    return False


def replay(
    advisories: Advisories,
    destinations: DestinationMap,
    connections: list[ConnectionState],
    subscription: Subscription,
    context: BrokerContext,
) -> None:
    """Replay advisories about existing objects to a new listener, the first slice now."""
    job = Replay(advisories, destinations, connections, subscription, context)
    if job.work():
        context.schedule(job)
