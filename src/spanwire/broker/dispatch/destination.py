"""The base classes of queues and topics."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.dispatch.virtual_route import VirtualRoute
from spanwire.broker.policy.fan_out import COPY_STEPS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import Destination
from spanwire.model.ledger import ACKNOWLEDGED, ARRIVED, FIRST_OUT, LETTERS, MOVED_IN, SENT, Sums
from spanwire.model.message import Message

NEWEST: Final = 1 << 60  # higher than the number of every durable subscription


class BrokerDestination(MessageHolder):
    """A destination that takes messages: a queue, a topic, or the schedule."""

    def __init__(self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage) -> None:
        super().__init__(destination, policy, usage)
        self.enqueued = 0
        self.in_flight = 0  # messages of a queue, dispatched and not acknowledged
        self.producers = 0
        self.blocked_sends = 0  # sends that waited for memory or disk
        self.blocked_seconds = 0.0  # time that those which have ended waited
        self.from_brokers = 0  # messages that other brokers have forwarded here
        self.to_brokers = 0  # messages acknowledged by bridges that have left
        self.refused_uncommitted = 0  # messages beyond the limit of open transactions
        self.duplicates = 0  # messages dropped because their duplicate id was accepted before
        self.pushed_out = 0  # messages that newer ones pushed out of a ring
        self.replaced = 0  # messages that newer ones of their key replaced
        self.visits = 0  # consumers and producers attached so far
        self.resets = 0  # resets of the counters by operators
        self.visitors = 0  # browsers attached now
        self.withheld = 0  # messages that wait for the disk before their dispatch; no message may overtake them
        self.removed = False
        self.route: VirtualRoute | None = None  # forwards messages to other destinations
        self.fans_out = False  # messages are forwarded, or go to durable subscriptions as well
        self.load = 0  # steps of a topic's consumers for each message (`spanwire.broker.policy.fan_out`)
        self.served = 0  # highest number of a durable subscription so far
        self.copy_steps = COPY_STEPS  # steps of one of several copies, without the consumers
        self.cursors = 0  # exactly-once cursors that are open here
        self.evicts = False  # a message may cost slow consumers others, which leave dead letters
        self.lags = False  # slow consumers must lose messages before further sends are taken

    @property
    def consumer_count(self) -> int:
        """The number of attached consumers."""
        return 0

    @property
    def durable_count(self) -> int:
        """The number of durable subscriptions."""
        return 0

    @property
    def paused(self) -> bool:
        """True while an operator has stopped the dispatch."""
        return False

    def has_room(self, weight: int) -> bool:
        """Return True if there is room for a consumer or durable subscription with a ``weight``."""
        return True

    def has_takers(self) -> bool:
        """Return True unless a new message would be dropped at once for lack of consumers."""
        return True

    def replaced_bytes(self, message: Message) -> int:
        """Return the bytes of memory that ``message`` would free by replacing a pending message."""
        return 0

    def make_room(self, size: int) -> bool:
        """Return True if discarding pending messages made room for ``size`` bytes."""
        return False

    def attached(self) -> list[Subscription]:
        """Return the subscriptions of the attached consumers, without consumers of durable subscriptions."""
        return []

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer."""

    def detach(self, subscription: Subscription) -> None:
        """Remove a consumer. The messages in flight return separately."""

    def detach_left(self) -> list[Subscription]:
        """Remove all consumers that have left, and return the removed subscriptions."""
        return []

    def persists(self, message: Message) -> bool:
        """Return True if the store of the broker, if any, gets ``message`` before the dispatch."""
        return False

    def accept(self, message: Message, sequence: int) -> None:
        """Take ``message`` and dispatch to waiting consumers. ``sequence`` is the store's, 0 if not stored."""

    def expire(self, reference: MessageReference) -> None:
        """Handle the expiry of a pending message."""

    def durable_queues(self, message: Message, after: int = 0, until: int = NEWEST) -> list[BrokerDestination]:
        """Return the queues of the durable subscriptions that get a copy of ``message``.

        The numbers of the subscriptions are above ``after``, up to ``until``.
        """
        return []

    def waiting(self) -> int:
        """Return the number of pending messages."""
        return 0

    def paged_in(self) -> int:
        """Return the number of pending messages in memory."""
        return self.waiting()


def bridged(subscription: Subscription) -> int:
    """Return the number of messages that a bridge has acknowledged; 0 for other or wildcard consumers.

    A consumer of several destinations counts their messages together.
    """
    if subscription.shared or not subscription.info.network_subscription:
        return 0
    return subscription.in_flight.acknowledged_total


def note_bridge_left(subscription: Subscription) -> None:
    """Count the messages of a bridge's consumer at its destination, because the consumer is removed."""
    for holder in subscription.destinations:
        if isinstance(holder, BrokerDestination):
            holder.to_brokers += bridged(subscription)


class QueueBase(BrokerDestination, Job, StoreReader, Alarm):
    """The base of `Queue`, for the parts of a queue: pending messages, dispatchers, long tasks.

    Counts deliveries. ``sums`` are those of the ledger since the start of the broker, without ``SENT`` and
    ``ACKNOWLEDGED``: `spanwire.broker.admin.ledger` derives them from the other counts.
    """

    def __init__(self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage) -> None:
        super().__init__(destination, policy, usage)
        self.sums: Final[Sums] = Sums()
        self.enqueued_before = 0  # of the counts, those from before an operator's reset
        self.dequeued_before = 0

    def all_sums(self) -> Sums:
        """Return the ledger since the start of the broker, of persistent messages and others alike."""
        sums = Sums()
        sums.join(self.sums)
        counts = sums.counts
        others = counts[ARRIVED] + counts[MOVED_IN] + counts[LETTERS]
        sums.add(SENT, self.enqueued_before + self.enqueued - others)
        gone = sum(counts[FIRST_OUT:])
        sums.add(ACKNOWLEDGED, self.dequeued_before + self.dequeued - gone)
        return sums

    def note_dispatched(self) -> None:
        """Count one more message in flight."""
        self.dispatched += 1
        self.in_flight += 1

    def defers(self, job: Job) -> bool:
        """Return True if ``job`` must not show the pending messages yet; the queue schedules it again then."""
        return False

    @property
    def leaves_dead_letters(self) -> bool:
        """True: the dead letter strategy of the policy decides."""
        return True

    def note_departure(self, reference: MessageReference) -> None:
        """Count a delivery to a former consumer, unless the consumer counts its deliveries."""
        if not reference.is_reported:
            self.note_redelivery(reference)

    def note_reported(self, reference: MessageReference) -> None:
        """Count a redelivery that took place inside the client and was reported."""
        reference.is_reported = True
        self.note_redelivery(reference)

    def discard(self, reference: MessageReference, way: int) -> None:
        """Discard a pending message, by a way out of the ledger."""
