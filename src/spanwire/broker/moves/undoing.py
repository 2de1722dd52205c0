"""Undo: moved messages still at the target go back, and copies are removed."""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.transfers import Deliveries, Delivering, Restraint, SliceJournal
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.moves.move import Move
from spanwire.broker.moves.move_order import COPY, RETRY
from spanwire.broker.moves.moved_runs import Origin
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.dead_letters import make_dead_letter
from spanwire.model.destination import Destination
from spanwire.model.message import Message


class Undoing(Delivering):
    """Returns the messages of ``undone`` from ``location``, a target, to the sources."""

    def __init__(
        self,
        context: BrokerContext,
        destinations: Destinations,
        formats: MessageFormats,
        deliveries: Deliveries,
        undone: Move,
        location: Destination,
        restraint: Restraint,
        journal: SliceJournal,
    ) -> None:
        super().__init__(deliveries, restraint, journal)
        self._context: Final[BrokerContext] = context
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._undone: Final[Move] = undone
        self._location: Final[Destination] = location

    def wants(self, sequence: int) -> bool:
        """Return True for messages of the undone move; messages outside of the store are looked at."""
        runs = self._undone.runs
        return runs.has_transient if sequence == 0 else runs.holds(self._location, sequence)

    def make(self, message: Message, sequence: int) -> Message | None:
        """Return the message in the form at the source; a copy unchanged."""
        runs = self._undone.runs
        origin = (
            runs.origin(self._location, sequence) if sequence > 0 else runs.transient_origin(self._location, message)
        )
        if origin is None:
            return None
        verb = self._undone.order.verb
        if verb == COPY:
            return message
        if verb == RETRY:
            return self._letter(message, origin)
        return self._formats.format(message.format_id).readdressed(message, origin.source, False)

    def _letter(self, message: Message, origin: Origin) -> Message:
        """Return a dead letter with the cause of death from before the retry."""
        message_format = self._formats.format(message.format_id)
        view = message_format.view(message)
        strategy = self._destinations.ensure_own(message.destination).policy.dead_letter
        make_dead_letter(
            view, message.destination, origin.source, origin.cause, strategy.expiration_ms, self._context.wall_ms
        )
        return message_format.encode_from_view(view)

    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Store at the source and remove at the target in one unit; copies are only removed."""
        if self._undone.order.verb != COPY:
            super().dispose(queue, references, prepared)
            return
        self._deliveries.remove(queue, references, self._journal)
        if self._restraint is not None:
            self._restraint.note(len(references))
