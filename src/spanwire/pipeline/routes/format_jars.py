"""Explains failures of formats with jars of the user: missing jars, or jars for another Spark.

Spark reports a missing jar by the name of the format alone, and an unsuitable jar by the signature of a method. Delta
asks for its settings in several lines. Other failures are not changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from spanwire.routes.endpoints import FILE_FORMATS
from spanwire.routes.model import BROKER, Endpoint

# The newest tested packages, as Spark's --packages accepts them, with the newest Spark for each. The whole table is in
# docs/guides/routes/kafka-delta-iceberg.md.
JARS: Final = {
    "delta": ("io.delta:delta-spark_4.2_2.13:4.4.0", (4, 2)),
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", (4, 1)),
    "kafka": ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", (4, 3)),
}
ABSENT: Final = ("[DATA_SOURCE_NOT_FOUND]", "[KAFKA_DATA_SOURCE_NOT_ENABLED]")
UNSET: Final = "[DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG]"
DELTA_SETTINGS: Final = (
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
# Errors of Java for classes that were compiled against other versions.
LINKAGE: Final = re.compile(
    r"java\.lang\.(NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError|AbstractMethodError"
    r"|IncompatibleClassChangeError|IllegalAccessError)\b(?:: (.*))?"
)
MAX_SHOWN: Final = 120  # characters of a signature; the hint must fit into the line


@contextmanager
def report_missing_jars(endpoint: Endpoint) -> Iterator[None]:
    """Raise `ConfigurationError` at the endpoint for a missing or unsuitable jar, or missing settings."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if endpoint.kind == BROKER or endpoint.format in FILE_FORMATS:  # these formats need no jars
            raise
        fault = jar_fault(endpoint.format, str(error), pyspark.__version__)
        if fault is None:
            raise
        raise endpoint.location.error(fault) from None


def jar_fault(name: str, failure: str, version: str) -> str | None:
    """Return the explanation of a failure in this version of Spark, or ``None`` if no jar is the cause."""
    if any(mark in failure for mark in ABSENT):
        return missing_format(name, version)
    if UNSET in failure:
        return f"Delta lacks its settings; in PYSPARK_SUBMIT_ARGS, before pyspark-shell, write {DELTA_SETTINGS}"
    match = LINKAGE.search(failure)
    if match is None:
        return None
    problem = match[1] if match[2] is None else f"{match[1]}: {match[2][:MAX_SHOWN]}"
    return (
        f"a jar of the format {name[:MAX_SHOWN]} was built for another version of Spark than {version}; take one for "
        f"it ({problem})"
    )


def missing_format(name: str, version: str) -> str:
    """Return the explanation of a format that Spark does not have."""
    missing, argument = "the jar", "--jars /path/of/its.jar"
    if name in JARS:
        jar, newest = JARS[name]
        if tuple(map(int, version.split(".")[:2])) > newest:
            missing = f"a jar for it (that of {jar} works up to Spark {newest[0]}.{newest[1]})"
        else:
            argument = f"--packages {jar}"
    return (
        f"Spark {version} has no format {name[:MAX_SHOWN]}; give it {missing} before it starts: "
        f'export PYSPARK_SUBMIT_ARGS="{argument} pyspark-shell"'
    )
