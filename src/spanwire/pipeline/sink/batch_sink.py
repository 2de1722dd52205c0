"""What a sink that takes every batch once has to do: stage each partition where nobody sees it, then commit the batch.

Tasks call `BatchSink.stage`, each in a process of its own, maybe several times for the same partition; the driver calls
`BatchSink.commit` with what the attempts that count have staged. A batch that Spark repeats after a crash is staged
again and committed again, and the second commit must find that the first was done.
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
    """One batch of a query: the query's name, the same after each restart; its run, another one after each; the number
    of the batch, which rises and may have gaps.
    """

    query: str
    run: str
    number: int


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What one attempt of one partition has staged. ``epoch``, ``attempt`` and ``branch`` are for the sink to find it;
    plain values, for Spark pickles it.
    """

    partition: int
    count: int
    epoch: int = 0
    attempt: int = 0
    branch: str = NO_BRANCH


class BatchSink(Protocol):
    """A broker, or two ways to the same one: of a task and of the driver. For one thread."""

    def stage(self, batch: Batch, partition: int, attempt: int, rows: Iterable[Outgoing]) -> StagedPart:
        """Keep the rows of an attempt until the commit; they are safe when this returns. Raises `JmsError`, and then
        nothing of them counts.
        """
        ...

    def commit(self, batch: Batch, parts: Sequence[StagedPart]) -> bool:
        """Deliver the rows of these parts, and of nothing else that was staged for the batch; False when the batch was
        delivered before. Raises `JmsError` when that is not sure, and it is to be called again with whatever a repeated
        batch has staged; `ConfigurationError` when it will never be done.
        """
        ...

    def close(self) -> None:
        """Leave the broker. Raises nothing."""
        ...


def check_first(batch: Batch, last: int | None, first: int) -> None:
    """Refuse to begin in the middle: a sink that has seen no batch of a query, though Spark has committed some of it,
    is not the one that the query has written to. ``last`` is the last batch that it has seen, None for none. Raises
    `ConfigurationError`.
    """
    if last is None and batch.number > first:
        raise ConfigurationError(
            f"spanwire: this broker has no ledger of the query {batch.query}, which is at batch {batch.number}: its "
            "checkpoint was used with another broker or without once-only, or the ledger was removed; if all batches "
            f'before are where they belong, set .option("firstLedgerBatch", "{batch.number}")'
        )
