"""Operations on the messages of a queue: removal of selected messages, retry of dead letters.

An operation scans the messages pending at the moment of the call, in memory and on the disk, in slices. Messages in
flight and later messages stay. An operator needs no rights.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.selective_walk import (
    READ_POLL_SECONDS,
    REMOVAL_BYTES,
    Disposal,
    OperationObserver,
    SelectiveWalk,
)
from spanwire.broker.admin.transfers import SAME_LIFETIME, Deliveries, Retrying, Transferring, check_target
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.history.departures import REMOVED as REMOVED_BY_OPERATOR
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.queue.queue import Queue
from spanwire.broker.topic.durable_subscription import SubscriptionTerms
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import InvalidDestinationError
from spanwire.model.ledger import PURGED
from spanwire.model.message import Message
from spanwire.selector.parser import parse_selector


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

    def prepare(self, message: Message, sequence: int) -> Message | None:
        """Return the message."""
        return message

    def dispose(self, queue: Queue, references: list[MessageReference], prepared: list[Message]) -> None:
        """Remove the messages from memory and store."""
        for reference in references:
            if reference.sequence > 0:
                self._unsynced.add(REMOVAL_BYTES)
            queue.discard(reference, PURGED)
            self._context.departures.note(
                reference.message, REMOVED_BY_OPERATOR, queue.name, self._context.wall_ms, None,
                reference.redelivery_count,
            )  # fmt: skip

    def rest_seconds(self) -> float:
        """Return a pause if removals use half of the unsynced bytes; the other half is for sends."""
        return READ_POLL_SECONDS if self._unsynced.is_half_full() else 0.0


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
        retrying = Retrying(self._context, self._formats, self._deliveries, lifetime_ms)
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
