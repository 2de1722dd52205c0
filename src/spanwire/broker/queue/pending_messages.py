"""What waits in one queue: its lines in memory and on the disk, and the reading back of pages."""

from __future__ import annotations

import logging
from array import array
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.queue.page import CHUNK_MESSAGES, KEPT, TAKEN, Chunk, Packed
from spanwire.broker.queue.pending_list import MessageLine
from spanwire.broker.queue.scan_position import LineCursor
from spanwire.broker.queue.sequence_ranges import SparedSequences
from spanwire.model.destination import QUEUE
from spanwire.model.message import DEFAULT_PRIORITY, Message
from spanwire.model.units import MIB

MAX_RESIDENT_MESSAGES: Final = 16_384  # persistent messages of one queue kept in memory ahead of dispatch
READ_AHEAD_MESSAGES: Final = 2_048  # messages in memory or being read below which the next page is read
MAX_READS: Final = 4  # pages of one queue that are being read
MAX_PAGE_BYTES: Final = 4 * MIB  # bytes of one read, unless one message is larger, and of all that is read ahead
MIN_PAGE_BYTES: Final = 256 * 1024  # the same while memory is short: consumers must go on
UNKNOWN_SIZE: Final = MAX_PAGE_BYTES // 16  # average size of recovered messages until a page of them was read
FIRST_PIECES: Final = 64  # pieces from the front among which the next to be read is looked for
PASSED_PIECES: Final = 1  # pieces in memory that are packed again at a time, in each slice of a look
PRIORITIES: Final = 10  # of JMS, 0 to 9

logger = logging.getLogger(__name__)


class PageRead:
    """A piece of a line that the store was asked for; ``first_order`` is that of its first message, if it has no
    orders yet; ``size`` are the bytes that will come.
    """

    __slots__ = ("chunk", "first_order", "line", "size")

    def __init__(self, line: MessageLine, chunk: Chunk, first_order: int, size: int) -> None:
        self.line: Final[MessageLine] = line
        self.chunk: Final[Chunk] = chunk
        self.first_order: Final[int] = first_order
        self.size: Final[int] = size


class Page:
    """Messages of a packed piece up to index ``end``, of together ``size`` bytes."""

    __slots__ = ("end", "size")

    def __init__(self, end: int, size: int) -> None:
        self.end: Final[int] = end
        self.size: Final[int] = size


