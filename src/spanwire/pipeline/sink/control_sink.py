"""Exactly-once sink for Spanwire, by its control destination.

The broker itself keeps the ledger: the last committed batch and run of each query. It refuses a late commit or attempt
of an older run. All rows of a batch become visible at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.link.control_answers import BegunSink, CommitResult, FencedError, OtherTargetError, Part
from spanwire.pipeline.sink.batch_sink import Batch, BatchSink, StagedPart, check_first
from spanwire.pipeline.sink.xa_ledger_sink import MANY_TARGETS


class SinkControl(Protocol):
    """The requests of `spanwire.pipeline.link.control_client.Control` for sinks."""

    def begin(self, query: str, run: str, target: str = "") -> BegunSink:
        """Create or take over the sink for the target."""
        ...

    def stage(
        self, query: str, epoch: int, batch: int, partition: int, attempt: int, messages: Iterable[Outgoing]
    ) -> Part:
        """Stage the messages of one attempt of one partition."""
        ...

    def commit(self, query: str, epoch: int, batch: int, parts: Iterable[Part]) -> CommitResult:
        """Make the batch visible, once."""
        ...

    def drop(self, query: str) -> None:
        """Remove the sink with all staged messages, if there is one."""
        ...


class ControlSink(BatchSink):
    """A sink in the broker."""

    def __init__(self, control: SinkControl, target: str, first: int, close: Callable[[], None]) -> None:
        """Create a sink for a target.

        Args:
            target: the destination of the rows; empty if each row names a destination.
            first: the number of the batch that may be the first of the sink.
            close: closes the connection.
        """
        self._control: Final[SinkControl] = control
        self._target: Final[str] = target
        self._first: Final[int] = first
        self._close: Final[Callable[[], None]] = close

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """Stage the rows at the broker, under the epoch of the run.

        Raises:
            ConfigurationError: the run was superseded, or the query wrote to another target before.
        """
        try:
            begun = self._control.begin(batch.query, batch.run, self._target or MANY_TARGETS)
            check_first(batch, begun.last_batch if begun.last_batch >= 0 else None, self._first)
            staged = self._control.stage(batch.query, begun.epoch, batch.number, partition, attempt, rows)
        except FencedError as error:
            raise _superseded_error(batch, error) from None
        except OtherTargetError as error:
            raise ConfigurationError(
                f"spanwire: the query {batch.query} wrote to another target before; give it a checkpoint of its own "
                f"({error})"
            ) from None
        return StagedPart(partition, staged.messages, begun.epoch, staged.attempt)

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """Commit at the broker; return False if the batch was committed before.

        Raises:
            ConfigurationError: the run was superseded.
        """
        if not parts:
            return True
        epoch = min(part.epoch for part in parts)
        try:
            outcome = self._control.commit(batch.query, epoch, batch.number, _parts(parts))
        except FencedError as error:
            raise _superseded_error(batch, error) from None
        return not outcome.repeated

    def forget(self, query: str) -> None:
        """Remove the sink of the query at its present epoch."""
        self._control.drop(query)

    def close(self) -> None:
        """Close the connection."""
        self._close()


def _parts(parts: Sequence[StagedPart]) -> Iterator[Part]:
    """Yield the parts with messages."""
    for part in parts:
        if part.count:
            yield Part(part.partition, part.attempt, part.count)


def _superseded_error(batch: Batch, error: FencedError) -> ConfigurationError:
    return ConfigurationError(
        f"spanwire: the query {batch.query} was started again elsewhere with the same checkpoint; this run must "
        f"stop ({error})"
    )
