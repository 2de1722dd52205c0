"""Mosquitto, as Debian packages it, as a child process with a configuration, port and data of the test."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from tests.support.await_start import await_start, is_listening
from tests.support.peers import MOSQUITTO
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 30.0
END_TIMEOUT_S: Final = 30.0
PAUSE_S: Final = 0.05
USER: Final = "bridge"
PASSWORD: Final = "right-word"
CONFIGURATION: Final = """\
listener {port} 127.0.0.1
persistence true
persistence_location {directory}/
max_queued_messages 0
max_inflight_messages 0
allow_anonymous false
password_file {directory}/passwords
user root
"""
SECURE: Final = """\
listener {port} 127.0.0.1
certfile {certificate}
keyfile {certificate}
"""


class MosquittoProcess:
    """A broker that runs while the block does. `stop` and `start` keep the port and the sessions."""

    def __init__(self, directory: Path, certificate: Path | None = None) -> None:
        """With a file of a key and its certificate there is a port with TLS, too."""
        self._directory: Final = directory
        self._certificate: Final = certificate
        self.secure_port: Final = free_port()
        self.port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for bridges."""
        return f"mqtt://127.0.0.1:{self.port}"

    @property
    def is_running(self) -> bool:
        """False after `stop` and `kill`."""
        return self._process is not None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        passwords = self._directory / "passwords"
        command = ["mosquitto_passwd", "-b", "-c", str(passwords), USER, PASSWORD]
        subprocess.run(command, check=True, capture_output=True, timeout=START_TIMEOUT_S)
        text = CONFIGURATION.format(port=self.port, directory=self._directory)
        if self._certificate is not None:
            text += SECURE.format(port=self.secure_port, certificate=self._certificate)
        (self._directory / "mosquitto.conf").write_text(text, encoding="utf-8")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Return when clients can connect."""
        assert self._process is None
        log = self._directory / "log"
        with log.open("ab") as output:
            command = [MOSQUITTO, "-c", str(self._directory / "mosquitto.conf")]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        await_start(self._process, lambda: is_listening(self.port), self.stop, log, START_TIMEOUT_S)

    def store(self) -> None:
        """Let the broker store its sessions, and return when that is done."""
        assert self._process is not None
        before = self._stored_at()
        self._process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._stored_at() == before:
            assert time.monotonic() < deadline, "Mosquitto stores nothing"
            time.sleep(PAUSE_S)

    def _stored_at(self) -> int:
        file = self._directory / "mosquitto.db"
        return file.stat().st_mtime_ns if file.exists() else 0

    def stop(self) -> None:
        """End the broker in order, so that it stores its sessions; connections break."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the broker at once, with the sessions that it stored last."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(END_TIMEOUT_S)
