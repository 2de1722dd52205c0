"""The client for ordinary threads: the names of `spanwire.client.aio` without ``await``.

    with blocking.connect("tcp://localhost:61616") as connection, connection.session() as session:
        producer = session.create_producer("queue://ORDERS")
        producer.send("text", properties={"n": 1})
        consumer = session.create_consumer("queue://ORDERS", selector="n > 0")
        message = consumer.receive(timeout=5)

Codec and socket work in the calling thread, under the connection's lock; a small thread of the connection keeps it
alive while nobody calls, writes what a burst of sends left, and reconnects. Threads may share a connection; a session
is for one at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final, Self

from spanwire.client.address import parse_url
from spanwire.client.blocking_connection import CoreConnection
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
) -> Connection:
    """A logged-in connection, to be closed or used as a context.

    Raises `ConfigurationError` for a URL that cannot be meant, and `JmsError` when no broker lets the client in.
    """
    machine = Machine()
    parsed = parse_url(url, user_name, password, client_id)
    shared = CoreConnection(ClientConnection(parsed, machine), machine, tls)
    shared.open()
    return Connection(shared)


class Connection:
    """One connection to a broker, or with ``failover:`` to one of several after the other."""

    def __init__(self, shared: CoreConnection) -> None:
        self.shared: Final = shared
        self._requestor: _Requestor | None = None
        self._making_requestor: Final = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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
        with shared.lock:
            core = shared.core.add_session(acknowledge)
            shared.flush()
        return Session(self, core)

    def close(self) -> None:
        """Say farewell, so that everything before is done, and close. A second call does nothing."""
        self.shared.close()

    def requestor(self) -> _Requestor:
        """Where answers to requests arrive."""
        self.shared.check()
        with self._making_requestor:
            if self._requestor is None:
                self._requestor = _Requestor(self)
            return self._requestor


class Session:
    """One acknowledgement mode and one transaction at a time. Not for two threads at once."""

    def __init__(self, connection: Connection, core: ClientSession) -> None:
        self.core: Final = core
        self._connection: Final = connection
        self._shared: Final = connection.shared

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def create_producer(
        self,
        destination: Destination | str | None = None,
        persistent: bool = True,
        priority: int = 4,
        time_to_live_ms: int = 0,
    ) -> Producer:
        """A producer for one destination, or with None for any that a send names."""
        target = parse_destination(destination, QUEUE) if isinstance(destination, str) else destination
        defaults = SendDefaults(persistent, priority, time_to_live_ms)
        shared = self._shared
        with shared.ready():
            core = self.core.add_producer(shared.core.next_producer(), target, defaults)
            try:
                shared.answer(core.announce())
            except JmsError:
                self.core.producers.pop(core.number, None)
                raise
        return Producer(self, core, shared)

    def create_consumer(
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
        return self.subscribe(destination, options)

    def create_durable_subscriber(
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
        return self.subscribe(target, options)

    def create_browser(self, destination: Destination | str, selector: str | None = None) -> Browser:
        """The messages of a queue, which stay there: ``for message in session.create_browser(…)``."""
        self._shared.check()
        return Browser(self, destination, selector)

    def subscribe(self, destination: Destination | str, options: ConsumerOptions) -> Consumer:
        """A consumer with all options at once."""
        shared = self._shared
        with shared.ready():
            info = consumer_info(destination, options, shared.core.settings)
            core = self.core.add_consumer(shared.core.next_consumer(), info, self)
            shared.core.add_consumer(core)
            try:
                shared.answer(core.announce())
            except JmsError:
                self.core.consumers.pop(core.number, None)
                shared.core.remove_consumer(core)
                raise
        return Consumer(self, core, shared)

    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription that has no consumer."""
        with self._shared.ready():
            self._shared.answer(self._shared.core.remove_subscription(name))

    def create_temporary_queue(self) -> Destination:
        """A queue that lives as long as the connection, which alone may consume from it."""
        return self._temporary(TEMP_QUEUE)

    def create_temporary_topic(self) -> Destination:
        """A topic that lives as long as the connection, which alone may consume from it."""
        return self._temporary(TEMP_TOPIC)

    def delete_temporary(self, destination: Destination) -> None:
        """End a temporary destination before its connection ends."""
        with self._shared.ready():
            self._shared.answer(self._shared.core.remove_temporary(destination))

    def _temporary(self, kind: int) -> Destination:
        with self._shared.ready():
            destination, request = self._shared.core.add_temporary(kind)
            self._shared.answer(request)
        return destination

    def request(
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
        return self._connection.requestor().request(destination, body, properties, timeout)

    def commit(self) -> None:
        """Make everything sent and received final. Raises `TransactionRolledBackError` when none of it was done."""
        shared = self._shared
        with shared.ready():
            try:
                request = self.core.commit(shared.machine.now())
                if request is not None:
                    shared.answer(request)
            finally:
                self._forget_left()

    def rollback(self) -> None:
        """Undo everything sent and received; what was received comes again."""
        shared = self._shared
        with shared.ready():
            request = self.core.rollback(shared.machine.now())
            self._forget_left()
            shared.flush()
            if request is not None:
                shared.answer(request)

    def _forget_left(self) -> None:
        for consumer in self.core.take_left():
            self._shared.core.remove_consumer(consumer)

    def recover(self) -> None:
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
            shared.wrote()

    def close(self) -> None:
        """End the session with all it has; an open transaction is rolled back."""
        shared = self._shared
        shared.check_process()
        with shared.lock:
            request = None if shared.core.failure is not None else shared.core.close_session(self.core)
            shared.changed()
            shared.answer_close(request)


class Producer:
    """Sends messages."""

    def __init__(self, session: Session, core: ClientProducer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._session: Final = session
        self._shared: Final = shared

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def destination(self) -> Destination | None:
        """Where everything goes, if the producer is bound to it."""
        return self.core.destination

    def send(
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
        shared = self._shared
        timeout_ms = shared.core.settings.send_timeout_ms
        timeout = timeout_ms / 1000 if timeout_ms else None
        with shared.ready():
            shared.room(timeout)
            request = self.core.send(outgoing, wait, shared.machine.now())
            if request is None:
                shared.wrote()
                return
            shared.answer(request, timeout)

    def close(self) -> None:
        """The producer leaves."""
        shared = self._shared
        shared.check_process()
        with shared.lock:
            request = None if shared.core.failure is not None else self._session.core.close_producer(self.core)
            shared.answer_close(request)


class Consumer:
    """Receives messages; also ``for message in consumer``, which ends when the consumer is closed."""

    def __init__(self, session: Session, core: ClientConsumer, shared: CoreConnection) -> None:
        self.core: Final = core
        self._session: Final = session
        self._shared: Final = shared

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while not self.core.is_closed:
            try:
                message = self.receive()
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
        with shared.lock:
            message = self.core.next_message(shared.machine.now())
            if message is None and shared.core.failure is None:
                shared.look()
                message = self.core.next_message(shared.machine.now())
            shared.wrote()
            return message

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when ``timeout`` seconds are over. Without one it waits as long as it takes."""
        shared = self._shared
        shared.check_process()
        core = self.core
        with shared.lock:
            message = core.next_message(shared.machine.now())
            if message is not None:
                shared.wrote()
                return message
            end = None if timeout is None else shared.machine.now().monotonic + timeout
            core.begin_receive()
            while not core.ended:
                core.before_waiting()
                core.waiting = True  # before the lock may be given away
                until = core.pull_until(end, shared.machine.now())
                shared.flush()
                is_over = not shared.wait_woken(core, until)
                message = core.next_message(shared.machine.now())
                if message is not None or is_over:
                    shared.wrote()
                    return message
            return None

    def close(self) -> None:
        """The consumer leaves; in a transaction with messages of it, at its end."""
        shared = self._shared
        shared.check_process()
        with shared.lock:
            request = None if shared.core.failure is not None else self._session.core.close_consumer(self.core)
            if not self.core.closes_with_transaction:
                shared.core.remove_consumer(self.core)
            shared.changed()
            shared.answer_close(request)


class Browser:
    """Reads a queue from its head to its end and leaves it as it is."""

    def __init__(self, session: Session, destination: Destination | str, selector: str | None) -> None:
        self._session: Final = session
        self._destination: Final = destination
        self._selector: Final = selector

    def __iter__(self) -> Iterator[Message]:
        options = ConsumerOptions(self._selector, browser=True)
        consumer = self._session.subscribe(self._destination, options)
        try:
            while (message := consumer.receive()) is not None:
                yield message
        finally:
            consumer.close()


class _Requestor:
    """One temporary queue for the replies to all requests of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._replies: Final = Replies(connection.shared.core.connection_id)
        self._shared: Final = connection.shared
        session = connection.session()
        self._queue: Final = session.create_temporary_queue()
        self._producer: Final = session.create_producer(None)
        self._consumer: Final = session.create_consumer(self._queue)

    def request(
        self,
        destination: Destination | str,
        body: object,
        properties: Mapping[str, object] | None,
        timeout: float | None,
    ) -> Message | None:
        clock = self._shared.machine
        end = None if timeout is None else clock.now().monotonic + timeout
        number = self._replies.expect()
        try:
            self._producer.send(body, properties, destination, correlation_id=number, reply_to=self._queue, wait=False)
            with self._shared.lock:
                while not self._replies.has(number):
                    if not self._take_reply(number, end):
                        return None
            return self._replies.pop(number)
        finally:
            self._replies.forget(number)

    def _take_reply(self, number: str, end: float | None) -> bool:
        """Take one message, whosever reply it is, or wait for one; False when the time is over."""
        shared, consumer = self._shared, self._consumer.core
        message = consumer.next_message(shared.machine.now())
        if message is not None:
            if self._replies.take(message):
                shared.changed()
            shared.wrote()
            return True
        consumer.waiting = True
        return shared.wait(lambda: self._replies.has(number) or not consumer.waiting, end)
