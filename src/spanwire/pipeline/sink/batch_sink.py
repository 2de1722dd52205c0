"""Port of a sink that takes each batch once: stage each partition invisibly, then commit the batch.

Each task calls `BatchSink.stage` in its own process, possibly several times for one partition. The driver calls
`BatchSink.commit` with the parts of the attempts that count. A batch that Spark repeats after a crash is staged and
committed again; the second commit must recognise the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from spanwire.client.messages.message_encoder import Outgoing
from spanwire.model.errors import ConfigurationError

NO_BRANCH = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query.

    ``query`` is the same after each restart, ``run`` is new after each, and ``number`` rises, possibly with gaps.
    """

    query: str
    run: str
    number: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Rows of one partition, staged by one attempt.

    The sink identifies the rows by ``epoch``, ``attempt`` and ``branch``. All fields are plain values, because Spark
    pickles the part.
    """

    partition: int
    count: int
    epoch: int = 0
    attempt: int = 0
    branch: str = NO_BRANCH


class BatchSink(Protocol):
    """A broker, or two connections to it: of a task and of the driver; not thread-safe."""

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """Stage the rows of an attempt and wait until the broker has stored them.

        Raises:
            JmsError: staging failed; no row counts.
        """
        ...

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """Deliver the rows of ``parts``, and no other rows staged for the batch.

        Returns:
            False if the batch was delivered before.

        Raises:
            JmsError: the outcome is unknown; repeat the batch and commit its newly staged parts.
            ConfigurationError: the batch can never be committed.
        """
        ...

    def forget(self, query: str) -> None:
        """Remove what the broker keeps of a query that has ended: its last batch, and staged rows.

        Does nothing for a query of which the broker keeps nothing.

        Raises:
            JmsError: the broker is lost or refuses.
        """
        ...

    def close(self) -> None:
        """Disconnect from the broker. Raises nothing."""
        ...


def check_first(batch: Batch, last: int | None, first: int) -> None:
    """Refuse to begin in the middle of a query.

    If Spark has committed batches of a query and the sink has no batch of it, the query wrote to another sink.

    Args:
        last: the last batch in the sink, or ``None``.
        first: the number of the batch that may be the first.

    Raises:
        ConfigurationError: the sink has no batch, and this batch is later than ``first``.
    """
    if last is None and batch.number > first:
        raise ConfigurationError(
            f"spanwire: this broker has no ledger of the query {batch.query}, which is at batch {batch.number}: its "
            "checkpoint was used with another broker or without exactly-once, or the ledger was removed; if all "
            f'earlier batches were delivered, set .option("firstLedgerBatch", "{batch.number}")'
        )
