"""What other brokers tell of traced messages is checked, merged, and given the offsets of clocks."""

from __future__ import annotations

import json
from typing import Final

import pytest

from spanwire.network.reports.trace_rows import MAX_ANSWER, MAX_ROWS, failed, merged, read_answer, with_offsets

STEP: Final[dict[str, object]] = {
    "kind": "observation", "broker": "b", "teller": "b", "number": 1, "time_ms": 5, "message_id": "ID:1",
    "step": "accepted", "destination": "queue://Q", "location": "", "detail": "", "hops": 1, "deliveries": 0,
}  # fmt: skip


def state(broker: str, **values: object) -> dict[str, object]:
    (row,) = read_answer(json.dumps({"rows": [{"kind": "broker", "broker": broker, **values}]}))
    return row


def test_an_answer_is_read_as_it_was_written() -> None:
    assert read_answer(json.dumps({"rows": [STEP]})) == [STEP]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 1}', '{"rows": [1, null, {}]}', "[" * 100_000])
def test_what_has_another_form_is_left_out(text: str) -> None:
    assert read_answer(text) == []
    assert read_answer(" " * (MAX_ANSWER + 1)) == []


def test_an_answer_has_so_many_rows_at_most() -> None:
    rows = [{**STEP, "number": number} for number in range(MAX_ROWS + 10)]
    read = read_answer(json.dumps({"rows": rows}))
    assert len(read) == MAX_ROWS
    assert len(merged([*read, *({**STEP, "broker": "c", "teller": "c", "number": n} for n in range(9))])) == MAX_ROWS


def test_hostile_values_are_cut() -> None:
    hostile = {**STEP, "broker": "b" * 9_999, "number": 1 << 99, "hops": -5, "deliveries": True, "time_ms": "x",
               "location": {"a": 1}, "secret": "s"}  # fmt: skip
    (row,) = read_answer(json.dumps({"rows": [hostile]}))
    assert (len(str(row["broker"])), row["number"], row["hops"], row["deliveries"]) == (300, 1_000_000, 0, 0)
    assert (row["time_ms"], row["location"], "secret" in row) == (0, "", False)


def test_the_offset_of_a_clock_is_measured_between_question_and_answer() -> None:
    (row,) = with_offsets([state("b", time_ms=5_010)], "b", 1_000, 1_020)
    assert (row["offset_ms"], row["uncertain_ms"]) == (4_000, 10)


def test_offsets_and_errors_add_up_over_several_brokers() -> None:
    rows = [state("b", time_ms=900), state("c", time_ms=1, offset_ms=-300, uncertain_ms=7)]
    near, far = with_offsets(rows, "b", 1_000, 1_010)
    assert (near["offset_ms"], near["uncertain_ms"]) == (-105, 5)
    assert (far["offset_ms"], far["uncertain_ms"]) == (-405, 12)


def test_a_broker_that_tells_something_goes_before_one_that_is_silent_and_the_surer_clock_before_the_other() -> None:
    sure, unsure = state("b", uncertain_ms=2), state("b", uncertain_ms=9)
    assert merged([failed("b", "", "is no Spanwire"), unsure, STEP, sure, STEP]) == [sure, STEP]
    assert merged([failed("b", "", "is no Spanwire")])[0]["silence"] == "is no Spanwire"
