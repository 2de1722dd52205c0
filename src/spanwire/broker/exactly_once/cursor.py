"""A cursor: a named, durable reader of one queue or durable subscription, and its record in the store.

Each cursor has one record (`spanwire.broker.metadata.CURSORS`). The unit of the store that removes acknowledged
messages also replaces the record. After a crash each message is therefore in exactly one state: reserved, pending or
gone.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.exactly_once.reservations.reserved_messages import ReservedMessages, runs_of, sequences_of
from spanwire.broker.exactly_once.reservations.search import Search
from spanwire.broker.metadata import CURSORS, MetadataRecord
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import FENCED, NOT_HELD, ControlRefusal, refusal, unreadable
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination

MAX_NAME: Final = 200  # characters of the name of a cursor, a sink or a run

# steps of a message at a cursor, for an operator who follows messages
RESERVED: Final = "reserved"
READ: Final = "read"  # by a program; perhaps not for the first time
ACKNOWLEDGED: Final = "acknowledged"
RETURNED: Final = "returned"  # the cursor was released

NAME_MARKS: Final = "._-:/@#+"
MAX_PAST_RUNS: Final = 64  # ended runs of a cursor or sink; requests of these runs are refused


class Cursor:
    """State of one cursor.

    ``destination`` names the queue or durable subscription, ``source`` is the queue once opened. ``run`` is the current
    start of the program, ``epoch`` grows with each run. ``released`` is True after the end of the cursor.
    ``recovered`` has the reserved sequences that a restarted broker must find again.
    """

    def __init__(self, name: str, destination: Destination, shown: str, exclusive: bool) -> None:
        self.name: Final[str] = name
        self.destination: Final[Destination] = destination
        self.shown: Final[str] = shown
        self.exclusive = exclusive
        self.epoch = 0
        self.run = ""
        self.past_runs: list[str] = []
        self.user = ""
        self.released = False
        self.reserved: ReservedMessages = ReservedMessages(0)
        self.recovered: array[int] = array("q")
        self.source: Queue | None = None
        self.selector = ""  # of a queue's cursor, or of the durable subscription once opened
        self.search: Search | None = None  # in the queue, once it has begun

    @property
    def searches(self) -> bool:
        """True if the cursor chooses messages of its queue by a selector."""
        return self.destination.kind == QUEUE and self.selector != ""

    def waiting(self) -> int:
        """Return the number of messages behind those that are held; with a selector, of those not looked at yet."""
        if self.search is not None:
            return self.search.left
        return 0 if self.source is None else self.source.waiting()

    def check_epoch(self, epoch: int) -> None:
        """Raise `ControlRefusal` unless ``epoch`` is the current epoch."""
        if epoch == self.epoch and not self.released:
            return
        raise self.fenced(f"epoch {epoch}")

    def fenced(self, who: str) -> ControlRefusal:
        """Return the refusal for ``who``, an epoch or run at its end."""
        if self.released:
            why = "it was released, and its messages went back to the queue"
        else:
            why = f"run {self.run} has it now"
        return refusal(FENCED, f"cursor {self.name} is at epoch {self.epoch}, for {why}: {who} has ended")

    def check_range(self, start: int, end: int) -> None:
        """Raise `ControlRefusal` unless the numbers from ``start`` up to ``end`` are reserved."""
        reserved = self.reserved
        if reserved.first <= start <= end <= reserved.end:
            return
        what = f"numbers {start} to {end} of cursor {self.name}"
        if start < reserved.first:
            raise refusal(NOT_HELD, f"{what} are gone up to {reserved.first}: they were acknowledged or released")
        raise refusal(NOT_HELD, f"{what} are not reserved, what it holds ends at {reserved.end}")

    def metadata_record(self, without: int = 0) -> MetadataRecord:
        """Return the record for the store, as if the ``without`` oldest messages were no longer reserved."""
        reserved = self.reserved
        fields: dict[str, object] = {
            "kind": self.destination.kind,
            "destination": self.destination.name,
            "shown": self.shown,
            "exclusive": self.exclusive,
            "epoch": self.epoch,
            "run": self.run,
            "past": self.past_runs,
            "user": self.user,
            "released": self.released,
            "from": reserved.first + without,
            "held": runs_of(reserved.sequences[without:]),
        }
        if self.searches:
            fields["selector"] = self.selector
        return MetadataRecord(
            CURSORS, self.name.encode("utf-8"), json.dumps(fields, separators=(",", ":")).encode("ascii")
        )

    def row(self) -> dict[str, object]:
        """Return the cursor for an operator's list."""
        return {
            "cursor": self.name,
            "destination": self.shown,
            "epoch": self.epoch,
            "run": self.run,
            "exclusive": self.exclusive,
            "released": self.released,
            "from": self.reserved.first,
            "to": self.reserved.end,
            "user": self.user,
            "selector": self.selector,
        }


def decode_cursor(key: bytes, value: bytes) -> Cursor:
    """Return the cursor of a record.

    Raises:
        StoreError: ``value`` does not come from `Cursor.metadata_record`.
    """
    try:
        record = json.loads(value)
        kind: int = record["kind"]
        name: str = record["destination"]
        shown: str = record["shown"]
        exclusive: bool = record["exclusive"]
        runs: list[list[int]] = record["held"]
        first: int = record["from"]
        if kind not in (QUEUE, SUBSCRIPTION) or first < 0:
            raise ValueError("not a cursor's")
        cursor = Cursor(key.decode("utf-8"), Destination(kind, name), shown, exclusive)
        epoch: int = record["epoch"]
        run: str = record["run"]
        past: list[str] = record["past"]
        user: str = record["user"]
        released: bool = record["released"]
        cursor.epoch = epoch
        cursor.run = run
        cursor.past_runs = past
        cursor.user = user
        cursor.released = released
        selector: str = record.get("selector", "")
        cursor.selector = selector
        cursor.reserved = ReservedMessages(first)
        cursor.recovered = sequences_of(runs)
        return cursor
    except (ValueError, KeyError, TypeError, OverflowError):
        raise unreadable("a cursor") from None


def with_past(run: str, past_runs: list[str]) -> list[str]:
    """Return the ended runs, with ``run`` as the latest."""
    return [*past_runs, run][-MAX_PAST_RUNS:] if run else past_runs


def is_name(text: str) -> bool:
    """Return True if ``text`` may name a cursor, a sink or a run: ASCII letters, digits and `NAME_MARKS`."""
    if not 0 < len(text) <= MAX_NAME or not text.isascii():
        return False
    return all(character.isalnum() or character in NAME_MARKS for character in text)
