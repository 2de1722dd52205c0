"""Spans of a pipeline's batches, in the tracer of the program."""

from __future__ import annotations

from uuid import UUID

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryProgress

from spanwire.pipeline.watch import listener as watched
from spanwire.pipeline.watch.batch_spans import BatchSpans
from spanwire.pipeline.watch.status import RouteStatus

START_MS = 1_769_860_800_250


def progress(batch: int, durations: dict[str, int], rows: int = 7) -> QueryProgressEvent:
    """Spark's report of a query."""
    return QueryProgressEvent(
        StreamingQueryProgress.fromJson(
            {"id": str(UUID(int=1)), "runId": str(UUID(int=2)), "name": "orders",
             "timestamp": "2026-01-31T12:00:00.250Z", "batchId": batch,
             "batchDuration": 40, "durationMs": durations, "numInputRows": rows, "inputRowsPerSecond": 1.0,
             "processedRowsPerSecond": 1.0, "stateOperators": [], "eventTime": {}, "sources": [],
             "sink": {"description": "noop", "numOutputRows": -1}}
        )
    )  # fmt: skip


def spans_of(monkeypatch: pytest.MonkeyPatch, *events: QueryProgressEvent) -> tuple[ReadableSpan, ...]:
    """The spans that a listener makes of reports."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(watched, "_batch_spans", lambda: BatchSpans(provider))
    listener = watched.PipelineListener("nightly")
    listener._board.add(RouteStatus("orders"))
    for event in events:
        listener.onQueryProgress(event)
    listener.close()
    return tuple(exporter.get_finished_spans())


def test_a_batch_is_a_span_from_its_trigger_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    worked = {"addBatch": 30, "triggerExecution": 40}
    (span,) = spans_of(monkeypatch, progress(1, worked), progress(1, worked))
    assert span.name == "process orders"
    assert (span.start_time, span.end_time) == (START_MS * 1_000_000, (START_MS + 40) * 1_000_000)
    assert span.parent is None
    assert dict(span.attributes or {}) == {
        "messaging.system": "activemq", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.batch.message_count": 7, "messaging.spanwire.pipeline.name": "orders",
        "messaging.spanwire.pipeline.batch": 1,
    }  # fmt: skip


def test_an_empty_poll_is_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert spans_of(monkeypatch, progress(1, {"latestOffset": 1}, 0)) == ()


def test_a_program_without_opentelemetry_makes_no_spans() -> None:
    listener = watched.PipelineListener("nightly")
    assert listener._spans is None
    listener.close()
