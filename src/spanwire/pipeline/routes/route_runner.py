"""``spanwire pipeline run``: a route file on a session of its own."""

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
from spanwire.pipeline.executors import check_executors
from spanwire.pipeline.routes.functions import TextFunction, load_functions
from spanwire.pipeline.routes.query import AVAILABLE_NOW, RouteQuery
from spanwire.pipeline.routes.route_state import open_state
from spanwire.pipeline.routes.supervisor import JAVA_LOST, RouteEvent, SupervisedRoute, failure_text, run_all
from spanwire.pipeline.session import local_session, machine_cores, prepare_cluster_environment, start_session
from spanwire.pipeline.spark.spark_log import NAME, log_of_commands
from spanwire.routes.parsing import RouteFile

MORE_MEMORY: Final = "4g"  # Spark takes 1g; some messages of 99 MiB at a time fit into this
END_S: Final = 5.0  # from the last word of a Java process that ends until it has ended
CLUSTER: Final[dict[str, str]] = {
    "spark.ui.showConsoleProgress": "false",  # it would stand between the lines of the command
    "spark.sql.session.timeZone": "UTC",  # as on this machine: the days of an archive
}
LOCAL: Final = re.compile(r"local(?:\[(\*|[0-9]{1,4})\])?")


@contextmanager
def session_on(
    master: str, name: str, settings: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[SparkSession]:
    """A session on this machine (``local[*]``, ``local[2]``), with these ``settings``, or on a cluster. Spark's own log
    is the file ``log``, or that of all commands. Raises `ConfigurationError` when there is no Java, or it ends before
    the session.
    """
    with watch_java(master), _session(master, name, settings, log or log_of_commands(os.environ)) as session:
        yield session


@contextmanager
def watch_java(master: str, has_ended: Callable[[], bool] | None = None) -> Iterator[None]:
    """Tell the end of Spark's Java process in one line, whoever notices it first. Large messages take its memory.

    Another connection that is lost meanwhile, such as a closed standard output, is none of its business.
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
            f"Spark on {master}: its Java process has ended, maybe for want of memory; start again. "
            f'For more memory: export PYSPARK_SUBMIT_ARGS="--driver-memory {MORE_MEMORY} pyspark-shell"'
        ) from None
    finally:
        logger.removeFilter(is_not_py4j)


def is_not_py4j(record: logging.LogRecord) -> bool:
    """Py4J writes a stack into the root log for a connection that it loses, and raises the same."""
    return Path(record.pathname).parent.name != "py4j"


def java_has_ended() -> bool:
    """Whether the Java process that this one began to talk to is no more."""
    gateway = SparkContext._gateway
    if gateway is None:  # it went while it was about to begin: nothing else is connected before a session is there
        return True
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is not None:
        return has_ended_within(process)
    try:  # somebody else has started it
        gateway.jvm.java.lang.System.nanoTime()
    except (OSError, Py4JError):
        return True
    return False


def has_ended_within(process: subprocess.Popen[bytes], within_s: float = END_S) -> bool:
    """Whether a process has ended, or does within some seconds: its connections end a little before it."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _session(
    master: str, name: str, settings: Mapping[str, str] | None, log: Path | None
) -> AbstractContextManager[SparkSession]:
    match = LOCAL.fullmatch(master)
    if match is None:
        return _cluster_session(master, name, log)
    cores = 1 if match[1] is None else machine_cores() if match[1] == "*" else int(match[1])
    if cores < 1:
        raise ConfigurationError(f"--master {master}: a session needs a core at least")
    return local_session(name, cores, settings, log)


@contextmanager
def _cluster_session(master: str, name: str, log: Path | None) -> Iterator[SparkSession]:
    prepare_cluster_environment()
    session = start_session(SparkSession.builder.master(master).appName(name).config(map=CLUSTER), log)
    try:
        check_executors(session)
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
) -> bool:
    """Run all routes until they have ended or ``stop`` is set; whether none has failed for good.

    Raises `ConfigurationError` for what can be known before the first batch.
    """
    if trigger == AVAILABLE_NOW:
        check_durable(file)
    routes = [
        SupervisedRoute(
            route.name, RouteQuery(spark, route, open_state(state, route), functions, trigger), route.patience, tell
        )
        for route in file.routes
    ]
    return run_all(routes, stop, time.monotonic)


def check_durable(file: RouteFile) -> None:
    """Raise `ConfigurationError` for a source that has nothing when a run begins, where the run is to end with that."""
    for route in file.routes:
        if route.source.options.get("subscriptionDurable", "").lower() == "false":
            raise route.source.location.error(
                f"{route.source.destination} keeps nothing for a subscription that is not durable, so available-now "
                "would end without a message; name a subscription, or run it with --trigger interval"
            )


def run(
    master: str,
    file: RouteFile,
    state: Path,
    trigger: str,
    functions: Path | None,
    tell: Callable[[RouteEvent], None],
    stop: threading.Event,
) -> bool:
    """The same on a session of its own. Raises `ConfigurationError` also when Spark does not begin, or is gone."""
    loaded = load_functions(file.functions(), functions)  # before Spark takes its time
    try:
        with session_on(master, f"spanwire pipeline {Path(file.file).name}", log=state / NAME) as spark:
            return run_routes(spark, file, state, trigger, loaded, tell, stop)
    except (PySparkException, Py4JError) as error:
        raise ConfigurationError(f"Spark on {master}: {failure_text(error)}") from None
