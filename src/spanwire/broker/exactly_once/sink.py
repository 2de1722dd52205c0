"""A sink: the ledger of one query's batches, what is staged for it, and what the store keeps of both.

The store has a fact for each sink (`spanwire.broker.metadata.SINK_LEDGERS`) and one for each part that is staged
(`STAGED_BATCHES`), which says where its messages, in a line of their own, are to go. A part comes with its
messages in one unit, and goes with them in one.
"""

from __future__ import annotations

import json
from array import array
from typing import Final

from spanwire.broker.connections.transaction import TransactedSend
from spanwire.broker.metadata import SINK_LEDGERS, STAGED_BATCHES, Fact
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.request_errors import FENCED, MALFORMED, OTHER_TARGET, refusal, unreadable
from spanwire.model.destination import QUEUE, SUBSCRIPTION, TOPIC, TRANSACTION, Destination
from spanwire.model.message import DEFAULT_PRIORITY, Message

NO_BATCH: Final = -1
MAX_PRIORITY: Final = 9
LINE_PREFIX: Final = "staged-"  # of the names of lines; those of XA branches are numbers alone


class PartKey:
    """Which part of which batch: the attempt is that of one task on one partition."""

    __slots__ = ("attempt", "batch", "partition", "query")

    def __init__(self, query: str, batch: int, partition: int, attempt: int) -> None:
        self.query: Final[str] = query
        self.batch: Final[int] = batch
        self.partition: Final[int] = partition
        self.attempt: Final[int] = attempt

    @property
    def text(self) -> str:
        """Unique over all parts of all sinks: names have no blanks."""
        return f"{self.query} {self.batch} {self.partition} {self.attempt}"


class Part:
    """Records the messages that one attempt of one partition staged.

    ``messages`` counts what was sent. The line has a copy of each for every destination that gets one: none, one or
    many. ``targets`` are the destinations of the copies, one after the other, ``sequences`` their numbers in the line,
    ``priorities`` and ``dues`` (wall milliseconds, 0: never) when they expire. ``is_plain``: all are persistent, and
    nobody had them before.
    """

    def __init__(self, key: PartKey, epoch: int, line: int) -> None:
        self.key: Final[PartKey] = key
        self.epoch: Final[int] = epoch
        self.line: Final[int] = line
        self.messages = 0
        self.targets: Final[list[Destination]] = []
        self.sequences: Final[list[int]] = []
        self.priorities: Final[array[int]] = array("B")
        self.dues: Final[array[int]] = array("q")
        self.bytes = 0
        self.is_plain = True

    def note(self, message: Message) -> None:
        """One more of its messages."""
        self.priorities.append(min(max(message.priority, 0), MAX_PRIORITY))
        self.dues.append(max(message.expiration_ms, 0))

    def restore(self, found: RecoveredDestination) -> None:
        """Its messages as the store kept them."""
        self.sequences.extend(found.sequences)
        dues = dict(zip(found.expirations.sequences, found.expirations.wall_ms, strict=True))
        for sequence in self.sequences:
            self.priorities.append(found.priorities.get(sequence, DEFAULT_PRIORITY))
            self.dues.append(dues.get(sequence, 0))

    def removals(self) -> list[tuple[Destination, int]]:
        """Its messages."""
        line = line_of(self.line)
        return [(line, sequence) for sequence in self.sequences]

    def fact(self, more: list[TransactedSend], messages: int) -> Fact:
        """Return the record for the store once ``messages`` more are staged, with the copies ``more``. A version that
        knows nothing of ``plain`` reads them all; one that knows nothing of ``messages`` counts copies.
        """
        places: dict[str, int] = {}
        names: list[list[object]] = []
        runs: list[list[int]] = []
        for destination in [*self.targets, *[send.home.destination for send in more]]:
            place = places.get(destination.qualified_name)
            if place is None:
                place = len(names)
                places[destination.qualified_name] = place
                names.append([destination.kind, destination.name])
            if runs and runs[-1][0] == place:
                runs[-1][1] += 1
            else:
                runs.append([place, 1])
        is_plain = self.is_plain and are_plain(more)
        fields: dict[str, object] = {
            "epoch": self.epoch, "line": self.line, "destinations": names, "sends": runs, "plain": is_plain,
            "messages": self.messages + messages,
        }  # fmt: skip
        return Fact(STAGED_BATCHES, self.name, json.dumps(fields, separators=(",", ":")).encode("ascii"))

    @property
    def name(self) -> bytes:
        """The key of its fact."""
        return self.key.text.encode("ascii")

    def end(self) -> Fact:
        """The store is to forget it."""
        return Fact(STAGED_BATCHES, self.name, None)


