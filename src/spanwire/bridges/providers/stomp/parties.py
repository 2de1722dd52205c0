"""Source, target and local transaction over STOMP connections.

A source is a subscription with cumulative acknowledgements. Batches are transactions, except at RabbitMQ, whose
transactions are no more than a delay: there each message has a receipt of its own.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.stomp.connection import Headers, StompConnection
from spanwire.bridges.providers.stomp.messages import send_frame
from spanwire.bridges.providers.stomp.receiver import StompReceiver
from spanwire.client.io.environment import Machine
from spanwire.model.destination import Destination
from spanwire.model.errors import MessageFormatError
from spanwire.protocols.stomp.codec.frames import ABORT, BEGIN, COMMIT


class StompSender:
    """The producer of one destination."""

    def __init__(self, connection: StompConnection, destination: Destination) -> None:
        self._connection: Final[StompConnection] = connection
        self._destination: Final[Destination] = destination
        self._machine: Final = Machine()

    def frames(self, messages: list[BridgeMessage], extras: list[Headers]) -> list[bytes]:
        """Return the frames of a batch. Raises `MessageRefusedError` before any send."""
        is_rabbit, now_ms = self._connection.is_rabbit, self._machine.now().wall_ms
        frames: list[bytes] = []
        for index, (message, extra) in enumerate(zip(messages, extras, strict=True)):
            try:
                frames.append(send_frame(message, self._destination, is_rabbit, now_ms, extra))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        return frames


class StompSource(SourceWithoutReplies):
    """A subscription with a separate connection."""

    def __init__(self, receiver: StompReceiver) -> None:
        self._receiver: Final[StompReceiver] = receiver

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement."""
        return self._receiver.is_exhausted()

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait for the receipt."""
        await self._receiver.acknowledge()

    async def dead_letter(self, cause: str) -> None:
        """Move the last message to the dead letter queue."""
        await self._receiver.dead_letter(cause)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._receiver.connection.inbox.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._receiver.close()


class StompTarget(TargetWithoutReplies):
    """A producer with a separate connection."""

    def __init__(self, connection: StompConnection, destination: Destination) -> None:
        self._connection: Final[StompConnection] = connection
        self._sender: Final = StompSender(connection, destination)
        self._batches = 0

    def is_spoiled_by_duplicates(self) -> bool:
        """Return True for Artemis, which rolls a transaction with a known duplicate id back."""
        return self._connection.is_artemis

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send a batch in a transaction, or at RabbitMQ with a receipt for each message."""
        if self._connection.is_rabbit:
            await self._send_with_receipts(messages)
            return
        self._batches += 1
        transaction = ("transaction", f"batch-{self._batches}")
        frames = self._sender.frames(messages, [[transaction]] * len(messages))
        await self._connection.send(BEGIN, [transaction])
        await self._connection.write(frames)
        await self._connection.request(COMMIT, [transaction])

    async def _send_with_receipts(self, messages: list[BridgeMessage]) -> None:
        receipts = [self._connection.receipt() for _ in messages]
        try:
            frames = self._sender.frames(messages, [[("receipt", name)] for name, _ in receipts])
            await self._connection.write(frames)
            for _, future in receipts:
                await future
        finally:
            self._connection.forget(receipts)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.inbox.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


class StompTransaction:
    """A subscription and a producer in transactions of one connection."""

    def __init__(self, receiver: StompReceiver, destination: Destination) -> None:
        self._connection: Final[StompConnection] = receiver.connection
        self._receiver: Final[StompReceiver] = receiver
        self._sender: Final = StompSender(receiver.connection, destination)
        self._transactions = 0
        self._is_open = False

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages; the commit acknowledges the messages."""
        return await self._receiver.receive(max_messages, max_bytes, wait_s)

    def is_exhausted(self) -> bool:
        """Return True if no message comes before a commit."""
        return self._receiver.is_exhausted()

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Send messages in the transaction."""
        await self._begin()
        await self._connection.write(self._sender.frames(messages, [[self._header()]] * len(messages)))

    async def dead_letter(self, cause: str) -> None:
        """Abort the sends, and move the last message to the dead letter queue."""
        if self._is_open:
            self._is_open = False
            await self._connection.send(ABORT, [self._header()])
        await self._receiver.dead_letter(cause)

    async def commit(self) -> None:
        """Acknowledge in the transaction, and commit."""
        await self._begin()
        await self._receiver.acknowledge(self._header()[1])
        self._is_open = False
        await self._connection.request(COMMIT, [self._header()])
        self._receiver.note_acknowledged()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._connection.inbox.check()

    async def close(self) -> None:
        """Close the connection; the broker rolls back."""
        await self._receiver.close()

    async def _begin(self) -> None:
        if not self._is_open:
            self._is_open = True
            self._transactions += 1
            await self._connection.send(BEGIN, [self._header()])

    def _header(self) -> tuple[str, str]:
        return ("transaction", f"bridge-{self._transactions}")
