"""Removal of the staged parts of a sink, a slice at a time.

The module has the base of all requests that end parts, too.

Causes of a removal are an abort, a new run or the end of the sink. `SinkCommit` ends the delivered parts.

All parts, and the records about the end, are one unit of the store. Gathering has no visible effect. The call to the
store is the single step in which the parts end; the memory forgets the parts afterwards.
"""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.exactly_once.cursor import with_past
from spanwire.broker.exactly_once.sink import LAST_BATCH, Part, Sink, staging_destination
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.metadata import SINK_LEDGERS, MetadataRecord
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.errors import JmsError

REMOVED_IN_STEP: Final = 100  # copies that are removed with their part in the time of one step
REMOVED_AT_ONCE: Final = 10_000  # copies of a part that are removed before the steps are counted
FORGOTTEN_IN_STEP: Final = 4  # parts that are forgotten in the time of one step


class EndedParts:
    """Parts that end with a unit of the store.

    The ends are gathered, and the parts are forgotten behind the unit's call. ``is_gathered`` is True unless the last
    part has more copies to remove.
    """

    def __init__(self, sinks: Sinks, sink: Sink) -> None:
        self._sinks: Final[Sinks] = sinks
        self._sink: Final[Sink] = sink
        self._parts: Final[list[Part]] = []
        self._forgotten = 0
        self._removed = 0  # copies of the part that is being gathered
        self.is_gathered = True

    def clear(self) -> None:
        """Begin again, with a new unit."""
        self._parts.clear()
        self._removed = 0

    def gather(self, part: Part, unit: StoreUnit, with_copies: bool) -> int:
        """Add the end of a part to the unit, or the next copies of a large part.

        Returns the number of steps.

        Args:
            with_copies: True if the copies are removed; False if the unit moves them elsewhere.
        """
        start = self._removed
        end = min(len(part.sequences), start + REMOVED_AT_ONCE) if with_copies else 0
        unit.remove_all(staging_destination(part.number), part.sequences[start:end].tolist())
        self.is_gathered = not with_copies or end == len(part.sequences)
        self._removed = 0 if self.is_gathered else end
        if self.is_gathered:
            unit.add_metadata(part.end())
            self._parts.append(part)
        return 1 + (end - start) // REMOVED_IN_STEP

    def forget(self, at_most: int) -> int:
        """Forget more parts, once the store has the unit, in ``at_most`` steps; return the steps."""
        start = self._forgotten
        parts = self._parts[start : start + max(at_most, 0) * FORGOTTEN_IN_STEP]
        self._forgotten += len(parts)
        self._sinks.forget_parts(self._sink, parts)
        return (len(parts) + FORGOTTEN_IN_STEP - 1) // FORGOTTEN_IN_STEP

    def forget_all(self) -> None:
        """Forget the rest at once."""
        self.forget(len(self._parts))

    def are_forgotten(self) -> bool:
        """Return True if all parts are forgotten."""
        return self._forgotten == len(self._parts)


class SinkWork(Job):
    """A request about a sink that ends parts. Other requests about the sink wait.

    Attributes:
        steps: the work so far.
    """

    def __init__(self, sinks: Sinks, sink: Sink, context: BrokerContext, batch: int, under_way: str) -> None:
        """Take the request.

        Args:
            batch: parts of batches up to this one stay as they are meanwhile (`Sink.close`).
            under_way: the work and what to do instead, for the refusal of parts that are staged meanwhile.
        """
        self._sinks: Final[Sinks] = sinks
        self.sink: Final[Sink] = sink
        self._context: Final[BrokerContext] = context
        self.batch: Final[int] = batch
        self._under_way: Final[str] = under_way
        self.steps = 0
        self._is_stored = False  # the store has the unit, and the memory forgets the parts
        self._waits = False  # for a read of the store
        self._ended: Final[EndedParts] = EndedParts(sinks, sink)

    def begin(self) -> None:
        """Do the first slice. Work with a few parts ends with it."""
        self.sink.close(self.batch, self._under_way)
        if self.work():
            self._context.schedule(self)
        self._context.steps += self.steps

    def work(self) -> bool:
        """Do one slice; see `Job.work`. The work does not go on by itself while messages are read."""
        try:
            is_over = self._go_on(self.steps + JOB_STEPS)
        except JmsError as refused:  # the names differ because a compiled variable has one type
            self._refuse(refused)
            return False
        except Exception as error:
            self._refuse(JmsError(f"the broker failed in the middle of a {self.name}: {type(error).__name__}"))
            raise
        if not is_over:
            return not self._waits
        self._end()
        return False

    def _go_on(self, end: int) -> bool:
        """Go on up to ``end`` steps, and return True at the end."""
        if not self._is_stored:
            if not self.gather(end):
                return False
            self._is_stored = True
        self.steps += self._ended.forget(end - self.steps)
        return self._ended.are_forgotten()

    def _refuse(self, error: JmsError) -> None:
        """Leave everything as it was, unless the store has the unit already.

        Then the rest of the parts is forgotten at once.
        """
        if self._is_stored:
            self._ended.forget_all()
            self._end()
            return
        self.sink.reopen()
        self.on_refused(error)

    def _end(self) -> None:
        self.sink.reopen()
        self.on_end()

    @property
    def name(self) -> str:
        """The name of the request in texts."""
        return "removal"

    def gather(self, end: int) -> bool:
        """Gather more of the unit up to ``end`` steps. Return True once the store has the unit."""
        return True

    def on_refused(self, error: JmsError) -> None:
        """Answer a request without effect."""

    def on_end(self) -> None:
        """Finish the change and answer: all parts are forgotten."""


