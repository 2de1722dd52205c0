"""Source, target and local transaction over connections of the asyncio client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError
from spanwire.bridges.providers.openwire.connecting import close, is_artemis
from spanwire.bridges.providers.openwire.messages import outgoing_message
from spanwire.bridges.providers.openwire.replies import ReplyQueues, ReplySender
from spanwire.bridges.providers.openwire.source_consumer import SourceConsumer
from spanwire.client.aio.connection import Connection
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.session import Session
from spanwire.client.aio.shared.core_connection import FLUSH_BYTES
from spanwire.client.messages.ack_range import AckRange
from spanwire.client.messages.message_encoder import Outgoing
from spanwire.client.protocol.response_correlator import Request
from spanwire.model.destination import Destination
from spanwire.model.errors import JmsError, MessageFormatError, ResourceAllocationError


class OpenWireSource:
    """A consumer under client acknowledgement, with a separate connection."""

    def __init__(self, connection: Connection, consumer: SourceConsumer) -> None:
        self._connection: Final[Connection] = connection
        self._consumer: Final[SourceConsumer] = consumer
        self._replies: Final = ReplySender(connection)

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        return await self._consumer.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement."""
        return self._consumer.is_exhausted()

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait until the broker has stored the acknowledgement."""
        await self.acknowledge_soon()()

    def acknowledge_soon(self) -> Callable[[], Awaitable[None]]:
        """Write the acknowledgement of all received messages."""
        return partial(self._connection.shared.answer, self._acknowledgement(self._consumer.core.take_range()))

    def acknowledge_later(self) -> Callable[[], Awaitable[None]]:
        """Return the acknowledgement of the messages received so far."""
        return partial(self._acknowledge, self._consumer.core.take_range())

    async def _acknowledge(self, taken: AckRange) -> None:
        await self._connection.shared.answer(self._acknowledgement(taken))

    def _acknowledgement(self, taken: AckRange) -> Request:
        """Write an acknowledgement."""
        request = self._consumer.core.acknowledge_stored(taken)
        if request is None:
            raise JmsError("the connection to the source was lost before the acknowledgement")
        self._consumer.acknowledge(taken.count)
        self._connection.shared.write_soon()
        return request

    async def send_reply(self, message: BridgeMessage, destination: Destination) -> None:
        """Send a reply to a destination of the broker."""
        await self._replies.send(message, destination)

    async def dead_letter(self, cause: str) -> None:
        """Send a poison acknowledgement: the broker applies the dead letter strategy."""
        self._consumer.core.poison_last(cause)
        self._consumer.acknowledge(self._consumer.held)
        self._connection.shared.write_soon()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.shared.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._consumer.stop_opening()
        await close(self._connection)


class OpenWireTarget:
    """A producer in a transacted session, with a separate connection. Each call commits the messages."""

    def __init__(self, connection: Connection, session: Session, producer: Producer) -> None:
        self._connection: Final[Connection] = connection
        self._session: Final[Session] = session
        self._producer: Final[Producer] = producer
        self._replies: Final = ReplyQueues(connection)

    async def open_reply_queue(self, on_reply: Callable[[BridgeMessage], Awaitable[None]]) -> Destination:
        """Create a temporary queue for replies."""
        return await self._replies.open(on_reply)

    async def close_reply_queue(self, queue: Destination) -> None:
        """Remove a queue for replies."""
        await self._replies.close(queue)

    def is_spoiled_by_duplicates(self) -> bool:
        """Return True for Artemis, which rolls a transaction with a known duplicate id back."""
        return is_artemis(self._connection)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send and commit messages."""
        stored = await self.send_soon(messages, _nothing)
        await stored()

    async def send_soon(
        self, messages: list[BridgeMessage], condition: Callable[[], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Send messages, and write the commit after ``condition``. The next transaction may begin at once."""
        shared = self._connection.shared
        try:
            await send(self._connection, self._producer, messages)
            shared.write_soon()
            await condition()
        except MessageRefusedError:
            await self._session.rollback()
            raise
        async with shared.ready():
            request = self._session.core.commit(shared.machine.now())
            shared.write_soon()
        return _nothing if request is None else partial(shared.answer, request)

    def sent_ids(self, count: int) -> list[str]:
        """Return the ids of the last sent messages."""
        return sent_ids(self._producer, count)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.shared.check()

    async def close(self) -> None:
        """Close the connection."""
        await close(self._connection)


class OpenWireTransaction:
    """A consumer and a producer in one transacted session."""

    def __init__(self, connection: Connection, session: Session, consumer: SourceConsumer, producer: Producer) -> None:
        self._connection: Final[Connection] = connection
        self._session: Final[Session] = session
        self._consumer: Final[SourceConsumer] = consumer
        self._producer: Final[Producer] = producer

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages in the transaction."""
        return await self._consumer.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before a commit."""
        return self._consumer.is_exhausted()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send messages in the transaction."""
        await send(self._connection, self._producer, messages)

    async def dead_letter(self, cause: str) -> None:
        """Send a poison acknowledgement beside the transaction, and roll back the sends."""
        self._consumer.core.poison_last(cause)
        await self._session.rollback()
        self._consumer.acknowledge(self._consumer.held)

    async def commit(self) -> None:
        """Commit receipts and sends."""
        await self._session.commit()
        self._consumer.acknowledge(self._consumer.held)

    def sent_ids(self, count: int) -> list[str]:
        """Return the ids of the last sent messages."""
        return sent_ids(self._producer, count)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.shared.check()

    async def close(self) -> None:
        """Close the connection; the broker rolls back."""
        await self._consumer.stop_opening()
        await close(self._connection)


async def _nothing() -> None:
    """Wait for nothing."""


def sent_ids(producer: Producer, count: int) -> list[str]:
    """Return the ids of the last messages of a producer: its id with numbers, one after the other."""
    name, _, last = (producer.last_message_id or "").rpartition(":")
    return [f"{name}:{number}" for number in range(max(1, int(last) - count + 1), int(last) + 1)] if name else []


async def send(connection: Connection, producer: Producer, messages: list[BridgeMessage]) -> None:
    """Send messages in the transaction of the producer's session, without waiting for responses.

    Raises `MessageRefusedError` for a message that has no form on the wire, or exceeds the broker's frame limit.
    """
    shared, core = connection.shared, producer.core
    first = 0
    async with shared.ready():
        while first < len(messages):
            outgoing = outgoing_part(messages, first)
            index = 0
            while index < len(outgoing):
                await shared.wait_writable(None)
                start, wall_ms = index, shared.machine.now().wall_ms
                try:
                    index = core.post_all(outgoing, start, FLUSH_BYTES, wall_ms)
                    if index == start:
                        core.send(outgoing[start], False, wall_ms)
                        index += 1
                except (MessageFormatError, ResourceAllocationError) as error:
                    raise MessageRefusedError(first + max(start, core.posted), str(error)) from None
                await shared.yield_after_send()
            first += len(outgoing)


def outgoing_part(messages: list[BridgeMessage], first: int) -> list[Outgoing]:
    """Convert messages from ``first`` on, some `FLUSH_BYTES` of them, so that others have the loop in between."""
    outgoing: list[Outgoing] = []
    size = 0
    for index in range(first, len(messages)):
        if size >= FLUSH_BYTES:
            break
        try:
            outgoing.append(outgoing_message(messages[index]))
        except MessageFormatError as error:
            raise MessageRefusedError(index, str(error)) from None
        size += messages[index].size
    return outgoing
