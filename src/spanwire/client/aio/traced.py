"""Connections of an asyncio program that has configured OpenTelemetry: sends and receives make spans.

Loaded only in such a program. All other programs have the base classes.
"""

from __future__ import annotations

from typing import Final, cast

from spanwire.client.aio.connection import Connection
from spanwire.client.aio.consumer import Consumer
from spanwire.client.aio.listener import ErrorListener, Turns
from spanwire.client.aio.listener_task import Listener, call_listener
from spanwire.client.aio.producer import Producer
from spanwire.client.aio.requestor import Requestor
from spanwire.client.aio.session import Session
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.io.tracing import ClientTracing
from spanwire.client.messages.content_types import Body, Properties
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.producer import ClientProducer
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import Destination


class TracedProducer(Producer):
    """A producer whose messages carry the context of their spans."""

    def __init__(
        self, session: ClientSession, core: ClientProducer, shared: CoreConnection, tracing: ClientTracing
    ) -> None:
        super().__init__(session, core, shared)
        self._tracing: Final = tracing

    async def send(
        self,
        body: Body = None,
        properties: Properties | None = None,
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
        delay_ms: int | None = None,
    ) -> None:
        """Send one message as `Producer.send` does, in a span."""
        with self._tracing.sending(destination or self.destination, body, properties) as carrying:
            await super().send(
                body,
                cast("Properties", carrying),  # encoded already, as the core takes them as well
                destination,
                message_type,
                correlation_id,
                reply_to,
                persistent,
                priority,
                time_to_live_ms,
                group_id,
                group_sequence,
                wait,
                delay_ms,
            )


class TracedConsumer(Consumer):
    """A consumer that makes a span of each receive and each call of a listener."""

    def __init__(
        self,
        session: ClientSession,
        core: ClientConsumer,
        shared: CoreConnection,
        turns: Turns,
        tracing: ClientTracing,
    ) -> None:
        super().__init__(session, core, shared, turns)
        self._tracing: Final = tracing

    def receive_no_wait(self) -> Message | None:
        """Return the next message as `Consumer.receive_no_wait` does, and make a span."""
        message = super().receive_no_wait()
        if message is not None:
            self._tracing.received(message)
        return message

    async def receive(self, timeout: float | None = None) -> Message | None:
        """Wait for a message as `Consumer.receive` does, and make a span."""
        message = await super().receive(timeout)
        if message is not None:
            self._tracing.received(message)
        return message

    def listen(self, listener: Listener, on_error: ErrorListener | None = None) -> None:
        """Call ``listener`` as `Consumer.listen` does, each time in a span."""
        tracing = self._tracing

        async def traced(message: Message) -> None:
            with tracing.processing(message):
                await call_listener(listener, message)

        super().listen(traced, on_error)


class TracedSession(Session):
    """A session with traced producers and consumers."""

    def __init__(
        self, shared: CoreConnection, core: ClientSession, requestor: Requestor, tracing: ClientTracing
    ) -> None:
        super().__init__(shared, core, requestor)
        self._tracing: Final = tracing

    def _new_producer(self, core: ClientProducer) -> Producer:
        return TracedProducer(self.core, core, self._shared, self._tracing)

    def _new_consumer(self, core: ClientConsumer) -> Consumer:
        return TracedConsumer(self.core, core, self._shared, self._turns, self._tracing)


class TracedConnection(Connection):
    """A connection with traced sessions."""

    def __init__(self, shared: CoreConnection) -> None:
        super().__init__(shared)
        self._tracing: Final = ClientTracing()

    def _new_session(self, core: ClientSession) -> Session:
        return TracedSession(self.shared, core, self._requestor, self._tracing)
