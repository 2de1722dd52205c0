"""The batch that a link completes behind the actions of its bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from spanwire.bridges.model.message import BridgeMessage
from spanwire.model.errors import SpanwireError

SETTLE_S: Final = 5.0  # seconds for the batch that is being completed when a link closes


class Completing:
    """At most one batch, in a task. Its error is raised by the next call."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin to complete a batch; the batch before is complete."""
        assert self._task is None, "a link completes one batch at a time"
        self._task = asyncio.ensure_future(work)

    async def settle(self) -> None:
        """Wait until the batch is complete. A cancelled call does not cancel the work."""
        task = self._task
        if task is not None:
            await asyncio.wait((task,))
            self._task = None
            task.result()

    def check(self) -> None:
        """Raise the error of the batch, if the error is known."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def received(self, receive: Coroutine[Any, Any, list[BridgeMessage]]) -> list[BridgeMessage]:
        """Receive meanwhile. Raises the error of the batch at once; an empty list comes only after its completion.

        A call that is cancelled when messages have been taken returns them: the source would acknowledge them with
        those of the next call.
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
                receiving.exception()  # seen, where the error of the batch is raised instead
        if not messages:
            await self.settle()
        return messages

    async def close(self) -> str:
        """Wait for the batch for `SETTLE_S` seconds. Returns why the batch is not complete, or an empty text."""
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
