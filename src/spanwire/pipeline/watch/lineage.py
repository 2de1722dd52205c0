"""An OpenLineage event for each batch: job, run, and the destinations of input and output.

The event is the ``RunEvent`` of https://openlineage.io/spec/2-0-2/OpenLineage.json. Each batch is a separate run; the
parent is the run of the pipeline. A repeated batch has the id of the first attempt, so that a receiver counts the batch
once.
"""

from __future__ import annotations

import json
import logging
import queue
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any, Final
from uuid import NAMESPACE_OID, UUID, uuid5

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.watch.progress import batch_of, has_worked, rows_of

URL: Final = "OPENLINEAGE_URL"  # variables of all programs that send such events
ENDPOINT: Final = "OPENLINEAGE_ENDPOINT"
KEY: Final = "OPENLINEAGE_API_KEY"
NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"
DEFAULT_ENDPOINT: Final = "api/v1/lineage"
DEFAULT_NAMESPACE: Final = "spanwire"
PRODUCER: Final = "urn:spanwire"
SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
PARENT_SCHEMA: Final = "https://openlineage.io/spec/facets/1-0-1/ParentRunFacet.json#/$defs/ParentRunFacet"
INPUT_SCHEMA: Final = (
    "https://openlineage.io/spec/facets/1-0-0/InputStatisticsInputDatasetFacet.json"
    "#/$defs/InputStatisticsInputDatasetFacet"
)
MAX_WAITING: Final = 1_000  # events that wait for a slow receiver; more are dropped
TIMEOUT_S: Final = 10.0  # seconds for one event
END_S: Final = 5.0  # seconds in which events that wait are sent at the end

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dataset:
    """A destination at a broker, or files: the address without secrets, and the name there."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Job:
    """A route of one run of a pipeline."""

    namespace: str
    pipeline: str
    route: str
    run: UUID
    inputs: tuple[Dataset, ...]
    outputs: tuple[Dataset, ...]


def batch_event(job: Job, progress: Mapping[str, object], now_ms: int) -> dict[str, object] | None:
    """Return the event of a batch, or ``None`` for a poll without new messages."""
    if not has_worked(progress):
        return None
    batch = batch_of(progress)
    statistics = {"_producer": PRODUCER, "_schemaURL": INPUT_SCHEMA, "rowCount": rows_of(progress)}
    parent = {
        "_producer": PRODUCER,
        "_schemaURL": PARENT_SCHEMA,
        "run": {"runId": str(job.run)},
        "job": {"namespace": job.namespace, "name": job.pipeline},
    }
    query = progress.get("id") or job.run  # the id of the checkpoint is the same after a restart
    return {
        "eventType": "COMPLETE",
        "eventTime": datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "producer": PRODUCER,
        "schemaURL": SCHEMA,
        "job": {"namespace": job.namespace, "name": f"{job.pipeline}.{job.route}"},
        "run": {
            "runId": str(uuid5(NAMESPACE_OID, f"{query} {batch}")),
            "facets": {"parent": parent},
        },
        "inputs": [
            {"namespace": one.namespace, "name": one.name, "inputFacets": {"inputStatistics": statistics}}
            for one in job.inputs
        ],
        "outputs": [{"namespace": one.namespace, "name": one.name} for one in job.outputs],
    }


class LineageSender:
    """Sends events in a separate thread, so that a slow or unreachable receiver disturbs no route."""

    def __init__(self, post: Callable[[bytes], None]) -> None:
        """Send each event with ``post``, which raises `OSError` or `HTTPException`."""
        self._post: Final = post
        self._waiting: Final[queue.Queue[bytes | None]] = queue.Queue(MAX_WAITING)
        self.dropped = 0
        self._has_failed = False

    def send(self, event: Mapping[str, object]) -> None:
        """Send an event soon, or drop the event if too many events wait."""
        try:
            self._waiting.put_nowait(json.dumps(event).encode())
        except queue.Full:
            self._note_dropped("the receiver is too slow")

    def run(self) -> None:
        """Send events until `end`."""
        while (event := self._waiting.get()) is not None:
            try:
                self._post(event)
            except (OSError, HTTPException) as error:
                self._note_dropped(str(error))

    def end(self) -> None:
        """Let `run` return after the waiting events."""
        try:
            self._waiting.put(None, timeout=END_S)
        except queue.Full:
            return

    def _note_dropped(self, reason: str) -> None:
        self.dropped += 1
        if not self._has_failed:
            self._has_failed = True
            logger.warning("an OpenLineage event was not sent, and further ones may follow: %s", reason)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes an error of a redirect: the library would send the key to the other address, too."""

    def http_error_302(self, *_: Any) -> None:
        return None

    http_error_301 = http_error_303 = http_error_302  # type: ignore[assignment]
    http_error_307 = http_error_308 = http_error_302  # type: ignore[assignment]


def http_post(environ: Mapping[str, str]) -> Callable[[bytes], None] | None:
    """Return a function that posts an event to the receiver of the variables, or ``None`` without `URL`.

    Raises:
        ConfigurationError: the address does not begin with ``http:`` or ``https:``.
    """
    base = environ.get(URL, "")
    if not base:
        return None
    if not base.lower().startswith(("http://", "https://")):
        raise ConfigurationError(f"{URL} is no address of http: or https:")
    address = f"{base.rstrip('/')}/{environ.get(ENDPOINT, DEFAULT_ENDPOINT).lstrip('/')}"
    headers = {"Content-Type": "application/json"}
    if environ.get(KEY):
        headers["Authorization"] = f"Bearer {environ[KEY]}"

    opener = urllib.request.build_opener(_NoRedirects)

    def post(event: bytes) -> None:
        request = urllib.request.Request(address, event, headers, method="POST")
        with opener.open(request, timeout=TIMEOUT_S):
            return

    return post


@contextmanager
def sending_lineage(environ: Mapping[str, str]) -> Iterator[LineageSender | None]:
    """Send events inside the context, if the variables name a receiver."""
    post = http_post(environ)
    if post is None:
        yield None
        return
    sender = LineageSender(post)
    thread = threading.Thread(target=sender.run, name="spanwire-lineage", daemon=True)
    thread.start()
    try:
        yield sender
    finally:
        sender.end()
        thread.join(END_S)
