"""Requests for cursors: opening, reservation, acknowledgement and release.

Each answer reports changes already passed to the store; the caller sends the answer after the sync. Time changes no
cursor: reserved messages stay reserved until the program or an operator releases them.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Final

from mypy_extensions import trait

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.exactly_once.cursor import ACKNOWLEDGED, RESERVED, RETURNED, Cursor, with_past
from spanwire.broker.exactly_once.cursor_table import CursorTable
from spanwire.broker.exactly_once.reservations.reservation import Reservation, put_back
from spanwire.broker.exactly_once.reservations.reserved_messages import MAX_RESERVED, ReservedMessages
from spanwire.broker.exactly_once.reservations.search import Search, SearchFollower
from spanwire.broker.metadata import MetadataRecord, check_metadata
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import LIMIT, MALFORMED, UNAVAILABLE, UNKNOWN, ControlRefusal, refusal
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.topic.durable_subscription import subscription_key
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.selector.cache import SelectorCache

REMOVAL_BYTES: Final = 16  # unsynced bytes of one removal in a unit

logger = logging.getLogger(__name__)


@trait
class CursorFollower:
    """Takes what was reserved for a request that had to wait for a search."""

    @abstractmethod
    def on_reserved(self, cursor: Cursor, has_room: bool) -> None:
        """Take the end of a search. Without ``has_room`` the store had no room, and the cursor holds nothing."""


class Cursors(SearchFollower):
    """Carries out the requests of programs. `Control` decodes them, `CursorTable` finds cursors and checks rights."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        table: CursorTable,
        unsynced: UnsyncedBytes,
        flow: FlowControl,
        values: MessageEvaluationContext,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self.table: Final[CursorTable] = table
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._flow: Final[FlowControl] = flow
        self._values: Final[MessageEvaluationContext] = values
        self._selectors: Final[SelectorCache] = SelectorCache()
        self.follower: CursorFollower | None = None  # answers the requests that wait for a search

    def open_on_queue(
        self, state: ConnectionState, name: str, queue: Destination, run: str, exclusive: bool, selector: str
    ) -> Cursor:
        """Create the cursor ``name`` or take the cursor over for ``run``.

        ``selector`` chooses the messages, empty for all. Only a released cursor may get another one.

        Raises:
            JmsError: the request is refused.
        """
        self._check_store()
        if queue.kind != QUEUE or queue.is_pattern or queue.is_composite:
            raise refusal(MALFORMED, f"a cursor reads one queue that is not temporary; {queue} is none")
        self.table.check(state, queue)
        if selector:
            self._selectors.parse(selector)
        cursor = self.table.known(state, name, queue)
        if cursor is None:
            cursor = Cursor(name, queue, queue.qualified_name, exclusive)
        elif selector != cursor.selector and not cursor.released:
            has = f"the selector {cursor.selector[:80]}" if cursor.selector else "no selector"
            raise refusal(
                MALFORMED,
                f"cursor {name} of {cursor.shown} has {has}, not {selector[:80] or 'none'}: release it first, or "
                "choose another name",
            )
        source = cursor.source
        if source is None:
            destination = self._destinations.ensure(state, queue)
            assert isinstance(destination, Queue)
            source = destination
        return self._opened(state, cursor, source, run, exclusive, selector)

    def open_on_subscription(
        self,
        state: ConnectionState,
        name: str,
        client_id: str,
        subscription: str,
        run: str,
        exclusive: bool,
        selector: str,
    ) -> Cursor:
        """Create a cursor on a durable subscription, or take the cursor over for ``run``.

        ``selector`` is the one that the subscription must have, empty for any: it chose the messages as they came.

        Raises:
            JmsError: the request is refused.
        """
        self._check_store()
        source = Destination(SUBSCRIPTION, subscription_key(client_id, subscription))
        durable = self._map.durables.get(source.name)
        if durable is None:
            raise refusal(UNKNOWN, f"client {client_id} has no durable subscription {subscription}: subscribe first")
        self.table.check(state, source)
        if selector and selector != durable.terms.selector:
            has = f"the selector {durable.terms.selector[:80]}" if durable.terms.selector else "no selector"
            raise refusal(
                MALFORMED,
                f"the durable subscription {subscription} of client {client_id} has {has}, not {selector[:80]}: "
                "subscribe with that one before the cursor is opened",
            )
        cursor = self.table.known(state, name, source)
        if cursor is None:
            cursor = Cursor(name, source, f"{durable.terms.topic} ({client_id}, {subscription})", exclusive)
        queue = cursor.source
        if queue is None:
            queue = durable.queue
        cursor.selector = durable.terms.selector or ""
        return self._opened(state, cursor, queue, run, exclusive, cursor.selector)

    def _opened(
        self, state: ConnectionState, cursor: Cursor, queue: Queue, run: str, exclusive: bool, selector: str
    ) -> Cursor:
        """Open a cursor. All checks precede the assignment of the queue: a released cursor keeps no queue in use."""
        self._check_store()
        _settle(cursor)
        if run == cursor.run:
            if cursor.released:
                raise cursor.fenced(f"run {run}")
            return cursor
        if run in cursor.past_runs:
            raise cursor.fenced(f"run {run}")
        others = [other for other in self.table.of(queue) if other is not cursor]
        if others and (exclusive or others[0].exclusive):
            raise refusal(LIMIT, f"cursor {others[0].name} reads {cursor.shown} already: one of both is exclusive")
        after = Cursor(cursor.name, cursor.destination, cursor.shown, exclusive)
        after.epoch = cursor.epoch + 1
        after.past_runs = with_past(cursor.run, cursor.past_runs)
        after.run = run
        after.user = state.principal.name
        after.selector = selector
        after.reserved = cursor.reserved
        metadata_record = _fitting(after)
        self.table.add(cursor, metadata_record)
        if cursor.released or cursor.epoch == 0:
            queue.cursors += 1
            queue.visitors += 1
        cursor.source = queue
        cursor.epoch = after.epoch
        cursor.past_runs = after.past_runs
        cursor.run = run
        cursor.user = after.user
        cursor.selector = selector
        cursor.released = False
        cursor.exclusive = exclusive
        queue.reserve(exclusive)
        return cursor

    def reserve(
        self, state: ConnectionState, name: str, epoch: int, at_most: int, at_most_bytes: int, acknowledged: int
    ) -> Cursor:
        """Acknowledge all numbers below ``acknowledged`` (-1: none), then reserve more messages.

        With a selector the search for these messages begins; `CursorFollower.on_reserved` tells its end. A search that
        was under way for an earlier request ends before.

        Args:
            at_most: messages reserved in all.
            at_most_bytes: approximate bytes reserved in all, 0 for any number.
        """
        self._check_store()
        cursor = self.table.current(state, name, epoch)
        if not 0 <= at_most <= MAX_RESERVED:
            raise refusal(LIMIT, f"a cursor holds at most {MAX_RESERVED} messages, not {at_most}")
        _settle(cursor)
        if acknowledged >= 0:
            self._acknowledge(cursor, acknowledged)
        queue = cursor.source
        assert queue is not None
        if queue.removed:
            raise refusal(UNKNOWN, f"{cursor.shown} of cursor {name} was removed: release the cursor")
        reservation = Reservation(queue, cursor.reserved, self._context, self._unsynced, self._flow)
        if cursor.searches:
            self._search_of(cursor, queue).begin(reservation, at_most, at_most_bytes)
            return cursor
        before = cursor.reserved.end
        if not queue.paused and reservation.take(at_most, at_most_bytes) > 0:
            self._show(RESERVED, cursor, before, cursor.reserved.end)
            self.table.put(cursor.metadata_record())
        elif not reservation.has_room and len(cursor.reserved) == 0:
            raise no_room(cursor)
        return cursor

    def _search_of(self, cursor: Cursor, queue: Queue) -> Search:
        search = cursor.search
        if search is None:
            selector = self._selectors.parse(cursor.selector)
            search = Search(cursor.name, queue, selector, self._values, self._context, self)
            cursor.search = search
        return search

    def on_searched(self, name: str, first: int, has_room: bool) -> None:
        """Record what a search has reserved, and have its request answered."""
        cursor = self.table.get(name)
        if cursor.reserved.end > first:
            self._show(RESERVED, cursor, max(first, cursor.reserved.first), cursor.reserved.end)
            self.table.put(cursor.metadata_record())
        if self.follower is not None:
            self.follower.on_reserved(cursor, has_room or len(cursor.reserved) > 0)

    def acknowledge(self, state: ConnectionState, name: str, epoch: int, end: int) -> Cursor:
        """Remove all messages below the number ``end``."""
        self._check_store()
        cursor = self.table.current(state, name, epoch)
        _settle(cursor)
        self._acknowledge(cursor, end)
        return cursor

    def release(self, state: ConnectionState, name: str, epoch: int) -> int:
        """End a cursor and return the reserved messages to the queue.

        Returns:
            The number of returned messages.
        """
        self._check_store()
        cursor = self.table.find(state, name)
        if cursor.released and epoch == cursor.epoch - 1:
            return 0  # a repeated request
        cursor.check_epoch(epoch)
        _settle(cursor)
        reserved = cursor.reserved
        count = len(reserved)
        after = Cursor(cursor.name, cursor.destination, cursor.shown, cursor.exclusive)
        after.epoch = cursor.epoch + 1
        after.past_runs = cursor.past_runs
        after.run = cursor.run
        after.user = cursor.user
        after.released = True
        after.selector = cursor.selector
        after.reserved = ReservedMessages(reserved.end)
        self.table.put(_fitting(after))
        self._show(RETURNED, cursor, reserved.first, reserved.end)
        cursor.reserved = after.reserved
        cursor.epoch = after.epoch
        cursor.released = True
        queue = cursor.source
        assert queue is not None
        queue.cursors -= 1
        queue.visitors -= 1
        if cursor.search is not None:
            cursor.search.close()
            cursor.search = None
        if not queue.removed:
            put_back(queue, reserved, self._context)
            queue.reserve(False)
        cursor.source = None
        logger.info("cursor %s of %s: released at epoch %d with %d messages", name, cursor.shown, epoch, count)
        return count

    def _check_store(self) -> None:
        if self._context.store is None:
            raise refusal(UNAVAILABLE, "this broker keeps nothing: cursors and sinks need one with persistent=true")

    def _acknowledge(self, cursor: Cursor, end: int) -> None:
        reserved = cursor.reserved
        if end <= reserved.first:
            return  # a repeated request
        cursor.check_range(reserved.first, end)
        queue = cursor.source
        assert queue is not None
        count = end - reserved.first
        removals = [(cursor.destination, sequence) for sequence in reserved.part(reserved.first, end)]
        self._context.units.append_unit([], removals, [cursor.metadata_record(count)])
        self._unsynced.add(REMOVAL_BYTES * count)
        queue.in_flight -= count
        self._show(ACKNOWLEDGED, cursor, reserved.first, end)
        for sequence in reserved.drop(end):
            queue.note_removed(sequence)

    def _show(self, step: str, cursor: Cursor, start: int, end: int) -> None:
        """Show messages of a cursor to an operator who follows some."""
        follower, source = self._context.follower, cursor.source
        if follower is not None and source is not None:
            follower.cursor_step(step, cursor.name, source.name, cursor.reserved.part(start, end), start)


def no_room(cursor: Cursor) -> ControlRefusal:
    """Return the refusal for a cursor whose messages have no room in the store."""
    return refusal(LIMIT, f"the store has no room for what is not persistent in {cursor.shown}: ask again later")


def _settle(cursor: Cursor) -> None:
    """End a search that is under way with what was found, so that its request is answered first."""
    if cursor.search is not None:
        cursor.search.finish()


def _fitting(after: Cursor) -> MetadataRecord:
    """Return the new record of a cursor.

    Raises:
        ResourceAllocationError: the record is too large.
    """
    metadata_record = after.metadata_record()
    assert metadata_record.value is not None
    check_metadata(metadata_record.key, metadata_record.value)
    return metadata_record
