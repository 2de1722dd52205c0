"""HDFS as two child processes, a NameNode and a DataNode, in a folder, on ports of the loopback.

PySpark has the jars of Hadoop's client. SPANWIRE_SPARK_JARS names a folder with ``hadoop``, for the servers:
hadoop-client-minicluster of the same version. ARROW_LIBHDFS_DIR names the folder of libhdfs.so, which PyArrow loads.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final, Self

import pyspark
import pytest

from spanwire.pipeline.spark.java import bundled_java, java_home
from tests.support.await_start import await_start, is_listening
from tests.support.ports import free_port

JARS: Final = "SPANWIRE_SPARK_JARS"
LIBRARY: Final = "ARROW_LIBHDFS_DIR"
START_S: Final = 200.0
NAME_NODE: Final = "namenode.NameNode"
DATA_NODE: Final = "datanode.DataNode"
SETTINGS: Final = {
    "dfs.replication": "1",
    "dfs.namenode.name.dir": "file://{folder}/names",
    "dfs.datanode.data.dir": "file://{folder}/blocks",
    "dfs.datanode.synconclose": "true",
    "dfs.namenode.http-address": "127.0.0.1:0",
    "dfs.datanode.address": "127.0.0.1:0",
    "dfs.datanode.ipc.address": "127.0.0.1:0",
    "dfs.datanode.http.address": "127.0.0.1:0",
    "dfs.namenode.safemode.extension": "0",  # else half a minute after each start
    "dfs.heartbeat.interval": "1",
    "dfs.permissions.enabled": "false",
}


def hadoop_jars() -> Path:
    """Return the folder with the servers' jar; skip the test where it or libhdfs.so is missing: no package has them."""
    folder = Path(os.environ.get(JARS, "")) / "hadoop"
    if not list(folder.glob("hadoop-client-minicluster-*.jar")):
        pytest.skip(f"{JARS} names no folder with hadoop/hadoop-client-minicluster-*.jar")
    if not (Path(os.environ.get(LIBRARY, "")) / "libhdfs.so").exists():
        pytest.skip(f"{LIBRARY} names no folder with libhdfs.so (docs/guides/spark/shared-storage.md)")
    return folder


class HdfsProcesses:
    """Run while the block does."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self.folder: Final = folder
        self._client: Final = Path(pyspark.__file__).parent / "jars"
        self._home: Final = java_home(os.environ, bundled_java())
        self._java: Final = [str(self._home / "bin/java"), "-Xmx256m", "-cp", f"{folder}:{jars}/*:{self._client}/*"]
        self._port: Final = free_port()
        self._processes: Final[dict[str, subprocess.Popen[bytes]]] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Variables for programs that use it through PyArrow."""
        jars = ":".join(str(jar) for jar in sorted(self._client.glob("*.jar")))
        return {**os.environ, "JAVA_HOME": str(self._home), "CLASSPATH": f"{self.folder}:{jars}"}

    def address(self, directory: str) -> str:
        """Return the address of a directory."""
        return f"hdfs://127.0.0.1:{self._port}/{directory}"

    def blocks(self) -> int:
        """Return the number of blocks on the disk of the DataNode, complete or not."""
        return sum(1 for path in self.folder.glob("blocks/current/*/current/**/blk_*") if path.suffix != ".meta")

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = {name: value.format(folder=self.folder) for name, value in SETTINGS.items()}
        self._write("hdfs-site.xml", settings)
        self._write("core-site.xml", {"fs.defaultFS": self.address("")})
        with (self.folder / "log").open("wb") as log:
            made = [*self._java, f"org.apache.hadoop.hdfs.server.{NAME_NODE}", "-format", "-force"]
            subprocess.run(made, check=True, stdout=log, stderr=log, timeout=START_S)
        for name in (NAME_NODE, DATA_NODE):
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def start(self, name: str) -> None:
        """Start a server; a NameNode listens when this returns."""
        log = self.folder / "log"
        with log.open("ab") as output:
            command = [*self._java, f"org.apache.hadoop.hdfs.server.{name}"]
            self._processes[name] = subprocess.Popen(command, stdout=output, stderr=output)
        if name == NAME_NODE:
            await_start(self._processes[name], lambda: is_listening(self._port), lambda: self.kill(name), log, START_S)

    def kill(self, name: str) -> None:
        """End a server at once."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def _write(self, name: str, settings: dict[str, str]) -> None:
        properties = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
        )
        (self.folder / name).write_text(f"<configuration>{properties}</configuration>", "utf-8")
