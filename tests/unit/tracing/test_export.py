"""The thread that sends notes: a collector that is away, slow or refuses costs spans, and nothing else."""

from __future__ import annotations

import logging
import threading
from typing import Final

import pytest

from spanwire.model.observation.span_records import SEND, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import TraceContext
from spanwire.tracing.collector import OtlpCollector
from spanwire.tracing.export import ABORT_S, MAX_BATCH, SpanExport
from spanwire.tracing.switch import span_export
from tests.support.otlp_receiver import OtlpReceiver

LOGGER: Final = "spanwire.tracing.export"
SOON_S: Final = 0.001


def note(number: int) -> SpanRecord:
    return SpanRecord(SEND, TraceContext("a" * 32, "b" * 16), "", 1, 2, "queue://Q", str(number))


def notes(count: int, limit: int = 10_000) -> SpanRecords:
    records = SpanRecords(limit)
    for number in range(count):
        records.add(note(number))
    return records


class FakeCollector:
    """Duck-typed to `spanwire.tracing.export.Collector`: fails with the given reasons, then takes all."""

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)
        self.batches: list[int] = []
        self.closed = threading.Event()
        self.sent = threading.Semaphore(0)

    def send(self, records: list[SpanRecord]) -> str:
        self.batches.append(len(records))
        self.sent.release()
        return self.reasons.pop(0) if self.reasons else ""

    def close(self) -> None:
        self.closed.set()


class SlowCollector(FakeCollector):
    """Answers when it is closed."""

    def send(self, records: list[SpanRecord]) -> str:
        super().send(records)
        self.closed.wait()
        return "closed"


def test_notes_are_sent_in_batches_and_the_last_ones_at_the_end() -> None:
    collector = FakeCollector()
    export = SpanExport(notes(MAX_BATCH + 1), collector)
    export.start()
    export.stop()
    assert collector.batches == [MAX_BATCH, 1]
    assert (export.sent, export.dropped) == (MAX_BATCH + 1, 0)
    assert collector.closed.is_set()
    export.stop()


def test_failures_are_logged_once_and_so_is_their_end(caplog: pytest.LogCaptureFixture) -> None:
    collector = FakeCollector("it is away", "it is still away")
    records = SpanRecords()
    export = SpanExport(records, collector, SOON_S)
    with caplog.at_level(logging.INFO, LOGGER):
        export.start()
        for number in range(3):
            records.add(note(number))
            assert collector.sent.acquire(timeout=30)
        export.stop()
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "the collector does not take spans, which are dropped until it does: it is away",
        "the collector takes spans again; 2 were dropped",
        "1 spans were sent, 2 were dropped",
    ]
    assert (export.sent, export.lost) == (1, 2)


class RaisingCollector(FakeCollector):
    """Raises at its first two batches."""

    def send(self, records: list[SpanRecord]) -> str:
        super().send(records)
        if len(self.batches) < 3:
            raise ValueError("it is\nbroken")
        return ""


def test_an_exporter_that_raises_is_one_line_and_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    collector = RaisingCollector()
    records = SpanRecords()
    export = SpanExport(records, collector, SOON_S)
    with caplog.at_level(logging.WARNING, LOGGER):
        export.start()
        for number in range(3):
            records.add(note(number))
            assert collector.sent.acquire(timeout=30)
        export.stop()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ValueError: it is" in line and "\n" not in line
    assert (export.sent, export.lost) == (1, 2)


def test_a_collector_that_never_answers_holds_up_neither_notes_nor_the_stop() -> None:
    collector = SlowCollector()
    records = notes(5, limit=5)
    export = SpanExport(records, collector, SOON_S, stop_s=SOON_S)
    export.start()
    assert collector.sent.acquire(timeout=30)
    for number in range(20):
        records.add(note(number))
    assert (len(records), records.dropped) == (5, 15)
    stopper = threading.Thread(target=export.stop)
    stopper.start()
    stopper.join(ABORT_S + 20)
    assert not stopper.is_alive()
    assert collector.closed.is_set()


@pytest.mark.large
@pytest.mark.parametrize("status", [400, 429, 500])
def test_a_collector_that_refuses_is_reported_in_one_line(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver(status) as receiver, caplog.at_level(logging.DEBUG):
        export = SpanExport(notes(3), OtlpCollector("spanwire.test", "here", receiver.endpoint), SOON_S, 0.2)
        export.start()
        receiver.awaits_requests(1)
        export.stop()
    words = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(words) == 1
    assert words[0].startswith("the collector does not take spans, which are dropped until it does: ")
    assert (export.sent, export.lost, receiver.spans) == (0, 3, [])


def test_a_collector_that_is_away_is_reported_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpReceiver() as receiver:
        endpoint = receiver.endpoint
    with caplog.at_level(logging.DEBUG):
        export = SpanExport(notes(1), OtlpCollector("spanwire.test", "here", endpoint), stop_s=0.2)
        export.start()
        export.stop()
    words = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(words) == 1
    assert export.lost == 1


def test_the_environment_names_service_headers_and_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        export = span_export(notes(1), "spanwire.test", "here")
        export.start()
        export.stop()
    (span,) = receiver.spans
    assert span.resource["service.name"] == "orders-broker"
    assert span.resource["service.instance.id"] == "here"
    assert span.resource["deployment.environment.name"] == "test"
    assert {name.lower(): value for name, value in receiver.headers[0].items()}["api-key"] == "s3cret"
    assert b"s3cret" not in receiver.bodies[0]
