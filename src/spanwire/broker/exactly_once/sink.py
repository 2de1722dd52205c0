"""A sink: the ledger of a query's batches, the staged parts, and their records in the store.

The store has one record per sink (`spanwire.broker.metadata.SINK_LEDGERS`) and one per staged part (`STAGED_BATCHES`).
Each part has its own staging destination for the messages; the record names the final destinations. Part and messages
are stored in one unit and removed in one unit.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.exactly_once.part_draft import PartDraft
from spanwire.broker.metadata import SINK_LEDGERS, STAGED_BATCHES, MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.request_errors import FENCED, MALFORMED, OTHER_TARGET, refusal, unreadable
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION, Destination
from spanwire.model.message import DEFAULT_PRIORITY

NO_BATCH: Final = -1
LAST_BATCH: Final = 10**19  # above all numbers of batches, which have at most 19 digits
STAGING_PREFIX: Final = "staged-"  # names of XA branches are plain numbers and never begin so


class PartKey:
    """Identifies a part: query, batch, partition, and the attempt of one task on the partition."""

    __slots__ = ("attempt", "batch", "partition", "query")

    def __init__(self, query: str, batch: int, partition: int, attempt: int) -> None:
        self.query: Final[str] = query
        self.batch: Final[int] = batch
        self.partition: Final[int] = partition
        self.attempt: Final[int] = attempt

    @property
    def text(self) -> str:
        """The key as text, unique over all parts of all sinks: names contain no blanks."""
        return f"{self.query} {self.batch} {self.partition} {self.attempt}"


class Part:
    """The staged messages of one attempt of one partition.

    ``messages`` counts sent messages. A message for several destinations has several copies in the staging destination.
    For each copy, ``targets`` has the final destination, ``sequences`` the sequence, ``priorities`` the priority and
    ``dues`` the expiration (wall milliseconds, 0 for never). ``is_plain`` is True if all messages are persistent and
    were never delivered. A copy takes 25 bytes of memory.
    """

    def __init__(self, key: PartKey, epoch: int, number: int) -> None:
        self.key: Final[PartKey] = key
        self.epoch: Final[int] = epoch
        self.number: Final[int] = number
        self.messages = 0
        self.draft = PartDraft()  # the record of the copies
        self.targets: Final[list[Destination]] = []
        self.sequences: Final[array[int]] = array("q")
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.bytes = 0
        self.is_plain = True

    def restore(self, recovered: RecoveredDestination) -> None:
        """Take the copies found in the store."""
        self.sequences.extend(recovered.sequences)
        dues = dict(zip(recovered.expirations.sequences, recovered.expirations.wall_ms, strict=True))
        for sequence in self.sequences:
            self.priorities.append(recovered.priorities.get(sequence, DEFAULT_PRIORITY))
            self.dues.append(dues.get(sequence, 0))

    def metadata_record(self, draft: PartDraft, is_plain: bool, messages: int) -> MetadataRecord:
        """Return the record for the store once ``draft`` has all copies of ``messages`` messages."""
        return MetadataRecord(STAGED_BATCHES, self.name, draft.encoded(self.epoch, self.number, is_plain, messages))

    @property
    def name(self) -> bytes:
        """The key of the record."""
        return self.key.text.encode("ascii")

    def end(self) -> MetadataRecord:
        """Return the record that deletes the part's record."""
        return MetadataRecord(STAGED_BATCHES, self.name, None)


class StagedBatch:
    """Counts of what is staged for one batch, all attempts together.

    ``is_plain`` is True if all parts are plain (`Part`).
    """

    __slots__ = ("bytes", "copies", "is_plain", "parts")

    def __init__(self) -> None:
        self.parts = 0
        self.copies = 0
        self.bytes = 0
        self.is_plain = True


