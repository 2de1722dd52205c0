"""A session of an asyncio connection."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.aio.browser import Browser
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.core_connection import CoreConnection
from spanwire.client.aio.listener import Turns
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.requestor import Requestor
from spanwire.client.aio.xa import XaResource
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message, reply_destination
from spanwire.client.protocol.producer import SendDefaults
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import TEMP_QUEUE, TEMP_TOPIC, Destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.written_destination import written_destination


class Session:
    """One acknowledgement mode and one transaction at a time. Not for two tasks at once."""

    def __init__(self, shared: CoreConnection, core: ClientSession, requestor: Requestor) -> None:
        self.core: Final = core
        self._shared: Final = shared
        self._requestor: Final = requestor
        self.xa: Final = XaResource(shared, core)
        self._replier: Producer | None = None
        self._turns: Final = Turns()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def create_producer(
        self,
        destination: Destination | str | None = None,
        persistent: bool = True,
        priority: int = 4,
        time_to_live_ms: int = 0,
        timeout: float | None = None,
    ) -> Producer:
        """A producer for one destination, or with None for any that a send names."""
        target = written_destination(destination) if isinstance(destination, str) else destination
        defaults = SendDefaults(persistent, priority, time_to_live_ms)
        shared = self._shared
        async with shared.ready():
            core = self.core.add_producer(shared.core.next_producer(), target, defaults)
            try:
                await shared.answer(core.announce(), timeout)
            except BaseException:
                self.core.abandon_producer(core)
                shared.write_soon()
                raise
        return Producer(self.core, core, shared)

    async def create_consumer(
        self,
        destination: Destination | str,
        selector: str | None = None,
        no_local: bool | None = None,
        prefetch: int | None = None,
        exclusive: bool | None = None,
        retroactive: bool | None = None,
        priority: int | None = None,
        timeout: float | None = None,
    ) -> Consumer:
        """A consumer of a queue or topic; options may also stand behind the name, ``?consumer.prefetchSize=1``."""
        options = ConsumerOptions(selector, no_local, prefetch, exclusive, retroactive, priority)
        return await self.subscribe(destination, options, timeout)

    async def create_durable_subscriber(
        self,
        destination: Destination | str,
        name: str,
        selector: str | None = None,
        no_local: bool | None = None,
        prefetch: int | None = None,
        timeout: float | None = None,
    ) -> Consumer:
        """A consumer whose topic keeps messages for it while it is away, under ``name`` and the client id."""
        options = ConsumerOptions(selector, no_local, prefetch, subscription_name=name)
        target = written_destination(destination) if isinstance(destination, str) else destination
        return await self.subscribe(target, options, timeout)

    def create_browser(self, destination: Destination | str, selector: str | None = None) -> Browser:
        """The messages of a queue, which stay there: ``async for message in session.create_browser(…)``."""
        self._shared.check()
        return Browser(self.subscribe, destination, selector)

    async def subscribe(
        self, destination: Destination | str, options: ConsumerOptions, timeout: float | None = None
    ) -> Consumer:
        """A consumer with all options at once."""
        shared = self._shared
        async with shared.ready():
            info = consumer_info(destination, options, shared.core.settings)
            core = self.core.add_consumer(shared.core.next_consumer(), info, self)
            shared.core.add_consumer(core)
            try:
                await shared.answer(core.announce(), timeout)
            except BaseException:
                self.core.abandon_consumer(core)
                shared.remove_consumer(core)
                shared.write_soon()
                raise
        return Consumer(self.core, core, shared, self._turns)

    async def unsubscribe(self, name: str, timeout: float | None = None) -> None:
        """Delete a durable subscription that has no consumer."""
        async with self._shared.ready():
            await self._shared.answer(self._shared.core.remove_subscription(name), timeout)

    async def create_temporary_queue(self, timeout: float | None = None) -> Destination:
        """A queue that lives as long as the connection, which alone may consume from it."""
        return await self._temporary(TEMP_QUEUE, timeout)

    async def create_temporary_topic(self, timeout: float | None = None) -> Destination:
        """A topic that lives as long as the connection, which alone may consume from it."""
        return await self._temporary(TEMP_TOPIC, timeout)

    async def delete_temporary(self, destination: Destination, timeout: float | None = None) -> None:
        """End a temporary destination before its connection ends."""
        async with self._shared.ready():
            await self._shared.answer(self._shared.core.remove_temporary(destination), timeout)

    async def _temporary(self, kind: int, timeout: float | None) -> Destination:
        async with self._shared.ready():
            destination, request = self._shared.core.add_temporary(kind)
            await self._shared.answer(request, timeout)
        return destination

    async def request(
        self,
        destination: Destination | str,
        body: Body,
        properties: Properties | None = None,
        timeout: float | None = None,
    ) -> Message | None:
        """Send a message that asks for a reply, and wait for that; None when the time is over.

        Raises `IllegalStateError` in a transacted session, whose messages go out with the commit only.
        """
        if self.core.transaction.is_transacted:
            raise IllegalStateError("a transacted session sends nothing before its commit; request in another one")
        self.core.check_open()
        return await self._requestor.request(destination, body, properties, timeout)

    async def reply(self, message: Message, body: Body, properties: Properties | None = None) -> None:
        """Send the answer to a request: to its ``reply_to``, with its correlation id or, without one, its message id.

        Raises `InvalidDestinationError` for a message that asks for no answer.
        """
        if self._replier is None:
            self._replier = await self.create_producer()
        await self._replier.send(
            body,
            properties,
            reply_destination(message),
            correlation_id=message.correlation_id or message.message_id,
            persistent=message.persistent,
        )

    async def commit(self, timeout: float | None = None) -> None:
        """Make everything sent and received final. Raises `TransactionRolledBackError` when none of it was done, and
        `ResourceAllocationError` when ``timeout`` seconds are over before the broker has said what was done.
        """
        shared = self._shared
        async with shared.ready():
            try:
                request = self.core.commit(shared.machine.now())
                if request is not None:
                    await shared.answer(request, timeout)
            finally:
                self._forget_closed_consumers()

    async def rollback(self, timeout: float | None = None) -> None:
        """Undo everything sent and received; what was received comes again."""
        shared = self._shared
        async with shared.ready():
            request = self.core.rollback(shared.machine.now())
            self._forget_closed_consumers()
            shared.flush()
            if request is not None:
                await shared.answer(request, timeout)

    def _forget_closed_consumers(self) -> None:
        for consumer in self.core.take_closed_consumers():
            self._shared.remove_consumer(consumer)

    async def recover(self) -> None:
        """Have everything that is not acknowledged come again."""
        shared = self._shared
        shared.check()
        with shared.lock:
            self.core.recover(shared.machine.now())
            shared.flush()

    def acknowledge(self, message: Message) -> None:
        """What `Message.acknowledge` does."""
        shared = self._shared
        shared.check()
        with shared.lock:
            self.core.acknowledge(message)
            shared.write_soon()

    async def close(self) -> None:
        """End the session with all it has; an open transaction is rolled back."""
        shared = self._shared
        shared.check_process()
        for loop in list(self._turns.loops):
            await loop.stop()
        with shared.lock:
            await shared.answer_close(shared.close_session(self.core))
