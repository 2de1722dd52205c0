"""Spans of batches, in the tracer of a program that has configured OpenTelemetry.

Loaded only in such a program; `spanwire.client.io.tracing_switch` asks.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from spanwire import __version__

SCOPE: Final = "spanwire.pipeline"
NANOSECONDS: Final = 1_000_000  # of a millisecond


class BatchSpans:
    """Makes a span of each batch with rows, from Spark's report at its end."""

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        """``provider`` is the program's own without one."""
        self._tracer: Final = trace.get_tracer(SCOPE, __version__, provider)
        self._last: Final[dict[str, int]] = {}  # the last batch by query

    def on_batch(self, name: str, batch: int, rows: int, began: str, duration_ms: int) -> None:
        """Make the span of one batch; a second report of it makes none.

        Args:
            name: the name of the query.
            batch: the number of the batch.
            rows: the rows that the batch has read.
            began: the time of its trigger in ISO 8601, as Spark reports it.
            duration_ms: the time from its trigger to its end.
        """
        if batch <= self._last.get(name, -1):
            return
        self._last[name] = batch
        start = int(datetime.fromisoformat(began).timestamp() * 1000) * NANOSECONDS
        span = self._tracer.start_span(
            f"process {name}",
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "activemq",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.batch.message_count": rows,
                "messaging.spanwire.pipeline.name": name,
                "messaging.spanwire.pipeline.batch": batch,
            },
            start_time=start,
        )
        span.end(start + duration_ms * NANOSECONDS)
