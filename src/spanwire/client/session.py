"""What the tools say to a broker: one session with producers, consumers and local transactions, as OpenWire commands.

Nothing here waits; every method gives the command to send. `spanwire.client.blocking` sends them.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.acks import LAST_DELIVERED_UNSET, STANDARD_ACK
from spanwire.model.destination import Destination
from spanwire.model.errors import RemoteProtocolError
from spanwire.model.message_view import BYTES, TEXT
from spanwire.protocols.openwire import _marshallers as wire
from spanwire.protocols.openwire.identities import wire_destination
from spanwire.protocols.openwire.message_body import neutral_body, wire_content

BEGIN: Final = 0  # the types of a TransactionInfo
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4
SESSION: Final = 1
DEFAULT_PRIORITY: Final = 4


class Session:
    """Makes the commands of one session of one connection, and the ids in them."""

    def __init__(self, connection_id: str) -> None:
        self.connection_id: Final[str] = connection_id
        self.transaction: wire.LocalTransactionId | None = None
        self._producers = 0
        self._consumers = 0
        self._transactions = 0

    def announcement(self) -> wire.SessionInfo:
        """The session itself."""
        return wire.SessionInfo(wire.SessionId(connection_id=self.connection_id, value=SESSION))

    def producer(self, destination: Destination) -> Producer:
        """A producer for one destination; its `announcement` is still to be sent."""
        self._producers += 1
        return Producer(self, self._producers, destination)

    def consumer(self, destination: Destination, prefetch_size: int) -> Consumer:
        """A consumer of one destination; its `announcement` is still to be sent."""
        self._consumers += 1
        return Consumer(self, self._consumers, destination, prefetch_size)

    def begin(self) -> wire.TransactionInfo:
        """Open a local transaction; what is sent and acknowledged from now on belongs to it."""
        self._transactions += 1
        self.transaction = wire.LocalTransactionId(
            value=self._transactions, connection_id=wire.ConnectionId(self.connection_id)
        )
        return self._transaction_info(BEGIN)

    def commit(self) -> wire.TransactionInfo:
        """Commit the open transaction."""
        command = self._transaction_info(COMMIT_ONE_PHASE)
        self.transaction = None
        return command

    def rollback(self) -> wire.TransactionInfo:
        """Roll the open transaction back."""
        command = self._transaction_info(ROLLBACK)
        self.transaction = None
        return command

    def farewell(self) -> wire.RemoveInfo:
        """The end of the connection, in order."""
        return wire.RemoveInfo(
            object_id=wire.ConnectionId(self.connection_id), last_delivered_sequence_id=LAST_DELIVERED_UNSET
        )

    def _transaction_info(self, kind: int) -> wire.TransactionInfo:
        assert self.transaction is not None
        return wire.TransactionInfo(
            connection_id=wire.ConnectionId(self.connection_id), transaction_id=self.transaction, type=kind
        )


class Producer:
    """One producer."""

    def __init__(self, session: Session, number: int, destination: Destination) -> None:
        self._session: Final[Session] = session
        self._id: Final[wire.ProducerId] = wire.ProducerId(
            connection_id=session.connection_id, value=number, session_id=SESSION
        )
        self._destination: Final[wire.ActiveMQDestination] = wire_destination(destination)
        self._sent = 0

    def announcement(self) -> wire.ProducerInfo:
        """The producer itself."""
        return wire.ProducerInfo(producer_id=self._id, destination=self._destination)

    def message(
        self, body: str | bytes, persistent: bool, timestamp_ms: int, priority: int = DEFAULT_PRIORITY
    ) -> wire.Message:
        """A text or bytes message with the next message id."""
        message: wire.Message
        if isinstance(body, str):
            message = wire.ActiveMQTextMessage()
            message.content = wire_content(TEXT, body.encode("utf-8"))
        else:
            message = wire.ActiveMQBytesMessage()
            message.content = body
        self._sent += 1
        message.producer_id = self._id
        message.message_id = wire.MessageId(producer_id=self._id, producer_sequence_id=self._sent)
        message.destination = self._destination
        message.persistent = persistent
        message.priority = priority
        message.timestamp = timestamp_ms
        message.transaction_id = self._session.transaction
        return message


class Consumer:
    """One consumer. Durable when it is named, a browser when asked for."""

    def __init__(self, session: Session, number: int, destination: Destination, prefetch_size: int) -> None:
        self.prefetch_size: Final[int] = prefetch_size
        self._session: Final[Session] = session
        self._id: Final[wire.ConsumerId] = wire.ConsumerId(
            connection_id=session.connection_id, session_id=SESSION, value=number
        )
        self._destination: Final[wire.ActiveMQDestination] = wire_destination(destination)

    def announcement(
        self, selector: str | None = None, subscription_name: str | None = None, browser: bool = False
    ) -> wire.ConsumerInfo:
        """The consumer itself."""
        return wire.ConsumerInfo(
            consumer_id=self._id,
            destination=self._destination,
            prefetch_size=self.prefetch_size,
            selector=selector,
            subscription_name=subscription_name,
            browser=browser,
        )

    def acknowledgement(self, first: wire.MessageDispatch, last: wire.MessageDispatch, count: int) -> wire.MessageAck:
        """Says that the messages from ``first`` to ``last`` are consumed."""
        assert first.message is not None
        assert last.message is not None
        return wire.MessageAck(
            destination=last.destination,
            transaction_id=self._session.transaction,
            consumer_id=self._id,
            ack_type=STANDARD_ACK,
            first_message_id=first.message.message_id,
            last_message_id=last.message.message_id,
            message_count=count,
        )


def body_of(message: wire.Message) -> str | bytes | None:
    """A text as str, bytes as they are, None for a message of another kind or without a body.

    Raises `MessageFormatError` for a body that is none.
    """
    if isinstance(message, wire.ActiveMQTextMessage):
        text = neutral_body(TEXT, message.content, message.compressed)
        return None if text is None else text.decode("utf-8", "replace")
    if isinstance(message, wire.ActiveMQBytesMessage):
        return neutral_body(BYTES, message.content, message.compressed) or b""
    return None


def message_id_text(message: wire.Message) -> str:
    """A message id as JMS clients show it."""
    found = message.message_id
    if found is None:
        raise RemoteProtocolError("a message came without an id")
    if found.text_view:
        return found.text_view
    producer = found.producer_id
    if producer is None:
        return f"ID:{found.producer_sequence_id}"
    return f"{producer.connection_id}:{producer.session_id}:{producer.value}:{found.producer_sequence_id}"
