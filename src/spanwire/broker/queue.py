"""A queue: each message goes to one consumer, in order, and stays until it is acknowledged.

Without selectors the oldest message goes to the next consumer in turn that can take one. With selectors each consumer
looks at each message once: it remembers how far down the line it has looked, so a consumer that finds nothing holds
nobody up.
"""

from __future__ import annotations

import logging
from array import array
from typing import Final

from spanwire.broker.context import BrokerContext
from spanwire.broker.pending import ResidentLine, SpilledLine
from spanwire.broker.policy import PolicyEntry
from spanwire.broker.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.broker.usage import RESIDENT_SHARE, MemoryUsage
from spanwire.model.destination import Destination
from spanwire.model.message import Message

MIB: Final = 1024 * 1024
MAX_RESIDENT_MESSAGES: Final = 16_384  # persistent messages of one queue kept in memory ahead of dispatch
LOW_RESIDENT_MESSAGES: Final = 1_024  # resident messages below which the next page is read
MAX_PAGE_MESSAGES: Final = 500  # messages of one read, and of one slice of a job
MAX_PAGE_BYTES: Final = 4 * MIB  # bytes of one read, by the queue's average message size
MIN_PAGE_BYTES: Final = 256 * 1024  # the same while memory is short: consumers must go on
UNKNOWN_SIZE: Final = MAX_PAGE_BYTES // 16  # average size of recovered messages until a page of them was read

logger = logging.getLogger(__name__)


