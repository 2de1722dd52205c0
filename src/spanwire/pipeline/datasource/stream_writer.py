"""Stream writer with at-least-once delivery.

A repeated batch is sent again with the same duplicate ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from spanwire.pipeline.datasource.writer import Sent, send_partition
from spanwire.pipeline.link.batch_sender import batch_name
from spanwire.pipeline.options import write_options

# Spark's names of the task properties for query and batch.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class SpanwireStreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of each batch with duplicate ids.

    Neither broker nor checkpoint records sent rows, so a consumer recognises duplicates by id. The id
    ``queryId/batchId/partition/index`` is the same in each attempt if the rows of the partition are the same.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """Send the rows of one partition of one batch."""
        job = ""
        if write_options(self._option_map).duplicate_id_property is not None:
            context = TaskContext.get()
            job = batch_name(context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID))
        return send_partition(self._option_map, job, iterator)
