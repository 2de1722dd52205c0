"""Copies of an operator's messages in other destinations: retry, move and copy.

No copy goes to virtual destinations: a message was forwarded to those when it was sent.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.departures import MOVED
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.queue import Queue
from spanwire.broker.reserved_destinations import is_control
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message


class Disposal(Protocol):
    """Action on a selected message. A blind action needs no knowledge of the message."""

    @property
    def is_blind(self) -> bool:
        """True if the action is the same for every message, read or unread."""
        ...

    @property
    def keeps(self) -> bool:
        """True if the message stays in its queue."""
        ...

    def prepare(self, message: Message) -> Message | None:
        """Return the message in the form for `dispose`, None if the message must stay."""
        ...

    def dispose(self, queue: Queue, reference: MessageReference, prepared: Message) -> None:
        """Act on ``reference`` after the removal from the pending list of ``queue``, unless the action `keeps` it."""
        ...

    def is_behind(self) -> bool:
        """Return True if the disk must catch up first."""
        ...


class Deliveries:
    """Delivers messages of an operator to their destinations and the durable subscriptions there."""

    def __init__(self, context: BrokerContext, destinations: Destinations, unsynced: UnsyncedBytes) -> None:
        self._context: Final[BrokerContext] = context
        self._destinations: Final[Destinations] = destinations
        self._unsynced: Final[UnsyncedBytes] = unsynced

    def has_room(self) -> bool:
        """Return True if the disk has room."""
        return self._context.store_usage.has_room()

    def is_behind(self) -> bool:
        """Return True if the unsynced bytes are full: each message is stored again."""
        return self._unsynced.is_full()

    def deliver(self, message: Message, queue: Queue, reference: MessageReference, keeps: bool) -> None:
        """Store ``message`` and, unless ``keeps``, remove ``reference`` of ``queue`` in one unit, then dispatch."""
        destination = self._destinations.ensure_own(message.destination)
        targets: list[BrokerDestination] = [destination, *destination.durable_queues(message)]
        copies: list[Message] = []
        for _ in targets:
            copies.append(message if len(targets) == 1 else message.twin())
        removals = [(queue.name, reference.sequence)] if reference.sequence > 0 and not keeps else []
        sequences = self._store(targets, copies, removals)
        if not keeps:
            queue.in_flight += 1
            queue.forget(reference)
            self._context.departures.note(
                reference.message, MOVED, queue.name, self._context.wall_ms, destination.name,
                reference.redelivery_count,
            )  # fmt: skip
        for index, target in enumerate(targets):
            target.accept(copies[index], sequences[index])

    def _store(
        self, targets: list[BrokerDestination], copies: list[Message], removals: list[tuple[Destination, int]]
    ) -> list[int]:
        """Return the sequences of the copies, 0 for copies outside the store."""
        sequences = [0 for _ in targets]
        store = self._context.store
        if store is None:
            return sequences
        additions: list[tuple[Destination, Message]] = []
        indexes: list[int] = []
        for index, target in enumerate(targets):
            if target.persists(copies[index]):
                additions.append((target.name, copies[index]))
                indexes.append(index)
                self._unsynced.add(copies[index].size)
        if additions:
            for index, sequence in zip(indexes, self._context.units.append_unit(additions, removals, []), strict=True):
                sequences[index] = sequence
        else:
            for name, sequence in removals:
                store.remove(name, sequence)
        return sequences


class Transferring(Disposal):
    """Moves or copies selected messages to ``target``."""

    def __init__(self, formats: MessageFormats, deliveries: Deliveries, target: Destination, keeps: bool) -> None:
        self._formats: Final[MessageFormats] = formats
        self._deliveries: Final[Deliveries] = deliveries
        self._target: Final[Destination] = target
        self._keeps: Final[bool] = keeps

    @property
    def is_blind(self) -> bool:
        """False: each message is stored again."""
        return False

    @property
    def keeps(self) -> bool:
        """True for copies."""
        return self._keeps

    def prepare(self, message: Message) -> Message | None:
        """Return the message with the address of the target; None while the disk has no room."""
        if not self._deliveries.has_room():
            return None
        try:
            return self._formats.format(message.format_id).readdressed(message, self._target)
        except (JmsError, ProtocolError):
            return None

    def dispose(self, queue: Queue, reference: MessageReference, prepared: Message) -> None:
        """Store, remove unless copied, and dispatch."""
        self._deliveries.deliver(prepared, queue, reference, self._keeps)

    def is_behind(self) -> bool:
        """Return True if the unsynced bytes are full."""
        return self._deliveries.is_behind()


def check_target(source: Destination, target: Destination) -> None:
    """Check the destination of a move or copy.

    Raises:
        JmsError: the target is no single destination for clients' messages, or is the source.
    """
    if target.is_pattern or target.is_composite or target.is_temporary or target.is_advisory or is_control(target):
        raise JmsError(f"messages cannot be moved or copied to {target.qualified_name}: name one queue or topic")
    if target == source:
        raise JmsError(f"{target.qualified_name} is the queue that the messages are in")
