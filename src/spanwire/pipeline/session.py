"""A local Spark session that needs nothing prepared: finds Java, has the workers run this interpreter, stays on
loopback, and leaves out what costs time at a start or in each batch and is of no use on one machine.

    with local_session("archive") as spark:
        spark.readStream.format("spanwire")…

Whoever has a session or a cluster uses that one; the data source needs nothing of this module.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spanwire.pipeline.spark.java import bundled_java, java_home
from spanwire.pipeline.spark.spark_log import has_own_log, log_into
from spanwire.pipeline.spark.worker_python import worker_python

MAX_CORES: Final = 1024
DEFAULTS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Spark takes the machine's outward address otherwise, and opens it.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
LOG_LEVEL: Final = "ERROR"  # of what stands on standard error
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
# Spark's other way starts two processes (`readlink`) for each file of a checkpoint, four of them in every batch. Both
# look whether there is a file, and then rename; neither is more than that on a local disk.
PLAIN_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"  # of Spark 4.1
)


def prepare_environment() -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON for a session that this process starts.

    Spark's workers would take whatever ``python3`` is on the path. Raises `ConfigurationError` when there is no Java.
    """
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def prepare_java() -> None:
    """Set JAVA_HOME. Raises `ConfigurationError` when there is no Java."""
    os.environ["JAVA_HOME"] = str(java_home(os.environ, bundled_java()))


def prepare_cluster_environment() -> None:
    """Set JAVA_HOME and PYSPARK_DRIVER_PYTHON for a session on a cluster, and PYSPARK_PYTHON unless it is set: the
    machines of a cluster may have Python elsewhere. Raises `ConfigurationError` when there is no Java.
    """
    prepare_java()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def machine_cores() -> int:
    """The cores of this machine."""
    return min(os.cpu_count() or 1, MAX_CORES)


@contextmanager
def local_session(
    name: str, cores: int = 2, settings: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[SparkSession]:
    """A session with that many cores of this machine; ``settings`` go before the defaults of this module. Spark's own
    log is written to the file ``log``, or its errors to standard error.

    Raises `ConfigurationError` when there is no Java, or the log cannot be written.
    """
    if not 1 <= cores <= MAX_CORES:
        raise ValueError(f"cores must lie between 1 and {MAX_CORES}, not {cores}")
    prepare_environment()
    package = Path(pyspark.__file__).parent
    python = worker_python(sys.executable, package, os.environ)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python  # tasks, and all who plan them
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark looks for another address of the machine otherwise
    config = {**DEFAULTS, "spark.sql.shuffle.partitions": str(cores), **(settings or {})}
    session = start_session(SparkSession.builder.master(f"local[{cores}]").appName(name).config(map=config), log)
    try:
        choose_checkpoint_files(session)
        yield session
    finally:
        session.stop()


def start_session(builder: SparkSession.Builder, log: Path | None) -> SparkSession:
    """A session whose own log goes to a file, or its errors to standard error, unless somebody has chosen a log."""
    # At DEBUG Py4J writes down every option, a password among them, at INFO each connection that ends, and at ERROR the
    # stack of a batch that fails, which goes on to Spark and into its log.
    logging.getLogger("py4j").setLevel(logging.WARNING if log is None else logging.CRITICAL)
    is_chosen = has_own_log(os.environ, Path(pyspark.__file__).parent)
    with ExitStack() as start:
        if log is not None and not is_chosen:
            start.enter_context(log_into(log))
        session = builder.getOrCreate()
    if log is None and not is_chosen:
        session.sparkContext.setLogLevel(LOG_LEVEL)
    return session


def choose_checkpoint_files(session: SparkSession) -> None:
    """Let checkpoints be written without further processes, unless somebody has chosen how they are written."""
    if session.conf.get(CHECKPOINT_FILES, "") or session.sparkContext._jvm is None:
        return
    try:
        session.sparkContext._jvm.java.lang.Class.forName(PLAIN_FILES)
    except Py4JJavaError:  # this Spark has it elsewhere
        return
    session.conf.set(CHECKPOINT_FILES, PLAIN_FILES)
