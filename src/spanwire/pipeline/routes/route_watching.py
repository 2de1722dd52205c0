"""Watches the routes of a file.

Publishes the status, sends OpenLineage events of batches, and notes their spans.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from spanwire.pipeline.routes.supervisor import Watch, failure_text
from spanwire.pipeline.watch.batch_traces import BatchTraces
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.broker_status import nameable, status_links
from spanwire.pipeline.watch.lineage import DEFAULT_NAMESPACE, NAMESPACE, Dataset, Job, sending_lineage
from spanwire.pipeline.watch.publisher import publishing
from spanwire.pipeline.watch.route_watch import RouteWatch
from spanwire.pipeline.watch.status import RouteStatus
from spanwire.routes.endpoints import FILE_FORMATS
from spanwire.routes.masking import without_secrets
from spanwire.routes.model import BROKER, Endpoint, Route, endpoints_of
from spanwire.routes.readers.parsing import RouteFile

FILES: Final = "file"


@contextmanager
def watching(
    file: RouteFile, stop: threading.Event, traces: BatchTraces | None = None
) -> Iterator[Callable[[Route], Watch]]:
    """Publish the status of the routes inside the context; an operator may set ``stop``.

    Raises:
        ConfigurationError: the variables name no receiver of OpenLineage events.
    """
    run = uuid.uuid4()
    board = new_board(file.file, run)
    for route in file.routes:
        board.add(route_status(route))
    endpoints = [endpoint for route in file.routes for endpoint in route_endpoints(route) if endpoint.kind == BROKER]
    links = status_links(endpoint.options for endpoint in endpoints)
    with sending_lineage(os.environ) as sender, publishing(board, links, stop.set, wall_ms, failure_text):
        yield lambda route: RouteWatch(board, route.name, wall_ms, sender, route_job(file, route, run), traces)


def new_board(name: str, run: uuid.UUID | None = None) -> StatusBoard:
    """Return an empty board of a new run, with the name of a file or directory."""
    return StatusBoard(nameable(Path(name).name), (run or uuid.uuid4()).hex, socket.gethostname(), wall_ms())


def route_status(route: Route) -> RouteStatus:
    """Return the status of a route before the start."""
    targets = [endpoint for endpoint in route_endpoints(route) if endpoint is not route.source]
    return RouteStatus(
        route.name,
        source=endpoint_text(route.source),
        targets=", ".join(dict.fromkeys(map(endpoint_text, targets))),
        cursor=route.source.options.get("cursor", ""),
    )


def route_endpoints(route: Route) -> list[Endpoint]:
    """Return source, targets and the endpoint of dead letters."""
    dead_letters = [] if route.dead_letters is None else [route.dead_letters]
    return [route.source, *endpoints_of(route.steps), *dead_letters]


def endpoint_text(endpoint: Endpoint) -> str:
    """Return the destination at a broker, or the format, without options and secrets."""
    return without_secrets(endpoint.destination) if endpoint.kind == BROKER else endpoint.format


def wall_ms() -> int:
    """Return the wall time in milliseconds."""
    return time.time_ns() // 1_000_000


def route_job(file: RouteFile, route: Route, run: uuid.UUID) -> Job:
    """Return a route as a job of OpenLineage."""
    targets = [endpoint for endpoint in route_endpoints(route) if endpoint is not route.source]
    return Job(
        os.environ.get(NAMESPACE, DEFAULT_NAMESPACE),
        Path(file.file).name,
        route.name,
        run,
        (dataset_of(route.source),),
        tuple(dict.fromkeys(map(dataset_of, targets))),
    )


def dataset_of(endpoint: Endpoint) -> Dataset:
    """Return an endpoint as a data set, without options and secrets."""
    if endpoint.kind == BROKER:
        return Dataset(without_secrets(endpoint.options.get("url", "").partition("?")[0]), endpoint.destination)
    namespace = FILES if endpoint.format in FILE_FORMATS else endpoint.format
    return Dataset(namespace, without_secrets(endpoint.destination))
