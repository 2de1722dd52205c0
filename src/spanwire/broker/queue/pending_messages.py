"""The pending messages of one queue, in lists in memory and on the disk.

Pages are read here as well.
"""

from __future__ import annotations

import logging
from array import array
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.queue.page import GONE, MAX_PAGE_MESSAGES, NOT_STORED, REMOVED, Page, PagedOut, ScanPosition
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.sequence_ranges import SequenceRanges
from spanwire.model.destination import QUEUE, SUBSCRIPTION
from spanwire.model.ledger import DISCARDED
from spanwire.model.message import DEFAULT_PRIORITY, Message

MAX_RESIDENT_MESSAGES: Final = 16_384  # persistent messages of one queue kept in memory ahead of dispatch
READ_AHEAD_MESSAGES: Final = 2_048  # messages in memory or being read below which the next page is read
MAX_READS: Final = 4  # concurrent page reads of one queue
MAX_PAGE_BYTES: Final = (
    4 * 1024 * 1024
)  # bytes of one read, unless one message is larger, and of all that is read ahead
MIN_PAGE_BYTES: Final = 256 * 1024  # bytes of one read while memory is short, so that consumers go on
UNKNOWN_SIZE: Final = MAX_PAGE_BYTES // 16  # assumed bytes of a recovered message until a page was read
MAX_PAGES_SEARCHED: Final = 64  # pages at the front that one search for the next page to read examines
PAGES_OUT_PER_SLICE: Final = 1  # pages that one slice of a scan pages out
PRIORITIES: Final = 10  # JMS priorities, 0 to 9

logger = logging.getLogger(__name__)


class PageRead:
    """A read of one page from the store.

    ``first_order`` is the order of the first message if the page had no orders yet; ``size`` is the number of bytes to
    come.
    """

    __slots__ = ("first_order", "page", "pending_list", "size")

    def __init__(self, pending_list: PendingList, page: Page, first_order: int, size: int) -> None:
        self.pending_list: Final[PendingList] = pending_list
        self.page: Final[Page] = page
        self.first_order: Final[int] = first_order
        self.size: Final[int] = size


class ReadExtent:
    """The messages of one read in a paged-out page: up to index ``end``, of ``size`` bytes together."""

    __slots__ = ("end", "size")

    def __init__(self, end: int, size: int) -> None:
        self.end: Final[int] = end
        self.size: Final[int] = size


