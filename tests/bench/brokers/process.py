"""A broker as a child process on free loopback ports, ended by its id."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from tests.support.await_start import await_start, is_listening

START_DEADLINE: Final = 60.0  # seconds until a broker must accept connections
STOP_DEADLINE: Final = 20.0
MIB: Final = 1024 * 1024


class Measured(Protocol):
    """A broker under load: a process of our own, or a running one somewhere."""

    label: str
    host: str
    ports: Mapping[str, int]  # by protocol; those that the broker does not speak are left out
    login: Mapping[str, str]  # variables of the generator's environment
    prefix: str  # of the destinations' names

    def cpu_seconds(self) -> float | None:
        """User and system time of the whole process so far; None if nobody can know."""

    def resident_mib(self) -> float | None:
        """Resident memory of the process; None if nobody can know."""

    def is_alive(self) -> bool:
        """Return True while the broker runs, as far as anybody can know."""

    def restart(self) -> float:
        """Stop the broker in order and start it again on the same data; return the seconds that the start took."""


class BrokerProcess:
    """Starts a command, waits for its ports, and counts what the process takes."""

    def __init__(
        self,
        label: str,
        command: list[str],
        ports: Mapping[str, int],
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
        login: Mapping[str, str] | None = None,
        about: str = "",
        patience: float = START_DEADLINE,
    ) -> None:
        self.label = label
        self.host = "127.0.0.1"
        self.ports: Mapping[str, int] = ports
        self.login: Mapping[str, str] = login or {}
        self.prefix = "BENCH"
        self.about = about
        self._patience = patience
        self._environment = {**os.environ, **(environment or {})}
        directory.mkdir(parents=True, exist_ok=True)
        self._log = (directory / "log").open("wb")
        self._directory = directory
        self._arguments = command
        self._process = self._start()
        self._await_ports(directory / "log")

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._arguments,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=self._directory,
            env=self._environment,
        )

    def restart(self) -> float:
        """Stop in order and start again on the same data; gives the seconds from the start until it accepts
        connections.
        """
        self._end()
        started = time.monotonic()
        self._process = self._start()
        self._await_ports(self._directory / "log")
        return time.monotonic() - started

    def _await_ports(self, log: Path) -> None:
        try:
            for port in self.ports.values():
                await_start(self._process, partial(is_listening, port), self.stop, log, self._patience)
        except AssertionError as error:
            raise SystemExit(f"bench: {self.label} did not start: {error}") from error

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Return True until the process has ended."""
        return self._process.poll() is None

    def cpu_seconds(self) -> float:
        """User and system time of the whole process so far."""
        return cpu_seconds(self.pid)

    def resident_mib(self) -> float:
        """Resident memory of the process."""
        return resident_mib(self.pid)

    def stop(self, patience: float = STOP_DEADLINE) -> None:
        """End this process, and only this one."""
        self._end(patience)
        self._log.close()

    def _end(self, patience: float = STOP_DEADLINE) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all of its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def jar_version(directory: Path, name: str) -> str:
    """Return the version in the name of a jar, which may be a link; "a version" if no name has one."""
    pattern = re.compile(rf"{re.escape(name)}-(\d[\d.]*)\.jar")
    found = [pattern.fullmatch(path.name) for path in sorted(directory.glob(f"{name}*.jar"))]
    return next((match[1] for match in found if match), "a version")
