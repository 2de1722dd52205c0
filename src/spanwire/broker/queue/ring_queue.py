"""A queue of the latest messages: a new one pushes out the oldest (ActiveMQ Artemis, "Ring Queue").

Only pending messages count. A message in flight is neither counted nor pushed out. When a consumer returns messages,
the queue may have too many, and pushes out the oldest ones then.

Pushed out messages are removed from the store like acknowledged ones. They leave no dead letters.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.history.departures import PUSHED_OUT
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.page import NOT_STORED, REMOVED, Page
from spanwire.broker.queue.pending_list import PendingList
from spanwire.broker.queue.queue import Queue
from spanwire.model.destination import Destination
from spanwire.model.ledger import DISCARDED
from spanwire.model.message import Message

SLICE: Final = 500  # messages pushed out in a turn, as many as a slice of other work has


class RingQueue(Queue):
    """A queue of at most ``ring_size`` pending messages; the lowest priority loses its oldest first."""

    def __init__(
        self, destination: Destination, policy: PolicyEntry, usage: MemoryUsage, context: BrokerContext
    ) -> None:
        super().__init__(destination, policy, usage, context)
        self._ring_context: Final[BrokerContext] = context

    def accept(self, message: Message, sequence: int) -> None:
        """Append ``message``, and push out the oldest one if there are too many."""
        super().accept(message, sequence)
        self._push_out()

    def recover(self, recovered: RecoveredDestination, clean: bool) -> None:
        """Append the messages of the store. The ring may be smaller than it was in the last run."""
        super().recover(recovered, clean)
        self._push_out()

    def take_back(self, references: list[MessageReference]) -> None:
        """Take a former consumer's messages back, and push out the oldest ones if there are too many."""
        super().take_back(references)
        self._push_out()

    def accept_earlier(self, references: list[MessageReference]) -> None:
        """Take older messages, and push out the oldest ones if there are too many."""
        super().accept_earlier(references)
        self._push_out()

    def takes_stored(self) -> bool:
        """Return False: each message may push out another."""
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take the store's answer to a read. A page that is being read is not changed before."""
        super().on_fetched(request, messages)
        self._push_out()

    def work(self) -> bool:
        """Run one slice of a long task, and push out further messages."""
        more = super().work()
        return self._push_out() or more

    def _push_out(self) -> bool:
        """Push out up to `SLICE` messages. Return True if a later turn goes on."""
        size = self.policy.queue.ring_size
        if size <= 0 or self.removed:
            return False
        left = SLICE
        unread = 0
        while self.pending.waiting() > size and left > 0:
            pending_list = self._lowest()
            reference = pending_list.peek()
            if reference is not None:
                pending_list.pop()
                self._discard(reference)
            else:
                page = pending_list.snapshot(1)[0]
                if page.reading:
                    break  # `on_fetched` goes on
                unread += self._discard_paged_out(pending_list, page)
            left -= 1
        if unread > 0:
            context = self._ring_context
            context.departures.note_sweep(PUSHED_OUT, self.name, unread, context.wall_ms)
        if left == 0 and self.pending.waiting() > size:
            self._ring_context.schedule(self)
            return True
        return False

    def _lowest(self) -> PendingList:
        """Return the list of the lowest priority with messages."""
        lists = self.pending.lists
        for index in range(len(lists) - 1, 0, -1):
            if lists[index].count > 0:
                return lists[index]
        return lists[0]

    def _discard(self, reference: MessageReference) -> None:
        context = self._ring_context
        self.pushed_out += 1
        context.departures.note(
            reference.message, PUSHED_OUT, self.name, context.wall_ms, None, reference.redelivery_count
        )
        self.discard(reference, DISCARDED)

    def _discard_paged_out(self, pending_list: PendingList, page: Page) -> int:
        """Remove the oldest message of a paged-out page. Return the number of messages removed unread."""
        paged_out = page.paged_out
        assert paged_out is not None
        for index, number in enumerate(paged_out.numbers):
            if number == REMOVED:
                continue
            pending_list.remove_paged_out(page, index)
            if number == NOT_STORED:
                self._discard(paged_out.in_memory.pop(index))
                return 0
            store = self._ring_context.store
            assert store is not None
            store.remove(self.name, number, DISCARDED)
            self.pushed_out += 1
            self.note_removed(number, DISCARDED)
            return 1
        return 0
