"""The web process as a child of the broker: started, restarted and stopped by the broker.

The child is ``spanwire web``, and ends at the end of standard input. So the child does not outlive a killed broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from spanwire.extras import install_command
from spanwire.service.config.model import WebConfiguration

FIRST_PAUSE_S: Final = 1.0  # seconds before the first new start; each further pause is twice as long
MAX_PAUSE_S: Final = 60.0  # seconds; a port that is free again is found within a minute
SETTLED_S: Final = 60.0  # seconds that a child has to run for its end to be news again
STOP_S: Final = 5.0  # seconds for the child to answer open requests at the end
MAX_TEXT: Final = 500  # bytes of the child's last words in the log
MAX_CHUNK: Final = 16 * 1024  # bytes of its errors in one record of the log; a traceback has less
EXTRA: Final = "web"
NEEDED: Final = ("prometheus_client", "starlette", "uvicorn")
COMMAND: Final = (sys.executable, "-P", "-m", "spanwire", "web", "--ends-with-parent")

logger = logging.getLogger(__name__)


def pause_after(failures: int) -> float:
    """Return the seconds before the next start after so many ends in a row."""
    return min(FIRST_PAUSE_S * float(1 << min(failures - 1, 10)), MAX_PAUSE_S)


class Supervision:
    """Runs a child again and again. The log says so once for each series of ends."""

    def __init__(
        self,
        run: Callable[[], Awaitable[str]],
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``run`` runs the child to its end and returns the reason."""
        self._run: Final = run
        self._pause: Final = pause
        self._now: Final = now

    async def supervise(self) -> None:
        """Run the child until this task is cancelled."""
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
                    "the web process has ended: %s; it is started again in %g s, then after growing pauses without a "
                    "further line",
                    reason,
                    seconds,
                )
            await self._pause(seconds)


class WebProcess:
    """The child of one broker."""

    def __init__(
        self,
        settings: WebConfiguration,
        directory: Path | None,
        *,
        allow_anonymous: bool,
        command: Sequence[str] = COMMAND,
        needed: Sequence[str] = NEEDED,
    ) -> None:
        """``directory`` is the broker's data directory; ``needed`` are the modules of the extra."""
        self._directory: Final = directory
        self._needed: Final = needed
        options = ["--host", settings.host, "--port", str(settings.port), "--data-directory", str(directory)]
        self._command: Final = [*command, *options, *(["--allow-anonymous"] if allow_anonymous else [])]
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_listening = False  # the child has opened its port

    def start(self) -> None:
        """Start the child; without the extra, or without a control socket, log a warning instead."""
        missing = [name for name in self._needed if importlib.util.find_spec(name) is None]
        if missing:
            logger.warning("nothing is served over HTTP: the extra web is not installed: %s", install_command(EXTRA))
        elif self._directory is None:
            logger.warning("nothing is served over HTTP: this broker has no data directory, so no control socket")
        else:
            self._task = asyncio.get_running_loop().create_task(Supervision(self._run).supervise())

    async def stop(self) -> None:
        """Stop the child and wait for its end; may be called twice."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def _run(self) -> str:
        """Run the child to the end. Returns the child's last words, or the exit status."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for the broker, which stops the child
            )
        except OSError as error:
            return str(error.strerror or error)
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        self._is_listening = False
        _, words = await asyncio.gather(self._report(process.stdout), self._last_line(process.stderr))
        status = await process.wait()
        return words or f"exit status {status}"

    async def _report(self, stream: asyncio.StreamReader) -> None:
        """Log the lines of the child's start."""
        while chunk := await stream.read(MAX_TEXT):
            self._is_listening = True
            for line in chunk.decode("utf-8", "replace").splitlines():
                logger.info("%s", line)

    async def _last_line(self, stream: asyncio.StreamReader) -> str:
        """Return the last line of the child's errors at their end.

        A child that listens has its errors logged. The errors of one that cannot start are the reason of its end.
        """
        tail = b""
        while chunk := await stream.read(MAX_CHUNK):
            tail = (tail + chunk)[-MAX_TEXT:]
            if self._is_listening:
                logger.error("the web process: %s", chunk.decode("utf-8", "replace").rstrip())
        lines = tail.decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""
