"""What a route keeps on disk: Spark's checkpoint, staged messages, and which route it is.

STATE/ROUTE/route.json    the source, a name for the run that goes into duplicate ids, and Spark's id of its query
STATE/ROUTE/checkpoint    Spark's
STATE/ROUTE/staging       messages that the broker has given and Spark has not committed yet
STATE/ROUTE/batches       rows of the batch at hand that several endpoints get (`batch_rows`)
STATE/ROUTE/ledgers.json  the batch that begins the ledger of each endpoint that commits once, one of several
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
from spanwire.routes.model import BROKER, Route

RUN_DIGITS: Final = 12  # of the name of a run


@dataclass(frozen=True, slots=True)
class RouteState:
    """The directories of one route."""

    note: Path
    checkpoint: str
    staging: str
    ledgers: Path
    batches: Path

    def run_of(self, query: str) -> str:
        """The name of the run that a query of Spark is. Its id lasts as long as its checkpoint; the batches of another
        one begin at 0 again, and under the same name they would pass for repetitions of those that are through. The
        first query that asks has the name in the note. Raises `ConfigurationError` when the note is damaged, `OSError`
        when it cannot be written.
        """
        try:
            record = json.loads(self.note.read_text(encoding="utf-8"))
            run, first = str(record["run"]), str(record.get("query", query))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationError(f"spanwire: {self.note} is damaged or gone; it says which run this is") from None
        if "query" not in record:
            write_note(self.note, {**record, "query": query})
        return run if query == first else sha256(query.encode()).hexdigest()[:RUN_DIGITS]

    def first_batch(self, ledger: str, batch: int) -> int:
        """The batch that begins a ledger: this one, when the ledger was never asked for before. An endpoint that is new
        to a route may so begin late, and one whose ledger is lost is still found out. Raises `ConfigurationError` when
        the note is damaged, `OSError` when it cannot be written.
        """
        try:
            text = self.ledgers.read_text(encoding="utf-8") if self.ledgers.exists() else "{}"
            ledgers = {str(name): int(first) for name, first in json.loads(text).items()}
        except (ValueError, TypeError, AttributeError):
            raise ConfigurationError(
                f"spanwire: {self.ledgers} is damaged; it says where ledgers begin. Delete it if no broker was changed"
            ) from None
        if ledger not in ledgers:
            ledgers[ledger] = batch
            write_note(self.ledgers, ledgers)
        return ledgers[ledger]


def write_note(path: Path, content: dict[str, object] | dict[str, int] | dict[str, str]) -> None:
    """All of it, or what was there before."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as note:
        note.write(json.dumps(content))
        note.flush()
        os.fsync(note.fileno())
    temporary.rename(path)


def source_text(route: Route) -> str:
    """What makes a source the one that the state belongs to."""
    options = route.source.options
    words = [route.source.destination, options.get("selector", ""), options.get("subscription", "")]
    return " ".join(word for word in words if word) if route.source.kind == BROKER else route.source.uri


def open_state(states: Path, route: Route) -> RouteState:
    """The state of a route, made if need be. Raises `ConfigurationError` when it belongs to another source."""
    states = states.absolute() / route.name  # executors have working directories of their own
    note = states / "route.json"
    source = source_text(route)
    try:
        states.mkdir(parents=True, exist_ok=True, mode=0o700)
        if note.exists():
            record = json.loads(note.read_text(encoding="utf-8"))
        else:
            record = {"source": source, "run": uuid.uuid4().hex[:RUN_DIGITS]}
            write_note(note, record)
        recorded, _ = str(record["source"]), str(record["run"])
    except OSError as error:
        raise route.location.error(f"the state of the route in {states}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise route.location.error(f"{note} is damaged; it says whose state lies beside it") from None
    if recorded != source:
        raise route.location.error(
            f"the state in {states} belongs to the source {recorded!r}, not {source!r}; choose another --state"
        )
    return RouteState(
        note, str(states / "checkpoint"), str(states / "staging"), states / "ledgers.json", states / "batches"
    )
