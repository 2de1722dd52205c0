"""A standalone Spark cluster on free loopback ports: one master and two workers, each with one core.

    with SparkCluster(directory) as cluster:
        subprocess.run([…, "--master", cluster.url], env=cluster.driver_environment(), …)

Each worker has its own working directory, and a PATH without the Python of this process. So a relative path, or an
interpreter that the driver alone has, is not the same for an executor as for the driver. Spark's processes are those of
the package pyspark; they end by their process ids.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyspark

from spanwire.pipeline.spark.java import bundled_java, java_home
from tests.support.announcing_process import AnnouncingProcess
from tests.support.patience import SPARK_S
from tests.support.ports import free_port
from tests.support.spark_classes import QUICK_JAVA

WORKERS: Final = 2
MASTER: Final = "org.apache.spark.deploy.master.Master"
WORKER: Final = "org.apache.spark.deploy.worker.Worker"
SETTINGS: Final = {
    "spark.driver.extraJavaOptions": QUICK_JAVA,
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
DAEMONS: Final = {"SPARK_DAEMON_MEMORY": "128m", "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA}  # of master and workers
PLAIN_PATH: Final = "/usr/bin:/bin"  # what a service has


class SparkCluster:
    """The processes of one cluster."""

    def __init__(self, directory: Path) -> None:
        self.log: Final[list[str]] = []
        self.url: Final = f"spark://127.0.0.1:{free_port()}"
        self._directory: Final = directory
        self._processes: Final[list[AnnouncingProcess]] = []

    def __enter__(self) -> Self:
        try:
            _, _, port = self.url.rpartition(":")
            words = ["--host", "127.0.0.1", "--port", port, "--webui-port", "0"]
            self._processes.append(self._start(MASTER, self._directory, *words))
            self._processes[0].wait_until(lambda line: "I have been elected leader" in line, SPARK_S)
            for number in range(WORKERS):
                self._processes.append(self._start_worker(number))
            for worker in self._processes[1:]:
                worker.wait_until(lambda line: "Successfully registered with master" in line, SPARK_S)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._end()

    def driver_environment(self, settings: Mapping[str, str] | None = None, **more: str) -> dict[str, str]:
        """The variables of a driver on this machine, with this Python first on its PATH; ``settings`` are Spark's."""
        words = [
            word for name, value in {**SETTINGS, **(settings or {})}.items() for word in ("--conf", f"{name}={value}")
        ]
        path = f"{Path(sys.executable).parent}:{PLAIN_PATH}"
        return {
            **os.environ,
            **java_variables(),
            "PATH": path,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
            **more,
        }

    def restore(self) -> None:
        """Start another worker for each one that was killed."""
        for index, worker in enumerate(self._processes[1:], 1):
            if worker.has_ended:
                self._processes[index] = self._start_worker(index - 1)

    def _start_worker(self, number: int) -> AnnouncingProcess:
        place = self._directory / f"worker-{number}"
        place.mkdir(exist_ok=True)
        words = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--host", "127.0.0.1", self.url]
        return self._start(WORKER, place, *words)

    def _start(self, main: str, directory: Path, *arguments: str) -> AnnouncingProcess:
        home = Path(pyspark.__file__).parent
        environment = {
            **java_variables(),
            "PATH": PLAIN_PATH,
            "HOME": str(self._directory),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **DAEMONS,
            "SPARK_NO_DAEMONIZE": "true",
            "SPARK_WORKER_DIR": str(directory / "work"),  # of executors; by default in SPARK_HOME
        }
        command = [str(home / "bin/spark-class"), main, *arguments]
        return AnnouncingProcess(command, directory, self.log, environment)

    def _end(self) -> None:
        """End the workers, which end their executors, and then the master."""
        while self._processes:
            with contextlib.suppress(RuntimeError):  # on a machine at its limit it has to be killed
                self._processes.pop().end(signal.SIGTERM)


def java_variables() -> dict[str, str]:
    """The variables by which Spark finds a Java."""
    return {"JAVA_HOME": str(java_home(os.environ, bundled_java()))}
