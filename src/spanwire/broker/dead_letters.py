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
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message
from spanwire.model.message_view import INT_VALUE, LONG_VALUE, STRING_VALUE

EXPIRED: Final = "expired"
POISONED: Final = "the consumer gave up on the message"


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
        target = strategy.target(home.destination)
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
            view.properties["dlqDeliveryFailureCause"] = (STRING_VALUE, cause)
            view.properties["originalExpiration"] = (LONG_VALUE, view.expiration_ms)
            view.expiration_ms = 0
            if not view.persistent:
                view.properties["originalDeliveryMode"] = (STRING_VALUE, "NON_PERSISTENT")
                view.persistent = True
            if view.redelivery_count > 0:
                view.properties["originalRedeliveryCount"] = (INT_VALUE, view.redelivery_count)
            return message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message_format.readdressed(message, target)