class Sink:
    """One sink: ``run`` has it in ``epoch``; ``batch`` was committed last. ``parts`` are staged, by their key's text;
    ``committing`` is the batch whose messages are being read for its commit. ``target``: where the program sends, in
    its own words; empty when it has never said.
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
        self.committing = NO_BATCH

    def check_epoch(self, epoch: int) -> None:
        """Raises `ControlRefusal` unless ``epoch`` is that of now."""
        if epoch > self.epoch:
            raise refusal(MALFORMED, f"sink {self.query} is at epoch {self.epoch}: there is no epoch {epoch} yet")
        if epoch < self.epoch:
            why = f"run {self.run} has it now"
            raise refusal(FENCED, f"sink {self.query} is at epoch {self.epoch}, for {why}: epoch {epoch} has ended")

    def check_run(self, run: str) -> None:
        """Raises `ControlRefusal` for one that has ended."""
        if run in self.past_runs:
            raise refusal(
                FENCED,
                f"sink {self.query} is at epoch {self.epoch}, for run {self.run} has it now: run {run} has ended",
            )

    def check_target(self, target: str) -> None:
        """Raises `ControlRefusal` for another one than before; who says none has the one of before."""
        if target and self.target and target != self.target:
            raise refusal(
                OTHER_TARGET,
                f"up to batch {self.batch} sink {self.query} was for {self.target}, now it is {target}: use another "
                f"sink, or forget this one",
            )

    def staged(self) -> int:
        """Return the number of staged messages, each counted once."""
        return sum([part.messages for part in self.parts.values()])

    def fact(self, epoch: int, run: str, past_runs: list[str], batch: int, target: str) -> Fact:
        """What the store is to keep of it with these."""
        fields: dict[str, object] = {
            "epoch": epoch, "run": run, "past": past_runs, "batch": batch, "user": self.user,
        }  # fmt: skip
        if target:  # those that were begun without have none
            fields["target"] = target
        return Fact(SINK_LEDGERS, self.query.encode("ascii"), json.dumps(fields, separators=(",", ":")).encode("ascii"))

    def row(self) -> dict[str, object]:
        """As an operator sees it."""
        return {
            "query": self.query,
            "epoch": self.epoch,
            "run": self.run,
            "batch": self.batch,
            "staged": self.staged(),
            "user": self.user,
        }


def line_of(number: int) -> Destination:
    """The line of the store with this number."""
    return Destination(TRANSACTION, f"{LINE_PREFIX}{number}")


def are_plain(sends: list[TransactedSend]) -> bool:
    """Whether all are persistent, and nobody had them before."""
    for send in sends:
        if not send.message.persistent or send.message.redelivery_count > 0:
            return False
    return True


def decode_sink(key: bytes, value: bytes) -> Sink:
    """Raises `StoreError` when ``value`` is not what `Sink.fact` gave."""
    try:
        found = json.loads(value)
        user: str = found["user"]
        run: str = found["run"]
        past: list[str] = found["past"]
        epoch: int = found["epoch"]
        batch: int = found["batch"]
        target: str = found.get("target", "")
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
    """Raises `StoreError` when ``value`` is not what `Part.fact` gave."""
    try:
        query, batch, partition, attempt = key.decode("ascii").split(" ")
        found = json.loads(value)
        epoch: int = found["epoch"]
        line: int = found["line"]
        names: list[list[object]] = found["destinations"]
        runs: list[list[int]] = found["sends"]
        part = Part(PartKey(query, int(batch), int(partition), int(attempt)), epoch, line)
        part.is_plain = found.get("plain", False) is True
        destinations = [_destination(entry) for entry in names]
        for place, count in runs:
            part.targets.extend([destinations[place]] * count)
        messages: int = found.get("messages", len(part.targets))  # earlier versions did not write it
        part.messages = messages
        return part
    except (ValueError, KeyError, TypeError, IndexError):
        raise unreadable("a staged batch") from None


def _destination(entry: list[object]) -> Destination:
    kind, name = entry
    if not isinstance(kind, int) or not isinstance(name, str) or kind not in (QUEUE, TOPIC, SUBSCRIPTION):
        raise ValueError("not a destination")
    return Destination(kind, name)
