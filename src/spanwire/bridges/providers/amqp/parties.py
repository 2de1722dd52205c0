"""Source, target and local transaction over links of AMQP 1.0."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import ConnectionFactory, Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, PartlySentError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.amqp.connection import AmqpConnection, OtherQueueError, connect
from spanwire.bridges.providers.amqp.coordinator import Coordinator
from spanwire.bridges.providers.amqp.links import Outcome, Received, ReceiverLink, SenderLink, Subscription
from spanwire.bridges.providers.amqp.messages import Way, bridge_message, dead_letter, outgoing_message
from spanwire.bridges.providers.amqp.peers import (
    TOPIC_EXCHANGE,
    address,
    capability,
    created_queue,
    dead_letter_queue,
)
from spanwire.bridges.providers.amqp.sections import MAX_MESSAGE
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, cause_text
from spanwire.client.io.environment import Machine
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, MessageFormatError


class Receiver:
    """A receiver, and the received messages without an acknowledgement."""

    def __init__(self, connection: AmqpConnection, source: Source, link: ReceiverLink) -> None:
        self.connection: Final = connection
        self.link: Final = link
        self.unacknowledged: Final[list[Received]] = []
        self._source: Final[Source] = source
        self._machine: Final = Machine()

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        taken = await self.link.take(max_messages, max_bytes, wait_s)
        self.unacknowledged.extend(taken)
        now_ms = self._machine.now().wall_ms
        return [bridge_message(received.octets, now_ms, self.connection.peer) for received in taken]

    async def send_dead_letter(self, cause: str) -> None:
        """Send the last message with the cause to the queue ``NAME.DLQ``.

        Returns after the broker has stored the message.
        """
        assert self.unacknowledged, "a dead letter was received before"
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination)}
        octets = dead_letter(self.unacknowledged[-1].octets, notes)
        connection, sender = await open_sender(
            self._source.factory, dead_letter_queue(self.connection.peer, self._source)
        )
        try:
            outcomes = await sender.send([octets])
        finally:
            await connection.close()
        if outcomes[0].reason:
            raise JmsError(f"{self.connection.place.shown}: a dead letter was refused: {outcomes[0].reason}")

    async def close(self) -> None:
        """Give the unacknowledged messages back, and close the connection."""
        try:
            self.link.check()
            self.link.release(self.unacknowledged)
            self.link.detach()
        except JmsError:
            pass
        await self.connection.close()


class AmqpSource(SourceWithoutReplies):
    """A consumer with a connection of its own.

    An acknowledgement of AMQP has no answer. At RabbitMQ the attach of a link follows on the same session, which the
    broker processes in order. Other brokers acknowledge in a transaction, whose commit has an answer.
    """

    def __init__(self, receiver: Receiver, coordinator: Coordinator | None) -> None:
        """Take an attached receiver; without a coordinator the broker is RabbitMQ."""
        self._receiver: Final = receiver
        self._coordinator: Final = coordinator

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait until the broker has stored the acknowledgement."""
        link, connection = self._receiver.link, self._receiver.connection
        link.check()
        messages = [*self._receiver.unacknowledged]
        if not messages:
            return
        if self._coordinator is None:
            self._receiver.unacknowledged.clear()
            link.accept(messages)
            exchange = "exchanges" if connection.peer.has_new_addresses else "exchange"
            mark = SenderLink(connection, f"/{exchange}/{TOPIC_EXCHANGE}/spanwire", None)
            await mark.attach()
            mark.detach()
            connection.flush()
        else:
            transaction = await self._coordinator.begin()
            link.accept(messages, transaction)
            await self._coordinator.end(transaction)
            self._receiver.unacknowledged.clear()
            link.settle(messages)
        link.check()

    async def dead_letter(self, cause: str) -> None:
        """Send the last message to the queue ``NAME.DLQ``, and acknowledge it.

        The outcome *rejected* would lose the message at a broker without a dead letter destination.
        """
        await self._receiver.send_dead_letter(cause)
        await self.acknowledge()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._receiver.link.check()

    async def close(self) -> None:
        """Give the unacknowledged messages back, and close the connection."""
        await self._receiver.close()


