"""The batch writer: each partition is sent in transactions, each message with an id that names its row."""

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
    """How many messages a task has sent."""

    count: int


class SpanwireWriter(DataSourceArrowWriter):
    """Sends the rows of a DataFrame. A task that is tried again sends its messages again, with the same ids; so does a
    write that is repeated under the same option duplicateIdPrefix.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map
        self._job = write_options(option_map).duplicate_id_prefix or f"{uuid.uuid4().hex}/0"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """The rows of one partition. Raises `SpanwireError` in one line; what is not committed then was never sent."""
        return send_partition(self._option_map, self._job, iterator)


def send_partition(option_map: dict[str, str], job: str, batches: Iterator[pa.RecordBatch]) -> Sent:
    """Send all rows of the partition of this task, with ids ``job/partition/index``."""
    options: WriteOptions = write_options(option_map)
    partition: int = TaskContext.get().partitionId()
    rows = RowReader(options, f"{job}/{partition}")
    outgoing = chain.from_iterable(rows.rows(batch) for batch in batches)
    LOADED_MODULES.freeze()
    with RARE_COLLECTIONS:
        return Sent(send_all(options, lambda: produce(options), outgoing))
