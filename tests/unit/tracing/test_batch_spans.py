"""Spans of a pipeline's batches, in the tracer of the program."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spanwire.pipeline.watch.batch_spans import BatchSpans


def spans_of(*rows: int) -> tuple[ReadableSpan, ...]:
    """The spans of batches with these numbers of rows."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = BatchSpans(provider)
    for batch, count in enumerate(rows):
        spans.on_batch("orders", batch, count, "2026-01-31T12:00:00.250Z", 40)
    return tuple(exporter.get_finished_spans())


def test_a_batch_with_rows_is_a_span_from_its_trigger_to_its_end() -> None:
    (span,) = spans_of(0, 7)
    start_ms = 1_769_860_800_250
    assert span.name == "process orders"
    assert (span.start_time, span.end_time) == (start_ms * 1_000_000, (start_ms + 40) * 1_000_000)
    assert span.parent is None
    assert dict(span.attributes or {}) == {
        "messaging.system": "activemq", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.batch.message_count": 7, "spanwire.pipeline.name": "orders", "spanwire.pipeline.batch": 1,
    }  # fmt: skip


def test_an_empty_poll_is_no_batch() -> None:
    assert spans_of(0, 0) == ()
