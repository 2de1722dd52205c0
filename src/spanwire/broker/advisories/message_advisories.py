"""Observers of destinations with advisories about messages and consumers.

`spanwire.broker.destinations.destination_factory` adds an observer to a new destination if the policy has such
advisories.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.destination_events import (
    CONSUMED_ADVISORY,
    CONSUMER_ID,
    DELIVERED_ADVISORY,
    DISCARDED_ADVISORY,
    DISCARDED_COUNT,
    DISPATCHED_ADVISORY,
    NO_CONSUMER_ADVISORY,
    SLOW_CONSUMER_ADVISORY,
    DestinationObserver,
    MessageAdvisories,
    publish_traffic,
)
from spanwire.broker.dispatch.history.arrival_times import ArrivalObserver
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.ports import MessageConsumer
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.model.message import Message


class SlowConsumers:
    """Finds slow consumers of a queue: messages are pending although the window is full.

    Each slow consumer is reported once until the queue has no pending messages.
    """

    def __init__(self, advisories: MessageAdvisories, about: Destination) -> None:
        self._advisories: Final[MessageAdvisories] = advisories
        self._about: Final[Destination] = about
        self._slow: dict[Subscription, None] = {}

    def look(self, queue: Queue) -> None:
        """Report new slow consumers, after the arrival of a message."""
        if queue.waiting() == 0:
            self._slow = {}
            return
        known = self._slow
        self._slow = {}
        for subscription in queue.attached():
            if subscription in known:
                self._slow[subscription] = None
            elif subscription.started and not subscription.pulls and not subscription.can_take():
                self._slow[subscription] = None
                publish_slow(self._advisories, self._about, subscription)


def publish_slow(advisories: MessageAdvisories, about: Destination, subscription: Subscription) -> None:
    """Publish that a consumer is slow."""
    info = subscription.info
    advisories.publish(SLOW_CONSUMER_ADVISORY, about, info, {CONSUMER_ID: str(info.consumer_id)})


class QueueAdvisories(DestinationObserver):
    """Publishes advisories about the messages and consumers of a queue.

    For the queue of a durable subscription, ``arrivals`` is None: the topic publishes the arrivals, and advisories
    about slow consumers are ``about`` the topic.
    """

    def __init__(
        self, advisories: MessageAdvisories, queue: Queue, about: Destination, arrivals: ArrivalObserver | None
    ) -> None:
        self._advisories: Final[MessageAdvisories] = advisories
        self._queue: Final[Queue] = queue
        self._arrivals: Final[ArrivalObserver | None] = arrivals
        self._slow: Final[SlowConsumers] = SlowConsumers(advisories, about)

    def before_accept(self, message: Message, sequence: int) -> None:
        """Publish the arrival and the lack of consumers."""
        if self._arrivals is None:
            return
        self._arrivals.before_accept(message, sequence)
        queue = self._queue
        asked = queue.policy.advisories
        if asked.delivered:
            publish_traffic(self._advisories, DELIVERED_ADVISORY, queue, message)
        if asked.no_consumers and not message.persistent and queue.consumer_count == 0:
            self._advisories.pass_on(NO_CONSUMER_ADVISORY, queue.name, message)

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """Publish slow consumers."""
        if self._queue.policy.advisories.slow_consumers:
            self._slow.look(self._queue)

    def sees_removals(self) -> bool:
        """Return True: each advisory follows the removal of the message."""
        return True

    def message_removed(self, message: Message, way: int) -> None:
        """Publish the consumption of a message."""
        if self._queue.policy.advisories.consumed:
            publish_traffic(self._advisories, CONSUMED_ADVISORY, self._queue, message)

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """Do nothing: a queue discards no messages."""

    def consumer_added(self, subscription: Subscription) -> None:
        """Do nothing."""

    def consumer_removed(self, subscription: Subscription) -> None:
        """Do nothing: `SlowConsumers` forgets removed consumers itself."""


class TopicAdvisories(DestinationObserver):
    """Publishes advisories about the messages and subscribers of a topic."""

    def __init__(self, advisories: MessageAdvisories, topic: Topic) -> None:
        self._advisories: Final[MessageAdvisories] = advisories
        self._topic: Final[Topic] = topic
        self._slow: Final[dict[Subscription, None]] = {}
        self._discarded: Final[dict[Subscription, int]] = {}

    def before_accept(self, message: Message, sequence: int) -> None:
        """Publish slow consumers."""
        if self._topic.policy.advisories.slow_consumers:
            self._look_for_slow()

    def after_accept(self, message: Message, is_wanted: bool) -> None:
        """Publish the lack of consumers and the arrival."""
        topic = self._topic
        asked = topic.policy.advisories
        if asked.no_consumers and not message.persistent and not is_wanted:
            if not any(durable.wants(message) for durable in topic.durables):
                self._advisories.pass_on(NO_CONSUMER_ADVISORY, topic.name, message)
        if asked.delivered:
            publish_traffic(self._advisories, DELIVERED_ADVISORY, topic, message)

    def _look_for_slow(self) -> None:
        """Report subscribers with more pending messages than a whole window.

        A subscriber that caught up is no longer slow.
        """
        for subscription in self._topic.subscriptions:
            waiting = len(subscription.pending)
            if subscription in self._slow:
                if waiting == 0 and subscription.can_take():
                    del self._slow[subscription]
            elif subscription.prefetch_size > 1 and waiting > subscription.prefetch_size:
                self._slow[subscription] = None
                publish_slow(self._advisories, self._topic.name, subscription)

    def sees_removals(self) -> bool:
        """Return False: a topic publishes no consumption."""
        return False

    def message_removed(self, message: Message, way: int) -> None:
        """Do nothing: a topic publishes no consumption."""

    def message_discarded(self, subscription: Subscription, message: Message) -> None:
        """Publish the discard of a message for a slow subscriber."""
        count = self._discarded.get(subscription, 0) + 1
        self._discarded[subscription] = count
        if self._topic.policy.advisories.discarded:
            more: dict[str, object] = {
                CONSUMER_ID: str(subscription.info.consumer_id),
                DISCARDED_COUNT: count,
            }
            publish_traffic(self._advisories, DISCARDED_ADVISORY, self._topic, message, more)

    def consumer_added(self, subscription: Subscription) -> None:
        """Do nothing."""

    def consumer_removed(self, subscription: Subscription) -> None:
        """Forget a removed subscriber."""
        self._slow.pop(subscription, None)
        self._discarded.pop(subscription, None)


class AdvisedConsumer(MessageConsumer):
    """A consumer with advisories about dispatches, if the destination's policy asks for advisories.

    The class is chosen when a consumer is added, so that advisories cost nothing in dispatches to other consumers.
    """

    def __init__(self, consumer: MessageConsumer, advisories: MessageAdvisories) -> None:
        self.inner: Final[MessageConsumer] = consumer
        self._advisories: Final[MessageAdvisories] = advisories
        self.subscription: Subscription | None = None

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Dispatch a message and publish the dispatch."""
        self.inner.dispatch(message, sequence, redelivery_count)
        subscription = self.subscription
        if subscription is None:
            return
        destination = subscription.in_flight.newest().destination
        if destination.policy.advisories.dispatched:
            more: dict[str, object] = {CONSUMER_ID: str(subscription.info.consumer_id)}
            publish_traffic(self._advisories, DISPATCHED_ADVISORY, destination, message, more)

    def dispatch_end(self) -> None:
        """End a browse, or a pull without a message."""
        self.inner.dispatch_end()

    def close(self, reason: JmsError) -> None:
        """End the consumer for ``reason``."""
        self.inner.close(reason)

    def switch_to_pull(self) -> bool:
        """Tell the client to pull messages. Return False if the protocol has no such command."""
        return self.inner.switch_to_pull()
