"""A child process that prints lines, and says in some of them that it is there.

    process = AnnouncingProcess(command, directory, log)
    process.wait_until(lambda line: line.endswith("started"), 60.0)
    process.end(signal.SIGTERM)

Waiting is reading. What it prints goes into ``log``, which may be that of an earlier process, too.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final, Self

END_TIMEOUT_S: Final = 30.0
SHOWN_LINES: Final = 60  # of the log, in an error
SHOWN_COMMAND: Final = 120  # characters of the command, in an error


class AnnouncingProcess:
    """One process, from its start to its end; both streams are read as one."""

    def __init__(
        self, command: list[str], directory: Path, log: list[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """``environment`` replaces the one of this process."""
        self._name: Final = shlex.join([Path(command[0]).name, *command[1:]])[:SHOWN_COMMAND]
        self._log: Final = log
        self._lines: Final[queue.SimpleQueue[str | None]] = queue.SimpleQueue()
        self._process: Final = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=directory,
            env=environment,
        )
        assert self._process.stdout is not None
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it, if it is there after all."""
        if not self.has_ended:
            self.end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone, in whatever way."""
        return self._process.poll() is not None

    def wait_until(self, is_there: Callable[[str], bool], timeout_s: float, failure: str = "did not start") -> None:
        """Until a line says so, of those behind the last one that did. Kills the process, and raises RuntimeError with
        its last lines, if none does.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                self.end(signal.SIGKILL)
                raise RuntimeError(f"{self._name} {failure}:\n" + "\n".join(self._log[-SHOWN_LINES:]))
            if is_there(line):
                return

    def send(self, number: signal.Signals) -> None:
        """A signal that need not end it."""
        self._process.send_signal(number)

    def await_stop(self) -> None:
        """Until a signal has stopped it, so that SIGCONT comes behind that."""
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def ended(self, timeout_s: float) -> int:
        """The exit status of a process that ends by itself; raises subprocess.TimeoutExpired."""
        return self._process.wait(timeout_s)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait; the exit status. Raises RuntimeError for a process that has to be killed."""
        process = self._process
        process.send_signal(number)
        try:
            return process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"{self._name} did not end within {END_TIMEOUT_S} s of {number.name}") from None

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._log.append(line.rstrip())
                self._lines.put(line.rstrip())
        self._lines.put(None)