class Sink:
    """State of one sink: ``run`` owns the sink in ``epoch``, ``batch`` is the last committed batch.

    ``parts`` has the staged parts by key; `note_part`, `note_growth` and `forget_part` count them by batch.
    ``target`` is the program's description of the final destinations, possibly empty. While a request is carried out in
    slices the sink is closed for parts of batches up to ``closed_batch``; ``under_way`` says why.
    """

    def __init__(self, query: str, user: str) -> None:
        self.query: Final[str] = query
        self.user: Final[str] = user
        self.run = ""
        self.target = ""
        self.past_runs: list[str] = []
        self.epoch = 0
        self.batch = NO_BATCH
        self.parts: Final[dict[str, Part]] = {}
        self._batches: Final[dict[int, StagedBatch]] = {}
        self.closed_batch = NO_BATCH
        self.under_way = ""

    def close(self, batch: int, under_way: str) -> None:
        """Keep the parts of batches up to ``batch`` as they are.

        Further requests wait until `reopen`.
        """
        self.closed_batch = batch
        self.under_way = under_way

    def reopen(self) -> None:
        """End the work that closed the sink."""
        self.closed_batch = NO_BATCH
        self.under_way = ""

    def check_epoch(self, epoch: int) -> None:
        """Raise `ControlRefusal` unless ``epoch`` is the current epoch."""
        if epoch > self.epoch:
            raise refusal(MALFORMED, f"sink {self.query} is at epoch {self.epoch}: there is no epoch {epoch} yet")
        if epoch < self.epoch:
            why = f"run {self.run} has it now"
            raise refusal(FENCED, f"sink {self.query} is at epoch {self.epoch}, for {why}: epoch {epoch} has ended")

    def check_run(self, run: str) -> None:
        """Raise `ControlRefusal` for an ended run."""
        if run in self.past_runs:
            raise refusal(
                FENCED,
                f"sink {self.query} is at epoch {self.epoch}, for run {self.run} has it now: run {run} has ended",
            )

    def check_target(self, target: str) -> None:
        """Raise `ControlRefusal` for another target than before. An empty target is always accepted."""
        if target and self.target and target != self.target:
            raise refusal(
                OTHER_TARGET,
                f"up to batch {self.batch} sink {self.query} was for {self.target}, now it is {target}: use another "
                f"sink, or forget this one",
            )

    def staged_batch(self, batch: int) -> StagedBatch:
        """Return the counts of a batch."""
        counts = self._batches.get(batch)
        return StagedBatch() if counts is None else counts

    def note_part(self, part: Part) -> None:
        """Count a new part with all that it has."""
        batch = self._batches.get(part.key.batch)
        if batch is None:
            batch = StagedBatch()
            self._batches[part.key.batch] = batch
        batch.parts += 1
        batch.copies += len(part.sequences)
        batch.bytes += part.bytes
        batch.is_plain = batch.is_plain and part.is_plain

    def note_growth(self, part: Part, copies: int, size: int) -> None:
        """Count more copies of a part."""
        batch = self._batches[part.key.batch]
        batch.copies += copies
        batch.bytes += size
        batch.is_plain = batch.is_plain and part.is_plain

    def forget_part(self, part: Part) -> None:
        """Forget a part with all that it has."""
        del self.parts[part.key.text]
        batch = self._batches[part.key.batch]
        batch.parts -= 1
        batch.copies -= len(part.sequences)
        batch.bytes -= part.bytes
        if batch.parts == 0:
            del self._batches[part.key.batch]

    def staged(self) -> int:
        """Return the number of staged messages, each counted once."""
        return sum([part.messages for part in self.parts.values()])

    def metadata_record(self, epoch: int, run: str, past_runs: list[str], batch: int, target: str) -> MetadataRecord:
        """Return the record for the store, with the values of the arguments."""
        fields: dict[str, object] = {
            "epoch": epoch, "run": run, "past": past_runs, "batch": batch, "user": self.user,
        }  # fmt: skip
        if target:  # without a target the record stays as in earlier versions
            fields["target"] = target
        return MetadataRecord(
            SINK_LEDGERS, self.query.encode("ascii"), json.dumps(fields, separators=(",", ":")).encode("ascii")
        )

    def row(self) -> dict[str, object]:
        """Return the sink for an operator's list."""
        return {
            "query": self.query,
            "epoch": self.epoch,
            "run": self.run,
            "batch": self.batch,
            "staged": self.staged(),
            "user": self.user,
        }


def staging_destination(number: int) -> Destination:
    """Return the staging destination ``number``."""
    return Destination(TRANSACTION, f"{STAGING_PREFIX}{number}")


def decode_sink(key: bytes, value: bytes) -> Sink:
    """Return the sink of a record.

    Raises:
        StoreError: ``value`` does not come from `Sink.metadata_record`.
    """
    try:
        record = json.loads(value)
        user: str = record["user"]
        run: str = record["run"]
        past: list[str] = record["past"]
        epoch: int = record["epoch"]
        batch: int = record["batch"]
        target: str = record.get("target", "")
        sink = Sink(key.decode("ascii"), user)
        sink.run = run
        sink.past_runs = past
        sink.epoch = epoch
        sink.batch = batch
        sink.target = target
        return sink
    except (ValueError, KeyError, TypeError):
        raise unreadable("a sink") from None


def decode_part(key: bytes, value: bytes) -> Part:
    """Return the part of a record.

    Raises:
        StoreError: ``value`` does not come from `Part.metadata_record`.
    """
    try:
        query, batch, partition, attempt = key.decode("ascii").split(" ")
        record = json.loads(value)
        epoch: int = record["epoch"]
        number: int = record["line"]
        names: list[list[object]] = record["destinations"]
        runs: list[list[int]] = record["sends"]
        part = Part(PartKey(query, int(batch), int(partition), int(attempt)), epoch, number)
        part.is_plain = record.get("plain", False) is True
        destinations = [_destination(entry) for entry in names]
        for index, count in runs:
            part.targets.extend([destinations[index]] * count)
            part.draft.add(destinations[index], count)
        messages: int = record.get("messages", len(part.targets))  # records of earlier versions have no such field
        part.messages = messages
        return part
    except (ValueError, KeyError, TypeError, IndexError):
        raise unreadable("a staged batch") from None


def _destination(entry: list[object]) -> Destination:
    kind, name = entry
    if not isinstance(kind, int) or not isinstance(name, str) or kind not in (QUEUE, TOPIC, SUBSCRIPTION):
        raise ValueError("not a destination")
    return Destination(kind, name)
