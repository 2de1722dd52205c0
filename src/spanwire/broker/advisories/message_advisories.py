"""Destinations whose policy asks for advisories about messages and consumers.

A separate class is chosen when such a destination is made, so that all other destinations have no costs.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination_events import (
    CONSUMED_NEWS,
    CONSUMER_ID,
    DELIVERED_NEWS,
    DISCARDED_COUNT,
    DISCARDED_NEWS,
    DISPATCHED_NEWS,
    NO_CONSUMER_NEWS,
    SLOW_CONSUMER_NEWS,
    News,
    tell_of_traffic,
)
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import CLIENT_ID_FILTER
from spanwire.broker.ports import MessageConsumer
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.client_id_filter import ClientIdFilter
from spanwire.broker.topic.policy_topic import ClientIdTopic, TunedTopic
from spanwire.broker.topic.subscription_recovery import RecoveryMemory
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError
from spanwire.model.message import Message


class SlowConsumers:
    """Finds slow consumers of a queue: messages are pending although the window is full.

    Each slow consumer is reported once until the queue has no pending messages.
    """

    def __init__(self, news: News, about: Destination) -> None:
        self._news: Final[News] = news
        self._about: Final[Destination] = about
        self._slow: dict[Subscription, None] = {}

    def look(self, queue: Queue) -> None:
        """Report new slow consumers, after the arrival of a message."""
        if queue.waiting() == 0:
            self._slow = {}
            return
        known = self._slow
        self._slow = {}
        for subscription in queue.subscriptions():
            if subscription in known:
                self._slow[subscription] = None
            elif subscription.started and not subscription.pulls and not subscription.can_take():
                self._slow[subscription] = None
                tell_slow(self._news, self._about, subscription)


def tell_slow(news: News, about: Destination, subscription: Subscription) -> None:
    """Publish that a consumer is slow."""
    info = subscription.info
    news.tell(SLOW_CONSUMER_NEWS, about, info, {CONSUMER_ID: str(info.consumer_id)})


class ToldQueue(Queue):
    """A queue with advisories about its messages and consumers."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext, news: News
    ) -> None:
        super().__init__(destination, policy, usage, context)
        self._news: Final[News] = news
        self._slow: Final[SlowConsumers] = SlowConsumers(news, destination)

    def takes_stored(self) -> bool:
        """Return False: each arrival must be seen."""
        return False

    def accept(self, message: Message, sequence: int) -> None:
        """Take ``message``; publish its arrival and the lack of consumers."""
        told = self.policy.advisories
        self.note_arrival(sequence)
        if told.delivered:
            tell_of_traffic(self._news, DELIVERED_NEWS, self, message)
        if told.no_consumers and not message.persistent and self.consumer_count == 0:
            self._news.pass_on(NO_CONSUMER_NEWS, self.destination, message)
        super().accept(message, sequence)
        if told.slow_consumers:
            self._slow.look(self)

    def settled_all(self, references: list[MessageReference]) -> None:
        """Settle messages one by one, so that each advisory follows the removal of its message."""
        for reference in references:
            self.settled(reference)

    def forgotten(self, reference: MessageReference) -> None:
        """Forget a message and publish its consumption."""
        super().forgotten(reference)
        if self.policy.advisories.consumed:
            tell_of_traffic(self._news, CONSUMED_NEWS, self, reference.message)


class TimedQueue(Queue):
    """A queue with arrival times, for bridges that may take messages only after a delay."""

    def takes_stored(self) -> bool:
        """Return False: each arrival must be seen."""
        return False

    def accept(self, message: Message, sequence: int) -> None:
        """Take ``message`` and note the time."""
        self.note_arrival(sequence)
        super().accept(message, sequence)


class ToldLine(Queue):
    """The queue of a durable subscription to ``topic``, with advisories about messages and consumers."""

    def __init__(
        self,
        destination: Destination,
        policy: PolicyEntry,
        usage: MemoryUsage,
        context: BrokerContext,
        news: News,
        topic: Destination,
    ) -> None:
        super().__init__(destination, policy, usage, context)
        self._news: Final[News] = news
        self._slow: Final[SlowConsumers] = SlowConsumers(news, topic)

    def takes_stored(self) -> bool:
        """Return False: each arrival must be seen."""
        return False

    def accept(self, message: Message, sequence: int) -> None:
        """Take ``message``; the topic publishes the arrival."""
        super().accept(message, sequence)
        if self.policy.advisories.slow_consumers:
            self._slow.look(self)

    def settled_all(self, references: list[MessageReference]) -> None:
        """Settle messages one by one, so that each advisory follows the removal of its message."""
        for reference in references:
            self.settled(reference)

    def forgotten(self, reference: MessageReference) -> None:
        """Forget a message and publish its consumption."""
        super().forgotten(reference)
        if self.policy.advisories.consumed:
            tell_of_traffic(self._news, CONSUMED_NEWS, self, reference.message)


