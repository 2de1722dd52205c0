"""Completes a batch in the background while the bridge receives the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.errors import SpanwireError

SETTLE_S: Final = 5.0  # seconds for the batch that is being completed when a link closes


class Completing:
    """Completes one batch at a time in a task. The next call raises the error of the task."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start the task of a batch. The batch before must be complete."""
        assert self._task is None, "a link completes one batch at a time"
        self._task = asyncio.ensure_future(work)

    async def settle(self) -> None:
        """Wait until the batch is complete, and raise its error. A cancelled call does not cancel the task."""
        task = self._task
        if task is not None:
            await asyncio.wait((task,))
            self._task = None
            task.result()

    def check(self) -> None:
        """Raise the error of a batch that has failed."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def received(self, receive: Coroutine[Any, Any, list[BridgeMessage]]) -> list[BridgeMessage]:
        """Receive messages while the batch completes.

        An error of the batch ends the call at once. Without a message, the call returns after the batch is complete.

        A cancelled call returns messages that the source has already handed over. Dropped messages would be lost: the
        next acknowledgement of the source covers them.
        """
        task = self._task
        if task is None:
            return await receive
        receiving = asyncio.ensure_future(receive)
        try:
            await asyncio.wait((receiving, task), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await self.settle()
            messages = await asyncio.shield(receiving)
        except asyncio.CancelledError:
            receiving.cancel()
            await asyncio.wait((receiving,))
            if receiving.cancelled() or receiving.exception() is not None or not receiving.result():
                raise
            return receiving.result()
        finally:
            receiving.cancel()
            if receiving.done() and not receiving.cancelled():
                receiving.exception()  # marks the error as seen: the error of the batch is raised instead
        if not messages:
            await self.settle()
        return messages

    async def close(self) -> str:
        """Wait up to `SETTLE_S` seconds for the batch. Returns why the batch is incomplete, or an empty text."""
        try:
            async with asyncio.timeout(SETTLE_S):
                await self.settle()
        except SpanwireError as error:
            return str(error)
        except TimeoutError:  # of the wait, or of the batch itself
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait((self._task,))
                self._task = None
            return f"the last batch was not complete within {SETTLE_S:g} s"
        except Exception as error:  # noqa: BLE001 - of a library, or a defect: the connections must close all the same
            return f"{type(error).__name__}: {error}"
        return ""
