"""Writers that take each batch once: tasks stage, the driver commits.

Spark creates a new writer for each batch, in the driver and in tasks, so the driver learns query and run from the
tasks. Spark names a batch of a stream; the options ledger and ledgerBatch name a batch of a DataFrame.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.rows import RowReader
from spanwire.pipeline.options import ONCE_AND_ONLY_ONCE, write_options
from spanwire.pipeline.sink.batch_sink import Batch, StagedPart
from spanwire.pipeline.sink.exactly_once import batch_of_stream, commit_parts, stage_part
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES, RARE_COLLECTIONS

# Spark's names of the task properties for query, batch and run.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
RUN_ID = "spark.jobGroup.id"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """The batch and part that a task has staged."""

    batch: Batch
    part: StagedPart


class ExactStreamWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a query once and only once, whichever process is killed.

    Staged rows of a failed batch stay until the next commit, because the writer cannot know of the failure.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one partition."""
        context = TaskContext.get()
        batch = batch_of_stream(
            context.getLocalProperty(QUERY_ID), context.getLocalProperty(RUN_ID), context.getLocalProperty(BATCH_ID)
        )
        return stage_rows(self._option_map, batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Deliver the batch unless it was delivered before."""
        commit_staged(self._option_map, messages)


class ExactWriter(DataSourceArrowWriter):
    """Writes each numbered batch of a series once and only once, for example in ``foreachBatch``."""

    def __init__(self, option_map: dict[str, str]) -> None:
        """Name the batch by the options.

        Raises:
            ConfigurationError: the options do not name the batch.
        """
        options = write_options(option_map)
        if options.ledger is None or options.ledger_batch is None:
            raise ConfigurationError(
                f"spanwire: {ONCE_AND_ONLY_ONCE} needs a name for this write, to recognise a repetition: set the "
                "options ledger, a name for a series of writes, and ledgerBatch, a rising number as in foreachBatch"
            )
        self._option_map = option_map
        self._batch = Batch(options.ledger, uuid.uuid4().hex, options.ledger_batch)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of one partition."""
        return stage_rows(self._option_map, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deliver the batch unless it was delivered before."""
        commit_staged(self._option_map, messages)


def stage_rows(option_map: dict[str, str], batch: Batch, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Stage the partition of a task.

    Raises:
        SpanwireError: staging failed; the error has one line.
    """
    options = write_options(option_map)
    context = TaskContext.get()
    partition: int = context.partitionId()
    rows = RowReader(options, f"{batch.query}/{batch.number}/{partition}")
    outgoing = chain.from_iterable(rows.rows(batch_rows) for batch_rows in batches)
    LOADED_MODULES.freeze()
    with RARE_COLLECTIONS:
        return Staged(batch, stage_part(options, batch, partition, context.taskAttemptId(), outgoing))


def commit_staged(option_map: dict[str, str], messages: list[WriterCommitMessage | None]) -> None:
    """Deliver the staged parts of all tasks.

    Raises:
        SpanwireError: the commit failed; the error has one line.
    """
    staged = [message for message in messages if isinstance(message, Staged)]
    if staged:
        commit_parts(write_options(option_map), staged[0].batch, [message.part for message in staged])
