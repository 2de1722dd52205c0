"""``spanwire pipeline run``: a route file on a session of its own."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.routes.functions import TextFunction, load_functions
from spanwire.pipeline.routes.parsing import RouteFile
from spanwire.pipeline.routes.query import RouteQuery
from spanwire.pipeline.routes.route_state import open_state
from spanwire.pipeline.routes.supervisor import News, Supervised, run_all, told
from spanwire.pipeline.session import LOG_LEVEL, local_session, machine_cores, prepare_environment

LOCAL: Final = re.compile(r"local(?:\[(\*|[0-9]{1,4})\])?")


def session_on(
    master: str, name: str, settings: Mapping[str, str] | None = None
) -> AbstractContextManager[SparkSession]:
    """A session on this machine (``local[*]``, ``local[2]``), with these ``settings``, or on a cluster."""
    match = LOCAL.fullmatch(master)
    if match is None:
        return _cluster_session(master, name)
    cores = 1 if match[1] is None else machine_cores() if match[1] == "*" else int(match[1])
    if cores < 1:
        raise ConfigurationError(f"--master {master}: a session needs a core at least")
    return local_session(name, cores, settings)


@contextmanager
def _cluster_session(master: str, name: str) -> Iterator[SparkSession]:
    prepare_environment()
    session = SparkSession.builder.master(master).appName(name).getOrCreate()
    session.sparkContext.setLogLevel(LOG_LEVEL)
    try:
        yield session
    finally:
        session.stop()


def run_routes(
    spark: SparkSession,
    file: RouteFile,
    state: Path,
    trigger: str,
    functions: Mapping[tuple[str, str], TextFunction],
    tell: Callable[[News], None],
    stop: threading.Event,
) -> bool:
    """Run all routes until they have ended or ``stop`` is set; whether none has failed for good.

    Raises `ConfigurationError` for what can be known before the first batch.
    """
    routes = [
        Supervised(
            route.name, RouteQuery(spark, route, open_state(state, route), functions, trigger), route.patience, tell
        )
        for route in file.routes
    ]
    return run_all(routes, stop, time.monotonic)


def run(
    master: str,
    file: RouteFile,
    state: Path,
    trigger: str,
    functions: Path | None,
    tell: Callable[[News], None],
    stop: threading.Event,
) -> bool:
    """The same on a session of its own. Raises `ConfigurationError` also when Spark does not begin, or is gone."""
    loaded = load_functions(file.functions(), functions)  # before Spark takes its time
    try:
        with session_on(master, f"spanwire pipeline {Path(file.file).name}") as spark:
            return run_routes(spark, file, state, trigger, loaded, tell, stop)
    except (PySparkException, Py4JError) as error:
        raise ConfigurationError(f"Spark on {master}: {told(error)}") from None
