"""The client for asyncio.

    async with aio.connect("tcp://localhost:61616") as connection, connection.session() as session:
        producer = await session.create_producer("queue://ORDERS")
        await producer.send("text", properties={"n": 1})
        consumer = await session.create_consumer("queue://ORDERS", selector="n > 0")
        message = await consumer.receive(timeout=5)

One event loop owns a connection and everything of it. What is sent in one turn of the loop is written at its end.
`spanwire.client.blocking` has the same names without ``await``. ``vm:`` and ``peer:`` URLs reach a broker of this
process through `spanwire.client.ports`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Mapping
from types import TracebackType
from typing import Final, Self

from spanwire.client.address import parse_url
from spanwire.client.aio_connection import CoreConnection, Sleeper
from spanwire.client.connection import ClientConnection
from spanwire.client.consumer import ClientConsumer
from spanwire.client.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.machine import Machine
from spanwire.client.message import Message
from spanwire.client.outgoing import Outgoing
from spanwire.client.producer import ClientProducer, SendDefaults
from spanwire.client.requestor import Replies
from spanwire.client.session import ClientSession
from spanwire.model.destination import QUEUE, TEMP_QUEUE, TEMP_TOPIC, Destination, parse_destination
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.tls.settings import ClientTlsSettings


def connect(
    url: str,
    user_name: str | None = None,
    password: str | None = None,
    client_id: str | None = None,
    tls: ClientTlsSettings | None = None,
) -> Connecting:
    """A logged-in connection: ``await connect(…)`` or ``async with connect(…) as connection``.

    Raises `ConfigurationError` for a URL that cannot be meant, and `JmsError` when no broker lets the client in.
    """
    return Connecting(url, user_name, password, client_id, tls)


class Connecting:
    """A connection that is about to be made."""

    def __init__(
        self,
        url: str,
        user_name: str | None,
        password: str | None,
        client_id: str | None,
        tls: ClientTlsSettings | None,
    ) -> None:
        self._url: Final = parse_url(url, user_name, password, client_id)
        self._tls: Final = tls
        self._connection: Connection | None = None

    def __await__(self) -> Generator[object, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        self._connection = await self._open()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _open(self) -> Connection:
        machine = Machine()
        shared = CoreConnection(ClientConnection(self._url, machine), machine, self._tls)
        await shared.open()
        return Connection(shared)


class Connection:
    """One connection to a broker, or with ``failover:`` to one of several after the other."""

    def __init__(self, shared: CoreConnection) -> None:
        self.shared: Final = shared
        self._requestor: _Requestor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The client id, chosen by the caller or made up."""
        return self.shared.core.client_id

    @property
    def broker_name(self) -> str | None:
        """How the broker calls itself."""
        return self.shared.core.broker_name

    @property
    def errors(self) -> list[JmsError]:
        """What the broker refused of commands that nobody waited for, the last hundred."""
        return list(self.shared.core.errors)

    def session(self, acknowledge: str = "auto") -> Session:
        """A session; ``acknowledge`` is ``auto``, ``client``, ``dups_ok``, ``individual`` or ``transacted``."""
        shared = self.shared
        shared.check()
        session = Session(self, shared.core.add_session(acknowledge))
        shared.flush_soon()
        return session

    async def close(self) -> None:
        """Say farewell, so that everything before is done, and close. A second call does nothing."""
        await self.shared.close()

    def requestor(self) -> _Requestor:
        """Where answers to requests arrive."""
        if self._requestor is None:
            self._requestor = _Requestor(self)
        return self._requestor


