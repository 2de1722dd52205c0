"""Message producer of the asyncio client (JMS 1.1 §4.6)."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from spanwire.client.aio.sender import Sender
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.protocol.producer import ClientProducer
from spanwire.client.protocol.session import ClientSession
from spanwire.model.destination import Destination


class Producer(Sender):
    """A message producer of a session."""

    def __init__(self, session: ClientSession, core: ClientProducer, shared: CoreConnection) -> None:
        super().__init__(core, shared)
        self._session: Final = session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def destination(self) -> Destination | None:
        """Destination of all messages, or None if each send names a destination."""
        return self.core.destination

    @property
    def last_message_id(self) -> str | None:
        """JMSMessageID of the last sent message, or None before the first send."""
        return self.core.last_message_id

    async def close(self) -> None:
        """Close the producer."""
        shared = self._shared
        shared.check_process()
        with shared.lock:
            request = None if shared.core.failure is not None else self._session.close_producer(self.core)
            await shared.answer_close(request)
