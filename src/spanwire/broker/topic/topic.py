"""A topic: each message goes to every subscription that exists when the message arrives."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import NEWEST, BrokerDestination
from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.history.departures import EXPIRED
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Attachment, Subscription
from spanwire.broker.policy.fan_out import MAX_FAN_OUT, STEPS_OF_REQUEST, TOPIC_STEPS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message


class TopicPosition(Attachment):
    """The position of a subscription in the order in which a topic got its subscriptions."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number: Final[int] = number


class Topic(BrokerDestination):
    """One topic and its subscriptions.

    Messages that a subscriber cannot take yet are pending in the subscription. Unacknowledged messages of a durable
    subscription are in a separate queue (`spanwire.broker.topic.durable_subscription`), which `MessageRouter` fills.
    """

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage)
        self._context: Final[BrokerContext] = context
        self.copy_steps = TOPIC_STEPS
        self.subscriptions: Final[list[Subscription]] = []
        self.durables: Final[list[DurableSubscription]] = []
        self.observer: DestinationObserver | None = None  # of a policy, of message statistics, of marks
        self._attached = 0  # subscriptions so far
        self._steps = 0  # steps that one message adds to its request

    @property
    def consumer_count(self) -> int:
        """The number of attached consumers, including consumers of durable subscriptions."""
        count = len(self.subscriptions)
        for durable in self.durables:
            count += durable.queue.consumer_count
        return count

    def serve(self, durable: DurableSubscription) -> None:
        """Feed a durable subscription from now on."""
        self.durables.append(durable)
        self.served = max(self.served, durable.number)
        durable.topics[self] = None
        self.fans_out = True
        self._note_load(durable.weight)

    def serve_no_more(self, durable: DurableSubscription) -> None:
        """Stop feeding a durable subscription."""
        self.durables.remove(durable)
        del durable.topics[self]
        self.fans_out = self.route is not None or len(self.durables) > 0
        self._note_load(-durable.weight)

    def has_room(self, weight: int) -> bool:
        """Return True if there is room for a consumer or durable subscription of this ``weight``."""
        return self.load + weight <= MAX_FAN_OUT

    def _note_load(self, more: int) -> None:
        self.load += more
        self._steps = self.load // STEPS_OF_REQUEST
        if self.load > MAX_FAN_OUT // 2 and not self.removed:
            self._context.crowded[self] = None
        else:
            self._context.crowded.pop(self, None)

    def accept(self, message: Message, sequence: int = 0) -> None:
        """Hand ``message`` to every subscription with a matching selector."""
        self.enqueued += 1
        if self._context.joins:
            self._context.complete_joins(self)
        if self.observer is not None:
            self.observer.before_accept(message, sequence)
        if not self.subscriptions:
            if not self.fans_out:
                self._note_unheard(message)
            return
        self._context.steps += self._steps
        reference = MessageReference(self, message, 0, self._context.next_order(), 0)
        self.hold(message)
        for subscription in self.subscriptions:
            if not subscription.accepts(reference):
                continue
            message.holders += 1
            if subscription.can_take() and not subscription.pending:
                self.dispatched += 1
                reference.dispatched_at = self._context.monotonic
                subscription.dispatch(reference)
            elif subscription.discarding:
                self.release(message)
            else:
                subscription.pending.append(reference)
        self.release(message)

    def _note_unheard(self, message: Message) -> None:
        """Remember a message of a topic that nobody subscribes to."""
        if not self.name.is_advisory:
            self._context.departures.note_unheard(message, self.name, self._context.wall_ms)

    def drop_expired(self, message: Message) -> None:
        """Count, remember and release a message that expired before its subscriber could take it."""
        super().drop_expired(message)
        if not self.name.is_advisory:
            self._context.departures.note(message, EXPIRED, self.name, self._context.wall_ms)

    def accept_for_bridges(self, message: Message) -> None:
        """Hand a copy of an earlier message to bridges only."""
        reference = MessageReference(self, message, 0, self._context.next_order(), 0)
        self.hold(message)
        for subscription in self.subscriptions:
            if subscription.network_filter is None or not subscription.accepts(reference):
                continue
            message.holders += 1
            if self._takes_now(subscription):
                self.dispatched += 1
                reference.dispatched_at = self._context.monotonic
                subscription.dispatch(reference)
            else:
                self._let_wait(subscription, reference)
        self.release(message)

    def _takes_now(self, subscription: Subscription) -> bool:
        return subscription.can_take() and not subscription.pending

    def _let_wait(self, subscription: Subscription, reference: MessageReference) -> None:
        """Keep a message until ``subscription`` can take more."""
        if subscription.discarding:
            self.release(reference.message)
        else:
            subscription.pending.append(reference)

    def make_room(self, size: int) -> bool:
        """Return True if discarding pending messages made room for ``size`` bytes.

        A plain topic never discards.
        """
        return False

    def has_takers(self) -> bool:
        """Return True if a consumer is attached."""
        return len(self.subscriptions) > 0

    def is_unheard(self) -> bool:
        """Return True if nobody would get or notice a message, but for the copies of durable subscriptions."""
        return not self.subscriptions and not self._context.joins and self.observer is None

    def durable_queues(self, message: Message, after: int = 0, until: int = NEWEST) -> list[BrokerDestination]:
        """Return the queues of the durable subscriptions that get a copy of ``message``.

        The numbers of the subscriptions are above ``after``, up to ``until``.
        """
        return [
            durable.queue for durable in self.durables if after < durable.number <= until and durable.wants(message)
        ]

    def kept_messages(self) -> list[Message]:
        """Return the retained messages without copying; a plain topic has no such messages."""
        return []

    def drop(self) -> None:
        """Note that the topic is removed; subclasses discard retained messages."""

    @property
    def durable_count(self) -> int:
        """The number of durable subscriptions."""
        return len(self.durables)

    def attached(self) -> list[Subscription]:
        """Return the subscriptions, without durable ones."""
        return list(self.subscriptions)

    def attach(self, subscription: Subscription) -> None:
        """Add a subscription for messages sent from now on."""
        self.visits += 1
        self.subscriptions.append(subscription)
        self._attached += 1
        subscription.destinations[self] = TopicPosition(self._attached)
        self._note_load(subscription.weight)
        if self.observer is not None:
            self.observer.consumer_added(subscription)

    def detach(self, subscription: Subscription) -> None:
        """Remove a subscription; its pending messages are released with the subscription.

        The subscription is found by halving. Otherwise clients that leave one by one would take the square of their
        number.
        """
        subscriptions = self.subscriptions
        number = self._number_of(subscription)
        low, high = 0, len(subscriptions)
        while low < high:
            middle = (low + high) // 2
            if self._number_of(subscriptions[middle]) < number:
                low = middle + 1
            else:
                high = middle
        if low < len(subscriptions) and subscriptions[low] is subscription:
            del subscriptions[low]
            self._note_load(-subscription.weight)

    def _number_of(self, subscription: Subscription) -> int:
        position = subscription.destinations.get(self)
        return position.number if isinstance(position, TopicPosition) else 0

    def detach_left(self) -> list[Subscription]:
        """Detach and return the subscriptions whose consumers were removed."""
        gone = [subscription for subscription in self.subscriptions if subscription.is_detached]
        if gone:
            self.subscriptions[:] = [
                subscription for subscription in self.subscriptions if not subscription.is_detached
            ]
            for subscription in gone:
                self._note_load(-subscription.weight)
        return gone

    def detach_all(self) -> list[Subscription]:
        """Detach and return all subscriptions."""
        gone = list(self.subscriptions)
        self.subscriptions.clear()
        for subscription in gone:
            subscription.destinations.pop(self, None)
            self._note_load(-subscription.weight)
        return gone

    def settle(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Count and release a message that a subscriber is done with."""
        self.dequeued += 1
        self.release(reference.message)
        if self.observer is not None:
            self.observer.message_removed(reference.message, way)

    def forget(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Settle a message; the store has no record of it."""
        self.settle(reference, way)

    def take_back(self, references: list[MessageReference]) -> None:
        """Release the unacknowledged messages of a removed subscriber."""
        for reference in references:
            self.release(reference.message)

    def waiting(self) -> int:
        """Return the number of pending messages of slow subscriptions."""
        return sum(len(subscription.pending) for subscription in self.subscriptions)