class Session:
    """One acknowledgement mode and one transaction at a time. Not for two tasks at once."""

    def __init__(self, connection: Connection, core: ClientSession) -> None:
        self.core: Final = core
        self._connection: Final = connection
        self._shared: Final = connection.shared

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
    ) -> Producer:
        """A producer for one destination, or with None for any that a send names."""
        await self._shared.ready()
        target = parse_destination(destination, QUEUE) if isinstance(destination, str) else destination
        defaults = SendDefaults(persistent, priority, time_to_live_ms)
        core = self.core.add_producer(self._shared.core.next_producer(), target, defaults)
        try:
            await self._shared.answer(core.announce())
        except JmsError:
            self.core.producers.pop(core.number, None)
            raise
        except asyncio.CancelledError:
            self.core.close_producer(core)
            raise
        return Producer(self, core, self._shared)

    async def create_consumer(
        self,
        destination: Destination | str,
        selector: str | None = None,
        no_local: bool | None = None,
        prefetch: int | None = None,
        exclusive: bool | None = None,
        retroactive: bool | None = None,
        priority: int | None = None,
    ) -> Consumer:
        """A consumer of a queue or topic; options may also stand behind the name, ``?consumer.prefetchSize=1``."""
        options = ConsumerOptions(selector, no_local, prefetch, exclusive, retroactive, priority)
        return await self.subscribe(destination, options)

    async def create_durable_subscriber(
        self,
        destination: Destination | str,
        name: str,
        selector: str | None = None,
        no_local: bool | None = None,
        prefetch: int | None = None,
    ) -> Consumer:
        """A consumer whose topic keeps messages for it while it is away, under ``name`` and the client id."""
        options = ConsumerOptions(selector, no_local, prefetch, subscription_name=name)
        target = parse_destination(destination, QUEUE) if isinstance(destination, str) else destination
        return await self.subscribe(target, options)

    def create_browser(self, destination: Destination | str, selector: str | None = None) -> Browser:
        """The messages of a queue, which stay there: ``async for message in session.create_browser(…)``."""
        self._shared.check()
        return Browser(self, destination, selector)

    async def subscribe(self, destination: Destination | str, options: ConsumerOptions) -> Consumer:
        """A consumer with all options at once."""
        await self._shared.ready()
        info = consumer_info(destination, options, self._shared.core.settings)
        core = self.core.add_consumer(self._shared.core.next_consumer(), info, self)
        consumer = Consumer(self, core, self._shared)
        self._shared.add_consumer(core, consumer)
        try:
            await self._shared.answer(core.announce())
        except JmsError:
            self.core.consumers.pop(core.number, None)
            self._shared.remove_consumer(core)
            raise
        except asyncio.CancelledError:
            self.core.close_consumer(core)
            self._shared.remove_consumer(core)
            self._shared.flush_soon()
            raise
        return consumer

    async def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription that has no consumer."""
        await self._shared.ready()
        await self._shared.answer(self._shared.core.remove_subscription(name))

    async def create_temporary_queue(self) -> Destination:
        """A queue that lives as long as the connection, which alone may consume from it."""
        return await self._temporary(TEMP_QUEUE)

    async def create_temporary_topic(self) -> Destination:
        """A topic that lives as long as the connection, which alone may consume from it."""
        return await self._temporary(TEMP_TOPIC)

    async def delete_temporary(self, destination: Destination) -> None:
        """End a temporary destination before its connection ends."""
        await self._shared.ready()
        await self._shared.answer(self._shared.core.remove_temporary(destination))

    async def _temporary(self, kind: int) -> Destination:
        await self._shared.ready()
        destination, request = self._shared.core.add_temporary(kind)
        await self._shared.answer(request)
        return destination

    async def request(
        self,
        destination: Destination | str,
        body: object,
        properties: Mapping[str, object] | None = None,
        timeout: float | None = None,
    ) -> Message | None:
        """Send a message that asks for a reply, and wait for that; None when the time is over.

        Raises `IllegalStateError` in a transacted session, whose messages go out with the commit only.
        """
        if self.core.transaction.is_transacted:
            raise IllegalStateError("a transacted session sends nothing before its commit; request in another one")
        self.core.check_open()
        return await self._connection.requestor().request(destination, body, properties, timeout)

    async def commit(self) -> None:
        """Make everything sent and received final. Raises `TransactionRolledBackError` when none of it was done."""
        await self._shared.ready()
        try:
            request = self.core.commit(self._shared.machine.now())
            if request is not None:
                await self._shared.answer(request)
        finally:
            self._forget_left()

    async def rollback(self) -> None:
        """Undo everything sent and received; what was received comes again."""
        await self._shared.ready()
        request = self.core.rollback(self._shared.machine.now())
        self._forget_left()
        self._shared.flush_soon()
        if request is not None:
            await self._shared.answer(request)

    def _forget_left(self) -> None:
        for consumer in self.core.take_left():
            self._shared.remove_consumer(consumer)

    async def recover(self) -> None:
        """Have everything that is not acknowledged come again."""
        self._shared.check()
        self.core.recover(self._shared.machine.now())
        self._shared.flush_soon()

    def acknowledge(self, message: Message) -> None:
        """What `Message.acknowledge` does."""
        self._shared.check()
        self.core.acknowledge(message)
        self._shared.flush_soon()

    async def close(self) -> None:
        """End the session with all it has; an open transaction is rolled back."""
        self._shared.check_process()
        consumers = list(self.core.consumers.values())
        request = None if self._shared.core.failure is not None else self._shared.core.close_session(self.core)
        for consumer in consumers:
            self._shared.remove_consumer(consumer)
        await self._shared.answer_close(request)


class Producer:
    """Sends messages."""

    def __init__(self, session: Session, core: ClientProducer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._session: Final = session
        self._shared: Final = shared

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def destination(self) -> Destination | None:
        """Where everything goes, if the producer is bound to it."""
        return self.core.destination

    async def send(
        self,
        body: object = None,
        properties: Mapping[str, object] | None = None,
        destination: Destination | str | None = None,
        message_type: str | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | str | None = None,
        persistent: bool | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        group_id: str | None = None,
        group_sequence: int = 0,
        wait: bool | None = None,
    ) -> None:
        """Send one message.

        ``body``: str, bytes, dict, list, None or a received `Message`. ``wait`` None: a persistent message outside of a
        transaction waits until the broker has it synced, unless the URL says ``jms.useAsyncSend=true``; any other is on
        its way when this returns.
        """
        shared = self._shared
        shared.check_process()
        if not shared.core.is_online:
            await shared.ready()
        timeout_ms = shared.core.settings.send_timeout_ms
        timeout = timeout_ms / 1000 if timeout_ms else None
        await shared.room(timeout)
        outgoing = Outgoing(
            body,
            properties,
            destination,
            message_type,
            correlation_id,
            reply_to,
            persistent,
            priority,
            time_to_live_ms,
            group_id,
            group_sequence,
        )
        request = self.core.send(outgoing, wait, shared.machine.now())
        if request is None:
            await shared.sent()
            return
        await shared.answer(request, timeout)

    async def close(self) -> None:
        """The producer leaves."""
        self._shared.check_process()
        request = None if self._shared.core.failure is not None else self._session.core.close_producer(self.core)
        await self._shared.answer_close(request)


class Consumer(Sleeper):
    """Receives messages; also ``async for message in consumer``, which ends when the consumer is closed."""

    def __init__(self, session: Session, core: ClientConsumer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._session: Final = session
        self._shared: Final = shared
        self._waiters: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[Message]:
        while not self.core.is_closed:
            try:
                message = await self.receive()
            except IllegalStateError:
                if self.core.is_closed:
                    return
                raise
            if message is None:
                return
            yield message

    def receive_no_wait(self) -> Message | None:
        """The next message that is here already."""
        shared = self._shared
        shared.check_process()
        message = self.core.next_message(shared.machine.now())
        if shared.core.pending_bytes():
            shared.flush_soon()
        return message

    async def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when ``timeout`` seconds are over. Without one it waits as long as it takes."""
        message = self.receive_no_wait()
        if message is not None:
            return message
        shared = self._shared
        end = None if timeout is None else shared.machine.now().monotonic + timeout
        core = self.core
        core.begin_receive()
        while not core.ended:
            core.before_waiting()
            now = shared.machine.now()
            until = core.pull_until(end, now)
            shared.flush_soon()
            if until is not None and now.monotonic >= until:
                return None
            await self.woken(self._until(until), now.monotonic)
            message = self.receive_no_wait()
            if message is not None:
                return message
        return None

    def _until(self, end: float | None) -> float | None:
        resume_at = self.core.resume_at
        if resume_at > 0.0:
            return resume_at if end is None else min(end, resume_at)
        return end

    async def woken(self, until: float | None, now: float) -> None:
        """Wait until something came for this consumer, or the time is over."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiters.append(future)
        self.core.waiting = True
        timer = None if until is None else loop.call_later(max(0.0, until - now), _finish, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            if future in self._waiters:
                self._waiters.remove(future)

    def wake(self) -> None:
        """Something came, or the consumer failed."""
        waiters = self._waiters
        self._waiters = []
        for future in waiters:
            _finish(future)

    async def close(self) -> None:
        """The consumer leaves; in a transaction with messages of it, at its end."""
        shared = self._shared
        shared.check_process()
        request = None if shared.core.failure is not None else self._session.core.close_consumer(self.core)
        if not self.core.closes_with_transaction:
            shared.remove_consumer(self.core)
        self.wake()
        await shared.answer_close(request)


class Browser:
    """Reads a queue from its head to its end and leaves it as it is."""

    def __init__(self, session: Session, destination: Destination | str, selector: str | None) -> None:
        self._session: Final = session
        self._destination: Final = destination
        self._selector: Final = selector

    async def __aiter__(self) -> AsyncIterator[Message]:
        options = ConsumerOptions(self._selector, browser=True)
        consumer = await self._session.subscribe(self._destination, options)
        try:
            while (message := await consumer.receive()) is not None:
                yield message
        finally:
            await consumer.close()


class _Requestor:
    """One temporary queue for the replies to all requests of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Final = connection
        self._replies: Final = Replies(connection.shared.core.connection_id)
        self._lock: Final = asyncio.Lock()
        self._session: Session | None = None
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._queue: Destination | None = None

    async def request(
        self,
        destination: Destination | str,
        body: object,
        properties: Mapping[str, object] | None,
        timeout: float | None,
    ) -> Message | None:
        clock = self._connection.shared.machine
        end = None if timeout is None else clock.now().monotonic + timeout
        async with self._lock:
            if self._consumer is None:
                await self._start()
        assert self._producer is not None
        assert self._consumer is not None
        number = self._replies.expect()
        try:
            await self._producer.send(
                body, properties, destination, correlation_id=number, reply_to=self._queue, wait=False
            )
            while not self._replies.has(number):
                message = self._consumer.receive_no_wait()
                if message is not None:
                    if self._replies.take(message):
                        self._consumer.wake()
                    continue
                now = clock.now().monotonic
                if end is not None and now >= end:
                    return None
                await self._consumer.woken(end, now)
            return self._replies.pop(number)
        finally:
            self._replies.forget(number)

    async def _start(self) -> None:
        session = self._connection.session()
        self._session = session
        self._queue = await session.create_temporary_queue()
        self._producer = await session.create_producer(None)
        self._consumer = await session.create_consumer(self._queue)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
