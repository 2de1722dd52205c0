"""A browse: one pass over the messages of a queue, those that are out at consumers among them, which changes nothing.

As ActiveMQ's browser, it shows what nobody has acknowledged yet.
"""

from __future__ import annotations

from bisect import insort
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.browser_destination import BrowserDestination
from spanwire.broker.queue.page import UNSTORED, SLICE_MESSAGES, REMOVED, Page
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.model.message import Message

MAX_BROWSE_PAGE: Final = 100  # messages read back at a time for one browser
MAX_IN_FLIGHT_SHOWN: Final = 10_000  # messages out at consumers that one browser shows; their bodies stay until it has


class Shown:
    """A message that is to be shown, and how often it was delivered."""

    __slots__ = ("message", "redelivery_count")

    def __init__(self, message: Message, redelivery_count: int) -> None:
        self.message: Final[Message] = message
        self.redelivery_count: Final[int] = redelivery_count


class ListBrowse:
    """What is left to be shown of one pending_list: what is out, in order, and the scan down the pending_list.

    ``out`` runs from ``next_out``; ``returned_orders`` and ``returned_sequences`` know those that may stand in the pending_list
    again. The scan has come to ``order`` and ``sequence``, and ends at ``last_order`` and ``last_sequence``.
    """

    __slots__ = (
        "last_order",
        "last_sequence",
        "pending_list",
        "next_out",
        "order",
        "out",
        "returned_orders",
        "returned_sequences",
        "sequence",
        "scan",
    )

    def __init__(self, pending_list: PendingList, out: list[MessageReference], last_order: int) -> None:
        self.pending_list: Final[PendingList] = pending_list
        self.out: Final[list[MessageReference]] = out
        self.next_out = 0
        self.returned_orders: Final[set[int]] = {reference.order for reference in out}
        self.returned_sequences: Final[set[int]] = {reference.sequence for reference in out if reference.sequence > 0}
        self.order = 0
        self.sequence = 0
        self.last_order: Final[int] = last_order
        self.last_sequence: Final[int] = pending_list.last_sequence()
        self.scan: ListScan | None = ListScan(pending_list) if pending_list.count > 0 else None

    def passed(self, order: int, sequence: int) -> None:
        """The scan has come to this message."""
        self.order = max(self.order, order)
        self.sequence = max(self.sequence, sequence)

    def has_passed(self, order: int, sequence: int) -> bool:
        """Whether this message stands before where the scan has been: it was out and message_added back behind the scan's back,
        its old piece of the pending_list being gone. ``order`` is 0 for one that is not in memory.
        """
        return sequence <= self.sequence and order <= self.order

    def misses(self, reference: MessageReference) -> bool:
        """Whether one that was dispatched after the beginning left the pending_list before the scan message_added to it."""
        if reference.order in self.returned_orders:
            return False
        if reference.sequence > 0:
            return self.sequence < reference.sequence <= self.last_sequence
        return self.order < reference.order <= self.last_order

    def add_out(self, reference: MessageReference) -> None:
        """Show it with the others that are out."""
        insort(self.out, reference, lo=self.next_out, key=_order)
        self.returned_orders.add(reference.order)
        if reference.sequence > 0:
            self.returned_sequences.add(reference.sequence)

    def is_before(self, reference: MessageReference, order: int, sequence: int) -> bool:
        """Whether one that is out stood before one in the pending_list; ``order`` is 0 for one that is not in memory."""
        if order > 0:
            return reference.order < order
        return reference.sequence < sequence

    def close(self) -> None:
        """The scan is over."""
        if self.scan is not None:
            self.scan.close()
            self.scan = None


