"""A server of NATS with JetStream, as Debian packages it, as a child process with a port and data of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, Self

from tests.support.await_start import await_start, is_listening
from tests.support.peers import NATS
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 30.0
END_TIMEOUT_S: Final = 30.0
USER: Final = "bridge"
PASSWORD: Final = "right-word"
CONFIGURATION: Final = """\
listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{directory}" }}
authorization {{ user: {user}, password: "{password}" }}
"""
SECURE: Final = 'tls {{ cert_file: "{certificate}", key_file: "{certificate}" }}\n'


class NatsProcess:
    """A server that runs while the block does. `kill` and `start` keep the port and the streams."""

    def __init__(self, directory: Path, certificate: Path | None = None) -> None:
        """With a file of a key and its certificate each connection has TLS."""
        self._directory: Final = directory
        self._certificate: Final = certificate
        self.port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for bridges."""
        return f"{'nats' if self._certificate is None else 'nats+ssl'}://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """False after `kill`."""
        return self._process is not None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        text = CONFIGURATION.format(port=self.port, directory=self._directory, user=USER, password=PASSWORD)
        if self._certificate is not None:
            text += SECURE.format(certificate=self._certificate)
        (self._directory / "nats.conf").write_text(text, encoding="utf-8")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return when clients can connect."""
        assert self._process is None
        log = self._directory / "log"
        with log.open("ab") as output:
            command = [NATS, "-c", str(self._directory / "nats.conf")]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        await_start(self._process, lambda: is_listening(self.port), self.kill, log, START_TIMEOUT_S)

    def kill(self) -> None:
        """End the server at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_TIMEOUT_S)
