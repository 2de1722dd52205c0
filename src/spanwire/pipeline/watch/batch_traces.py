"""Spans of the batches of routes, each with links to traced messages of its batch.

The driver sees no message. So Spark gathers the contexts beside the rows, as metrics that the query observes: no job of
its own reads them. Such a metric must not depend on the order of rows, which a list does. So the contexts fall into
buckets by their hash, and the least and the greatest of each bucket are kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812

from spanwire.model.observation.span_records import PROCESS, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import TRACEPARENT, TraceContext, parse_traceparent
from spanwire.pipeline.watch.progress import batch_of, duration_ms_of, rows_of
from spanwire.tracing.switch import is_switched_on, span_export

SCOPE: Final = "spanwire.pipeline"
METRIC: Final = "spanwire_traces"
PROPERTIES: Final = "properties"
BUCKETS: Final = 64  # with two contexts each these are 128 links, as many as OpenTelemetry's SDK keeps of a span
SAMPLED: Final = "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]"  # the flag is the last bit
PIPELINE: Final = "messaging.spanwire.pipeline.name"
BATCH: Final = "messaging.spanwire.pipeline.batch"
ROWS: Final = "messaging.batch.message_count"


def observed(frame: DataFrame) -> DataFrame:
    """Return the rows of a broker, with a metric of each batch for `links_of`."""
    if PROPERTIES not in frame.columns:
        return frame
    text = F.try_variant_get(F.col(PROPERTIES)[TRACEPARENT], "$", "string")
    context = F.when(text.rlike(SAMPLED), text)
    bucket = F.pmod(F.xxhash64(context), F.lit(BUCKETS))
    kept = [F.when(bucket == number, context) for number in range(BUCKETS)]
    least = [F.min(one).alias(f"least_{number}") for number, one in enumerate(kept)]
    greatest = [F.max(one).alias(f"greatest_{number}") for number, one in enumerate(kept)]
    return frame.observe(METRIC, *least, *greatest)


def links_of(progress: Mapping[str, object]) -> list[TraceContext]:
    """Return the contexts that a batch has gathered, each once."""
    metrics = progress.get("observedMetrics")
    values = metrics.get(METRIC) if isinstance(metrics, Mapping) else None
    if isinstance(values, Row):
        values = values.asDict()
    if not isinstance(values, Mapping):
        return []
    contexts = (parse_traceparent(text) for text in sorted({text for text in values.values() if isinstance(text, str)}))
    return [context for context in contexts if context is not None]


class BatchTraces:
    """Notes a span for each batch."""

    def __init__(self, records: SpanRecords) -> None:
        self._records: Final = records

    def on_batch(self, route: str, progress: Mapping[str, object]) -> None:
        """Note the batch of a report of Spark, from its trigger to its end."""
        start_ms = int(datetime.fromisoformat(str(progress["timestamp"])).timestamp() * 1000)
        root = TraceContext(os.urandom(16).hex(), os.urandom(8).hex())
        record = SpanRecord(PROCESS, root, root.span_id, start_ms, start_ms + duration_ms_of(progress), "", "")
        record.attributes[PIPELINE] = route
        record.attributes[BATCH] = batch_of(progress)
        record.attributes[ROWS] = rows_of(progress)
        record.links = links_of(progress)
        self._records.add(record)


@contextmanager
def tracing_batches(environment: Mapping[str, str], instance: str) -> Iterator[BatchTraces | None]:
    """Send the spans of this process inside the context, if the environment names a collector.

    Raises:
        ConfigurationError: the extra ``tracing`` is not installed, or a variable of the environment is refused.
    """
    if not is_switched_on(environment):
        yield None
        return
    export = span_export(SpanRecords(), SCOPE, instance)
    export.start()
    try:
        yield BatchTraces(export.records)
    finally:
        export.stop()
