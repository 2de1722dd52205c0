"""Shared scan for queues with many selective consumers.

Consumers at the same position form a scan group. A selector index finds the few candidates for each message; the other
consumers cost nothing. If all candidates for a message are full, the candidates stay behind as a group of their own.
Groups merge at the end of the list.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.queue.page import SLICE_MESSAGES, Page, ScanPosition
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.pending_messages import PendingMessages
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.selection.selector_index import SelectorGroup, SelectorIndex

BEGIN_INTERVAL: Final = 1.0  # seconds until new consumers begin to scan while earlier consumers still scan


class ScanGroup:
    """Consumers with one scan position.

    ``stuck`` is True while only consumers without room want the next message.
    """

    __slots__ = ("gone", "index", "position", "stuck")

    def __init__(self, position: ScanPosition) -> None:
        self.position: Final[ScanPosition] = position
        self.index: Final[SelectorIndex] = SelectorIndex()
        self.stuck = False
        self.gone = False


class SharedScan:
    """Offers each message of the one pending list once to each scan group.

    ``grouped`` becomes True at a message of a message group: then each consumer must scan separately, in
    `SelectiveDispatch`.
    """

    def __init__(
        self,
        queue: QueueBase,
        pending: PendingMessages,
        consumers: QueueConsumers,
        context: BrokerContext,
    ) -> None:
        self._queue: Final[QueueBase] = queue
        self._pending: Final[PendingMessages] = pending
        self._pending_list: Final[PendingList] = pending.lists[0]
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._scan_groups: Final[dict[ScanGroup, None]] = {}
        self._of: Final[dict[QueueConsumer, ScanGroup]] = {}
        self._lead: ScanGroup | None = None  # the group at the end of the list
        self._newcomers: ScanGroup | None = None  # the group that has not begun
        self._latest: ScanGroup | None = None  # the group that began last
        self._latest_began = 0.0
        self.grouped = False

    def begin(self) -> None:
        """Have all consumers scan the whole list."""
        self.end()
        self.join_all()

    def end(self) -> None:
        """Forget all scan groups."""
        for scan_group in self._scan_groups:
            self._pending_list.close(scan_group.position)
        self._scan_groups.clear()
        self._of.clear()
        self._lead = None
        self._newcomers = None
        self._latest = None
        self.grouped = False

    def join_all(self) -> None:
        """Have consumers without a scan group scan the whole list."""
        missing = len(self._consumers.all) - len(self._of)
        newest = self._consumers.newest
        if missing == 1 and newest is not None and newest not in self._of:
            self._join(newest)
        elif missing > 0:
            for consumer in self._consumers.all:
                if consumer not in self._of:
                    self._join(consumer)

    def _join(self, consumer: QueueConsumer) -> None:
        scan_group = self._lead
        if scan_group is None or self._pending_list.count > 0:
            scan_group = self._newcomers
            if scan_group is None:
                scan_group = self._open()
                self._newcomers = scan_group
        self._put(consumer, scan_group)

    def leave(self, consumer: QueueConsumer) -> None:
        """Remove a consumer."""
        scan_group = self._of.pop(consumer, None)
        if scan_group is not None:
            scan_group.index.remove(consumer)
            if scan_group.index.count == 0:
                self._close(scan_group)

    def _open(self) -> ScanGroup:
        scan_group = ScanGroup(self._pending_list.open(True))
        self._scan_groups[scan_group] = None
        return scan_group

    def _close(self, scan_group: ScanGroup) -> None:
        scan_group.gone = True
        self._pending_list.close(scan_group.position)
        del self._scan_groups[scan_group]
        if self._lead is scan_group:
            self._lead = None
        if self._newcomers is scan_group:
            self._newcomers = None
        if self._latest is scan_group:
            self._latest = None

    def _put(self, consumer: QueueConsumer, scan_group: ScanGroup) -> None:
        scan_group.index.add(consumer)
        scan_group.stuck = False
        self._of[consumer] = scan_group

    def awaits_next(self) -> bool:
        """Return True if a group has scanned the whole list and waits for the next message."""
        lead = self._lead
        return lead is not None and self._pending_list.is_at_end(lead.position)

    def message_added(self) -> None:
        """Offer an appended message to the group at the end. Other groups go on in a slice."""
        lead = self._lead
        if lead is not None:
            self._advance(lead, SLICE_MESSAGES)
            self._pending.make_room()
        if lead is None or self._newcomers is not None:
            self._context.schedule(self._queue)

    def dispatch(self) -> None:
        """Scan on with all groups that have room, the furthest first.

        New consumers wait until earlier consumers have scanned the list or `BEGIN_INTERVAL` is over. Otherwise a
        thousand consumers that arrive one by one would each scan the whole depth.
        """
        active = [scan_group for scan_group in self._scan_groups if not scan_group.stuck or scan_group.index.has_room()]
        if len(active) > 1:
            active.sort(key=_furthest_first)
        budget = SLICE_MESSAGES
        for scan_group in active:
            if scan_group.gone:
                continue  # merged with the group at the end
            if self._newcomers is scan_group:
                if self._may_not_begin():
                    continue
                self._newcomers = None
                self._latest = scan_group
                self._latest_began = self._context.monotonic
            budget = self._advance(scan_group, budget)
            if budget <= 0 or self.grouped:
                self._context.schedule(self._queue)
                break
        self._pending.make_room()

    def _may_not_begin(self) -> bool:
        latest = self._latest
        if latest is None or latest is self._lead or latest.stuck:
            return False
        return self._context.monotonic < self._latest_began + BEGIN_INTERVAL

    def _advance(self, scan_group: ScanGroup, budget: int) -> int:
        """Scan on to the end, a paged-out page, or a message without a consumer with room.

        Returns:
            The rest of the budget.
        """
        pending_list = self._pending_list
        position = scan_group.position
        scan_group.stuck = False
        while budget > 0:
            page = pending_list.page_at(position)
            if page is None:
                self._reached_end(scan_group)
                return budget
            if page.paged_out is not None:
                if not self._pending.read_for(pending_list, position, page):
                    return budget
                continue
            budget -= 1
            reference = page.items[position.offset]
            if reference is None:
                position.offset += 1
            elif reference.message.is_expired(self._context.wall_ms):
                pending_list.take(page, position.offset)
                self._queue.expire(reference)
            elif reference.message.group_id is not None:
                self.grouped = True
                return budget
            elif not self._offer(scan_group, page, reference):
                return budget
        self._context.schedule(self._queue)
        return budget

    def _reached_end(self, scan_group: ScanGroup) -> None:
        """Merge a group at the end with the group there, unless that group has more to scan now."""
        lead = self._lead
        if lead is None or lead is scan_group or self._pending_list.page_at(lead.position) is not None:
            self._lead = scan_group
            return
        smaller, larger = (scan_group, lead) if scan_group.index.count < lead.index.count else (lead, scan_group)
        self._lead = larger
        for consumer in smaller.index.everyone():
            self._put(consumer, larger)
        self._close(smaller)

    def _offer(self, scan_group: ScanGroup, page: Page, reference: MessageReference) -> bool:
        """Dispatch the message to a candidate with room, or go past the message.

        Returns:
            False if the whole group must wait for room.
        """
        position = scan_group.position
        full: list[QueueConsumer] = []
        taker = self._taker(scan_group.index, reference, full)
        if taker is not None:
            self._pending_list.take(page, position.offset)
            self._queue.note_dispatched()
            self._consumers.note_taker(taker)
            reference.dispatched_at = self._context.monotonic
            taker.subscription.dispatch(reference)
            return True
        if full:
            if len(full) == scan_group.index.count:
                scan_group.stuck = True
                return False
            self._leave_behind(scan_group, full)
        position.offset += 1
        return True

    def _taker(
        self, index: SelectorIndex, reference: MessageReference, full: list[QueueConsumer]
    ) -> QueueConsumer | None:
        """Return the next candidate in turn with room; candidates without room are appended to ``full``."""
        best: QueueConsumer | None = None
        for group in self._candidates(index, reference):
            if group.wants(reference):
                taker = group.next_taker(reference.message, full)
                if taker is not None and (
                    best is None or self._consumers.turns_until(taker) < self._consumers.turns_until(best)
                ):
                    best = taker
        return best

    def _candidates(self, index: SelectorIndex, reference: MessageReference) -> list[SelectorGroup]:
        values = self._consumers.all[0].subscription.values
        message = reference.message
        values.bind(message, reference.redelivery_count)
        candidates = index.candidates(values)
        values.release()
        if message.properties_cache is not None:
            self._queue.count_forms(message)
        return candidates

    def _leave_behind(self, scan_group: ScanGroup, full: list[QueueConsumer]) -> None:
        behind = ScanGroup(self._pending_list.open_beside(scan_group.position))
        self._scan_groups[behind] = None
        for consumer in full:
            scan_group.index.remove(consumer)
            self._put(consumer, behind)
        behind.stuck = True


def _furthest_first(scan_group: ScanGroup) -> tuple[int, int]:
    return -scan_group.position.page_number, -scan_group.position.offset
