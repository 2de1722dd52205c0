"""Waiting for the start of a foreign server that announces nothing: it is asked until it answers."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

PAUSE_S: Final = 0.1
ANSWER_S: Final = 1.0
SHOWN: Final = 2000  # characters of the log, in an error


def await_start(
    process: subprocess.Popen[Any], answers: Callable[[], bool], end: Callable[[], object], log: Path, timeout_s: float
) -> None:
    """Return when ``process`` answers.

    Calls ``end`` and raises AssertionError with the end of ``log`` if the process ends or takes too long.
    """
    deadline = time.monotonic() + timeout_s
    while not answers():
        if process.poll() is not None or time.monotonic() > deadline:
            end()
            raise AssertionError(f"{log} ends without a start: {log.read_text('utf-8', 'replace')[-SHOWN:]}")
        time.sleep(PAUSE_S)


def is_listening(port: int) -> bool:
    """Return True if a server listens at this port of the loopback."""
    return answer_of(port, b"", 0) is not None


def answer_of(port: int, question: bytes, length: int) -> bytes | None:
    """Return the first bytes that a server answers, at most ``length``; None without a server."""
    try:
        with socket.create_connection(("127.0.0.1", port), ANSWER_S) as connection:
            connection.sendall(question)
            return connection.recv(length) if length else b""
    except OSError:
        return None
