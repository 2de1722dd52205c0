"""The web process as a child of the broker: started, restarted and stopped by the broker.

The child is ``spanwire web``, and ends at the end of standard input. So the child does not outlive a killed broker.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.extras import install_command
from spanwire.logs.children import ChildLines
from spanwire.service.children.supervision import Supervision, end_process
from spanwire.service.config.model import WebConfiguration

if TYPE_CHECKING:
    from spanwire.tls.settings import TlsSettings

STOP_S: Final = 5.0  # seconds for the child to answer open requests at the end
MAX_TEXT: Final = 500  # characters of a line in the log that is no record of the child
MAX_CHUNK: Final = 16 * 1024  # bytes of its output that are logged in one turn
RELAY_PAUSE_S: Final = 0.05  # seconds between two chunks: a child that floods its log is held back by the full pipe
EXTRA: Final = "web"
NEEDED: Final = ("prometheus_client", "starlette", "uvicorn")
COMMAND: Final = (sys.executable, "-P", "-m", "spanwire", "web", "--ends-with-parent", "--log-format", "json")
RELOAD: Final = b"reload\n"  # to the child's standard input
PACKAGE: Final = "spanwire.web"  # of the loggers of the child's records

logger = logging.getLogger(__name__)


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
        self._tls: Final = settings.tls
        if settings.tls is not None:
            self._command.append("--tls")
        if settings.mounts:
            self._command.extend(("--mounts", ",".join(map(str, settings.mounts))))
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
            self._task = asyncio.get_running_loop().create_task(self._serve(self._task))

    def wait(self, directory: Path, name: str) -> None:
        """Show until `start` the wait of the broker ``name`` for the lock of ``directory``.

        The keys of HTTPS come over the control socket, but a standby has no control socket. So no page is shown with
        HTTPS.
        """
        if self._tls is not None or any(importlib.util.find_spec(needed) is None for needed in self._needed):
            return
        command = [*self._command, "--data-directory", str(directory), "--standby", name]
        run = partial(self._run, command)
        self._task = asyncio.get_running_loop().create_task(Supervision("the standby's web process", run).supervise())

    def check_keys(self) -> None:
        """Read the key store as the child will. Blocks. Raises `ConfigurationError`."""
        if self._tls is not None:
            make = cast("Callable[[TlsSettings], object]", registry.load(registry.SERVER_CONTEXT))
            make(self._tls)

    def reload(self) -> None:
        """Let the child read the keys again; open connections stay."""
        process = self._process
        if process is not None and process.returncode is None and process.stdin is not None:
            process.stdin.write(RELOAD)

    async def stop(self) -> None:
        """Stop the child and wait for the end; may be called twice."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await end_process(self._process, STOP_S)

    async def _serve(self, waiting: asyncio.Task[None] | None) -> None:
        """Run the child again and again, after the standby's child has freed the port."""
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await end_process(self._process, STOP_S)
        await Supervision("the web process", partial(self._run, self._command)).supervise()

    async def _run(self, command: Sequence[str]) -> str:
        """Run the child to the end. Returns the child's last words, or the exit status."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
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
        lines = ChildLines(PACKAGE)
        while True:
            chunk = await stream.read(MAX_CHUNK)
            self._is_listening = self._is_listening or bool(chunk)
            for line in lines.feed(chunk):
                logger.info("%s", line[:MAX_TEXT])
            if not chunk:
                return
            await asyncio.sleep(RELAY_PAUSE_S)

    async def _last_line(self, stream: asyncio.StreamReader) -> str:
        """Log the records of the child's log, and return the last other line of the child's errors at the end.

        The other lines of a listening child are logged as well. The lines of a child that fails to start are the
        reason of the end.
        """
        lines, last = ChildLines(PACKAGE), ""
        while True:
            chunk = await stream.read(MAX_CHUNK)
            for line in lines.feed(chunk):
                last = line[:MAX_TEXT]
                if self._is_listening:
                    logger.error("the web process: %s", last)
            if not chunk:
                return last
            await asyncio.sleep(RELAY_PAUSE_S)


def shown_wait(on_wait: Callable[[Path], None], web: WebProcess | None, name: str) -> Callable[[Path], None]:
    """Return ``on_wait`` of a standby, followed by a page with the wait, if ``web`` serves a page."""

    def waits(directory: Path) -> None:
        on_wait(directory)
        if web is not None:
            web.wait(directory, name)

    return waits
