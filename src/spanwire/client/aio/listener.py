"""Message listeners of the asyncio client (JMS 1.1 §4.5.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from spanwire.client.aio.listener_task import Listener, ListenerTask, Receive, call_listener
from spanwire.client.aio.shared.core_connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.errors import IllegalStateError, JmsError
from spanwire.protocols.openwire.messages.identities import destination_of

MAX_LOGGED: Final = 10  # failures of one listener; a failing listener must not fill the log

ErrorListener = Callable[[JmsError], None]

logger = logging.getLogger(__name__)


class Turns:
    """Listeners of one session, and the lock that lets one listener run at a time."""

    def __init__(self) -> None:
        self.lock: Final = asyncio.Lock()
        self.loops: Final[set[ListenerLoop]] = set()

    def is_mine(self) -> bool:
        """Return True in code that a listener of the session runs."""
        return any(loop.is_calling for loop in list(self.loops))


class ListenerLoop:
    """Receives messages in a task and calls a listener for each message."""

    def __init__(self, shared: CoreConnection, core: ClientConsumer, turns: Turns) -> None:
        self._task: ListenerTask | None = None
        self._shared: Final = shared
        self._core: Final = core
        self._turns: Final = turns
        self._is_wanted = False
        self._logged = 0

    @property
    def is_calling(self) -> bool:
        """Return True in code that the listener runs."""
        task = self._task
        return task is not None and task.is_current

    def start(self, receive: Receive, listener: Listener, on_error: ErrorListener | None) -> None:
        """Start the task. Raises `IllegalStateError` if the consumer has a listener already."""
        if self._task is not None:
            raise IllegalStateError("the consumer has a listener; stop_listening first")
        self._is_wanted = True
        self._core.is_listening = True
        self._core.is_leaving = False
        self._turns.loops.add(self)
        self._task = ListenerTask()
        self._task.start(lambda: self._run(receive, listener, on_error))

    async def stop(self) -> None:
        """Stop after the current message, and wait for that unless a listener of the session is the caller."""
        task = self._task
        if task is None:
            return
        with self._shared.lock:
            self._is_wanted = False
            self._core.is_leaving = True
            self._shared.wake_consumer(self._core)
        if not self._turns.is_mine():
            await task.join()
            self._core.is_leaving = False
        self._core.is_listening = False
        self._turns.loops.discard(self)
        self._task = None

    async def _run(self, receive: Receive, listener: Listener, on_error: ErrorListener | None) -> None:
        try:
            while self._is_wanted and (message := await receive()) is not None:
                async with self._turns.lock:
                    await self._call(listener, message)
        except IllegalStateError:
            pass  # the consumer or its connection is closed
        except JmsError as error:
            if on_error is None:
                shown = destination_of(self._core.info.destination)
                logger.warning("the listener for %s gets no more messages: %s", shown, error)
            else:
                on_error(error)

    async def _call(self, listener: Listener, message: Message) -> None:
        is_done = False
        try:
            if self._is_wanted:
                await call_listener(listener, message)
                is_done = True
        except Exception:
            self._logged += 1
            if self._logged <= MAX_LOGGED:
                logger.exception("the listener for %s failed at message %s", message.destination, message.message_id)
        with self._shared.lock:
            if is_done:
                self._core.on_listener_done()
            else:
                self._core.on_listener_failed(self._shared.machine.now())
            self._shared.write_soon()
