"""A queue: each message goes to one consumer, in order, and stays until the acknowledgement.

`PendingMessages` has the pending messages, `QueueConsumers` the consumers. A dispatcher of
`spanwire.broker.queue.dispatchers` brings the two together. `Queue` chooses the dispatcher, moves messages in and out,
and runs the queue's long tasks in slices.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.destination_events import DestinationObserver
from spanwire.broker.dispatch.history.arrival_times import Arrivals, arrivals_of
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.bridge_filter import add_condition, forget_condition, let_go_on
from spanwire.broker.queue.dispatchers import DirectDispatcher, Dispatcher, PausedDispatcher, PriorityDispatcher
from spanwire.broker.queue.inspection import NOT_PAUSED, QueueInspection
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import AT_ONCE, QueueConsumer, QueueConsumers
from spanwire.broker.queue.queue_tasks import ExpiryScan, Purge, QueueRemoval
from spanwire.broker.queue.selection.selective_dispatch import SelectiveDispatch
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.ledger import ACKNOWLEDGED, CLIENT, FOUND, PURGED
from spanwire.model.message import Message


class Queue(QueueBase):
    """A queue with its pending messages and its consumers."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage)
        pending = PendingMessages(self, context, policy.queue.prioritized_messages)
        consumers = QueueConsumers(policy.queue, pending.lists)
        self._context: Final[BrokerContext] = context
        self.pending: Final[PendingMessages] = pending
        self._consumers: Final[QueueConsumers] = consumers
        self._expiry: Final[ExpiryScan] = ExpiryScan(self, pending, context)
        self._purge: Final[Purge] = Purge(self, pending, context)
        self._removal: QueueRemoval | None = None
        self.selective: Final[SelectiveDispatch] = SelectiveDispatch(self, pending, consumers, context)
        self._suspended: Final[Dispatcher] = PausedDispatcher(self, pending, consumers, context)
        ordered = PriorityDispatcher if policy.queue.prioritized_messages else DirectDispatcher
        self._ordered: Final[Dispatcher] = ordered(self, pending, consumers, context)
        self._dispatcher: Dispatcher = self._ordered
        self.arrivals: Final[Arrivals | None] = arrivals_of(policy, context.monotonic)
        self._paused_at = NOT_PAUSED  # monotonic seconds
        self._starts_at = 0.0
        self.slow_consumers: SlowConsumerWatch | None = None  # set if the policy ends slow consumers
        self.purges = 0  # purges by operators; a job that still adds messages ends
        self._returning = 0  # jobs that put messages in front of others: returns of former consumers, retained messages
        self._reserved = False  # True while an exclusive cursor is open: consumers get no messages
        self._shared: Final[dict[Subscription, None]] = {}  # consumers of other destinations as well
        self._shared_notified = False  # each shared consumer knows that messages are pending here
        self.observer: DestinationObserver | None = None  # of a policy, of message statistics, of marks

    def persists(self, message: Message) -> bool:
        """Return True if the store gets ``message``: a persistent message, unless the queue is temporary.

        A durable subscription without an active subscriber stores all messages, since memory would not keep them for
        long.
        """
        kind = self.name.kind
        if kind == SUBSCRIPTION:
            return message.persistent or not self._consumers.all
        return message.persistent and kind == QUEUE

    def accept(self, message: Message, sequence: int) -> None:
        """Append ``message``, and dispatch it if a consumer has room; ``sequence`` 0 means not stored."""
        if self.observer is not None:
            self.observer.before_accept(message, sequence)
        self.enqueued += 1
        if message.origin != CLIENT:
            self.sums.came(message.origin, 1)
        delivered = message.redelivery_count
        if delivered > 0 and sequence > 0:
            self._store_redeliveries(sequence, delivered)
        if message.group_id is not None:
            self._use_groups()
        self._dispatcher.accept(message, sequence)
        if self._shared:
            self._notify_shared()
        if self.observer is not None:
            self.observer.after_accept(message, False)

    def _notify_shared(self) -> None:
        """Have shared consumers return to this queue as soon as they can take messages."""
        if self._shared and not self._shared_notified and (self.pending.waiting() > 0 or self.is_held):
            self._shared_notified = True
            for subscription in self._shared:
                subscription.busy[self] = None

    def confirms_idle(self) -> bool:
        """Return True if no message is pending or returns; the next one alerts shared consumers again."""
        if self.pending.waiting() > 0 or self.is_held:
            return False
        self._shared_notified = False
        return True

    def takes_stored(self) -> bool:
        """Return True if the queue may get messages that only the store has read (`accept_stored`).

        An observer must see each message.
        """
        return self.observer is None

    def accept_stored(self, first: int, priorities: array[int], dues: array[int], size: int) -> None:
        """Append messages that only the store has.

        Args:
            first: sequence of the first message; the others follow without a gap.
            priorities: JMS priority of each message.
            dues: expiration of each message in wall milliseconds, 0 for never.
            size: approximate bytes of all messages together.
        """
        self.enqueued += len(dues)
        if self.pending.take_in(first, priorities, dues, size, self._context.wall_ms):
            self.start_expiry()
        self._dispatcher.note_paged_in()
        self._notify_shared()
        self.fill()

    def _store_redeliveries(self, sequence: int, count: int) -> None:
        """Store possible deliveries by another broker, so that the count survives a restart."""
        store = self._context.store
        if store is not None:
            store.note_redelivery(self.name, sequence, count)

    def recover(self, recovered: RecoveredDestination, clean: bool) -> None:
        """Append the messages of the store; ``clean`` is False after a crash."""
        self.sums.add(FOUND, len(recovered.sequences))
        self.pending.recover(recovered, clean)
        self._notify_shared()

    def note_uncertain(self) -> None:
        """Store, before an orderly stop, that messages of a crashed run may have been delivered then."""
        self.pending.note_uncertain()

    @property
    def consumer_count(self) -> int:
        """Number of attached consumers."""
        return len(self._consumers.all)

    def attached(self) -> list[Subscription]:
        """Return the subscriptions of the consumers, best priority first."""
        return [consumer.subscription for consumer in self._consumers.all]

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer behind the others of its priority; the next `fill` dispatches to it."""
        self.visits += 1
        add_condition(self, subscription, self._consumers, self.arrivals, self._context)
        subscription.destinations[self] = self._consumers.attach(subscription, self)
        if self.observer is not None:
            self.observer.consumer_added(subscription)
        if subscription.shared:
            self._shared[subscription] = None
            if self._shared_notified or self.pending.waiting() > 0 or self.is_held:
                subscription.busy[self] = None  # the next message alerts nobody if the others were alerted before
        if self.slow_consumers is not None:
            self.slow_consumers.join(subscription, self)
        wait_ms = self._consumers.start_wait_ms(self.policy.queue)
        if wait_ms == AT_ONCE:
            self._starts_at = 0.0
        elif wait_ms > 0:
            self._starts_at = self._context.monotonic + wait_ms / 1000
            self._context.wake_at(self, self._starts_at)
        self._choose_dispatcher()

    def detach(self, subscription: Subscription) -> None:
        """Remove a consumer. Its unacknowledged messages return separately; dispatch goes on in a later turn."""
        self._shared.pop(subscription, None)
        subscription.busy.pop(self, None)
        consumer = subscription.destinations.get(self)
        if isinstance(consumer, QueueConsumer) and self._consumers.detach(consumer):
            self._forget(consumer)
        self._continue_without()

    def detach_left(self) -> list[Subscription]:
        """Remove all consumers that have left and return their subscriptions."""
        removed = self._consumers.detach_left()
        for consumer in removed:
            self._shared.pop(consumer.subscription, None)
            consumer.subscription.busy.pop(self, None)
            self._forget(consumer)
        if removed:
            self._continue_without()
        return [consumer.subscription for consumer in removed]

    def _forget(self, consumer: QueueConsumer) -> None:
        self.selective.forget(consumer)
        forget_condition(self, consumer.subscription)

    def _continue_without(self) -> None:
        self._choose_dispatcher()
        if self._consumers.conditional > 0:
            self._dispatcher.begin(True)  # a bridge may now get messages refused before
        if self._consumers.all and self.pending.waiting() > 0:
            self._context.schedule(self)

    def _choose_dispatcher(self) -> None:
        before = self._dispatcher
        if (
            self.paused
            or self._reserved
            or self._returning > 0
            or self._purge.is_under_way()
            or self._starts_at > self._context.monotonic
        ):
            self._dispatcher = self._suspended
        elif self._consumers.selective > 0 or self.selective.groups is not None:
            self._dispatcher = self.selective
        else:
            self._dispatcher = self._ordered
        if self._dispatcher is not before:
            before.end()
        self._dispatcher.begin(self._dispatcher is not before)

    def _use_groups(self) -> None:
        """Respect message groups from now on. A durable subscription has one consumer and needs none."""
        if self.selective.groups is None and self.name.kind != SUBSCRIPTION:
            self.selective.use_groups(self.policy.queue.groups)
            self._choose_dispatcher()

    def fill(self) -> None:
        """Dispatch pending messages to the consumers with room, and read on."""
        if self._consumers.all:
            before = self._dispatcher
            before.dispatch()
            if self.pending.grouped:
                self._use_groups()
                if self._dispatcher is not before:
                    self._context.schedule(self)

    def succeed(self, subscription: Subscription) -> None:
        """Let the next exclusive consumer take over from ``subscription``, which has no message in flight."""
        self._consumers.succeed(subscription)
        self.fill()

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read: a page, or expired messages for the dead letter queue."""
        if self._expiry.on_fetched(request, messages):
            return
        self.pending.on_fetched(request, messages)
        if self.pending.grouped:
            self._use_groups()
        self._dispatcher.note_paged_in()
        if self._purge.is_under_way():
            self._context.schedule(self)
        self.fill()

    def settle(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Remove an acknowledged, expired or dead message from memory and from the store."""
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.remove(self.name, reference.sequence, way)
        self.forget(reference, way)

    def settle_all(self, references: list[MessageReference], way: int = ACKNOWLEDGED) -> None:
        """Remove many messages of one consumer in one call of the store, or singly for an observer of each."""
        if self.observer is not None and self.observer.sees_removals():
            for reference in references:
                self.settle(reference, way)
            return
        sequences = [reference.sequence for reference in references if reference.sequence > 0]
        if sequences:
            store = self._context.store
            assert store is not None
            store.remove_all(self.name, sequences, way)
        if way != ACKNOWLEDGED:
            self.sums.went(way, len(references))
        self.in_flight -= len(references)
        self.dequeued += len(references)
        self.release_all(references)

    def forget(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Remove a dispatched message from memory only."""
        if way != ACKNOWLEDGED:
            self.sums.went(way, 1)
        self.in_flight -= 1
        self.dequeued += 1
        self.release(reference.message)
        if self.observer is not None:
            self.observer.message_removed(reference.message, way)

    def take_back(self, references: list[MessageReference]) -> None:
        """Return a former consumer's messages to their old positions."""
        if not references:
            return
        self.in_flight -= len(references)
        if self.removed:
            for reference in references:
                self.release(reference.message)
            return
        for reference in references:
            reference.is_reported = False
        self.pending.put_back(references)
        self._notify_shared()

    def accept_earlier(self, references: list[MessageReference]) -> None:
        """Add messages, held and not stored, by ascending order in front of the messages of higher orders."""
        if references:
            self.enqueued += len(references)
            self.pending.put_back(references)
            self._notify_shared()

    @property
    def is_held(self) -> bool:
        """True while older messages come in slices."""
        return self._returning > 0

    def hold_back(self) -> None:
        """Suspend dispatch while older messages come in slices, so that no younger message overtakes them."""
        self._returning += 1
        self._choose_dispatcher()
        self._notify_shared()

    def let_go(self) -> None:
        """Resume dispatch after all older messages have come."""
        self._returning -= 1
        self._choose_dispatcher()
        self.fill()

    def note_redelivery(self, reference: MessageReference) -> None:
        """Count one more delivery without success, in the store as well."""
        reference.redelivery_count += 1
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.note_redelivery(self.name, reference.sequence, reference.redelivery_count)

    def expire(self, reference: MessageReference) -> None:
        """Dead-letter an expired message, just removed from the pending list."""
        self.expired += 1
        self.in_flight += 1
        self._context.dead_letter(reference, "expired")

    def discard(self, reference: MessageReference, way: int) -> None:
        """Remove a message, just removed from the pending list, without a dead letter."""
        self.in_flight += 1
        self.settle(reference, way)

    @property
    def paused(self) -> bool:
        """True while an operator has stopped the dispatch."""
        return self._paused_at != NOT_PAUSED

    def pause(self) -> None:
        """Stop the dispatch. Messages are still accepted, and messages in flight may be acknowledged."""
        if not self.paused:
            self._paused_at = self._context.monotonic
        self._choose_dispatcher()

    def resume(self) -> None:
        """Dispatch again after `pause`."""
        self._paused_at = NOT_PAUSED
        self._choose_dispatcher()
        self.fill()

    def reserve(self, reserved: bool) -> None:
        """Keep all pending messages from consumers, for an exclusive cursor, or end the reservation."""
        if reserved != self._reserved:
            self._reserved = reserved
            self._choose_dispatcher()
            self.fill()

    def note_reserved(self, count: int) -> None:
        """Count ``count`` messages in flight: a cursor moved them from the pending lists to the store alone."""
        self.in_flight += count
        self.dispatched += count

    def dispatch_released(self, sequences: array[int]) -> None:
        """Dispatch messages again after their release by a cursor. The messages are pending again."""
        self.pending.note_released(sequences)
        self.in_flight -= len(sequences)
        self._context.schedule(self)
        self._notify_shared()
        self.fill()

    def purge(self) -> int:
        """Remove all pending messages in slices, the first now; dispatch none meanwhile. Return their number."""
        count = self.pending.waiting()
        self.purges += 1
        self._expiry.stop()
        self._purge.start()
        self._choose_dispatcher()
        if self.work():
            self._context.schedule(self)
        return count

    def drop(self) -> None:
        """Forget all pending messages of a removed queue in slices, the first now; the store drops them all."""
        self._expiry.stop()
        self._purge.stop()
        self._context.departed += 1
        self._context.close_sums(self.all_sums())
        self._removal = QueueRemoval(self, self.pending, self._context)
        if self._removal.work():
            self._context.schedule(self)

    def start_expiry(self) -> None:
        """Scan the pending lists for expired messages, a slice at a time."""
        if not self._purge.is_under_way() and self._expiry.start():
            self._context.schedule(self)

    def wake(self) -> None:
        """Act on an alarm: of the first dispatch, of a waiting bridge, or of an expiry scan."""
        if self._expiry.wake():
            self._context.schedule(self)
        self._choose_dispatcher()
        if self._consumers.conditional > 0 and let_go_on(self, self._consumers):
            self._dispatcher.begin(True)  # a bridge may now get messages refused before
        self.fill()

    def work(self) -> bool:
        """Run one slice of a purge, a removal or an expiry scan, then dispatch.

        Returns:
            True if the next slice needs neither an answer of the store nor an alarm.
        """
        if self._purge.is_under_way():
            more = self._purge.work()
            if self._purge.is_under_way():
                return more
            self._choose_dispatcher()
        removal = self._removal
        if removal is not None and removal.is_under_way():
            return removal.work()
        more = self._expiry.work()
        self.fill()
        return more

    def waiting(self) -> int:
        """Return the number of pending messages."""
        return self.pending.waiting() + self._expiry.pending

    def paged_in(self) -> int:
        """Return the number of pending messages in memory."""
        return sum([each.loaded for each in self.pending.lists])

    def is_searching(self) -> bool:
        """Return True while pages are read, pending lists are scanned, or messages return."""
        return self.pending.is_reading() or self._context.is_scheduled(self) or self.is_held

    def oldest(self, limit: int, skip: int = 0) -> list[tuple[int, Message | None]]:
        """Return ``limit`` pending messages behind the ``skip`` oldest ones.

        Returns:
            the sequence of each message and, if it is in memory, the message
        """
        return self.pending.oldest(limit, skip)

    def out(self, at_most: int) -> list[MessageReference]:
        """Return at most ``at_most`` messages in flight, without an acknowledgement so far."""
        in_flight: list[MessageReference] = []
        for consumer in self._consumers.all:
            for reference in consumer.subscription.in_flight.all_out():
                if len(in_flight) >= at_most:
                    return in_flight
                if reference.destination is self:
                    in_flight.append(reference)
        return in_flight

    def from_disk(self, message: Message, sequence: int) -> MessageReference:
        """Return a reference to a paged-out message, read from the store by a separate reader."""
        return MessageReference(self, message, sequence, 0, self.pending.redelivery_count(sequence))

    def note_taken(self, reference: MessageReference) -> None:
        """Account for a message of `from_disk` that the reader removes from the pending list."""
        self.hold(reference.message)
        self.pending.forget(reference.sequence)

    def note_removed(self, sequence: int, way: int = PURGED) -> None:
        """Account for a paged-out message, removed unread by a separate reader."""
        self.pending.forget(sequence)
        self.dequeued += 1
        self.sums.went(way, 1)

    def regroup(self) -> None:
        """Offer messages of groups that have lost their consumers."""
        self._dispatcher.begin(True)
        self.fill()

    def inspect(self) -> QueueInspection:
        """Return what stands between the messages and the consumers now, for an operator."""
        return QueueInspection(
            self._paused_at, self._reserved, self._purge.is_under_way(), self.is_held, self._starts_at,
            self._consumers, self.selective.groups,
        )  # fmt: skip
