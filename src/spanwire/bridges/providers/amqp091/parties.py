"""Source and target over channels of AMQP 0-9-1."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from aiormq.abc import AbstractChannel, AbstractConnection, DeliveredMessage
from aiormq.exceptions import ChannelNotFoundEntity, DeliveryError, PublishError
from pamqp.commands import Basic

from spanwire.bridges.model.definition import Source, Target
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.ports import MessageRefusedError, SourceWithoutReplies, TargetWithoutReplies
from spanwire.bridges.providers.amqp091.connecting import (
    EXCHANGE,
    MAX_REASON,
    TOPIC_EXCHANGE,
    address_of,
    check_open,
    close,
    reason_of,
    translated,
)
from spanwire.bridges.providers.amqp091.messages import bridge_message, dead_letter_properties, outgoing_message
from spanwire.bridges.providers.dead_letters import CAUSE, ORIGIN, SUFFIX, cause_text
from spanwire.bridges.providers.inbox import Inbox
from spanwire.bridges.providers.window import FIRST, Window
from spanwire.client.io.environment import Machine
from spanwire.model.errors import JmsError, MessageFormatError

logger = logging.getLogger(__name__)


class AmqpSource(SourceWithoutReplies):
    """A consumer with a separate connection, and cumulative acknowledgements."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel, source: Source, credit: int) -> None:
        self._connection: Final = connection
        self._channel = channel
        self._source: Final[Source] = source
        self._place: Final = address_of(source.factory)
        self._window: Final = Window(credit, FIRST)
        self._queue = ""
        self._opening: asyncio.Future[None] | None = None  # the next window
        self._taken = 0  # received messages without an acknowledgement
        self._inbox: Final[Inbox[DeliveredMessage]] = Inbox()
        self._machine: Final = Machine()
        self._last: DeliveredMessage | None = None  # the last received message without an acknowledgement

    async def consume(self) -> None:
        """Begin to consume the queue, or for a topic a queue that is bound to the exchange of topics."""
        self._watch(self._channel)
        with translated(self._place):
            self._queue = await self._queue_to_consume()
            await self._begin(self._window.size)

    def _watch(self, channel: AbstractChannel) -> None:
        channel.closing.add_done_callback(partial(self._on_closed, channel))
        channel.on_consumer_cancel_callbacks.add(self._on_cancelled)

    async def _begin(self, size: int) -> None:
        channel = self._channel

        async def on_message(message: DeliveredMessage) -> None:
            if channel is self._channel and self._window.admit(len(message.body), self._inbox.octets):
                self._inbox.put(message, len(message.body))

        await channel.basic_qos(prefetch_count=size)
        await channel.basic_consume(self._queue, on_message)

    async def _open_window(self) -> None:
        """Return the messages that were not kept to the queue, and consume with the next window.

        They return to their places when their channel ends, all at once. RabbitMQ would append them to a quorum queue
        after a rejection, or after the end of their consumer alone.
        """
        former = self._channel
        with translated(self._place):
            self._channel = await self._connection.channel(publisher_confirms=False)
            self._watch(self._channel)
            await former.close()
            await self._begin(self._window.open_next())

    async def _queue_to_consume(self) -> str:
        channel, destination, subscription = self._channel, self._source.destination, self._source.subscription
        if destination.is_queue:
            await channel.queue_declare(destination.name, passive=True)
            return destination.name
        if subscription is None:
            declared = await channel.queue_declare("", exclusive=True)  # ends with the connection
        else:
            declared = await channel.queue_declare(subscription, durable=True)
        queue = str(declared.queue)
        await channel.queue_bind(queue, self._place.options.get(EXCHANGE, TOPIC_EXCHANGE), destination.name)
        return queue

    async def receive(self, max_messages: int, max_bytes: int, wait_s: float) -> list[BridgeMessage]:
        """Receive messages without an acknowledgement."""
        if self._window.is_due() and self._opening is None:
            self._opening = asyncio.ensure_future(self._open_window())
        if self._opening is not None:
            await asyncio.shield(self._opening)  # a cancelled call must not cancel half of it
            self._opening = None
        messages = await self._inbox.take(max_messages, max_bytes, wait_s)
        if messages:
            self._last = messages[-1]
            self._taken += len(messages)
        now_ms = self._machine.now().wall_ms
        return [bridge_message(message, now_ms) for message in messages]

    def is_exhausted(self) -> bool:
        """Return True if no message comes before an acknowledgement."""
        return self._window.is_exhausted(len(self._inbox))

    async def acknowledge(self) -> None:
        """Acknowledge all received messages, and wait until the broker has read that.

        An acknowledgement has no answer, so another request follows: the broker reads a channel in order.
        """
        last, self._last = self._last, None
        if last is None:
            return
        taken, self._taken = self._taken, 0
        self._window.release(taken)
        with translated(self._place):
            await self._channel.basic_ack(last.delivery_tag or 0, multiple=True)
            await self._channel.basic_qos(prefetch_count=self._window.size)
        self._window.acknowledge(taken)
        self._inbox.check()

    async def dead_letter(self, cause: str) -> None:
        """Publish the last message with the cause to the queue ``NAME.DLQ``, confirmed, and acknowledge it."""
        assert self._last is not None, "a dead letter was received before"
        notes = {CAUSE: cause_text(cause), ORIGIN: str(self._source.destination)}
        max_frame = self._connection.connection_tune.frame_max
        properties, left_out = dead_letter_properties(self._last.header.properties, notes, max_frame)
        if left_out:
            logger.warning(
                "%s: a dead letter of %s has no room for its headers %s: %s",
                self._place.shown,
                self._source.destination,
                ", ".join(left_out)[:MAX_REASON],
                notes[CAUSE],
            )
        name = (self._source.subscription or self._source.destination.name) + SUFFIX
        with translated(self._place):
            channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
            try:
                await channel.queue_declare(name, passive=True)
            except ChannelNotFoundEntity:
                channel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
                await channel.queue_declare(name, durable=True)
            await channel.basic_publish(self._last.body, routing_key=name, properties=properties, mandatory=True)
            await channel.close()
        await self.acknowledge()

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        self._inbox.check()
        check_open(self._place, self._connection, self._channel)

    async def close(self) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        await close(self._connection)

    def _on_closed(self, channel: AbstractChannel, closing: asyncio.Future[object]) -> None:
        if channel is not self._channel:  # of a former window
            return
        error = None if closing.cancelled() else closing.exception()
        self._inbox.fail(JmsError(f"{self._place.shown}: {reason_of(error)}"))

    async def _on_cancelled(self, _: object) -> None:
        self._inbox.fail(JmsError(f"{self._place.shown}: the queue of {self._source.destination} was deleted"))


