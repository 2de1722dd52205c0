"""Message consumer of the asyncio client (JMS 1.1 §4.5)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from spanwire.client.aio.listener import ErrorListener, ListenerLoop, Turns
from spanwire.client.aio.listener_task import Listener
from spanwire.client.aio.receiver import Receiver
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import IllegalStateError


class Consumer(Receiver):
    """A message consumer of a session. ``async for message in consumer`` ends when the consumer is closed."""

    def __init__(self, session: ClientSession, core: ClientConsumer, shared: CoreConnection, turns: Turns) -> None:
        super().__init__(core, shared)
        self._session: Final = session
        self._listener_loop: Final = ListenerLoop(shared, core, turns)

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

    def listen(self, listener: Listener, on_error: ErrorListener | None = None) -> None:
        """Call ``listener`` for each message in a task. Listeners of one session are called one at a time.

        In ``auto`` mode a message is acknowledged when the listener returns. An exception of the listener is logged,
        and the message is redelivered by the redelivery policy. In ``client`` and ``transacted`` sessions the listener
        acknowledges and rolls back itself.

        Arguments:
            listener: Called with each message; may be a coroutine function.
            on_error: Called with the error that ended the connection or consumer.

        Raises:
            IllegalStateError: The consumer has a listener already.
        """
        self._shared.check()
        self._listener_loop.start(super().receive, listener, on_error)

    async def stop_listening(self) -> None:
        """Stop calling the listener after the current message."""
        await self._listener_loop.stop()

    async def close(self) -> None:
        """Close the consumer; in a transaction that has received messages, at the end of the transaction."""
        shared = self._shared
        shared.check_process()
        await self._listener_loop.stop()
        with shared.lock:
            request = None if shared.core.failure is not None else self._session.close_consumer(self.core)
            if not self.core.closes_with_transaction:
                shared.remove_consumer(self.core)
            self.wake()
            await shared.answer_close(request)
