"""Operations on the messages of a queue: removal of selected messages, retry of dead letters.

An operation scans the messages pending at the moment of the call, in memory and on the disk, in slices. Messages in
flight and later messages stay. An operator needs no rights.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.admin.transfers import Deliveries, Disposal, Transferring, check_target
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.departures import REMOVED as REMOVED_BY_OPERATOR
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.page import NOT_STORED, REMOVED, SLICE_MESSAGES, Page, PagedOut
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_tasks import ListScan
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.routing.dead_letters import CAUSE, restore
from spanwire.broker.topic.durable_subscription import SubscriptionTerms
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import InvalidDestinationError, JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.selector.expression import Selector
from spanwire.selector.parser import parse_selector

PAGE_MESSAGES: Final = 100  # messages of one read for one scan
REMOVAL_BYTES: Final = 512  # memory of a removal until it is written
SAME_LIFETIME: Final = -1  # a retried message lives as long as it was sent for
READ_POLL_SECONDS: Final = 0.02  # seconds between two checks of a page that the queue is reading


class OperationObserver(Protocol):
    """Gets the result of an operation."""

    def on_finished(self, count: int, passed: int) -> None:
        """Take the result: ``count`` messages were processed, ``passed`` selected messages had to stay."""
        ...

    def may_go_on(self, count: int) -> bool:
        """Return False to end the operation before its next slice; ``count`` messages were processed so far."""
        ...


class Discarding(Disposal):
    """Removes selected messages."""

    def __init__(self, context: BrokerContext, unsynced: UnsyncedBytes) -> None:
        self._context: Final[BrokerContext] = context
        self._unsynced: Final[UnsyncedBytes] = unsynced

    @property
    def is_blind(self) -> bool:
        """True: messages are removed unread."""
        return True

    @property
    def keeps(self) -> bool:
        """False: messages go."""
        return False

    def prepare(self, message: Message) -> Message | None:
        """Return the message."""
        return message

    def dispose(self, queue: Queue, reference: MessageReference, prepared: Message) -> None:
        """Remove the message from memory and store."""
        if reference.sequence > 0:
            self._unsynced.add(REMOVAL_BYTES)
        queue.discard(reference)
        self._context.departures.note(
            reference.message, REMOVED_BY_OPERATOR, queue.name, self._context.wall_ms, None, reference.redelivery_count
        )

    def is_behind(self) -> bool:
        """Return True if removals use half of the unsynced bytes; the other half is for sends."""
        return self._unsynced.is_half_full()


class Retrying(Disposal):
    """Returns selected dead letters to the original destinations, each in one unit of the store.

    ``lifetime_ms`` replaces the time to live of the messages, 0 for none; `SAME_LIFETIME` keeps their own. The path
    over brokers begins anew, because a message that is made from its view has none.
    """

    def __init__(
        self,
        context: BrokerContext,
        destinations: Destinations,
        formats: MessageFormats,
        deliveries: Deliveries,
        lifetime_ms: int,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._deliveries: Final[Deliveries] = deliveries
        self._lifetime_ms: Final[int] = lifetime_ms

    @property
    def is_blind(self) -> bool:
        """False: the first destination is a property of the message."""
        return False

    @property
    def keeps(self) -> bool:
        """False: dead letters go."""
        return False

    def prepare(self, message: Message) -> Message | None:
        """Return the message as first sent.

        Returns:
            None if the message is not a dead letter, if the original destination is gone or refuses messages of
            clients, and while the disk has no room.
        """
        if not self._deliveries.has_room():
            return None
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            target = view.original_destination
            if CAUSE not in view.properties or target is None or target.is_temporary or target == message.destination:
                return None
            if target.is_advisory or is_control(target):  # no message dies there: the property is forged
                return None
            restore(view, target, self._context.wall_ms)
            if self._lifetime_ms != SAME_LIFETIME:
                view.expiration_ms = self._context.wall_ms + self._lifetime_ms if self._lifetime_ms > 0 else 0
            copy = message_format.encode_from_view(view)
            self._destinations.ensure_own(target)
        except (JmsError, ProtocolError):
            return None
        return copy

    def dispose(self, queue: Queue, reference: MessageReference, prepared: Message) -> None:
        """Store and remove in one unit, then dispatch."""
        self._deliveries.deliver(prepared, queue, reference, keeps=False)

    def is_behind(self) -> bool:
        """Return True if the unsynced bytes are full: each message is stored again."""
        return self._deliveries.is_behind()


class SelectiveWalk(Job, StoreReader, Alarm):
    """Scans the pending messages of ``queue`` with a selector and passes selected ones to ``disposal``.

    Paged-out messages stay on the disk; only selected messages leave the queue.
    """

    def __init__(
        self,
        queue: Queue,
        selector: Selector | None,
        limit: int,
        disposal: Disposal,
        unsynced: UnsyncedBytes,
        values: MessageEvaluationContext,
        context: BrokerContext,
        observer: OperationObserver,
    ) -> None:
        self._queue: Final[Queue] = queue
        self._selector: Final[Selector | None] = selector
        self._left = limit
        self._disposal: Final[Disposal] = disposal
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._values: Final[MessageEvaluationContext] = values
        self._context: Final[BrokerContext] = context
        self._observer: Final[OperationObserver] = observer
        self._scans: Final[list[ListScan]] = [ListScan(each) for each in queue.pending.lists if each.count > 0]
        self._page_read: Page | None = None
        self._paged_out: PagedOut | None = None
        self._read_indexes: list[int] = []  # indexes into the page being read
        self._expected: list[int] = []  # the numbers at these indexes
        self._page_end = 0
        self._count = 0
        self._passed = 0
        self._done = False

    def work(self) -> bool:
        """Run one slice. Return True while more can be done now."""
        if self._disposal.is_behind() and not self._queue.removed:
            self._context.wake_at(self, self._context.monotonic + READ_POLL_SECONDS)
            return False
        if not self._observer.may_go_on(self._count):
            self._left = 0
        budget = SLICE_MESSAGES
        while budget > 0 and self._scans and self._left > 0 and not self._queue.removed:
            scan = self._scans[0]
            page = scan.page()
            if page is None:
                scan.close()
                self._scans.pop(0)
                continue
            if page.reading:
                self._context.wake_at(self, self._context.monotonic + READ_POLL_SECONDS)
                return False
            if page.paged_out is None:
                budget -= self._in_memory(scan, page, budget)
            elif self._selector is None and self._disposal.is_blind:
                budget -= self._unread(scan, page, page.paged_out, budget)
            elif self._ask(scan, page, page.paged_out):
                return False
            else:
                budget -= 1
        if budget > 0:
            self._finish()
        return not self._done

    def wake(self) -> None:
        """Go on after a wait for a page or for the disk."""
        self._context.schedule(self)

    def _finish(self) -> None:
        if self._done:
            return
        self._done = True
        for scan in self._scans:
            scan.close()
        self._scans.clear()
        self._observer.on_finished(self._count, self._passed)

    def _in_memory(self, scan: ListScan, page: Page, budget: int) -> int:
        position = scan.position
        start = position.offset
        end = scan.end(page, budget)
        references: list[MessageReference] = []
        prepared: list[Message] = []
        paged_index = start
        while paged_index < end and self._left > 0:
            item = page.items[paged_index]
            if item is not None:
                made = self._choose(item.message, item.redelivery_count)
                if made is not None:
                    references.append(item)
                    prepared.append(made)
                    if not self._disposal.keeps:
                        page.items[paged_index] = None
            paged_index += 1
        position.offset = paged_index
        if not self._disposal.keeps:
            scan.pending_list.note_removed(page, len(references))
        for index, reference in enumerate(references):
            self._disposal.dispose(self._queue, reference, prepared[index])
        return end - start

    def _unread(self, scan: ListScan, page: Page, paged_out: PagedOut, budget: int) -> int:
        """Remove paged-out messages without reading."""
        store = self._context.store
        queue = self._queue
        position = scan.position
        start = position.offset
        end = scan.end(page, budget)
        paged_index = start
        before = self._count
        while paged_index < end and self._left > 0:
            number = (
                REMOVED
                if paged_out.numbers[paged_index] == REMOVED
                else scan.pending_list.remove_paged_out(page, paged_index)
            )
            if number == NOT_STORED:
                queue.discard(paged_out.in_memory.pop(paged_index))
            elif number != REMOVED and store is not None:
                queue.note_removed(number)
                store.remove(queue.name, number)
                self._unsynced.add(REMOVAL_BYTES)
            if number != REMOVED:
                self._count += 1
                self._left -= 1
            paged_index += 1
        position.offset = paged_index
        departures, gone = self._context.departures, self._count - before
        departures.note_sweep(REMOVED_BY_OPERATOR, queue.name, gone, self._context.wall_ms)
        return end - start

    def _ask(self, scan: ListScan, page: Page, paged_out: PagedOut) -> bool:
        """Read the next messages of a page. Return False without messages on the disk."""
        start = scan.position.offset
        end = self._queue.pending.extent(paged_out, start, scan.end(page, PAGE_MESSAGES)).end
        self._read_indexes = [
            paged_index for paged_index in range(start, end) if paged_out.numbers[paged_index] != REMOVED
        ]
        self._expected = [paged_out.numbers[paged_index] for paged_index in self._read_indexes]
        self._page_end = end
        self._page_read = page
        self._paged_out = paged_out
        sequences = [number for number in self._expected if number > 0]
        if sequences:
            self._context.fetch(self, self._queue.name, sequences)
            return True
        self._show([])
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take messages from the store."""
        self._queue.pending.note_read(messages)
        if not self._queue.removed and self._scans:
            self._show(messages)
        self._context.schedule(self)

    def _show(self, messages: list[Message | None]) -> None:
        """Select among the read messages. A page changed during the read is read again."""
        scan = self._scans[0]
        page = self._page_read
        paged_out = self._paged_out
        self._page_read = None
        self._paged_out = None
        assert page is not None and paged_out is not None
        if scan.page() is not page or page.paged_out is not paged_out or page.reading:
            return
        references: list[MessageReference] = []
        prepared: list[Message] = []
        read = 0
        for index, paged_index in enumerate(self._read_indexes):
            number = self._expected[index]
            message: Message | None = None
            if number > 0:
                message = messages[read]
                read += 1
            if paged_index >= len(paged_out.numbers) or paged_out.numbers[paged_index] != number or self._left <= 0:
                continue
            pending = self._waiting(paged_out, paged_index, message)
            made = None if pending is None else self._choose(pending.message, pending.redelivery_count)
            if pending is not None and made is not None:
                if not self._disposal.keeps:
                    self._take(scan, page, paged_out, paged_index, pending)
                references.append(pending)
                prepared.append(made)
        scan.position.offset = min(self._page_end, len(page))
        for index, reference in enumerate(references):
            self._disposal.dispose(self._queue, reference, prepared[index])

    def _waiting(self, paged_out: PagedOut, paged_index: int, message: Message | None) -> MessageReference | None:
        """Return the message at ``paged_index``: an unsynced message, or ``message`` from the store."""
        if paged_out.numbers[paged_index] == NOT_STORED:
            return paged_out.in_memory[paged_index]
        if message is None:
            return None
        return self._queue.from_disk(message, paged_out.numbers[paged_index])

    def _take(
        self, scan: ListScan, page: Page, paged_out: PagedOut, paged_index: int, reference: MessageReference
    ) -> None:
        if reference.sequence > 0:
            self._queue.note_taken(reference)
        else:
            paged_out.in_memory.pop(paged_index)
        scan.pending_list.remove_paged_out(page, paged_index)

    def _choose(self, message: Message, redelivery_count: int) -> Message | None:
        selector = self._selector
        if selector is not None and not self._values.matches(selector, message, redelivery_count):
            return None
        made = self._disposal.prepare(message)
        if made is None:
            self._passed += 1
            return None
        self._count += 1
        self._left -= 1
        return made


