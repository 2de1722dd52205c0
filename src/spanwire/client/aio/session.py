"""Session of the asyncio client (JMS 1.1 §4.4)."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.aio.browser import Browser
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.listener import Turns
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.requestor import Requestor
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.aio.xa import XaResource
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message, reply_destination
from spanwire.client.protocol.consumer import INDIVIDUAL, ClientConsumer
from spanwire.client.protocol.producer import ClientProducer, SendDefaults
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import TEMP_QUEUE, TEMP_TOPIC, Destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.written_destination import written_destination


class Session:
    """A session with one acknowledgement mode and at most one open transaction, for one task at a time.

    Every ``timeout`` is in seconds, and None waits as long as the connection lives. A method whose timeout ends raises
    `ResourceAllocationError`; the command may still take effect.
    """

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
        """Create a producer.

        Arguments:
            destination: Destination of all messages; None if each send names a destination.
            persistent: Default delivery mode.
            priority: Default priority, 0 to 9.
            time_to_live_ms: Default time to live in milliseconds; 0 for no expiry.
            timeout: Seconds to wait for the broker's response.

        Raises:
            InvalidDestinationError: The name of the destination is wrong.
            MessageFormatError: The priority or time to live is out of range.
            JmsError: The broker refused the producer.
        """
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
        return self._new_producer(core)

    def _new_producer(self, core: ClientProducer) -> Producer:
        """Return the producer of ``core``. A tracing session has producers and consumers of its own."""
        return Producer(self.core, core, self._shared)

    def _new_consumer(self, core: ClientConsumer) -> Consumer:
        """Return the consumer of ``core``."""
        return Consumer(self.core, core, self._shared, self._turns)

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
        """Create a consumer of a queue or topic.

        Arguments:
            destination: Destination or name; options may follow the name, as in ``queue://A?consumer.prefetchSize=1``.
            selector: SQL-92 selector (JMS 1.1 §3.8.1).
            no_local: Skip messages of this connection (topics).
            prefetch: Messages that the broker dispatches ahead of their acknowledgement; 0 to pull each message.
            exclusive: Ask to be the only consumer of the queue that receives messages.
            retroactive: Ask for recent messages of the topic.
            priority: -128 to 127; the broker prefers consumers of a higher priority.
            timeout: Seconds to wait for the broker's response.

        Raises:
            InvalidSelectorError: The broker does not understand the selector.
            InvalidDestinationError: The destination is wrong, or a temporary one of another connection.
            JmsError: The broker refused the consumer.
        """
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
        """Create the consumer of a durable subscription.

        The broker stores messages of the topic while the consumer is away.

        Arguments:
            destination: The topic.
            name: Name of the subscription, unique together with the client id.
            selector: SQL-92 selector.
            no_local: Skip messages of this connection.
            prefetch: Messages that the broker dispatches ahead of their acknowledgement.
            timeout: Seconds to wait for the broker's response.

        Raises:
            IllegalStateError: The connection was opened without a client id.
            InvalidDestinationError: The destination is no topic.
            JmsError: The broker refused the consumer.
        """
        options = ConsumerOptions(selector, no_local, prefetch, subscription_name=name)
        target = written_destination(destination) if isinstance(destination, str) else destination
        return await self.subscribe(target, options, timeout)

    def create_browser(self, destination: Destination | str, selector: str | None = None) -> Browser:
        """Create a queue browser: ``async for message in session.create_browser(…)``.

        The messages stay in the queue.
        """
        self._shared.check()
        return Browser(self.subscribe, destination, selector)

    async def subscribe(
        self, destination: Destination | str, options: ConsumerOptions, timeout: float | None = None
    ) -> Consumer:
        """Create a consumer from `ConsumerOptions`, as `create_consumer` and `create_durable_subscriber` do."""
        shared = self._shared
        async with shared.ready():
            info = consumer_info(destination, options, shared.core.settings)
            core = self.core.add_consumer(shared.core.next_consumer(), info, self)
            core.max_octets = options.max_octets
            shared.core.add_consumer(core)
            try:
                await shared.answer(core.announce(), timeout)
            except BaseException:
                self.core.abandon_consumer(core)
                shared.remove_consumer(core)
                shared.write_soon()
                raise
        return self._new_consumer(core)

    async def unsubscribe(self, name: str, timeout: float | None = None) -> None:
        """Delete a durable subscription of this client id.

        Raises `JmsError` while the subscription has a consumer.
        """
        async with self._shared.ready():
            await self._shared.answer(self._shared.core.remove_subscription(name), timeout)

    async def create_temporary_queue(self, timeout: float | None = None) -> Destination:
        """Create a queue that exists until the connection closes.

        Only this connection may consume from the queue.
        """
        return await self._temporary(TEMP_QUEUE, timeout)

    async def create_temporary_topic(self, timeout: float | None = None) -> Destination:
        """Create a topic that exists until the connection closes.

        Only this connection may consume from the topic.
        """
        return await self._temporary(TEMP_TOPIC, timeout)

    async def delete_temporary(self, destination: Destination, timeout: float | None = None) -> None:
        """Delete a temporary destination of this connection.

        Raises `IllegalStateError` for any other destination.
        """
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
        """Send a request with a ``reply_to`` and wait for the reply.

        Returns:
            The reply, or None after ``timeout`` seconds without a reply.

        Raises:
            IllegalStateError: The session is transacted, and would send the request only with its commit.
            JmsError: The request could not be sent.
        """
        if self.core.transaction.is_transacted:
            raise IllegalStateError("a transacted session sends nothing before its commit; request in another one")
        self.core.check_open()
        return await self._requestor.request(destination, body, properties, timeout)

    async def reply(self, message: Message, body: Body, properties: Properties | None = None) -> None:
        """Send the reply to a request.

        The reply goes to the request's ``reply_to`` with the request's correlation id, or with its message id if the
        request has no correlation id. Raises `InvalidDestinationError` for a message without ``reply_to``.
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
        """Commit the transaction.

        Raises:
            TransactionRolledBackError: The broker rolled the transaction back; received messages are redelivered.
            ResourceAllocationError: No response within ``timeout`` seconds; the outcome is unknown.
            IllegalStateError: The session is not transacted, or is an XA session.
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
        """Roll the transaction back. Received messages are redelivered by the redelivery policy."""
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
        """Redeliver all unacknowledged messages. Raises `IllegalStateError` in a transacted session."""
        shared = self._shared
        shared.check()
        with shared.lock:
            self.core.recover(shared.machine.now())
            shared.flush()

    @property
    def decides_singly(self) -> bool:
        """True in an ``individual`` session, which acknowledges, redelivers and rejects single messages."""
        return self.core.mode == INDIVIDUAL

    def redeliver(self, message: Message) -> None:
        """Redeliver one message of an ``individual`` session, by the redelivery policy.

        Nothing happens to a message that is acknowledged, or that came over a lost connection. Raises
        `IllegalStateError` in a session of another mode.
        """
        shared = self._shared
        shared.check()
        with shared.lock:
            consumer = self.core.redeliver(message, shared.machine.now())
            shared.flush()
            if consumer is not None:
                shared.wake_consumer(consumer)  # another task may wait for its next message

    def reject(self, message: Message, cause: str) -> None:
        """Have the broker send one message of an ``individual`` session to the dead letters at once.

        Nothing happens to a message that is acknowledged, or that came over a lost connection.

        Arguments:
            message: A message that a consumer of this session has received.
            cause: Reason for the operator, a property of the dead letter.

        Raises:
            IllegalStateError: The session has another acknowledgement mode.
        """
        shared = self._shared
        shared.check()
        with shared.lock:
            self.core.reject(message, cause)
            shared.write_soon()

    def acknowledge(self, message: Message) -> None:
        """Acknowledge a message as `Message.acknowledge` does."""
        shared = self._shared
        shared.check()
        with shared.lock:
            self.core.acknowledge(message)
            shared.write_soon()

    async def close(self) -> None:
        """Close the session with its producers and consumers. An open transaction is rolled back."""
        shared = self._shared
        shared.check_process()
        for loop in list(self._turns.loops):
            await loop.stop()
        with shared.lock:
            await shared.answer_close(shared.close_session(self.core))
