"""A reader who types what a tutorial prints: its files, and its commands in order, in one shell.

The usual ports are replaced by free ones. A command is what the page shows; only ``spanwire start`` goes on beside the
others, and is awaited until its last line has come.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from tests.support.announcing_process import AnnouncingProcess
from tests.support.patience import SPARK_S
from tests.support.ports import free_port
from tests.support.terminals import BLOCK, FILE, dialogues, pattern

PAGES: Final = Path(__file__).resolve().parents[2] / "docs"
INSTALL: Final = "in the clone"
EXIT_STATUS: Final = "exit status "
USUAL_PORTS: Final = ("61616", "61626", "8161")
DEFAULT: Final = "default.xml"
# The broker of `spanwire start` alone, on other ports.
DEFAULT_TEXT: Final = """\
<broker xmlns="http://activemq.apache.org/schema/core" dataDirectory="data/localhost">
  <transportConnectors><transportConnector uri="tcp://127.0.0.1:61616"/></transportConnectors>
</broker>
"""
STATE: Final = ".shell"  # what a shell leaves to the next: its variables


def answer(line: str) -> str:
    """Return a pattern for a shown line; an ellipsis alone stands for any lines, and a port for any port."""
    return r"(?s:.*)" if line == "…" else pattern(line)


class Tutorial:
    """One page and the directory in which somebody follows it."""

    def __init__(self, page: str, directory: Path, ports: Mapping[str, int] | None = None) -> None:
        """``ports`` are those of brokers that run already, by the port that the page names."""
        self.text: Final = (PAGES / page).read_text("utf-8")
        self._directory = directory
        given = ports or {}
        self._ports = {port: str(given.get(port) or free_port()) for port in USUAL_PORTS}
        own = dict.fromkeys(("XDG_RUNTIME_DIR", "TMPDIR", "XDG_DATA_HOME"), str(directory))  # no other broker is listed
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        broker = {"SPANWIRE_CONFIGURATION": DEFAULT} if "$ spanwire start\n" in self.text else {}
        self._environment = {**os.environ, **own, **broker, "PATH": path, "PYTEST_ADDOPTS": ""}
        self._running: list[AnnouncingProcess] = []
        (directory / STATE).touch()

    def __enter__(self) -> Self:
        for name, text in [(DEFAULT, DEFAULT_TEXT), *FILE.findall(self.text)]:
            (self._directory / name).write_text(self.with_ports(text), "utf-8")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.end(signal.SIGKILL)

    def with_ports(self, text: str) -> str:
        """Return a text with the free ports of this reader in place of the usual ones."""
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", free, text)
        return text

    def commands(self) -> Iterator[tuple[str, list[str], int]]:
        """Yield each command that the reader types, the lines that the page shows, and the exit status."""
        for title, block in BLOCK.findall(self.text):
            if title != INSTALL:
                status = int(title.removeprefix(EXIT_STATUS)) if title.startswith(EXIT_STATUS) else 0
                yield from ((command, shown, status) for command, shown in dialogues(block))

    def installation(self) -> list[str]:
        """The commands that install Spanwire, which a test of a page leaves out."""
        blocks = [block for title, block in BLOCK.findall(self.text) if title == INSTALL]
        return [command for block in blocks for command, _ in dialogues(block)]

    def follow(self, *only: str) -> None:
        """Type everything, and compare each answer with the page; with ``only`` these commands, and what they need."""
        for command, shown, status in self.commands():
            if only and not any(word in command for word in (*only, "openssl", "set -a")):
                continue
            if command.startswith("spanwire start"):
                self._start(command, shown)
                continue
            done = self._run(command)
            assert done.returncode == status, f"{command}: {done.stdout}{done.stderr}"
            if shown:
                lines = "\n".join(map(answer, shown))
                assert re.fullmatch(lines, done.stdout.strip("\n")), f"{command}: {done.stdout}"

    def _start(self, command: str, shown: list[str]) -> None:
        if command == "spanwire start":
            command += f" {DEFAULT}"
        script = f". ./{STATE}; exec {self.with_ports(command)}"
        process = AnnouncingProcess(["bash", "-c", script], self._directory, [], self._environment)
        self._running.append(process)
        last = re.compile(pattern(self.with_ports(shown[-1])))
        process.wait_until(lambda line: last.search(line) is not None, SPARK_S)

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        script = f". ./{STATE}; {self.with_ports(command)}\nstatus=$?; export -p > {STATE}; exit $status"
        return subprocess.run(
            ["bash", "-c", script], cwd=self._directory, env=self._environment, capture_output=True, text=True,
            timeout=SPARK_S, check=False,
        )  # fmt: skip
