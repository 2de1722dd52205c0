"""Range reads: a browser of the control destination reads a range of a cursor's numbers.

The numbers are read in order, any number of times.

A range read costs the range only: the cursor knows the sequences, the store reads page by page, and the queue is not
scanned. Each dispatch carries the number of the message in place of the broker sequence.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.exactly_once.cursor import READ, Cursor, is_name
from spanwire.broker.exactly_once.cursor_table import CursorTable
from spanwire.broker.exactly_once.part_names import number_text
from spanwire.broker.queue.browser import BrowserDestination
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import MALFORMED, refusal
from spanwire.broker.routing.consumers import RangeReads
from spanwire.model.message import Message

PAGE_MESSAGES: Final = 500  # messages of one read
PAGE_BYTES: Final = 1024 * 1024  # bytes of one read, unless one message has more
READ_AHEAD: Final = 250  # messages in memory below which the next page is read
SLICE_MESSAGES: Final = 500  # messages of one slice
FORM: Final = "cursor = 'NAME' AND epoch = NUMBER AND from = NUMBER AND to = NUMBER"


class Range:
    """The range of a browser's request: numbers from ``start`` up to, but without, ``end``."""

    __slots__ = ("end", "epoch", "name", "start")

    def __init__(self, name: str, epoch: int, start: int, end: int) -> None:
        self.name: Final[str] = name
        self.epoch: Final[int] = epoch
        self.start: Final[int] = start
        self.end: Final[int] = end


class CursorRanges(RangeReads):
    """Lets browsers read ranges of the broker's cursors."""

    def __init__(self, context: BrokerContext, cursors: CursorTable) -> None:
        self._context: Final[BrokerContext] = context
        self._cursors: Final[CursorTable] = cursors

    def check(self, state: ConnectionState, selector: str | None) -> None:
        """Raise `JmsError` unless the connection may read the range of ``selector``."""
        asked = parse_range(selector)
        self._cursors.readable(state, asked.name, asked.epoch, asked.start, asked.end)

    def begin(self, state: ConnectionState, subscription: Subscription) -> None:
        """Start the range read of a new browser."""
        asked = parse_range(subscription.info.selector)
        cursor = self._cursors.readable(state, asked.name, asked.epoch, asked.start, asked.end)
        queue = cursor.source
        assert queue is not None
        follower = self._context.follower
        if follower is not None:
            sequences = cursor.reserved.part(asked.start, asked.end)
            follower.cursor_step(READ, cursor.name, queue.name, sequences, asked.start)
        RangeReader(cursor, queue, asked, subscription, self._context)


class RangeReader(BrowserDestination):
    """One browser's read of a range. Ends early if the cursor moves past the range or is taken over."""

    def __init__(
        self, cursor: Cursor, queue: Queue, asked: Range, subscription: Subscription, context: BrokerContext
    ) -> None:
        super().__init__(queue.name, queue.policy, queue.usage)
        self._cursor: Final[Cursor] = cursor
        self._queue: Final[Queue] = queue
        self._asked: Final[Range] = asked
        self._subscription: Final[Subscription] = subscription
        self._context: Final[BrokerContext] = context
        self._ready: list[MessageReference] = []
        self._next_ready = 0
        self._next = asked.start  # the number to be read next
        self._reading: list[int] = []  # sequences being read; the numbers end before ``_next``
        self._request = 0
        self._ended = False
        subscription.destinations[self] = None

    def fill(self) -> None:
        """Show as many messages as the browser's window takes; at the end send one end-of-browse mark."""
        subscription = self._subscription
        if self._ended or subscription.removed or not subscription.started:
            return
        budget = SLICE_MESSAGES
        while self._next_ready < len(self._ready) and subscription.can_take():
            if budget == 0:
                self._context.schedule(self)
                return
            budget -= 1
            reference = self._ready[self._next_ready]
            self._next_ready += 1
            subscription.dispatch(reference)
        if len(self._ready) - self._next_ready <= READ_AHEAD:
            self._read_on()
        is_done = self._request == 0 and self._next_ready == len(self._ready)
        if is_done and subscription.output.writable:
            self._ended = True
            subscription.consumer.dispatch_end()
            subscription.output.mark_dirty()

    def _read_on(self) -> None:
        """Read the next page, unless a page is being read.

        No page is read if the cursor no longer reserves the page for this epoch.
        """
        cursor = self._cursor
        start = self._next
        if self._request > 0 or start >= self._asked.end:
            return
        if cursor.epoch != self._asked.epoch or start < cursor.reserved.first:
            self._next = self._asked.end
            return
        sequences = cursor.reserved.part(start, min(self._asked.end, start + PAGE_MESSAGES))
        size = 0
        count = 0
        for octets in self._context.store_usage.sizes(self.name, sequences):
            size += octets
            if count > 0 and size > PAGE_BYTES:
                break
            count += 1
        self._reading = sequences[:count]
        self._next = start + count
        self._request = self._context.fetch(self, self.name, self._reading)

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take a page from the store, without messages acknowledged meanwhile."""
        if request != self._request:
            return
        self._request = 0
        if self._ended:
            return
        ready = self._ready[self._next_ready :]
        number = self._next - len(self._reading)
        for index, message in enumerate(messages):
            if message is not None:
                self.hold(message)
                count = self._queue.pending.redelivery_count(self._reading[index])
                ready.append(MessageReference(self, message, 0, number + index, count))
        self._ready = ready
        self._next_ready = 0
        self._context.schedule(self)

    def abandon(self) -> None:
        """Release all messages: the browser is gone."""
        self._ended = True
        for reference in self._ready[self._next_ready :]:
            self.release(reference.message)
        self._ready = []
        self._next_ready = 0

    def is_searching(self) -> bool:
        """Return True until the end of the range was reached."""
        return not self._ended


def parse_range(selector: str | None) -> Range:
    """Return the range in a browser's selector.

    Raises:
        ControlRefusal: the selector has another form than `FORM`.
    """
    words = "" if selector is None else selector.strip()
    values: list[str] = []
    for index, name in enumerate(("cursor", "epoch", "from", "to")):
        prefix = name + " = "
        if not words.startswith(prefix):
            break
        value, _, words = words[len(prefix) :].partition(" AND ")
        values.append(value.strip())
        words = words.strip()
        if index < 3 and not words:
            break
    if len(values) == 4 and not words:
        quoted = values[0]
        epoch, start, end = number_text(values[1]), number_text(values[2]), number_text(values[3])
        is_quoted = len(quoted) > 2 and quoted[0] == "'" and quoted[-1] == "'"
        if is_quoted and is_name(quoted[1:-1]) and 0 <= start <= end and epoch >= 0:
            return Range(quoted[1:-1], epoch, start, end)
    raise refusal(MALFORMED, f"what is browsed here is a range of a cursor; the selector is not: {FORM}")
