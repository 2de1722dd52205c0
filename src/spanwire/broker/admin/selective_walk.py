"""A walk over the pending messages of a queue, in slices: a selector chooses, a disposal acts.

A walk covers the messages pending at its beginning, in memory and on the disk. Messages in flight and later messages
stay.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Protocol

from mypy_extensions import trait

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.history.departures import REMOVED as REMOVED_BY_OPERATOR
from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.page import NOT_STORED, REMOVED, SLICE_MESSAGES, Page, PagedOut
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.model.ledger import PURGED
from spanwire.model.message import Message
from spanwire.selector.expression import Selector

PAGE_MESSAGES: Final = 100  # messages of one read for one scan
REMOVAL_BYTES: Final = 512  # memory of a removal until it is written
READ_POLL_SECONDS: Final = 0.02  # seconds between two checks of a page that the queue is reading
SLICE_BYTES: Final = 1024 * 1024  # bytes of chosen messages after which a slice ends: a millisecond to copy and write
MAX_REST_SECONDS: Final = 1.0  # seconds between two looks at a walk that rests: so soon a cancel counts


class OperationObserver(Protocol):
    """Gets the result of an operation."""

    def on_finished(self, count: int, passed: int) -> None:
        """Take the result: ``count`` messages were processed, ``passed`` selected messages had to stay."""
        ...

    def may_go_on(self, count: int) -> bool:
        """Return False to end the operation before its next slice; ``count`` messages were processed so far."""
        ...


@trait
class Disposal:
    """Action on selected messages. A blind action needs no knowledge of the message.

    What an action does not override suits one that is for all messages, needs no room, and writes nothing.
    """

    @property
    @abstractmethod
    def is_blind(self) -> bool:
        """True if the action is the same for every message, read or unread."""

    @property
    @abstractmethod
    def keeps(self) -> bool:
        """True if the messages stay in their queue."""

    @abstractmethod
    def prepare(self, message: Message, sequence: int) -> Message | None:
        """Return the message in the form for `dispose`, None if the message must stay."""

    @abstractmethod
    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Act on ``references`` that ``queue`` no longer has pending, or that the action `keeps`.

        ``prepared`` has the form of each.
        """

    def must_wait(self) -> bool:
        """Return True if the last call of `prepare` found no room and is to be made again."""
        return False

    def wants(self, sequence: int) -> bool:
        """Return False if the message of this sequence, 0 if it is not stored, stays unread in any case."""
        return True

    def is_done(self, message: Message) -> bool:
        """Return True if the action was done to ``message`` before; it is then not counted again."""
        return False

    def waits(self, alarm: Alarm) -> bool:
        """Return True if the disk does not have the last slice yet; ``alarm`` wakes when it has."""
        return False

    def rest_seconds(self) -> float:
        """Return the seconds until the next slice may begin, 0 for now."""
        return 0.0

    def most(self) -> int:
        """Return the most messages of the next slice."""
        return PAGE_MESSAGES


