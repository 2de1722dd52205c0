"""A queue: each message goes to one consumer, in order, and stays until it is acknowledged.

What waits stands in the `PendingMessages`, who takes it in `QueueConsumers`. How the two meet depends on what the destination
uses, so that one that uses nothing pays nothing:

- directly: the oldest message goes to the next consumer in turn that can take one;
- by priority: the same with a pending_list for each priority, the highest first;
- by looking: with selectors or message groups each consumer scanned at each message once; it remembers how far down the
  pending_list it has looked, so a consumer that finds nothing holds nobody up, and what all have passed by leaves memory;
- held: nothing is dispatched while the queue is paused, is being purged, or waits for its first consumers.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.arrival_times import Arrivals, arrivals_of
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import TOLD, TOLD_BUT_FIRST, UNTOLD, BrokerDestination, MessageReference
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.bridge_filter import add_condition, forget_condition, let_go_on
from spanwire.broker.queue.page import SLICE_MESSAGES, PagedOut
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.queue_tasks import ExpiryScan, QueueRemoval, Purge
from spanwire.broker.queue.selective_dispatch import SelectiveDispatch
from spanwire.model.destination import SUBSCRIPTION, Destination
from spanwire.model.message import Message

DIRECT: Final = 0
BY_PRIORITY: Final = 1
SELECTIVE: Final = 2
HELD: Final = 3

MAX_DISPATCHED: Final = 2_000  # messages that one queue dispatches at once: some 2 ms; the rest has the next turn
DEFAULT_START_WAIT_MS: Final = 1_000  # for consumersBeforeDispatchStarts without a time, as in ActiveMQ


class Queue(BrokerDestination):
    """One queue with what waits in it and its consumers."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage)
        self._context: Final[BrokerContext] = context
        self._pending_messages: Final[PendingMessages] = PendingMessages(
            self, context, policy.queue.prioritized_messages
        )
        self._pending_list: Final[PendingList] = self._pending_messages.pending_lists[0]
        self._consumers: Final[QueueConsumers] = QueueConsumers(policy.queue, self._pending_messages.pending_lists)
        self._expiry: Final[ExpiryScan] = ExpiryScan(self, self._pending_messages, context)
        self._purge: Final[Purge] = Purge(self, self._pending_messages, context)
        self._selective_dispatch: Final[SelectiveDispatch] = SelectiveDispatch(
            self, self._pending_messages, self._consumers, context
        )
        self._removal: QueueRemoval | None = None  # of a queue that was removed
        self._arrivals: Final[Arrivals | None] = arrivals_of(policy, context.monotonic)
        self._paused = False
        self._starts_at = 0.0
        self._mode = BY_PRIORITY if policy.queue.prioritized_messages else DIRECT
        self.in_flight = 0
        self.slow_consumers: SlowConsumerWatch | None = None  # where its policy ends those
        self.cursors = 0  # that hold messages of it, or may
        self._returning = 0  # consumers that are gone and have not given back all that they had of it
        self._reserved = False  # for one of them: consumers get nothing
        self._shared: Final[dict[Subscription, None]] = {}  # its consumers that have other homes besides
        self._told_shared = False  # each of them knows that messages wait here

    # -- messages in ---------------------------------------------------------------------------------------------------

    def accept(self, message: Message, sequence: int) -> None:
        """Put ``message``, stored under ``sequence`` (0: not stored), at the end of the pending_list and dispatch if somebody
        waits.
        """
        self.enqueued += 1
        delivered = message.redelivery_count
        if delivered > 0 and sequence > 0:
            self._note_delivered_before(sequence, delivered)
        if self._mode != DIRECT or message.group_id is not None:
            self._accept_in_mode(message, sequence)
            return
        pending_list = self._pending_list
        if pending_list.loaded != pending_list.count or (sequence > 0 and self._pending_messages.is_full()):
            self._pending_messages.spill(pending_list, message, sequence)
            if self._shared:
                self._tell_shared()
            self._read_ahead()
            return
        reference = MessageReference(self, message, sequence, self._context.next_order(), delivered)
        self.hold(message)
        if pending_list.count == 0:
            subscription = self._consumers.next_taker()
            if subscription is not None:
                self.dispatched += 1
                self.in_flight += 1
                subscription.dispatch(reference)
                return
        pending_list.append(reference)
        if self._shared:
            self._tell_shared()

    def _tell_shared(self) -> None:
        """Messages wait here: consumers that have other homes besides come back when they can take some."""
        if not self._told_shared and self._pending_messages.waiting() > 0:
            self._told_shared = True
            for subscription in self._shared:
                subscription.busy[self] = None

    def confirms_idle(self) -> bool:
        """Whether nothing waits here; consumers that have other homes besides are told again when something does."""
        if self._pending_messages.waiting() > 0:
            return False
        self._told_shared = False
        return True

    def note_arrival(self, sequence: int) -> None:
        """The message that comes next does so now, if anybody wants to know."""
        arrivals = self._arrivals
        if arrivals is not None:
            arrivals.came(sequence, self._context.last_order() + 1, self._context.monotonic)

    def takes_stored(self) -> bool:
        """Whether messages may come of which only the store knows what they are."""
        return True

    def accept_stored(self, first: int, priorities: array[int], dues: array[int], size: int) -> None:
        """Put messages that only the store has, with sequences from ``first`` on, at the end of the pending_list: with these
        priorities and ends (wall milliseconds, 0: never), and about ``size`` bytes together.
        """
        self.enqueued += len(dues)
        if self._pending_messages.take_in(first, priorities, dues, size, self._context.wall_ms):
            self.start_expiry()
        if self._mode == SELECTIVE:
            self._context.schedule(self)
        if self._shared:
            self._tell_shared()
        self.fill()

    def _accept_in_mode(self, message: Message, sequence: int) -> None:
        if message.group_id is not None:
            self._note_groups()
        pending_messages = self._pending_messages
        pending_list = pending_messages.list_of(message.priority)
        if self._spills(pending_list, sequence):
            pending_messages.spill(pending_list, message, sequence)
        else:
            self.hold(message)
            order = self._context.next_order()
            pending_list.append(MessageReference(self, message, sequence, order, message.redelivery_count))
        if self._shared:
            self._tell_shared()
        if self._mode == SELECTIVE:
            self._selective_dispatch.message_added()
        else:
            self.fill()

    def _spills(self, pending_list: PendingList, sequence: int) -> bool:
        """A message stays in memory while there is room and all before it are there; also where a consumer that has
        looked at all before it waits for just this one.
        """
        if pending_list.loaded == pending_list.count and (sequence == 0 or not self._pending_messages.is_full()):
            return False
        return self._mode != SELECTIVE or not self._selective_dispatch.awaits_next(pending_list)

    def _note_delivered_before(self, sequence: int, count: int) -> None:
        """What another broker may have delivered already says so after a restart, too."""
        store = self._context.store
        if store is not None:
            store.note_redelivery(self.destination, sequence, count)

    def recover(self, found: RecoveredDestination, clean: bool) -> None:
        """The messages that the store kept."""
        self._pending_messages.recover(found, clean)
        if self._shared:
            self._tell_shared()

    def note_uncertain(self) -> None:
        """Before a stop in order: what an earlier run may have delivered must still say so in the next one."""
        self._pending_messages.note_uncertain()

    # -- consumers -----------------------------------------------------------------------------------------------------

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        return len(self._consumers.all)

    def subscriptions(self) -> list[Subscription]:
        """Its consumers, best priority first."""
        return [consumer.subscription for consumer in self._consumers.all]

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer, behind those of the same priority; it gets messages from the next `fill` on."""
        self.visits += 1
        add_condition(self, subscription, self._consumers, self._arrivals, self._context)
        self._consumers.attach(subscription)
        subscription.homes[self] = None
        if subscription.shared:
            self._shared[subscription] = None
            if self._pending_messages.waiting() > 0:
                subscription.busy[self] = None
        if self.slow_consumers is not None:
            self.slow_consumers.join(subscription, self)
        policy = self.policy.queue
        wait_ms = policy.time_before_dispatch_starts_ms
        if policy.consumers_before_dispatch_starts > 0:
            if wait_ms == 0:
                wait_ms = DEFAULT_START_WAIT_MS
            if len(self._consumers.all) >= policy.consumers_before_dispatch_starts:
                self._starts_at = 0.0
                wait_ms = 0
        if wait_ms > 0 and len(self._consumers.all) == 1:
            self._starts_at = self._context.monotonic + wait_ms / 1000
            self._context.wake_at(self, self._starts_at)
        self._choose_mode()

    def detach(self, subscription: Subscription) -> None:
        """Remove a consumer; what it had is given back separately, and what waited because of it goes on in a later
        turn.
        """
        self._shared.pop(subscription, None)
        subscription.busy.pop(self, None)
        gone = self._consumers.detach(subscription)
        if gone is not None:
            self._forget(gone)
        self._go_on_without()

    def detach_left(self) -> list[Subscription]:
        """The same for all consumers that have left; gives them."""
        gone = self._consumers.detach_left()
        for consumer in gone:
            self._shared.pop(consumer.subscription, None)
            consumer.subscription.busy.pop(self, None)
            self._forget(consumer)
        if gone:
            self._go_on_without()
        return [consumer.subscription for consumer in gone]

    def _forget(self, gone: QueueConsumer) -> None:
        self._selective_dispatch.forget(gone)
        forget_condition(self, gone.subscription)

    def _go_on_without(self) -> None:
        self._choose_mode()
        if self._consumers.conditional > 0:
            self._rescan()
        if self._consumers.all and self._pending_messages.waiting() > 0:
            self._context.schedule(self)

    def _rescan(self) -> None:
        """What was refused to a bridge may go there now."""
        if self._mode == SELECTIVE:
            self._selective_dispatch.begin(True)

    def _choose_mode(self) -> None:
        before = self._mode
        if (
            self._paused
            or self._reserved
            or self._returning > 0
            or self._purge.is_under_way()
            or self._starts_at > self._context.monotonic
        ):
            self._mode = HELD
        elif self._consumers.selective > 0 or self._selective_dispatch.groups is not None:
            self._mode = SELECTIVE
        else:
            self._mode = BY_PRIORITY if len(self._pending_messages.pending_lists) > 1 else DIRECT
        if self._mode == SELECTIVE:
            self._selective_dispatch.begin(before != SELECTIVE)
        elif before == SELECTIVE:
            self._selective_dispatch.end()

    def _note_groups(self) -> None:
        """What waits for a durable subscriber has one consumer and no groups."""
        if self._selective_dispatch.groups is None and self.destination.kind != SUBSCRIPTION:
            self._selective_dispatch.use_groups(self.policy.queue.groups)
            self._choose_mode()

    # -- dispatch ------------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Dispatch what waits to the consumers that can take it, and read on."""
        mode = self._mode
        if mode == HELD or not self._consumers.all:
            return
        if mode == SELECTIVE:
            self._selective_dispatch.dispatch(not self._context.is_scheduled(self))
            return
        more = True
        while more:
            if mode == DIRECT:
                if self._pending_list.loaded > 0:
                    self._dispatch_oldest(self._pending_list)
            else:
                self._dispatch_by_priority()
            more = self._read_ahead()
            if self._mode != mode:
                self._context.schedule(self)
                return

    def _read_ahead(self) -> bool:
        """True when messages message_added that nobody has to wait for."""
        pending_messages = self._pending_messages
        if self._mode == HELD or not self._consumers.all or pending_messages.loaded() == pending_messages.waiting():
            return False
        message_added = pending_messages.read_ahead(self._consumers.is_hungry())
        if pending_messages.grouped:
            self._note_groups()
        return message_added

    def _dispatch_oldest(self, pending_list: PendingList) -> bool:
        """Dispatch from the front of ``pending_list``; False when nobody takes more, or when many were over their time."""
        expired = 0
        for _ in range(MAX_DISPATCHED):
            reference = pending_list.peek()
            if reference is None:
                return True
            if reference.message.is_expired(self._context.wall_ms):
                if expired == SLICE_MESSAGES:
                    self._context.schedule(self)
                    return False
                expired += 1
                pending_list.pop()
                self.expire(reference)
                continue
            subscription = self._consumers.next_taker()
            if subscription is None:
                return False
            pending_list.pop()
            self.note_dispatched()
            subscription.dispatch(reference)
        self._context.schedule(self)
        return False

    def _dispatch_by_priority(self) -> None:
        for pending_list in self._pending_messages.pending_lists:
            if pending_list.count > 0 and (not self._dispatch_oldest(pending_list) or pending_list.count > 0):
                return  # nobody takes more, or what comes next must be read first

    def note_dispatched(self) -> None:
        """One more message is out."""
        self.dispatched += 1
        self.in_flight += 1

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """A page arrived, or expired messages for the dead letter queue."""
        if self._expiry.fetched(request, messages):
            return
        self._pending_messages.fetched(request, messages)
        if self._pending_messages.grouped:
            self._note_groups()
        if self._mode == SELECTIVE or self._purge.is_under_way():
            self._context.schedule(self)
        self.fill()

    # -- messages out --------------------------------------------------------------------------------------------------

    def settled(self, reference: MessageReference) -> None:
        """Acknowledged, expired or dead: remove it from memory and from the store."""
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.remove(self.destination, reference.sequence)
        self.forgotten(reference)

    def settled_all(self, references: list[MessageReference]) -> None:
        """The same for many that a consumer had: the store and the accounts hear of all of them at once."""
        sequences = [reference.sequence for reference in references if reference.sequence > 0]
        if sequences:
            store = self._context.store
            assert store is not None
            store.remove_all(self.destination, sequences)
        self.in_flight -= len(references)
        self.dequeued += len(references)
        self.release_all(references)

    def forgotten(self, reference: MessageReference) -> None:
        """Remove a dispatched message from memory only."""
        self.in_flight -= 1
        self.dequeued += 1
        self.release(reference.message)

    def given_back(self, references: list[MessageReference]) -> None:
        """A consumer left: its messages take their old places in the pending_list again."""
        if not references:
            return
        self.in_flight -= len(references)
        if self.removed:
            for reference in references:
                self.release(reference.message)
            return
        for reference in references:
            reference.told = UNTOLD
        self._pending_messages.put_back(references)
        if self._shared:
            self._tell_shared()

    def hold_back(self) -> None:
        """What a consumer had comes back in slices: nobody gets what stood behind it meanwhile."""
        self._returning += 1
        self._choose_mode()

    def let_go(self) -> None:
        """All of that is back."""
        self._returning -= 1
        self._choose_mode()
        self.fill()

    def note_left(self, reference: MessageReference) -> None:
        """The consumer that has seen the message leaves: that was a delivery, unless it has told of it."""
        if reference.told != TOLD:
            self.note_redelivery(reference)

    def note_told(self, reference: MessageReference) -> None:
        """The consumer delivers the message again by itself."""
        if reference.told == UNTOLD:
            reference.told = TOLD if reference.redelivery_count > 0 else TOLD_BUT_FIRST
        self.note_redelivery(reference)

    def note_redelivery(self, reference: MessageReference) -> None:
        """The message was delivered once more without success."""
        reference.redelivery_count += 1
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.note_redelivery(self.destination, reference.sequence, reference.redelivery_count)

    def expire(self, reference: MessageReference) -> None:
        """A message that waited, and left the pending_list, is over its time."""
        self.expired += 1
        self.in_flight += 1
        self._context.dead_letter(reference, "expired")

    def discard(self, reference: MessageReference) -> None:
        """A message that waited, and left the pending_list, is not wanted any more."""
        self.in_flight += 1
        self.settled(reference)

    # -- operations ----------------------------------------------------------------------------------------------------

    @property
    def paused(self) -> bool:
        """Whether an operator stopped the dispatch."""
        return self._paused

    def pause(self) -> None:
        """Dispatch nothing more; messages are note_removed in, and what is out may be acknowledged."""
        self._paused = True
        self._choose_mode()

    def resume(self) -> None:
        """Dispatch again."""
        self._paused = False
        self._choose_mode()
        self.fill()

    def reserve(self, reserved: bool) -> None:
        """Keep all that waits from consumers, or no longer: a position has the queue for itself."""
        if reserved != self._reserved:
            self._reserved = reserved
            self._choose_mode()
            self.fill()

    def taken_away(self, count: int) -> None:
        """A position note_taker messages out of the pending_list, of which only the store knows what they are."""
        self.in_flight += count
        self.dispatched += count

    def came_back(self, sequences: array[int]) -> None:
        """They stand in the pending_list again."""
        self._pending_messages.note_released(sequences)
        self.in_flight -= len(sequences)
        self._context.schedule(self)
        if self._shared:
            self._tell_shared()
        self.fill()

    def note_deliveries(self, sequence: int, count: int) -> None:
        """A message that only the store has was delivered ``count`` times."""
        self._pending_messages.note_deliveries(sequence, count)

    def purge(self) -> int:
        """Remove every message that waits, a slice at a time, the first now; gives how many. Nothing is dispatched
        meanwhile.
        """
        count = self._pending_messages.waiting()
        self._expiry.stop()
        self._purge.start()
        self._choose_mode()
        if self.work():
            self._context.schedule(self)
        return count

    def drop(self) -> None:
        """The queue is removed, in the store as a whole: forget what waits, a piece at a time, the first now."""
        self._expiry.stop()
        self._purge.stop()
        self._removal = QueueRemoval(self, self._pending_messages)
        if self._removal.work():
            self._context.schedule(self)

    # -- jobs and views ------------------------------------------------------------------------------------------------

    def start_expiry(self) -> None:
        """Look through the pending_list for expired messages, a slice at a time."""
        if not self._purge.is_under_way() and self._expiry.start():
            self._context.schedule(self)

    def wake(self) -> None:
        """The time for dispatch to start has come, for a message to go to a bridge, or for expiry to go on."""
        if self._expiry.wake():
            self._context.schedule(self)
        self._choose_mode()
        if self._consumers.conditional > 0 and let_go_on(self, self._consumers):
            self._rescan()
        self.fill()

    def work(self) -> bool:
        """One slice of expiry or purge, then go on dispatching; True while there is more that can be done now."""
        if self._purge.is_under_way():
            more = self._purge.work()
            if self._purge.is_under_way():
                return more
            self._choose_mode()
        leftovers = self._removal
        if leftovers is not None and leftovers.is_under_way():
            return leftovers.work()
        more = self._expiry.work()
        self.fill()
        return more

    def waiting(self) -> int:
        """How many messages wait for a consumer."""
        return self._pending_messages.waiting() + self._expiry.pending

    def is_searching(self) -> bool:
        """A page is being read, or a look through the pending_list goes on in a later turn."""
        return self._pending_messages.is_reading() or self._context.is_scheduled(self)

    def look(self, limit: int) -> list[tuple[int, Message | None]]:
        """The oldest messages that wait, at most ``limit``: each with its sequence and, if memory has it, itself."""
        return self._pending_messages.look(limit)

    def pending_lists(self) -> list[PendingList]:
        """The pending_lists, highest priority first, for a reader of its own."""
        return self._pending_messages.pending_lists

    def page_end(self, paged_out: PagedOut, start: int, end: int) -> int:
        """Up to which of these paged_out messages a reader of its own should ask the store at a time."""
        return self._pending_messages.extent(paged_out, start, end).end

    def list_of(self, reference: MessageReference) -> PendingList:
        """The pending_list in which ``reference`` stood, or would stand."""
        return self._pending_messages.list_of(reference.message.priority)

    def out(self, at_most: int) -> list[MessageReference]:
        """What its consumers have and did not acknowledge, ``at_most`` so many."""
        found: list[MessageReference] = []
        for consumer in self._consumers.all:
            subscription = consumer.subscription
            for reference in subscription.all_out():
                if len(found) >= at_most:
                    return found
                if reference.home is self:
                    found.append(reference)
        return found

    def redeliveries_of(self, sequence: int) -> int:
        """How often a message that waits on the disk was delivered before."""
        return self._pending_messages.redelivery_count(sequence)

    def from_disk(self, message: Message, sequence: int) -> MessageReference:
        """A message that waits on the disk, as a reader of its own has read it."""
        return MessageReference(self, message, sequence, 0, self._pending_messages.redelivery_count(sequence))

    def took_from_disk(self, reference: MessageReference) -> None:
        """The reader takes it out of the pending_list."""
        self.hold(reference.message)
        self._pending_messages.forget(reference.sequence)

    def removed_on_disk(self, sequence: int) -> None:
        """The reader note_taker a message out of the pending_list that nobody has read."""
        self._pending_messages.forget(sequence)
        self.dequeued += 1

    def note_page(self, messages: list[Message | None]) -> None:
        """A reader of its own got these."""
        sizes = [message.size for message in messages if message is not None]
        self._pending_messages.note_page(len(sizes), sum(sizes))

    def group_owners(self) -> dict[str, str]:
        """The consumer that owns each message group."""
        groups = self._selective_dispatch.groups
        return {} if groups is None else groups.owners()
