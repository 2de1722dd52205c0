"""Runs a route file on a session of its own, for ``spanwire pipeline run``."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.executors import prepare_executors
from spanwire.pipeline.routes.functions import TextFunction, load_functions
from spanwire.pipeline.routes.query import AVAILABLE_NOW, RouteQuery
from spanwire.pipeline.routes.route_state import open_state, state_directory
from spanwire.pipeline.routes.route_watching import watching
from spanwire.pipeline.routes.supervisor import (
    JAVA_LOST,
    UNWATCHED,
    RouteEvent,
    SupervisedRoute,
    Watch,
    failure_text,
    run_all,
)
from spanwire.pipeline.session import (
    local_session,
    machine_cores,
    prepare_cluster_environment,
    refuse_connect,
    start_session,
)
from spanwire.pipeline.spark.spark_log import NAME, log_of_commands
from spanwire.pipeline.watch.batch_traces import tracing_batches
from spanwire.pipeline.watch.broker_status import nameable
from spanwire.routes.model import Route
from spanwire.routes.readers.parsing import RouteFile

MORE_MEMORY: Final = "4g"  # Spark's default is 1g; several messages of 99 MiB fit into 4g
END_S: Final = 5.0  # seconds; a Java process closes its connections before it ends
CLUSTER: Final[dict[str, str]] = {
    "spark.ui.showConsoleProgress": "false",  # the progress would mix with the command's output
    "spark.sql.session.timeZone": "UTC",  # the days of an archive, as in local sessions
}
LOCAL: Final = re.compile(r"local(?:\[(\*|[0-9]{1,4})\])?")


@contextmanager
def session_on(
    master: str,
    name: str,
    settings: Mapping[str, str] | None = None,
    log: Path | None = None,
    is_recording: bool = False,
) -> Iterator[SparkSession]:
    """Run a session on this machine (``local[*]``, ``local[2]``) or on a cluster.

    ``settings`` apply on this machine only. Spark's own log goes to the file ``log``, by default to the log of all
    commands. ``is_recording`` is for a session with the classes of a stream, as in `local_session`.

    Raises:
        ConfigurationError: there is no Java, or the Java process ended.
    """
    file = log or log_of_commands(os.environ)
    with watch_java(master), _session(master, name, settings, file, is_recording) as session:
        yield session


@contextmanager
def watch_java(master: str, has_ended: Callable[[], bool] | None = None) -> Iterator[None]:
    """Report the end of Spark's Java process in one line. Large messages may exhaust its memory.

    Other lost connections, such as a closed standard output, are raised unchanged.
    """
    logger = logging.getLogger()
    logger.addFilter(is_not_py4j)
    try:
        yield
    except JAVA_LOST as error:
        if not (has_ended or java_has_ended)():
            if isinstance(error, Py4JNetworkError):
                raise ConfigurationError(f"Spark on {master}: its Java process does not answer; start again") from None
            raise
        raise ConfigurationError(
            f"Spark on {master}: its Java process has ended, possibly out of memory; start again. "
            f'For more memory: export PYSPARK_SUBMIT_ARGS="--driver-memory {MORE_MEMORY} pyspark-shell"'
        ) from None
    finally:
        logger.removeFilter(is_not_py4j)


def is_not_py4j(record: logging.LogRecord) -> bool:
    """Return False for records of Py4J.

    Py4J logs a stack for each lost connection and raises the same error.
    """
    return Path(record.pathname).parent.name != "py4j"


def java_has_ended() -> bool:
    """Return True if the Java process of the session has ended."""
    gateway = SparkContext._gateway
    if gateway is None:  # Java ended during its start, because nothing else connects before there is a session
        return True
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        return has_ended_within(process)
    try:  # another program has started Java
        gateway.jvm.java.lang.System.nanoTime()
    except (OSError, Py4JError):
        return True
    return False


def has_ended_within(process: subprocess.Popen[bytes], within_s: float = END_S) -> bool:
    """Return True if a process has ended or ends within some seconds.

    Its connections end a little earlier.
    """
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _session(
    master: str, name: str, settings: Mapping[str, str] | None, log: Path | None, is_recording: bool
) -> AbstractContextManager[SparkSession]:
    refuse_connect(master, {})
    match = LOCAL.fullmatch(master)
    if match is None:
        return _cluster_session(master, name, log)
    cores = 1 if match[1] is None else machine_cores() if match[1] == "*" else int(match[1])
    if cores < 1:
        raise ConfigurationError(f"--master {master}: a session needs at least one core")
    return local_session(name, cores, settings, log, is_recording)


@contextmanager
def _cluster_session(master: str, name: str, log: Path | None) -> Iterator[SparkSession]:
    prepare_cluster_environment()
    session = start_session(SparkSession.builder.master(master).appName(name).config(map=CLUSTER), log)
    try:
        prepare_executors(session)
        yield session
    finally:
        session.stop()


def run_routes(
    spark: SparkSession,
    file: RouteFile,
    state: Path,
    trigger: str,
    functions: Mapping[tuple[str, str], TextFunction],
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
    watch_of: Callable[[Route], Watch] = lambda _: UNWATCHED,
    is_traced: bool = False,
) -> bool:
    """Run all routes to the end or until ``stop`` is set; return False after a route has failed for good.

    With ``is_traced`` the reports of batches have the contexts of messages.

    Raises:
        ConfigurationError: a route is faulty before its first batch.
    """
    if trigger == AVAILABLE_NOW:
        check_durable(file)
    routes = [
        SupervisedRoute(
            route.name,
            RouteQuery(spark, route, open_state(state, route), functions, trigger, is_traced),
            route.patience,
            tell,
            watch_of(route),
        )
        for route in file.routes
    ]
    return run_all(routes, stop, time.monotonic)


def check_durable(file: RouteFile) -> None:
    """Check that each source has messages from before the run.

    Raises:
        ConfigurationError: a non-durable subscription would end without a message.
    """
    for route in file.routes:
        if route.source.options.get("subscriptionDurable", "").lower() == "false":
            raise route.source.location.error(
                f"{route.source.destination} stores no messages for a non-durable subscription, so available-now "
                "would end without a message; name a subscription, or run the route with --trigger interval"
            )


def run(
    master: str,
    file: RouteFile,
    state: str,
    trigger: str,
    functions: Path | None,
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
) -> bool:
    """Run all routes on a session of their own; return False after a route has failed for good.

    Raises:
        ConfigurationError: a route is faulty, Spark does not start or has ended, or traces are refused.
    """
    loaded = load_functions(file.functions(), functions)  # report errors before the slow start of Spark
    directory = state_directory(state)
    name = f"spanwire pipeline {Path(file.file).name}"
    try:
        with (
            tracing_batches(os.environ, nameable(Path(file.file).name)) as traces,
            watching(file, stop, traces) as watch_of,
            session_on(master, name, log=directory / NAME, is_recording=True) as spark,
        ):
            return run_routes(spark, file, directory, trigger, loaded, tell, stop, watch_of, traces is not None)
    except (PySparkException, Py4JError) as error:
        raise ConfigurationError(f"Spark on {master}: {failure_text(error)}") from None
