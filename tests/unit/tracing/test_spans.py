"""Spans of notes: the names and attributes of the conventions, parents and states."""

from __future__ import annotations

from typing import Any, Final

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from spanwire.model.observation.span_records import ACKNOWLEDGE, DISPATCH, FORWARD, PROCESS, SEND, STORE, SpanRecord
from spanwire.model.observation.trace_context import TraceContext
from spanwire.tracing.spans import SpanMaker, span_name

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
CONTEXT: Final = TraceContext(TRACE, SPAN, 1, "vendor=1, 2@other=2,vendor=3")


def span_of(record: SpanRecord) -> Any:
    (span,) = SpanMaker("spanwire.test", "here").spans([record])
    return span


def note(
    step: int, destination: str = "queue://ORDERS", span_id: str = "", context: TraceContext = CONTEXT
) -> SpanRecord:
    return SpanRecord(step, context, span_id, 1_000, 1_005, destination, "ID:a:1:1:1")


@pytest.mark.parametrize(
    ("step", "name", "kind", "operation_type"),
    [
        (SEND, "send ORDERS", SpanKind.SERVER, "send"),
        (STORE, "store ORDERS", SpanKind.INTERNAL, None),
        (DISPATCH, "dispatch ORDERS", SpanKind.INTERNAL, None),
        (FORWARD, "forward ORDERS", SpanKind.PRODUCER, "send"),
        (ACKNOWLEDGE, "acknowledge ORDERS", SpanKind.SERVER, "settle"),
    ],
)
def test_a_step_has_its_name_kind_and_type(step: int, name: str, kind: object, operation_type: str | None) -> None:
    span = span_of(note(step))
    assert (span.name, span.kind) == (name, kind)
    assert span.attributes.get("messaging.operation.type") == operation_type
    assert span.attributes["messaging.operation.name"] == name.partition(" ")[0]
    assert span.attributes["messaging.system"] == "activemq"
    assert span.attributes["messaging.message.id"] == "ID:a:1:1:1"
    assert span.attributes["messaging.destination.name"] == "ORDERS"
    assert (span.start_time, span.end_time) == (1_000_000_000, 1_005_000_000)


def test_a_span_is_a_child_of_the_sender_s_span_and_has_its_state() -> None:
    span = span_of(note(SEND, span_id="00000000000000aa"))
    assert f"{span.context.trace_id:032x}" == TRACE
    assert f"{span.context.span_id:016x}" == "00000000000000aa"
    assert f"{span.parent.span_id:016x}" == SPAN
    assert dict(span.context.trace_state.items()) == {"vendor": "3", "2@other": "2"}


def test_a_batch_has_links_to_its_messages_and_the_name_of_its_route() -> None:
    root = TraceContext("1" * 32, "2" * 16)
    record = note(PROCESS, "", root.span_id, root)
    record.attributes["messaging.spanwire.pipeline.name"] = "orders"
    record.links = [CONTEXT, TraceContext("3" * 32, "4" * 16)]
    span = span_of(record)
    assert (span.name, span.kind, span.parent) == ("process orders", SpanKind.CONSUMER, None)
    assert [f"{link.context.span_id:016x}" for link in span.links] == [SPAN, "4" * 16]
    assert dict(span.attributes) == {
        "messaging.system": "activemq", "messaging.operation.name": "process", "messaging.operation.type": "process",
        "messaging.spanwire.pipeline.name": "orders",
    }  # fmt: skip


def test_the_first_span_of_a_trace_has_no_parent() -> None:
    span = span_of(note(SEND, span_id=SPAN, context=TraceContext(TRACE, SPAN)))
    assert span.parent is None
    assert (f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}") == (TRACE, SPAN)


def test_spans_without_an_id_of_their_own_get_different_ones() -> None:
    spans = SpanMaker("spanwire.test", "here").spans([note(DISPATCH), note(DISPATCH)])
    assert len({span.context.span_id for span in spans}) == 2
    assert [f"{span.parent.span_id:016x}" for span in spans] == [SPAN, SPAN]


def test_a_refused_step_has_the_class_of_the_error_and_no_text() -> None:
    record = note(SEND)
    record.error = "AuthorizationError"
    span = span_of(record)
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None
    assert span.attributes["error.type"] == "AuthorizationError"


@pytest.mark.parametrize(
    ("destination", "name", "kind"),
    [
        ("queue://A.B", "send A.B", "queue"),
        ("topic://A.B", "send A.B", "topic"),
        ("temp-queue://ID:host:1", "send (temporary)", "queue"),
    ],
)
def test_a_span_has_one_of_few_names(destination: str, name: str, kind: str) -> None:
    assert span_name("send", destination) == name
    attributes = span_of(note(SEND, destination)).attributes
    assert attributes["messaging.spanwire.destination.kind"] == kind
    assert attributes.get("messaging.destination.temporary", False) is destination.startswith("temp-")
