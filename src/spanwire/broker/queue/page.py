"""A piece of a queue's pending_list: some hundred messages in a row, in memory or paged_out to eight bytes each."""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference

MAX_PAGE_MESSAGES: Final = 500  # messages of a piece in memory, and of one read
SLICE_MESSAGES: Final = 64  # messages that one slice of a job scanned at: half a millisecond with a selector
MAX_PAGED_OUT_MESSAGES: Final = 4_096  # messages of a paged_out piece; what is read is cut off its front
NEVER_LOADED: Final = (
    1 << 62
)  # the order of messages that were not in memory since the broker started: behind all others
REMOVED: Final = 0  # stands for a message that left the pending_list
UNSTORED: Final = -1  # stands for a message that the store does not have


class PagedOut:
    """What memory knows of messages whose bodies are on the disk only.

    ``numbers`` are their sequences, `REMOVED`, or `UNSTORED` for those in ``kept`` that only memory has. ``orders`` is empty
    unless they had places in the dispatch order before; ``dues`` is empty unless some of them expire, else wall
    milliseconds with 0 for never, of which ``earliest`` is the smallest (0: none).
    """

    __slots__ = ("dues", "earliest", "kept", "numbers", "orders")

    def __init__(self, numbers: array[int]) -> None:
        self.numbers: array[int] = numbers
        self.orders: array[int] = array("q")
        self.dues: array[int] = array("q")
        self.earliest = 0
        self.kept: dict[int, MessageReference] = {}

    def add(self, number: int, due_ms: int) -> None:
        """One more message at the end."""
        if due_ms > 0 and len(self.dues) == 0:
            self.dues = array("q", bytes(8 * len(self.numbers)))
        self.numbers.append(number)
        if due_ms > 0 or len(self.dues) > 0:
            self.dues.append(due_ms)
        if due_ms > 0 and (self.earliest == 0 or due_ms < self.earliest):
            self.earliest = due_ms

    def split(self, count: int) -> PagedOut:
        """Keep the first ``count`` messages and give the others."""
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
        if self.kept:
            for index, reference in self.kept.items():
                if index >= count:
                    rest.kept[index - count] = reference
            self.kept = {index: reference for index, reference in self.kept.items() if index < count}
        return rest

    def take(self, index: int) -> int:
        """Remove one message; gives its number."""
        number = self.numbers[index]
        self.numbers[index] = REMOVED
        if len(self.dues) > 0:
            self.dues[index] = 0
        return number

    def lowest(self) -> int:
        """The order of the first that is left, where there are orders; when none is left, of the first that was."""
        for index, number in enumerate(self.numbers):
            if number != REMOVED:
                return self.orders[index]
        return self.orders[0]

    def note_earliest(self) -> None:
        """Look for the smallest due time again."""
        self.earliest = min([due for due in self.dues if due > 0], default=0)

    def note_earliest_after(self, wall_ms: int) -> None:
        """All that was due up to ``wall_ms`` was note_removed: look for the next."""
        self.earliest = min([due for due in self.dues if due > wall_ms], default=0)

    def live(self) -> int:
        """How many messages are left."""
        return len(self.numbers) - self.numbers.count(REMOVED)


class Page:
    """Messages in a row: either ``items`` in memory, None where one was note_removed, or ``paged_out``.

    ``start`` is an index before which nothing is left, ``live`` counts what is. ``epoch`` is that of the pending_list when
    something message_added back into this piece; ``reading`` says that the store was asked for it, ``returned`` is what message_added
    back meanwhile.
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
        """The largest sequence in it; 0 when the store has none of its messages."""
        paged_out = self.paged_out
        if paged_out is not None:
            return max(0, max(paged_out.numbers, default=0))
        return max([item.sequence for item in self.items if item is not None], default=0)

    def lowest(self) -> int:
        """The smallest order in it; `NEVER_LOADED` when it has none."""
        paged_out = self.paged_out
        if paged_out is not None:
            return paged_out.lowest() if len(paged_out.orders) > 0 else NEVER_LOADED
        for item in self.items:
            if item is not None:
                return item.order
        return NEVER_LOADED

    def bound(self) -> int:
        """The order below which what comes back from the disk goes before this piece, all in one: a piece that is being
        read stays whole.
        """
        return self.highest() if self.reading else self.lowest()

    def highest(self) -> int:
        """The largest order in it; `NEVER_LOADED` when it was not in memory yet, -1 when it is empty."""
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
        """Forget the bodies that the store has; gives the references that left memory."""
        paged_out = PagedOut(array("q"))
        left: list[MessageReference] = []
        for item in self.items:
            if item is None:
                continue
            paged_out.orders.append(item.order)
            if item.sequence > 0:
                paged_out.add(item.sequence, item.message.expiration_ms)
                left.append(item)
            else:
                paged_out.kept[len(paged_out.numbers)] = item
                paged_out.add(UNSTORED, item.message.expiration_ms)
        self.paged_out = paged_out
        self.items = []
        self.start = 0
        return left

    def load(self, items: list[MessageReference | None]) -> None:
        """The messages are here; those that are missing are None."""
        self.paged_out = None
        self.reading = False
        self.items = items
        self.start = 0
        self.live = sum([1 for item in items if item is not None])
