"""Notes of bridges about traced messages: forwarded, kept back by a failure, committed, and none without a context."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.bridges.engine.dialogue import (
    Acknowledge,
    Commit,
    Committed,
    Completed,
    DeadLetter,
    DeadLettered,
    Disconnect,
    Disconnected,
    HandedOver,
    Receive,
    Received,
    Refused,
    Send,
    Sent,
)
from spanwire.bridges.model.definition import BatchLimits, Quality, RetryPolicy
from spanwire.bridges.model.message import BridgeMessage
from spanwire.bridges.model.route_definition import FileTarget, RouteDefinition
from spanwire.bridges.running.tracing import MAX_TRACED, BridgeNotes, RouteNotes, bridge_traces
from spanwire.model.environment import Time
from spanwire.model.message_view import STRING_VALUE
from spanwire.model.observation.span_records import FORWARD, SpanRecords
from tests.support.bridge_dialogue import WALL_MS, definition, text_message

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
RECEIVE: Final = Receive(10, 1_000, 1.0)


class Notes:
    """The notes of one bridge, and a clock."""

    def __init__(self, quality: Quality = Quality.DUPLICATES_OK) -> None:
        self.records: Final = SpanRecords()
        self.now_ms = WALL_MS
        self.notes: Final = BridgeNotes(definition(quality), self.records, lambda: Time(0.0, self.now_ms))

    def receives(self, *messages: BridgeMessage) -> list[BridgeMessage]:
        self.notes.on_event(RECEIVE, Received(list(messages)))
        return list(messages)

    def outcomes(self) -> list[tuple[str, str]]:
        return [(record.message_id, record.error) for record in self.records.take(100)]


def traced(number: int, flags: str = "01") -> BridgeMessage:
    return text_message(number, properties={"traceparent": (STRING_VALUE, f"00-{TRACE}-{SPAN}-{flags}")})


def test_a_traced_message_of_a_batch_that_the_link_completes_is_noted_when_it_is_complete() -> None:
    bridge = Notes()
    bridge.notes.on_event(Send(bridge.receives(traced(1))), Sent(is_stored=False))
    bridge.notes.on_event(Acknowledge(), HandedOver())
    bridge.receives(traced(2))
    assert bridge.outcomes() == []
    bridge.notes.on_event(Acknowledge(), Completed())
    assert bridge.outcomes() == [("ID:1", "")]


def handed_over_and_failed() -> Notes:
    """A bridge whose link completes message 1, and has failed with message 2."""
    bridge = Notes()
    bridge.notes.on_event(Send(bridge.receives(traced(1))), Sent(is_stored=False))
    bridge.notes.on_event(Acknowledge(), HandedOver())
    bridge.receives(traced(2))
    bridge.notes.failed("TimeoutError")
    assert bridge.outcomes() == [("ID:2", "TimeoutError")]
    return bridge


def test_a_batch_that_is_completed_while_its_link_closes_is_noted_without_an_error() -> None:
    bridge = handed_over_and_failed()
    bridge.notes.on_event(Acknowledge(), Completed())
    bridge.notes.on_event(Disconnect(), Disconnected())
    assert bridge.outcomes() == [("ID:1", "")]


def test_a_batch_that_a_closed_link_has_not_completed_is_noted_with_the_error_of_the_link() -> None:
    bridge = handed_over_and_failed()
    bridge.notes.on_event(Disconnect(), Disconnected("the connection was lost"))
    assert bridge.outcomes() == [("ID:1", "TimeoutError")]


def test_a_traced_message_is_noted_when_the_target_has_it() -> None:
    bridge = Notes()
    messages = bridge.receives(traced(1), text_message(2), traced(3, "00"))
    bridge.now_ms += 40
    bridge.notes.on_event(Send(messages), Sent())
    (record,) = bridge.records.take(100)
    assert (record.step, record.message_id, record.destination) == (FORWARD, "ID:1", "queue://B")
    assert (record.start_ms, record.end_ms) == (WALL_MS, WALL_MS + 40)
    assert (record.context.trace_id, record.context.span_id) == (TRACE, SPAN)
    assert record.attributes == {
        "messaging.spanwire.bridge.name": "orders",
        "messaging.spanwire.bridge.source": "queue://A",
    }


def test_at_most_once_a_refused_message_is_noted_with_what_the_target_has_stored_before() -> None:
    bridge = Notes(Quality.AT_MOST_ONCE)
    messages = bridge.receives(traced(1), traced(2), traced(3))
    bridge.notes.on_event(Send(messages), Refused(1, "too large", is_prefix_stored=True))
    assert bridge.outcomes() == [("ID:1", ""), ("ID:2", "MessageRefusedError")]
    bridge.notes.on_event(Send(messages[2:]), Sent())
    assert bridge.outcomes() == [("ID:3", "")]


def test_a_message_of_a_transaction_is_noted_at_the_commit() -> None:
    bridge = Notes(Quality.ONCE_AND_ONLY_ONCE)
    messages = bridge.receives(traced(1))
    bridge.notes.on_event(Send(messages), Sent())
    assert bridge.outcomes() == []
    bridge.notes.on_event(Commit(), Committed())
    assert bridge.outcomes() == [("ID:1", "")]


def test_traced_messages_of_a_bridge_have_a_limit() -> None:
    bridge = Notes()
    bridge.receives(*[traced(number) for number in range(MAX_TRACED + 1)])
    bridge.notes.failed("JmsError")
    assert len(bridge.records) + bridge.records.dropped == MAX_TRACED


def test_a_failure_is_noted_for_each_message_on_its_way_and_a_new_attempt_anew() -> None:
    bridge = Notes()
    messages = bridge.receives(traced(1))
    bridge.notes.failed("JmsError")
    bridge.receives(*messages)
    bridge.notes.on_event(Send(messages), Sent())
    assert bridge.outcomes() == [("ID:1", "JmsError"), ("ID:1", "")]


def test_a_dead_letter_is_noted_with_the_refusal() -> None:
    bridge = Notes()
    bridge.receives(traced(1))
    bridge.notes.on_event(DeadLetter("too large"), DeadLettered())
    assert bridge.outcomes() == [("ID:1", "MessageRefusedError")]


@pytest.mark.parametrize(
    ("environment", "is_asked", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, False, True),
        ({"OTEL_SDK_DISABLED": "true"}, True, False),
    ],
)
def test_bridges_trace_if_the_environment_or_their_broker_says_so(
    environment: dict[str, str], is_asked: bool, expected: bool
) -> None:
    traces = bridge_traces(environment, lambda: Time(0.0, 0), is_asked)
    assert (traces is not None) is expected


def route_notes() -> tuple[RouteNotes, SpanRecords, list[int]]:
    """The notes of a route from a queue to a queue and a file, with the time in a list."""
    orders = definition(Quality.DUPLICATES_OK)
    route = RouteDefinition(
        "orders", orders.source, [], [], [orders.target, FileTarget("/out", "", "Override")], None, BatchLimits(),
        RetryPolicy(),
    )  # fmt: skip
    records, now_ms = SpanRecords(), [WALL_MS]
    return RouteNotes(route, records, lambda: Time(0.0, now_ms[0])), records, now_ms


def test_a_route_notes_traced_messages_that_a_queue_has_stored() -> None:
    notes, records, now_ms = route_notes()
    notes.on_event(RECEIVE, Received([traced(1)]))
    now_ms[0] += 40
    notes.on_event(Send([traced(1), text_message(2)], 0), Sent())
    notes.on_event(Send([traced(1)], 1), Sent())
    notes.failed("JmsError")
    (record,) = records.take(100)
    assert (record.step, record.message_id, record.destination, record.error) == (FORWARD, "ID:1", "queue://B", "")
    assert (record.start_ms, record.end_ms) == (WALL_MS, WALL_MS + 40)
    assert record.context.trace_id == TRACE
    assert record.attributes == {
        "messaging.spanwire.bridge.name": "orders",
        "messaging.spanwire.bridge.source": "queue://A",
    }