class RemovalFollower(Protocol):
    """Answers the request, and goes on with those that waited for the removal."""

    def on_removed(self, removal: PartRemoval) -> None:
        """Answer a removal that the store has."""
        ...

    def on_removal_refused(self, removal: PartRemoval, error: JmsError) -> None:
        """Answer a removal without effect."""
        ...


class PartRemoval(SinkWork):
    """The abort of a batch; subclasses remove all parts of the sink.

    Attributes:
        messages: messages of the parts, each counted once.
    """

    def __init__(
        self,
        follower: RemovalFollower,
        sinks: Sinks,
        sink: Sink,
        context: BrokerContext,
        batch: int,
        under_way: str,
    ) -> None:
        """Take the request.

        Args:
            batch: the batch whose parts are removed; LAST_BATCH for those of all batches.
            under_way: the work and what to do instead, for the refusal of parts that are staged meanwhile.
        """
        super().__init__(sinks, sink, context, batch, under_way)
        self._follower: Final[RemovalFollower] = follower
        self.messages = 0
        self._parts: Final[list[Part]] = [
            part for part in sink.parts.values() if batch == LAST_BATCH or part.key.batch == batch
        ]
        self._next = 0
        self._unit: Final[StoreUnit] = StoreUnit()

    def gather(self, end: int) -> bool:
        """Gather the ends of more parts, and drop all of them in a single step; see `SinkWork.gather`."""
        while self._next < len(self._parts):
            if self.steps >= end:
                return False
            part = self._parts[self._next]
            self.steps += self._ended.gather(part, self._unit, True)
            if self._ended.is_gathered:
                self._next += 1
                self.messages += part.messages
        records = self.records()
        if self._parts or records:
            self._sinks.take_removal(self._unit, records)
        self.on_stored()
        return True

    def on_refused(self, error: JmsError) -> None:
        """Answer a removal without effect."""
        self._follower.on_removal_refused(self, error)

    def on_end(self) -> None:
        """Answer the removal."""
        self._follower.on_removed(self)

    def records(self) -> list[MetadataRecord]:
        """Return the records that the store gets with the removal."""
        return []

    def on_stored(self) -> None:
        """Change the sink; the store has the change."""


class SinkTakeOver(PartRemoval):
    """The beginning of a new run of a sink. Parts staged by older epochs are dropped."""

    def __init__(
        self, follower: RemovalFollower, sinks: Sinks, sink: Sink, context: BrokerContext, run: str, target: str
    ) -> None:
        """Take the request; ``target`` is empty if the program says nothing of it."""
        under_way = f"run {run} takes sink {sink.query} over: stop this run, which may stage nothing any more"
        super().__init__(follower, sinks, sink, context, LAST_BATCH, under_way)
        self._run: Final[str] = run
        self._target: Final[str] = target if target else sink.target
        self._past: Final[list[str]] = with_past(sink.run, sink.past_runs)

    def records(self) -> list[MetadataRecord]:
        """Return the ledger of the new epoch."""
        sink = self.sink
        return [sink.metadata_record(sink.epoch + 1, self._run, self._past, sink.batch, self._target)]

    def on_stored(self) -> None:
        """Begin the new epoch."""
        sink = self.sink
        sink.epoch += 1
        sink.run = self._run
        sink.past_runs = self._past
        sink.target = self._target


class SinkEnd(PartRemoval):
    """The end of a sink that is forgotten with all its parts."""

    def __init__(self, follower: RemovalFollower, sinks: Sinks, sink: Sink, context: BrokerContext) -> None:
        under_way = f"sink {sink.query} is being forgotten: begin it again before more is staged"
        super().__init__(follower, sinks, sink, context, LAST_BATCH, under_way)

    def records(self) -> list[MetadataRecord]:
        """Return the end of the ledger."""
        return [MetadataRecord(SINK_LEDGERS, self.sink.query.encode("ascii"), None)]

    def on_end(self) -> None:
        """Forget the sink, and answer."""
        self._sinks.remove(self.sink)
        super().on_end()


def abort_of(follower: RemovalFollower, sinks: Sinks, sink: Sink, context: BrokerContext, batch: int) -> PartRemoval:
    """Return the abort of ``batch``."""
    under_way = f"batch {batch} of sink {sink.query} is being aborted: stage for it once the abort is answered"
    return PartRemoval(follower, sinks, sink, context, batch, under_way)
