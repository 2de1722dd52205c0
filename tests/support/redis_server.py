"""A server of Redis, as Debian packages it, as a child process with ports and data of the test, and calls to it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, Final, Self

import redis

from tests.support.await_start import await_start, is_listening
from tests.support.peers import REDIS
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 30.0
END_TIMEOUT_S: Final = 30.0
PASSWORD: Final = "right-word"
CONFIGURATION: Final = """\
bind 127.0.0.1
port {port}
dir {directory}
save ""
appendonly {log}
appendfsync always
requirepass {password}
"""
SECURE: Final = """\
tls-port {port}
tls-cert-file {certificate}
tls-key-file {certificate}
tls-auth-clients no
"""


class RedisProcess:
    """A server that runs while the block does. `kill` and `start` keep the port and the streams."""

    def __init__(self, directory: Path, certificate: Path | None = None, log: bool = True) -> None:
        """With a file of a key and its certificate there is a port with TLS, too."""
        self._directory: Final = directory
        self._certificate: Final = certificate
        self._log: Final = log
        self.port: Final = free_port()
        self.secure_port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for bridges."""
        return f"redis://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """False after `kill`."""
        return self._process is not None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        words = {"port": self.port, "directory": self._directory, "password": PASSWORD}
        text = CONFIGURATION.format(**words, log="yes" if self._log else "no")
        if self._certificate is not None:
            text += SECURE.format(port=self.secure_port, certificate=self._certificate)
        (self._directory / "redis.conf").write_text(text, encoding="utf-8")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return when clients can connect."""
        assert self._process is None
        log = self._directory / "log"
        with log.open("ab") as output:
            command = [REDIS, str(self._directory / "redis.conf")]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        await_start(self._process, lambda: is_listening(self.port), self.kill, log, START_TIMEOUT_S)

    def kill(self) -> None:
        """End the server at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_TIMEOUT_S)

    def client(self) -> Any:
        """A client of the library that waits for answers."""
        return redis.Redis(port=self.port, password=PASSWORD, decode_responses=True)

    def send(self, stream: str, texts: list[str]) -> None:
        """Add texts to a stream."""
        with self.client() as client:
            for text in texts:
                client.xadd(stream, {"body": text, "content-type": "text/plain"})

    def entries(self, stream: str) -> list[dict[str, str]]:
        """The fields of all entries of a stream."""
        with self.client() as client:
            return [fields for _, fields in client.xrange(stream)]
