"""Calls that end before their caller goes on, also a cancelled one: a thread writes, or a link is half closed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine. A cancelled call waits for the end of the coroutine before it raises."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled():
            task.exception()  # marks the error as seen: nobody waits for it any more
        raise
