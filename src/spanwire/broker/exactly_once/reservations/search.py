"""A search: reserves the messages of a queue that match the selector of a cursor.

A search looks at each message once, in slices, and keeps its place between two requests. Messages that return to the
queue are looked at again. What does not match stays in the queue for others, and what is on the disk stays there.
"""

from __future__ import annotations

from abc import abstractmethod
from array import array
from typing import Final

from mypy_extensions import trait

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.exactly_once.reservations.reservation import Reservation
from spanwire.broker.queue.page import NOT_STORED, REMOVED, SLICE_MESSAGES, Page, PagedOut, ScanPosition
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue import Queue
from spanwire.model.message import Message
from spanwire.selector.expression import Selector

SEARCH_SECONDS: Final = 1.0  # seconds until a request is answered with what was found; the next one goes on
READ_MESSAGES: Final = 100  # messages of one read, some slices
READ_POLL_SECONDS: Final = 0.02  # seconds between two looks at a page that the queue is reading
MAX_PAGES_COUNTED: Final = 1_000  # pages counted to tell how many messages were not looked at


@trait
class SearchFollower:
    """Takes what a search has reserved."""

    @abstractmethod
    def on_searched(self, name: str, first: int, has_room: bool) -> None:
        """Take the end of the search for the cursor ``name``.

        Args:
            first: number of the first message that was found.
            has_room: False if the store had no room for a message that is not stored.
        """


