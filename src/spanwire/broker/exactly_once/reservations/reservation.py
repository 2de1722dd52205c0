"""Reserves pending messages for a cursor, and returns them.

The store reads no message: paged-out messages move as sequences. Unstored messages are stored first.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.exactly_once.reservations.reserved_messages import ReservedMessages
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.page import MAX_PAGED_OUT_MESSAGES, NOT_STORED, REMOVED, Page, PagedOut
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.broker.routing.flow_control import FlowControl

UNBOUNDED_BYTES: Final = 0


class Reservation:
    """Reserves messages at the front of a queue, highest priority first."""

    def __init__(
        self,
        queue: Queue,
        reserved: ReservedMessages,
        context: BrokerContext,
        unsynced: UnsyncedBytes,
        flow: FlowControl,
    ) -> None:
        self._queue: Final[Queue] = queue
        self.reserved: Final[ReservedMessages] = reserved
        self._context: Final[BrokerContext] = context
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._flow: Final[FlowControl] = flow
        self.has_room = True  # False if the store has no room for unstored messages
        self._at_most = 0
        self._bytes_left = 0
        self._counts_bytes = False

    def begin(self, at_most: int, at_most_bytes: int) -> None:
        """Set how many messages, and about how many bytes (0: any number), are reserved in all."""
        self._at_most = at_most
        self._counts_bytes = at_most_bytes > 0
        if self._counts_bytes:
            self._bytes_left = at_most_bytes - sum(self._sizes(list(self.reserved.sequences)))

    def take(self, at_most: int, at_most_bytes: int) -> int:
        """Reserve up to ``at_most`` messages in all, with about ``at_most_bytes`` (0: any number).

        Stops before a page being read, and before an unstored message if the store has no room.

        Returns:
            The number of added messages.
        """
        before = len(self.reserved)
        self.begin(at_most, at_most_bytes)
        for list_index, pending_list in enumerate(self._queue.pending.lists):
            if pending_list.count == 0:
                continue
            scan = ListScan(pending_list)
            is_done = self._take_from(scan, list_index)
            scan.close()
            if not is_done:
                break
        came = len(self.reserved) - before
        if came > 0:
            self._queue.note_reserved(came)
        return came

    def _take_from(self, scan: ListScan, list_index: int) -> bool:
        """Reserve from one list. Return False if no more is to be reserved."""
        while not self.is_full():
            page = scan.page()
            if page is None:
                return True
            if page.reading:
                return False
            if page.paged_out is None:
                self._from_memory(scan, page, list_index)
            else:
                self._from_disk(scan, page, page.paged_out, list_index)
        return False

    def is_full(self) -> bool:
        """Return True if no more is to be reserved."""
        if not self.has_room:
            return True
        if self._counts_bytes and self._bytes_left <= 0 and len(self.reserved) > 0:
            return True
        return self.reserved.is_full(self._at_most)

    def fits(self, reference: MessageReference) -> bool:
        """Return True if the message is stored or the store has room."""
        if reference.sequence == 0 and not self._flow.may_spill(self._queue):
            self.has_room = False
        return self.has_room

    def _sizes(self, sequences: list[int]) -> list[int]:
        return self._context.store_usage.sizes(self._queue.name, sequences)

    def reserve(self, sequence: int, order: int, list_index: int, due_ms: int) -> None:
        """Reserve one message, which is pending no more.

        Args:
            sequence: of the store.
            order: its place in the broker's dispatch order.
            list_index: of its pending list, 0 for the highest priority.
            due_ms: its expiration in wall milliseconds, 0 for never.
        """
        self.reserved.add(sequence, order, list_index, due_ms)
        if self._counts_bytes:
            self._bytes_left -= sum(self._sizes([sequence]))

    def _from_memory(self, scan: ListScan, page: Page, list_index: int) -> None:
        start = scan.position.offset
        end = scan.end(page, MAX_PAGED_OUT_MESSAGES)
        index = start
        taken: list[MessageReference] = []
        expired: list[MessageReference] = []
        while index < end and not self.is_full():
            item = page.items[index]
            if item is not None:
                if not self.fits(item):
                    break
                page.items[index] = None
                if item.message.is_expired(self._context.wall_ms):
                    expired.append(item)
                else:
                    taken.append(item)
                    self.reserve(self.stored(item), item.order, list_index, item.message.expiration_ms)
            index += 1
        scan.position.offset = index
        scan.pending_list.note_removed(page, len(taken) + len(expired))
        for reference in taken:
            self._queue.release(reference.message)
        for reference in expired:
            self._queue.expire(reference)

    def stored(self, reference: MessageReference) -> int:
        """Return the sequence of a message on its way out of memory. An unstored message is stored."""
        sequence = reference.sequence
        if sequence == 0:
            store = self._context.store
            assert store is not None
            sequence = store.append(self._queue.name, reference.message)
            self._unsynced.add(reference.message.size)
            if reference.redelivery_count > 0:
                store.note_redelivery(self._queue.name, sequence, reference.redelivery_count)
            if self._context.follower is not None:
                self._context.follower.numbered(self._queue.name, reference.message, sequence)
        self._queue.pending.note_deliveries(sequence, reference.redelivery_count)
        return sequence

    def _from_disk(self, scan: ListScan, page: Page, paged_out: PagedOut, list_index: int) -> None:
        """Reserve paged-out messages. Expired messages stay for the expiry scan."""
        end = scan.end(page, MAX_PAGED_OUT_MESSAGES)
        index = scan.position.offset
        orders = paged_out.orders
        while index < end and not self.is_full():
            number = paged_out.numbers[index]
            due_ms = paged_out.dues[index] if len(paged_out.dues) > 0 else 0
            if number == REMOVED or 0 < due_ms <= self._context.wall_ms:
                index += 1
                continue
            if number == NOT_STORED and not self.fits(paged_out.in_memory[index]):
                break
            order = orders[index] if len(orders) > 0 else self._context.next_order()
            scan.position.offset = index + 1
            scan.pending_list.remove_paged_out(page, index)
            if number == NOT_STORED:
                reference = paged_out.in_memory.pop(index)
                number = self.stored(reference)
                self._queue.release(reference.message)
            self.reserve(number, order, list_index, due_ms)
            index += 1
        scan.position.offset = index


def put_back(queue: Queue, reserved: ReservedMessages, context: BrokerContext) -> None:
    """Return all messages of ``reserved`` to their old positions in the queue, with one more delivery."""
    store = context.store
    pending_lists = queue.pending.lists
    for list_index, pending_list in enumerate(pending_lists):
        reserved_orders: list[tuple[int, int]] = []
        for index, order in enumerate(reserved.orders):
            if min(reserved.list_indexes[index], len(pending_lists) - 1) == list_index:
                reserved_orders.append((order, reserved.sequences[index]))
        reserved_orders.sort()
        numbers = array("q", [sequence for _, sequence in reserved_orders])
        orders = array("q", [order for order, _ in reserved_orders])
        dues = array("q", [reserved.dues.get(sequence, 0) for sequence in numbers])
        if len(numbers) > 0:
            pending_list.put_back_paged_out(numbers, orders, dues)
    for sequence in reserved.sequences:
        count = queue.pending.redelivery_count(sequence) + 1
        queue.pending.note_deliveries(sequence, count)
        if store is not None:
            store.note_redelivery(queue.name, sequence, count)
    queue.dispatch_released(reserved.sequences)
