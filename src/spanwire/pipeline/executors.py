"""Checks the Python of a cluster's executors, which needs the packages of the data source.

    check_executors(spark)

The commands of ``spanwire pipeline`` call it whenever they run on a cluster.

A program that uses a cluster calls the check once, before it starts a stream:
"""

from __future__ import annotations

import importlib.util
import re
import socket
import sys
from typing import Final

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError

NEEDED: Final = ("spanwire", "pyarrow")  # packages that a task imports; Spark itself brings PySpark
MAX_TASKS: Final = 64  # tasks of the check, one per core at most; bounds its time on a large cluster
MAX_CAUSE: Final = 300  # characters of Spark's error
CAUSES: Final = (
    re.compile(r"(Python in worker has different version: \S+ than that in driver: [^\s,]+)"),
    re.compile(r'(Cannot run program "[^"]*").*?error[=:] ?\d+,? \(?([^)\n]*)'),
)
REMEDY: Final = (
    "set PYSPARK_PYTHON to an interpreter that every machine of the cluster has, with Spanwire and the packages of its "
    "extra 'spark'"
)


def check_executors(spark: SparkSession) -> None:
    """Run short tasks on the executors, to check their Python.

    Args:
        spark: the session of the cluster.

    Raises:
        ConfigurationError: the Python of an executor cannot run the data source.
    """
    context = spark.sparkContext
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


def cause_of(text: str) -> str:
    """Return the part of Spark's error that explains the problem with an interpreter."""
    for cause in CAUSES:
        match = cause.search(text)
        if match is not None:
            return ": ".join(match.groups())
    return text.strip().splitlines()[0][:MAX_CAUSE] if text.strip() else "no reason is given"


def probe(_: int) -> tuple[str, str, str]:
    """Return the machine, the interpreter and its missing packages; sent to executors by value."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return socket.gethostname(), sys.executable, " and no ".join(missing)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # an executor may not have this package
