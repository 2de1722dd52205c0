"""The stream writer: at least once. A batch that Spark tries again is sent again, with the same ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from spanwire.pipeline.datasource.writer import Sent, send_partition
from spanwire.pipeline.link.batch_sender import batch_name
from spanwire.pipeline.options import write_options

# Names that Spark gives to what a task knows of its batch.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"


class SpanwireStreamWriter(DataSourceStreamArrowWriter):
    """Sends the rows of each batch. Broker and checkpoint keep nothing of it, so a consumer tells doubles by their id:
    ``queryId/batchId/partition/index`` is the same in every try as long as the rows of a partition are.
    """

    def __init__(self, option_map: dict[str, str]) -> None:
        self._option_map = option_map

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Sent:
        """The rows of one partition of one batch."""
        job = ""
        if write_options(self._option_map).duplicate_id_property is not None:
            context = TaskContext.get()
            job = batch_name(context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID))
        return send_partition(self._option_map, job, iterator)
