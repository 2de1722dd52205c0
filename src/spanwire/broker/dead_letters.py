"""What becomes of messages that expired or that a consumer gave up on: a copy in the queue their policy names."""

from __future__ import annotations

from typing import Final

from spanwire.broker.context import BrokerContext, DeadLetterOffice
from spanwire.broker.destinations import Destinations
from spanwire.broker.formats import MessageFormats
from spanwire.broker.queue import Queue
from spanwire.broker.reference import MessageReference
from spanwire.broker.unstored import Unstored
from spanwire.broker.waiting import WithheldMessage
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import INT_VALUE, LONG_VALUE, STRING_VALUE, MessageView

EXPIRED: Final = "expired"
POISONED: Final = "the consumer gave up on the message"
CAUSE: Final = "dlqDeliveryFailureCause"
ORIGINAL_EXPIRATION: Final = "originalExpiration"
ORIGINAL_DELIVERY_MODE: Final = "originalDeliveryMode"
ORIGINAL_REDELIVERY_COUNT: Final = "originalRedeliveryCount"
NON_PERSISTENT: Final = "NON_PERSISTENT"


class DeadLetters(DeadLetterOffice):
    """Makes and keeps dead letters. A message that dies in its dead letter queue is gone: it does not go round."""

    def __init__(
        self, context: BrokerContext, destinations: Destinations, formats: MessageFormats, unstored: Unstored
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._destinations: Final[Destinations] = destinations
        self._formats: Final[MessageFormats] = formats
        self._unstored: Final[Unstored] = unstored

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Keep a copy if the policy wants one; the caller removes the original afterwards, never before."""
        letter = self.letter(reference, cause)
        if letter is None:
            return
        queue = letter.home
        assert isinstance(queue, Queue)
        sequence = 0
        store = self._context.store
        if store is not None:
            sequence = store.append(queue.destination, letter.message)
            self._unstored.add(letter.message.size)
        queue.accept(letter.message, sequence)

    def letter(self, reference: MessageReference, cause: str) -> WithheldMessage | None:
        """The copy with its cause and original destination, and the queue for it; None if the policy lets it go."""
        home = reference.home
        message = reference.message
        strategy = home.policy.dead_letter
        died_in = home.destination if home.destination.kind != SUBSCRIPTION else message.destination
        target = strategy.target(died_in)
        if target is None or (cause == EXPIRED and not strategy.process_expired):
            return None
        if not message.persistent and not strategy.process_non_persistent:
            return None
        queue = self._destinations.ensure_letters(target, Destination(QUEUE, strategy.queue_name))
        return WithheldMessage(queue, self._copy(message, queue.destination, cause), 0)

    def _copy(self, message: Message, target: Destination, cause: str) -> Message:
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            view.original_destination = message.destination
            view.destination = target
            if cause == EXPIRED:  # in the words that tools know from ActiveMQ
                cause = f"java.lang.Throwable: Message Expired. Expiration:{view.expiration_ms}"
            view.properties[CAUSE] = (STRING_VALUE, cause)
            view.properties[ORIGINAL_EXPIRATION] = (LONG_VALUE, view.expiration_ms)
            view.expiration_ms = 0
            if not view.persistent:
                view.properties[ORIGINAL_DELIVERY_MODE] = (STRING_VALUE, NON_PERSISTENT)
                view.persistent = True
            if view.redelivery_count > 0:
                view.properties[ORIGINAL_REDELIVERY_COUNT] = (INT_VALUE, view.redelivery_count)
            return message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message_format.readdressed(message, target)


def restore(view: MessageView, target: Destination, wall_ms: int) -> None:
    """Make of a dead letter what was sent first, to ``target``: its delivery mode as it was, its time to live from now
    on, no trace of its way and its death.
    """
    properties = view.properties
    properties.pop(CAUSE, None)
    properties.pop(ORIGINAL_REDELIVERY_COUNT, None)
    mode = properties.pop(ORIGINAL_DELIVERY_MODE, None)
    if mode is not None and mode[1] == NON_PERSISTENT:
        view.persistent = False
    entry = properties.pop(ORIGINAL_EXPIRATION, None)
    expiration_ms = entry[1] if entry is not None else 0
    if isinstance(expiration_ms, int) and expiration_ms > view.timestamp_ms > 0:
        view.expiration_ms = wall_ms + expiration_ms - view.timestamp_ms
    view.timestamp_ms = wall_ms
    view.destination = target
    view.original_destination = None
    view.redelivery_count = 0
