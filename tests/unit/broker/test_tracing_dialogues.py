"""The steps of traced messages, as the broker notes them for an exporter."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from spanwire.broker.following.follower import Follower
from spanwire.broker.following.mark import MarkSettings
from spanwire.broker.plugins.event_log import EventLogSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.tracing_plugin import MAX_ARRIVALS, MAX_UNACKNOWLEDGED, MAX_UNSYNCED, TracingSettings
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.model.acks import DELIVERED_ACK, INDIVIDUAL_ACK, POISON_ACK, SequenceRun
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError
from spanwire.model.observation.span_records import ACKNOWLEDGE, DISPATCH, SEND, STORE, SpanRecord, SpanRecords
from spanwire.model.observation.trace_context import parse_traceparent
from tests.support.dialogue.broker_dialogue import START_MS, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.dialogue.text_format import properties_of

Q: Final = "queue://ORDERS"
TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN: Final = "00f067aa0ba902b7"
TRACED: Final[dict[str, object]] = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}


class Traced:
    """A stage whose broker traces."""

    def __init__(
        self, rate: float = 0.0, limit: int = 10_000, *, advised: bool = False, logs: EventLogSettings | None = None
    ) -> None:
        self.records = SpanRecords(limit)
        settings = PluginSettings(tracing=TracingSettings(self.records, rate))
        if logs is not None:
            settings = replace(settings, event_log=logs)
        policy = PolicyEntry(parse_destination("queue://>"), advisories=AdvisoryPolicy(dispatched=advised))
        self.stage = Stage(policy, plugins=settings, advisory_format=SpokenAdvisories())
        self.producer = self.stage.peer("p")

    def notes(self) -> list[SpanRecord]:
        """What was noted since the last call."""
        return self.records.take(100_000)

    def steps(self) -> list[int]:
        return [record.step for record in self.notes()]


def test_a_traced_message_is_noted_from_its_send_to_its_acknowledgement() -> None:
    traced = Traced()
    stage = traced.stage
    traced.producer.sends(Q, "secret body", properties=TRACED)
    stage.environment.advance(0.005)
    stage.syncs()
    stage.environment.advance(1)
    listener = stage.peer("c").consumes(Q)
    stage.environment.advance(2)
    listener.acknowledges("secret body", count=1)
    send, store, dispatch, acknowledge = traced.notes()
    assert [send.step, store.step, dispatch.step, acknowledge.step] == [SEND, STORE, DISPATCH, ACKNOWLEDGE]
    assert [note.start_ms - START_MS for note in (send, store, dispatch, acknowledge)] == [0, 0, 0, 1_005]
    assert [note.end_ms - START_MS for note in (send, store, dispatch, acknowledge)] == [0, 5, 1_005, 3_005]
    assert {note.context.trace_id for note in (send, store, dispatch, acknowledge)} == {TRACE}
    assert [note.context.span_id for note in (send, dispatch, acknowledge)] == [SPAN] * 3
    assert store.context.span_id == send.span_id != SPAN
    assert {note.context.state for note in (send, store, dispatch, acknowledge)} == {"vendor=1"}
    assert {note.destination for note in (send, store, dispatch, acknowledge)} == {Q}
    assert len({note.message_id for note in (send, store, dispatch, acknowledge)}) == 1
    assert not any(note.is_root for note in (send, store, dispatch, acknowledge))


def test_a_note_has_no_body_and_no_secret() -> None:
    traced = Traced()
    traced.producer.sends(Q, "secret body", properties={**TRACED, "password": "secret"})
    traced.stage.peer("c").consumes(Q)
    traced.stage.syncs()
    for note in traced.notes():
        words = [note.destination, note.message_id, note.error, *map(str, note.attributes.values())]
        assert not any("secret" in word for word in words)


@pytest.mark.parametrize("flags", ["00", "02"])
def test_a_message_whose_sender_records_nothing_is_not_noted(flags: str) -> None:
    traced = Traced(rate=1.0)
    traced.producer.sends(Q, "1", properties={"traceparent": f"00-{TRACE}-{SPAN}-{flags}"})
    traced.stage.peer("c").consumes(Q)
    assert traced.steps() == []


@pytest.mark.parametrize("text", ["", "00-zz", "\u0663" * 55, "00-" + "a" * 5_000, f"ff-{TRACE}-{SPAN}-01"])
def test_a_hostile_traceparent_is_passed_on_and_not_noted(text: str) -> None:
    traced = Traced()
    traced.producer.sends(Q, "1", properties={"traceparent": text})
    listener = traced.stage.peer("c").consumes(Q)
    assert [properties_of(delivery.message) for delivery in listener.deliveries] == [{"traceparent": text}]
    assert traced.steps() == []


def test_the_word_in_a_body_traces_nothing() -> None:
    traced = Traced()
    traced.producer.sends(Q, f"traceparent 00-{TRACE}-{SPAN}-01")
    traced.stage.peer("c").consumes(Q)
    assert traced.steps() == []


def test_the_context_of_a_message_is_not_changed() -> None:
    traced = Traced(rate=1.0)
    traced.producer.sends(Q, "1", properties=TRACED)
    listener = traced.stage.peer("c").consumes(Q)
    assert [properties_of(delivery.message) for delivery in listener.deliveries] == [TRACED]


def test_the_broker_begins_traces_for_its_share_of_messages_without_a_context() -> None:
    traced = Traced(rate=0.5)  # the dice of the stage show almost 0
    traced.producer.sends(Q, "1", properties={"n": 1})
    listener = traced.stage.peer("c").consumes(Q)
    send, dispatch = traced.notes()
    assert send.is_root and not dispatch.is_root
    (delivery,) = listener.deliveries
    properties = properties_of(delivery.message)
    context = parse_traceparent(str(properties["traceparent"]))
    assert context is not None and context.is_sampled
    assert (context.trace_id, context.span_id) == (send.context.trace_id, send.span_id)
    assert dispatch.context.span_id == send.span_id
    assert (properties["n"], delivery.text) == (1, "1")


def test_the_broker_begins_no_trace_above_its_share() -> None:
    traced = Traced(rate=1e-9)
    traced.producer.sends(Q, "1")
    assert traced.steps() == []


def test_a_message_that_cannot_be_rewritten_is_not_traced() -> None:
    traced = Traced(rate=1.0)
    traced.producer.sends(Q, "unreadable")
    listener = traced.stage.peer("c").consumes(Q)
    assert listener.takes() == ["unreadable"]
    assert traced.steps() == []


def test_a_refused_message_is_noted_with_the_class_of_the_error() -> None:
    traced = Traced()
    with pytest.raises(JmsError):
        traced.producer.sends("temp-queue://ID:other:1:1", "1", properties=TRACED)
    (note,) = traced.notes()
    assert (note.step, note.error) == (SEND, "DestinationDoesNotExistError")


def test_messages_that_the_store_does_not_get_have_no_step_of_it() -> None:
    traced = Traced()
    traced.stage.peer("t").consumes("topic://T")
    traced.producer.sends(Q, "1", properties=TRACED, persistent=False)
    traced.producer.sends("topic://T", "1", properties=TRACED)
    traced.producer.begins(1)
    traced.producer.sends(Q, "1", properties=TRACED, transaction=1)
    traced.stage.settle()
    assert STORE not in traced.steps()


def test_only_acknowledgements_after_which_a_message_is_gone_are_noted() -> None:
    traced = Traced()
    listener = traced.stage.peer("c").consumes(Q)
    traced.producer.sends(Q, "1", "2", "3", "4", properties=TRACED)
    traced.notes()
    listener.acknowledges("3", ack_type=DELIVERED_ACK, count=3)
    assert traced.steps() == []
    listener.acknowledges("2", ack_type=INDIVIDUAL_ACK, count=1)
    assert traced.steps() == [ACKNOWLEDGE]
    listener.acknowledges("3", first="1", count=2)
    assert traced.steps() == [ACKNOWLEDGE, ACKNOWLEDGE]
    listener.acknowledges("4", ack_type=POISON_ACK, count=1)
    (note,) = [note for note in traced.notes() if note.step == ACKNOWLEDGE]
    assert note.attributes["messaging.spanwire.acknowledge.outcome"] == "rejected"


def test_acknowledgements_in_runs_are_noted() -> None:
    traced = Traced()
    consumer = traced.stage.peer("c")
    listener = consumer.consumes(Q)
    traced.producer.sends(Q, "1", "2", "3", "4", properties=TRACED)
    traced.notes()
    first = listener.deliveries[0].message
    run = SequenceRun(first.sequence)
    run.append(first.sequence + 1)
    broker = traced.stage.broker
    assert broker.acknowledge_run(listener.subscription, first.producer_id, run, traced.stage.now) == 2
    assert traced.steps() == [ACKNOWLEDGE, ACKNOWLEDGE]
    numbers = SequenceRun(listener.subscription.in_flight.newest_number)
    assert broker.acknowledge_numbered(listener.subscription, numbers, traced.stage.now) == 1
    (note,) = traced.notes()
    assert note.message_id == str(listener.deliveries[3].message.message_id)


def test_an_acknowledgement_that_the_broker_refuses_is_not_noted() -> None:
    traced = Traced()
    listener = traced.stage.peer("c").consumes(Q)
    other = traced.stage.peer("d").consumes("queue://OTHER")
    traced.producer.sends(Q, "1", properties=TRACED)
    traced.producer.sends("queue://OTHER", "2", properties=TRACED)
    traced.notes()
    other.deliveries.extend(listener.deliveries)
    with pytest.raises(JmsError):
        other.acknowledges("1", count=2)
    assert traced.steps() == []


def test_a_redelivery_is_a_dispatch_of_its_own_with_its_count() -> None:
    traced = Traced()
    consumer = traced.stage.peer("c")
    consumer.consumes(Q)
    traced.producer.sends(Q, "1", properties=TRACED)
    traced.stage.environment.advance(3)
    consumer.leaves()
    traced.stage.peer("d").consumes(Q)
    traced.stage.settle()
    first, second = [note for note in traced.notes() if note.step == DISPATCH]
    assert [first.attributes["messaging.spanwire.redelivery_count"], first.start_ms - START_MS] == [0, 0]
    assert [second.attributes["messaging.spanwire.redelivery_count"], second.start_ms - START_MS] == [1, 3_000]


def test_a_browser_is_not_noted() -> None:
    traced = Traced()
    traced.producer.sends(Q, "1", properties=TRACED)
    traced.stage.syncs()
    traced.notes()
    traced.stage.peer("b").consumes(Q, browser=True)
    traced.stage.settle()
    assert traced.steps() == []


def test_notes_have_a_limit_and_messages_go_on() -> None:
    traced = Traced(limit=5)
    listener = traced.stage.peer("c").consumes(Q)
    traced.producer.sends(Q, *map(str, range(10)), properties=TRACED)
    assert len(listener.takes()) == 10
    assert (len(traced.records), traced.records.dropped) == (5, 15)


def test_traced_messages_at_a_consumer_have_a_limit() -> None:
    traced = Traced()
    listener = traced.stage.peer("c").consumes(Q, prefetch=2_000)
    traced.producer.sends(Q, *map(str, range(MAX_UNACKNOWLEDGED + 5)), properties=TRACED)
    traced.notes()
    listener.acknowledges(str(MAX_UNACKNOWLEDGED + 4), count=MAX_UNACKNOWLEDGED + 5)
    assert traced.steps().count(ACKNOWLEDGE) == MAX_UNACKNOWLEDGED


@pytest.mark.large
def test_traced_messages_on_their_way_to_the_disk_have_a_limit() -> None:
    traced = Traced(limit=100_000)
    traced.producer.sends(Q, *map(str, range(MAX_UNSYNCED + 1)), properties=TRACED)
    traced.stage.syncs()
    assert traced.steps().count(STORE) == MAX_UNSYNCED


def test_an_automatic_consumer_acknowledges_nothing_and_keeps_nothing() -> None:
    traced = Traced()
    consumer = traced.stage.peer("c")
    consumer.consumes(Q, automatic=True)
    traced.producer.sends(Q, "1", properties=TRACED)
    consumer.flushes()
    assert ACKNOWLEDGE not in traced.steps()


@pytest.mark.large
def test_arrivals_have_a_limit_above_which_the_oldest_is_forgotten() -> None:
    traced = Traced(limit=100_000)
    traced.producer.sends(Q, *map(str, range(MAX_ARRIVALS + 1)), properties=TRACED, persistent=False)
    traced.stage.environment.advance(1)
    traced.notes()
    traced.stage.peer("c").consumes(Q, prefetch=10)
    first, *others = traced.notes()
    assert first.start_ms == START_MS + 1_000
    assert {note.start_ms for note in others} == {START_MS}


def test_a_broker_without_tracing_has_no_filter() -> None:
    stage = Stage()
    assert type(stage.broker).__name__ == "Broker"


@pytest.mark.parametrize("advised", [False, True])
@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("followed", [False, True])
def test_an_acknowledgement_is_noted_whatever_stands_before_the_consumer(
    advised: bool, logged: bool, followed: bool
) -> None:
    traced = Traced(advised=advised, logs=EventLogSettings(consumers=True, everything=True) if logged else None)
    stage = traced.stage
    if followed:
        settings = MarkSettings("m", parse_destination(Q))
        Follower(stage.broker.assembly, stage.broker.formats).begin(settings, stage.now)
    listener = stage.peer("c").consumes(Q)
    traced.producer.sends(Q, "1", "2", "3", properties=TRACED)
    traced.notes()
    listener.acknowledges("1", count=1)
    broker, second = stage.broker, listener.deliveries[1].message
    run = SequenceRun(second.sequence)
    assert broker.acknowledge_run(listener.subscription, second.producer_id, run, stage.now) == 1
    numbers = SequenceRun(listener.subscription.in_flight.newest_number)
    assert broker.acknowledge_numbered(listener.subscription, numbers, stage.now) == 1
    assert traced.steps() == [ACKNOWLEDGE] * 3
