"""A queue browser shows the messages of a queue once and changes nothing, as in ActiveMQ.

A browser shows pending messages as well as messages in flight.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job, StoreReader
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.page import GONE, NOT_STORED, REMOVED, SLICE_MESSAGES, Page
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.model.ledger import ACKNOWLEDGED
from spanwire.model.message import Message

MAX_BROWSE_PAGE: Final = 100  # messages of one read for one browser
MAX_IN_FLIGHT_SHOWN: Final = 10_000  # messages in flight for one browser: bodies stay in memory until shown


class Shown:
    """A message for the browser, with its redelivery count."""

    __slots__ = ("message", "redelivery_count")

    def __init__(self, message: Message, redelivery_count: int) -> None:
        self.message: Final[Message] = message
        self.redelivery_count: Final[int] = redelivery_count


class ListBrowse:
    """The part of one browse that concerns one pending list.

    Messages in flight at the beginning stand in ``in_flight``, in order, from ``next_in_flight`` on. Such messages may
    return to the pending list during the browse; ``shown_orders`` and ``shown_sequences`` then identify them. The scan
    has reached ``order`` and ``sequence`` and ends at ``last_order`` and ``last_sequence``.
    """

    __slots__ = (
        "in_flight",
        "last_order",
        "last_sequence",
        "next_in_flight",
        "order",
        "pending_list",
        "scan",
        "sequence",
        "shown_orders",
        "shown_sequences",
    )

    def __init__(self, pending_list: PendingList, in_flight: list[MessageReference], last_order: int) -> None:
        self.pending_list: Final[PendingList] = pending_list
        self.in_flight: Final[list[MessageReference]] = in_flight
        self.next_in_flight = 0
        self.shown_orders: Final[set[int]] = {reference.order for reference in in_flight}
        self.shown_sequences: Final[set[int]] = {
            reference.sequence for reference in in_flight if reference.sequence > 0
        }
        self.order = 0
        self.sequence = 0
        self.last_order: Final[int] = last_order
        self.last_sequence: Final[int] = pending_list.last_sequence()
        self.scan: ListScan | None = ListScan(pending_list) if pending_list.count > 0 else None

    def note_passed(self, order: int, sequence: int) -> None:
        """Note that the scan has reached a message."""
        self.order = max(self.order, order)
        self.sequence = max(self.sequence, sequence)

    def has_passed(self, order: int, sequence: int) -> bool:
        """Return True if a message returned to the list behind the scan, because its old page was gone.

        Args:
            order: dispatch order of the message, 0 if the message is paged out.
            sequence: sequence of the message in the store, 0 if the message is not stored.
        """
        return sequence <= self.sequence and order <= self.order

    def misses(self, reference: MessageReference) -> bool:
        """Return True if a message left the list during the browse, before the scan reached the message."""
        if reference.order in self.shown_orders:
            return False
        if reference.sequence > 0:
            return self.sequence < reference.sequence <= self.last_sequence
        return self.order < reference.order <= self.last_order

    def add_in_flight(self, reference: MessageReference) -> None:
        """Show a message with the others in flight."""
        insort(self.in_flight, reference, lo=self.next_in_flight, key=_order)
        self.shown_orders.add(reference.order)
        if reference.sequence > 0:
            self.shown_sequences.add(reference.sequence)

    def is_before(self, reference: MessageReference, order: int, sequence: int) -> bool:
        """Return True if a message in flight precedes a pending one; ``order`` is 0 for a paged-out message."""
        if order > 0:
            return reference.order < order
        return reference.sequence < sequence

    def close(self) -> None:
        """End the scan."""
        if self.scan is not None:
            self.scan.close()
            self.scan = None


class BrowserDestination(MessageHolder, Job, StoreReader):
    """Holds the messages that one reader gets without consuming them.

    An acknowledgement releases memory only. Subclasses show messages in `fill`.
    """

    def settle(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Release an acknowledged message."""
        self.release(reference.message)

    def forget(self, reference: MessageReference, way: int = ACKNOWLEDGED) -> None:
        """Release a message acknowledged in a transaction."""
        self.release(reference.message)

    def take_back(self, references: list[MessageReference]) -> None:
        """Release messages without an acknowledgement of the reader."""
        for reference in references:
            self.release(reference.message)

    def abandon(self) -> None:
        """Release all messages: the reader is gone."""

    def work(self) -> bool:
        """Show the next messages."""
        self.fill()
        return False


