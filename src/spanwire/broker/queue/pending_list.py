"""The pending list of a queue: the messages without a consumer so far, oldest first.

A list is a sequence of pages (`Page`). Pages at a scan position and the last page are in memory; of other pages memory
has only the sequence of each message. A `ScanPosition` counts pages from the creation of the list on, so that the
removal of pages at the front changes no position.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.page import (
    GONE,
    MAX_PAGE_MESSAGES,
    MAX_PAGED_OUT_MESSAGES,
    NEVER_LOADED,
    SLICE_MESSAGES,
    Page,
    PagedOut,
    ScanPosition,
    ScanPositions,
    merged_by_order,
    recovered,
)

MIN_PAGES_COMPACTED: Final = 64  # pages of a list before empty pages in the middle are dropped
MAX_PAGES_EXAMINED: Final = 64  # pages examined in one call of `page_out_scanned`
MAX_PAGES_BACK: Final = 20  # pages searched for the youngest stored message: 10,000 messages at most


class PendingList:
    """Appends messages, removes them at the front or at a scan position, and puts them back.

    The place of a returned message is by dispatch order.

    The list knows no consumers, no store and no memory accounting. ``count`` is the number of pending messages,
    ``loaded`` the number of pending messages in memory.
    """

    __slots__ = ("_base", "_compact_at", "_pages", "_positions", "count", "epoch", "loaded")

    def __init__(self) -> None:
        self._pages: list[Page] = [Page()]
        self._base = 0
        self._compact_at = MIN_PAGES_COMPACTED
        self._positions: Final[ScanPositions] = ScanPositions()
        self.count = 0
        self.loaded = 0
        self.epoch = 0

    def append(self, reference: MessageReference) -> None:
        """Append a message that stays in memory."""
        tail = self._pages[-1]
        if tail.paged_out is not None or len(tail.items) >= MAX_PAGE_MESSAGES:
            tail = Page()
            self._add(tail)
        tail.items.append(reference)
        tail.live += 1
        self.count += 1
        self.loaded += 1

    def append_paged_out(self, number: int, due_ms: int) -> None:
        """Append a message that only the store has."""
        self._paged_out_tail(number, due_ms)

    def append_transient(self, number: int, reference: MessageReference) -> None:
        """Append a message that only memory has, behind paged-out messages."""
        paged_out = self._paged_out_tail(number, reference.message.expiration_ms)
        paged_out.in_memory[len(paged_out.numbers) - 1] = reference

    def _paged_out_tail(self, number: int, due_ms: int) -> PagedOut:
        tail = self._pages[-1]
        paged_out = tail.paged_out
        if (
            paged_out is None
            or tail.reading
            or len(paged_out.numbers) >= MAX_PAGED_OUT_MESSAGES
            or len(paged_out.orders) > 0
        ):
            paged_out = PagedOut(array("q"))
            tail = Page()
            tail.paged_out = paged_out
            tail.live = 1
            self._add(tail)
        else:
            tail.live += 1
        paged_out.add(number, due_ms)
        self.count += 1
        return paged_out

    def extend(self, sequences: array[int], expiring: array[int], dues: array[int]) -> None:
        """Append recovered messages.

        Args:
            sequences: sequences of the messages, ascending.
            expiring: sequences of the messages with an expiration, ascending.
            dues: expirations of the ``expiring`` messages in wall milliseconds.
        """
        for start in range(0, len(sequences), MAX_PAGED_OUT_MESSAGES):
            page = Page()
            page.paged_out = recovered(sequences[start : start + MAX_PAGED_OUT_MESSAGES], expiring, dues)
            page.live = len(page.paged_out.numbers)
            self._add(page)
            self.count += page.live

    def _add(self, page: Page) -> None:
        self._pages.append(page)
        if len(self._pages) >= self._compact_at:
            self._compact()
        if self._pages[0].live == 0:
            self._drop_empty_head()

    def put_back(self, references: list[MessageReference]) -> None:
        """Return messages, by ascending order, to their old positions.

        Scan positions with ``revisits`` go back too.
        """
        self.epoch += 1
        self.count += len(references)
        self.loaded += len(references)
        lowest = -1
        done = 0
        index = 0
        while done < len(references):
            order = references[done].order
            while index < len(self._pages) and self._pages[index].highest() < order:
                index += 1
            inside = index < len(self._pages) and self._pages[index].lowest() < order
            if inside and self._pages[index].paged_out is not None and not self._pages[index].reading:
                index = self._split_paged_out(index, order)
                inside = False
            bound = NEVER_LOADED
            if index < len(self._pages):
                bound = self._pages[index].highest() if inside else self._pages[index].lowest()
            end = done + 1
            while end < len(references) and references[end].order < bound:
                end += 1
            if inside:
                self._merge(index, references[done:end])
            else:
                self._insert(index, references[done:end])
            lowest = index if lowest < 0 else lowest
            done = end
        self._revisit(lowest)

    def _revisit(self, lowest: int) -> None:
        """Move scan positions back to the page at index ``lowest``, the first page with returned messages."""
        self._positions.revisit(self._base + lowest)
        self._drop_empty_head()

    def put_back_paged_out(self, numbers: array[int], orders: array[int], dues: array[int]) -> None:
        """Return messages that only the store has, by ascending order; 0 in ``dues`` stands for no expiration."""
        self.epoch += 1
        self.count += len(numbers)
        lowest = -1
        done = 0
        index = 0
        while done < len(numbers):
            while index < len(self._pages) and self._pages[index].highest() < orders[done]:
                index += 1
            index = self._split_at(index, orders[done])
            bound = NEVER_LOADED if index == len(self._pages) else self._pages[index].bound()
            end = min(max(bisect_left(orders, bound, done), done + 1), done + MAX_PAGED_OUT_MESSAGES)
            paged_out = PagedOut(array("q"))
            for source in range(done, end):
                paged_out.add(numbers[source], dues[source])
            paged_out.orders = orders[done:end]
            page = Page()
            page.paged_out = paged_out
            page.live = end - done
            self._insert_page(index, page)
            lowest = index if lowest < 0 else lowest
            index += 1
            done = end
        self._revisit(lowest)

    def _split_at(self, index: int, order: int) -> int:
        """Split the page at ``index`` at ``order``. Return the index before which ``order`` belongs.

        A page being read stays whole.
        """
        if index == len(self._pages) or self._pages[index].reading or self._pages[index].lowest() >= order:
            return index
        page = self._pages[index]
        if page.paged_out is not None:
            return self._split_paged_out(index, order)
        rest = page.split_at(order)
        self._insert_rest(index, len(page.items), rest)
        return index + 1

    def _split_paged_out(self, index: int, order: int) -> int:
        """Split a paged-out page at ``order``. Return the index before which ``order`` belongs."""
        paged_out = self._pages[index].paged_out
        assert paged_out is not None
        self._cut(index, bisect_left(paged_out.orders, order))
        return index + 1

    def _merge(self, index: int, references: list[MessageReference]) -> None:
        page = self._pages[index]
        page.epoch = self.epoch
        if page.reading:
            page.returned.extend(references)
            page.live += len(references)
        else:
            self._load_merged(index, page.items, references)

    def _load_merged(
        self, index: int, items: list[MessageReference | None], references: list[MessageReference]
    ) -> None:
        """Load the page at ``index`` with ``items`` and ``references``, merged by order."""
        merged = merged_by_order(items, references)
        self._positions.follow(self._base + index, items, merged)
        self._pages[index].load(merged)

    def peek(self) -> MessageReference | None:
        """Return the oldest message, None if the list is empty or the oldest message is paged out."""
        if self.loaded == 0:
            return None
        head = self._pages[0]
        if head.paged_out is not None:
            return None
        return head.items[head.start]

    def pop(self) -> None:
        """Remove the oldest message. The message is in memory."""
        head = self._pages[0]
        items = head.items
        start = head.start
        items[start] = None
        head.live -= 1
        self.count -= 1
        self.loaded -= 1
        if head.live == 0:
            self._drop_empty_head()
            return
        start += 1
        while items[start] is None:
            start += 1
        head.start = start

    def take(self, page: Page, index: int) -> None:
        """Remove one message of a page in memory."""
        page.items[index] = None
        page.live -= 1
        self.count -= 1
        self.loaded -= 1
        if page.live == 0:
            page.items = page.items if page is self._pages[-1] else []
        if page is self._pages[0]:
            self._drop_empty_head()

    def note_removed(self, page: Page, count: int) -> None:
        """Account for ``count`` messages of a page in memory, replaced by None by the caller."""
        if count > 0:
            page.live -= count
            self.count -= count
            self.loaded -= count
            if page is self._pages[0]:
                self._drop_empty_head()

    def remove_paged_out(self, page: Page, index: int) -> int:
        """Remove one message of a paged-out page and return the message's number."""
        paged_out = page.paged_out
        assert paged_out is not None
        page.live -= 1
        self.count -= 1
        number = paged_out.take(index)
        if page.live == 0 and page is self._pages[0]:
            self._drop_empty_head()
        return number

    def remove_unread(self, page: Page, index: int) -> int:
        """Remove a stored message of a paged-out page, also while the store reads it. Return its number."""
        number = self.remove_paged_out(page, index)
        if page.reading and page.paged_out is not None:
            page.paged_out.numbers[index] = GONE
        return number

    def take_returned(self, page: Page, index: int) -> None:
        """Remove a message that has returned to a page being read."""
        del page.returned[index]
        page.live -= 1
        self.count -= 1
        self.loaded -= 1

    def _drop_empty_head(self) -> None:
        """Drop empty pages at the front, so that the oldest message is in the first page."""
        pages = self._pages
        gone = 0
        while gone < len(pages) - 1 and pages[gone].live == 0:
            gone += 1
        if gone > 0:
            del pages[:gone]
            self._base += gone
        head = pages[0]
        if head.paged_out is not None:
            if head.live == 0:
                pages[0] = Page()
                self._base += 1
            return
        if head.live == 0:
            if head.items:
                head.items = []
                head.start = 0
                self._base += 1
            return
        while head.items[head.start] is None:
            head.start += 1

    def open(self, revisits: bool) -> ScanPosition:
        """Return a new scan position at the front."""
        return self._positions.open(self._base, revisits)

    def open_end(self) -> ScanPosition:
        """Return a new position behind the youngest message."""
        position = self.open(False)
        position.page_number = self._base + len(self._pages) - 1
        position.offset = len(self._pages[-1])
        return position

    def open_beside(self, position: ScanPosition) -> ScanPosition:
        """Return a new scan position equal to another."""
        return self._positions.open_beside(position)

    def close(self, position: ScanPosition) -> None:
        """Forget a scan position."""
        self._positions.close(position)

    def page_at(self, position: ScanPosition) -> Page | None:
        """Return the page with the next message for ``position``, at its offset; None at the end."""
        pages = self._pages
        if position.page_number < self._base:
            position.page_number = self._base
            position.offset = 0
        index = position.page_number - self._base
        while True:
            page = pages[index]
            if position.offset < len(page) and not (position.offset == 0 and self._has_scanned(position, page)):
                return page
            if index == len(pages) - 1:
                position.epoch = self.epoch
                return None
            highest = page.highest()
            if position.seen < highest < NEVER_LOADED:
                position.seen = highest
            index += 1
            position.page_number += 1
            position.offset = 0

    def _has_scanned(self, position: ScanPosition, page: Page) -> bool:
        return page.live == 0 or (page.epoch <= position.epoch and page.highest() <= position.seen)

    def is_at_end(self, position: ScanPosition) -> bool:
        """Return True if no message stands behind ``position``."""
        index = position.page_number - self._base
        return self.count == 0 or (index == len(self._pages) - 1 and position.offset >= len(self._pages[index]))

    def is_in_tail(self, position: ScanPosition) -> bool:
        """Return True if ``position`` is in the last page, at its edge, or a few messages before the end."""
        last = len(self._pages) - 1
        index = position.page_number - self._base
        if last == 0 or index >= last or self.count <= SLICE_MESSAGES:
            return True
        return index == last - 1 and position.offset >= len(self._pages[index])

    def start_over(self, position: ScanPosition) -> None:
        """Set ``position`` to the front."""
        position.page_number = self._base
        position.offset = 0
        position.seen = -1

    def is_blocked(self) -> bool:
        """Return True if the oldest message is paged out and not being read."""
        head = self._pages[0]
        return self.count > 0 and head.paged_out is not None and not head.reading

    def first_paged_out(self, limit: int) -> Page | None:
        """Return the first paged-out page among the first ``limit`` pages, without pages being read."""
        for index in range(min(limit, len(self._pages))):
            page = self._pages[index]
            if page.paged_out is not None and not page.reading:
                return page
        return None

    def next_paged_out(self, position: ScanPosition, limit: int) -> Page | None:
        """Return the first paged-out page not yet scanned, among the ``limit`` pages from ``position`` on."""
        first = max(position.page_number - self._base, 0)
        for index in range(first, min(first + limit, len(self._pages))):
            page = self._pages[index]
            if page.paged_out is not None and not page.reading and not self._has_scanned(position, page):
                return page
        return None

    def cut(self, page: Page, count: int) -> None:
        """Shorten a paged-out page to ``count`` messages; the rest becomes a page behind the first."""
        if len(page) > count:
            self._cut(self._pages.index(page), count)

    def _cut(self, index: int, count: int) -> None:
        self._insert_rest(index, count, self._pages[index].split_paged_out(count))

    def _insert_rest(self, index: int, count: int, rest: Page) -> None:
        """Insert ``rest`` behind the page at ``index``, after a cut of the page to ``count`` messages."""
        self._positions.page_cut(self._base + index, count)
        self._pages.insert(index + 1, rest)

    def _insert(self, index: int, references: list[MessageReference]) -> None:
        page = Page()
        page.load(list(references))
        self._insert_page(index, page)

    def _insert_page(self, index: int, page: Page) -> None:
        page.epoch = self.epoch
        self._positions.page_inserted(self._base + index)
        self._pages.insert(index, page)

    def load(self, page: Page, items: list[MessageReference | None]) -> None:
        """Take the messages of a paged-out page from the store."""
        before = page.live
        returned = page.returned
        if returned:
            page.returned = []
            self._load_merged(self._pages.index(page), items, returned)
        else:
            page.load(items)
        self.loaded += page.live - len(returned)
        self.count += page.live - before
        self._drop_empty_head()

    def page_out_scanned(self, at_most: int) -> list[MessageReference]:
        """Page out up to ``at_most`` scanned pages without a scan position.

        Pages behind the last scan are paged out first.

        Returns:
            The references that left memory.
        """
        dropped: list[MessageReference] = []
        before = -1
        examinable = MAX_PAGES_EXAMINED
        for page_number in self._positions.page_numbers():
            end = page_number - self._base
            index = min(end, len(self._pages) - 1) - 1
            while index > before and examinable > 0 and at_most > 0:
                page = self._pages[index]
                if page.paged_out is None and page.live > 0:
                    dropped.extend(page.page_out())
                    self.loaded -= page.live
                    at_most -= 1
                examinable -= 1
                index -= 1
            before = max(before, end)
        return dropped

    def _compact(self) -> None:
        """Drop empty pages in the middle."""
        pages: list[Page] = []
        new_indexes: list[int] = []  # new index of each page, by old index
        for page in self._pages:
            new_indexes.append(len(pages))
            if page.live > 0 or page is self._pages[-1]:
                pages.append(page)
        self._positions.pages_dropped(self._base, self._pages, new_indexes)
        self._pages = pages
        self._compact_at = max(MIN_PAGES_COMPACTED, 2 * len(pages))

    def snapshot(self, limit: int) -> list[Page]:
        """Return the first pages with ``limit`` messages together, or all pages."""
        pages: list[Page] = []
        messages = 0
        for page in self._pages:
            if messages >= limit:
                break
            pages.append(page)
            messages += page.live
        return pages

    def last_sequence(self) -> int:
        """Return the sequence of the youngest stored message, 0 if the last `MAX_PAGES_BACK` pages have none."""
        for page in reversed(self._pages[-MAX_PAGES_BACK:]):
            sequence = page.last_sequence()
            if sequence > 0:
                return sequence
        return 0

    def clear(self) -> list[Page]:
        """Remove and return all pages."""
        pages = [page for page in self._pages if page.live > 0]
        self._base += len(self._pages)
        self._pages = [Page()]
        self.count = 0
        self.loaded = 0
        return pages
