"""Rescans the pending list after a message group lost its owner.

Other consumers skipped messages of the group while the owner was there. To go back for them costs one evaluation of
every message between. A token bucket limits rescans where groups close again and again in a deep queue. Dispatched
messages and time fill the bucket, a rescan empties the bucket. Until the bucket is full enough, or the latest time has
come, a closed group stays with the consumer that closed the group.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.queue.page import MAX_PAGE_MESSAGES, ScanPosition
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers

SCANS_PER_MESSAGE: Final = 8  # tokens (messages scanned again) for one dispatched message
SCANS_PER_SECOND: Final = 100_000  # tokens for one second: some percent of one processor
MAX_SAVED_SCANS: Final = 100_000  # tokens; the capacity of the bucket


class GroupRescan:
    """Knows how far back the consumers of one queue must go, and when. `MessageGroups` knows the owners."""

    def __init__(
        self,
        queue: QueueBase,
        lists: list[PendingList],
        consumers: QueueConsumers,
        context: BrokerContext,
    ) -> None:
        self._queue: Final[QueueBase] = queue
        self._pending_lists: Final[list[PendingList]] = lists
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._marks: list[ScanPosition] = []  # position to go back to, by pending list; empty if no rescan is due
        self._saved = float(MAX_SAVED_SCANS)
        self._saved_at = context.monotonic
        self._due = 0.0
        self._alarm_at = 0.0

    @property
    def is_pending(self) -> bool:
        """True if consumers must go back."""
        return len(self._marks) > 0

    def earn(self) -> None:
        """Fill the bucket for one dispatched message of a group."""
        self._saved += SCANS_PER_MESSAGE

    def lost(self, owner: QueueConsumer) -> None:
        """Note that ``owner`` lost a group.

        No message of the group is left before the owner's position, unless a selector may have left one there.
        """
        from_front = self._consumers.selective > 0 or not owner.positions
        is_new = not self._marks
        for index, pending_list in enumerate(self._pending_lists):
            if is_new:
                self._marks.append(
                    pending_list.open(True) if from_front else pending_list.open_beside(owner.positions[index])
                )
            elif from_front:
                pending_list.start_over(self._marks[index])
            elif owner.positions[index].is_before(self._marks[index]):
                self._marks[index].go_to(owner.positions[index])
        if is_new:
            self._due = -1.0

    def is_due(self) -> bool:
        """Return True if consumers may go back now; otherwise set an alarm for the latest time."""
        now = self._context.monotonic
        if self._saved < MAX_SAVED_SCANS:
            self._saved = min(MAX_SAVED_SCANS, self._saved + (now - self._saved_at) * SCANS_PER_SECOND)
        self._saved_at = now
        missing = self._price() - self._saved
        if missing <= 0:
            return True
        if self._due < 0.0:
            self._due = now + missing / SCANS_PER_SECOND
        if now >= self._due:
            return True
        if self._alarm_at <= now or self._alarm_at > self._due:
            self._alarm_at = self._due
            self._context.wake_at(self._queue, self._due)
        return False

    def _price(self) -> int:
        """Return the approximate number of messages to be scanned again."""
        price = 0
        for consumer in self._consumers.all:
            for index, position in enumerate(consumer.positions):
                mark = self._marks[index]
                price += max(
                    0, (position.page_number - mark.page_number) * MAX_PAGE_MESSAGES + position.offset - mark.offset
                )
        return price

    def go_back(self) -> bool:
        """Move all consumers ahead of a mark back to the mark. Return True if a consumer moved."""
        self._saved -= self._price()
        is_back = False
        for consumer in self._consumers.all:
            for index, position in enumerate(consumer.positions):
                mark = self._marks[index]
                if mark.is_before(position):
                    position.go_to(mark)
                    is_back = True
        self.cancel()
        return is_back

    def cancel(self) -> None:
        """Forget the marks: all consumers scan the whole list anyway."""
        for index, mark in enumerate(self._marks):
            self._pending_lists[index].close(mark)
        self._marks = []