class AmqpTarget(TargetWithoutReplies):
    """A producer with publisher confirms, and a separate connection."""

    def __init__(self, connection: AbstractConnection, channel: AbstractChannel, target: Target) -> None:
        self._connection: Final = connection
        self._channel: Final = channel
        self._place: Final = address_of(target.factory)
        self._name: Final[str] = target.destination.name
        self._exchange: Final[str] = (
            "" if target.destination.is_queue else self._place.options.get(EXCHANGE, TOPIC_EXCHANGE)
        )
        self._machine: Final = Machine()

    async def prepare(self) -> None:
        """Find out whether the queue, or the exchange of topics, exists."""
        with translated(self._place):
            if self._exchange:
                await self._channel.exchange_declare(self._exchange, passive=True)
            else:
                await self._channel.queue_declare(self._name, passive=True)

    async def send(self, messages: list[BridgeMessage]) -> None:
        """Publish messages, and wait for the confirms.

        A missing queue is an error; a topic may have no queues.
        """
        now_ms = self._machine.now().wall_ms
        max_frame = self._connection.connection_tune.frame_max
        outgoing: list[tuple[bytes, Basic.Properties]] = []
        for index, message in enumerate(messages):
            try:
                outgoing.append(outgoing_message(message, now_ms, max_frame))
            except MessageFormatError as error:
                raise MessageRefusedError(index, str(error)) from None
        with translated(self._place):
            tasks = [asyncio.create_task(self._publish(body, properties)) for body, properties in outgoing]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _publish(self, body: bytes, properties: Basic.Properties) -> None:
        try:
            await self._channel.basic_publish(
                body,
                exchange=self._exchange,
                routing_key=self._name,
                properties=properties,
                mandatory=not self._exchange,
            )
        except PublishError:
            raise JmsError(f"{self._place.shown}: there is no queue {self._name}") from None
        except DeliveryError:
            raise JmsError(f"{self._place.shown}: the broker refused a message; is the queue full?") from None

    def check(self) -> None:
        """Raise `JmsError` if the connection is lost."""
        check_open(self._place, self._connection, self._channel)

    async def close(self) -> None:
        """Close the connection."""
        await close(self._connection)