class Browse(BrowserDestination):
    """One browser's scan down a queue: the home of what is dispatched to it, so acknowledging it changes nothing but
    the memory that counts for it.

    It shows what stood in the pending_list or was out at the moment of the call, each message once and as far as possible in
    the order of the pending_list, and leaves out what is gone before the scan comes to it. One that is dispatched meanwhile is
    shown as well, unless it comes back before the browser's next turn.
    """

    def __init__(self, queue: Queue, subscription: Subscription, context: BrokerContext) -> None:
        super().__init__(queue.destination, queue.policy, queue.usage)
        self._queue: Final[Queue] = queue
        self._context: Final[BrokerContext] = context
        self._subscription: Final[Subscription] = subscription
        self._dispatched: Final[dict[Subscription, int]] = {}  # by each consumer, at the last look
        self._looked_at = queue.dispatched
        self._pending_lists: Final[list[ListBrowse]] = self._begin()
        self._ready: list[Shown] = []
        self._next_ready = 0
        self._read_page: list[Shown | None] = []  # None: being read
        self._sequences: list[int] = []
        self._request = 0
        self._ended = False
        self._gone = False
        queue.visitors += 1
        queue.visits += 1
        subscription.homes[self] = None

    def _begin(self) -> list[ListBrowse]:
        """Hold what is out, so that its bodies count as memory as long as they are kept for the browser."""
        found = self._queue.out(MAX_IN_FLIGHT_SHOWN)
        found.sort(key=_order)
        for reference in found:
            self.hold(reference.message)
        for subscription in self._queue.subscriptions():
            self._dispatched[subscription] = subscription.dispatched_total
        last_order = self._context.next_order()
        pending_lists = self._queue.pending_lists()
        if len(pending_lists) == 1:
            return [ListBrowse(pending_lists[0], found, last_order)]
        return [
            ListBrowse(
                pending_list,
                [reference for reference in found if self._queue.list_of(reference) is pending_list],
                last_order,
            )
            for pending_list in pending_lists
        ]

    def _look_again(self) -> None:
        """What has been dispatched since the last look, before the scan message_added to it, is out now."""
        self._looked_at = self._queue.dispatched
        for subscription in self._queue.subscriptions():
            total = subscription.dispatched_total
            new = total - self._dispatched.get(subscription, 0)
            if new == 0:
                continue
            self._dispatched[subscription] = total
            for reference in subscription.out_of_last(new):
                if reference.home is self._queue:
                    self._note_dispatched(reference)

    def _note_dispatched(self, reference: MessageReference) -> None:
        for pending_list in self._pending_lists:
            if pending_list.pending_list is self._queue.list_of(reference):
                if (
                    pending_list.misses(reference)
                    and len(pending_list.out) - pending_list.next_out < MAX_IN_FLIGHT_SHOWN
                ):
                    self.hold(reference.message)
                    pending_list.add_out(reference)
                return

    def fill(self) -> None:
        """Show as much as the browser's window takes, a slice at a time; at the end say so once."""
        subscription = self._subscription
        if self._ended or self._request > 0 or subscription.removed or not subscription.started:
            return
        if self._queue.dispatched != self._looked_at:
            self._look_again()
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
            if self._go_on(self._pending_lists[0]):
                return
        if not self._pending_lists and self._next_ready >= len(self._ready) and subscription.outlet.writable:
            self._ended = True
            subscription.consumer.dispatch_end()
            subscription.outlet.mark_dirty()

    def _go_on(self, pending_list: ListBrowse) -> bool:
        """Take the next messages of ``pending_list`` to be shown; True when the store must be asked for them first."""
        scan = pending_list.scan
        page = None if scan is None else scan.page()
        if scan is not None and page is not None:
            return self._gather(pending_list, scan, page)
        pending_list.close()
        if pending_list.next_out < len(pending_list.out):
            ready: list[Shown] = []
            self._take_out(pending_list, ready, min(len(pending_list.out), pending_list.next_out + MAX_BROWSE_PAGE))
            self._is_ready(ready)
        else:
            self._pending_lists.pop(0)
        return False

    def _show(self, shown: Shown) -> None:
        if not shown.message.is_expired(self._context.wall_ms):
            reference = MessageReference(self, shown.message, 0, self._context.next_order(), shown.redelivery_count)
            if self._subscription.accepts(reference):
                self.hold(shown.message)
                self._subscription.dispatch(reference)

    def _take_out(self, pending_list: ListBrowse, ready: list[Shown], end: int) -> None:
        """Those that are out, up to the index ``end``. One that nobody but this browser holds was acknowledged."""
        for reference in pending_list.out[pending_list.next_out : end]:
            if reference.message.holders > 1:
                ready.append(Shown(reference.message, reference.redelivery_count))
                self.hold(reference.message)  # until it is shown
            self.release(reference.message)
        pending_list.next_out = end

    def _take_out_before(self, pending_list: ListBrowse, ready: list[Shown], order: int, sequence: int) -> bool:
        """Those that are out before one in the pending_list; False when there are more than a page takes."""
        end = pending_list.next_out
        most = min(len(pending_list.out), end + MAX_BROWSE_PAGE - len(ready))
        while end < most and pending_list.is_before(pending_list.out[end], order, sequence):
            end += 1
        if end > pending_list.next_out:
            self._take_out(pending_list, ready, end)
        return end == len(pending_list.out) or not pending_list.is_before(pending_list.out[end], order, sequence)

    def _is_next(self, pending_list: ListBrowse, order: int, sequence: int) -> bool:
        """Whether one that stands in the pending_list is to be shown. One that was out and has come back is shown in one place
        of both.
        """
        if pending_list.has_passed(order, sequence):
            return False
        pending_list.passed(order, sequence)
        if order not in pending_list.returned_orders and sequence not in pending_list.returned_sequences:
            return True
        if pending_list.next_out < len(pending_list.out):
            reference = pending_list.out[pending_list.next_out]
            if reference.order == order or (order == 0 and reference.sequence == sequence):
                self.release(reference.message)
                pending_list.next_out += 1
                return True
        return False

    def _is_ready(self, ready: list[Shown]) -> None:
        """All of them are held."""
        self._ready = ready
        self._next_ready = 0

    def _gather(self, pending_list: ListBrowse, scan: ListScan, page: Page) -> bool:
        """The next messages of ``page``, and those that are out before them; True when the store is asked."""
        start = scan.position.offset
        paged_out = page.paged_out
        end = scan.end(page, MAX_BROWSE_PAGE)
        if paged_out is not None:
            return self._gather_paged_out(pending_list, scan, page, self._queue.page_end(paged_out, start, end))
        ready: list[Shown] = []
        for index in range(start, end):
            item = page.items[index]
            if item is None:
                continue
            if not self._take_out_before(pending_list, ready, item.order, item.sequence):
                end = index
                break
            if self._is_next(pending_list, item.order, item.sequence):
                self._add(ready, item.message, item.redelivery_count)
        scan.position.offset = end
        self._is_ready(ready)
        return False

    def _gather_paged_out(self, pending_list: ListBrowse, scan: ListScan, page: Page, end: int) -> bool:
        paged_out = page.paged_out
        assert paged_out is not None
        ready: list[Shown] = []
        sequences: list[int] = []
        read_page: list[Shown | None] = []
        for index in range(scan.position.offset, end):
            number = paged_out.numbers[index]
            kept = paged_out.kept[index] if number == UNSTORED else None
            if number == REMOVED:
                continue
            order = 0 if kept is None else kept.order
            sequence = number if kept is None else kept.sequence
            if not self._take_out_before(pending_list, ready, order, sequence):
                end = index
                break
            if not self._is_next(pending_list, order, sequence):
                continue
            if kept is not None:
                self._add(ready, kept.message, kept.redelivery_count)
            else:
                read_page.extend(ready)
                ready = []
                read_page.append(None)
                sequences.append(number)
        scan.position.offset = end
        read_page.extend(ready)
        if not sequences:
            self._is_ready([shown for shown in read_page if shown is not None])
            return False
        self._is_ready([])
        self._read_page = read_page
        self._sequences = sequences
        self._request = self._context.fetch(self, self.destination, sequences)
        return True

    def _add(self, ready: list[Shown], message: Message, redelivery_count: int) -> None:
        self.hold(message)
        ready.append(Shown(message, redelivery_count))

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """A page of messages that only the store has."""
        if request != self._request:
            return
        self._request = 0
        if self._ended:
            return
        self._queue.note_page(messages)
        index = 0
        ready: list[Shown] = []
        for kept in self._read_page:
            if kept is not None:
                ready.append(kept)
                continue
            message = messages[index]
            if message is not None:
                self._add(ready, message, self._queue.redeliveries_of(self._sequences[index]))
            index += 1
        self._read_page = []
        self._is_ready(ready)
        self._context.schedule(self)

    def abandon(self) -> None:
        """The browser is gone."""
        self._ended = True
        if self._gone:
            return
        self._gone = True
        self._queue.visitors -= 1
        for pending_list in self._pending_lists:
            pending_list.close()
            for reference in pending_list.out[pending_list.next_out :]:
                self.release(reference.message)
        self._pending_lists.clear()
        for shown in self._ready[self._next_ready :]:
            self.release(shown.message)
        for kept in self._read_page:
            if kept is not None:
                self.release(kept.message)
        self._read_page = []
        self._is_ready([])

    def is_searching(self) -> bool:
        """The end of the pending_list has not been reached."""
        return not self._ended


def _order(reference: MessageReference) -> int:
    return reference.order
