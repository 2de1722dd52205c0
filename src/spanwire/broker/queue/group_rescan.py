"""When consumers go back for messages that they passed by because these belonged to a group that has lost its owner.

To go back costs a look at everything between. Where groups are closed again and again in a deep queue that would be
scanned without end, so there is an account of them: messages that are note_removed and time pay in, each return is paid from it.
Until there is enough, or its time has come, a closed group stays with the consumer that closed it.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.queue.page import MAX_PAGE_MESSAGES
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue_consumers import QueueConsumer, QueueConsumers
from spanwire.broker.queue.scan_position import ScanPosition

SCANS_PER_MESSAGE: Final = 8  # second scanned that one message note_removed pays for
SCANS_PER_SECOND: Final = 100_000  # that time pays for: some percent of what one processor does
MAX_SAVED_SCANS: Final = 100_000  # above this time pays for nothing more


class GroupRescan:
    """Remembers how far back the consumers of ``queue`` have to go, and when they may. Who owns which group is left to
    `MessageGroups`.
    """

    def __init__(
        self,
        queue: BrokerDestination,
        pending_lists: list[PendingList],
        consumers: QueueConsumers,
        context: BrokerContext,
    ) -> None:
        self._queue: Final[BrokerDestination] = queue
        self._pending_lists: Final[list[PendingList]] = pending_lists
        self._consumers: Final[QueueConsumers] = consumers
        self._context: Final[BrokerContext] = context
        self._marks: list[
            ScanPosition
        ] = []  # for each pending_list: before it nobody has to look; none: nobody goes back
        self._saved = float(MAX_SAVED_SCANS)
        self._saved_at = context.monotonic
        self._due = 0.0
        self._alarm_at = 0.0

    @property
    def is_pending(self) -> bool:
        """Whether consumers have to go back."""
        return len(self._marks) > 0

    def earn(self) -> None:
        """A message of a group was note_removed."""
        self._saved += SCANS_PER_MESSAGE

    def lost(self, owner: QueueConsumer) -> None:
        """``owner`` lost a group. Before where it stands there is nothing left of the group, unless its selector may
        have left it there.
        """
        from_front = self._consumers.selective > 0 or not owner.positions
        is_new = not self._marks
        for place, pending_list in enumerate(self._pending_lists):
            if is_new:
                self._marks.append(
                    pending_list.open(True) if from_front else pending_list.open_beside(owner.positions[place])
                )
            elif from_front:
                pending_list.start_over(self._marks[place])
            elif owner.positions[place].is_before(self._marks[place]):
                self._marks[place].go_to(owner.positions[place])
        if is_new:
            self._due = -1.0

    def is_due(self) -> bool:
        """Whether they may go back now; if not, the destination is woken when they may at the latest."""
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
        """About how many scanned it takes."""
        price = 0
        for consumer in self._consumers.all:
            for place, position in enumerate(consumer.positions):
                mark = self._marks[place]
                price += max(0, (position.place - mark.place) * MAX_PAGE_MESSAGES + position.offset - mark.offset)
        return price

    def go_back(self) -> bool:
        """Let all that are ahead look again from there; whether there are any."""
        self._saved -= self._price()
        found = False
        for consumer in self._consumers.all:
            for place, position in enumerate(consumer.positions):
                mark = self._marks[place]
                if mark.is_before(position):
                    position.go_to(mark)
                    found = True
        self.cancel()
        return found

    def cancel(self) -> None:
        """Nobody has to go back: all look at the whole pending_list anyway."""
        for place, mark in enumerate(self._marks):
            self._pending_lists[place].close(mark)
        self._marks = []
