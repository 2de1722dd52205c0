"""Runs a child process again and again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

FIRST_PAUSE_S: Final = 1.0  # seconds before the first new start; each further pause is twice as long
MAX_PAUSE_S: Final = 60.0  # seconds; a port that is free again is found within a minute
SETTLED_S: Final = 60.0  # seconds that a child has to run for its end to be news again

logger = logging.getLogger(__name__)


def pause_after(failures: int) -> float:
    """Return the seconds before the next start after so many ends in a row."""
    return min(FIRST_PAUSE_S * float(1 << min(failures - 1, 10)), MAX_PAUSE_S)


class Supervision:
    """Runs a child again and again. The log says so once for each series of ends."""

    def __init__(
        self,
        child: str,
        run: Callable[[], Awaitable[str]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``child`` is the name in the log. ``run`` runs the child to the end and returns the reason."""
        self._child: Final = child
        self._run: Final = run
        self._pause: Final = pause
        self._now: Final = now

    async def supervise(self) -> None:
        """Run the child until the task is cancelled."""
        failures = 0
        while True:
            began = self._now()
            reason = await self._run()
            if self._now() - began >= SETTLED_S:
                failures = 0
            failures += 1
            seconds = pause_after(failures)
            if failures == 1:
                logger.warning(
                    "%s has ended: %s; it is started again in %g s, then after growing pauses without a further line",
                    self._child,
                    reason,
                    seconds,
                )
            await self._pause(seconds)


async def end_process(process: asyncio.subprocess.Process | None, seconds: float) -> None:
    """End a process with SIGTERM, and with SIGKILL after so many seconds."""
    if process is None or process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            process.kill()
            await process.wait()