class Operations:
    """Operations on the queues of one broker. An observer gets the result in a later turn."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        formats: MessageFormats,
        unsynced: UnsyncedBytes,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._formats: Final[MessageFormats] = formats
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._discarding: Final[Discarding] = Discarding(context, unsynced)
        self._deliveries: Final[Deliveries] = Deliveries(context, destinations, unsynced)
        self._destinations: Final[Destinations] = destinations

    def queues(self, pattern: Destination) -> list[Destination]:
        """Return the queues for a name or pattern, sorted by name."""
        if not pattern.is_pattern:
            exact = self._map.queue(pattern)
            return [] if exact is None else [exact.name]
        names = [queue.name for queue in self._map.matching(pattern) if isinstance(queue, Queue)]
        return sorted(names, key=_name_of)

    def pause(self, destination: Destination, pause: bool, now: Time) -> int:
        """Stop or resume the dispatch of a queue and return the number of pending messages.

        Raises:
            InvalidDestinationError: the queue does not exist.
        """
        self._context.wall_ms = now.wall_ms
        self._context.monotonic = now.monotonic
        queue = self._map.queue(destination)
        if queue is None:
            raise InvalidDestinationError(f"there is no {destination}")
        if pause:
            queue.pause()
        else:
            queue.resume()
        return queue.waiting()

    def durable_terms(self, client_id: str | None = None) -> list[SubscriptionTerms]:
        """Return the durable subscriptions of one client, or of all clients."""
        all_terms = [durable.terms for durable in self._map.durables.values()]
        return [terms for terms in all_terms if client_id is None or terms.client_id == client_id]

    def terms_of(self, keys: list[str]) -> list[SubscriptionTerms]:
        """Return the existing durable subscriptions among ``keys``."""
        durables = self._map.durables
        return [durables[key].terms for key in keys if key in durables]

    def remove(
        self, destination: Destination, selector: str | None, observer: OperationObserver, limit: int, now: Time
    ) -> None:
        """Remove at most ``limit`` pending messages that ``selector`` selects.

        Raises:
            InvalidSelectorError: the selector is invalid.
            InvalidDestinationError: the queue does not exist.
        """
        self._scan(destination, selector, limit, self._discarding, observer, now)

    def retry(
        self,
        destination: Destination,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
        lifetime_ms: int = SAME_LIFETIME,
    ) -> None:
        """Return at most ``limit`` selected dead letters to the original destinations (`Retrying`).

        Raises:
            InvalidSelectorError: the selector is invalid.
            InvalidDestinationError: the queue does not exist.
        """
        retrying = Retrying(self._context, self._destinations, self._formats, self._deliveries, lifetime_ms)
        self._scan(destination, selector, limit, retrying, observer, now)

    def transfer(
        self,
        destination: Destination,
        target: Destination,
        keeps: bool,
        selector: str | None,
        observer: OperationObserver,
        limit: int,
        now: Time,
    ) -> None:
        """Move at most ``limit`` selected messages to ``target``, or copy if ``keeps``.

        Raises:
            InvalidSelectorError: the selector is invalid.
            InvalidDestinationError: the queue does not exist.
            JmsError: the target is refused.
        """
        self._context.begin_request(now)
        check_target(destination, target)
        if self._map.queue(destination) is not None:
            self._destinations.ensure_own(target)
        disposal = Transferring(self._formats, self._deliveries, target, keeps)
        self._scan(destination, selector, limit, disposal, observer, now)

    def _scan(
        self,
        destination: Destination,
        selector: str | None,
        limit: int,
        disposal: Disposal,
        observer: OperationObserver,
        now: Time,
    ) -> None:
        queue = self._map.queue(destination)
        if queue is None:
            raise InvalidDestinationError(f"there is no queue {destination.name}")
        chooser = parse_selector(selector) if selector is not None and selector.strip() else None
        self._context.wall_ms = now.wall_ms
        self._context.monotonic = now.monotonic
        values = MessageEvaluationContext(self._formats)
        scan = SelectiveWalk(queue, chooser, limit, disposal, self._unsynced, values, self._context, observer)
        self._context.schedule(scan)


def _name_of(destination: Destination) -> str:
    return destination.name
