"""A local Spark session without preparation: finds Java, uses this interpreter, stays on loopback.

    with local_session("archive") as spark:
        spark.readStream.format("spanwire")…

Settings with a cost at the start or in each batch, and without a use on one machine, are off. A program with another
session or a cluster does not need this module.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.spark.class_archive import shared_classes
from spanwire.pipeline.spark.java import bundled_java, java_home
from spanwire.pipeline.spark.spark_log import has_own_log, log_into
from spanwire.pipeline.spark.worker_python import worker_python

MAX_CORES: Final = 1024
DEFAULTS: Final[dict[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # By default Spark listens on the machine's public address.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
LOG_LEVEL: Final = "ERROR"  # level of Spark's log on standard error
REMOTE_VARIABLE: Final = "SPARK_REMOTE"  # server of Spark Connect, for all sessions of a process
REMOTE_SCHEME: Final = "sc:"
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
# Spark's default starts two processes (`readlink`) for each file of a checkpoint, four of them in every batch. Both
# managers check for the file and rename it; on a local disk they are equivalent.
PLAIN_FILES: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"  # of Spark 4.1
)


def prepare_environment() -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON for a session of this process.

    Otherwise Spark's workers would run the first ``python3`` on the path.

    Raises:
        ConfigurationError: there is no Java.
    """
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def refuse_connect(master: str, environ: Mapping[str, str]) -> None:
    """Refuse a server of Spark Connect in place of a session of this process.

    Raises:
        ConfigurationError: ``master`` or the environment names such a server.
    """
    named = f"--master {master}" if master.startswith(REMOTE_SCHEME) else ""
    if environ.get(REMOTE_VARIABLE):
        named = REMOTE_VARIABLE
    if named:
        raise ConfigurationError(
            f"{named} names a server of Spark Connect, and Spanwire begins a session of its own here: name a master "
            f"such as local[*] or spark://host:7077, and unset {REMOTE_VARIABLE}"
        )


def java_of(spark: SparkSession, what: str) -> Any:
    """Return the Java of a session; ``what`` is the function in the error.

    Raises:
        ConfigurationError: the session is one of Spark Connect.
    """
    java = getattr(spark, "_jvm", None)
    if java is None:
        raise ConfigurationError(
            f"{what} needs a classic session: Spark Connect gives no access to the driver's Java; begin the session "
            "with a master"
        )
    return java


def prepare_java() -> None:
    """Set JAVA_HOME.

    Raises:
        ConfigurationError: there is no Java, or the environment names a server of Spark Connect.
    """
    refuse_connect("", os.environ)
    os.environ["JAVA_HOME"] = str(java_home(os.environ, bundled_java()))


def prepare_cluster_environment() -> None:
    """Set JAVA_HOME, PYSPARK_DRIVER_PYTHON and, if unset, PYSPARK_PYTHON for a session on a cluster.

    Machines of a cluster may have Python elsewhere, so a configured PYSPARK_PYTHON stays.

    Raises:
        ConfigurationError: there is no Java.
    """
    prepare_java()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def machine_cores() -> int:
    """Return the number of cores of this machine."""
    return min(os.cpu_count() or 1, MAX_CORES)


@contextmanager
def local_session(
    name: str,
    cores: int = 2,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    is_recording: bool = False,
) -> Iterator[SparkSession]:
    """Run a Spark session on this machine, with Java, interpreter and log prepared.

    Args:
        name: the name of the application.
        cores: the number of cores, 1 to 1,024.
        settings: settings of Spark, which override the defaults of this module.
        log: a file for Spark's own log; by default Spark's errors go to standard error.
        is_recording: let Java write its loaded classes to the user's cache when it ends, for quicker later starts.

    Raises:
        ConfigurationError: there is no Java, or the log cannot be written.
        ValueError: ``cores`` is out of range.
    """
    if not 1 <= cores <= MAX_CORES:
        raise ValueError(f"cores must lie between 1 and {MAX_CORES}, not {cores}")
    prepare_environment()
    package = Path(pyspark.__file__).parent
    python = worker_python(sys.executable, package, os.environ)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python  # for tasks and planning processes
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # by default Spark looks for the machine's public address
    config = {**DEFAULTS, "spark.sql.shuffle.partitions": str(cores), **(settings or {})}
    with shared_classes(os.environ, package, config, is_recording):
        session = start_session(SparkSession.builder.master(f"local[{cores}]").appName(name).config(map=config), log)
    try:
        choose_checkpoint_files(session)
        yield session
        stop_queries(session)
    finally:
        session.stop()


def stop_queries(session: SparkSession) -> None:
    """Stop the streaming queries that still run at the end of a session, with a warning.

    A program that forgot to wait would end without output, or with a stack of Java from a query that lost its session.
    A session that the program has stopped itself is left alone.
    """
    if getattr(session.sparkContext, "_jsc", None) is None:
        return
    running = session.streams.active
    for query in running:
        query.stop()
    if running:
        warnings.warn(
            f"the session ended {len(running)} streaming queries that still ran: let the program wait with "
            "query.awaitTermination()",
            stacklevel=4,  # the end of the block `with local_session(…)`
        )


def start_session(builder: SparkSession.Builder, log: Path | None) -> SparkSession:
    """Start a session with Spark's log in a file.

    Without ``log`` errors go to standard error. A log configuration of the user stays.
    """
    # Py4J logs every option at DEBUG, passwords included, and each closed connection at INFO. At ERROR it logs the
    # stack of a failed batch, which Spark logs as well.
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
    """Let checkpoints be written without child processes, unless the user configured the file manager."""
    if session.conf.get(CHECKPOINT_FILES, "") or session.sparkContext._jvm is None:
        return
    try:
        session.sparkContext._jvm.java.lang.Class.forName(PLAIN_FILES)
    except Py4JJavaError:  # the class has another name in this version of Spark
        return
    session.conf.set(CHECKPOINT_FILES, PLAIN_FILES)
