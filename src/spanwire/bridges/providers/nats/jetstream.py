"""Source and target over streams of JetStream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from typing import Any, Final

from nats.aio.msg import Msg
from nats.errors import Error
from nats.js.api import ConsumerInfo, PubAck

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.inbox import MAX_OCTETS, Inbox
from spanwire.bridges.providers.nats.connecting import ANSWER_S, CLOSE_S, NatsConnection, reason_of, translated
from spanwire.bridges.providers.nats.messages import (
    DUPLICATE_HEADER,
    bridge_message,
    outgoing_message,
    place_of,
    size_of,
)
from spanwire.bridges.providers.nats.streams import (
    ACK_WAIT_S,
    consumer_of,
    context_of,
    create_dead_letters,
    stream_of,
)
from spanwire.model.errors import JmsError, MessageFormatError

PULL_S: Final = 30.0  # seconds of one request for messages
NANOSECONDS: Final = 1_000_000_000  # of one second, the unit of JetStream
MESSAGE_ROOM: Final = 65_536  # bytes of a message beside its payload, for the limit of a request
WINDOW: Final = 250  # messages without an acknowledgement of the stream
STATUS: Final = "Status"
DESCRIPTION: Final = "Description"
OVER: Final = ("Message Size Exceeds MaxBytes", "Batch Completed")  # ends of a request that are no faults
EXPIRED: Final = ("404", "408")  # the same, by number
SHARE: Final = 3  # parts of the time for an acknowledgement after which a message is said to be in work
ACK: Final = b"+ACK"
NAK: Final = b"-NAK"
IN_WORK: Final = b"+WPI"

logger = logging.getLogger(__name__)


class NatsSource(SourceWithoutReplies):
    """A consumer of a stream that asks for messages, within the credit. One request is open at a time."""

    def __init__(self, source: Source, credit: int) -> None:
        self._source: Final[Source] = source
        self._credit: Final[int] = credit
        self._inbox: Final[Inbox[Msg]] = Inbox()
        self._connection: Final = NatsConnection(source.factory, self._inbox.fail)
        self._held: Final[dict[int, Msg]] = {}  # arrived, without an acknowledgement, by place in the stream
        self._octets = 0  # of these
        self._received: list[Msg] = []  # those of them that the bridge has
        self._wanted = 0  # messages still to come for the open request
        self._asked_at = 0.0  # monotonic seconds
        self._reply = ""
        self._next = ""  # the subject for requests
        self._consumer: ConsumerInfo | None = None
        self._subscription: Any = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_closing = False

    async def open(self) -> None:
        """Connect, find or create the consumer, and ask for messages."""
        await self._connection.open()
        self._consumer = await consumer_of(self._connection, self._source, self._credit)
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{self._consumer.stream_name}.{self._consumer.name}"
        with translated(self._connection.place):
            self._reply = self._connection.new_inbox()
            self._subscription = await self._connection.subscribe(self._reply, cb=self._on_message)
        await self._ask()
        self._keeper = asyncio.create_task(self._keep(self._consumer.config.ack_wait or ACK_WAIT_S))

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement.

        A source passes over dead letters of its own within its pattern: such messages would go round for ever.
        """
        arrived = await self._inbox.take(max_messages, max_bytes, wait_s)
        wanted = [message for message in arrived if not self._is_own_dead_letter(message)]
        holds_none = not self._received
        self._received += arrived
        if arrived and not wanted and holds_none:  # no acknowledgement follows, and the credit would run out
            await self.acknowledge()
        return [bridge_message(message) for message in wanted]

    def _is_own_dead_letter(self, message: Msg) -> bool:
        is_marked = (message.headers or {}).get(ORIGIN) == str(self._source.destination)
        return is_marked and message.subject.endswith(SUFFIX)

    async def acknowledge(self) -> None:
        """Acknowledge each received message; the server answers the last one, and reads them in order."""
        received, self._received = self._received, []
        self._inbox.check()
        if not received:
            return
        places = [message.metadata.sequence.stream for message in received]
        with translated(self._connection.place):
            for place in places[:-1]:
                await self._connection.publish(self._held[place].reply, ACK)
        await self._connection.answer(self._held[places[-1]].reply, ACK)
        for place in places:
            self._octets -= len(self._held.pop(place).data)
        await self._ask()

    async def dead_letter(self, cause: str) -> None:
        """Publish the last message with its cause to the subject ``NAME.DLQ``, and acknowledge it."""
        last = next(message for message in reversed(self._received) if not self._is_own_dead_letter(message))
        place = place_of(last)[0]
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination), DUPLICATE_HEADER: f"{SUFFIX}/{place}"}
        kept = {name: text for name, text in (last.headers or {}).items() if not name.startswith("Nats-")}
        headers = kept | notes
        if size_of(last.data, headers) > self._connection.max_payload:
            logger.warning(
                "%s: a dead letter of %s has no room for its cause: %s",
                self._connection.place.shown,
                self._source.destination,
                notes[CAUSE],
            )
            headers = kept
        subject = last.subject + SUFFIX
        await create_dead_letters(self._connection, subject)
        with translated(self._connection.place):
            await context_of(self._connection).publish(subject, last.data, headers=headers)
        await self.acknowledge()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._inbox.check()
        self._connection.check()

    async def close(self) -> None:
        """Give messages without an acknowledgement back, and close the connection. A durable consumer stays."""
        self._is_closing = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        with contextlib.suppress(JmsError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._give_back()
        await self._connection.end()

    async def _give_back(self) -> None:
        """Return messages to the server when it has forgotten the open request, which would get them again."""
        consumer, context = self._consumer, context_of(self._connection)
        if self._subscription is None or consumer is None or not self._connection.is_connected:
            return
        with translated(self._connection.place):
            await self._subscription.drain()
            await context.consumer_info(consumer.stream_name, consumer.name)  # the server looks at requests then
            for message in self._held.values():
                await self._connection.publish(message.reply, NAK)
            if self._source.subscription is None:
                await context.delete_consumer(consumer.stream_name, consumer.name)

    async def _ask(self) -> None:
        """Ask for as many messages as the credit and the memory allow, unless a request is open."""
        largest = self._connection.max_payload + MESSAGE_ROOM
        free = self._credit - len(self._held)
        room = MAX_OCTETS + largest - self._octets
        if self._wanted or free <= 0 or (self._held and room < largest):
            return
        self._wanted = free
        self._asked_at = time.monotonic()
        question = {"batch": free, "expires": int(PULL_S * NANOSECONDS), "max_bytes": room}
        with translated(self._connection.place):
            await self._connection.publish(self._next, json.dumps(question).encode(), reply=self._reply)

    async def _on_message(self, message: Msg) -> None:
        try:
            if not message.reply:
                self._on_status(message.headers or {})
            else:
                self._wanted = max(0, self._wanted - 1)
                place = message.metadata.sequence.stream
                if place not in self._held:
                    self._octets += len(message.data)
                    self._inbox.put(message, len(message.data))
                self._held[place] = message  # one that comes again is known, and its last delivery counts
            if not self._wanted and not self._is_closing:
                await self._ask()
        except (JmsError, Error, ValueError) as error:
            self._inbox.fail(JmsError(f"{self._connection.place.shown}: {reason_of(error)}"))

    def _on_status(self, headers: dict[str, str]) -> None:
        """Note the end of a request. Every other status is a fault of the consumer."""
        status, text = headers.get(STATUS, ""), headers.get(DESCRIPTION, "")
        if status not in EXPIRED and text not in OVER:
            raise JmsError(f"the consumer of {self._source.destination} delivers no more: {text or 'it is gone'}")
        self._wanted = 0

    async def _keep(self, ack_wait_s: float) -> None:
        """Say that messages are in work, so that the server does not deliver them again while the target stalls."""
        while True:
            await asyncio.sleep(min(ack_wait_s / SHARE, PULL_S))
            try:
                for message in list(self._held.values()):
                    await self._connection.publish(message.reply, IN_WORK)
                if self._wanted and time.monotonic() > self._asked_at + PULL_S + ANSWER_S:
                    raise JmsError("no answer to a request for messages")
            except Exception as error:  # noqa: BLE001 - whatever it is, the bridge has to begin anew
                self._inbox.fail(JmsError(f"{self._connection.place.shown}: {reason_of(error)}"))
                return


class NatsTarget(TargetWithoutReplies):
    """A publisher to one subject; the stream acknowledges each message."""

    def __init__(self, target: Target) -> None:
        self._subject: Final[str] = target.destination.name
        self._failure: JmsError | None = None
        self._connection: Final = NatsConnection(target.factory, self._fail)
        self._context: Any = None
        self._max_bytes = 0

    async def open(self) -> None:
        """Connect, and find the stream of the subject."""
        await self._connection.open()
        stream = await stream_of(self._connection, self._subject)
        limits = (self._connection.max_payload, stream.max_msg_size or -1)
        self._max_bytes = min(limit for limit in limits if limit > 0)
        self._context = context_of(self._connection)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Publish messages, and wait for the acknowledgements. The stream drops one that it has already."""
        outgoing: list[tuple[bytes, dict[str, str]]] = []
        for index, message in enumerate(messages):
            try:
                outgoing.append(outgoing_message(message, self._subject, self._max_bytes))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        self.check()
        for start in range(0, len(outgoing), WINDOW):
            await self._publish(outgoing[start : start + WINDOW])

    async def _publish(self, outgoing: list[tuple[bytes, dict[str, str]]]) -> None:
        waiting: list[asyncio.Future[PubAck]] = []
        try:
            with translated(self._connection.place):
                for body, headers in outgoing:
                    waiting.append(await self._context.publish_async(self._subject, body, headers=headers))
            await self._connection.while_there(all_of(waiting))
        finally:
            for future in waiting:
                future.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        if self._failure is not None:
            raise JmsError(str(self._failure))
        self._connection.check()

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.end()

    def _fail(self, error: JmsError) -> None:
        self._failure = self._failure or error


async def all_of(waiting: list[asyncio.Future[PubAck]]) -> None:
    """Wait for all answers. Raises the first error."""
    await asyncio.gather(*waiting)
