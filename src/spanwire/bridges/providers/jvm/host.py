"""A host seen from the bridges: the process, requests with answers, and events of connections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Final

from spanwire.bridges.providers.jvm.frames import LENGTHS, Header, check_lengths, decode_frame, encode_frame
from spanwire.model.errors import JmsError

COMMAND: Final = (sys.executable, "-P", "-m", "spanwire", "bridge", "jvm")
START_S: Final = 60.0  # seconds for Python and the virtual machine to start on a busy machine
LINGER_S: Final = 30.0  # seconds without a connection after which the host ends, so that retries need no new one
END_S: Final = 2.0  # seconds for the end of a host; the connections are closed before
MAX_LINE: Final = 16 * 1024  # bytes of one line that Java prints

logger = logging.getLogger(__name__)

Answer = tuple[Header, list[bytes]]
Event = Callable[[Header, list[bytes]], None]


class HostAnswerError(JmsError):
    """The host has answered with an error. ``refused`` is the index of a message at fault, else None."""

    def __init__(
        self,
        reason: str,
        refused: int | None,
        is_lost: bool,
        xa_code: int | None = None,
        is_permanent: bool = False,
    ) -> None:
        super().__init__(reason)
        self.refused: Final = refused
        self.is_lost: Final = is_lost
        self.xa_code: Final = xa_code  # of an XAException
        self.is_permanent: Final = is_permanent  # the connection factory is wrong


class JvmHost:
    """One process with a virtual machine.

    The process ends with the event loop, or a while after the last connection.
    """

    def __init__(self, jars: Sequence[str], command: Sequence[str] = COMMAND) -> None:
        self._jars: Final = list(jars)
        self._command: Final = command
        self._numbers: Final = itertools.count(1)
        self._answers: Final[dict[int, asyncio.Future[Answer]]] = {}
        self._events: Final[dict[int, Event]] = {}  # by connection
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._ready: asyncio.Future[Answer] | None = None
        self._words = ""  # the last line that Java has printed
        self._end: JmsError | None = None

    @property
    def has_ended(self) -> bool:
        """Return True if the process is gone, so that a new host is needed."""
        return self._end is not None

    async def join(self, on_event: Event) -> int:
        """Start the process if it does not run. Returns the number of a new connection.

        Raises:
            JmsError: Java cannot be started.
        """
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        number = next(self._numbers)
        self._events[number] = on_event
        try:
            if self._task is None:
                self._ready = asyncio.get_running_loop().create_future()
                self._task = asyncio.create_task(self._run(), name="java")
            assert self._ready is not None
            async with asyncio.timeout(START_S):
                await asyncio.shield(self._ready)
        except TimeoutError:
            self.leave(number)
            raise JmsError(f"Java has not started within {START_S:g} s") from None
        except BaseException:
            self.leave(number)
            raise
        return number

    def leave(self, number: int) -> None:
        """End a connection."""
        self._events.pop(number, None)
        if not self._events and self._idle is None and self._end is None:
            self._idle = asyncio.get_running_loop().call_later(LINGER_S, self._stop)

    def ask(self, header: Header, blobs: Sequence[bytes] = ()) -> asyncio.Future[Answer]:
        """Send a request; the result is its answer.

        Raises:
            JmsError: the host has ended; the same from the result.
        """
        if self._end is not None:
            raise self._end
        number = next(self._numbers)
        frame = encode_frame({**header, "id": number}, list(blobs))
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at)
        self._answers[number] = answer
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(frame)
        return answer

    def cancel(self, connection: int) -> None:
        """Let the receive of a connection return soon."""
        if self._end is None and self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(encode_frame({"do": "cancel", "connection": connection}, []))

    async def drain(self) -> None:
        """Wait until the requests are written."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(ConnectionError):
                await self._process.stdin.drain()

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        """Run the process to the end."""
        process: asyncio.subprocess.Process | None = None
        reason = "Java was stopped"
        try:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE,
                start_new_session=True,  # Ctrl-C is for the bridges, which close their connections first
            )
            assert process.stdout is not None and process.stderr is not None
            begun = self.ask({"do": "start", "jars": self._jars})
            begun.add_done_callback(self._on_begun)
            words = asyncio.create_task(self._read_words(process.stderr))
            try:
                await self._read_frames(process.stdout)
                await words
            finally:
                words.cancel()
            status = await process.wait()
            reason = f"Java has ended with status {status}{f': {self._words}' if self._words else ''}"
        except OSError as error:
            reason = f"Java cannot be started: {error.strerror or error}"
        finally:
            self._fail(JmsError(reason))
            if process is not None and process.returncode is None:
                await _end(process)

    def _on_begun(self, begun: asyncio.Future[Answer]) -> None:
        ready = self._ready
        assert ready is not None
        if ready.done():
            return
        error = None if begun.cancelled() else begun.exception()
        if error is not None:
            self._end = JmsError(str(error))
            ready.set_exception(self._end)
        else:
            ready.set_result(({}, []))

    def _fail(self, error: JmsError) -> None:
        if self._end is None:
            self._end = error
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(JmsError(str(error)))
        self._answers.clear()
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(JmsError(str(error)))
            _look_at(self._ready)
        for on_event in list(self._events.values()):
            on_event({"event": "lost", "reason": str(error)}, [])

    async def _read_frames(self, stream: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                lengths = await stream.readexactly(LENGTHS.size)
                text, body = LENGTHS.unpack(lengths)
                check_lengths(text, body)
                content = await stream.readexactly(text + body)
                self._take(*decode_frame(content[:text], content[text:]))

    def _take(self, header: Header, blobs: list[bytes]) -> None:
        if "event" in header:
            on_event = self._events.get(header["connection"])
            if on_event is not None:
                on_event(header, blobs)
            return
        answer = self._answers.pop(header["id"], None)
        if answer is None or answer.done():
            return
        if "error" in header:
            answer.set_exception(
                HostAnswerError(
                    header["error"],
                    header.get("refused"),
                    bool(header.get("is_lost", False)),
                    header.get("xa_code"),
                    bool(header.get("is_permanent", False)),
                )
            )
        else:
            answer.set_result((header, blobs))

    async def _read_words(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(MAX_LINE):
            lines = chunk.decode("utf-8", "replace").split("\n")
            for line in lines:
                if line.strip():
                    self._words = " ".join(line.split())[:300]
                    logger.debug("java: %s", self._words)


def _look_at(future: asyncio.Future[Answer]) -> None:
    """Mark the error of an answer as seen, because the asker may be gone."""
    if not future.cancelled():
        future.exception()


async def _end(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        process.kill()
        await process.wait()
