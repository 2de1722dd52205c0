"""A browse: one pass over the messages that wait in a queue, which changes nothing."""

from __future__ import annotations

from typing import Final

from spanwire.broker.chunk import CHUNK_MESSAGES, KEPT, Chunk
from spanwire.broker.context import BrokerContext
from spanwire.broker.queue import Queue
from spanwire.broker.queue_jobs import LineWalk
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.model.message import Message

MAX_BROWSE_PAGE: Final = 100  # messages read back at a time for one browser


class Browse(BrokerDestination):
    """One browser's walk down a queue: the home of what is dispatched to it, so acknowledging it changes nothing but
    the memory that counts for it.

    It shows what stood in the line at the moment of the call, each message once, and leaves out what has left the line
    before the walk comes to it.
    """

    def __init__(self, queue: Queue, subscription: Subscription, context: BrokerContext) -> None:
        super().__init__(queue.destination, queue.policy, queue.usage)
        self._queue: Final[Queue] = queue
        self._context: Final[BrokerContext] = context
        self._subscription: Final[Subscription] = subscription
        self._walks: Final[list[LineWalk]] = [LineWalk(line) for line in queue.walk() if line.count > 0]
        self._ready: list[Message] = []
        self._next_ready = 0
        self._page: list[Message | None] = []  # None: being read
        self._request = 0
        self._ended = False
        subscription.homes.append(self)

    def fill(self) -> None:
        """Show as much as the browser's window takes, a slice at a time; at the end say so once."""
        subscription = self._subscription
        if self._ended or self._request > 0 or subscription.removed or not subscription.started:
            return
        budget = CHUNK_MESSAGES
        while subscription.can_take():
            if budget <= 0:
                self._context.schedule(self)
                return
            if self._next_ready < len(self._ready):
                message = self._ready[self._next_ready]
                self._next_ready += 1
                self._show(message)
                self.release(message)
                budget -= 1
                continue
            walk = self._walks[0] if self._walks else None
            chunk = None if walk is None else walk.chunk()
            if walk is None:
                break
            if chunk is None:
                walk.close()
                self._walks.pop(0)
            elif self._gather(walk, chunk):
                return
        if not self._walks and self._next_ready >= len(self._ready) and subscription.outlet.writable:
            self._ended = True
            subscription.consumer.dispatch_end()
            subscription.outlet.mark_dirty()

    def _show(self, message: Message) -> None:
        if not message.is_expired(self._context.wall_ms):
            reference = MessageReference(self, message, 0, self._context.next_order(), 0)
            if self._subscription.accepts(reference):
                self.hold(message)
                self._subscription.dispatch(reference)

    def _is_ready(self, messages: list[Message]) -> None:
        for message in messages:
            self.hold(message)
        self._ready = messages
        self._next_ready = 0

    def _gather(self, walk: LineWalk, chunk: Chunk) -> bool:
        """Take the next messages of ``chunk`` to be shown; True when the store must be asked for them first."""
        start = walk.cursor.offset
        packed = chunk.packed
        end = walk.end(chunk, MAX_BROWSE_PAGE if packed is None else self._queue.page_messages(MAX_BROWSE_PAGE))
        walk.cursor.offset = end
        if packed is None:
            self._is_ready([item.message for item in chunk.items[start:end] if item is not None])
            return False
        sequences: list[int] = []
        page: list[Message | None] = []
        for index in range(start, end):
            number = packed.numbers[index]
            if number == KEPT:
                page.append(packed.kept[index].message)
            elif number > 0:
                page.append(None)
                sequences.append(number)
        if not sequences:
            self._is_ready([message for message in page if message is not None])
            return False
        self._is_ready([])
        self._page = page
        self._request = self._context.fetch(self, self.destination, sequences)
        return True

    def fetched(self, request: int, messages: list[Message | None]) -> None:
        """A page of messages that only the store has."""
        if request != self._request:
            return
        self._request = 0
        if self._ended:
            return
        self._queue.note_page(messages)
        index = 0
        ready: list[Message] = []
        for kept in self._page:
            message = kept
            if message is None:
                message = messages[index]
                index += 1
            if message is not None:
                ready.append(message)
        self._page = []
        self._is_ready(ready)
        self._context.schedule(self)

    def abandon(self) -> None:
        """The browser is gone."""
        self._ended = True
        for walk in self._walks:
            walk.close()
        self._walks.clear()
        for message in self._ready[self._next_ready :]:
            self.release(message)
        self._ready = []
        self._next_ready = 0

    def settled(self, reference: MessageReference) -> None:
        """The browser is done with a message."""
        self.release(reference.message)

    def forgotten(self, reference: MessageReference) -> None:
        """The same, in a transaction."""
        self.release(reference.message)

    def given_back(self, references: list[MessageReference]) -> None:
        """The browser left with messages that it did not acknowledge."""
        for reference in references:
            self.release(reference.message)

    def is_searching(self) -> bool:
        """The end of the line has not been reached."""
        return not self._ended

    def work(self) -> bool:
        """Go on showing."""
        self.fill()
        return False
