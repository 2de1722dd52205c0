"""The possible locations of a message in a broker, and the id for the search."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState, ParkedSend
from spanwire.broker.connections.transaction import Transaction
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.history.departures import Departure
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.exactly_once.cursor import Cursor
from spanwire.broker.queue.queue import Queue
from spanwire.broker.scheduler.schedule import Job
from spanwire.model.destination import Destination
from spanwire.model.ids import ProducerId
from spanwire.model.message import Message

PREFIX: Final = "ID:"


class WantedId:
    """A message id as a user writes it: ActiveMQ's form, or the text of another messaging system."""

    def __init__(self, text: str) -> None:
        self.text: Final[str] = text
        self._bare: Final[str] = text.removeprefix(PREFIX)
        self._producer: ProducerId | None = None
        self._sequence = -1
        parts = text.rsplit(":", 3)
        if len(parts) == 4 and all(_is_number(part) for part in parts[1:]):
            self._producer = ProducerId(parts[0], int(parts[1]), int(parts[2]))
            self._sequence = int(parts[3])

    @property
    def producer(self) -> ProducerId | None:
        """The producer of the id; None for a text of another form."""
        return self._producer

    @property
    def sequence(self) -> int:
        """The number of the message of its producer; -1 for a text of another form."""
        return self._sequence

    def is_of(self, message: Message) -> bool:
        """Return True if ``message`` has this id."""
        return self._fits(message.producer_id, message.sequence, message.text_view)

    def is_of_departure(self, departure: Departure) -> bool:
        """Return True for the departure of the message with the id."""
        first, last = departure.sequence, departure.last_sequence
        within = first < self._sequence <= last  # in a run of messages that nobody wanted
        return self._fits(departure.producer_id, self._sequence if within else first, departure.text_view)

    def _fits(self, producer_id: ProducerId, sequence: int, text_view: str | None) -> bool:
        if text_view is not None:
            return text_view.removeprefix(PREFIX) == self._bare
        return sequence == self._sequence and producer_id == self._producer


def _is_number(text: str) -> bool:
    return 0 < len(text) <= 19 and text.isascii() and text.removeprefix("-").isdigit()


class Location:
    """A location of one message. ``message`` is None if only the departure is known."""

    def __init__(self, message: Message | None) -> None:
        self.message: Final[Message | None] = message


class Pending(Location):
    """A message pending in a queue behind ``ahead`` others.

    The body of a ``paged_out`` message is in the store alone.
    """

    def __init__(self, queue: Queue, reference: MessageReference, ahead: int, paged_out: bool) -> None:
        super().__init__(reference.message)
        self.queue: Final[Queue] = queue
        self.reference: Final[MessageReference] = reference
        self.ahead: Final[int] = ahead
        self.paged_out: Final[bool] = paged_out


class Out(Location):
    """A message at a consumer, unacknowledged."""

    def __init__(self, state: ConnectionState, subscription: Subscription, reference: MessageReference) -> None:
        super().__init__(reference.message)
        self.state: Final[ConnectionState] = state
        self.subscription: Final[Subscription] = subscription
        self.reference: Final[MessageReference] = reference


class ForSubscriber(Location):
    """A message of a topic, waiting for the window of one subscriber, behind ``ahead`` others."""

    def __init__(
        self, state: ConnectionState, subscription: Subscription, reference: MessageReference, ahead: int
    ) -> None:
        super().__init__(reference.message)
        self.state: Final[ConnectionState] = state
        self.subscription: Final[Subscription] = subscription
        self.reference: Final[MessageReference] = reference
        self.ahead: Final[int] = ahead


class Parked(Location):
    """A send waiting for room, behind ``ahead`` others of the connection."""

    def __init__(self, state: ConnectionState, parked: ParkedSend, ahead: int) -> None:
        super().__init__(parked.message)
        self.state: Final[ConnectionState] = state
        self.parked: Final[ParkedSend] = parked
        self.ahead: Final[int] = ahead


class Transacted(Location):
    """A message sent or acknowledged in an open transaction.

    ``state`` is the connection, None for a prepared branch. ``is_send`` tells a send from an acknowledgement.
    """

    def __init__(
        self,
        message: Message,
        transaction: Transaction,
        state: ConnectionState | None,
        destination: Destination,
        is_send: bool,
    ) -> None:
        super().__init__(message)
        self.transaction: Final[Transaction] = transaction
        self.state: Final[ConnectionState | None] = state
        self.destination: Final[Destination] = destination
        self.is_send: Final[bool] = is_send


class Scheduled(Location):
    """A message of a scheduled job, to be delivered later."""

    def __init__(self, message: Message, job: Job) -> None:
        super().__init__(message)
        self.job: Final[Job] = job


class Reserved(Location):
    """A message held by a cursor under ``number``."""

    def __init__(self, message: Message, cursor: Cursor, number: int) -> None:
        super().__init__(message)
        self.cursor: Final[Cursor] = cursor
        self.number: Final[int] = number


class Withheld(Location):
    """A message during the sync to the disk."""

    def __init__(self, message: Message, destination: BrokerDestination) -> None:
        super().__init__(message)
        self.destination: Final[BrokerDestination] = destination


class Gone(Location):
    """A departed message (`spanwire.broker.dispatch.history.departures`)."""

    def __init__(self, departure: Departure) -> None:
        super().__init__(None)
        self.departure: Final[Departure] = departure
