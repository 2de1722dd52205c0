"""A cursor: a named, durable reader of one queue or durable subscription, and what the store keeps of it.

The store has a fact for each (`spanwire.broker.metadata.CURSORS`, under its name), replaced in the same unit that
removes what it acknowledges; so after a crash a message is held, or waits, or is gone, and never two of these.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.exactly_once.reserved_messages import HeldMessages, runs_of, sequences_of
from spanwire.broker.metadata import CURSORS, Fact
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import FENCED, NOT_HELD, ControlRefusal, refusal, unreadable
from spanwire.model.destination import QUEUE, SUBSCRIPTION, Destination

MAX_NAME: Final = 200  # characters of a cursor's, a sink's or a run's name
NAME_MARKS: Final = "._-:/@#+"
MAX_PAST_RUNS: Final = 64  # of a cursor or sink that are remembered, so that none of them comes back


class Cursor:
    """One cursor. ``destination`` is its queue or the line of its subscription, ``home`` that, once it is there.

    ``run`` is the start of the program that has it, ``epoch`` grows with each; ``released`` says that an operator ended
    it. ``kept`` are the sequences that a restarted broker has to find again.
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
        self.held: HeldMessages = HeldMessages(0)
        self.kept: array[int] = array("q")
        self.home: Queue | None = None

    def check_epoch(self, epoch: int) -> None:
        """Raises `ControlRefusal` unless ``epoch`` is that of now."""
        if epoch == self.epoch and not self.released:
            return
        raise self.fenced(f"epoch {epoch}")

    def fenced(self, who: str) -> ControlRefusal:
        """What is said to ``who`` comes too late."""
        if self.released:
            why = "it was released, and what it held went back into the line"
        else:
            why = f"run {self.run} has it now"
        return refusal(FENCED, f"cursor {self.name} is at epoch {self.epoch}, for {why}: {who} has ended")

    def check_range(self, start: int, end: int) -> None:
        """Raises `ControlRefusal` unless it holds the numbers from ``start`` up to ``end``."""
        held = self.held
        if held.first <= start <= end <= held.end:
            return
        what = f"numbers {start} to {end} of cursor {self.name}"
        if start < held.first:
            raise refusal(NOT_HELD, f"{what} are gone up to {held.first}: they were acknowledged or released")
        raise refusal(NOT_HELD, f"{what} are not reserved, what it holds ends at {held.end}")

    def fact(self, without: int = 0) -> Fact:
        """What the store is to keep, as if ``without`` messages less were held, from the oldest."""
        held = self.held
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
            "from": held.first + without,
            "held": runs_of(held.sequences[without:]),
        }
        return Fact(CURSORS, self.name.encode("utf-8"), json.dumps(fields, separators=(",", ":")).encode("ascii"))

    def row(self) -> dict[str, object]:
        """As an operator sees it."""
        return {
            "cursor": self.name,
            "destination": self.shown,
            "epoch": self.epoch,
            "run": self.run,
            "exclusive": self.exclusive,
            "released": self.released,
            "from": self.held.first,
            "to": self.held.end,
            "user": self.user,
        }


def decode_cursor(key: bytes, value: bytes) -> Cursor:
    """Raises `StoreError` when ``value`` is not what `Cursor.fact` gave."""
    try:
        found = json.loads(value)
        kind: int = found["kind"]
        name: str = found["destination"]
        shown: str = found["shown"]
        exclusive: bool = found["exclusive"]
        runs: list[list[int]] = found["held"]
        first: int = found["from"]
        if kind not in (QUEUE, SUBSCRIPTION) or first < 0:
            raise ValueError("not a cursor's")
        cursor = Cursor(key.decode("utf-8"), Destination(kind, name), shown, exclusive)
        epoch: int = found["epoch"]
        run: str = found["run"]
        past: list[str] = found["past"]
        user: str = found["user"]
        released: bool = found["released"]
        cursor.epoch = epoch
        cursor.run = run
        cursor.past_runs = past
        cursor.user = user
        cursor.released = released
        cursor.held = HeldMessages(first)
        cursor.kept = sequences_of(runs)
        return cursor
    except (ValueError, KeyError, TypeError, OverflowError):
        raise unreadable("a cursor") from None


def with_past(run: str, past_runs: list[str]) -> list[str]:
    """The runs that have ended, when ``run`` does so as well."""
    return [*past_runs, run][-MAX_PAST_RUNS:] if run else past_runs


def is_name(text: str) -> bool:
    """Whether ``text`` may name a cursor, a sink or a run: letters, digits and `NAME_MARKS` of ASCII."""
    if not 0 < len(text) <= MAX_NAME or not text.isascii():
        return False
    return all(character.isalnum() or character in NAME_MARKS for character in text)
