"""Batch writer: sends each partition in transactions, with a duplicate id per row."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spanwire.pipeline.arrow.rows import RowReader
from spanwire.pipeline.link.batch_sender import send_all
from spanwire.pipeline.link.broker_link import produce
from spanwire.pipeline.options import WriteOptions, write_options
from spanwire.pipeline.spark.gc_tuning import LOADED_MODULES, RARE_COLLECTIONS


@dataclass(frozen=True)
class Sent(WriterCommitMessage):
    """The number of messages that a task has sent."""

    count: int


class SpanwireWriter(DataSourceArrowWriter):
    """Sends the rows of a DataFrame with duplicate ids.

    A repeated task, or a repeated write with the same option duplicateIdPrefix, sends its messages again with the same
    ids.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map
        self._job = write_options(option_map).duplicate_id_prefix or f"{uuid.uuid4().hex}/0"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of one partition.

        Raises:
            SpanwireError: a message was refused or the broker is lost; uncommitted messages are rolled back.
        """
        return send_partition(self._option_map, self._job, iterator)


def send_partition(option_map: dict[str, str], job: str, batches: Iterator[pa.RecordBatch]) -> Sent:
    """Send all rows of the partition of this task, with the ids ``job/partition/index``."""
    options: WriteOptions = write_options(option_map)
    partition: int = TaskContext.get().partitionId()
    rows = RowReader(options, f"{job}/{partition}")
    outgoing = chain.from_iterable(rows.rows(batch) for batch in batches)
    LOADED_MODULES.freeze()
    with RARE_COLLECTIONS:
        return Sent(send_all(options, lambda: produce(options), outgoing))
