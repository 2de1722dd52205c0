"""Subscribers of FastStream: each is a session with one consumer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from faststream._internal.endpoint.subscriber import SubscriberUsecase
from faststream._internal.endpoint.subscriber.mixins import ConcurrentMixin, TasksMixin
from faststream._internal.endpoint.utils import process_msg
from faststream._internal.utils.path import Address
from faststream.middlewares import AckPolicy

from spanwire.adapters.faststream.address import SpanwireAddress
from spanwire.adapters.faststream.configs import SpanwireSubscriberConfig
from spanwire.adapters.faststream.message import MessageParser, SpanwireMessage, check_readable
from spanwire.adapters.faststream.publisher import ReplyPublisher
from spanwire.client import Message
from spanwire.client.aio import Consumer, Session
from spanwire.model.destination import Destination
from spanwire.model.errors import IllegalStateError, JmsError

LEAVE_TIMEOUT_S: Final = 5.0  # of a session whose broker does not answer


class Subscriber(TasksMixin, SubscriberUsecase[Message]):
    """Hands the messages of a destination to handlers, one at a time."""

    def __init__(self, config: SpanwireSubscriberConfig, specification: Any, calls: Any) -> None:
        self._subscription: Final = config.subscription
        parser = MessageParser()
        config.parser = parser.parse_message
        config.decoder = parser.decode_message
        super().__init__(config, specification, calls)
        self._session: Session | None = None
        self._consumer: Consumer | None = None
        self.read_path()

    @property
    def declared(self) -> SpanwireAddress:
        """The destination as it was declared, without prefixes."""
        return self._subscription.address

    @property
    def selector(self) -> str | None:
        """The selector of the consumer."""
        return self._subscription.selector

    @property
    def address(self) -> Address:
        """The name with prefixes, as a template and as the broker gets it."""
        return self.declared.with_prefix(self._outer_config.prefix)

    @property
    def destination(self) -> str:
        """The destination or pattern with the prefixes of the routers around the subscriber."""
        return self.declared.destination(self._outer_config.prefix)

    @property
    def pattern(self) -> Destination:
        """The destination or pattern without options."""
        return self.declared.pattern(self._outer_config.prefix)

    def read_path(self) -> None:
        """Take the parameters of the path from the name with all prefixes, which routers add later."""
        parser = MessageParser(self.address.regex)
        self._parser = parser.parse_message
        self._decoder = parser.decode_message

    async def start(self) -> None:
        """Begin to consume, if there is a handler. Raises `JmsError`."""
        self.read_path()
        await super().start()
        self._post_start()
        if self.calls:
            consumer = await self._consuming()
            self.add_task(self._consume_all, (consumer,), restart_on_failure=False)

    async def stop(self) -> None:
        """End the consumer after the handlers that run; unacknowledged messages go to other consumers."""
        self.running = False
        await SubscriberUsecase.stop(self)  # the handlers that run acknowledge over the session
        await self._leave()
        await super().stop()

    async def get_one(self, *, timeout: float = 5.0) -> SpanwireMessage | None:
        """Return the next message, to be acknowledged by the caller, or None after ``timeout`` seconds."""
        assert not self.calls, "a subscriber with handlers hands its messages to them: get_one has none"
        consumer = await self._consuming()
        message = await consumer.receive(timeout)
        if message is not None:
            self._is_readable(message)  # the caller gets the error of one that is not
        return await self._processed(message)

    async def __aiter__(self) -> AsyncIterator[SpanwireMessage]:
        assert not self.calls, "a subscriber with handlers hands its messages to them: there are none to iterate"
        consumer = await self._consuming()
        async for message in consumer:
            processed = await self._processed(message) if self._is_readable(message) else None
            if processed is not None:
                yield processed

    def get_log_context(self, message: Any) -> dict[str, str]:
        """Return the fields of a line in the log."""
        return log_context(message, self.destination)

    def _make_response_publisher(self, message: Any) -> Sequence[Any]:
        return (ReplyPublisher(self._outer_config.producer, message.reply_to),)

    async def _consuming(self) -> Consumer:
        if self._consumer is None:
            wanted = self._subscription
            session = self._outer_config.connected.session(
                "auto" if self.ack_policy is AckPolicy.ACK_FIRST else "individual"
            )
            self._session = session
            if wanted.durable is not None:
                self._consumer = await session.create_durable_subscriber(
                    self.destination, wanted.durable, wanted.selector, prefetch=wanted.prefetch
                )
            else:
                self._consumer = await session.create_consumer(
                    self.destination,
                    wanted.selector,
                    prefetch=wanted.prefetch,
                    exclusive=wanted.exclusive,
                    priority=wanted.priority,
                )
        return self._consumer

    async def _leave(self) -> None:
        session = self._session
        self._session = self._consumer = None
        if session is None:
            return
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await session.close()
        except (JmsError, OSError) as error:
            self._log(logging.WARNING, f"the session of {self.destination} was not closed: {error}")

    async def _processed(self, message: Message | None) -> SpanwireMessage | None:
        parser, decoder = self._get_parser_and_decoder()
        context = self._outer_config.context
        processed: SpanwireMessage | None = await process_msg(
            msg=message,
            middlewares=(middleware(message, context=context) for middleware in self._broker_middlewares),
            parser=parser,
            decoder=decoder,
        )
        return processed

    async def _consume_all(self, consumer: Consumer) -> None:
        try:
            async for message in consumer:
                if self._is_readable(message):
                    await self._take(message)
        except IllegalStateError:
            pass  # the broker object has closed the connection
        except JmsError as error:
            self._log(logging.CRITICAL, f"{self.destination} has no consumer any more: {error}")
            app = self._outer_config.context.get("app")
            if app is not None:
                app.exit()  # what starts the service again connects again

    def _is_readable(self, message: Message) -> bool:
        """Return whether a message can be decoded; one that cannot becomes a dead letter.

        FastStream settles only what it has parsed, so such a message would keep its place in the prefetch for ever.
        """
        try:
            check_readable(message)
        except JmsError as error:
            session = self._session
            settles = session is not None and session.decides_singly
            if session is not None and settles:
                session.reject(message, str(error))
            fate = "is rejected" if settles else "is lost, as it was acknowledged before"
            self._log(logging.ERROR, f"message {message.message_id} of {self.destination} {fate}: {error}")
            return False
        return True

    async def _take(self, message: Message) -> None:
        await self.consume(message)


class ConcurrentSubscriber(ConcurrentMixin[Message], Subscriber):
    """Hands the messages of a destination to as many handlers at a time as there are workers."""

    async def start(self) -> None:
        """Begin to consume. Raises `JmsError`."""
        await super().start()
        self.start_consume_task()

    async def _take(self, message: Message) -> None:
        await self._put_msg(message)


def log_context(message: Any, destination: str) -> dict[str, str]:
    """Return the fields of a line in the log."""
    return {"destination": destination, "message_id": getattr(message, "message_id", "")}
