"""The terminals of a reader who types the commands of a page, and the commands with the lines that the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.broker_process import COMMAND
from tests.support.ports import free_port

TIMEOUT_S: Final = 60.0
BLOCK: Final = re.compile(r"```console(?: title=\"([^\"]*)\")?\n(.*?)```", re.DOTALL)
FILE: Final = re.compile(r"```\w+ title=\"([\w.]+)\"\n(.*?)```", re.DOTALL)


class Terminals:
    """The terminals of the reader: commands that end, and commands that go on until a line has come or they end."""

    def __init__(self, directory: Path, files: Mapping[str, str]) -> None:
        self._directory = directory
        self._ports = {port: str(free_port()) for port in ("61616", "61626")}
        own = dict.fromkeys(("XDG_RUNTIME_DIR", "TMPDIR", "XDG_DATA_HOME"), str(directory))  # no other broker is listed
        self._environment = {**os.environ, **own}
        self._running: list[subprocess.Popen[str]] = []
        for name, text in files.items():
            (directory / name).write_text(self.with_ports(text), "utf-8")

    def with_ports(self, text: str) -> str:
        """Return a text with the free ports of this test in place of the usual ones."""
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return text

    def _words(self, command: str) -> list[str]:
        words = shlex.split(self.with_ports(command))
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


def dialogues(block: str) -> list[tuple[str, list[str]]]:
    """Commands with the lines that follow them."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(lines[0], lines[1:]) for lines in (part.splitlines() for part in parts)]


def pattern(line: str) -> str:
    """Return a pattern for a shown line: any numbers, either build, and anything in place of an ellipsis."""
    numbers = re.sub(r"\d[\d.]*", r"\\d[\\d.]*", re.escape(line).replace(r"\.", "."))
    return numbers.replace("…", ".*").replace(r"compiled:\ no", r"compiled:\ (?:yes|no)")
