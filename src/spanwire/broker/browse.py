"""A browse: one pass over the messages that wait in a queue, which changes nothing."""

from __future__ import annotations

from typing import Final

from spanwire.broker.context import BrokerContext
from spanwire.broker.queue import Queue
from spanwire.broker.reference import BrokerDestination, MessageReference
from spanwire.broker.subscription import Subscription
from spanwire.model.message import Message

MAX_BROWSE_PAGE: Final = 100  # messages read back at a time for one browser


class Browse(BrokerDestination):
    """The snapshot of a queue for one browser: the home of what is dispatched to it, so acknowledging it changes
    nothing.

    The snapshot is the line at the moment of the call; messages that leave the store before their page is read are left
    out.
    """

    def __init__(self, queue: Queue, subscription: Subscription, context: BrokerContext) -> None:
        super().__init__(queue.destination, queue.policy, queue.usage)
        self._context: Final[BrokerContext] = context
        self._queue: Final[Queue] = queue
        self._subscription: Final[Subscription] = subscription
        self._ready: list[Message] = [reference.message for reference in queue.waiting_references()]
        self._numbers: list[int] = queue.waiting_numbers()
        self._next_ready = 0
        self._next_number = 0
        self._page: list[int] = []
        self._ended = False
        subscription.homes.append(self)

    def fill(self) -> None:
        """Show as much as the browser's window takes; at the end say so once."""
        if self._ended or self._page or self._subscription.removed or not self._subscription.started:
            return
        self._show_ready()
        if self._next_ready < len(self._ready):
            return
        if self._next_number < len(self._numbers):
            self._read_page()
        elif self._subscription.outlet.writable:
            self._ended = True
            self._subscription.consumer.dispatch_end()
            self._subscription.outlet.mark_dirty()

    def _show_ready(self) -> None:
        subscription = self._subscription
        while self._next_ready < len(self._ready) and subscription.can_take():
            message = self._ready[self._next_ready]
            self._next_ready += 1
            if message.is_expired(self._context.wall_ms):
                continue
            reference = MessageReference(self, message, 0, self._context.next_order(), 0)
            if subscription.accepts(reference):
                subscription.dispatch(reference)

    def _read_page(self) -> None:
        self._page = self._numbers[self._next_number : self._next_number + MAX_BROWSE_PAGE]
        self._next_number += len(self._page)
        sequences = [number for number in self._page if number > 0]
        if sequences:
            self._context.fetch(self, self.destination, sequences)
        else:
            self.fetched([])

    def fetched(self, messages: list[Message | None]) -> None:
        """A page of messages that only the store has."""
        page = self._page
        self._page = []
        self._ready = []
        self._next_ready = 0
        index = 0
        for number in page:
            if number > 0:
                message = messages[index]
                index += 1
                if message is not None:
                    self._ready.append(message)
            else:
                reference = self._queue.volatile(number)
                if reference is not None:
                    self._ready.append(reference.message)
        self._context.schedule(self)

    def is_searching(self) -> bool:
        """The end of the line has not been reached."""
        return not self._ended

    def work(self) -> bool:
        """Go on showing."""
        self.fill()
        return False
