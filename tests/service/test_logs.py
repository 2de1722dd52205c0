"""The log of a running broker: a file that is rotated, one form for broker and web process, levels that change."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.started import TIMEOUT_S, Started, spanwire

LINE = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d (?P<level>[A-Z]+) +(?P<logger>[\w.]+): (?P<message>.*)"
)


def eventually(what: Callable[[], bool]) -> bool:
    """Return True if it comes true in time."""
    deadline = time.monotonic() + TIMEOUT_S
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def lines(file: Path) -> list[dict[str, str]]:
    """The lines of a log, each checked for its form."""
    found = [LINE.fullmatch(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []
    return [{} if match is None else match.groupdict() for match in found]


def messages(file: Path) -> list[str]:
    return [line["message"] for line in lines(file)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "spanwire.log"


def test_hang_up_opens_the_log_file_again_and_reloads(tmp_path: Path, file: Path) -> None:
    with Started(tmp_path, arguments=("--log-file", str(file))) as broker:
        old = file.rename(tmp_path / "spanwire.log.1")
        os.kill(broker.pid, signal.SIGHUP)
        assert eventually(lambda: any("nothing has changed" in text for text in messages(file)))
        assert any(" started" in text for text in messages(old))
        assert not any(" started" in text for text in messages(file))
    assert broker.errors == []


def test_levels_change_while_the_broker_runs(tmp_path: Path, file: Path) -> None:
    with Started(tmp_path, arguments=("--log-file", str(file))) as broker:
        data = ("--data-directory", str(broker.data))
        assert spanwire("log-level", *data).stdout.startswith("info      root\n")
        done = spanwire("log-level", "spanwire.service.runtime_configuration", "warning", *data)
        assert "warning   spanwire.service.runtime_configuration\n" in done.stdout
        assert spanwire("reload", *data).stdout.endswith("nothing has changed\n")
        refused = spanwire("log-level", "spanwire.audit", "error", *data)
        assert (refused.returncode, "cannot be hidden" in refused.stderr) == (1, True)
        told = messages(file)
        assert not any("nothing has changed" in text for text in told)
        assert any('log-level {"logger": "spanwire.service.runtime_configuration"' in text for text in told)


class Served(Started):
    """A broker that starts its web process."""

    def text(self) -> str:
        head, end, tail = super().text().partition("</broker>")
        return head + '  <web port="0"/>\n' + end + tail


def test_lines_of_the_web_process_have_the_form_of_the_broker_s(tmp_path: Path, file: Path) -> None:
    def of_the_web_process() -> list[dict[str, str]]:
        return [line for line in lines(file) if line["logger"] == "spanwire.web"]

    with Served(tmp_path, arguments=("--log-file", str(file))):
        assert eventually(lambda: bool(of_the_web_process()))
    (line,) = of_the_web_process()
    assert line["message"].startswith("Listening for web requests at: http://127.0.0.1:")
    assert line["level"] == "INFO"
