"""Copies of an operator's messages in other destinations: retry, move and copy.

No copy goes to virtual destinations: a message was forwarded to those when it was sent.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.admin.selective_walk import PAGE_MESSAGES, READ_POLL_SECONDS, SLICE_BYTES, Disposal
from spanwire.broker.destinations.destination_map import check_physical
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.departures import MOVED, REMOVED
from spanwire.broker.dispatch.jobs import Alarm
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.queue import Queue
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.routing.dead_letters import CAUSE, restore
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ledger import MOVED_OUT, OPERATOR, PURGED
from spanwire.model.message import Message

SAME_LIFETIME: Final = -1  # a retried message lives as long as it was sent for


class Delivered:
    """A message in its new destination: its sequences there and at its origin, 0 for none in the store.

    ``target`` is a queue, a topic, or a durable subscription of the topic.
    """

    __slots__ = ("message", "original", "sequence", "target")

    def __init__(self, original: MessageReference, target: Destination, message: Message, sequence: int) -> None:
        self.original: Final[MessageReference] = original
        self.target: Final[Destination] = target
        self.message: Final[Message] = message
        self.sequence: Final[int] = sequence


class SliceJournal(Protocol):
    """Records what a slice does, in the unit of the store that does it."""

    def record(self, source: Destination, delivered: list[Delivered], count: int) -> list[MetadataRecord]:
        """Return the records about ``count`` messages of ``source``, ``delivered`` or only removed."""
        ...

    def wants(self, sequence: int) -> bool:
        """Return False if the message of this sequence stays, because the order is not about it."""
        ...

    def has_copied(self, message: Message) -> bool:
        """Return True if ``message`` was copied before the order was continued."""
        ...


class Restraint(Protocol):
    """Holds a transfer back: a rate, and the room at the receiver."""

    def waits(self, alarm: Alarm) -> bool:
        """Return True if the disk does not have the last slice yet; ``alarm`` wakes when it has."""
        ...

    def rest_seconds(self) -> float:
        """Return the seconds until the next slice may begin, 0 for now."""
        ...

    def most(self) -> int:
        """Return the most messages of the next slice."""
        ...

    def note(self, count: int) -> None:
        """Count delivered messages."""
        ...

    def holds(self, message: Message) -> bool:
        """Return True if ``message`` must wait for room at its destination."""
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

    def deliver(
        self,
        messages: list[Message],
        queue: Queue,
        references: list[MessageReference],
        keeps: bool,
        journal: SliceJournal | None = None,
    ) -> None:
        """Store ``messages`` and remove ``references`` of ``queue``, unless ``keeps``, in one unit; dispatch.

        Much content becomes several units, each with the records of its part.
        """
        start = 0
        while start < len(messages):
            end = start + 1
            size: int = messages[start].size
            while end < len(messages) and size + messages[end].size <= SLICE_BYTES:
                size += messages[end].size
                end += 1
            self._deliver(messages[start:end], queue, references[start:end], keeps, journal)
            start = end

    def remove(self, queue: Queue, references: list[MessageReference], journal: SliceJournal | None) -> None:
        """Remove ``references`` of ``queue`` in one unit of the store."""
        removals = [(queue.name, reference.sequence) for reference in references if reference.sequence > 0]
        records = [] if journal is None else journal.record(queue.name, [], len(references))
        if removals or records:
            self._context.units.append_unit([], removals, records, PURGED)
        for reference in references:
            queue.in_flight += 1
            queue.forget(reference, PURGED)
            self._context.departures.note(
                reference.message, REMOVED, queue.name, self._context.wall_ms, None, reference.redelivery_count
            )

    def _deliver(
        self,
        messages: list[Message],
        queue: Queue,
        references: list[MessageReference],
        keeps: bool,
        journal: SliceJournal | None,
    ) -> None:
        targets: list[BrokerDestination] = []
        copies: list[Message] = []
        originals: list[MessageReference] = []
        firsts: list[BrokerDestination] = []
        for index, message in enumerate(messages):
            destination = self._destinations.ensure_own(message.destination)
            firsts.append(destination)
            message.origin = OPERATOR
            durable = destination.durable_queues(message)
            for target in [destination, *durable]:
                targets.append(target)
                copies.append(message.twin() if durable else message)
                originals.append(references[index])
        sequences = self._store(targets, copies, originals, queue, keeps, len(messages), journal)
        if not keeps:
            for index, reference in enumerate(references):
                queue.in_flight += 1
                queue.forget(reference, MOVED_OUT)
                self._context.departures.note(
                    reference.message, MOVED, queue.name, self._context.wall_ms, firsts[index].name,
                    reference.redelivery_count,
                )  # fmt: skip
        for index, target in enumerate(targets):
            target.accept(copies[index], sequences[index])

    def _store(
        self,
        targets: list[BrokerDestination],
        copies: list[Message],
        originals: list[MessageReference],
        queue: Queue,
        keeps: bool,
        count: int,
        journal: SliceJournal | None,
    ) -> list[int]:
        """Return the sequences of the copies, 0 for copies outside the store."""
        has_store = self._context.store is not None
        sequences: list[int] = []
        additions: list[tuple[Destination, Message]] = []
        next_sequences: dict[str, int] = {}
        for index, target in enumerate(targets):
            sequence = 0
            if has_store and target.persists(copies[index]):
                name = target.name.qualified_name
                known = next_sequences.get(name)
                sequence = self._context.units.next_sequence(target.name) if known is None else known
                next_sequences[name] = sequence + 1
                additions.append((target.name, copies[index]))
                self._unsynced.add(copies[index].size)
            sequences.append(sequence)
        removals: list[tuple[Destination, int]] = []
        if not keeps:
            last: MessageReference | None = None
            for reference in originals:
                if reference is not last and reference.sequence > 0:
                    removals.append((queue.name, reference.sequence))
                last = reference
        records: list[MetadataRecord] = []
        if journal is not None:
            delivered = [
                Delivered(originals[index], target.name, copies[index], sequences[index])
                for index, target in enumerate(targets)
            ]
            records = journal.record(queue.name, delivered, count)
        if additions or removals or records:
            stored = self._context.units.append_unit(additions, removals, records, MOVED_OUT)
            added = 0
            for index, sequence in enumerate(sequences):
                if sequence > 0:
                    sequences[index] = stored[added]
                    added += 1
        return sequences


class Delivering(Disposal):
    """Stores selected messages elsewhere. Moved ones leave their queue in the same unit of the store.

    Without a ``restraint`` messages without room stay; with one the transfer waits for room.
    """

    def __init__(self, deliveries: Deliveries, restraint: Restraint | None, journal: SliceJournal | None) -> None:
        self._deliveries: Final[Deliveries] = deliveries
        self._restraint: Final[Restraint | None] = restraint
        self._journal: Final[SliceJournal | None] = journal
        self._must_wait = False

    @property
    def is_blind(self) -> bool:
        """False: each message is stored again."""
        return False

    @property
    def keeps(self) -> bool:
        """False: messages go."""
        return False

    def must_wait(self) -> bool:
        """Return True if the last message has no room yet."""
        return self._must_wait

    def wants(self, sequence: int) -> bool:
        """Return False for messages that the order is not about."""
        return self._journal is None or self._journal.wants(sequence)

    def is_done(self, message: Message) -> bool:
        """Return True for a message that was copied before the order was continued."""
        return self._journal is not None and self._journal.has_copied(message)

    def make(self, message: Message, sequence: int) -> Message | None:
        """Return the message to deliver, None if the message must stay.

        Raises:
            JmsError, ProtocolError: the message cannot be delivered.
        """
        return message

    def prepare(self, message: Message, sequence: int) -> Message | None:
        """Return the message to deliver; None if it must stay, or must wait for room."""
        self._must_wait = False
        restraint = self._restraint
        if restraint is None and not self._deliveries.has_room():
            return None
        try:
            made = self.make(message, sequence)
        except (JmsError, ProtocolError):
            return None
        if made is not None and restraint is not None and restraint.holds(made):
            self._must_wait = True
            return None
        return made

    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Store, remove unless copied, and dispatch."""
        self._deliveries.deliver(prepared, queue, references, self.keeps, self._journal)
        if self._restraint is not None:
            self._restraint.note(len(prepared))

    def waits(self, alarm: Alarm) -> bool:
        """Return True if the restraint waits for the disk."""
        return self._restraint is not None and self._restraint.waits(alarm)

    def rest_seconds(self) -> float:
        """Return a pause if the unsynced bytes are full, or the restraint wants one."""
        if self._deliveries.is_behind():
            return READ_POLL_SECONDS
        return 0.0 if self._restraint is None else self._restraint.rest_seconds()

    def most(self) -> int:
        """Return the messages of one read, or fewer for a low rate."""
        return PAGE_MESSAGES if self._restraint is None else self._restraint.most()


