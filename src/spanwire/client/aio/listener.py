"""Messages that are given to a listener of an asyncio consumer, instead of being asked for (JMS 1.1 §4.5.2)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from spanwire.client.aio.connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.errors import IllegalStateError, JmsError

MAX_LOGGED: Final = 10  # failures of one listener; dead letters tell of the rest

Listener = Callable[[Message], Awaitable[None] | None]
ErrorListener = Callable[[JmsError], None]
Receive = Callable[[], Awaitable[Message | None]]

logger = logging.getLogger(__name__)


class Turns:
    """The listeners of one session: who has the turn, and who is there."""

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.listening: Final[set[Listening]] = set()

    def is_mine(self) -> bool:
        """Whether one of the listeners is calling."""
        task = asyncio.current_task()
        return any(listening.task is task for listening in self.listening)


class Listening:
    """One task that gives each message to a listener. The listeners of a session take turns."""

    def __init__(
        self, shared: CoreConnection, core: ClientConsumer, receive: Receive, turns: Turns, wake: Callable[[], None]
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self._shared: Final = shared
        self._core: Final = core
        self._receive: Final = receive
        self._turns: Final = turns
        self._wake: Final = wake
        self._is_wanted = False
        self._logged = 0

    def start(self, listener: Listener, on_error: ErrorListener | None) -> None:
        """Begin. Raises `IllegalStateError` when there is a listener."""
        if self.task is not None:
            raise IllegalStateError("the consumer has a listener; stop_listening first")
        self._is_wanted = True
        self._core.is_listening = True
        self._core.is_leaving = False
        self._turns.listening.add(self)
        self.task = asyncio.get_running_loop().create_task(self._run(listener, on_error))

    async def stop(self) -> None:
        """End, when the listener has done its work with the message that it has; called by a listener of the session,
        end after that.
        """
        task = self.task
        if task is None:
            return
        self._is_wanted = False
        self._core.is_leaving = True
        self._wake()
        if not self._turns.is_mine():
            await asyncio.wait([task])
            self._core.is_leaving = False
        self._core.is_listening = False
        self._turns.listening.discard(self)
        self.task = None

    async def _run(self, listener: Listener, on_error: ErrorListener | None) -> None:
        try:
            while self._is_wanted and (message := await self._receive()) is not None:
                async with self._turns.lock:
                    await self._hear(listener, message)
        except IllegalStateError:
            pass  # the consumer or its connection is closed
        except JmsError as error:
            if on_error is None:
                logger.warning("a listener gets no more messages: %s", error)
            else:
                on_error(error)

    async def _hear(self, listener: Listener, message: Message) -> None:
        is_done = False
        try:
            if self._is_wanted:
                found = listener(message)
                if inspect.isawaitable(found):
                    await found
                is_done = True
        except Exception:
            self._logged += 1
            if self._logged <= MAX_LOGGED:
                logger.exception("a listener failed")
        if is_done:
            self._core.listened()
        else:
            self._core.listener_failed(self._shared.machine.now())
        self._shared.flush_soon()
