"""Apache Kafka as a child process: one server that is its own controller, in a folder, on ports of the loopback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final, Self

import pytest

from tests.support.await_start import await_start, is_listening
from tests.support.ports import free_port

JARS: Final = "SPANWIRE_SPARK_JARS"
START_TIMEOUT_S: Final = 300.0  # beside other tests on two processors
END_TIMEOUT_S: Final = 60.0
CLUSTER: Final = "c3BhbndpcmUtdGVzdHMtMA"  # 16 octets in Base64, as Kafka wants a cluster to be called
CONFIGURATION: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


def kafka_jars() -> Path:
    """Return the folder with the jars of a server; skip the test where there is none, because no package has them."""
    folder = Path(os.environ.get(JARS, "")) / "kafka-server"
    if not list(folder.glob("kafka_*.jar")):
        pytest.skip(f"{JARS} names no folder with kafka-server/kafka_*.jar (docs/guides/routes/kafka-delta-iceberg.md)")
    return folder


class KafkaProcess:
    """Runs while the block does, from the jars of a folder. Topics are made when somebody writes to them."""

    def __init__(self, jars: Path, directory: Path) -> None:
        self._java: Final = ["java", "-Xmx256m", "-cp", f"{jars}/*"]
        self._directory: Final = directory
        self._port: Final = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Its process. Raises `RuntimeError` after `kill`."""
        if self._process is None:
            raise RuntimeError("no Kafka is running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """False after `kill`."""
        return self._process is not None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = self._directory / "server.properties"
        text = CONFIGURATION.format(port=self._port, controller=free_port(), data=self._directory / "data")
        file.write_text(text, encoding="utf-8")
        log = self._directory / "log"
        with log.open("wb") as output:
            made = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(file)]
            subprocess.run(made, check=True, stdout=output, stderr=output, timeout=START_TIMEOUT_S)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Return when clients can connect; ports and data stay."""
        log = self._directory / "log"
        with log.open("ab") as output:
            start = [*self._java, "kafka.Kafka", str(self._directory / "server.properties")]
            self._process = subprocess.Popen(start, stdout=output, stderr=output)
        await_start(self._process, lambda: is_listening(self._port), self.kill, log, START_TIMEOUT_S)

    def kill(self) -> None:
        """End the server at once."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(END_TIMEOUT_S)

    def octets(self, topic: str) -> int:
        """What a topic holds on the disk."""
        return sum(path.stat().st_size for path in self._directory.glob(f"data/{topic}-*/*.log"))
