"""The notes for an exporter: in order, bounded, and what is above the limit is counted."""

from __future__ import annotations

from spanwire.model.observation.span_records import SEND, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import TraceContext


def note(number: int) -> SpanRecord:
    return SpanRecord(SEND, TraceContext("a" * 32, "b" * 16), "", 0, 0, "queue://Q", str(number))


def test_notes_are_taken_in_their_order_and_once() -> None:
    records = SpanRecords()
    for number in range(5):
        records.add(note(number))
    assert [record.message_id for record in records.take(3)] == ["0", "1", "2"]
    assert [record.message_id for record in records.take(3)] == ["3", "4"]
    assert records.take(3) == []


def test_notes_above_the_limit_are_dropped_and_counted() -> None:
    records = SpanRecords(limit=2)
    for number in range(5):
        records.add(note(number))
    assert (len(records), records.dropped) == (2, 3)
    records.take(1)
    records.add(note(9))
    assert [record.message_id for record in records.take(9)] == ["1", "9"]
    assert records.dropped == 3