class Search(Job, StoreReader, Alarm):
    """The search of the cursor ``name`` in ``queue``, for one request at a time."""

    def __init__(
        self,
        name: str,
        queue: Queue,
        selector: Selector,
        values: MessageEvaluationContext,
        context: BrokerContext,
        follower: SearchFollower,
    ) -> None:
        self._name: Final[str] = name
        self._queue: Final[Queue] = queue
        self._selector: Final[Selector] = selector
        self._values: Final[MessageEvaluationContext] = values
        self._context: Final[BrokerContext] = context
        self._follower: Final[SearchFollower] = follower
        self._positions: Final[list[ScanPosition]] = [each.open(True) for each in queue.pending.lists]
        self._reservation: Reservation | None = None  # of the request that waits for the search
        self._first = 0
        self._ends_at = 0.0
        self._has_looked = False  # at a message, for this request
        self._marks: list[ScanPosition] = []  # the ends of the lists when the search began
        self._list_index = 0
        self._page_read: Page | None = None
        self._paged_out: PagedOut | None = None
        self._indexes: list[int] = []  # indexes into the page being read
        self._expected: list[int] = []  # the numbers at these indexes
        self._messages: list[Message | None] = []  # at these indexes: read, None if gone or outside of the store
        self._next = 0  # the first of them that was not looked at
        self._request = 0  # the read that is under way
        self._resume_at = -1  # index into the page of what was not looked at
        self._read_end = 0
        self.left = 0  # messages that the last search did not look at, of those that waited when it began
        self.looks = 0  # messages looked at so far

    @property
    def is_under_way(self) -> bool:
        """True while a request waits for the search."""
        return self._reservation is not None

    def begin(self, reservation: Reservation, at_most: int, at_most_bytes: int) -> None:
        """Search on in later turns, until ``reservation`` has enough, all was looked at, or `SEARCH_SECONDS` are over.

        However late the first message comes, it is looked at: else each request would begin its read anew.

        Args:
            at_most: messages reserved in all.
            at_most_bytes: approximate bytes reserved in all, 0 for any number.
        """
        reservation.begin(at_most, at_most_bytes)
        self._reservation = reservation
        self._first = reservation.reserved.end
        self._ends_at = self._context.monotonic + SEARCH_SECONDS
        self._has_looked = False
        self._marks = [each.open_end() for each in self._queue.pending.lists]
        self._list_index = 0
        self._context.schedule(self)

    def finish(self) -> None:
        """End the search with what was found so far."""
        reservation = self._reservation
        if reservation is None:
            return
        self._reservation = None
        left = 0
        for pending_list, position, mark in zip(self._queue.pending.lists, self._positions, self._marks, strict=True):
            if pending_list.count > 0 and position.is_before(mark):
                left += _between(pending_list, position, mark)
            pending_list.close(mark)
        self.left = left
        self._marks = []
        self._drop_read()
        self._follower.on_searched(self._name, self._first, reservation.has_room)

    def close(self) -> None:
        """Forget the places in the queue: the cursor was released."""
        for pending_list, position in zip(self._queue.pending.lists, self._positions, strict=True):
            pending_list.close(position)

    def wake(self) -> None:
        """Go on after a wait for a page."""
        if self._reservation is not None:
            self._context.schedule(self)

    def work(self) -> bool:
        """Look at one slice. Return True while more can be done now."""
        budget = SLICE_MESSAGES
        while budget > 0 and self._request == 0:
            reservation = self._reservation
            if reservation is None:
                return False
            if self._is_over(reservation):
                self.finish()
                return False
            pending_list = self._queue.pending.lists[self._list_index]
            position, mark = self._positions[self._list_index], self._marks[self._list_index]
            self._order_before_leaving(pending_list, position)
            page = pending_list.page_at(position) if pending_list.count > 0 else None
            if page is None or not position.is_before(mark):
                self._list_index += 1
                continue
            if page.reading:
                self._context.wake_at(self, self._context.monotonic + READ_POLL_SECONDS)
                return False
            end = min(len(page), mark.offset) if position.page_number == mark.page_number else len(page)
            if page.paged_out is None:
                looked_at = self._in_memory(reservation, page, min(end, position.offset + budget))
            elif self._has_read(position, page):
                looked_at = self._show(reservation, page, page.paged_out, budget)
            else:
                looked_at = 0
                self._ask(page, page.paged_out, min(end, position.offset + READ_MESSAGES))
            budget -= looked_at
            self._has_looked = self._has_looked or looked_at > 0
        return self._request == 0

    def _is_over(self, reservation: Reservation) -> bool:
        return (
            self._list_index >= len(self._positions)
            or reservation.is_full()
            or self._queue.paused
            or self._queue.removed
            or (self._has_looked and self._context.monotonic >= self._ends_at)
        )

    def _matches(self, message: Message, redelivery_count: int) -> bool:
        self.looks += 1
        return self._values.matches(self._selector, message, redelivery_count)

    def _in_memory(self, reservation: Reservation, page: Page, end: int) -> int:
        """Look at the messages of a page in memory up to ``end``. Return their number."""
        position, wall_ms = self._positions[self._list_index], self._context.wall_ms
        index = start = position.offset
        taken: list[MessageReference] = []
        expired: list[MessageReference] = []
        while index < end and not reservation.is_full():
            item = page.items[index]
            if item is not None and item.message.is_expired(wall_ms):
                page.items[index] = None
                expired.append(item)
            elif item is not None and self._matches(item.message, item.redelivery_count):
                if not reservation.fits(item):
                    break
                page.items[index] = None
                reservation.reserve(reservation.stored(item), item.order, self._list_index, item.message.expiration_ms)
                taken.append(item)
            index += 1
        position.offset = index
        self._queue.pending.lists[self._list_index].note_removed(page, len(taken) + len(expired))
        self._queue.note_reserved(len(taken))
        for reference in taken:
            self._queue.release(reference.message)
        for reference in expired:
            self._queue.expire(reference)
        return index - start

    def _order_before_leaving(self, pending_list: PendingList, position: ScanPosition) -> None:
        """Give orders to the page before ``position``, if it was the last one when it was looked at."""
        if position.offset == 0 or pending_list.count == 0 or pending_list.is_at_end(position):
            return
        inside = pending_list.open_beside(position)
        inside.offset -= 1
        page = pending_list.page_at(inside)
        if page is not None and inside.offset == position.offset - 1 and not page.reading:
            self._order(pending_list, inside, page)
        pending_list.close(inside)

    def _order(self, pending_list: PendingList, position: ScanPosition, page: Page) -> None:
        """Give orders to the messages of a page that was not loaded so far, from the front to the back of the list.

        So a returning message finds its place, and nothing before that place is read again. The last page still grows:
        it would end with each order that it gets.
        """
        paged_out = page.paged_out
        if paged_out is not None and len(paged_out.orders) == 0 and not _is_last(pending_list, position, page):
            count = len(paged_out.numbers)
            first = self._context.reserve_orders(count)
            paged_out.orders = array("q", range(first, first + count))

    def _ask(self, page: Page, paged_out: PagedOut, end: int) -> None:
        """Read the next messages of a page up to ``end``. Without messages on the disk they are ready at once."""
        position, pending = self._positions[self._list_index], self._queue.pending
        self._order(pending.lists[self._list_index], position, page)
        end = pending.extent(paged_out, position.offset, end).end
        self._page_read = page
        self._paged_out = paged_out
        self._indexes = [index for index in range(position.offset, end) if paged_out.numbers[index] != REMOVED]
        self._expected = [paged_out.numbers[index] for index in self._indexes]
        self._messages = []
        self._next = 0
        self._resume_at = position.offset
        self._read_end = end
        sequences = [number for number in self._expected if number > 0]
        if sequences:
            self._request = self._context.fetch(self, self._queue.name, sequences)
            return
        self._messages = [None] * len(self._expected)
        if not self._indexes:
            position.offset = end
            self._drop_read()

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take messages from the store. A page that has changed meanwhile is read again."""
        if request != self._request:
            return
        self._request = 0
        self._queue.pending.note_read(messages)
        read = iter(messages)
        self._messages = [next(read) if number > 0 else None for number in self._expected]
        self._context.schedule(self)

    def _has_read(self, position: ScanPosition, page: Page) -> bool:
        """Return True if the next messages were read, and their page is as it was."""
        if len(self._messages) == 0:
            return False
        is_same = page is self._page_read and page.paged_out is self._paged_out and position.offset == self._resume_at
        if not is_same:
            self._drop_read()
        return is_same

    def _drop_read(self) -> None:
        if self._request != 0:
            self._request = 0
            self._context.forget_fetches(self)
        self._messages = []
        self._page_read = None
        self._paged_out = None

    def _show(self, reservation: Reservation, page: Page, paged_out: PagedOut, budget: int) -> int:
        """Look at ``budget`` of the messages that were read. Return the number of those looked at."""
        position, pending = self._positions[self._list_index], self._queue.pending
        start, taken = self._next, 0
        while self._next < len(self._indexes) and self._next < start + budget and not reservation.is_full():
            index = self._indexes[self._next]
            number = self._expected[self._next]
            if paged_out.numbers[index] == number and not self._is_late(paged_out, index):
                resident = paged_out.in_memory[index] if number == NOT_STORED else None
                if resident is not None:
                    found = self._matches(resident.message, resident.redelivery_count)
                else:
                    message = self._messages[self._next]
                    found = message is not None and self._matches(message, pending.redelivery_count(number))
                if found:
                    if resident is not None and not reservation.fits(resident):
                        break
                    self._take(reservation, page, paged_out, index)
                    taken += 1
            self._next += 1
        looked_at = self._next - start
        position.offset = self._read_end if self._next == len(self._indexes) else self._indexes[self._next]
        self._resume_at = position.offset
        if self._next == len(self._indexes):
            self._drop_read()
        self._queue.note_reserved(taken)
        return looked_at

    def _is_late(self, paged_out: PagedOut, index: int) -> bool:
        """Return True if the message has expired: it stays for the expiry scan."""
        return len(paged_out.dues) > 0 and 0 < paged_out.dues[index] <= self._context.wall_ms

    def _take(self, reservation: Reservation, page: Page, paged_out: PagedOut, index: int) -> None:
        pending_list = self._queue.pending.lists[self._list_index]
        order = paged_out.orders[index] if len(paged_out.orders) > 0 else self._context.next_order()
        due_ms = paged_out.dues[index] if len(paged_out.dues) > 0 else 0
        number = pending_list.remove_paged_out(page, index)
        if number == NOT_STORED:
            reference = paged_out.in_memory.pop(index)
            number = reservation.stored(reference)
            self._queue.release(reference.message)
        reservation.reserve(number, order, self._list_index, due_ms)


def _is_last(pending_list: PendingList, position: ScanPosition, page: Page) -> bool:
    """Return True if ``page``, that of ``position``, is the last one of the list, which may still grow."""
    ahead = pending_list.open_beside(position)
    ahead.offset = len(page)
    is_last = pending_list.is_at_end(ahead)
    pending_list.close(ahead)
    return is_last


def _between(pending_list: PendingList, position: ScanPosition, mark: ScanPosition) -> int:
    """Return the number of messages from ``position`` to ``mark``, or of all if they are in many pages."""
    ahead = pending_list.open_beside(position)
    count = pages = 0
    page = pending_list.page_at(ahead)
    while page is not None and pages < MAX_PAGES_COUNTED and ahead.is_before(mark):
        end = mark.offset if ahead.page_number == mark.page_number else len(page)
        if ahead.offset == 0 and end == len(page):
            count += page.live
        elif page.paged_out is None:
            count += sum([1 for item in page.items[ahead.offset : end] if item is not None])
        else:
            numbers = page.paged_out.numbers[ahead.offset : end]
            count += len(numbers) - numbers.count(REMOVED)
        pages += 1
        ahead.offset = len(page)
        page = pending_list.page_at(ahead)
    is_whole = page is None or pages < MAX_PAGES_COUNTED
    pending_list.close(ahead)
    return count if is_whole else pending_list.count
