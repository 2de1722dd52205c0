"""The web process as a child: new starts, their pauses, and one line in the log."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest

from spanwire.service.children.supervision import MAX_PAUSE_S, SETTLED_S, Supervision, pause_after
from spanwire.service.children.web_process import WebProcess
from spanwire.service.config.model import WebConfiguration


class Lines(logging.Handler):
    """Sets an event when a line of the log holds some words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.is_there = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self.is_there.set()


async def served_until(words: str, process: WebProcess) -> None:
    """Start the child, wait for a line of the log, and stop the child."""
    lines = Lines(words)
    logging.getLogger().addHandler(lines)
    try:
        process.start()
        await asyncio.wait_for(lines.is_there.wait(), 60)
        await process.stop()
        await process.stop()
    finally:
        logging.getLogger().removeHandler(lines)


class Ended(Exception):
    """Ends a dialogue."""


def supervised(lifetimes: list[float]) -> list[float]:
    """The pauses after children that live so long each."""
    time = 0.0
    pauses: list[float] = []
    left = list(lifetimes)

    async def run() -> str:
        nonlocal time
        if not left:
            raise Ended
        time += left.pop(0)
        return "the port is taken"

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    with pytest.raises(Ended):
        asyncio.run(Supervision("the web process", run, pause, lambda: time).supervise())
    return pauses


def test_pauses_grow_to_a_minute() -> None:
    assert supervised([0.0] * 9) == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert pause_after(10**6) == MAX_PAUSE_S


def test_a_child_that_has_run_for_a_while_is_started_again_soon() -> None:
    assert supervised([0.0, 0.0, SETTLED_S, 0.0]) == [1, 2, 1, 2]


def test_the_log_says_once_that_the_child_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    supervised([0.0] * 5)
    (record,) = [record for record in caplog.records if record.name.endswith("supervision")]
    assert "the port is taken" in record.message
    assert record.levelno == logging.WARNING
    caplog.clear()
    supervised([0.0, 0.0, SETTLED_S])
    assert sum(record.name.endswith("supervision") for record in caplog.records) == 2


def test_a_missing_extra_is_one_warning_with_the_command_that_installs_it(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    process = WebProcess(WebConfiguration(), tmp_path, allow_anonymous=False, needed=["no_such_module"])
    process.start()  # outside of a loop, where nothing could be started
    (record,) = caplog.records
    assert "-m pip install" in record.message


def test_a_broker_without_a_control_socket_says_that_it_serves_nothing(caplog: pytest.LogCaptureFixture) -> None:
    WebProcess(WebConfiguration(), None, allow_anonymous=False, needed=[]).start()
    (record,) = caplog.records
    assert "no data directory" in record.message


def child(program: str, directory: Path) -> WebProcess:
    """A child that runs a program of Python instead of the web process."""
    command = [sys.executable, "-c", program]
    return WebProcess(WebConfiguration(), directory, allow_anonymous=True, command=command, needed=[])


def test_the_last_words_of_a_child_are_the_reason_and_its_lines_are_logged(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    program = "import sys; print('Listening', flush=True); sys.exit('a\\nthe port is taken')"
    with caplog.at_level(logging.INFO):
        asyncio.run(served_until("has ended", child(program, tmp_path)))
    messages = [record.getMessage() for record in caplog.records]
    assert "Listening" in messages
    assert any("has ended: the port is taken;" in message for message in messages)


def test_errors_of_a_child_that_listens_are_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"  # the child goes on when the other end is opened
    os.mkfifo(pipe)
    program = (
        f"import sys; print('Listening', flush=True); open({str(pipe)!r}).close(); "
        "print('a fault', file=sys.stderr, flush=True); sys.stdin.read()"
    )
    quiet = "import sys; print('a fault', file=sys.stderr, flush=True); sys.exit(1)"

    async def dialogue() -> None:
        process = child(program, tmp_path)
        lines, fault = Lines("Listening"), Lines("the web process: a fault")
        for handler in (lines, fault):
            logging.getLogger().addHandler(handler)
        process.start()
        await asyncio.wait_for(lines.is_there.wait(), 60)
        await asyncio.to_thread(lambda: pipe.open("w").close())
        await asyncio.wait_for(fault.is_there.wait(), 60)
        await process.stop()
        for handler in (lines, fault):
            logging.getLogger().removeHandler(handler)

    with caplog.at_level(logging.INFO):
        asyncio.run(dialogue())
        caplog.clear()
        asyncio.run(served_until("has ended: a fault", child(quiet, tmp_path)))
    assert not any("the web process: a fault" in record.getMessage() for record in caplog.records)


def test_a_running_child_ends_with_its_broker(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    program = "import sys; print('Listening', flush=True); sys.stdin.read()"
    with caplog.at_level(logging.INFO):
        asyncio.run(served_until("Listening", child(program, tmp_path)))
    assert not any("has ended" in record.getMessage() for record in caplog.records)
