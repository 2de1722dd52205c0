"""Long tasks on the pending messages of a queue, in slices: expiry scan, purge, removal."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.destination_events import EXPIRED_ADVISORY
from spanwire.broker.dispatch.history.departures import EXPIRED
from spanwire.broker.dispatch.history.departures import REMOVED as DEPARTED
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.page import (
    MAX_PAGE_MESSAGES,
    MAX_PAGED_OUT_MESSAGES,
    NOT_STORED,
    REMOVED,
    SLICE_MESSAGES,
    Page,
    PagedOut,
    ScanPosition,
)
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import MAX_PAGE_BYTES, PendingMessages
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.ledger import EXPIRED as EXPIRED_UNREAD
from spanwire.model.ledger import PURGED
from spanwire.model.message import Message

BEHIND_POLL_SECONDS: Final = 0.02  # seconds between two checks whether the disk has caught up
DUES_PER_STEP: Final = 64  # comparisons of due times that cost as much as one message
UNBOUNDED: Final = 1 << 62  # bytes; without a read from the store the page has no limit


class ListScan:
    """One scan of a pending list, from the front to the end at the beginning of the scan."""

    __slots__ = ("mark", "pending_list", "position")

    def __init__(self, pending_list: PendingList) -> None:
        self.pending_list: Final[PendingList] = pending_list
        self.position: Final[ScanPosition] = pending_list.open(False)
        self.mark: Final[ScanPosition] = pending_list.open_end()

    def page(self) -> Page | None:
        """Return the page of the next message, None if the scan is over."""
        page = self.pending_list.page_at(self.position)
        return page if page is not None and self.position.is_before(self.mark) else None

    def end(self, page: Page, budget: int) -> int:
        """Return the end of a slice of ``budget`` messages as an index in ``page``."""
        end = min(len(page), self.position.offset + budget)
        if self.position.page_number == self.mark.page_number:
            end = min(end, self.mark.offset)
        return end

    def close(self) -> None:
        """End the scan."""
        self.pending_list.close(self.position)
        self.pending_list.close(self.mark)


class ExpiryScan:
    """Finds expired messages in memory and on the disk, and passes them to ``queue.expire``.

    Paged-out messages are removed by their due times. The store reads them only if the policy wants dead letters or an
    advisory has listeners. ``pending`` is the number of messages being read.
    """

    def __init__(self, queue: QueueBase, pending: PendingMessages, context: BrokerContext) -> None:
        self._queue: Final[QueueBase] = queue
        self._pending: Final[PendingMessages] = pending
        self._context: Final[BrokerContext] = context
        self._scans: list[ListScan] = []
        self._reads: Final[dict[int, list[int]]] = {}
        self._waits = False  # True while dead letters wait for the disk to catch up
        self._page_bytes = UNBOUNDED  # bytes that the current read may still take
        self.pending = 0

    def start(self) -> bool:
        """Begin a scan. Return False if a scan is under way or no message is pending."""
        if self._scans:
            return False
        self._scans = [ListScan(pending_list) for pending_list in self._pending.lists if pending_list.count > 0]
        return len(self._scans) > 0

    def is_under_way(self) -> bool:
        """Return True if a scan is under way."""
        return len(self._scans) > 0

    def stop(self) -> None:
        """End the scan."""
        for scan in self._scans:
            scan.close()
        self._scans = []

    def work(self) -> bool:
        """Run one slice. Return True if the next slice may follow at once.

        False means: the scan is over, the store reads expired messages, or the disk must catch up with dead letters.
        The scan ends early if the disk has no room for dead letters.
        """
        if self._scans and self._lacks_room():
            self.stop()
        if self._scans and self._context.is_behind() and self._leaves_letters():
            if not self._waits:
                self._waits = True
                self._context.wake_at(self._queue, self._context.monotonic + BEHIND_POLL_SECONDS)
            return False
        budget = SLICE_MESSAGES
        due: list[int] = []
        self._page_bytes = MAX_PAGE_BYTES if self._reads_expired() else UNBOUNDED
        while budget > 0 and self._page_bytes > 0 and self._scans and not self._reads:
            scan = self._scans[0]
            page = scan.page()
            if page is None:
                scan.close()
                self._scans.pop(0)
                continue
            if page.paged_out is None:
                budget -= self._in_memory(scan, page, budget)
            else:
                budget -= self._on_disk(scan, page, due, budget)
        if due:
            self._remove(due)
        return len(self._scans) > 0 and not self._reads

    def wake(self) -> bool:
        """End a wait for the disk. Return True if the scan did wait."""
        waited = self._waits
        self._waits = False
        return waited and len(self._scans) > 0

    def _in_memory(self, scan: ListScan, page: Page, budget: int) -> int:
        position = scan.position
        start = position.offset
        end = scan.end(page, budget)
        expired: list[MessageReference] = []
        for index in range(start, end):
            item = page.items[index]
            if item is not None and item.message.is_expired(self._context.wall_ms):
                expired.append(item)
                page.items[index] = None
        position.offset = end
        if expired:
            scan.pending_list.note_removed(page, len(expired))
            for reference in expired:
                self._queue.expire(reference)
        return end - start

    def _on_disk(self, scan: ListScan, page: Page, due: list[int], budget: int) -> int:
        """Scan a paged-out page. A page without due messages costs one step."""
        paged_out = page.paged_out
        assert paged_out is not None
        position = scan.position
        wall_ms = self._context.wall_ms
        if page.reading or paged_out.earliest == 0 or paged_out.earliest > wall_ms:
            position.offset = len(page)
            return 1
        start = position.offset
        end = scan.end(page, MAX_PAGED_OUT_MESSAGES)
        expired: list[int] = []
        for index in range(start, end):
            if 0 < paged_out.dues[index] <= wall_ms:
                expired.append(index)
                if len(expired) == budget:
                    end = index + 1
                    break
        expired = self._page_of(paged_out, expired, len(due) > 0)
        if self._page_bytes <= 0:
            end = expired[-1] + 1 if expired else start
        position.offset = end
        if end == len(page):
            paged_out.note_earliest_after(wall_ms)
        for index in expired:
            number = scan.pending_list.remove_paged_out(page, index)
            if number == NOT_STORED:
                self._queue.expire(paged_out.in_memory.pop(index))
            elif number != REMOVED:
                due.append(number)
        return len(expired) + (end - start) // DUES_PER_STEP + 1

    def _page_of(self, paged_out: PagedOut, expired: list[int], is_begun: bool) -> list[int]:
        """Return as many of the expired messages at ``expired`` as one read takes.

        Messages on the disk are read only for dead letters or advisories.
        """
        store = self._context.store
        if self._page_bytes == UNBOUNDED or store is None:
            return expired
        numbers = [paged_out.numbers[index] for index in expired]
        sizes = self._context.store_usage.sizes(self._queue.name, numbers)
        for index in range(len(expired)):
            if sizes[index] > self._page_bytes and (index > 0 or is_begun):
                self._page_bytes = 0
                return expired[:index]
            self._page_bytes = max(1, self._page_bytes - sizes[index])
        return expired

    def _remove(self, due: list[int]) -> None:
        queue = self._queue
        store = self._context.store
        assert store is not None
        if self._reads_expired():
            self.pending += len(due)
            self._reads[self._context.fetch(queue, queue.name, due)] = due
            return
        self._context.departures.note_sweep(EXPIRED, queue.name, len(due), self._context.wall_ms)
        for sequence in due:
            self._pending.forget(sequence)
            queue.expired += 1
            queue.dequeued += 1
            queue.sums.went(EXPIRED_UNREAD, 1)
            store.remove(queue.name, sequence, EXPIRED_UNREAD)

    def _reads_expired(self) -> bool:
        """Return True if expired messages must be read: for dead letters or for an advisory."""
        if self._leaves_letters():
            return True
        advisories = self._context.advisories
        if self._queue.name.kind == SUBSCRIPTION:
            return False  # an advisory names the topic, which only the message knows
        return advisories is not None and advisories.has_listeners(EXPIRED_ADVISORY, self._queue.name)

    def _leaves_letters(self) -> bool:
        strategy = self._queue.policy.dead_letter
        return strategy.process_expired and strategy.target(self._queue.name) is not None

    def _lacks_room(self) -> bool:
        """Return True if the disk has no room for dead letters. Expired messages then stay pending."""
        return not self._context.store_usage.has_room() and self._leaves_letters()

    def on_fetched(self, request: int, messages: list[Message | None]) -> bool:
        """Take expired messages from the store. Return False if ``request`` belongs to another reader."""
        due = self._reads.pop(request, None)
        if due is None:
            return False
        self.pending -= len(due)
        self._pending.note_read(messages)
        queue = self._queue
        for index, message in enumerate(messages):
            sequence = due[index]
            self._pending.forget(sequence)
            if message is not None and not queue.removed:
                queue.hold(message)
                queue.expire(MessageReference(queue, message, sequence, 0, 0))
        if self._scans:
            self._context.schedule(queue)
        return True


class Purge:
    """Removes all messages pending at the moment of the call, without reading them."""

    def __init__(self, queue: QueueBase, pending: PendingMessages, context: BrokerContext) -> None:
        self._queue: Final[QueueBase] = queue
        self._pending: Final[PendingMessages] = pending
        self._context: Final[BrokerContext] = context
        self._scans: list[ListScan] = []

    def start(self) -> None:
        """Begin a purge. The new purge includes the rest of a purge under way."""
        self.stop()
        departures, wall_ms = self._context.departures, self._context.wall_ms
        departures.note_sweep(DEPARTED, self._queue.name, self._pending.waiting(), wall_ms)
        self._scans = [ListScan(pending_list) for pending_list in self._pending.lists if pending_list.count > 0]

    def is_under_way(self) -> bool:
        """Return True if a purge is under way."""
        return len(self._scans) > 0

    def stop(self) -> None:
        """End the purge."""
        for scan in self._scans:
            scan.close()
        self._scans = []

    def work(self) -> bool:
        """Run one slice. Return False if the purge is over or must wait for a page being read."""
        budget = SLICE_MESSAGES
        while budget > 0 and self._scans:
            scan = self._scans[0]
            page = scan.page()
            if page is None:
                scan.close()
                self._scans.pop(0)
                continue
            if page.reading:
                return False
            start = scan.position.offset
            end = scan.end(page, budget)
            scan.position.offset = end
            budget -= end - start
            if page.paged_out is None:
                self._from_memory(scan.pending_list, page, start, end)
            else:
                self._from_disk(scan.pending_list, page, start, end)
        return len(self._scans) > 0

    def _from_memory(self, pending_list: PendingList, page: Page, start: int, end: int) -> None:
        gone = [item for item in page.items[start:end] if item is not None]
        for index in range(start, end):
            page.items[index] = None
        pending_list.note_removed(page, len(gone))
        for reference in gone:
            self._queue.discard(reference, PURGED)

    def _from_disk(self, pending_list: PendingList, page: Page, start: int, end: int) -> None:
        paged_out = page.paged_out
        store = self._context.store
        assert paged_out is not None
        queue = self._queue
        for index in range(start, end):
            number = pending_list.remove_paged_out(page, index) if paged_out.numbers[index] != REMOVED else REMOVED
            if number == NOT_STORED:
                queue.discard(paged_out.in_memory.pop(index), PURGED)
            elif number != REMOVED and store is not None:
                self._pending.forget(number)
                queue.dequeued += 1
                queue.sums.went(PURGED, 1)
                store.remove(queue.name, number, PURGED)


class QueueRemoval:
    """Forgets the pending messages of a removed queue in slices.

    The store removes the destination as a whole.
    """

    def __init__(self, queue: QueueBase, pending: PendingMessages, context: BrokerContext) -> None:
        self._queue: Final[QueueBase] = queue
        context.departures.note_sweep(DEPARTED, queue.name, pending.waiting(), context.wall_ms)
        self._pages: Final[list[Page]] = pending.clear()  # last page first: `work` pops from the end
        self._pages.reverse()

    def is_under_way(self) -> bool:
        """Return True if messages are left."""
        return len(self._pages) > 0

    def work(self) -> bool:
        """Run one slice.

        Return False if no message is left. Stored messages of paged-out pages need no release.
        """
        budget = MAX_PAGE_MESSAGES
        while self._pages and budget > 0:
            page = self._pages.pop()
            paged_out = page.paged_out
            gone = page.items if paged_out is None else [*paged_out.in_memory.values(), *page.returned]
            for reference in gone:
                if reference is not None:
                    self._queue.release(reference.message)
            budget -= len(gone) + 1
        return len(self._pages) > 0
