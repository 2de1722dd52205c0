"""Debian's ZooKeeper as a child process: one server, its own directory, a port of the loopback."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from tests.support.peers import JARS
from tests.support.ports import free_port

START_TIMEOUT_S: Final = 60.0
CLASSES: Final = ("zookeeper.jar", "zookeeper-jute.jar", "slf4j-api.jar", "slf4j-nop.jar", "netty-all.jar",
                  "commons-cli.jar", "commons-io.jar", "snappy-java.jar", "metrics-core.jar")  # fmt: skip
CONFIGURATION: Final = """\
tickTime=500
maxSessionTimeout=3000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=ruok
"""


class ZooKeeper:
    """One registry. ``hosts`` is where clients find it."""

    def __init__(self, directory: Path) -> None:
        self._directory: Final = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.hosts = ""

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        configuration = self._directory / "zoo.cfg"
        configuration.write_text(CONFIGURATION.format(data=self._directory / "data", port=port), "utf-8")
        path = ":".join(str(JARS / name) for name in CLASSES)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    "-Xmx128m",
                    "-XX:+UseSerialGC",
                    "-XX:TieredStopAtLevel=1",
                    "-cp",
                    path,
                    main,
                    str(configuration),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
            )
        self.hosts = f"127.0.0.1:{port}"
        self._wait(port)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _wait(self, port: int) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", port), 1.0) as asking:
                    asking.sendall(b"ruok")
                    if asking.recv(4) == b"imok":
                        return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(
            f"ZooKeeper has not started: {(self._directory / 'log').read_text('utf-8', 'replace')[-2000:]}"
        )