class PendingMessages:
    """The pending messages of ``queue``, in one list.

    With ``prioritized`` each priority has a list, the highest first.

    Keeps messages in memory within limits and reads pages. The queue's dispatcher decides about consumers. ``grouped``
    becomes True if a page brings a message of a message group.
    """

    def __init__(self, queue: QueueBase, context: BrokerContext, prioritized: bool) -> None:
        self._queue: Final[QueueBase] = queue
        self._resident_share: Final[int] = queue.policy.cursor_memory_high_water_mark
        self._context: Final[BrokerContext] = context
        self.lists: Final[list[PendingList]] = [PendingList() for _ in range(PRIORITIES if prioritized else 1)]
        self._reads: Final[dict[int, PageRead]] = {}
        self._redeliveries: dict[int, int] = {}
        self._uncertain_through = 0
        self._certain: Final[SequenceRanges] = SequenceRanges()
        self._average_size = 1024
        self.lazy: Final[bool] = queue.policy.queue.lazy_dispatch
        self.grouped = False

    def list_of(self, priority: int) -> PendingList:
        """Return the list for messages of ``priority``."""
        lists = self.lists
        if len(lists) == 1:
            return lists[0]
        return lists[PRIORITIES - 1 - min(max(priority, 0), PRIORITIES - 1)]

    def recover(self, recovered: RecoveredDestination, clean: bool) -> None:
        """Append the messages of the store. After a crash each message counts as possibly delivered before."""
        self._redeliveries = dict(recovered.redeliveries)
        self._average_size = UNKNOWN_SIZE
        sequences = recovered.sequences
        if not clean and sequences:
            self._uncertain_through = sequences[-1]
        expiring = recovered.expirations.sequences
        dues = recovered.expirations.wall_ms
        if len(self.lists) == 1:
            self.lists[0].extend(sequences, expiring, dues)
            return
        parts: list[array[int]] = [array("q") for _ in self.lists]
        priorities = recovered.priorities
        for sequence in sequences:
            priority = priorities.get(sequence, DEFAULT_PRIORITY)
            parts[PRIORITIES - 1 - min(max(priority, 0), PRIORITIES - 1)].append(sequence)
        for index, part in enumerate(parts):
            self.lists[index].extend(part, expiring, dues)

    def spill(self, pending_list: PendingList, message: Message, sequence: int) -> None:
        """Append a message for which memory has no room, or a message behind paged-out messages."""
        self._average_size += (message.size - self._average_size) // 16
        delivered = message.redelivery_count
        if sequence > 0:
            if delivered > 0:
                self._redeliveries[sequence] = delivered
            pending_list.append_paged_out(sequence, message.expiration_ms)
        else:
            queue = self._queue
            queue.hold(message)
            pending_list.append_transient(
                NOT_STORED, MessageReference(queue, message, 0, self._context.next_order(), delivered)
            )

    def take_in(self, first: int, priorities: array[int], dues: array[int], size: int, wall_ms: int) -> bool:
        """Append messages that only the store has. Return True if some messages have expired."""
        sole = self.lists[0] if len(self.lists) == 1 else None
        expired = False
        for index, due_ms in enumerate(dues):
            pending_list = self.list_of(priorities[index]) if sole is None else sole
            pending_list.append_paged_out(first + index, due_ms)
            if 0 < due_ms <= wall_ms:
                expired = True
        self.note_page(len(dues), size)
        return expired

    def is_full(self) -> bool:
        """Return True if further persistent messages should be paged out."""
        lists = self.lists
        loaded = lists[0].loaded if len(lists) == 1 else self.loaded()  # each persistent message asks
        return loaded >= MAX_RESIDENT_MESSAGES or self._queue.usage.is_above(self._resident_share)

    def loaded(self) -> int:
        """Return the number of messages in memory."""
        lists = self.lists
        return lists[0].loaded if len(lists) == 1 else sum([pending_list.loaded for pending_list in lists])

    def waiting(self) -> int:
        """Return the number of pending messages."""
        lists = self.lists
        return lists[0].count if len(lists) == 1 else sum([pending_list.count for pending_list in lists])

    def put_back(self, references: list[MessageReference]) -> None:
        """Return messages to their old positions."""
        references.sort(key=_order_of)
        if len(self.lists) == 1:
            self.lists[0].put_back(references)
            return
        for pending_list in self.lists:
            own = [reference for reference in references if self.list_of(reference.message.priority) is pending_list]
            if own:
                pending_list.put_back(own)

    def is_reading(self) -> bool:
        """Return True if the store was asked for a page."""
        return len(self._reads) > 0

    def read_ahead(self, hungry: bool) -> bool:
        """Ask the store for the next pages while memory has room.

        Without room, only a page for a ``hungry`` consumer is read.

        Returns:
            True if messages became available without a read.
        """
        is_available = False
        while len(self._reads) < MAX_READS:
            pending_list = self._next_to_read(hungry)
            page = None if pending_list is None else pending_list.first_paged_out(MAX_PAGES_SEARCHED)
            if pending_list is None or page is None:
                break
            is_available = self._read(pending_list, page) or is_available
        return is_available

    def _next_to_read(self, hungry: bool) -> PendingList | None:
        """Return the list of the highest priority with a page to be read now."""
        for pending_list in self.lists:
            if pending_list.count > 0:
                if hungry and pending_list.is_blocked():
                    return pending_list  # a consumer waits for the oldest message of the list
                break
        ahead = self.loaded() + self._being_read()
        if ahead >= READ_AHEAD_MESSAGES or self._bytes_ahead() >= MAX_PAGE_BYTES:
            return None
        if self.lazy or self._room() <= 0:
            return None
        for pending_list in self.lists:
            if (
                pending_list.loaded < pending_list.count
                and pending_list.first_paged_out(MAX_PAGES_SEARCHED) is not None
            ):
                return pending_list
        return None

    def _being_read(self) -> int:
        return sum([read.page.live for read in self._reads.values()])

    def _bytes_being_read(self) -> int:
        return sum([read.size for read in self._reads.values()])

    def _bytes_ahead(self) -> int:
        return self.loaded() * self._average_size + self._bytes_being_read()

    def _room(self) -> int:
        """Return the bytes of memory neither used nor reserved for pages being read."""
        return self._queue.usage.room(self._resident_share) - self._bytes_being_read()

    def read_for(self, pending_list: PendingList, position: ScanPosition, page: Page) -> bool:
        """Ask for a paged-out page for a consumer at ``position``. Return True if no read was necessary.

        One call asks for one page. The next call asks for the page behind.
        """
        if not page.reading and len(self._reads) < MAX_READS:
            is_available = self._read(pending_list, page)
            if not is_available:
                self._context.schedule(self._queue)
            return is_available
        if not self.lazy and len(self._reads) < MAX_READS - 1 and not self.is_full():
            ahead = pending_list.next_paged_out(position, MAX_READS)
            if ahead is not None:
                self._read(pending_list, ahead)
        return False

    def make_room(self) -> None:
        """Page out messages behind the scan positions, if too many messages are in memory."""
        if self.is_full():
            for pending_list in reversed(self.lists):
                for reference in pending_list.page_out_scanned(PAGES_OUT_PER_SLICE):
                    self._left_memory(reference)

    def _left_memory(self, reference: MessageReference) -> None:
        self.note_deliveries(reference.sequence, reference.redelivery_count)
        self._queue.release(reference.message)

    def note_deliveries(self, sequence: int, count: int) -> None:
        """Note that a paged-out message was delivered ``count`` times."""
        if count > (1 if sequence <= self._uncertain_through else 0):
            self._redeliveries[sequence] = count

    def note_released(self, sequences: array[int]) -> None:
        """Note the release of messages by a cursor: the messages are deliverable even after a crash.

        While reserved the messages were never dispatched.
        """
        through = self._uncertain_through
        uncertain = array("q", [sequence for sequence in sequences if sequence <= through])
        if len(uncertain) > 0:
            self._certain.add(uncertain)

    def extent(self, paged_out: PagedOut, start: int, end: int, most: int = MAX_PAGE_BYTES) -> ReadExtent:
        """Return how many of the paged-out messages from ``start`` to ``end`` one read takes.

        At most ``most`` bytes by the store's records, or one message.
        """
        numbers = [number for number in paged_out.numbers[start:end] if number > 0]
        sizes = self._context.store_usage.sizes(self._queue.name, numbers)
        size = sum(sizes)
        if size <= most:
            return ReadExtent(end, size)
        size = 0
        counted = 0
        for index in range(start, end):
            if paged_out.numbers[index] <= 0 or counted >= len(sizes):
                continue
            if counted > 0 and size + sizes[counted] > most:
                return ReadExtent(index, size)
            size += sizes[counted]
            counted += 1
        return ReadExtent(end, size)

    def note_page(self, count: int, size: int) -> None:
        """Note that ``count`` messages with ``size`` bytes together were read."""
        if count > 0:
            self._average_size = (self._average_size + size // count) // 2

    def note_read(self, messages: list[Message | None]) -> None:
        """Note a page that a separate reader got from the store."""
        sizes = [message.size for message in messages if message is not None]
        self.note_page(len(sizes), sum(sizes))

    def _read(self, pending_list: PendingList, page: Page) -> bool:
        paged_out = page.paged_out
        assert paged_out is not None
        most = min(MAX_PAGE_BYTES, max(MIN_PAGE_BYTES, self._room()))
        extent = self.extent(paged_out, 0, min(len(paged_out.numbers), MAX_PAGE_MESSAGES), most)
        pending_list.cut(page, extent.end)
        first_order = 0
        if len(paged_out.orders) == 0:
            first_order = self._context.reserve_orders(len(paged_out.numbers))
        read = PageRead(pending_list, page, first_order, extent.size)
        sequences = [number for number in paged_out.numbers if number > 0]
        if not sequences:
            self._load(read, [])
            return True
        page.reading = True
        self._reads[self._context.fetch(self._queue, self._queue.name, sequences)] = read
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read. An answer to a forgotten read is ignored."""
        read = self._reads.pop(request, None)
        if read is not None:
            self._load(read, messages)

    def _load(self, read: PageRead, messages: list[Message | None]) -> None:
        paged_out = read.page.paged_out
        assert paged_out is not None
        queue = self._queue
        items: list[MessageReference | None] = []
        read_count = 0
        size = 0
        held = 0
        for index, number in enumerate(paged_out.numbers):
            order = paged_out.orders[index] if len(paged_out.orders) > 0 else read.first_order + index
            reference: MessageReference | None = None
            if number == NOT_STORED:
                resident = paged_out.in_memory[index]
                reference = MessageReference(queue, resident.message, 0, order, resident.redelivery_count)
            elif number == GONE:
                read_count += 1
            elif number != REMOVED:
                message = messages[read_count]
                read_count += 1
                if message is None:
                    logger.error("message %d of %s is missing in the store; it is skipped", number, queue.name)
                elif self._is_too_late_for(message, number):
                    self._drop(number)
                else:
                    size += message.size
                    if message.holders == 0:
                        held += message.size
                    message.holders += 1
                    reference = MessageReference(queue, message, number, order, self.redelivery_count(number))
                    self.forget(number)
                    if message.group_id is not None and queue.name.kind != SUBSCRIPTION:
                        self.grouped = True
            items.append(reference)
        queue.usage.add(held)
        self.note_page(read_count, size)
        read.pending_list.load(read.page, items)

    def _is_too_late_for(self, message: Message, sequence: int) -> bool:
        """Return True if a non-persistent message must be lost rather than delivered twice.

        Such a message was stored for want of memory. A delivery before a crash is possible, unless a cursor had
        reserved the message.
        """
        if message.persistent or sequence > self._uncertain_through or self._queue.name.kind != QUEUE:
            return False
        return not self._certain.holds(sequence)

    def _drop(self, sequence: int) -> None:
        store = self._context.store
        if store is not None:
            store.remove(self._queue.name, sequence, DISCARDED)
        self._queue.dequeued += 1
        self._queue.sums.went(DISCARDED, 1)
        self.forget(sequence)

    def redelivery_count(self, sequence: int) -> int:
        """Return the number of earlier deliveries of a paged-out message."""
        count = self._redeliveries.get(sequence, 0) if self._redeliveries else 0
        if count == 0 and sequence <= self._uncertain_through:
            return 1
        return count

    def forget(self, sequence: int) -> None:
        """Forget a paged-out message, removed unread."""
        if self._redeliveries:
            self._redeliveries.pop(sequence, None)

    def clear(self) -> list[Page]:
        """Remove and return all pages.

        Pages being read are returned paged out, and the store's answers ignored.
        """
        self._reads.clear()
        self._context.forget_fetches(self._queue)
        self._redeliveries = {}
        pages: list[Page] = []
        for pending_list in self.lists:
            pages.extend(pending_list.clear())
        return pages

    def note_uncertain(self) -> None:
        """Store, before an orderly stop, that messages of a crashed run may have been delivered then."""
        store = self._context.store
        through = self._uncertain_through
        if through == 0 or store is None:
            return
        destination = self._queue.name
        for pending_list in self.lists:
            for page in pending_list.snapshot(pending_list.count):
                paged_out = page.paged_out
                if paged_out is not None:
                    for number in paged_out.numbers:
                        if 0 < number <= through and number not in self._redeliveries:
                            store.note_redelivery(destination, number, 1)
                for reference in [*page.items, *page.returned]:
                    if reference is not None and 0 < reference.sequence <= through:
                        store.note_redelivery(destination, reference.sequence, reference.redelivery_count)

    def oldest(self, limit: int, skip: int) -> list[tuple[int, Message | None]]:
        """Return sequence and, if in memory, message of ``limit`` messages behind the ``skip`` oldest ones.

        Whole pages are skipped without a look at their messages.
        """
        messages: list[tuple[int, Message | None]] = []
        left = skip
        for pending_list in self.lists:
            for page in pending_list.snapshot(left + limit - len(messages)):
                if page.live <= left and not page.returned:
                    left -= page.live
                    continue
                paged_out = page.paged_out
                if paged_out is not None:
                    messages.extend(_paged_out_view(paged_out))
                for item in [*page.items, *page.returned]:
                    if item is not None:
                        messages.append((item.sequence, item.message))
                if left > 0:
                    skipped = min(left, len(messages))
                    del messages[:skipped]
                    left -= skipped
        return messages[:limit]


def _paged_out_view(paged_out: PagedOut) -> list[tuple[int, Message | None]]:
    messages: list[tuple[int, Message | None]] = []
    for index, number in enumerate(paged_out.numbers):
        if number == NOT_STORED:
            messages.append((0, paged_out.in_memory[index].message))
        elif number > 0:
            messages.append((number, None))
    return messages


def _order_of(reference: MessageReference) -> int:
    return reference.order
