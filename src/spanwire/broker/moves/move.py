"""The state of one move, and the records in the store."""

from __future__ import annotations

import json
from typing import Final

from spanwire.broker.admin.selective_walk import SelectiveWalk
from spanwire.broker.admin.transfers import Delivered, SliceJournal
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import MOVES, MetadataRecord
from spanwire.broker.moves.move_order import COPY, RETRY, UNDO, MoveOrder, unreadable_move
from spanwire.broker.moves.moved_runs import CopiedRuns, MovedRuns
from spanwire.broker.moves.pace import Pace
from spanwire.broker.routing.dead_letters import CAUSE
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.errors import JmsError, ProtocolError
from spanwire.model.message import Message

RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"

EXPIRED_CAUSE: Final = "java.lang.Throwable: Message Expired"  # without the time, which each message has for itself


class Move(SliceJournal):
    """One order and the progress; times are milliseconds since 1970.

    ``results`` has the processed and passed messages of each finished source; ``count`` and ``passed`` belong to the
    current source. ``looks`` of about ``total`` messages were looked at. Of an undo ``gone`` messages were no longer
    there, and ``in_use`` are at consumers.
    """

    def __init__(self, number: int, order: MoveOrder, formats: MessageFormats, started_ms: int) -> None:
        self.number: Final[int] = number
        self.order: Final[MoveOrder] = order
        self._formats: Final[MessageFormats] = formats
        self.started_ms = started_ms
        self.ended_ms = 0
        self.state = RUNNING
        self.error = ""
        self.results: Final[list[tuple[int, int]]] = []
        self.count = 0
        self.passed = 0
        self.total = 0
        self.gone = 0
        self.in_use = 0
        self.undone_by = 0
        self.reaches_topic = False
        self.runs: Final[MovedRuns] = MovedRuns()
        # while it runs
        self.is_cancelled = False
        self.is_continued = False  # by an operator, or after a restart
        self.is_recovered = False
        self.copied: CopiedRuns | None = None  # what was copied of the current source before the continuation
        self.walk: SelectiveWalk | None = None
        self.pace: Pace | None = None
        self.looks_before = 0  # looks of former walks
        self.began = 0.0  # monotonic seconds of the start or continuation

    @property
    def id(self) -> str:
        """The id for operators, such as ``M7``."""
        return f"M{self.number}"

    @property
    def is_running(self) -> bool:
        """True until the move has ended."""
        return self.state == RUNNING

    @property
    def processed(self) -> int:
        """The number of messages moved, copied, retried or brought back so far."""
        return self.count + sum([count for count, _ in self.results])

    @property
    def left(self) -> int:
        """The number of selected messages left behind."""
        return self.passed + sum([passed for _, passed in self.results])

    @property
    def looks(self) -> int:
        """The number of messages looked at so far."""
        return self.looks_before + (0 if self.walk is None else self.walk.looks)

    @property
    def undoable(self) -> int:
        """The number of moved messages for the first undo to look for."""
        return 0 if self.order.verb == UNDO or self.reaches_topic else self.runs.count

    def seconds_left(self, monotonic: float) -> int:
        """Return the seconds to the end at the speed so far, -1 if unknown."""
        walk = self.walk
        elapsed = monotonic - self.began
        if walk is None or walk.looks == 0 or elapsed <= 0:
            return -1
        ahead = max(0, self.total - self.looks)
        limit = self.order.limit - self.count
        if 0 < self.processed and limit < ahead and len(self.order.sources) == 1:
            ahead = limit * self.looks // self.processed
        return int(ahead * elapsed / walk.looks)

    def key(self, part: str) -> bytes:
        """Return the key of a record of the move."""
        return f"{self.number}/{part}".encode("ascii")

    def order_record(self) -> MetadataRecord:
        """Return the record of the order."""
        return MetadataRecord(MOVES, self.key("order"), self.order.encoded())

    def state_record(self) -> MetadataRecord:
        """Return the record of the state."""
        fields: dict[str, object] = {
            "state": self.state,
            "started": self.started_ms,
            "ended": self.ended_ms,
            "error": self.error,
            "results": self.results,
            "count": self.count,
            "gone": self.gone,
            "in_use": self.in_use,
            "undone_by": self.undone_by,
            "topic": self.reaches_topic,
            "untraced": self.runs.untraced,
        }
        return MetadataRecord(MOVES, self.key("state"), json.dumps(fields, separators=(",", ":")).encode("ascii"))

    def restore_state(self, value: bytes) -> None:
        """Take the state of a record.

        Raises:
            StoreError: the record is unreadable.
        """
        try:
            fields = json.loads(value)
            self.state = str(fields["state"])
            self.started_ms = int(fields["started"])
            self.ended_ms = int(fields["ended"])
            self.error = str(fields["error"])
            for count, passed in fields["results"]:
                self.results.append((int(count), int(passed)))
            self.count = int(fields["count"])
            self.gone = int(fields["gone"])
            self.in_use = int(fields["in_use"])
            self.undone_by = int(fields["undone_by"])
            self.reaches_topic = bool(fields["topic"])
            self.runs.untraced = int(fields["untraced"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise unreadable_move(error) from error

    def record_keys(self) -> list[bytes]:
        """Return the keys of all records, first the records without which `Moves.recover` drops the others."""
        chunks = [self.key(f"runs/{chunk}") for chunk in range(self.runs.chunk_count())]
        return [self.key("order"), self.key("state"), *chunks]

    def record(self, source: Destination, delivered: list[Delivered], count: int) -> list[MetadataRecord]:
        """Count a slice, and return the records about the slice."""
        self.count += count
        if self.order.verb != UNDO:
            ordered = sorted(delivered, key=_target_of) if self.order.verb == RETRY else delivered
            for entry in ordered:
                self._trace(source, entry)
        records = [
            MetadataRecord(MOVES, self.key(f"runs/{chunk}"), value) for chunk, value in self.runs.changed_chunks()
        ]
        return [*records, self.state_record()]

    def _trace(self, source: Destination, entry: Delivered) -> None:
        if entry.target.kind == TOPIC:
            self.reaches_topic = True
            if self.order.verb == COPY:
                self._note_copied(source, entry)
        if self.reaches_topic:  # others got copies, which nobody takes back
            return
        cause = self._cause(entry.original.message) if self.order.verb == RETRY else ""
        if entry.sequence == 0:
            self.runs.add_transient(entry.target, entry.message, source, cause)
            return
        source_sequence = entry.original.sequence if self.order.verb == COPY else 0
        self.runs.add(entry.target, entry.sequence, source, source_sequence, cause)

    def _note_copied(self, source: Destination, entry: Delivered) -> None:
        """Remember a message copied to a topic, so that a continuation does not send the message again."""
        sequence = entry.original.sequence
        if sequence == 0:
            self.runs.add_transient(entry.target, entry.original.message, source, "")
        else:
            self.runs.add(entry.target, sequence, source, sequence, "")

    def _cause(self, letter: Message) -> str:
        try:
            entry = self._formats.format(letter.format_id).properties(letter).get(CAUSE)
        except (JmsError, ProtocolError):
            return ""
        cause = str(entry[1]) if entry is not None else ""
        return EXPIRED_CAUSE if cause.startswith(EXPIRED_CAUSE) else cause

    def wants(self, sequence: int) -> bool:
        """Return False for messages that arrived after the beginning, or were copied before a restart."""
        if not self.is_continued:
            return True
        if sequence == 0:
            return not self.is_recovered
        if sequence > self.order.marks[len(self.results)]:
            return False
        return self.copied is None or not self.copied.holds(sequence)

    def has_copied(self, message: Message) -> bool:
        """Return True if a copy of ``message`` outside of the store was made before the continuation."""
        target = self.order.target
        if not self.is_continued or self.order.verb != COPY or target is None:
            return False
        return self.runs.transient_origin(target, message) is not None


def _target_of(entry: Delivered) -> str:
    return entry.target.qualified_name