class Queue(BrokerDestination):
    """One queue with its line of messages and its consumers, best priority first."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage)
        self._context: Final[BrokerContext] = context
        self._resident: Final[ResidentLine] = ResidentLine()
        self._spilled: Final[SpilledLine] = SpilledLine()
        self._paging: list[int] = []
        self._redeliveries: dict[int, int] = {}
        self._uncertain_through = 0
        self._average_size = 1024
        self._expiry_position = -1
        self._consumers: Final[QueueConsumers] = QueueConsumers()
        self.in_flight = 0

    # -- messages in ---------------------------------------------------------------------------------------------------

    def accept(self, message: Message, sequence: int) -> None:
        """Put ``message``, stored under ``sequence`` (0: not stored), at the end of the line and dispatch if somebody
        waits.
        """
        self.enqueued += 1
        if len(self._spilled) > 0 or self._paging or (sequence > 0 and self._is_resident_window_full()):
            self._spill(message, sequence)
            return
        delivered = message.redelivery_count
        reference = MessageReference(self, message, sequence, self._context.next_order(), delivered)
        if delivered > 0 and sequence > 0:
            self._note_delivered_before(sequence, delivered)
        self.hold(message)
        if self._consumers.selective > 0:
            self._resident.append(reference)
            self._scan()
        elif self._resident.count == 0:
            subscription = self._consumers.next_taker()
            if subscription is None:
                self._resident.append(reference)
            else:
                self.dispatched += 1
                self.in_flight += 1
                subscription.dispatch(reference)
        else:
            self._resident.append(reference)

    def recover(self, sequences: array[int], redeliveries: dict[int, int], clean: bool) -> None:
        """The messages that the store kept. After an unclean stop each may have been delivered before, and says so."""
        self._spilled.extend_sequences(sequences)
        self._redeliveries = dict(redeliveries)
        self._average_size = UNKNOWN_SIZE
        if not clean and sequences:
            self._uncertain_through = sequences[-1]

    def note_uncertain(self) -> None:
        """Before a stop in order: what an earlier run may have delivered must still say so in the next one."""
        store = self._context.store
        if self._uncertain_through == 0 or store is None:
            return
        for reference in self._resident.snapshot():
            if 0 < reference.sequence <= self._uncertain_through:
                store.note_redelivery(self.destination, reference.sequence, reference.redelivery_count)
        for sequence in self.waiting_numbers():
            if 0 < sequence <= self._uncertain_through and sequence not in self._redeliveries:
                store.note_redelivery(self.destination, sequence, 1)

    def _is_resident_window_full(self) -> bool:
        return self._resident.count >= MAX_RESIDENT_MESSAGES or self.usage.is_above(RESIDENT_SHARE)

    def _spill(self, message: Message, sequence: int) -> None:
        self._average_size += (message.size - self._average_size) // 16
        delivered = message.redelivery_count
        if sequence > 0:
            self._spilled.append_sequence(sequence)
            if delivered > 0:
                self._redeliveries[sequence] = delivered
                self._note_delivered_before(sequence, delivered)
        else:
            self.hold(message)
            self._spilled.append_volatile(MessageReference(self, message, 0, self._context.next_order(), delivered))
        if self._wants_page():
            self._page_in()

    def _note_delivered_before(self, sequence: int, count: int) -> None:
        """What another broker may have delivered already says so after a restart, too."""
        store = self._context.store
        if store is not None:
            store.note_redelivery(self.destination, sequence, count)

    # -- consumers -----------------------------------------------------------------------------------------------------

    @property
    def consumer_count(self) -> int:
        """How many consumers are attached."""
        return len(self._consumers.all)

    def attach(self, subscription: Subscription) -> None:
        """Add a consumer, behind those of the same priority; it gets messages from the next `fill` on."""
        self._consumers.attach(subscription, self._resident.first_position)
        subscription.homes.append(self)

    def detach(self, subscription: Subscription) -> None:
        """Remove a consumer; what it had is given back separately."""
        self._consumers.detach(subscription)

    # -- dispatch ------------------------------------------------------------------------------------------------------

    def fill(self) -> None:
        """Dispatch what waits to the consumers that can take it."""
        if self._resident.count > 0:
            if self._consumers.selective > 0:
                self._scan()
            else:
                self._dispatch_oldest()
        if len(self._spilled) > 0 and self._wants_page():
            self._page_in()

    def _dispatch_oldest(self) -> None:
        resident = self._resident
        while True:
            reference = resident.peek()
            if reference is None:
                return
            if reference.message.is_expired(self._context.wall_ms):
                resident.pop()
                self._expire(reference)
                continue
            subscription = self._consumers.next_taker()
            if subscription is None:
                return
            resident.pop()
            self._dispatch(subscription, reference)

    def _dispatch(self, subscription: Subscription, reference: MessageReference) -> None:
        self.dispatched += 1
        self.in_flight += 1
        subscription.dispatch(reference)

    def _scan(self) -> None:
        """Let each consumer that can take messages look on from where it stopped; one message each in turn."""
        if self._resident.is_sparse():
            self._compact()
        budget = MAX_PAGE_MESSAGES
        progress = True
        while progress:
            progress = False
            for consumer in self._consumers.in_turn():
                if not consumer.subscription.can_take():
                    continue
                budget -= self._offer_next(consumer)
                while not self._consumers.uniform and budget > 0 and self._wants_more(consumer):
                    budget -= self._offer_next(consumer)
                if consumer.scanned < self._resident.end_position:
                    progress = True
                if budget <= 0:
                    self._context.schedule(self)
                    return

    def _compact(self) -> None:
        """Who had not looked at everything looks at what is left again."""
        resident = self._resident
        end = resident.end_position
        resident.compact()
        for consumer in self._consumers.all:
            consumer.scanned = resident.end_position if consumer.scanned >= end else resident.first_position
        if self._expiry_position >= 0:
            self._expiry_position = resident.first_position

    def _wants_more(self, consumer: QueueConsumer) -> bool:
        return consumer.scanned < self._resident.end_position and consumer.subscription.can_take()

    def _offer_next(self, consumer: QueueConsumer) -> int:
        """Show ``consumer`` the line until it takes one message; gives how many slots it looked at."""
        resident = self._resident
        position = max(consumer.scanned, resident.first_position)
        looked = 0
        while position < resident.end_position and looked < MAX_PAGE_MESSAGES:
            reference = resident.at(position)
            looked += 1
            position += 1
            if reference is None:
                continue
            if reference.message.is_expired(self._context.wall_ms):
                resident.take(position - 1)
                self._expire(reference)
                continue
            if consumer.subscription.accepts(reference):
                resident.take(position - 1)
                self._dispatch(consumer.subscription, reference)
                break
        consumer.scanned = position
        return looked

    # -- paging --------------------------------------------------------------------------------------------------------

    def _wants_page(self) -> bool:
        """Read ahead while there is room in memory; where there is none, only what a hungry consumer may want.

        Selectors may pass by all that is resident: then the line is read on as far as the window goes.
        """
        if self._paging or not self._consumers.all:
            return False
        if self._resident.count < LOW_RESIDENT_MESSAGES:
            return not self.usage.is_above(RESIDENT_SHARE) or self._consumers.is_hungry()
        return not self._is_resident_window_full() and self._consumers.is_hungry()

    def _page_in(self) -> None:
        """Ask for the next page of the line."""
        room = self.usage.room(RESIDENT_SHARE)
        size = min(MAX_PAGE_BYTES, max(MIN_PAGE_BYTES, room))
        count = max(1, min(MAX_PAGE_MESSAGES, size // max(1, self._average_size)))
        self._paging = self._spilled.take(count)
        sequences = [number for number in self._paging if number > 0]
        if sequences:
            self._context.fetch(self, self.destination, sequences)
        else:
            self.fetched([])

    def fetched(self, messages: list[Message | None]) -> None:
        """A page arrived: it joins the line behind what is resident."""
        slots = self._paging
        self._paging = []
        index = 0
        size = 0
        for number in slots:
            if number > 0:
                message = messages[index]
                index += 1
                if message is None:
                    logger.error("message %d of %s is missing in the store; it is skipped", number, self.destination)
                    continue
                count = self._redelivery_count(number)
                size += message.size
                self.hold(message)
                reference = MessageReference(self, message, number, self._context.next_order(), count)
            else:
                spilled = self._spilled.volatile(number)
                count = spilled.redelivery_count
                reference = MessageReference(self, spilled.message, 0, self._context.next_order(), count)
            self._resident.append(reference)
        if index > 0:
            self._average_size = (self._average_size + size // index) // 2
        self.fill()

    def _redelivery_count(self, sequence: int) -> int:
        count = self._redeliveries.pop(sequence, 0) if self._redeliveries else 0
        if count == 0 and sequence <= self._uncertain_through:
            return 1
        return count

    # -- messages out --------------------------------------------------------------------------------------------------

    def settled(self, reference: MessageReference) -> None:
        """Acknowledged, expired or dead: remove it from memory and from the store."""
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.remove(self.destination, reference.sequence)
        self.forgotten(reference)

    def forgotten(self, reference: MessageReference) -> None:
        """Remove a dispatched message from memory only."""
        self.in_flight -= 1
        self.dequeued += 1
        self.release(reference.message)

    def given_back(self, references: list[MessageReference]) -> None:
        """A consumer left: its messages take their old places in the line again."""
        if not references:
            return
        self.in_flight -= len(references)
        if self.removed:
            for reference in references:
                self.release(reference.message)
            return
        self._resident.merge(references)
        for consumer in self._consumers.all:
            consumer.scanned = self._resident.first_position
        if self._expiry_position >= 0:
            self._expiry_position = self._resident.first_position

    def note_redelivery(self, reference: MessageReference) -> None:
        """The message was delivered once more without success."""
        reference.redelivery_count += 1
        if reference.sequence > 0:
            store = self._context.store
            assert store is not None
            store.note_redelivery(self.destination, reference.sequence, reference.redelivery_count)

    def _expire(self, reference: MessageReference) -> None:
        """A waiting message whose time is over."""
        self.expired += 1
        self.in_flight += 1
        self._context.dead_letter(reference, "expired")
        self.settled(reference)

    def clear(self) -> int:
        """Drop every waiting message, for a queue that is removed or purged; gives how many."""
        count = self.waiting()
        for reference in self._resident.clear():
            self.in_flight += 1
            self.settled(reference)
        paged = [number for number in self._paging if number > 0]
        volatile = [self._spilled.volatile(number) for number in self._paging if number < 0]
        sequences, behind = self._spilled.clear()
        volatile.extend(behind)
        if paged:
            self._context.forget_fetches(self)
            sequences.extend(paged)
        store = self._context.store
        if store is not None:
            for sequence in sequences:
                store.remove(self.destination, sequence)
        for reference in volatile:
            self.release(reference.message)
        self._paging = []
        return count

    # -- jobs and views ------------------------------------------------------------------------------------------------

    def start_expiry(self) -> None:
        """Look through the resident line for expired messages, a slice at a time."""
        if self._expiry_position < 0 and self._resident.count > 0:
            self._expiry_position = self._resident.first_position
            self._context.schedule(self)

    def work(self) -> bool:
        """One slice: expire what is due, then go on dispatching."""
        if self._expiry_position >= 0:
            self._expire_slice()
        self.fill()
        return self._expiry_position >= 0

    def _expire_slice(self) -> None:
        resident = self._resident
        position = max(self._expiry_position, resident.first_position)
        end = min(position + MAX_PAGE_MESSAGES, resident.end_position)
        while position < end:
            reference = resident.at(position)
            if reference is not None and reference.message.is_expired(self._context.wall_ms):
                resident.take(position)
                self._expire(reference)
            position += 1
        self._expiry_position = position if position < resident.end_position else -1

    def waiting(self) -> int:
        """How many messages wait for a consumer."""
        return self._resident.count + len(self._spilled) + len(self._paging)

    def is_searching(self) -> bool:
        """A page is being read, or a look through the line goes on in a later turn."""
        return len(self._paging) > 0 or self._context.is_scheduled(self)

    def waiting_references(self) -> list[MessageReference]:
        """The resident part of the line, for a browse."""
        return self._resident.snapshot()

    def waiting_numbers(self) -> list[int]:
        """The rest of the line as numbers, for a browse."""
        return self._paging + self._spilled.snapshot()

    def volatile(self, number: int) -> MessageReference | None:
        """The message behind a negative number of `waiting_numbers`, if it still waits."""
        return self._spilled.peek_volatile(number)
