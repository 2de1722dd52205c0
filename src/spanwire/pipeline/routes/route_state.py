"""The state of a route on disk: Spark's checkpoint, staged messages, and the identity of the route.

STATE/ROUTE/route.json      the source, the run name in duplicate ids, and Spark's id of the query
STATE/ROUTE/checkpoint      Spark's checkpoint
STATE/ROUTE/staging         messages received from the broker and not yet committed by Spark
STATE/ROUTE/batches         kept rows of the current batch (`batch_rows`)
STATE/ROUTE/ledgers.json    the first batch of the ledger of each endpoint that commits once
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage.location import local_path, parse
from spanwire.pipeline.storage.state_format import DAMAGED, FORMAT, KEY, check_format
from spanwire.routes.model import BROKER, Route

RUN_DIGITS: Final = 12  # hexadecimal digits of the name of a run


@dataclass(frozen=True, slots=True)
class RouteState:
    """The directories of one route."""

    note: Path
    checkpoint: str
    staging: str
    ledgers: Path
    batches: Path

    def run_of(self, query: str) -> str:
        """Return the name of the run of a Spark query.

        The id of a query lasts as long as its checkpoint. Batches of another query begin at 0 again, and under the same
        name endpoints would see repetitions. The first query gets the name in ``route.json``.

        Raises:
            ConfigurationError: ``route.json`` is damaged.
            OSError: ``route.json`` cannot be written.
        """
        try:
            record = _record(self.note)
        except DAMAGED:
            raise ConfigurationError(
                f"spanwire: {self.note} is damaged or missing; it names the run of the route"
            ) from None
        if "query" not in record:
            write_note(self.note, {**record, "query": query})
        return (
            str(record["run"])
            if query == record.get("query", query)
            else sha256(query.encode()).hexdigest()[:RUN_DIGITS]
        )

    def first_batch(self, ledger: str, batch: int) -> int:
        """Return the first batch of a ledger; the present batch for a new ledger.

        So an endpoint added to a route later may begin late, while a lost ledger is still noticed.

        Raises:
            ConfigurationError: ``ledgers.json`` is damaged.
            OSError: ``ledgers.json`` cannot be written.
        """
        try:
            text = self.ledgers.read_text(encoding="utf-8") if self.ledgers.exists() else "{}"
            ledgers: dict[str, int] = dict(json.loads(text).items())
            if not all(type(first) is int for first in ledgers.values()):
                raise ValueError
        except DAMAGED:
            raise ConfigurationError(
                f"spanwire: {self.ledgers} is damaged; it has the first batches of ledgers. Delete it if no "
                "broker was replaced"
            ) from None
        if ledger not in ledgers:
            ledgers[ledger] = batch
            write_note(self.ledgers, ledgers)
        return ledgers[ledger]


def state_directory(text: str) -> Path:
    """Return the directory of a state, which must be on a local or mounted disk.

    Raises:
        ConfigurationError: the directory is on a file system that Spark needs a connector for.
    """
    path = local_path(text)
    if path is None:
        raise ConfigurationError(
            f"the state {parse(text)} would be on shared storage, where Spark's checkpoint needs a connector; name a "
            "directory on a disk that all machines mount with --state"
        )
    return path


def write_note(path: Path, content: dict[str, object] | dict[str, int] | dict[str, str]) -> None:
    """Write a file completely or not at all."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as note:
        note.write(json.dumps(content))
        note.flush()
        os.fsync(note.fileno())
    temporary.rename(path)


def source_text(route: Route) -> str:
    """Return the identity of a source, to which the state belongs."""
    options = route.source.options
    words = [route.source.destination, options.get("selector", ""), options.get("subscription", "")]
    return " ".join(word for word in words if word) if route.source.kind == BROKER else route.source.uri


def open_state(states: Path, route: Route) -> RouteState:
    """Return the state of a route, created if necessary.

    Raises:
        ConfigurationError: the state belongs to another source, has a newer format, or is damaged.
    """
    states = states.absolute() / route.name  # executors have working directories of their own
    note = states / "route.json"
    source = source_text(route)
    try:
        states.mkdir(parents=True, exist_ok=True, mode=0o700)
        if note.exists():
            record = _record(note)
        else:
            record = {KEY: FORMAT, "source": source, "run": uuid.uuid4().hex[:RUN_DIGITS]}
            write_note(note, record)
    except OSError as error:
        raise route.location.error(f"the state of the route in {states}: {error.strerror}") from None
    except DAMAGED:
        raise route.location.error(
            f"{note} is damaged; it names the source of the state; choose another --state"
        ) from None
    if record["source"] != source:
        raise route.location.error(
            f"the state in {states} belongs to the source {record['source']!r}, not {source!r}; choose another --state"
        )
    return RouteState(
        note, str(states / "checkpoint"), str(states / "staging"), states / "ledgers.json", states / "batches"
    )


def _record(note: Path) -> dict[str, object]:
    """Return the content of a note.

    Raises an error of `DAMAGED`, or `ConfigurationError` for a newer format, whatever else it changed.
    """
    record: dict[str, object] = json.loads(note.read_text(encoding="utf-8"))
    check_format(record, f"the state of the route in {note.parent}")
    if not all(isinstance(text, str) for text in (record["source"], record["run"], record.get("query", ""))):
        raise ValueError
    return record
