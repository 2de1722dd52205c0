"""Traces of messages: what an operator may ask for, what he reads, and what other brokers are asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final

import pytest

from spanwire.broker.broker import Broker
from spanwire.broker.explanation.links import LinkDescription
from spanwire.management.questions.questions import TraceCommands
from spanwire.management.questions.traces import MAX_BROKERS, MAX_KEPT_ROWS, MAX_ROWS, Trace, Traces, mark_settings
from spanwire.model.destination import parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from tests.support.dialogue.broker_dialogue import Stage

Q: Final = "queue://ORDERS"
Row = dict[str, object]


class Network:
    """Other brokers, which give prepared answers."""

    def __init__(self, *answers: list[Row]) -> None:
        self.answers = list(answers)
        self.asked: list[Row] = []

    def link_descriptions(self) -> Sequence[LinkDescription]:
        return ()

    def traces(self, broker: Broker, wake: Callable[[], None]) -> TraceCommands:
        raise AssertionError("traces know themselves")

    async def explain_everywhere(self, message_id: str) -> list[Row]:
        raise AssertionError("nobody asks why")

    async def ask_everywhere(self, action: str, text: str) -> list[Row]:
        assert action == "trace"
        self.asked.append(json.loads(text))
        return self.answers.pop(0) if self.answers else []


class Scene:
    """A broker with an operator who traces."""

    def __init__(self, network: Network | None = None) -> None:
        self.stage = Stage()
        self.woken = 0
        self.traces = Traces(self.stage.broker, self, self.wake, network)
        self.producer = self.stage.peer("p")

    def now(self) -> Time:
        return self.stage.now

    def wake(self) -> None:
        self.woken += 1


def observed(number: int, broker: str = "far", step: str = "accepted") -> Row:
    return {
        "kind": "observation", "broker": broker, "number": number, "time_ms": 1, "message_id": "ID:1", "step": step,
        "destination": Q, "location": "", "detail": "", "hops": 1, "deliveries": 0,
    }  # fmt: skip


def test_the_seconds_that_a_trace_has_left_are_rounded_up() -> None:
    async def scene() -> None:
        at = Scene()
        started = await at.traces.start({"destination": "ORDERS"})
        at.stage.environment.advance(0.25)
        assert (await at.traces.observations({"trace": started["trace"]}))["left_s"] == 60

    asyncio.run(scene())


def test_a_trace_is_started_read_from_row_to_row_and_ended() -> None:
    async def scene() -> None:
        at = Scene()
        started = await at.traces.start({"destination": "ORDERS"})
        assert (started["destination"], started["left_s"], started["ended"], at.woken) == (Q, 60, "", 1)
        at.producer.sends(Q, "body", properties={"n": 1})
        first = await at.traces.observations({"trace": started["trace"]})
        assert first["observations"] == [{
            "broker": "stage", "time_ms": at.now().wall_ms, "message_id": "ID:p:1:1:1:1", "step": "accepted",
            "destination": Q, "location": "", "detail": "persistent", "hops": 0, "deliveries": 0,
        }]  # fmt: skip
        at.stage.peer("c").consumes(Q)
        second = await at.traces.observations({"trace": started["trace"], "after": str(first["next"])})
        assert [one["step"] for one in second["observations"]] == ["dispatched"]  # type: ignore[attr-defined]
        assert second["marked"] == 1
        ended = await at.traces.end({"trace": started["trace"]})
        assert ended["ended"] == "an operator has ended it"
        assert ended["complete"]
        whole = await at.traces.observations({"trace": started["trace"], "after": 0})
        assert len(whole["observations"]) == 2  # type: ignore[arg-type]
        listed = await at.traces.observations({})
        assert [one["trace"] for one in listed["traces"]] == [started["trace"]]  # type: ignore[attr-defined]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "name of a queue"),
        ({"destination": "A.*"}, "one queue or topic"),
        ({"destination": "A,B"}, "one queue or topic"),
        ({"destination": "topic://ActiveMQ.Advisory.Queue"}, "advisories"),
        ({"destination": Q, "selector": "n >"}, "selector"),
        ({"destination": Q, "selector": 1}, "selector is a text"),
        ({"destination": Q, "ids": "ID:1"}, "ids is a list"),
        ({"destination": Q, "ids": ["ID:1"] * 101}, "at most 100"),
        ({"destination": Q, "seconds": 3_601}, "from 1 to 3600"),
        ({"destination": Q, "seconds": True}, "seconds is a whole number"),
        ({"destination": Q, "messages": 1_001}, "from 1 to 1000"),
        ({"destination": Q, "one_in": 0}, "one_in is a whole number"),
    ],
)
def test_a_wrong_argument_is_refused_with_what_is_right(arguments: Row, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        mark_settings({"id": "t", **arguments})


def test_an_unknown_trace_is_refused() -> None:
    async def scene() -> None:
        at = Scene()
        with pytest.raises(ConfigurationError, match="no trace t-1"):
            await at.traces.observations({"trace": "t-1"})
        with pytest.raises(ConfigurationError, match="no trace"):
            await at.traces.end({"trace": 4})
        started = await at.traces.start({"destination": "A"})
        with pytest.raises(ConfigurationError, match="after is a whole number"):
            await at.traces.observations({"trace": started["trace"], "after": "x"})

    asyncio.run(scene())


def test_other_brokers_are_asked_once_a_second_for_what_is_new_and_once_after_the_end() -> None:
    async def scene() -> None:
        silent: Row = {"kind": "broker", "broker": "mute", "silence": "is no Spanwire"}
        network = Network([observed(1), silent], [observed(1), observed(2, step="dispatched")], [observed(3)])
        at = Scene(network)
        started = await at.traces.start({"destination": "ORDERS", "network": True, "selector": "n = 1"})
        trace = {"trace": started["trace"]}
        assert [one["broker"] for one in started["brokers"]] == ["far", "mute", "stage"]  # type: ignore[attr-defined]
        await at.traces.observations(trace)
        assert len(network.asked) == 1
        at.stage.environment.advance(1)
        await at.traces.observations(trace)
        await asyncio.sleep(0)
        seen = await at.traces.observations(trace)
        assert [one["step"] for one in seen["observations"]] == ["accepted", "dispatched"]  # type: ignore[attr-defined]
        assert not seen["complete"]
        at.stage.environment.advance(1)
        await at.traces.end(trace)
        for _ in range(3):
            at.stage.environment.advance(1)
            last = await at.traces.observations(trace)
            await asyncio.sleep(0)
        assert last["complete"]
        assert len(last["observations"]) == 3  # type: ignore[arg-type]
        assert [one["over"] for one in network.asked] == [False, False, True]
        assert network.asked[1]["after"] == {"far": 1}
        assert network.asked[0]["mark"] == {
            "id": started["trace"], "destination": Q, "selector": "n = 1", "ids": [], "one_in": 1, "seconds": 60,
            "messages": 100,
        }  # fmt: skip

    asyncio.run(scene())


def test_a_broker_applies_the_mark_of_another_one_and_tells_what_is_new() -> None:
    async def scene() -> None:
        at = Scene()
        mark = {"id": "t-9", "destination": Q, "seconds": 60}
        (state,) = await at.traces.own(json.dumps({"mark": mark}))
        assert (state["kind"], state["broker"], state["id"], state["silence"]) == ("broker", "stage", "ID:stage", "")
        at.producer.sends(Q, "1", "2")
        rows = await at.traces.own(json.dumps({"mark": mark, "after": {"stage": 1}}))
        assert [(one["kind"], one.get("number")) for one in rows] == [("broker", None), ("observation", 2)]
        await at.traces.own(json.dumps({"mark": mark, "over": True}))
        at.producer.sends(Q, "3")
        rows = await at.traces.own(json.dumps({"mark": mark, "after": {}}))
        assert len(rows) == 3
        assert rows[0]["ended"]

    asyncio.run(scene())


@pytest.mark.parametrize("text", ["", "x", "[]", "{}", '{"mark": 1}', '{"mark": {"id": ""}}', "[" * 100_000])
def test_a_malformed_question_of_another_broker_is_refused(text: str) -> None:
    async def scene() -> None:
        with pytest.raises(ConfigurationError):
            await Scene().traces.own(text)

    asyncio.run(scene())


def test_what_other_brokers_tell_is_bounded() -> None:
    trace = Trace(mark_settings({"id": "t", "destination": Q}), 0, everywhere=True)
    trace.take([observed(number, f"b{number % 1_000}") for number in range(1, MAX_KEPT_ROWS + 1_000)])
    assert len(trace.brokers) == 500
    for number in range(2_000_000, 2_000_000 + 2 * MAX_KEPT_ROWS):
        trace.take([observed(number, "b1")])
    assert len(trace.rows) == MAX_KEPT_ROWS
    assert trace.dropped > 0


def test_s47_tellers_that_a_broker_invents_are_not_all_remembered() -> None:
    trace = Trace(mark_settings({"id": "t", "destination": Q}), 0, everywhere=True)
    trace.take([{**observed(1), "teller": f"teller {number}"} for number in range(MAX_BROKERS + 100)])
    assert len(trace.after) == len(trace.rows) == MAX_BROKERS
    assert trace.dropped == 100


def test_one_answer_has_so_many_rows_at_most() -> None:
    async def scene() -> None:
        at = Scene()
        started = await at.traces.start({"destination": "ORDERS", "messages": 1_000})
        for number in range(MAX_ROWS + 10):
            at.producer.sends(Q, str(number))
        trace = {"trace": started["trace"]}
        first = await at.traces.observations(trace)
        assert len(first["observations"]) == MAX_ROWS  # type: ignore[arg-type]
        rest = await at.traces.observations({**trace, "after": first["next"]})
        assert len(rest["observations"]) == 10  # type: ignore[arg-type]

    asyncio.run(scene())


def test_the_destination_of_a_trace_is_a_queue_without_a_prefix() -> None:
    assert mark_settings({"id": "t", "destination": "A"}).destination == parse_destination("queue://A")
