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

    def on_batch(self, name: str, batch: int, rows: int, began: str, duration_ms: int) -> None:
        """Make the span of one batch.

        Args:
            name: the name of the query.
            batch: the number of the batch.
            rows: the rows that the batch has read; without any there is no span.
            began: the time of its trigger in ISO 8601, as Spark reports it.
            duration_ms: the time from its trigger to its end.
        """
        if rows <= 0:
            return
        start = int(datetime.fromisoformat(began).timestamp() * 1000) * NANOSECONDS
        span = self._tracer.start_span(
            f"process {name}",
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "activemq",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.batch.message_count": rows,
                "spanwire.pipeline.name": name,
                "spanwire.pipeline.batch": batch,
            },
            start_time=start,
        )
        span.end(start + duration_ms * NANOSECONDS)
