"""All cursors of a broker by name, their rights and records, and their recovery after a restart."""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.xa_branch import without
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.exactly_once.cursor import Cursor, decode_cursor
from spanwire.broker.exactly_once.reservations.reserved_messages import ReservedMessages
from spanwire.broker.metadata import CURSORS, MetadataRecord
from spanwire.broker.persistence.recovered import Expirations, RecoveredDestination
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import ADMIN
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import LIMIT, MALFORMED, UNKNOWN, refusal
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import SUBSCRIPTION, Destination
from spanwire.model.message import DEFAULT_PRIORITY

MAX_CURSORS: Final = 1_000  # cursors of one broker, including released cursors
LIGHT_RESERVED: Final = 1_000  # reserved messages of a cursor that may change while the disk is behind: some 50 KiB
PRIORITIES: Final = 10

logger = logging.getLogger(__name__)


class CursorTable:
    """Finds cursors for connections with the right to them."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        access: AccessControl,
        unsynced: UnsyncedBytes,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._access: Final[AccessControl] = access
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._cursors: Final[dict[str, Cursor]] = {}

    def known(self, state: ConnectionState, name: str, source: Destination) -> Cursor | None:
        """Return the cursor ``name``, None if unknown, and refuse another source than ``source``.

        A user without admin rights on the cursor's source does not learn the source.
        """
        known = self._cursors.get(name)
        if known is not None:
            self.check(state, known.destination)
            if known.destination != source:
                raise refusal(MALFORMED, f"cursor {name} reads {known.shown}, and no other; choose another name")
        return known

    def find(self, state: ConnectionState, name: str) -> Cursor:
        """Return a cursor. A user without admin rights on the source does not learn the cursor's state."""
        cursor = self._cursors.get(name)
        if cursor is None:
            raise refusal(UNKNOWN, f"there is no cursor {name}: open it")
        self.check(state, cursor.destination)
        return cursor

    def current(self, state: ConnectionState, name: str, epoch: int) -> Cursor:
        """Return the cursor ``name``; refuse another epoch than the current one."""
        cursor = self.find(state, name)
        if epoch > cursor.epoch:
            raise refusal(MALFORMED, f"cursor {name} is at epoch {cursor.epoch}: there is no epoch {epoch} yet")
        cursor.check_epoch(epoch)
        return cursor

    def readable(self, state: ConnectionState, name: str, epoch: int, start: int, end: int) -> Cursor:
        """Return the cursor if the connection may read the numbers from ``start`` up to ``end`` now."""
        cursor = self.current(state, name, epoch)
        cursor.check_range(start, end)
        return cursor

    def of(self, queue: Queue) -> list[Cursor]:
        """Return the cursors of ``queue`` that are not released."""
        return [cursor for cursor in self._cursors.values() if cursor.source is queue and not cursor.released]

    def all(self) -> list[Cursor]:
        """Return all cursors that are not released, for an operator."""
        return [cursor for cursor in self._cursors.values() if not cursor.released]

    def rows(self, state: ConnectionState | None, name: str) -> list[dict[str, object]]:
        """Return rows of all cursors, or of cursor ``name``, within the rights of a connection, if any."""
        cursors = [cursor for cursor in self._cursors.values() if not name or cursor.name == name]
        return [cursor.row() for cursor in cursors if state is None or self._may_see(state, cursor)]

    def is_light(self, name: str) -> bool:
        """Return True if a change of the cursor writes little.

        Few messages are reserved, or no such cursor exists.
        """
        cursor = self._cursors.get(name)
        return cursor is None or len(cursor.reserved) <= LIGHT_RESERVED

    def check(self, state: ConnectionState, source: Destination) -> None:
        """Refuse a connection without admin rights on ``source``."""
        for destination in self._judged(source):
            if not self._access.may_all(state.principal, ADMIN, destination):
                self._access.refuse(state, f"administer: {destination}", " (cursors need that)")

    def _may_see(self, state: ConnectionState, cursor: Cursor) -> bool:
        return all(self._access.may_all(state.principal, ADMIN, one) for one in self._judged(cursor.destination))

    def _judged(self, source: Destination) -> list[Destination]:
        """Return the destinations whose rights apply to a cursor.

        These are the queue, or the topics of the subscription.
        """
        if source.kind != SUBSCRIPTION:
            return [source]
        durable = self._map.durables.get(source.name)
        return [source] if durable is None else durable.terms.topic.parts()

    def get(self, name: str) -> Cursor:
        """Return the cursor ``name``, which exists."""
        return self._cursors[name]

    def add(self, cursor: Cursor, metadata_record: MetadataRecord) -> None:
        """Store the record of a cursor, and list the cursor if it is new.

        Raises:
            ControlRefusal: the table is full.
        """
        if cursor.name not in self._cursors:
            self._make_room()
        self.put(metadata_record)
        self._cursors[cursor.name] = cursor

    def _make_room(self) -> None:
        """Forget the oldest released cursor if the table is full: released cursors serve only for refusals."""
        if len(self._cursors) < MAX_CURSORS:
            return
        for cursor in self._cursors.values():
            if cursor.released:
                del self._cursors[cursor.name]
                self._context.metadata.discard_metadata(CURSORS, cursor.name.encode("utf-8"))
                return
        raise refusal(LIMIT, f"the broker has {MAX_CURSORS} cursors already: release those that nobody needs")

    def put(self, metadata_record: MetadataRecord) -> None:
        """Store the record of a cursor."""
        assert metadata_record.value is not None
        self._context.metadata.put_metadata(metadata_record.table, metadata_record.key, metadata_record.value)
        self._unsynced.add(len(metadata_record.value))

    def recover(
        self, metadata: dict[bytes, bytes], recovered: list[RecoveredDestination]
    ) -> list[RecoveredDestination]:
        """Restore cursors from their records.

        Returns:
            The recovered destinations without reserved messages.

        Raises:
            StoreError: a record cannot be decoded.
        """
        if not metadata:
            return recovered
        by_source: dict[str, list[Cursor]] = {}
        for key, value in metadata.items():
            cursor = decode_cursor(key, value)
            self._cursors[cursor.name] = cursor
            by_source.setdefault(cursor.destination.qualified_name, []).append(cursor)
        return [self._leave(entry, by_source.get(entry.destination.qualified_name, [])) for entry in recovered]

    def _leave(self, entry: RecoveredDestination, cursors: list[Cursor]) -> RecoveredDestination:
        """Return ``entry`` without the messages of ``cursors``.

        These messages precede all others in dispatch order.
        """
        if not cursors:
            return entry
        there = set(entry.sequences)
        dues = dict(zip(entry.expirations.sequences, entry.expirations.wall_ms, strict=True))
        gone: set[int] = set()
        for cursor in cursors:
            for sequence in cursor.recovered:
                if sequence not in there:
                    logger.error(
                        "cursor %s: message %d of %s is missing in the store, and is left out",
                        cursor.name,
                        sequence,
                        entry.destination,
                    )
                priority = entry.priorities.get(sequence, DEFAULT_PRIORITY)
                list_index = PRIORITIES - 1 - min(max(priority, 0), PRIORITIES - 1)
                cursor.reserved.add(sequence, self._context.next_order(), list_index, dues.get(sequence, 0))
                gone.add(sequence)
        return RecoveredDestination(
            entry.destination,
            without(entry.sequences, gone),
            entry.redeliveries,
            entry.priorities,
            Expirations(entry.expirations.sequences, entry.expirations.wall_ms),
        )

    def count_held(self) -> None:
        """Count reserved messages as in flight, once all queues and subscriptions exist."""
        for cursor in self._cursors.values():
            if cursor.released:
                continue
            queue = self._source_of(cursor.destination)
            if queue is None:
                logger.error(
                    "cursor %s: %s is missing in the store, so the cursor is ended: stop the broker and run spanwire "
                    "store check, then start the query with another checkpointLocation",
                    cursor.name,
                    cursor.shown,
                )
                cursor.released = True
                cursor.reserved = ReservedMessages(cursor.reserved.end)
                continue
            cursor.source = queue
            queue.cursors += 1
            queue.visitors += 1
            queue.note_reserved(len(cursor.reserved))
            queue.reserve(cursor.exclusive)

    def _source_of(self, source: Destination) -> Queue | None:
        if source.kind != SUBSCRIPTION:
            return self._destinations.recovered(source)
        durable = self._map.durables.get(source.name)
        return None if durable is None else durable.queue
