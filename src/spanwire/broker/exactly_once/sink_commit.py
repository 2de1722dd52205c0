"""Commits of sinks: delivers the parts of a batch in one unit of the store.

The unit is gathered a slice at a time.

If possible the messages stay in place on the disk (`StagedTransfer`), otherwise they are read and written again
(`RewrittenBatch`). The unit contains the messages, the removal of the staged parts, and the ledger with the number of
the batch. A batch is therefore either staged or delivered, and a repeated commit finds its number.

Gathering has no visible effect but new destinations. The call to the store is the single step in which the batch is
delivered.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.jobs import StoreReader
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.exactly_once.batch_targets import BatchTargets
from spanwire.broker.exactly_once.part_names import PartName, PartNames
from spanwire.broker.exactly_once.part_removal import SinkWork
from spanwire.broker.exactly_once.rewritten_batch import RewrittenBatch
from spanwire.broker.exactly_once.sink import NO_BATCH, Part, PartKey, Sink, staging_destination
from spanwire.broker.exactly_once.sinks import Sinks, check_read
from spanwire.broker.exactly_once.staged_transfer import StagedTransfer
from spanwire.broker.persistence.reply_queue import PendingReply
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.request_errors import INCOMPLETE, LIMIT, MALFORMED, refusal
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.message import Message

PAGE_MESSAGES: Final = 1_000  # messages of one read
COPIES_AT_ONCE: Final = 100  # copies that are looked at before their steps are counted: one for each other target
COPIES_IN_STEP: Final = 10  # copies that stay in place and are gathered in the time of one step
MAX_REPETITIONS: Final = 3  # repeated gatherings after the removal of a destination

NAMING: Final = 0
FINDING: Final = 1
MOVING: Final = 2
READING: Final = 3
GATHERING: Final = 4
ENDING: Final = 5


class Committed:
    """The result of a commit."""

    __slots__ = ("messages", "repeated")

    def __init__(self, messages: int, repeated: bool) -> None:
        self.messages: Final[int] = messages
        self.repeated: Final[bool] = repeated


class CommitFollower(Protocol):
    """Answers the request, and goes on with those that waited for the commit."""

    def on_committed(self, commit: SinkCommit, result: Committed) -> None:
        """Answer a commit that the store has."""
        ...

    def on_refused(self, commit: SinkCommit, error: JmsError) -> None:
        """Answer a commit without effect."""
        ...


class SinkCommit(SinkWork, StoreReader):
    """One commit under way.

    Parts of its batch, and of batches before, stay as they are meanwhile.
    """

    def __init__(
        self,
        follower: CommitFollower,
        sinks: Sinks,
        sink: Sink,
        batch: int,
        names: PartNames,
        context: BrokerContext,
        targets: BatchTargets,
        router: MessageRouter,
        unsynced: UnsyncedBytes,
        usage: MemoryUsage,
        output: ConnectionOutput,
    ) -> None:
        """Take the request.

        Args:
            usage: memory usage of the broker, which counts messages read for the commit.
            output: output of the connection that asks for the commit.
        """
        under_way = f"batch {batch} of sink {sink.query} is being committed: stage for a later batch"
        super().__init__(sinks, sink, context, batch, under_way)
        self._follower: Final[CommitFollower] = follower
        self._names: Final[PartNames] = names
        self._targets: Final[BatchTargets] = targets
        self._router: Final[MessageRouter] = router
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._usage: Final[MemoryUsage] = usage
        self._output: Final[ConnectionOutput] = output
        self._stage = NAMING
        self._repetitions = 0
        self._wanted: list[PartName] = []
        self._partition = NO_BATCH  # of the last part that was found
        self._parts: Final[list[Part]] = []  # the named ones, in the order of partitions
        self._named: Final[dict[str, None]] = {}
        self._messages = 0
        self._copies = 0
        self._bytes = 0
        self._transfer: StagedTransfer | None = StagedTransfer(targets)  # None if the messages must be read
        self._rewritten = RewrittenBatch(targets, usage)
        self._unit = StoreUnit()
        self._next = 0  # index of a line, part or copy, as the stage goes
        self._part = 0  # index of the part of the copy
        self._found: list[Message | None] = []
        self._found_bytes = 0
        self._all: list[Part] = []  # of the sink

    @property
    def name(self) -> str:
        """The name of the request in texts."""
        return "commit"

    def on_refused(self, error: JmsError) -> None:
        """Answer a commit without effect, and free the messages that were read."""
        self._usage.add(-self._found_bytes)
        self._follower.on_refused(self, error)

    def on_end(self) -> None:
        """Answer the commit."""
        self._follower.on_committed(self, Committed(self._messages, False))

    def gather(self, end: int) -> bool:
        """Gather more of the batch, and deliver all of it in a single step; see `SinkWork.gather`."""
        if self._stage == NAMING:
            while self.steps < end:
                steps = self._names.read(end - self.steps)
                if steps == 0:
                    self._wanted = self._names.in_order()
                    self._stage = FINDING
                    break
                self.steps += steps
        if self._stage == FINDING and self._find_parts(end):
            self._enter(MOVING)
        if self._stage == MOVING and self._move(end):
            self._enter(ENDING if self._transfer is not None else READING)
            if self._stage == READING:
                self._waits = self._next_page()
                if not self._waits:
                    self._enter(GATHERING)
        if self._stage == GATHERING and self._gather(end):
            self._enter(ENDING)
        return self._stage == ENDING and self._end_parts(end) and self._hand_over()

    def _enter(self, stage: int) -> None:
        self._stage = stage
        self._part = 0
        self._next = 0
        if stage == ENDING:
            self._all = list(self.sink.parts.values())
            self._ended.clear()

    def _find_parts(self, end: int) -> bool:
        """Find more of the named parts, and return True at the end."""
        sink = self.sink
        while self._next < len(self._wanted):
            if self.steps >= end:
                return False
            self.steps += 1
            name = self._wanted[self._next]
            self._next += 1
            if name.partition == self._partition:
                raise refusal(MALFORMED, f"two attempts of partition {name.partition} cannot both belong to a batch")
            self._partition = name.partition
            key = PartKey(sink.query, self.batch, name.partition, name.attempt)
            part = sink.parts.get(key.text)
            count = 0 if part is None else part.messages
            if count != name.messages:
                raise refusal(
                    INCOMPLETE,
                    f"batch {self.batch} of sink {sink.query}: {count} of {name.messages} messages of partition "
                    f"{name.partition}, attempt {name.attempt}, are staged: stage them again",
                )
            if part is not None:
                self._parts.append(part)
                self._named[key.text] = None
                self._messages += part.messages
                self._copies += len(part.sequences)
                self._bytes += part.bytes
        return True

    def _move(self, end: int) -> bool:
        """Gather more copies that stay in place. Return True at the end, or where a copy must be read."""
        transfer = self._transfer
        assert transfer is not None
        while self._part < len(self._parts):
            if self.steps >= end:
                return False
            part = self._parts[self._part]
            start = self._next
            stop = min(len(part.targets), start + COPIES_AT_ONCE)
            stretches = transfer.stretches
            if not transfer.take(part, start, stop) or not transfer.is_worth_it(self._copies):
                check_read(self.sink, self.batch, self._copies, self._bytes)
                self._transfer = None
                return True
            self._check(part, start, stop)
            self._count(1 + (stop - start) // COPIES_IN_STEP + transfer.stretches - stretches)
            self._next = stop
            if stop == len(part.targets):
                self._part += 1
                self._next = 0
        self._unit = transfer.unit
        return True

    def _check(self, part: Part, start: int, end: int) -> None:
        """Check that the store has these copies of a part. Damaged messages are found by a later read."""
        sequences = part.sequences[start:end].tolist()
        if 0 in self._context.store_usage.sizes(staging_destination(part.number), sequences):
            raise missing(part)

    def _count(self, steps: int) -> None:
        self.steps += steps + self._targets.steps
        self._targets.steps = 0

    def _next_page(self) -> bool:
        """Ask for the next messages. Return False at the end."""
        while self._part < len(self._parts):
            part = self._parts[self._part]
            sequences = part.sequences[self._next : self._next + PAGE_MESSAGES].tolist()
            if sequences:
                self._next += len(sequences)
                self._context.fetch(self, staging_destination(part.number), sequences)
                return True
            self._part += 1
            self._next = 0
        return False

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take messages from the store."""
        self._found.extend(messages)
        size = sum([message.size for message in messages if message is not None])
        self._found_bytes += size
        self._usage.add(size)
        if not self._next_page():
            self._waits = False
            self._enter(GATHERING)
            if self.work():
                self._context.schedule(self)

    def _gather(self, end: int) -> bool:
        """Gather more messages that were read, and return True at the end."""
        rewritten = self._rewritten
        while self._part < len(self._parts):
            part = self._parts[self._part]
            while self._next < len(part.targets):
                if self.steps >= end:
                    return False
                message = self._found[len(rewritten.messages) + rewritten.lost]
                if message is None:
                    raise missing(part)
                rewritten.take(part.targets[self._next], message)
                self._next += 1
                self._count(1)
            self._part += 1
            self._next = 0
        self._unit = rewritten.unit
        return True

    def _end_parts(self, end: int) -> bool:
        """Gather the ends of more parts of this batch and of batches before, and return True at the end."""
        while self._next < len(self._all):
            if self.steps >= end:
                return False
            part = self._all[self._next]
            if part.key.batch > self.batch:
                self.steps += 1
                self._next += 1
                continue
            with_copies = self._transfer is None or part.key.text not in self._named
            self.steps += self._ended.gather(part, self._unit, with_copies)
            if self._ended.is_gathered:
                self._next += 1
        return True

    def _hand_over(self) -> bool:
        """Deliver the batch, in a single step.

        Returns:
            False if a destination was removed meanwhile; gathering then starts again.
        """
        transfer = self._transfer
        rewritten = self._rewritten
        if not (rewritten.is_current() if transfer is None else transfer.is_current()):
            self._begin_again()
            return False
        sink = self.sink
        store = self._sinks.store()
        self._sinks.take_commit(sink, self._unit, self.batch)
        reply = PendingReply(store.position(), self._output, NO_TOKEN, rewritten.messages if transfer is None else None)
        if transfer is None:
            self._unsynced.add(rewritten.stored_bytes)
            self._usage.add(-rewritten.lost_bytes)
            rewritten.withhold(reply)
            self._show(rewritten)
        else:
            transfer.withhold(reply)
        self._router.expect(reply)
        self._found = []
        return True

    def _show(self, rewritten: RewrittenBatch) -> None:
        """Show the messages to an operator who follows some; where somebody does, no message stays unread in place."""
        follower = self._context.follower
        if follower is not None:
            for entry in rewritten.messages:
                follower.written(entry.destination.name, entry.message, self.sink.query, self.batch)

    def _begin_again(self) -> None:
        self._repetitions += 1
        if self._repetitions > MAX_REPETITIONS:
            raise refusal(
                LIMIT,
                f"destinations of batch {self.batch} of sink {self.sink.query} were removed {self._repetitions} times "
                f"during its commit: commit again, and leave the destinations",
            )
        if self._transfer is None:
            self._rewritten = RewrittenBatch(self._targets, self._usage)
            self._enter(GATHERING)
        else:
            self._transfer = StagedTransfer(self._targets)
            self._enter(MOVING)


def missing(part: Part) -> SpanwireError:
    """Return the refusal of a commit with a message that the store lacks or cannot read."""
    return refusal(
        INCOMPLETE,
        f"a message of part {part.key.text} is missing in the store or cannot be read: stop the broker and run spanwire"
        " store check, or stage the batch again",
    )