class Browse(BrowserDestination):
    """One pass of one browser over a queue.

    The browser gets each message that was pending or in flight at the beginning once and, as far as possible, in queue
    order. Messages removed before the scan reaches them are left out. A message dispatched during the browse is shown
    unless the message returns before the browser's next turn.
    """

    def __init__(self, queue: Queue, subscription: Subscription, context: BrokerContext) -> None:
        super().__init__(queue.name, queue.policy, queue.usage)
        self._queue: Final[Queue] = queue
        self._context: Final[BrokerContext] = context
        self._subscription: Final[Subscription] = subscription
        self._dispatched: Final[dict[Subscription, int]] = {}  # messages dispatched to each consumer so far
        self._dispatched_before = queue.dispatched
        self._resets_before = queue.resets
        self._pending_lists: Final[list[ListBrowse]] = self._begin()
        self._ready: list[Shown] = []
        self._next_ready = 0
        self._read_page: list[Shown | None] = []  # None stands for a message being read
        self._sequences: list[int] = []
        self._request = 0
        self._is_complete = False
        self._is_removed = False
        queue.visitors += 1
        queue.visits += 1
        subscription.destinations[self] = None

    def _begin(self) -> list[ListBrowse]:
        """Retain the messages in flight, so that their bodies count as memory while the browser needs them."""
        references = self._queue.out(MAX_IN_FLIGHT_SHOWN)
        references.sort(key=_order)
        for reference in references:
            self.hold(reference.message)
        for subscription in self._queue.attached():
            self._dispatched[subscription] = subscription.dispatched_total
        last_order = self._context.next_order()
        lists = self._queue.pending.lists
        if len(lists) == 1:
            return [ListBrowse(lists[0], references, last_order)]
        return [
            ListBrowse(
                pending_list,
                [
                    reference
                    for reference in references
                    if self._queue.pending.list_of(reference.message.priority) is pending_list
                ],
                last_order,
            )
            for pending_list in lists
        ]

    def _note_dispatches(self) -> None:
        """Add the messages dispatched since the last turn, before the scan reached them."""
        self._dispatched_before = self._queue.dispatched
        self._resets_before = self._queue.resets
        for subscription in self._queue.attached():
            total = subscription.dispatched_total
            new = total - self._dispatched.get(subscription, 0)
            if new == 0:
                continue
            self._dispatched[subscription] = total
            for reference in subscription.in_flight.out_of_last(new):
                if reference.destination is self._queue:
                    self._note_dispatched(reference)

    def _note_dispatched(self, reference: MessageReference) -> None:
        for browse in self._pending_lists:
            if browse.pending_list is self._queue.pending.list_of(reference.message.priority):
                if browse.misses(reference) and len(browse.in_flight) - browse.next_in_flight < MAX_IN_FLIGHT_SHOWN:
                    self.hold(reference.message)
                    browse.add_in_flight(reference)
                return

    def fill(self) -> None:
        """Show as many messages as the browser's window takes, in slices.

        At the end one end-of-browse mark is sent.
        """
        subscription = self._subscription
        if self._is_complete or self._request > 0 or subscription.removed or not subscription.started:
            return
        if self._queue.defers(self):
            return
        if self._queue.dispatched != self._dispatched_before or self._queue.resets != self._resets_before:
            self._note_dispatches()
        budget = SLICE_MESSAGES
        while subscription.can_take():
            if budget <= 0:
                self._context.schedule(self)
                return
            if self._next_ready < len(self._ready):
                shown = self._ready[self._next_ready]
                self._next_ready += 1
                self._show(shown)
                self.release(shown.message)
                budget -= 1
                continue
            if not self._pending_lists:
                break
            if self._read_on(self._pending_lists[0]):
                return
        if not self._pending_lists and self._next_ready >= len(self._ready) and subscription.output.writable:
            self._is_complete = True
            subscription.consumer.dispatch_end()
            subscription.output.mark_dirty()

    def _read_on(self, browse: ListBrowse) -> bool:
        """Prepare the next messages of one list. Return True if the store must be asked first."""
        scan = browse.scan
        page = None if scan is None else scan.page()
        if scan is not None and page is not None:
            return self._gather(browse, scan, page)
        browse.close()
        if browse.next_in_flight < len(browse.in_flight):
            ready: list[Shown] = []
            self._show_in_flight(browse, ready, min(len(browse.in_flight), browse.next_in_flight + MAX_BROWSE_PAGE))
            self._make_ready(ready)
        else:
            self._pending_lists.pop(0)
        return False

    def _show(self, shown: Shown) -> None:
        if not shown.message.is_expired(self._context.wall_ms):
            reference = MessageReference(self, shown.message, 0, self._context.next_order(), shown.redelivery_count)
            if self._subscription.accepts(reference):
                self.hold(shown.message)
                self._subscription.dispatch(reference)

    def _show_in_flight(self, browse: ListBrowse, ready: list[Shown], end: int) -> None:
        """Prepare messages in flight up to index ``end``, without messages acknowledged meanwhile."""
        for reference in browse.in_flight[browse.next_in_flight : end]:
            if reference.message.holders > 1:
                ready.append(Shown(reference.message, reference.redelivery_count))
                self.hold(reference.message)  # `fill` releases the message after `_show`
            self.release(reference.message)
        browse.next_in_flight = end

    def _show_in_flight_before(self, browse: ListBrowse, ready: list[Shown], order: int, sequence: int) -> bool:
        """Prepare the messages in flight that precede a pending message.

        Returns:
            False if more messages precede it than one page takes.
        """
        end = browse.next_in_flight
        most = min(len(browse.in_flight), end + MAX_BROWSE_PAGE - len(ready))
        while end < most and browse.is_before(browse.in_flight[end], order, sequence):
            end += 1
        if end > browse.next_in_flight:
            self._show_in_flight(browse, ready, end)
        return end == len(browse.in_flight) or not browse.is_before(browse.in_flight[end], order, sequence)

    def _is_next(self, browse: ListBrowse, order: int, sequence: int) -> bool:
        """Return True if a pending message is to be shown: a message shown in flight does not appear again."""
        if browse.has_passed(order, sequence):
            return False
        browse.note_passed(order, sequence)
        if order not in browse.shown_orders and sequence not in browse.shown_sequences:
            return True
        if browse.next_in_flight < len(browse.in_flight):
            reference = browse.in_flight[browse.next_in_flight]
            if reference.order == order or (order == 0 and reference.sequence == sequence):
                self.release(reference.message)
                browse.next_in_flight += 1
                return True
        return False

    def _make_ready(self, ready: list[Shown]) -> None:
        """Show ``ready`` next. The caller has retained the messages."""
        self._ready = ready
        self._next_ready = 0

    def _gather(self, browse: ListBrowse, scan: ListScan, page: Page) -> bool:
        """Prepare the next messages of a page, and messages in flight before them.

        Returns:
            True if the store must be asked first.
        """
        start = scan.position.offset
        paged_out = page.paged_out
        end = scan.end(page, MAX_BROWSE_PAGE)
        if paged_out is not None:
            return self._gather_paged_out(browse, scan, page, self._queue.pending.extent(paged_out, start, end).end)
        ready: list[Shown] = []
        for index in range(start, end):
            item = page.items[index]
            if item is None:
                continue
            if not self._show_in_flight_before(browse, ready, item.order, item.sequence):
                end = index
                break
            if self._is_next(browse, item.order, item.sequence):
                self._add(ready, item.message, item.redelivery_count)
        scan.position.offset = end
        self._make_ready(ready)
        return False

    def _gather_paged_out(self, browse: ListBrowse, scan: ListScan, page: Page, end: int) -> bool:
        paged_out = page.paged_out
        assert paged_out is not None
        ready: list[Shown] = []
        sequences: list[int] = []
        read_page: list[Shown | None] = []
        for index in range(scan.position.offset, end):
            number = paged_out.numbers[index]
            reference = paged_out.in_memory[index] if number == NOT_STORED else None
            if number == REMOVED or number == GONE:
                continue
            order = 0 if reference is None else reference.order
            sequence = number if reference is None else reference.sequence
            if not self._show_in_flight_before(browse, ready, order, sequence):
                end = index
                break
            if not self._is_next(browse, order, sequence):
                continue
            if reference is not None:
                self._add(ready, reference.message, reference.redelivery_count)
            else:
                read_page.extend(ready)
                ready = []
                read_page.append(None)
                sequences.append(number)
        scan.position.offset = end
        read_page.extend(ready)
        if not sequences:
            self._make_ready([shown for shown in read_page if shown is not None])
            return False
        self._make_ready([])
        self._read_page = read_page
        self._sequences = sequences
        self._request = self._context.fetch(self, self.name, sequences)
        return True

    def _add(self, ready: list[Shown], message: Message, redelivery_count: int) -> None:
        self.hold(message)
        ready.append(Shown(message, redelivery_count))

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take a page of messages from the store."""
        if request != self._request:
            return
        self._request = 0
        if self._is_complete:
            return
        self._queue.pending.note_read(messages)
        index = 0
        ready: list[Shown] = []
        for kept in self._read_page:
            if kept is not None:
                ready.append(kept)
                continue
            message = messages[index]
            if message is not None:
                self._add(ready, message, self._queue.pending.redelivery_count(self._sequences[index]))
            index += 1
        self._read_page = []
        self._make_ready(ready)
        self._context.schedule(self)

    def abandon(self) -> None:
        """Release all messages: the browser is gone."""
        self._is_complete = True
        if self._is_removed:
            return
        self._is_removed = True
        self._queue.visitors -= 1
        for browse in self._pending_lists:
            browse.close()
            for reference in browse.in_flight[browse.next_in_flight :]:
                self.release(reference.message)
        self._pending_lists.clear()
        for shown in self._ready[self._next_ready :]:
            self.release(shown.message)
        for kept in self._read_page:
            if kept is not None:
                self.release(kept.message)
        self._read_page = []
        self._make_ready([])

    def is_searching(self) -> bool:
        """Return True until the end of the queue was reached."""
        return not self._is_complete


def _order(reference: MessageReference) -> int:
    return reference.order
