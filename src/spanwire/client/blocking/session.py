"""A session of a blocking connection, and its browsers."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from spanwire.client.addressing.consumer_options import ConsumerOptions, consumer_info
from spanwire.client.blocking.connection import CoreConnection
from spanwire.client.blocking.consumer import Consumer
from spanwire.client.blocking.listener import Turns
from spanwire.client.blocking.producer import Producer
from spanwire.client.blocking.requestor import Requestor
from spanwire.client.blocking.xa import XaResource
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message, reply_destination
from spanwire.client.protocol.producer import SendDefaults
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import TEMP_QUEUE, TEMP_TOPIC, Destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.written_destination import written_destination

BROWSED_AT_ONCE: Final = 1000  # messages that a browser takes from the connection at once


class Session:
    """One acknowledgement mode and one transaction at a time. Not for two threads at once."""

    def __init__(self, shared: CoreConnection, core: ClientSession, requestor: Requestor) -> None:
        self.core: Final = core
        self._shared: Final = shared
        self._requestor: Final = requestor
        self.xa: Final = XaResource(shared, core)
        self._replier: Producer | None = None
        self._turns: Final = Turns()

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
        timeout: float | None = None,
    ) -> Producer:
        """A producer for one destination, or with None for any that a send names."""
        target = written_destination(destination) if isinstance(destination, str) else destination
        defaults = SendDefaults(persistent, priority, time_to_live_ms)
        shared = self._shared
        with shared.ready():
            core = self.core.add_producer(shared.core.next_producer(), target, defaults)
            try:
                shared.answer(core.announce(), timeout)
            except BaseException:
                self.core.abandon_producer(core)
                shared.wrote()
                raise
        return Producer(self.core, core, shared)

    def create_consumer(
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
        return self.subscribe(destination, options, timeout)

    def create_durable_subscriber(
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
        return self.subscribe(target, options, timeout)

    def create_browser(self, destination: Destination | str, selector: str | None = None) -> Browser:
        """The messages of a queue, which stay there: ``for message in session.create_browser(…)``."""
        self._shared.check()
        return Browser(self, destination, selector)

    def subscribe(
        self, destination: Destination | str, options: ConsumerOptions, timeout: float | None = None
    ) -> Consumer:
        """A consumer with all options at once."""
        shared = self._shared
        with shared.ready():
            info = consumer_info(destination, options, shared.core.settings)
            core = self.core.add_consumer(shared.core.next_consumer(), info, self)
            shared.core.add_consumer(core)
            try:
                shared.answer(core.announce(), timeout)
            except BaseException:
                self.core.abandon_consumer(core)
                shared.core.remove_consumer(core)
                shared.wrote()
                raise
        consumer = Consumer(self.core, core, shared, self._turns)
        return consumer

    def unsubscribe(self, name: str, timeout: float | None = None) -> None:
        """Delete a durable subscription that has no consumer."""
        with self._shared.ready():
            self._shared.answer(self._shared.core.remove_subscription(name), timeout)

    def create_temporary_queue(self, timeout: float | None = None) -> Destination:
        """A queue that lives as long as the connection, which alone may consume from it."""
        return self._temporary(TEMP_QUEUE, timeout)

    def create_temporary_topic(self, timeout: float | None = None) -> Destination:
        """A topic that lives as long as the connection, which alone may consume from it."""
        return self._temporary(TEMP_TOPIC, timeout)

    def delete_temporary(self, destination: Destination, timeout: float | None = None) -> None:
        """End a temporary destination before its connection ends."""
        with self._shared.ready():
            self._shared.answer(self._shared.core.remove_temporary(destination), timeout)

    def _temporary(self, kind: int, timeout: float | None) -> Destination:
        with self._shared.ready():
            destination, request = self._shared.core.add_temporary(kind)
            self._shared.answer(request, timeout)
        return destination

    def request(
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
        return self._requestor.request(destination, body, properties, timeout)

    def reply(self, message: Message, body: Body, properties: Properties | None = None) -> None:
        """Send the answer to a request: to its ``reply_to``, with its correlation id or, without one, its message id.

        Raises `InvalidDestinationError` for a message that asks for no answer.
        """
        if self._replier is None:
            self._replier = self.create_producer()
        self._replier.send(
            body,
            properties,
            reply_destination(message),
            correlation_id=message.correlation_id or message.message_id,
            persistent=message.persistent,
        )

    def commit(self, timeout: float | None = None) -> None:
        """Make everything sent and received final. Raises `TransactionRolledBackError` when none of it was done, and
        `ResourceAllocationError` when ``timeout`` seconds are over before the broker has said what was done.
        """
        shared = self._shared
        with shared.ready():
            try:
                request = self.core.commit(shared.machine.now())
                if request is not None:
                    shared.answer(request, timeout)
            finally:
                self._forget_left()

    def rollback(self, timeout: float | None = None) -> None:
        """Undo everything sent and received; what was received comes again."""
        shared = self._shared
        with shared.ready():
            request = self.core.rollback(shared.machine.now())
            self._forget_left()
            shared.flush()
            if request is not None:
                shared.answer(request, timeout)

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
        for listening in list(self._turns.listening):
            listening.stop()
        with shared.lock:
            request = None if shared.core.failure is not None else shared.core.close_session(self.core)
            shared.changed()
            shared.answer_close(request)


class Browser:
    """Reads a queue from its head to its end and leaves it as it is."""

    def __init__(self, session: Session, destination: Destination | str, selector: str | None) -> None:
        self._session: Final = session
        self._destination: Final = destination
        self._selector: Final = selector

    def __iter__(self) -> Iterator[Message]:
        for messages in self.portions():
            yield from messages

    def portions(self) -> Iterator[list[Message]]:
        """The same messages, as many at a time as have come."""
        options = ConsumerOptions(self._selector, browser=True)
        consumer = self._session.subscribe(self._destination, options)
        try:
            while messages := consumer.receive_many(BROWSED_AT_ONCE):
                yield messages
        finally:
            consumer.close()
