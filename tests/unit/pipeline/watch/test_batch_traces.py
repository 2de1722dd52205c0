"""Notes of batches for traces, from Spark's reports."""

from __future__ import annotations

from pyspark.sql import Row

from spanwire.model.observation.span_records import PROCESS, SpanRecord, SpanRecords
from spanwire.pipeline.watch.batch_traces import METRIC, BatchTraces, links_of, tracing_batches
from spanwire.pipeline.watch.board import StatusBoard
from spanwire.pipeline.watch.route_watch import RouteWatch
from spanwire.pipeline.watch.status import RouteStatus

ONE = f"00-{'1' * 32}-{'2' * 16}-01"
OTHER = f"00-{'3' * 32}-{'4' * 16}-01"


def progress(batch: int, rows: int = 7, **metrics: object) -> dict[str, object]:
    """Spark's report of a batch that began a quarter of a second after a full one."""
    return {
        "batchId": batch, "timestamp": "2026-01-31T12:00:00.250Z", "numInputRows": rows,
        "durationMs": {"addBatch": 30, "triggerExecution": 40} if rows else {"latestOffset": 1},
        "observedMetrics": {METRIC: Row(**metrics)} if metrics else {},
    }  # fmt: skip


def noted(*reports: dict[str, object]) -> list[SpanRecord]:
    """The notes of a route that gets reports."""
    records = SpanRecords()
    board = StatusBoard("routes.yaml", "run", "host", 0)
    board.add(RouteStatus("orders"))
    watch = RouteWatch(board, "orders", lambda: 1_000, traces=BatchTraces(records))
    for report in reports:
        watch.on_progress(report)
    return records.take(10)


def test_a_batch_is_noted_from_its_trigger_to_its_end() -> None:
    (record,) = noted(progress(3, least_0=ONE, greatest_0=ONE, least_1=None))
    assert (record.step, record.end_ms - record.start_ms, record.start_ms) == (PROCESS, 40, 1_769_860_800_250)
    assert record.is_root
    assert record.attributes == {
        "messaging.spanwire.pipeline.name": "orders", "messaging.spanwire.pipeline.batch": 3,
        "messaging.batch.message_count": 7,
    }  # fmt: skip
    assert [link.traceparent() for link in record.links] == [ONE]


def test_each_batch_is_noted_once_in_a_trace_of_its_own_and_an_empty_poll_is_none() -> None:
    records = noted(progress(3), progress(3), progress(4, rows=0), progress(4))
    assert [record.attributes["messaging.spanwire.pipeline.batch"] for record in records] == [3, 4]
    assert len({record.context.trace_id for record in records}) == 2


def test_a_context_of_several_buckets_is_one_link_and_others_than_contexts_are_none() -> None:
    found = links_of(progress(0, least_0=OTHER, greatest_0=ONE, least_1=ONE, greatest_1="no context"))
    assert [link.traceparent() for link in found] == [ONE, OTHER]


def test_a_report_of_rows_without_contexts_has_no_links() -> None:
    assert links_of(progress(0)) == []
    assert links_of({"observedMetrics": {METRIC: 7}}) == []


def test_a_process_without_a_collector_notes_nothing() -> None:
    with tracing_batches({}, "routes.yaml") as traces:
        assert traces is None
