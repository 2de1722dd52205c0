"""Prepares a cluster for the data source, and checks the interpreters and packages of the executors.

    prepare_executors(spark)

On a cluster, the commands of ``spanwire pipeline`` call `prepare_executors`. A program of your own calls the function
once, before the first stream.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.datasource.source import SpanwireDataSource
from spanwire.pipeline.session import java_of

# Packages that a task imports, with those that a zip of Spanwire lacks; Spark itself brings PySpark.
NEEDED: Final = ("spanwire", "librt", "mypy_extensions", "pyarrow")
LOOK: Final = f"import importlib.util as u; print(*[name for name in {NEEDED} if u.find_spec(name) is None])"
LOOK_TIMEOUT_S: Final = 60.0  # seconds; an interpreter starts from a network's directory
MAX_TASKS: Final = 64  # tasks of the check, one per core at most; bounds its time on a large cluster
MAX_CAUSE: Final = 300  # characters of Spark's error
CAUSES: Final = (
    re.compile(r"(Python in worker has different version: \S+ than that in driver: [^\s,]+)"),
    re.compile(r'(Cannot run program "[^"]*").*?error[=:] ?\d+,? \(?([^)\n]*)'),
)
REMEDY: Final = (
    "set PYSPARK_PYTHON to an interpreter that this machine and every machine of the cluster has, with Spanwire and "
    "the packages of its extra 'spark'"
)


def prepare_executors(spark: SparkSession) -> None:
    """Check the Python of the executors, and run the data source with the files of ``--py-files``.

    Spark finds the data source also without this function. But then executors read and write rows with
    PYSPARK_DRIVER_PYTHON, the Python of the program, and ignore ``--py-files``.

    Args:
        spark: the session of the cluster.

    Raises:
        ConfigurationError: the Python of this machine or of an executor cannot run the data source.
    """
    check_executors(spark)
    spark.dataSource.register(SpanwireDataSource)


def check_executors(spark: SparkSession) -> None:
    """Run short tasks on the executors, to check their Python.

    Args:
        spark: the session of the cluster.

    Raises:
        ConfigurationError: the Python of this machine or of an executor cannot run the data source.
    """
    java_of(spark, "prepare_executors")
    context = spark.sparkContext
    # Java starts the processes that receive and commit. It does not know the files of --py-files.
    path = context._jvm.java.lang.System.getenv("PYTHONPATH")
    check_machine(context.pythonExec, {**os.environ, "PYTHONPATH": path or ""})
    tasks = min(max(context.defaultParallelism, 1), MAX_TASKS)
    try:
        probes = context.parallelize(range(tasks), tasks).map(probe).collect()
    except (PySparkException, Py4JError) as error:
        raise ConfigurationError(
            f"the executors cannot run {context.pythonExec} as this program does: {cause_of(str(error))}; {REMEDY}"
        ) from None
    for host, program, missing in probes:
        if missing:
            raise ConfigurationError(f"the executors on {host} run {program}, which has no {missing}; {REMEDY}")


def check_machine(program: str, environment: Mapping[str, str]) -> None:
    """Check the interpreter with which this machine receives messages and commits batches.

    Raises:
        ConfigurationError: the interpreter does not run, or a package is missing.
    """
    try:
        look = subprocess.run(
            [program, "-c", LOOK], env=environment, capture_output=True, text=True, timeout=LOOK_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigurationError(
            f"this machine cannot run {program}, with which Spark receives messages and commits batches here: {error}; "
            f"{REMEDY}"
        ) from None
    missing = " and no ".join(look.stdout.split())
    if missing:
        raise ConfigurationError(
            f"this machine receives messages and commits batches with {program}, which has no {missing}; {REMEDY}. "
            "With --py-files, set PYTHONPATH to the zip as well"
        )


def cause_of(text: str) -> str:
    """Return the part of Spark's error that explains the problem with an interpreter."""
    for cause in CAUSES:
        match = cause.search(text)
        if match is not None:
            return ": ".join(match.groups())
    return text.strip().splitlines()[0][:MAX_CAUSE] if text.strip() else "no reason is given"


def probe(_: int) -> tuple[str, str, str]:
    """Return the machine, the interpreter and the missing packages; sent to executors by value."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return socket.gethostname(), sys.executable, " and no ".join(missing)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # an executor may not have this package
