"""The way of messages from a queue's pending_list to a cursor, and back.

Nothing is read for it: what is on the disk moves as a number. What only memory has is written down first.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.exactly_once.reserved_messages import HeldMessages
from spanwire.broker.persistence.unsynced_bytes import Unstored
from spanwire.broker.queue.page import MAX_PAGED_OUT_MESSAGES, REMOVED, UNSTORED, Page, PagedOut
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.broker.routing.flow_control import FlowControl

UNBOUNDED_BYTES: Final = 0


class Taking:
    """Fills what a cursor holds from the front of its queue, highest priority first."""

    def __init__(
        self, queue: Queue, held: HeldMessages, context: BrokerContext, unstored: Unstored, flow: FlowControl
    ) -> None:
        self._queue: Final[Queue] = queue
        self._held: Final[HeldMessages] = held
        self._context: Final[BrokerContext] = context
        self._unstored: Final[Unstored] = unstored
        self._flow: Final[FlowControl] = flow
        self.has_room = True  # false when the store has none for what only memory has
        self._at_most = 0
        self._bytes_left = 0
        self._counts_bytes = False

    def take(self, at_most: int, at_most_bytes: int) -> int:
        """Hold up to ``at_most`` messages, and about ``at_most_bytes`` (0: any), all together; gives how many came.

        Stops before a piece that is being read from the disk: it is there the next time. Stops, too, before a message
        that only memory has when the store has no room for it.
        """
        before = len(self._held)
        self._at_most = at_most
        self._counts_bytes = at_most_bytes > 0
        if self._counts_bytes:
            self._bytes_left = at_most_bytes - sum(self._sizes(list(self._held.sequences)))
        for place, pending_list in enumerate(self._queue.pending.lists):
            if pending_list.count == 0:
                continue
            scan = ListScan(pending_list)
            is_done = self._take_from(scan, place)
            scan.close()
            if not is_done:
                break
        came = len(self._held) - before
        if came > 0:
            self._queue.taken_away(came)
        return came

    def _take_from(self, scan: ListScan, place: int) -> bool:
        """False when no more is to be taken."""
        while not self._is_full():
            page = scan.page()
            if page is None:
                return True
            if page.reading:
                return False
            if page.paged_out is None:
                self._from_memory(scan, page, place)
            else:
                self._from_disk(scan, page, page.paged_out, place)
        return False

    def _is_full(self) -> bool:
        if not self.has_room:
            return True
        if self._counts_bytes and self._bytes_left <= 0 and len(self._held) > 0:
            return True
        return self._held.is_full(self._at_most)

    def _fits(self, reference: MessageReference) -> bool:
        """Whether the store has it, or room for it."""
        if reference.sequence == 0 and not self._flow.may_spill(self._queue):
            self.has_room = False
        return self.has_room

    def _sizes(self, sequences: list[int]) -> list[int]:
        store = self._context.store
        return [] if store is None else store.sizes(self._queue.destination, sequences)

    def _hold(self, sequence: int, order: int, place: int, due_ms: int) -> None:
        self._held.add(sequence, order, place, due_ms)
        if self._counts_bytes:
            self._bytes_left -= sum(self._sizes([sequence]))

    def _from_memory(self, scan: ListScan, page: Page, place: int) -> None:
        start = scan.position.offset
        end = scan.end(page, MAX_PAGED_OUT_MESSAGES)
        index = start
        taken: list[MessageReference] = []
        expired: list[MessageReference] = []
        while index < end and not self._is_full():
            item = page.items[index]
            if item is not None:
                if not self._fits(item):
                    break
                page.items[index] = None
                if item.message.is_expired(self._context.wall_ms):
                    expired.append(item)
                else:
                    taken.append(item)
                    self._hold(self._stored(item), item.order, place, item.message.expiration_ms)
            index += 1
        scan.position.offset = index
        scan.pending_list.note_removed(page, len(taken) + len(expired))
        for reference in taken:
            self._queue.release(reference.message)
        for reference in expired:
            self._queue.expire(reference)

    def _stored(self, reference: MessageReference) -> int:
        """The sequence of what leaves memory; a message that the store does not have yet is written down."""
        sequence = reference.sequence
        if sequence == 0:
            store = self._context.store
            assert store is not None
            sequence = store.append(self._queue.destination, reference.message)
            self._unstored.add(reference.message.size)
            if reference.redelivery_count > 0:
                store.note_redelivery(self._queue.destination, sequence, reference.redelivery_count)
        self._queue.pending.note_deliveries(sequence, reference.redelivery_count)
        return sequence

    def _from_disk(self, scan: ListScan, page: Page, paged_out: PagedOut, place: int) -> None:
        """What is over its time stays for the look for such messages."""
        end = scan.end(page, MAX_PAGED_OUT_MESSAGES)
        index = scan.position.offset
        orders = paged_out.orders
        while index < end and not self._is_full():
            number = paged_out.numbers[index]
            due_ms = paged_out.dues[index] if len(paged_out.dues) > 0 else 0
            if number == REMOVED or 0 < due_ms <= self._context.wall_ms:
                index += 1
                continue
            if number == UNSTORED and not self._fits(paged_out.kept[index]):
                break
            order = orders[index] if len(orders) > 0 else self._context.next_order()
            scan.position.offset = index + 1
            scan.pending_list.remove_paged_out(page, index)
            if number == UNSTORED:
                kept = paged_out.kept.pop(index)
                number = self._stored(kept)
                self._queue.release(kept.message)
            self._hold(number, order, place, due_ms)
            index += 1
        scan.position.offset = index


def put_back(queue: Queue, held: HeldMessages, context: BrokerContext) -> None:
    """Return all messages that are ``held`` to their old positions in the queue, as delivered once more."""
    store = context.store
    pending_lists = queue.pending.lists
    for place, pending_list in enumerate(pending_lists):
        found: list[tuple[int, int]] = []
        for index, order in enumerate(held.orders):
            if min(held.places[index], len(pending_lists) - 1) == place:
                found.append((order, held.sequences[index]))
        found.sort()
        numbers = array("q", [sequence for _, sequence in found])
        orders = array("q", [order for order, _ in found])
        dues = array("q", [held.dues.get(sequence, 0) for sequence in numbers])
        if len(numbers) > 0:
            pending_list.put_back_paged_out(numbers, orders, dues)
    for sequence in held.sequences:
        count = queue.pending.redelivery_count(sequence) + 1
        queue.pending.note_deliveries(sequence, count)
        if store is not None:
            store.note_redelivery(queue.destination, sequence, count)
    queue.came_back(held.sequences)
