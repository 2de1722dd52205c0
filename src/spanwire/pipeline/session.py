"""A local Spark session that needs nothing prepared: finds Java, has the workers run this interpreter, stays on
loopback.

    with local_session("archive") as spark:
        spark.readStream.format("spanwire")…

Whoever has a session or a cluster uses that one; the data source needs nothing of this module.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from spanwire.pipeline.java import bundled_java, java_home

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
LOG_LEVEL: Final = "ERROR"


def prepare_environment() -> None:
    """Set JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON for a session that this process starts.

    Spark's workers would take whatever ``python3`` is on the path. Raises `ConfigurationError` when there is no Java.
    """
    os.environ["JAVA_HOME"] = str(java_home(os.environ, bundled_java()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


def machine_cores() -> int:
    """The cores of this machine."""
    return min(os.cpu_count() or 1, MAX_CORES)


@contextmanager
def local_session(name: str, cores: int = 2, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session with that many cores of this machine; ``settings`` go before the defaults of this module.

    Raises `ConfigurationError` when there is no Java.
    """
    if not 1 <= cores <= MAX_CORES:
        raise ValueError(f"cores must lie between 1 and {MAX_CORES}, not {cores}")
    prepare_environment()
    logging.getLogger("py4j").setLevel(logging.INFO)  # at DEBUG it writes down every option, a password among them
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    chosen = {**DEFAULTS, "spark.sql.shuffle.partitions": str(cores), **(settings or {})}
    for key, value in chosen.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(LOG_LEVEL)
    try:
        yield session
    finally:
        session.stop()
