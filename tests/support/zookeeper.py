"""Debian's ZooKeeper as a child process: one server, its own directory, a port of the loopback."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final, Self

from tests.support.await_start import answer_of, await_start
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
        log = self._directory / "log"
        with log.open("wb") as output:
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
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._directory,
            )
        self.hosts = f"127.0.0.1:{port}"
        await_start(self._process, lambda: answer_of(port, b"ruok", 4) == b"imok", self.__exit__, log, START_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