class Backlog:
    """The waiting messages of ``home``, in one line, or with ``prioritized`` in one for each priority, highest first.

    Keeps the window in memory within its limits and reads pages back. Who gets a message is left to `Queue`.
    ``grouped`` becomes true when a page brings a message that belongs to a group.
    """

    def __init__(self, home: BrokerDestination, context: BrokerContext, prioritized: bool) -> None:
        self._home: Final[BrokerDestination] = home
        self._resident_share: Final[int] = home.policy.cursor_memory_high_water_mark
        self._context: Final[BrokerContext] = context
        self.lines: Final[list[MessageLine]] = [MessageLine() for _ in range(PRIORITIES if prioritized else 1)]
        self._reads: Final[dict[int, PageRead]] = {}
        self._redeliveries: dict[int, int] = {}
        self._uncertain_through = 0
        self._spared: Final[SparedSequences] = SparedSequences()
        self._average_size = 1024
        self.lazy: Final[bool] = home.policy.queue.lazy_dispatch
        self.grouped = False

    # -- in ------------------------------------------------------------------------------------------------------------

    def line_of(self, priority: int) -> MessageLine:
        """The line for messages of this priority."""
        lines = self.lines
        if len(lines) == 1:
            return lines[0]
        return lines[PRIORITIES - 1 - min(max(priority, 0), PRIORITIES - 1)]

    def recover(self, found: RecoveredDestination, clean: bool) -> None:
        """The messages that the store kept. After an unclean stop each may have been delivered before, and says so."""
        self._redeliveries = dict(found.redeliveries)
        self._average_size = UNKNOWN_SIZE
        sequences = found.sequences
        if not clean and sequences:
            self._uncertain_through = sequences[-1]
        expiring = found.expirations.sequences
        dues = found.expirations.wall_ms
        if len(self.lines) == 1:
            self.lines[0].extend(sequences, expiring, dues)
            return
        parts: list[array[int]] = [array("q") for _ in self.lines]
        priorities = found.priorities
        for sequence in sequences:
            priority = priorities.get(sequence, DEFAULT_PRIORITY)
            parts[PRIORITIES - 1 - min(max(priority, 0), PRIORITIES - 1)].append(sequence)
        for place, part in enumerate(parts):
            self.lines[place].extend(part, expiring, dues)

    def spill(self, line: MessageLine, message: Message, sequence: int) -> None:
        """A message that finds no room in memory, or stands behind such."""
        self._average_size += (message.size - self._average_size) // 16
        delivered = message.redelivery_count
        if sequence > 0:
            if delivered > 0:
                self._redeliveries[sequence] = delivered
            line.append_packed(sequence, message.expiration_ms)
        else:
            home = self._home
            home.hold(message)
            line.append_kept(KEPT, MessageReference(home, message, 0, self._context.next_order(), delivered))

    def take_in(self, first: int, priorities: array[int], dues: array[int], size: int, wall_ms: int) -> bool:
        """Messages that only the store has, with sequences from ``first`` on; whether the time of some is over."""
        sole = self.lines[0] if len(self.lines) == 1 else None
        expired = False
        for place, due_ms in enumerate(dues):
            line = self.line_of(priorities[place]) if sole is None else sole
            line.append_packed(first + place, due_ms)
            if 0 < due_ms <= wall_ms:
                expired = True
        self.note_page(len(dues), size)
        return expired

    def is_full(self) -> bool:
        """Whether no more persistent messages should be kept in memory."""
        return self.loaded() >= MAX_RESIDENT_MESSAGES or self._home.usage.is_above(self._resident_share)

    def loaded(self) -> int:
        """How many messages wait in memory."""
        lines = self.lines
        return lines[0].loaded if len(lines) == 1 else sum([line.loaded for line in lines])

    def waiting(self) -> int:
        """How many messages wait."""
        lines = self.lines
        return lines[0].count if len(lines) == 1 else sum([line.count for line in lines])

    def give_back(self, references: list[MessageReference]) -> None:
        """References take their old places again."""
        references.sort(key=_order_of)
        if len(self.lines) == 1:
            self.lines[0].give_back(references)
            return
        for line in self.lines:
            own = [reference for reference in references if self.line_of(reference.message.priority) is line]
            if own:
                line.give_back(own)

    # -- reading -------------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """A page is on its way."""
        return len(self._reads) > 0

    def read_ahead(self, hungry: bool) -> bool:
        """Ask for the next pages while there is room in memory; where there is none, only for what a hungry consumer
        waits for. True when messages came without a read.
        """
        came = False
        while len(self._reads) < MAX_READS:
            line = self._next_to_read(hungry)
            chunk = None if line is None else line.first_packed(FIRST_PIECES)
            if line is None or chunk is None:
                break
            came = self._read(line, chunk) or came
        return came

    def _next_to_read(self, hungry: bool) -> MessageLine | None:
        """The line of the highest priority that has something to read, if it should be read now."""
        for line in self.lines:
            if line.count > 0:
                if hungry and line.is_blocked():
                    return line  # somebody waits for this very message
                break
        ahead = self.loaded() + self._being_read()
        if ahead >= READ_AHEAD_MESSAGES or self._bytes_ahead() >= MAX_PAGE_BYTES:
            return None
        if self.lazy or self._room() <= 0:
            return None
        for line in self.lines:
            if line.loaded < line.count and line.first_packed(FIRST_PIECES) is not None:
                return line
        return None

    def _being_read(self) -> int:
        return sum([page.chunk.live for page in self._reads.values()])

    def _bytes_being_read(self) -> int:
        return sum([page.size for page in self._reads.values()])

    def _bytes_ahead(self) -> int:
        return self.loaded() * self._average_size + self._bytes_being_read()

    def _room(self) -> int:
        """Bytes of memory that are free and not promised to what is being read."""
        return self._home.usage.room(self._resident_share) - self._bytes_being_read()

    def read_for(self, line: MessageLine, cursor: LineCursor, chunk: Chunk) -> bool:
        """A consumer at ``cursor`` wants the packed piece ``chunk``; True when it came without a read. To ask for a
        page takes a slice; the one behind it is asked for in the next.
        """
        if not chunk.reading and len(self._reads) < MAX_READS:
            came = self._read(line, chunk)
            if not came:
                self._context.schedule(self._home)
            return came
        if not self.lazy and len(self._reads) < MAX_READS - 1 and not self.is_full():
            ahead = line.next_packed(cursor, MAX_READS)
            if ahead is not None:
                self._read(line, ahead)
        return False

    def make_room(self) -> None:
        """Pack messages again that consumers have passed by, when there are too many in memory."""
        if self.is_full():
            for line in reversed(self.lines):
                for reference in line.pack_passed(PASSED_PIECES):
                    self._left_memory(reference)

    def _left_memory(self, reference: MessageReference) -> None:
        self.note_deliveries(reference.sequence, reference.redelivery_count)
        self._home.release(reference.message)

    def note_deliveries(self, sequence: int, count: int) -> None:
        """A message that only the store has was delivered ``count`` times."""
        if count > (1 if sequence <= self._uncertain_through else 0):
            self._redeliveries[sequence] = count

    def spare(self, sequences: array[int]) -> None:
        """What a cursor gives back is there to be delivered, in whatever way the broker stopped before: it was promised
        to be held.
        """
        through = self._uncertain_through
        uncertain = array("q", [sequence for sequence in sequences if sequence <= through])
        if len(uncertain) > 0:
            self._spared.add(uncertain)

    def page(self, packed: Packed, start: int, end: int, most: int = MAX_PAGE_BYTES) -> Page:
        """What to read at a time of the packed messages from ``start`` to ``end``: at most ``most`` bytes by the
        store's records, or one message.
        """
        store = self._context.store
        numbers = [number for number in packed.numbers[start:end] if number > 0]
        sizes = store.sizes(self._home.destination, numbers) if store is not None else []
        size = sum(sizes)
        if size <= most:
            return Page(end, size)
        size = 0
        place = 0
        for index in range(start, end):
            if packed.numbers[index] <= 0 or place >= len(sizes):
                continue
            if place > 0 and size + sizes[place] > most:
                return Page(index, size)
            size += sizes[place]
            place += 1
        return Page(end, size)

    def note_page(self, count: int, size: int) -> None:
        """``count`` messages with ``size`` bytes together were read."""
        if count > 0:
            self._average_size = (self._average_size + size // count) // 2

    def _read(self, line: MessageLine, chunk: Chunk) -> bool:
        packed = chunk.packed
        assert packed is not None
        most = min(MAX_PAGE_BYTES, max(MIN_PAGE_BYTES, self._room()))
        extent = self.page(packed, 0, min(len(packed.numbers), CHUNK_MESSAGES), most)
        line.cut(chunk, extent.end)
        first_order = 0
        if len(packed.orders) == 0:
            first_order = self._context.reserve_orders(len(packed.numbers))
        page = PageRead(line, chunk, first_order, extent.size)
        sequences = [number for number in packed.numbers if number > 0]
        if not sequences:
            self._load(page, [])
            return True
        chunk.reading = True
        self._reads[self._context.fetch(self._home, self._home.destination, sequences)] = page
        return False

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """The store's answer to a read; one that nobody wants any more is ignored."""
        page = self._reads.pop(request, None)
        if page is not None:
            self._load(page, messages)

    def _load(self, page: PageRead, messages: list[Message | None]) -> None:
        packed = page.chunk.packed
        assert packed is not None
        home = self._home
        items: list[MessageReference | None] = []
        taken = 0
        size = 0
        held = 0
        for index, number in enumerate(packed.numbers):
            order = packed.orders[index] if len(packed.orders) > 0 else page.first_order + index
            reference: MessageReference | None = None
            if number == KEPT:
                kept = packed.kept[index]
                reference = MessageReference(home, kept.message, 0, order, kept.redelivery_count)
            elif number != TAKEN:
                message = messages[taken]
                taken += 1
                if message is None:
                    logger.error("message %d of %s is missing in the store; it is skipped", number, home.destination)
                elif self._is_too_late_for(message, number):
                    self._drop(number)
                else:
                    size += message.size
                    if message.holders == 0:
                        held += message.size
                    message.holders += 1
                    reference = MessageReference(home, message, number, order, self.redelivery_count(number))
                    self.forget(number)
                    if message.group_id is not None:
                        self.grouped = True
            items.append(reference)
        home.usage.add(held)
        self.note_page(taken, size)
        page.line.load(page.chunk, items)

    def _is_too_late_for(self, message: Message, sequence: int) -> bool:
        """A message that is not persistent, written for want of memory, may have been delivered before the broker was
        killed; it is lost rather than delivered twice, unless a cursor held it.
        """
        if message.persistent or sequence > self._uncertain_through or self._home.destination.kind != QUEUE:
            return False
        return not self._spared.holds(sequence)

    def _drop(self, sequence: int) -> None:
        store = self._context.store
        if store is not None:
            store.remove(self._home.destination, sequence)
        self.forget(sequence)

    def redelivery_count(self, sequence: int) -> int:
        """How often a message on the disk was delivered before."""
        count = self._redeliveries.get(sequence, 0) if self._redeliveries else 0
        if count == 0 and sequence <= self._uncertain_through:
            return 1
        return count

    # -- out -----------------------------------------------------------------------------------------------------------

    def forget(self, sequence: int) -> None:
        """A message on the disk left without being read."""
        if self._redeliveries:
            self._redeliveries.pop(sequence, None)

    def clear(self) -> list[Chunk]:
        """Remove and give everything; what is being read is given packed, and its answer ignored."""
        self._reads.clear()
        self._context.forget_fetches(self._home)
        self._redeliveries = {}
        found: list[Chunk] = []
        for line in self.lines:
            found.extend(line.clear())
        return found

    def note_uncertain(self) -> None:
        """Before a stop in order: what an earlier run may have delivered must still say so in the next one."""
        store = self._context.store
        through = self._uncertain_through
        if through == 0 or store is None:
            return
        destination = self._home.destination
        for line in self.lines:
            for chunk in line.snapshot(line.count):
                packed = chunk.packed
                if packed is not None:
                    for number in packed.numbers:
                        if 0 < number <= through and number not in self._redeliveries:
                            store.note_redelivery(destination, number, 1)
                for reference in [*chunk.items, *chunk.returned]:
                    if reference is not None and 0 < reference.sequence <= through:
                        store.note_redelivery(destination, reference.sequence, reference.redelivery_count)

    def look(self, limit: int) -> list[tuple[int, Message | None]]:
        """The oldest ``limit`` messages: the sequence and, where memory has it, the message itself."""
        found: list[tuple[int, Message | None]] = []
        for line in self.lines:
            for chunk in line.snapshot(limit - len(found)):
                packed = chunk.packed
                if packed is not None:
                    found.extend(_packed_look(packed))
                for item in [*chunk.items, *chunk.returned]:
                    if item is not None:
                        found.append((item.sequence, item.message))
        return found[:limit]


def _packed_look(packed: Packed) -> list[tuple[int, Message | None]]:
    found: list[tuple[int, Message | None]] = []
    for index, number in enumerate(packed.numbers):
        if number == KEPT:
            found.append((0, packed.kept[index].message))
        elif number != TAKEN:
            found.append((number, None))
    return found


def _order_of(reference: MessageReference) -> int:
    return reference.order
