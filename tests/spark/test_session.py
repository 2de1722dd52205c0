"""What a session of our own does otherwise than Spark by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spanwire.pipeline.session import CHECKPOINT_FILES, PLAIN_FILES, choose_checkpoint_files
from tests.support.broker_process import COMMAND
from tests.support.ports import free_port

COMMAND_S = 120.0


class Whereabouts(DataSource):  # type: ignore[misc]  # PySpark is not read
    """Tells where PySpark is for the three who make, plan and read a source: each in a process of its own."""

    def __init__(self, options: dict[str, str]) -> None:
        self._made = pyspark.__file__

    @classmethod
    def name(cls) -> str:
        return "whereabouts"

    def schema(self) -> str:
        return "made string, planned string, read string"

    def reader(self, schema: StructType) -> DataSourceReader:
        return WhereaboutsReader(self._made, pyspark.__file__)


class WhereaboutsReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, made: str, planned: str) -> None:
        self._told = (made, planned)

    def read(self, partition: InputPartition) -> Iterator[tuple[str, ...]]:
        yield (*self._told, pyspark.__file__)


def test_all_processes_import_the_installed_package_and_not_a_zip(spark: SparkSession) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # where they are there is no folder of tests
    try:
        spark.dataSource.register(Whereabouts)
        row = spark.read.format("whereabouts").load().first()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert row is not None
    assert {os.path.realpath(path) for path in row} == {os.path.realpath(pyspark.__file__)}


def test_checkpoints_are_written_without_processes_unless_somebody_chose_otherwise(spark: SparkSession) -> None:
    assert spark.conf.get(CHECKPOINT_FILES) == PLAIN_FILES
    other = spark.newSession()
    other.conf.set(CHECKPOINT_FILES, "org.example.Chosen")
    choose_checkpoint_files(other)
    assert other.conf.get(CHECKPOINT_FILES) == "org.example.Chosen"


@pytest.mark.parametrize("manager", ["FileSystemBasedCheckpointFileManager", "FileContextBasedCheckpointFileManager"])
def test_what_one_query_has_committed_another_does_not_write_over(
    spark: SparkSession, tmp_path: Path, manager: str
) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    folder = jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    checkpointing = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    one, other = (getattr(checkpointing, manager)(folder, jvm.org.apache.hadoop.conf.Configuration()) for _ in range(2))
    commit = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "7"))
    first, second = one.createAtomic(commit, False), other.createAtomic(commit, False)
    first.write(bytearray(b"first"))
    second.write(bytearray(b"second"))
    assert not (tmp_path / "7").exists()
    first.close()
    with pytest.raises(Py4JJavaError, match="AlreadyExist"):
        second.close()
    assert (tmp_path / "7").read_bytes() == b"first"


@pytest.mark.long
def test_a_missing_broker_is_one_line_on_a_terminal_and_the_rest_is_in_spark_s_log(tmp_path: Path) -> None:
    target, state = tmp_path / "target", tmp_path / "state"
    bridge = f"""
- jmsBridge:
    source: {{uri: "activemq:queue:A?brokerURL=tcp://127.0.0.1:{free_port()}"}}
    target: {{uri: "parquet:{target}"}}
    maxRetries: 0
"""
    (tmp_path / "bridge.yaml").write_text(bridge)
    words = [
        "run",
        str(tmp_path / "bridge.yaml"),
        "--state",
        str(state),
        "--master=local[1]",
        "--trigger=available-now",
    ]
    done = subprocess.run(
        [*COMMAND, "pipeline", *words], capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"\S+: JmsError: no connection to tcp://[\d.:]+: Connection refused[^\n]*\n", done.stdout)
    assert [line for line in done.stderr.splitlines() if "incubator" not in line] == []  # Java says that, not Spark
    assert "ERROR MicroBatchExecution" in (state / "spark.log").read_text()
