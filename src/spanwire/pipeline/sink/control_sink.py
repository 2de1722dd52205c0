"""Once and only once into Spanwire: staged and committed by its control destination.

The broker keeps the ledger itself: which batch of a query was committed last, and in which run. A late commit or a late
attempt of an older run is refused; the rows of a batch appear all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.link.control_client import BegunSink, CommitResult, FencedError, OtherTargetError, Part
from spanwire.pipeline.sink.batch_sink import Batch, BatchSink, StagedPart, check_first
from spanwire.pipeline.sink.xa_ledger_sink import MANY_TARGETS


class SinkControl(Protocol):
    """The part of `spanwire.pipeline.link.control_client.Control` that is about sinks."""

    def begin(self, query: str, run: str, target: str = "") -> BegunSink:
        """Make or take over the sink, which sends to the target."""
        ...

    def stage(
        self, query: str, epoch: int, batch: int, partition: int, attempt: int, messages: Iterable[Outgoing]
    ) -> Part:
        """Stage the messages of one attempt of one partition."""
        ...

    def commit(self, query: str, epoch: int, batch: int, parts: Iterable[Part]) -> CommitResult:
        """Make the batch visible, once."""
        ...


class ControlSink(BatchSink):
    """A sink of the broker."""

    def __init__(self, control: SinkControl, target: str, first: int, close: Callable[[], None]) -> None:
        """``target``: where the rows go, empty when each says so itself. ``first``: the batch that may be the sink's
        first. ``leave`` closes the connection.
        """
        self._control: Final[SinkControl] = control
        self._target: Final[str] = target
        self._first: Final[int] = first
        self._close: Final[Callable[[], None]] = close

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """At the broker, under the epoch of the run. Raises `ConfigurationError` for a run that is over, and for a
        target that is not the one of before.
        """
        try:
            begun = self._control.begin(batch.query, batch.run, self._target or MANY_TARGETS)
            check_first(batch, begun.last_batch if begun.last_batch >= 0 else None, self._first)
            staged = self._control.stage(batch.query, begun.epoch, batch.number, partition, attempt, rows)
        except FencedError as error:
            raise _superseded_error(batch, error) from None
        except OtherTargetError as error:
            raise ConfigurationError(
                f"spanwire: the query {batch.query} wrote elsewhere before; give it a checkpoint of its own ({error})"
            ) from None
        return StagedPart(partition, staged.messages, begun.epoch, staged.attempt)

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """By the broker; of an older run it takes none. Raises `ConfigurationError` for such a one."""
        if not parts:
            return True
        epoch = min(part.epoch for part in parts)
        try:
            outcome = self._control.commit(batch.query, epoch, batch.number, _parts(parts))
        except FencedError as error:
            raise _superseded_error(batch, error) from None
        return not outcome.repeated

    def close(self) -> None:
        """Leave the broker."""
        self._close()


def _parts(parts: Sequence[StagedPart]) -> Iterator[Part]:
    """Those with messages."""
    for part in parts:
        if part.count:
            yield Part(part.partition, part.attempt, part.count)


def _superseded_error(batch: Batch, error: FencedError) -> ConfigurationError:
    return ConfigurationError(
        f"spanwire: the query {batch.query} was started again elsewhere with the same checkpoint; this run may not go "
        f"on ({error})"
    )
