"""Pages of a pending list, and the positions of its readers.

A page has some hundred consecutive messages, in memory or paged out to eight bytes each.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference

MAX_PAGE_MESSAGES: Final = 500  # messages of a page in memory, also of one read of the store
SLICE_MESSAGES: Final = 64  # messages that one slice of a task scans: half a millisecond with a selector
MAX_PAGED_OUT_MESSAGES: Final = 4_096  # messages of a paged-out page; a read takes its front
NEVER_LOADED: Final = 1 << 62  # order of a message not read since the start of the broker: behind all others
REMOVED: Final = 0  # number that replaces a removed message
NOT_STORED: Final = -1  # number of a message that the store does not have
GONE: Final = -2  # number that replaces a message removed while the store reads it


class PagedOut:
    """The messages of a page whose bodies are in the store only.

    ``numbers`` has the sequence of each message, `REMOVED`, `GONE`, or `NOT_STORED` for a message that only memory has.
    ``in_memory`` has the messages in memory by index. ``orders`` is empty unless the messages had a dispatch order
    before. ``dues`` is empty unless some messages expire. Otherwise ``dues`` has wall milliseconds, 0 for never, and
    ``earliest`` the smallest due time (0: no message expires).
    """

    __slots__ = ("dues", "earliest", "in_memory", "numbers", "orders")

    def __init__(self, numbers: array[int]) -> None:
        self.numbers: array[int] = numbers
        self.orders: array[int] = array("q")
        self.dues: array[int] = array("q")
        self.earliest = 0
        self.in_memory: dict[int, MessageReference] = {}

    def add(self, number: int, due_ms: int) -> None:
        """Append a message."""
        if due_ms > 0 and len(self.dues) == 0:
            self.dues = array("q", bytes(8 * len(self.numbers)))
        self.numbers.append(number)
        if due_ms > 0 or len(self.dues) > 0:
            self.dues.append(due_ms)
        if due_ms > 0 and (self.earliest == 0 or due_ms < self.earliest):
            self.earliest = due_ms

    def split(self, count: int) -> PagedOut:
        """Keep the first ``count`` messages and return the others."""
        rest = PagedOut(self.numbers[count:])
        self.numbers = self.numbers[:count]
        if len(self.orders) > 0:
            rest.orders = self.orders[count:]
            self.orders = self.orders[:count]
        if len(self.dues) > 0:
            rest.dues = self.dues[count:]
            self.dues = self.dues[:count]
            rest.note_earliest()
            self.note_earliest()
        if self.in_memory:
            for index, reference in self.in_memory.items():
                if index >= count:
                    rest.in_memory[index - count] = reference
            self.in_memory = {index: reference for index, reference in self.in_memory.items() if index < count}
        return rest

    def take(self, index: int) -> int:
        """Remove the message at ``index`` and return its number."""
        number = self.numbers[index]
        self.numbers[index] = REMOVED
        if len(self.dues) > 0:
            self.dues[index] = 0
        return number

    def lowest(self) -> int:
        """Return the order of the first remaining message, or of the first removed message if none remains."""
        for index, number in enumerate(self.numbers):
            if number != REMOVED and number != GONE:
                return self.orders[index]
        return self.orders[0]

    def note_earliest(self) -> None:
        """Find the smallest due time again."""
        self.earliest = min([due for due in self.dues if due > 0], default=0)

    def note_earliest_after(self, wall_ms: int) -> None:
        """Find the next due time, after all messages due up to ``wall_ms`` were removed."""
        self.earliest = min([due for due in self.dues if due > wall_ms], default=0)

    def live(self) -> int:
        """Return the number of remaining messages."""
        return len(self.numbers) - self.numbers.count(REMOVED) - self.numbers.count(GONE)


def recovered(numbers: array[int], expiring: array[int], dues: array[int]) -> PagedOut:
    """Return messages of these sequences, ascending, that the store had at the start of the broker.

    Args:
        numbers: sequences of the messages.
        expiring: sequences of messages with an expiration, ascending, of these and other messages.
        dues: expirations of the ``expiring`` messages in wall milliseconds.
    """
    paged_out = PagedOut(numbers)
    first = bisect_left(expiring, numbers[0])
    last = bisect_left(expiring, numbers[-1] + 1)
    if first < last:
        paged_out.dues = array("q", bytes(8 * len(numbers)))
        for source in range(first, last):
            index = bisect_left(numbers, expiring[source])
            if index < len(numbers) and numbers[index] == expiring[source]:
                paged_out.dues[index] = dues[source]
        paged_out.note_earliest()
    return paged_out


class Page:
    """Consecutive messages: either ``items`` in memory, None for a removed message, or ``paged_out``.

    No message remains before index ``start``; ``live`` counts the remaining messages. ``epoch`` is the epoch of the
    list at the last return of messages to the page. While ``reading`` is True the store reads the page, and
    ``returned`` collects returning messages.
    """

    __slots__ = ("epoch", "items", "live", "paged_out", "reading", "returned", "start")

    def __init__(self) -> None:
        self.items: list[MessageReference | None] = []
        self.start = 0
        self.live = 0
        self.paged_out: PagedOut | None = None
        self.reading = False
        self.returned: list[MessageReference] = []
        self.epoch = 0

    def __len__(self) -> int:
        paged_out = self.paged_out
        return len(self.items) if paged_out is None else len(paged_out.numbers)

    def last_sequence(self) -> int:
        """Return the largest sequence in the page, 0 if no message is stored."""
        paged_out = self.paged_out
        if paged_out is not None:
            return max(0, max(paged_out.numbers, default=0))
        return max([item.sequence for item in self.items if item is not None], default=0)

    def lowest(self) -> int:
        """Return the smallest order in the page, `NEVER_LOADED` without an order."""
        paged_out = self.paged_out
        if paged_out is not None:
            return paged_out.lowest() if len(paged_out.orders) > 0 else NEVER_LOADED
        for item in self.items:
            if item is not None:
                return item.order
        return NEVER_LOADED

    def bound(self) -> int:
        """Return the order below which returning, paged-out messages go before this page.

        A page being read stays whole.
        """
        return self.highest() if self.reading else self.lowest()

    def highest(self) -> int:
        """Return the largest order in the page, `NEVER_LOADED` before the first load, -1 for an empty page."""
        paged_out = self.paged_out
        if paged_out is not None:
            if self.live == 0:
                return -1
            return paged_out.orders[-1] if len(paged_out.orders) > 0 else NEVER_LOADED
        for index in range(len(self.items) - 1, -1, -1):
            item = self.items[index]
            if item is not None:
                return item.order
        return -1

    def page_out(self) -> list[MessageReference]:
        """Drop the bodies of stored messages. Return the references that left memory."""
        paged_out = PagedOut(array("q"))
        dropped: list[MessageReference] = []
        for item in self.items:
            if item is None:
                continue
            paged_out.orders.append(item.order)
            if item.sequence > 0:
                paged_out.add(item.sequence, item.message.expiration_ms)
                dropped.append(item)
            else:
                paged_out.in_memory[len(paged_out.numbers)] = item
                paged_out.add(NOT_STORED, item.message.expiration_ms)
        self.paged_out = paged_out
        self.items = []
        self.start = 0
        return dropped

    def split_paged_out(self, count: int) -> Page:
        """Keep the first ``count`` messages of a paged-out page and return a page with the others."""
        paged_out = self.paged_out
        assert paged_out is not None
        is_whole = self.live == len(paged_out.numbers)
        rest = Page()
        rest.paged_out = paged_out.split(count)
        rest.live = len(rest.paged_out.numbers) if is_whole else rest.paged_out.live()
        rest.epoch = self.epoch
        self.live -= rest.live
        return rest

    def split_at(self, order: int) -> Page:
        """Keep the messages below ``order`` of a page in memory and return a page with the others."""
        count = 0
        for offset, item in enumerate(self.items):
            if item is not None and item.order < order:
                count = offset + 1
        rest = Page()
        rest.load(self.items[count:])
        rest.epoch = self.epoch
        self.items = self.items[:count]
        self.live -= rest.live
        return rest

    def load(self, items: list[MessageReference | None]) -> None:
        """Take the messages read from the store; None stands for a missing message."""
        self.paged_out = None
        self.reading = False
        self.items = items
        self.start = 0
        self.live = sum([1 for item in items if item is not None])


class ScanPosition:
    """The position of one reader in a pending list: page number and offset.

    The list adjusts positions as pages come and go.

    A reader that ``revisits`` goes back to messages that return to the list, and skips pages scanned before. ``seen``
    is the highest order of the scanned pages, ``epoch`` the epoch of the list when the reader last reached the end.
    """

    __slots__ = ("epoch", "offset", "page_number", "revisits", "seen")

    def __init__(self, page_number: int, revisits: bool) -> None:
        self.revisits: Final[bool] = revisits
        self.page_number = page_number
        self.offset = 0
        self.seen = -1
        self.epoch = 0

    def is_before(self, mark: ScanPosition) -> bool:
        """Return True if the position precedes ``mark``, a position in the same list."""
        return self.page_number < mark.page_number or (
            self.page_number == mark.page_number and self.offset < mark.offset
        )

    def go_to(self, mark: ScanPosition) -> None:
        """Scan all messages from ``mark`` on, again if need be."""
        self.page_number = mark.page_number
        self.offset = mark.offset
        self.seen = -1


class ScanPositions:
    """The positions of all readers of one pending list; moves them as pages come and go.

    Pages are named by their number since the creation of the list.
    """

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: Final[dict[ScanPosition, None]] = {}  # a list would be searched for each reader that leaves

    def open(self, page_number: int, revisits: bool) -> ScanPosition:
        """Return a new position at the start of a page."""
        position = ScanPosition(page_number, revisits)
        self._positions[position] = None
        return position

    def open_beside(self, position: ScanPosition) -> ScanPosition:
        """Return a new position equal to another."""
        other = self.open(position.page_number, position.revisits)
        other.offset = position.offset
        other.seen = position.seen
        other.epoch = position.epoch
        return other

    def close(self, position: ScanPosition) -> None:
        """Forget a position."""
        self._positions.pop(position, None)

    def page_numbers(self) -> list[int]:
        """Return the distinct pages that have a position, ascending."""
        return sorted({position.page_number for position in self._positions})

    def revisit(self, page_number: int) -> None:
        """Move readers that revisit messages back to a page, if they are beyond it."""
        for position in self._positions:
            if position.revisits and position.page_number >= page_number:
                position.page_number = page_number
                position.offset = 0

    def page_inserted(self, page_number: int) -> None:
        """Follow the insertion of a page before the page of this number."""
        for position in self._positions:
            if position.page_number >= page_number:
                position.page_number += 1

    def page_cut(self, page_number: int, count: int) -> None:
        """Follow a cut of a page to ``count`` messages, with the rest in a page of its own behind it."""
        for position in self._positions:
            if position.page_number > page_number:
                position.page_number += 1
            elif position.page_number == page_number and position.offset >= count:
                position.page_number += 1
                position.offset -= count

    def follow(self, page_number: int, old: list[MessageReference | None], new: list[MessageReference | None]) -> None:
        """Keep positions in a page at the same message while ``new`` items replace ``old`` ones."""
        for position in self._positions:
            if position.page_number == page_number:
                position.offset = _moved(old, position.offset, new)

    def pages_dropped(self, base: int, pages: list[Page], new_indexes: list[int]) -> None:
        """Follow the removal of empty pages.

        Args:
            base: number of the first page.
            pages: the pages before the removal.
            new_indexes: index of each page after the removal, for an empty page of the next remaining one.
        """
        for position in self._positions:
            index = position.page_number - base
            if index >= 0:
                if pages[index].live == 0 and index < len(pages) - 1:
                    position.offset = 0
                position.page_number = base + new_indexes[index]


def merged_by_order(
    items: list[MessageReference | None], references: list[MessageReference]
) -> list[MessageReference | None]:
    """Return ``references`` and the remaining ``items`` of a page by ascending order."""
    merged: list[MessageReference | None] = list(references)
    merged.extend([item for item in items if item is not None])
    merged.sort(key=_order_of)
    return merged


def _moved(old: list[MessageReference | None], offset: int, new: list[MessageReference | None]) -> int:
    """Return the index in ``new`` of the first message of ``old`` from ``offset`` on."""
    for index in range(offset, len(old)):
        if old[index] is not None:
            return new.index(old[index])
    return len(new)


def _order_of(reference: MessageReference | None) -> int:
    assert reference is not None
    return reference.order
