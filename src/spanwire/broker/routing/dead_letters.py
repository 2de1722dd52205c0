"""Dead letters: copies of expired or poisoned messages in the queue of their dead letter strategy."""

from __future__ import annotations

import logging
from typing import Final, Protocol

from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext, DeadLetterHandler
from spanwire.broker.dispatch.destination_events import publish_dead_letter, publish_expired
from spanwire.broker.dispatch.history.departures import DEAD_LETTERED, DISCARDED
from spanwire.broker.dispatch.history.departures import EXPIRED as DEPARTED_EXPIRED
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.persistence.reply_queue import WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.deferred_dead_letters import MAX_DETAINED, DeferredDeadLetters
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.ledger import DEAD_LETTERED as LETTER_WAY
from spanwire.model.ledger import DEATH
from spanwire.model.ledger import DISCARDED as DISCARDED_WAY
from spanwire.model.ledger import EXPIRED as EXPIRED_WAY
from spanwire.model.message import Message
from spanwire.model.message_view import INT_VALUE, LONG_VALUE, STRING_VALUE, MessageView

EXPIRED: Final = "expired"
CAUSE: Final = "dlqDeliveryFailureCause"
ORIGINAL_EXPIRATION: Final = "originalExpiration"
ORIGINAL_DELIVERY_MODE: Final = "originalDeliveryMode"
ORIGINAL_REDELIVERY_COUNT: Final = "originalRedeliveryCount"
NON_PERSISTENT: Final = "NON_PERSISTENT"

# verdicts of a rule about a dead message
KEEP: Final = 0  # ask the next rule, and in the end the policy
DROP: Final = 1
LATER: Final = 2  # deliver once more, later

logger = logging.getLogger(__name__)


class DeathRule(Protocol):
    """Decides about dead messages before the policy of the destination."""

    def fate(self, reference: MessageReference, cause: str) -> int:
        """Return `KEEP`, `DROP` or `LATER`. Each message is asked about once."""
        ...

    def deliver_later(self, reference: MessageReference, cause: str) -> bool:
        """Schedule another delivery as one unit in the store.

        Returns:
            False if the delivery cannot be scheduled; the policy then decides.
        """
        ...


