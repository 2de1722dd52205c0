"""A broker with a web process, and the processor time that it takes."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Final

from spanwire.management.control_client import ControlClient
from tests.service.started import TIMEOUT_S, Started

LISTENING: Final = re.compile(r"Listening for web requests at: http://127\.0\.0\.1:(\d+)")
HOST: Final = "127.0.0.1"
CREATED: Final = 100  # destinations in one request


class WithWebPort(Started):
    """A broker that starts its web process."""

    def text(self) -> str:
        return super().text().replace("</broker>", '<web port="0"/></broker>')

    def web_port(self) -> int:
        """The port, once the web process listens."""
        self.awaits("Listening for web requests at: ")
        return next(int(found[1]) for line in self.errors if (found := LISTENING.search(line)))

    def create_queues(self, names: list[str]) -> None:
        client = ControlClient(self.data, TIMEOUT_S)
        for start in range(0, len(names), CREATED):
            client.ask("create", destinations=[f"queue://{name}" for name in names[start : start + CREATED]])


def cpu_s(pid: int) -> float:
    """Processor time of a process in seconds, to the nanosecond: its clock of Linux, see clock_getcpuclockid(3)."""
    return time.clock_gettime((~pid << 3) | 2)


def web_pid(pid: int) -> int:
    """The web process of a broker, its only child."""
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return int(child)
