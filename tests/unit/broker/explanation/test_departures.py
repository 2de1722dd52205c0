"""The memory of departures: bounded, with its beginning, and nothing when switched off."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.history.departures import (
    DISCARDED,
    MAX_DETAIL,
    MAX_RUNS,
    MAX_SWEEPS,
    MAX_TEXT_ID,
    MOVED,
    REMOVED,
    Departures,
    Ring,
)
from spanwire.broker.explanation import explanation as cause
from spanwire.broker.explanation.explainer import Explainer
from spanwire.broker.explanation.locations import WantedId
from spanwire.broker.explanation.message_search import MAX_LOCATIONS, MessageSearch
from spanwire.broker.explanation.queue_reasons import MAX_JUDGED
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.model.ids import ProducerId
from spanwire.model.message import Message
from tests.support.dialogue.broker_dialogue import START_MS, FixedEnvironment, Stage, destination
from tests.support.dialogue.text_format import text_formats, text_message
from tests.support.why_dialogue import id_of, said, why, whys

Q: Final = destination("queue://Q")


def message(number: int, text_id: str | None = None) -> Message:
    made = text_message(Q, number)
    if text_id is None:
        return made
    return Message(
        made.format_id, made.raw, 0, 0, 0, Q, ProducerId("-", 0, 0), 0, True, 4, 0, 0, None, 0, text_id
    )  # fmt: skip


def numbers(ring: Ring) -> list[int]:
    return [entry.sequence for entry in ring.latest_first(0, 100)]


def test_the_oldest_departure_makes_room_and_the_ring_says_where_it_begins() -> None:
    departures = Departures(3)
    for number in range(1, 4):
        departures.note(message(number), MOVED, Q, 1_000 * number)
    assert (numbers(departures.losses), departures.losses.begins_ms) == ([3, 2, 1], 0)
    for number in range(4, 6):
        departures.note(message(number), MOVED, Q, 1_000 * number)
    assert (numbers(departures.losses), departures.losses.begins_ms) == ([5, 4, 3], 2_000)
    assert [entry.sequence for entry in departures.losses.latest_first(1, 2)] == [4]


def test_messages_that_nobody_wanted_push_out_no_others() -> None:
    departures = Departures(2)
    departures.note(message(1), DISCARDED, Q, 1)
    for number in range(2, 7):
        departures.note_unheard(message(2 * number), Q, number)
    assert (numbers(departures.losses), numbers(departures.unheard)) == ([1], [12, 10])


def test_messages_of_one_producer_that_nobody_wanted_take_one_entry() -> None:
    stage = Stage()
    producers = [stage.peer(f"p{number}") for number in range(3)]
    for _ in range(4):
        for producer in producers:
            producer.sends("topic://T", "x", persistent=False)
        stage.waits(1)
    ring = stage.broker.assembly.context.departures.unheard
    assert [(entry.sequence, entry.last_sequence) for entry in ring.entries] == [(1, 4)] * 3
    for number in (1, 4):
        assert why(stage, id_of(producers[1], number)).cause == "sent-nowhere"
    assert "at a time from 2023-11-14 22:13:20 UTC to 2023-11-14 22:13:23 UTC" in said(
        why(stage, id_of(producers[1], 2))
    )
    assert why(stage, id_of(producers[1], 5)).cause == cause.UNKNOWN


def test_of_more_producers_than_runs_can_grow_each_message_is_still_found() -> None:
    departures = Departures()
    producers = [ProducerId(f"ID:{number}", 1, 1) for number in range(MAX_RUNS + 1)]
    for sequence in range(1, 3):
        for producer in producers:
            made = text_message(Q, sequence)
            departures.note_unheard(
                Message(made.format_id, made.raw, 0, 0, 0, Q, producer, sequence, True, 4, 0, 0), Q, sequence
            )
    found = sum(entry.last_sequence - entry.sequence + 1 for entry in departures.unheard.entries)
    assert found == 2 * len(producers)


def test_the_last_removals_of_unread_messages_are_kept() -> None:
    departures = Departures()
    for number in range(MAX_SWEEPS + 1):
        departures.note_sweep(REMOVED, Q, 2, number)
        departures.note_sweep(REMOVED, Q, 3, number)  # the next slice of the same removal
    departures.note_sweep(REMOVED, Q, 0, 0)
    assert len(departures.sweeps) == MAX_SWEEPS
    assert {sweep.count for sweep in departures.sweeps} == {5}
    assert departures.sweeps[0].wall_ms == 1


def test_long_causes_are_cut_and_long_ids_are_not_kept() -> None:
    departures = Departures()
    departures.note(message(1), DISCARDED, Q, 1, detail="x" * (MAX_DETAIL + 1))
    departures.note(message(2, "y" * (MAX_TEXT_ID + 1)), DISCARDED, Q, 1)
    departures.note(message(3, "y" * MAX_TEXT_ID), DISCARDED, Q, 1)
    assert [len(entry.detail) for entry in departures.losses.entries] == [MAX_DETAIL, 0]


def test_without_a_memory_nothing_is_kept_and_the_answer_says_so() -> None:
    departures = Departures(0)
    departures.note(message(1), MOVED, Q, 1)
    departures.note_sweep(REMOVED, Q, 1, 1)
    assert (departures.losses.entries, len(departures.sweeps)) == ([], 0)
    environment = FixedEnvironment()
    broker = Broker("b", "ID:b", environment, None, text_formats(), BrokerSettings(departures=0))
    explainer = Explainer(broker, START_MS)
    search = explainer.search("ID:a:1:1:1:1")
    while search.step():
        pass
    (answer,) = explainer.message("ID:a:1:1:1:1", search, [], environment.now())
    assert 'switched off (rememberedDepartures="0")' in said(answer)


def test_an_id_of_another_messaging_system_is_found_with_and_without_its_prefix() -> None:
    for text in ("abc", "ID:abc"):
        assert WantedId(text).is_of(message(1, "abc"))
        assert WantedId(text).is_of(message(1, "ID:abc"))
    assert not WantedId("abd").is_of(message(1, "abc"))
    assert not WantedId("abc").is_of(message(1))
    assert WantedId("ID:test:1:1:1:7").is_of(message(7))
    assert not WantedId("ID:test:1:1:1:7").is_of(message(8))


@pytest.mark.large
def test_a_search_reads_a_limited_number_of_messages_and_says_how_many_are_left() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends("queue://Q", *("x" for _ in range(MAX_RESIDENT_MESSAGES + 500)))
    stage.settle()
    wanted = "ID:nobody:1:1:1:1"
    search = MessageSearch(stage.broker.assembly, WantedId(wanted), None, 200)
    while search.step():
        pass
    reads = 0
    while (read := search.next_read()) is not None:
        reads += len(read.sequences)
        search.take(read, stage.store.read(read.destination, read.sequences))
    assert reads == 200
    (answer,) = Explainer(stage.broker, START_MS).message(wanted, search, [], stage.now)
    assert f"{search.left_unread} stored messages were not compared" in said(answer)
    assert search.left_unread > 0


def test_a_message_in_very_many_locations_is_explained_for_some() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(MAX_LOCATIONS + 5):
        stage.peer(f"c{number}").consumes("topic://T")
    producer.sends("topic://T", "a")
    answers = whys(stage, id_of(producer))
    assert len(answers) == 20
    assert f"the message is in {MAX_LOCATIONS} locations; 20 are explained" in said(answers[0])


def test_of_very_many_consumers_some_are_named_and_the_others_counted() -> None:
    stage = Stage()
    producer = stage.peer("p")
    for number in range(MAX_JUDGED + 5):
        if number % 500 == 0:
            consumer = stage.peer(f"c{number}")
        consumer.consumes("queue://Q", selector="n = 1")
    producer.sends("queue://Q", "a")
    stage.settle()
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.SELECTOR
    assert f"{MAX_JUDGED - 20} more: {MAX_JUDGED} selector" in said(answer)
    assert len(answer.evidence) < 30