class ToldTopic(TunedTopic):
    """A topic with advisories about its messages and subscribers."""

    def __init__(
        self,
        destination: Destination,
        policy: PolicyEntry,
        usage: MemoryUsage,
        context: BrokerContext,
        memory: RecoveryMemory,
        slow: SlowConsumerWatch | None,
        news: News,
    ) -> None:
        super().__init__(destination, policy, usage, context, memory, slow)
        self._news: Final[News] = news
        self._slow: Final[dict[Subscription, None]] = {}
        self._discarded: Final[dict[Subscription, int]] = {}

    def accept(self, message: Message, sequence: int = 0) -> None:
        """Hand ``message`` on; publish its arrival, the lack of consumers, and slow consumers."""
        if self._context.joins:
            self._context.complete_joins(self)
        told = self.policy.advisories
        if told.slow_consumers:
            self._look_for_slow()
        super().accept(message, sequence)
        if told.no_consumers and not message.persistent and not self._is_wanted(message):
            self._news.pass_on(NO_CONSUMER_NEWS, self.destination, message)
        if told.delivered:
            tell_of_traffic(self._news, DELIVERED_NEWS, self, message)

    def _is_wanted(self, message: Message) -> bool:
        if self._wanted:
            return True
        return any(durable.wants(message) for durable in self.durables)

    def _look_for_slow(self) -> None:
        """Report subscribers with more pending messages than a whole window; a subscriber that caught up is no longer
        slow.
        """
        for subscription in self.subscriptions:
            waiting = len(subscription.pending)
            if subscription in self._slow:
                if waiting == 0 and subscription.can_take():
                    del self._slow[subscription]
            elif subscription.prefetch_size > 1 and waiting > subscription.prefetch_size:
                self._slow[subscription] = None
                tell_slow(self._news, self.destination, subscription)

    def note_discarded(self, subscription: Subscription, reference: MessageReference) -> None:
        """Publish that a message was discarded for a slow subscriber."""
        count = self._discarded.get(subscription, 0) + 1
        self._discarded[subscription] = count
        if self.policy.advisories.discarded:
            more: dict[str, object] = {
                CONSUMER_ID: str(subscription.info.consumer_id),
                DISCARDED_COUNT: count,
            }
            tell_of_traffic(self._news, DISCARDED_NEWS, self, reference.message, more)

    def detach_left(self) -> list[Subscription]:
        """Detach and return the subscriptions whose consumers were removed."""
        gone = super().detach_left()
        for subscription in gone:
            self._slow.pop(subscription, None)
            self._discarded.pop(subscription, None)
        return gone

    def detach(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        self._slow.pop(subscription, None)
        self._discarded.pop(subscription, None)
        super().detach(subscription)


class ToldClientIdTopic(ToldTopic):
    """A `ToldTopic` whose messages may be for a single client."""

    def accept(self, message: Message, sequence: int = 0) -> None:
        """Hand ``message`` to its recipients, with advisories."""
        if self._context.joins:
            self._context.complete_joins(self)
        chosen = ClientIdFilter(self._context.formats)
        self._recipients = chosen.recipients(self._dispatch, self.destination, message, self.subscriptions)
        super().accept(message, sequence)
        self.count_forms(message)


class ToldConsumer(MessageConsumer):
    """A consumer with advisories about dispatches, if the policy of the destination asks for such advisories."""

    def __init__(self, consumer: MessageConsumer, news: News) -> None:
        self._consumer: Final[MessageConsumer] = consumer
        self._news: Final[News] = news
        self.subscription: Subscription | None = None

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        """Dispatch a message and publish the dispatch."""
        self._consumer.dispatch(message, sequence, redelivery_count)
        subscription = self.subscription
        if subscription is None:
            return
        home = subscription.in_flight.newest().home
        if home.policy.advisories.dispatched:
            more: dict[str, object] = {CONSUMER_ID: str(subscription.info.consumer_id)}
            tell_of_traffic(self._news, DISPATCHED_NEWS, home, message, more)

    def dispatch_end(self) -> None:
        """End a browse, or a pull without a message."""
        self._consumer.dispatch_end()

    def close(self, reason: JmsError) -> None:
        """End the consumer for ``reason``."""
        self._consumer.close(reason)

    def told_to_pull(self) -> bool:
        """Tell the client to pull its messages. Return False if the protocol has no such command."""
        return self._consumer.told_to_pull()


def told(policy: PolicyEntry, context: BrokerContext) -> News | None:
    """Return the port for events of a destination with this policy, None if the policy asks for no events."""
    return context.news if policy.advisories.is_of_messages() else None


def new_queue(destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext) -> Queue:
    """Return a queue of the class that the policy needs."""
    news = told(policy, context)
    if news is None:
        if policy.queue.bridges is not None and policy.queue.bridges.replay_delay_ms > 0:
            return TimedQueue(destination, policy, usage, context)
        return Queue(destination, policy, usage, context)
    return ToldQueue(destination, policy, usage, context, news)


def new_line(
    destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext, topic: Destination
) -> Queue:
    """Return the queue of a durable subscription to ``topic`` (the first, if there are several)."""
    news = told(policy, context)
    if news is None:
        return Queue(destination, policy, usage, context)
    return ToldLine(destination, policy, usage, context, news, topic)


def new_topic(
    destination: Destination,
    policy: PolicyEntry,
    usage: MemoryUsage,
    context: BrokerContext,
    memory: RecoveryMemory,
    slow: SlowConsumerWatch | None,
) -> Topic:
    """Return a topic of the class that the policy needs. Messages of advisory topics cause no advisories."""
    news = told(policy, context)
    tuning = policy.topic
    by_client_id = tuning.dispatch is not None and tuning.dispatch.kind == CLIENT_ID_FILTER
    if news is not None and not destination.is_advisory:
        if by_client_id:
            return ToldClientIdTopic(destination, policy, usage, context, memory, slow, news)
        return ToldTopic(destination, policy, usage, context, memory, slow, news)
    if by_client_id:
        return ClientIdTopic(destination, policy, usage, context, memory, slow)
    if slow is None and tuning.recovery is None and tuning.pending_limit is None and tuning.dispatch is None:
        return Topic(destination, policy, usage, context)
    return TunedTopic(destination, policy, usage, context, memory, slow)
