"""RabbitMQ, as Debian packages it, as a child process: its node, ports and data belong to the test alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Final, Self

from tests.support.await_start import answer_of, await_start
from tests.support.peers import RABBITMQ
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 200.0  # beside other tests on two processors; alone it takes 8 s
END_TIMEOUT_S: Final = 30.0
AMQP_1_0: Final = b"AMQP\0\1\0\0"
AMQP_0_9_1: Final = b"AMQP\0\0\x09\x01"
PLUGINS: Final = "[rabbitmq_stomp,rabbitmq_amqp1_0].\n"
CONFIGURATION: Final = """\
listeners.tcp.1 = 127.0.0.1:{amqp}
stomp.listeners.tcp.1 = 127.0.0.1:{stomp}
log.console = true
log.console.level = warning
log.file = false
"""
SECURE: Final = """\
listeners.ssl.1 = 127.0.0.1:{amqp}
stomp.listeners.ssl.1 = 127.0.0.1:{stomp}
ssl_options.cacertfile = {certificate}
ssl_options.certfile = {certificate}
ssl_options.keyfile = {certificate}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
"""
USER: Final = "guest"
PASSWORD: Final = "guest"


class RabbitProcess:
    """A node that runs while the block does. `kill` and `start` keep ports and data."""

    def __init__(self, directory: Path, certificate: Path | None = None) -> None:
        """With a file of a key and its certificate there are ports with TLS, too."""
        self._directory: Final = directory
        self._certificate: Final = certificate
        self.secure_amqp_port: Final = free_port()
        self.secure_stomp_port: Final = free_port()
        self._epmd_port: Final = free_port()
        self._dist_port: Final = free_port()
        self.amqp_port: Final = free_port()
        self.stomp_port: Final = free_port()
        self._epmd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def amqp_url(self) -> str:
        """The address for AMQP 0-9-1 and 1.0."""
        return f"amqp://127.0.0.1:{self.amqp_port}"

    @property
    def stomp_url(self) -> str:
        """The address for STOMP."""
        return f"stomp://127.0.0.1:{self.stomp_port}"

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        (self._directory / "enabled_plugins").write_text(PLUGINS, encoding="utf-8")
        text = CONFIGURATION.format(amqp=self.amqp_port, stomp=self.stomp_port)
        if self._certificate is not None:
            text += SECURE.format(
                amqp=self.secure_amqp_port, stomp=self.secure_stomp_port, certificate=self._certificate
            )
        (self._directory / "rabbitmq.conf").write_text(text, encoding="utf-8")
        self._epmd = subprocess.Popen(["epmd", "-address", "127.0.0.1", "-port", str(self._epmd_port)])
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait(END_TIMEOUT_S)

    def start(self) -> None:
        """Return when clients can connect."""
        assert self._process is None
        log = self._directory / "log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(RABBITMQ)], env=self._environment(), stdout=output, stderr=output, start_new_session=True
            )
        await_start(self._process, self._answers, self.kill, log, START_TIMEOUT_S)

    def kill(self) -> None:
        """End the node at once, with all its processes."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(END_TIMEOUT_S)

    @property
    def is_running(self) -> bool:
        """False after `kill`."""
        return self._process is not None

    def messages(self, queue: str) -> int:
        """Return the messages of a queue, those of consumers included."""
        command = [
            str(RABBITMQ.with_name("rabbitmqctl")),
            "-q",
            "list_queues",
            "name",
            "messages",
            "--no-table-headers",
        ]
        done = subprocess.run(
            command, env=self._environment(), check=True, capture_output=True, timeout=START_TIMEOUT_S
        )
        counts = dict(line.rsplit("\t", 1) for line in done.stdout.decode().splitlines() if "\t" in line)
        return int(counts.get(queue, 0))

    def _answers(self) -> bool:
        is_broker = answer_of(self.amqp_port, AMQP_0_9_1, 1) == b"\x01"
        return is_broker and answer_of(self.stomp_port, b"", 0) is not None

    def _environment(self) -> dict[str, str]:
        directory = self._directory
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"spanwire-{self.amqp_port}@localhost",
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "environment"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "logs"),
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