class AmqpTarget(TargetWithoutReplies):
    """A producer with a separate connection."""

    def __init__(self, connection: AmqpConnection, target: Target, link: SenderLink) -> None:
        """Take an attached sender."""
        self._connection: Final = connection
        self._encoder: Final = Encoder(connection, target.destination, link)
        self._link: Final = link

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send messages, and wait for the outcomes."""
        outcomes = await self._link.send(self._encoder.encode(messages))
        self._connection.check()
        raise_refusal(self._connection, outcomes)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._link.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


class AmqpTransaction:
    """A receiver and a sender in one transaction after the other, over one connection."""

    def __init__(self, receiver: Receiver, target: Target, link: SenderLink, coordinator: Coordinator) -> None:
        """Take attached links."""
        self._receiver: Final = receiver
        self._link: Final = link
        self._encoder: Final = Encoder(receiver.connection, target.destination, link)
        self._coordinator: Final = coordinator
        self._transaction: bytes | None = None

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages; the commit acknowledges the messages."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send in the transaction."""
        octets = self._encoder.encode(messages)
        if self._transaction is None:
            self._transaction = await self._coordinator.begin()
        outcomes = await self._link.send(octets, self._transaction)
        for index, outcome in enumerate(outcomes):
            if outcome.is_permanent:
                await self._roll_back()
                raise MessageRefusedError(index, f"the broker rejects the message: {outcome.reason}")
        raise_refusal(self._receiver.connection, outcomes)

    async def dead_letter(self, cause: str) -> None:
        """Roll the sends back, send the last message to the queue ``NAME.DLQ``, and acknowledge it."""
        await self._roll_back()
        await self._receiver.send_dead_letter(cause)
        await self.commit()

    async def _roll_back(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await self._coordinator.end(transaction, roll_back=True)

    async def commit(self) -> None:
        """Acknowledge and send all at once."""
        link, messages = self._receiver.link, [*self._receiver.unacknowledged]
        link.check()
        transaction = self._transaction or await self._coordinator.begin()
        self._transaction = None
        link.accept(messages, transaction)
        await self._coordinator.end(transaction)
        self._receiver.unacknowledged.clear()
        link.settle(messages)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._receiver.link.check()
        self._link.check()

    async def close(self) -> None:
        """Close the connection; the broker rolls back."""
        await self._receiver.close()


class Encoder:
    """Encodes messages for one sender."""

    def __init__(self, connection: AmqpConnection, destination: Destination, link: SenderLink) -> None:
        self._way: Final = Way(
            connection.peer, connection.place, destination, address(connection.peer, destination, connection.place)
        )
        self._largest: Final = link.max_message or MAX_MESSAGE
        self._machine: Final = Machine()

    def encode(self, messages: list[BridgeMessage]) -> list[bytes]:
        """Return messages in the form of the wire.

        Raises:
            MessageRefusedError: a message has no form in AMQP, or is too large.
        """
        now_ms = self._machine.now().wall_ms
        encoded: list[bytes] = []
        for index, message in enumerate(messages):
            try:
                octets = outgoing_message(message, self._way, now_ms)
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
            if len(octets) > self._largest:
                reason = f"the message has {len(octets)} bytes, and the broker takes {self._largest}"
                raise MessageRefusedError(index, reason)
            encoded.append(octets)
        return encoded


async def open_sender(factory: ConnectionFactory, destination: Destination) -> tuple[AmqpConnection, SenderLink]:
    """Connect, and return the connection with an attached sender.

    RabbitMQ's plug-in creates a missing queue, because RabbitMQ would drop messages to a missing queue. A queue with
    arguments exists, so the second attempt creates no queue. RabbitMQ 4 creates one only for an address of version 3,
    which its administrator may have switched off: the second attempt says which queue is missing.
    """
    for creates in (True, False):
        connection = await connect(factory)
        try:
            return connection, await attach_sender(connection, destination, creates)
        except BaseException as error:
            await connection.close()
            is_refused = isinstance(error, OtherQueueError) or (
                isinstance(error, JmsError) and connection.peer.has_new_addresses
            )
            if not is_refused or not creates:
                raise
    raise AssertionError("the second attempt returns or raises")


async def attach_sender(connection: AmqpConnection, destination: Destination, creates: bool) -> SenderLink:
    """Return an attached sender; ``creates`` lets RabbitMQ create a missing queue."""
    peer = connection.peer
    where = address(peer, destination, connection.place)
    created = None
    if creates and peer.is_rabbit and destination.is_queue and not destination.name.startswith("/"):
        created = created_queue(peer, destination.name)
    link = SenderLink(connection, created or where, capability(destination), is_durable=created is not None)
    await link.attach()
    return link


async def open_receiver(connection: AmqpConnection, source: Source, credit: int) -> Receiver:
    """Return an attached receiver.

    Raises:
        JmsError: the broker refuses, or has no selectors or durable subscriptions that the source needs.
    """
    peer, place, destination = connection.peer, connection.place, source.destination
    if peer.is_rabbit and source.subscription is not None:
        raise JmsError(
            f"{place.shown}: RabbitMQ keeps no subscription over AMQP 1.0; bind a durable queue to the exchange, and "
            "make it the source, without subscriptionName and clientID"
        )
    if peer.has_new_addresses and not destination.is_queue and not destination.name.startswith("/"):
        raise JmsError(
            f"{place.shown}: RabbitMQ {peer.version} has no topics as sources over AMQP 1.0; bind a queue to the "
            "exchange, and make it the source"
        )
    wanted = Subscription(
        address(peer, destination, place), capability(destination), source.subscription, source.selector
    )
    link = ReceiverLink(connection, wanted, credit)
    await link.attach()
    if source.selector is not None and (peer.is_rabbit or not link.has_selector):
        raise JmsError(f"{place.shown}: the broker has no selectors, so all messages would cross; remove selector")
    return Receiver(connection, source, link)


def raise_refusal(connection: AmqpConnection, outcomes: list[Outcome]) -> None:
    """Raise an error for a message refused by the broker.

    The bridge tries the batch again, unless the broker can never take the message and has stored no later message.
    """
    for index, outcome in enumerate(outcomes):
        if outcome.is_permanent and all(other.reason for other in outcomes[index + 1 :]):
            raise PartlySentError(index, f"the broker rejects the message: {outcome.reason}")
        if outcome.reason:
            raise JmsError(f"{connection.place.shown}: a message was not stored: {outcome.reason}; is the queue full?")
