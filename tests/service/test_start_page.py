"""A stranger who types the commands of docs/start.md sees the lines that the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.broker_process import COMMAND
from tests.support.ports import free_port

PAGE: Final = (Path(__file__).parents[2] / "docs/start.md").read_text("utf-8")
BLOCKS: Final = re.findall(r"```console(?: title=\"([^\"]*)\")?\n(.*?)```", PAGE, re.DOTALL)
FILES: Final = dict(re.findall(r"```\w+ title=\"([\w.]+)\"\n(.*?)```", PAGE, re.DOTALL))
DEFAULT: Final = """\
<broker xmlns="http://activemq.apache.org/schema/core" dataDirectory="data/localhost">
  <transportConnectors><transportConnector uri="tcp://127.0.0.1:61616"/></transportConnectors>
</broker>
"""
INSTALL: Final = "in the clone"
TIMEOUT_S: Final = 60.0


class Terminals:
    """The terminals of the reader: commands that end, and commands that go on until a line has come or they end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = {port: str(free_port()) for port in ("61616", "61626")}
        own = dict.fromkeys(("XDG_RUNTIME_DIR", "TMPDIR", "XDG_DATA_HOME"), str(directory))  # no other broker is listed
        self._environment = {**os.environ, **own}
        self._running: list[subprocess.Popen[str]] = []
        for name, text in {**FILES, "default.xml": DEFAULT}.items():
            (directory / name).write_text(self._with_ports(text), "utf-8")

    def _with_ports(self, text: str) -> str:
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def _words(self, command: str) -> list[str]:
        words = shlex.split(self._with_ports(command))
        if words == ["spanwire", "start"]:
            words.append("default.xml")  # the same broker on another port
        if words[1] in ("producer", "consumer") and "--brokerUrl" not in words:
            words += ["--brokerUrl", f"tcp://127.0.0.1:{self._ports['61616']}"]
        return [sys.executable, *words[1:]] if words[0] == "python" else [*COMMAND, *words[1:]]

    def run(self, command: str) -> str:
        done = subprocess.run(
            self._words(command),
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def begin(self, command: str, until: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._words(command),
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._running.append(process)
        timer = threading.Timer(TIMEOUT_S, process.kill)
        timer.start()
        assert process.stdout is not None
        try:
            assert not until or any(until in line for line in process.stdout), f"{command}: {until!r} did not come"
        finally:
            timer.cancel()
        return process

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    found = Terminals(tmp_path)
    yield found
    found.close()


def dialogues(block: str) -> list[tuple[str, list[str]]]:
    """Commands with the lines that follow them."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(lines[0], lines[1:]) for lines in (part.splitlines() for part in parts)]


def pattern(line: str) -> str:
    """Return a pattern for a shown line: any numbers, either build, and anything in place of an ellipsis."""
    numbers = re.sub(r"\d[\d.]*", r"\\d[\\d.]*", re.escape(line).replace(r"\.", "."))
    return numbers.replace("…", ".*").replace(r"compiled:\ no", r"compiled:\ (?:yes|no)")


def test_the_commands_of_the_page_print_what_it_shows(terminals: Terminals) -> None:
    consumer: subprocess.Popen[str] | None = None
    for title, block in BLOCKS:
        for command, shown in dialogues(block) if title != INSTALL else []:
            if command.startswith("spanwire start"):
                terminals.begin(command, "established" if "a.xml" in command else "started")
            elif "terminal" in title:
                consumer = terminals.begin(command, "")
                assert wait_for_demand(terminals)
            else:
                printed = terminals.run(command)
                assert re.fullmatch("\n".join(map(pattern, shown)), printed.strip("\n")), (command, printed)
    assert consumer is not None
    received, _ = consumer.communicate(timeout=TIMEOUT_S)
    assert received.splitlines()[:10] == [f"test message: {number}" for number in range(10)]


def wait_for_demand(terminals: Terminals) -> bool:
    return any("demand 1," in terminals.run("spanwire status brokerA") for _ in range(100))


def test_only_the_installation_is_left_to_the_reader() -> None:
    installing = [command for title, block in BLOCKS if title == INSTALL for command, _ in dialogues(block)]
    assert installing == ["python3 -m venv .venv", ". .venv/bin/activate", "pip install ."]