class DeadLetters(DeadLetterHandler):
    """Makes and keeps dead letters. A message that dies in its own dead letter queue is removed for good."""

    def __init__(
        self, context: BrokerContext, destinations: Destinations, formats: MessageFormats, unsynced: UnsyncedBytes
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._deferred: Final[dict[Queue, DeferredDeadLetters]] = {}
        self._detained = 0
        self.rules: Final[list[DeathRule]] = []  # the first verdict other than KEEP counts

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Replace a dead message by a copy, if the rules and the policy want a copy.

        The original is in flight at a consumer or just left its queue. The store replaces the original by the copy in
        one unit; while the disk has no room the original stays. Dead advisories leave no copy: their own advisories
        would have no end.
        """
        destination = reference.destination
        if destination.name.is_advisory:
            destination.settle(reference, DISCARDED_WAY)
            return
        for rule in self.rules:
            fate = rule.fate(reference, cause)
            if fate == DROP:
                destination.settle(reference, lost_way(cause))
                self._note_loss(reference, cause)
                self._publish_expired(destination, reference.message, cause)
                return
            if fate == LATER:
                if reference.sequence > 0 and not self._context.store_usage.has_room():
                    assert isinstance(destination, Queue)
                    self._detain(destination, reference, cause)
                    return
                if rule.deliver_later(reference, cause):
                    self._context.count_made(reference.message)
                    return
                break
        if self._send_to_dlq(reference, cause):
            self._publish_expired(destination, reference.message, cause)

    def _send_to_dlq(self, reference: MessageReference, cause: str) -> bool:
        """Apply the policy and return False if the disk has no room yet."""
        destination = reference.destination
        if reference.sequence == 0:
            is_kept = self._keep_transient(reference, cause)
            destination.settle(reference, LETTER_WAY if is_kept else lost_way(cause))
            return True
        if self._target(destination, reference.message, cause) is None:
            destination.settle(reference, lost_way(cause))
            self._note_loss(reference, cause)
            return True
        if not self._context.store_usage.has_room():
            assert isinstance(destination, Queue)
            self._detain(destination, reference, cause)
            return False
        letters = self._letters(reference, cause)
        removals = [(destination.name, reference.sequence)]
        sequences = self._context.units.append_unit(_additions(letters), removals, [], LETTER_WAY)
        destination.forget(reference, LETTER_WAY)
        self._note_letters(reference, cause, letters)
        self._accept(letters, sequences)
        self._publish_dead_letter(destination, reference.message)
        return True

    def is_behind(self) -> bool:
        """Return True if too many bytes wait for the disk; see `DeadLetterHandler.is_behind`."""
        return self._unsynced.is_full()

    def dead_on_arrival(self, destination: MessageHolder, message: Message, cause: str) -> None:
        """Keep a copy of a message expired before arrival at the destination."""
        reference = MessageReference(destination, message, 0, 0, message.redelivery_count)
        if self._is_dropped(reference, cause):
            self._note_loss(reference, cause)
        else:
            self._keep_transient(reference, cause)
        self._publish_expired(destination, message, cause)

    def _keep_transient(self, reference: MessageReference, cause: str) -> bool:
        """Keep a copy of a message without a record in the store; return False if no copy is wanted.

        On a full disk the copy stays in memory only, like the message.
        """
        letters = self._letters(reference, cause)
        if not letters:
            self._note_loss(reference, cause)
            return False
        self._note_letters(reference, cause, letters)
        store = self._context.store
        sequences: list[int] = []
        if store is not None and self._context.store_usage.has_room():
            additions = _additions(letters)
            sequences = self._context.units.append_unit(additions, [], []) if additions else []
        self._accept(letters, sequences)
        self._publish_dead_letter(reference.destination, reference.message)
        return True

    def publish_committed(self, reference: MessageReference, cause: str, has_copy: bool) -> None:
        """Publish the advisories for a dead message after the commit of the transaction.

        ``has_copy`` says that `letters` returned a copy.
        """
        if has_copy:
            self._note(reference, DEAD_LETTERED, cause, self._target(reference.destination, reference.message, cause))
            self._publish_dead_letter(reference.destination, reference.message)
        else:
            self._note_loss(reference, cause)
        self._publish_expired(reference.destination, reference.message, cause)

    def _note_loss(self, reference: MessageReference, cause: str) -> None:
        """Remember a dead message without a dead letter."""
        self._note(reference, DEPARTED_EXPIRED if cause == EXPIRED else DISCARDED, cause, None)

    def _note_letters(self, reference: MessageReference, cause: str, letters: list[WithheldMessage]) -> None:
        self._note(reference, DEAD_LETTERED, cause, letters[0].destination.name if letters else None)

    def _note(self, reference: MessageReference, kind: int, cause: str, target: Destination | None) -> None:
        name = reference.destination.name
        if not name.is_advisory:
            wall_ms, count = self._context.wall_ms, reference.redelivery_count
            self._context.departures.note(reference.message, kind, name, wall_ms, target, count, cause)

    def _publish_dead_letter(self, destination: MessageHolder, message: Message) -> None:
        advisories = self._context.advisories
        if advisories is not None:
            publish_dead_letter(advisories, destination, message)

    def _publish_expired(self, destination: MessageHolder, message: Message, cause: str) -> None:
        advisories = self._context.advisories
        if advisories is not None and cause == EXPIRED:
            publish_expired(advisories, destination, message)

    def letters(self, reference: MessageReference, cause: str) -> list[WithheldMessage]:
        """Return the copies of a dead message, with cause and original destination, for a unit of the caller.

        A copy goes to the dead letter queue, or to the dead letter topic and its durable subscriptions. The list is
        empty if a rule or the policy drops the message. No message is delivered once more here.
        """
        return [] if self._is_dropped(reference, cause) else self._letters(reference, cause)

    def _is_dropped(self, reference: MessageReference, cause: str) -> bool:
        for rule in self.rules:
            fate = rule.fate(reference, cause)
            if fate != KEEP:
                return fate == DROP
        return False

    def _letters(self, reference: MessageReference, cause: str) -> list[WithheldMessage]:
        destination = reference.destination
        target = self._target(destination, reference.message, cause)
        if target is None:
            return []
        strategy = destination.policy.dead_letter
        dead_letter_queue = self._destinations.ensure_dead_letter_destination(
            target, Destination(QUEUE, strategy.queue_name)
        )
        copy = self._copy(reference.message, dead_letter_queue.name, strategy, cause)
        copy.origin = DEATH
        self._context.count_made(copy)
        letters = [WithheldMessage(dead_letter_queue, copy, 0)]
        for queue in dead_letter_queue.durable_queues(copy):
            letters.append(WithheldMessage(queue, copy.twin(), 0))
        return letters

    def _accept(self, letters: list[WithheldMessage], sequences: list[int]) -> None:
        """Hand the copies to their destinations.

        ``sequences`` belong to the copies in queues and durable subscriptions; empty if the store has no copies.
        """
        stored = 0
        for letter in letters:
            destination = letter.destination
            sequence = 0
            if sequences and isinstance(destination, Queue):
                sequence = sequences[stored]
                stored += 1
                self._unsynced.add(letter.message.size)
            destination.accept(letter.message, sequence)

    def room_changed(self) -> None:
        """Continue with the messages waiting for room for dead letters."""
        self._detained = 0
        for destination, deferred in list(self._deferred.items()):
            if destination.removed or len(deferred) == 0:
                del self._deferred[destination]
            else:
                self._detained += len(deferred)
                self._context.schedule(deferred)

    def _detain(self, destination: Queue, reference: MessageReference, cause: str) -> None:
        """Set a message aside until the disk has room.

        Beyond `MAX_DETAINED` a message stays in the store alone and returns with the next start. A poisoned message is
        flagged as redelivered.
        """
        redelivery_count = reference.redelivery_count
        if cause != EXPIRED:
            destination.note_redelivery(reference)
        destination.release(reference.message)
        if self._detained >= MAX_DETAINED:
            return
        self._detained += 1
        if self._detained == 1:
            logger.warning(
                "the disk of the store has no room for dead letters: messages that expired or were given up stay in "
                "their queues until there is; make room"
            )
        elif self._detained == MAX_DETAINED:
            logger.warning(
                "%d messages wait to become dead letters; further ones stay in the store until the next start",
                MAX_DETAINED,
            )
        deferred = self._deferred.get(destination)
        if deferred is None:
            deferred = DeferredDeadLetters(destination, self._context, self)
            self._deferred[destination] = deferred
        deferred.add(reference.sequence, cause, redelivery_count)

    def _target(self, destination: MessageHolder, message: Message, cause: str) -> Destination | None:
        """Return the destination of the copy, None if the policy drops the message."""
        strategy = destination.policy.dead_letter
        if destination.name.is_advisory:
            return None
        if (cause == EXPIRED and not strategy.process_expired) or (
            not message.persistent and not strategy.process_non_persistent
        ):
            return None
        if destination.name.kind == SUBSCRIPTION:
            return strategy.target(message.destination, destination.name.name.partition(":")[2])
        return strategy.target(destination.name)

    def _copy(self, message: Message, target: Destination, strategy: DeadLetterStrategy, cause: str) -> Message:
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            if cause == EXPIRED:  # tools know these words from ActiveMQ
                cause = f"java.lang.Throwable: Message Expired. Expiration:{view.expiration_ms}"
            make_dead_letter(view, message.destination, target, cause, strategy.expiration_ms, self._context.wall_ms)
            return message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message_format.readdressed(message, target)


def lost_way(cause: str) -> int:
    """Return the way out of the ledger of a message that died without a dead letter."""
    return EXPIRED_WAY if cause == EXPIRED else DISCARDED_WAY


def _additions(letters: list[WithheldMessage]) -> list[tuple[Destination, Message]]:
    """Return the copies for the store."""
    additions: list[tuple[Destination, Message]] = []
    for letter in letters:
        if isinstance(letter.destination, Queue):
            additions.append((letter.destination.name, letter.message))
    return additions


def make_dead_letter(
    view: MessageView, destination: Destination, target: Destination, cause: str, lifetime_ms: int, wall_ms: int
) -> None:
    """Turn a message of ``destination`` into a dead letter for ``target``.

    The dead letter lives ``lifetime_ms``, 0 for ever.
    """
    properties = view.properties
    view.original_destination = destination
    view.destination = target
    properties[CAUSE] = (STRING_VALUE, cause)
    if lifetime_ms == 0 or view.expiration_ms > 0:  # an absent property stands for 0
        properties[ORIGINAL_EXPIRATION] = (LONG_VALUE, view.expiration_ms)
    view.expiration_ms = wall_ms + lifetime_ms if lifetime_ms > 0 else 0
    if not view.persistent:
        properties[ORIGINAL_DELIVERY_MODE] = (STRING_VALUE, NON_PERSISTENT)
        view.persistent = True
    if view.redelivery_count > 0:
        properties[ORIGINAL_REDELIVERY_COUNT] = (INT_VALUE, view.redelivery_count)


def restore(view: MessageView, target: Destination, wall_ms: int) -> None:
    """Turn a dead letter into the original message for ``target``.

    The message gets its original delivery mode and a new time to live of the old length; the dead letter properties go.
    """
    properties = view.properties
    properties.pop(CAUSE, None)
    properties.pop(ORIGINAL_REDELIVERY_COUNT, None)
    mode = properties.pop(ORIGINAL_DELIVERY_MODE, None)
    if mode is not None and mode[1] == NON_PERSISTENT:
        view.persistent = False
    entry = properties.pop(ORIGINAL_EXPIRATION, None)
    expiration_ms = entry[1] if entry is not None else 0
    view.expiration_ms = 0
    if isinstance(expiration_ms, int) and expiration_ms > view.timestamp_ms > 0:
        view.expiration_ms = wall_ms + expiration_ms - view.timestamp_ms
    view.timestamp_ms = wall_ms
    view.destination = target
    view.original_destination = None
    view.redelivery_count = 0