class Transferring(Delivering):
    """Moves or copies selected messages to ``target``."""

    def __init__(
        self,
        formats: MessageFormats,
        deliveries: Deliveries,
        target: Destination,
        keeps: bool,
        restraint: Restraint | None = None,
        journal: SliceJournal | None = None,
    ) -> None:
        super().__init__(deliveries, restraint, journal)
        self._formats: Final[MessageFormats] = formats
        self._target: Final[Destination] = target
        self._keeps: Final[bool] = keeps

    @property
    def keeps(self) -> bool:
        """True for copies."""
        return self._keeps

    def make(self, message: Message, sequence: int) -> Message | None:
        """Return the message with the address of the target."""
        return self._formats.format(message.format_id).readdressed(message, self._target)


class Retrying(Delivering):
    """Returns selected dead letters to the original destinations.

    ``lifetime_ms`` replaces the time to live of the messages, 0 for none; `SAME_LIFETIME` keeps their own. The path
    over brokers begins anew, because a message that is made from its view has none.
    """

    def __init__(
        self,
        context: BrokerContext,
        formats: MessageFormats,
        deliveries: Deliveries,
        lifetime_ms: int,
        restraint: Restraint | None = None,
        journal: SliceJournal | None = None,
    ) -> None:
        super().__init__(deliveries, restraint, journal)
        self._context: Final[BrokerContext] = context
        self._formats: Final[MessageFormats] = formats
        self._lifetime_ms: Final[int] = lifetime_ms

    def make(self, message: Message, sequence: int) -> Message | None:
        """Return the message as first sent.

        Returns:
            None if the message is not a dead letter, and if the original destination is gone or refuses messages of
            clients.
        """
        message_format = self._formats.format(message.format_id)
        view = message_format.view(message)
        target = view.original_destination
        if CAUSE not in view.properties or target is None or target.is_temporary or target == message.destination:
            return None
        if target.is_advisory or is_control(target):  # no message dies there: the property is forged
            return None
        restore(view, target, self._context.wall_ms)
        if PROPERTY in view.properties:  # linked brokers that have accepted this id see so that it is no new send
            view.original_destination = target
        if self._lifetime_ms != SAME_LIFETIME:
            view.expiration_ms = self._context.wall_ms + self._lifetime_ms if self._lifetime_ms > 0 else 0
        check_physical(target)
        return message_format.encode_from_view(view)


def check_target(source: Destination, target: Destination) -> None:
    """Check the destination of a move or copy.

    Raises:
        JmsError: the target is no single destination for clients' messages, or is the source.
    """
    if target.is_pattern or target.is_composite or target.is_temporary or target.is_advisory or is_control(target):
        raise JmsError(f"messages cannot be moved or copied to {target.qualified_name}: name one queue or topic")
    if target == source:
        raise JmsError(f"{target.qualified_name} is the queue that the messages are in")
