"""Removal of the staged parts of a sink, a slice at a time.

Causes are an abort, a new run or the end of the sink.

All parts, and the records that go with their removal, are one unit of the store. Gathering has no visible effect. The
call to the store is the single step in which the parts are dropped; the memory forgets them afterwards.
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
FORGOTTEN_IN_STEP: Final = 4  # parts that are forgotten in the time of one step

GATHERING: Final = 0
FORGETTING: Final = 1
OVER: Final = 2


class EndedParts:
    """Parts that end with a unit of the store.

    The ends are gathered, and the parts are forgotten behind the unit's call.
    """

    def __init__(self, sinks: Sinks, sink: Sink) -> None:
        self._sinks: Final[Sinks] = sinks
        self._sink: Final[Sink] = sink
        self._parts: Final[list[Part]] = []
        self._forgotten = 0

    def clear(self) -> None:
        """Begin again, with a new unit."""
        self._parts.clear()

    def gather(self, part: Part, unit: StoreUnit, with_copies: bool) -> int:
        """Add the end of a part to the unit and return the number of steps.

        Args:
            with_copies: True if the copies are removed; False if the unit moves them elsewhere.
        """
        unit.add_metadata(part.end())
        self._parts.append(part)
        if not with_copies:
            return 1
        unit.remove_all(staging_destination(part.number), part.sequences)
        return 1 + len(part.sequences) // REMOVED_IN_STEP

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


class RemovalFollower(Protocol):
    """Answers the request, and goes on with those that waited for the removal."""

    def on_removed(self, removal: PartRemoval) -> None:
        """Answer a removal that the store has."""
        ...

    def on_removal_refused(self, removal: PartRemoval, error: JmsError) -> None:
        """Answer a removal without effect."""
        ...


class PartRemoval(Job):
    """The abort of a batch; subclasses remove all parts of the sink.

    Attributes:
        steps: the work so far.
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
            under_way: the work, for the refusal of parts that are staged meanwhile.
        """
        self._follower: Final[RemovalFollower] = follower
        self._sinks: Final[Sinks] = sinks
        self.sink: Final[Sink] = sink
        self._context: Final[BrokerContext] = context
        self._batch: Final[int] = batch
        self._under_way: Final[str] = under_way
        self.steps = 0
        self.messages = 0
        self._stage = GATHERING
        self._parts: Final[list[Part]] = [
            part for part in sink.parts.values() if batch == LAST_BATCH or part.key.batch == batch
        ]
        self._next = 0
        self._unit: Final[StoreUnit] = StoreUnit()
        self._ended: Final[EndedParts] = EndedParts(sinks, sink)

    def begin(self) -> None:
        """Do the first slice. A few parts are removed with it."""
        self.sink.close(self._batch, self._under_way)
        if self.work():
            self._context.schedule(self)
        self._context.steps += self.steps

    def work(self) -> bool:
        """Do one slice; see `Job.work`."""
        try:
            is_over = self._go_on(self.steps + JOB_STEPS)
        except JmsError as refused:  # the names differ because a compiled variable has one type
            self._refuse(refused)
            return False
        except Exception as error:
            self._refuse(JmsError(f"the broker failed in the middle of a removal: {type(error).__name__}"))
            raise
        if not is_over:
            return True
        self._end()
        return False

    def _go_on(self, end: int) -> bool:
        """Go on up to ``end`` steps, and return True at the end."""
        if self._stage == GATHERING:
            while self._next < len(self._parts):
                if self.steps >= end:
                    return False
                part = self._parts[self._next]
                self._next += 1
                self.steps += self._ended.gather(part, self._unit, True)
                self.messages += part.messages
            self._hand_over()
            self._stage = FORGETTING
        self.steps += self._ended.forget(end - self.steps)
        return self._ended.are_forgotten()

    def _hand_over(self) -> None:
        """Drop the parts, in a single step."""
        records = self.records()
        if self._parts or records:
            self._sinks.take_removal(self._unit, records)
        self.on_stored()

    def _refuse(self, error: JmsError) -> None:
        """Leave everything as it was, or, if the store has the removal already, complete it at once."""
        if self._stage == FORGETTING:
            self._ended.forget_all()
            self._end()
            return
        self._stage = OVER
        self.sink.reopen()
        self._follower.on_removal_refused(self, error)

    def _end(self) -> None:
        self._stage = OVER
        self.sink.reopen()
        self.on_end()
        self._follower.on_removed(self)

    def records(self) -> list[MetadataRecord]:
        """Return the records that the store gets with the removal."""
        return []

    def on_stored(self) -> None:
        """Change the sink; the store has the change."""

    def on_end(self) -> None:
        """Finish the change: all parts are forgotten."""


class SinkTakeOver(PartRemoval):
    """The beginning of a new run of a sink. Parts staged by older epochs are dropped."""

    def __init__(
        self, follower: RemovalFollower, sinks: Sinks, sink: Sink, context: BrokerContext, run: str, target: str
    ) -> None:
        """Take the request; ``target`` is empty if the program says nothing of it."""
        super().__init__(follower, sinks, sink, context, LAST_BATCH, f"run {run} takes sink {sink.query} over")
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
        super().__init__(follower, sinks, sink, context, LAST_BATCH, f"sink {sink.query} is being forgotten")

    def records(self) -> list[MetadataRecord]:
        """Return the end of the ledger."""
        return [MetadataRecord(SINK_LEDGERS, self.sink.query.encode("ascii"), None)]

    def on_end(self) -> None:
        """Forget the sink."""
        self._sinks.remove(self.sink)


def abort_of(follower: RemovalFollower, sinks: Sinks, sink: Sink, context: BrokerContext, batch: int) -> PartRemoval:
    """Return the abort of ``batch``."""
    return PartRemoval(follower, sinks, sink, context, batch, f"batch {batch} of sink {sink.query} is being aborted")
