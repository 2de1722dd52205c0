"""A broker of the demonstration as a child process, and what it tells of itself through its control socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

from stage import Address

from spanwire.management.control_client import ControlClient, ControlError

HERE: Final = Path(__file__).resolve().parent
END_SECONDS: Final = 30.0


class BrokerProcess:
    """Starts, kills and stops one broker; every start uses the same ports and the same data."""

    def __init__(self, name: str, directory: Path, remote: Address | None = None) -> None:
        """``remote`` is where its configuration finds the other broker."""
        self.name: Final = name
        self.address: Final = Address(_free_port(), _free_port())
        self._control: Final = ControlClient(directory)
        self._environment: Final = dict(
            os.environ,
            OPENWIRE_PORT=str(self.address.openwire),
            STOMP_PORT=str(self.address.stomp),
            REMOTE_PORT=str(remote.openwire if remote is not None else 0),
            ACTIVEMQ_DATA=str(directory),  # what ${activemq.data} stands for
        )
        self._process: subprocess.Popen[str] | None = None
        self._started = threading.Event()

    def start(self) -> None:
        """Start it; `has_started` tells when it is there."""
        configuration = HERE / self.name.lower() / "activemq.xml"
        command = [sys.executable, "-m", "spanwire", "start", f"xbean:{configuration}"]
        self._process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._started = threading.Event()
        threading.Thread(target=self._listen, args=[self._process, self._started], daemon=True).start()

    def has_started(self) -> bool:
        """Whether it has said so; ends the demonstration when it ended instead."""
        if self._process is None or self._process.poll() is not None:
            raise SystemExit(f"demo: broker {self.name} did not start")
        return self._started.is_set()

    def _listen(self, process: subprocess.Popen[str], started: threading.Event) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"  {self.name}: {line.rstrip()}", flush=True)
            if "Spanwire (broker" in line and line.rstrip().endswith("started"):
                started.set()

    def kill(self) -> None:
        """What a power switch does to a process."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """End it in order; gives its exit status."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def queue(self, name: str) -> dict[str, int]:
        """The counters of a queue: consumers, pending, in_flight and more; all 0 before the queue exists."""
        for row in self._ask("destinations"):
            if row["destination"] == f"queue://{name}":
                return {key: value for key, value in row.items() if isinstance(value, int)}
        return {"consumers": 0, "pending": 0, "in_flight": 0, "enqueued": 0, "dequeued": 0}

    def link(self) -> dict[str, object]:
        """The state of its network connector."""
        links = [link for status in self._ask("status") for link in _rows(status.get("network_connectors"))]
        return links[0] if links else {"state": "unknown", "demand": 0, "in_flight": 0}

    def _ask(self, command: str) -> list[dict[str, object]]:
        try:
            answer = self._control.ask(command)
        except ControlError:
            return []
        return _rows(answer if isinstance(answer, list) else [answer])


def _rows(found: object) -> list[dict[str, object]]:
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
