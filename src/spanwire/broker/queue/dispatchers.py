"""Dispatchers: each hands the pending messages of a queue to the consumers in another way.

A queue has one dispatcher at a time. A queue without selectors, groups and priorities therefore does no work for them:

- `DirectDispatcher`: the oldest message goes to the next consumer in turn with room.
- `PriorityDispatcher`: as direct, with one pending list for each priority, the highest first.
- `SelectiveDispatch` (`spanwire.broker.queue.selection.selective_dispatch`): consumers choose by selectors and groups.
- `PausedDispatcher`: the queue is paused, is being purged, or waits for its first consumers.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import QueueConsumers
from spanwire.model.message import Message

MAX_DISPATCHED: Final = 2_000  # messages that one queue dispatches in a slice: some 2 ms of the event loop


class Dispatcher:
    """Appends messages to the pending lists of a queue and dispatches them. Base of all dispatchers."""

    def __init__(
        self, queue: QueueBase, pending: PendingMessages, consumers: QueueConsumers, context: BrokerContext
    ) -> None:
        self._queue: Final[QueueBase] = queue
        self._pending: Final[PendingMessages] = pending
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context

    def begin(self, anew: bool) -> None:
        """Take the consumers of now.

        ``anew`` means that another dispatcher was in charge, or that consumers must review all messages.
        """

    def end(self) -> None:
        """Leave the queue to another dispatcher."""

    def accept(self, message: Message, sequence: int) -> None:
        """Append ``message``, and dispatch the message if a consumer has room.

        ``sequence`` is the number in the store, 0 if not stored.
        """
        self._append(message, sequence)

    def dispatch(self) -> None:
        """Dispatch pending messages to the consumers with room, and read on."""

    def note_paged_in(self) -> None:
        """Note that messages became available otherwise than by `accept`.

        Such messages are read from the store, or stored unread.
        """

    def _append(self, message: Message, sequence: int) -> None:
        pending = self._pending
        pending_list = pending.list_of(message.priority)
        if self._must_spill(pending_list, sequence):
            pending.spill(pending_list, message, sequence)
            return
        queue = self._queue
        queue.hold(message)
        order = self._context.next_order()
        pending_list.append(MessageReference(queue, message, sequence, order, message.redelivery_count))

    def _must_spill(self, pending_list: PendingList, sequence: int) -> bool:
        """Return True if a new message may not stay in memory.

        Either older messages are paged out, or memory is full.
        """
        return pending_list.loaded != pending_list.count or (sequence > 0 and self._pending.is_full())


class PausedDispatcher(Dispatcher):
    """Appends messages and dispatches none."""


class DirectDispatcher(Dispatcher):
    """Dispatches from the front of one pending list."""

    def __init__(
        self, queue: QueueBase, pending: PendingMessages, consumers: QueueConsumers, context: BrokerContext
    ) -> None:
        super().__init__(queue, pending, consumers, context)
        self._pending_list: Final[PendingList] = pending.lists[0]

    def accept(self, message: Message, sequence: int) -> None:
        """Dispatch ``message`` at once if no message is pending and a consumer has room.

        Otherwise ``message`` is appended.
        """
        pending_list = self._pending_list
        if pending_list.loaded != pending_list.count or (sequence > 0 and self._pending.is_full()):
            self._pending.spill(pending_list, message, sequence)
            self._read_ahead()
            return
        queue = self._queue
        context = self._context
        context.order += 1
        reference = MessageReference(queue, message, sequence, context.order, message.redelivery_count)
        queue.hold(message)
        if pending_list.count == 0:
            subscription = self._consumers.next_taker()
            if subscription is not None:
                queue.dispatched += 1
                queue.in_flight += 1
                reference.dispatched_at = context.monotonic
                subscription.dispatch(reference)
                return
        pending_list.append(reference)

    def dispatch(self) -> None:
        """Dispatch the oldest messages, page after page; stop where a message belongs to a group."""
        pending_list = self._pending_list
        more = pending_list.count > 0
        while more and not self._pending.grouped:
            if pending_list.loaded > 0:
                self._dispatch_oldest(pending_list)
            more = pending_list.loaded != pending_list.count and self._read_ahead()

    def _read_ahead(self) -> bool:
        """Ask the store for the next page. Return True if messages came without a read."""
        pending = self._pending
        if not self._consumers.all or pending.loaded() == pending.waiting():
            return False
        return pending.read_ahead(self._consumers.is_hungry())

    def _dispatch_oldest(self, pending_list: PendingList) -> bool:
        """Dispatch from the front of ``pending_list``.

        Returns:
            False if no consumer takes more, or if the slice is over and a later one goes on.
        """
        queue = self._queue
        expired = 0
        for _ in range(MAX_DISPATCHED):
            reference = pending_list.peek()
            if reference is None:
                return True
            if reference.message.is_expired(self._context.wall_ms):
                if expired == SLICE_MESSAGES:
                    self._context.schedule(queue)
                    return False
                expired += 1
                pending_list.pop()
                queue.expire(reference)
                continue
            subscription = self._consumers.next_taker()
            if subscription is None:
                return False
            pending_list.pop()
            queue.note_dispatched()
            reference.dispatched_at = self._context.monotonic
            subscription.dispatch(reference)
        self._context.schedule(queue)
        return False


class PriorityDispatcher(DirectDispatcher):
    """Dispatches from one pending list for each priority, the highest first."""

    def accept(self, message: Message, sequence: int) -> None:
        """Append ``message`` to the list of its priority and dispatch."""
        self._append(message, sequence)
        if self._consumers.all:
            self.dispatch()
            if self._pending.grouped:
                self._context.schedule(self._queue)  # the queue goes on with groups

    def dispatch(self) -> None:
        """Dispatch by priority, page after page; stop where a message belongs to a group."""
        more = True
        while more and not self._pending.grouped:
            self._dispatch_lists()
            more = self._read_ahead()

    def _dispatch_lists(self) -> None:
        for pending_list in self._pending.lists:
            if pending_list.count > 0 and (not self._dispatch_oldest(pending_list) or pending_list.count > 0):
                return  # no consumer takes more, or the next message must be read first
