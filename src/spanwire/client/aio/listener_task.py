"""Task that calls the listener of an asyncio consumer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine

from spanwire.client.messages.message import Message

Listener = Callable[[Message], Awaitable[None] | None]
Receive = Callable[[], Awaitable[Message | None]]


class ListenerTask:
    """A task of the running event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def start(self, run: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a coroutine function in the task."""
        self._task = asyncio.get_running_loop().create_task(run())

    @property
    def is_current(self) -> bool:
        """True in code that the task itself runs."""
        return asyncio.current_task() is self._task

    async def join(self) -> None:
        """Wait until the coroutine function has returned."""
        assert self._task is not None
        await asyncio.wait([self._task])


async def call_listener(listener: Listener, message: Message) -> None:
    """Call a listener with a message, and await a coroutine function."""
    result = listener(message)
    if inspect.isawaitable(result):
        await result
