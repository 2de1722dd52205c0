"""``spanwire start`` as a child process on free ports, and a STOMP client of a few lines.

Waiting is reading with a deadline: no test sleeps.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from spanwire.management.control_client import ControlClient
from tests.support.broker_process import COMMAND
from tests.support.ports import free_port

TIMEOUT_S: Final = 150.0  # Java and Python start slowly beside other tests on two processors
TIMED: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d [A-Z]+ +spanwire\.start: ")
LISTENING: Final = re.compile(r"Listening for connections at: (\S+?)://[^\s:]+:(\d+)")

CONFIGURATION: Final = """\
<broker brokerName="tested" dataDirectory="{data}"{attributes}>{inside}
  <transportConnectors>
    <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire}"/>
    <transportConnector name="stomp" uri="stomp://127.0.0.1:{stomp}"/>
  </transportConnectors>
</broker>
"""


def spanwire(
    *arguments: str, environment: dict[str, str] | None = None, command: list[str] = COMMAND
) -> subprocess.CompletedProcess[str]:
    """One command to its end."""
    return subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    )


class Started:
    """A broker that has said that it is started, on the same ports each time."""

    def __init__(
        self, directory: Path, attributes: str = "", arguments: tuple[str, ...] = (), inside: str = ""
    ) -> None:
        self.directory: Final = directory
        self.data: Final = directory / "data"
        self.configuration: Final = directory / "activemq.xml"
        self.ports: Final[dict[str, int]] = {"tcp": free_port(), "stomp": free_port()}
        self.output: Final[list[str]] = []
        self.errors: Final[list[str]] = []
        self._said: Final = threading.Condition()  # another line of ``errors``
        self._attributes: Final = attributes
        self._arguments = arguments
        self._elements: Final = inside
        self._process: subprocess.Popen[str] | None = None
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self.ended()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def broker_url(self) -> str:
        return f"tcp://127.0.0.1:{self.ports['tcp']}"

    def network(self, part: str) -> list[dict[str, object]]:
        """The rows of a part of what ``spanwire status --json`` prints. Tests ask again and again, so no process of its
        own does.
        """
        status = ControlClient(self.data, TIMEOUT_S).ask("status")
        assert isinstance(status, dict)
        rows: list[dict[str, object]] = status[part]
        return rows

    def command(self) -> list[str]:
        """What runs ``spanwire``."""
        return COMMAND

    def text(self) -> str:
        """The configuration, with names in braces for what differs."""
        return CONFIGURATION

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.configuration.write_text(
            self.text().format(
                data=self.data,
                openwire=self.ports["tcp"],
                stomp=self.ports["stomp"],
                attributes=f" {self._attributes}" if self._attributes else "",
                inside=self._elements,
            ),
            "utf-8",
        )
        process = subprocess.Popen(
            [*self.command(), "start", f"xbean:{self.configuration}", *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._process = process
        assert process.stderr is not None
        reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        reader.start()
        self._readers = [reader]
        watch = threading.Timer(TIMEOUT_S, process.kill)
        watch.start()
        assert process.stdout is not None
        for line in process.stdout:
            time = TIMED.match(line)
            said = line[time.end() :] if time else line
            self.output.append(said.rstrip("\n"))
            found = LISTENING.match(said)
            if found:
                self.ports[found.group(1)] = int(found.group(2))
            if line.endswith("started\n"):
                watch.cancel()
                return
        watch.cancel()
        raise AssertionError(f"the broker ended: {self.ended()} {self.errors}")

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            with self._said:
                self.errors.append(line)
                self._said.notify_all()

    def awaits(self, words: str, count: int = 1) -> None:
        """Until so many lines of the log hold ``words``."""
        with self._said:
            are_there = self._said.wait_for(lambda: sum(words in line for line in self.errors) >= count, TIMEOUT_S)
        assert are_there, (words, self.errors)

    def ended(self) -> int:
        """Wait for the end; the exit status."""
        assert self._process is not None
        status = self._process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        return status

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.ended()

    def stomp(self) -> StompClient:
        return StompClient(self.ports["stomp"])


class StompClient:
    """Frames over a socket, as text."""

    def __init__(self, port: int, login: bool = True) -> None:
        self._socket: Final = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._received = b""
        if login:
            self.send("CONNECT\naccept-version:1.2\nhost:localhost\n\n")
            assert self.receive().startswith("CONNECTED")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, frame: str) -> None:
        self._socket.sendall(frame.encode("utf-8") + b"\0")

    def send_raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> str:
        """The next frame; raises EOFError when the broker closed."""
        while b"\0" not in self._received:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError
            self._received += data
        frame, _, self._received = self._received.partition(b"\0")
        return frame.decode("utf-8").lstrip("\n")

    def wait_at_most(self, seconds: float) -> None:
        """How long to wait for bytes from now on."""
        self._socket.settimeout(seconds)

    def at_end(self) -> bool:
        """Whether the broker closes without sending anything more."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def transact(self, frame: str, receipt: str) -> str:
        """Send a frame that asks for a receipt and wait for it."""
        self.send(frame)
        answer = self.receive()
        assert f"receipt-id:{receipt}" in answer
        return answer