class SelectiveWalk(Job, StoreReader, Alarm):
    """Scans the pending messages of ``queue`` with a selector and passes selected ones to ``disposal``.

    Paged-out messages stay on the disk; only selected messages leave the queue.
    """

    def __init__(
        self,
        queue: Queue,
        selector: Selector | None,
        limit: int,
        disposal: Disposal,
        unsynced: UnsyncedBytes,
        values: MessageEvaluationContext,
        context: BrokerContext,
        observer: OperationObserver,
    ) -> None:
        self._queue: Final[Queue] = queue
        self._selector: Final[Selector | None] = selector
        self._left = limit
        self._disposal: Final[Disposal] = disposal
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._values: Final[MessageEvaluationContext] = values
        self._context: Final[BrokerContext] = context
        self._observer: Final[OperationObserver] = observer
        self._scans: Final[list[ListScan]] = [ListScan(each) for each in queue.pending.lists if each.count > 0]
        self._page_read: Page | None = None
        self._paged_out: PagedOut | None = None
        self._read_indexes: list[int] = []  # indexes into the page being read
        self._expected: list[int] = []  # the numbers at these indexes
        self._page_end = 0
        self._messages: list[Message | None] = []  # at these indexes: read, None if gone or outside of the store
        self._next = 0  # the first of them that was not looked at
        self._resume_at = -1  # index into the page of what was not looked at
        self._count = 0
        self._passed = 0
        self._done = False
        self._slice_left = 0  # messages that the slice may still choose
        self._slice_bytes = 0  # and their bytes
        self.looks = 0  # messages looked at so far

    def work(self) -> bool:
        """Run one slice. Return True while more can be done now."""
        if self._done or self._rests():
            return False
        budget = SLICE_MESSAGES
        self._slice_left = self._disposal.most()
        self._slice_bytes = SLICE_BYTES
        while budget > 0 and self._may_choose() and self._scans and self._left > 0 and not self._queue.removed:
            scan = self._scans[0]
            page = scan.page()
            if page is None:
                scan.close()
                self._scans.pop(0)
                continue
            if page.reading:
                self._context.wake_at(self, self._context.monotonic + READ_POLL_SECONDS)
                return False
            if page.paged_out is None:
                budget -= self._in_memory(scan, page, budget)
            elif self._selector is None and self._disposal.is_blind:
                budget -= self._unread(scan, page, page.paged_out, budget)
            elif self._has_read(scan, page):
                budget -= self._show(scan, page, page.paged_out)
            elif self._ask(scan, page, page.paged_out):
                return False
            else:
                budget -= 1
        if budget > 0 and self._may_choose():
            self._finish()
        return not self._done

    def _rests(self) -> bool:
        """Return True if the next slice must wait, and see to it that the walk is woken."""
        if not self._observer.may_go_on(self._count):
            self._left = 0
        if self._left <= 0 or self._queue.removed:
            return False
        if self._disposal.waits(self):
            return True
        rest = self._disposal.rest_seconds()
        if rest > 0:
            self._context.wake_at(self, self._context.monotonic + min(rest, MAX_REST_SECONDS))
        return rest > 0

    def _may_choose(self) -> bool:
        """Return True unless the slice has chosen enough, or has met a message without room."""
        return self._slice_left > 0 and self._slice_bytes > 0

    def wake(self) -> None:
        """Go on after a wait for a page or for the disk."""
        self._context.schedule(self)

    def _finish(self) -> None:
        if self._done:
            return
        self._done = True
        for scan in self._scans:
            scan.close()
        self._scans.clear()
        self._observer.on_finished(self._count, self._passed)

    def _in_memory(self, scan: ListScan, page: Page, budget: int) -> int:
        position = scan.position
        start = position.offset
        end = scan.end(page, budget)
        references: list[MessageReference] = []
        prepared: list[Message] = []
        paged_index = start
        while paged_index < end and self._left > 0:
            item = page.items[paged_index]
            if item is not None and self._disposal.wants(item.sequence):
                made = self._choose(item.message, item.redelivery_count, item.sequence)
                if not self._may_choose() and made is None:
                    break
                if made is not None:
                    references.append(item)
                    prepared.append(made)
                    if not self._disposal.keeps:
                        page.items[paged_index] = None
            paged_index += 1
            if not self._may_choose():
                break
        position.offset = paged_index
        self.looks += paged_index - start
        if not self._disposal.keeps:
            scan.pending_list.note_removed(page, len(references))
        if references:
            self._disposal.dispose(self._queue, references, prepared)
        return end - start

    def _unread(self, scan: ListScan, page: Page, paged_out: PagedOut, budget: int) -> int:
        """Remove paged-out messages without reading."""
        store = self._context.store
        queue = self._queue
        position = scan.position
        start = position.offset
        end = scan.end(page, budget)
        paged_index = start
        before = self._count
        while paged_index < end and self._left > 0:
            number = (
                REMOVED
                if paged_out.numbers[paged_index] == REMOVED
                else scan.pending_list.remove_paged_out(page, paged_index)
            )
            if number == NOT_STORED:
                queue.discard(paged_out.in_memory.pop(paged_index), PURGED)
            elif number != REMOVED and store is not None:
                queue.note_removed(number)
                store.remove(queue.name, number, PURGED)
                self._unsynced.add(REMOVAL_BYTES)
            if number != REMOVED:
                self._count += 1
                self._left -= 1
            paged_index += 1
        position.offset = paged_index
        self.looks += paged_index - start
        departures, gone = self._context.departures, self._count - before
        departures.note_sweep(REMOVED_BY_OPERATOR, queue.name, gone, self._context.wall_ms)
        return end - start

    def _ask(self, scan: ListScan, page: Page, paged_out: PagedOut) -> bool:
        """Read the next messages of a page, those of some slices. Return False without messages on the disk."""
        start = scan.position.offset
        most = PAGE_MESSAGES if self._selector is not None else min(PAGE_MESSAGES, self._left)
        end = self._queue.pending.extent(paged_out, start, scan.end(page, most)).end
        self._read_indexes = [index for index in range(start, end) if self._is_wanted(paged_out.numbers[index])]
        self._expected = [paged_out.numbers[paged_index] for paged_index in self._read_indexes]
        self._messages = []
        self._next = 0
        self._resume_at = start
        self._page_end = end
        self._page_read = page
        self._paged_out = paged_out
        sequences = [number for number in self._expected if number > 0]
        if sequences:
            self._context.fetch(self, self._queue.name, sequences)
            return True
        self._messages = [None] * len(self._expected)
        self._show(scan, page, paged_out)
        return False

    def _is_wanted(self, number: int) -> bool:
        return number != REMOVED and self._disposal.wants(0 if number == NOT_STORED else number)

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take messages from the store. A page changed during the read is read again."""
        self._queue.pending.note_read(messages)
        if not self._queue.removed and self._scans:
            read = iter(messages)
            self._messages = [next(read) if number > 0 else None for number in self._expected]
            scan = self._scans[0]
            page = scan.page()
            if page is not None and page.paged_out is not None and self._has_read(scan, page):
                self._show(scan, page, page.paged_out)
        self._context.schedule(self)

    def _has_read(self, scan: ListScan, page: Page) -> bool:
        """Return True if the next messages of the scan were read, and their page is as it was."""
        if len(self._messages) == 0:
            return False
        is_same = (
            page is self._page_read
            and page.paged_out is self._paged_out
            and not page.reading
            and scan.position.offset == self._resume_at
        )
        if not is_same:
            self._drop_read()
        return is_same

    def _drop_read(self) -> None:
        self._messages = []
        self._page_read = None
        self._paged_out = None

    def _show(self, scan: ListScan, page: Page, paged_out: PagedOut) -> int:
        """Select among the read messages, as many as the slice takes. Return the number of those looked at."""
        references: list[MessageReference] = []
        prepared: list[Message] = []
        start = scan.position.offset
        end = min(self._page_end, len(page))
        index = self._next
        while index < len(self._read_indexes):
            paged_index = self._read_indexes[index]
            if not self._may_choose() or paged_index >= end:
                end = min(end, paged_index)
                break
            number = self._expected[index]
            if paged_out.numbers[paged_index] == number and self._left > 0:
                pending = self._waiting(paged_out, paged_index, self._messages[index])
                made = None
                if pending is not None:
                    made = self._choose(pending.message, pending.redelivery_count, pending.sequence)
                    if made is None and not self._may_choose():
                        end = paged_index
                        break
                if pending is not None and made is not None:
                    if not self._disposal.keeps:
                        self._take(scan, page, paged_out, paged_index, pending)
                    references.append(pending)
                    prepared.append(made)
            index += 1
        self._next = index
        self._resume_at = end
        self.looks += end - start
        scan.position.offset = end
        if end >= min(self._page_end, len(page)):
            self._drop_read()
        if references:
            self._disposal.dispose(self._queue, references, prepared)
        return end - start

    def _waiting(self, paged_out: PagedOut, paged_index: int, message: Message | None) -> MessageReference | None:
        """Return the message at ``paged_index``: an unsynced message, or ``message`` from the store."""
        if paged_out.numbers[paged_index] == NOT_STORED:
            return paged_out.in_memory[paged_index]
        if message is None:
            return None
        return self._queue.from_disk(message, paged_out.numbers[paged_index])

    def _take(
        self, scan: ListScan, page: Page, paged_out: PagedOut, paged_index: int, reference: MessageReference
    ) -> None:
        if reference.sequence > 0:
            self._queue.note_taken(reference)
        else:
            paged_out.in_memory.pop(paged_index)
        scan.pending_list.remove_paged_out(page, paged_index)

    def _choose(self, message: Message, redelivery_count: int, sequence: int) -> Message | None:
        """Return a selected message in its prepared form. A message without room ends the slice."""
        selector = self._selector
        if selector is not None and not self._values.matches(selector, message, redelivery_count):
            return None
        if self._disposal.is_done(message):
            return None
        made = self._disposal.prepare(message, sequence)
        if made is None:
            if self._disposal.must_wait():
                self._slice_left = 0
            else:
                self._passed += 1
            return None
        self._count += 1
        self._left -= 1
        self._slice_left -= 1
        self._slice_bytes -= message.size
        return made
