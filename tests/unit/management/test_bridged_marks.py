"""Marks at the targets of bridges: which messages are followed there, over how many bridges, within which limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Final

import pytest

from spanwire.bridges.model.definition import BridgeDefinition, ConnectionFactory, Source, Target
from spanwire.broker.dispatch.broker_context import StepReceiver
from spanwire.broker.following.follower import Follower
from spanwire.broker.following.mark import Mark, MarkSettings
from spanwire.management.questions.bridged_marks import (
    ASK_S,
    LOOK_S,
    MAX_BRIDGES,
    MAX_BROKERS,
    MAX_PENDING,
    MAX_SENDERS,
    MAX_TARGETS,
    BridgedMarks,
    BridgeTarget,
    TargetMark,
)
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.network.reports.known_brokers import Peer
from spanwire.network.reports.message_questions import HOP_S
from spanwire.service.children.bridge_targets import OTHER_PROTOCOL, SEVERAL, targets_of
from tests.support.dialogue.broker_dialogue import Stage

X: Final = parse_destination("queue://X")
Y: Final = parse_destination("queue://Y")
FAR: Final = Peer("tcp://far:1", "tcp://far:1", "bridge")
Row = dict[str, object]


class Bridges:
    """The bridges of a broker, and the brokers at their targets with prepared answers."""

    def __init__(self, *targets: BridgeTarget) -> None:
        self.found: Final = list(targets)
        self.answers: list[list[Row]] = []
        self.asked: Final[list[tuple[float, Row]]] = []
        self.refusal = ""

    def follow(self, receiver: StepReceiver | None) -> None:
        self.receiver = receiver

    def name(self, message_id: str) -> None:
        """Nothing is reported but by the test."""

    def forget(self, message_ids: list[str]) -> None:
        """Nothing is kept."""

    def targets(self, source: Destination) -> list[BridgeTarget]:
        return self.found if source == X else []

    async def ask(self, peer: Peer, action: str, text: str, asked: Sequence[str], seconds: float, question: str) -> str:
        assert (peer, action, asked) == (FAR, "trace", ())
        self.asked.append((seconds, json.loads(text)))
        if self.refusal:
            raise JmsError(self.refusal)
        return json.dumps({"rows": self.answers.pop(0) if self.answers else [state()]})


def state(marked: int = 1) -> Row:
    return {"kind": "broker", "broker": "far", "id": "ID:far", "silence": "", "marked": marked}


def observed(number: int, message_id: str) -> Row:
    return {
        "kind": "observation", "broker": "far", "teller": "far", "number": number, "time_ms": 9,
        "message_id": message_id, "step": "accepted", "destination": "queue://Y", "hops": 0,
    }  # fmt: skip


class Scene:
    """A marked message of a broker, which a bridge sends on."""

    def __init__(self, *targets: BridgeTarget) -> None:
        self.stage: Final = Stage()
        self.bridges: Final = Bridges(*(targets or (BridgeTarget(Y, FAR),)))
        self.stage.broker.assembly.context.step_source = self.bridges
        self.follower: Final = Follower(self.stage.broker.assembly, self.stage.broker.formats)
        self.mark: Final[Mark] = self.follower.begin(MarkSettings("t", X), self.stage.now)
        self.marks: Final = BridgedMarks(self.stage.broker, self, self.bridges.ask)
        self.stage.peer("p").sends("queue://X", "text")

    def now(self) -> Time:
        return self.stage.now

    async def looks(self, bridges: int = 1) -> list[Row]:
        self.stage.environment.advance(LOOK_S)
        await asyncio.gather(*self.marks.look(self.mark, bridges))
        return self.marks.collect(self.mark)

    def crosses(self, there: str) -> None:
        self.follower.step_outside("ID:p:1:1:1:1", "bridged", "queue://Y at tcp://far:1", "", there, 5)

    def beyond(self) -> list[tuple[str, str, int]]:
        seen = self.mark.observations.after(0, MAX_PENDING)
        return [(one.broker, one.message_id, one.hops) for one in seen if one.broker]


def test_of_what_comes_to_the_target_the_messages_of_the_bridge_are_kept_once_their_ids_are_known() -> None:
    async def scene() -> None:
        at = Scene()
        at.marks.begin(at.mark, 2, everywhere=False)
        at.bridges.answers = [[state(), observed(1, "ID:f:1"), observed(2, "ID:other")]]
        (told,) = await at.looks(2)
        assert (told["broker"], at.beyond()) == ("far", [])
        at.crosses("ID:f:1")
        await at.looks(2)
        assert at.beyond() == [("far", "ID:f:1", 1)]
        seconds, question = at.bridges.asked[1]
        assert (seconds, question["after"], question["over"], question["bridges"]) == (HOP_S, {"far": 2}, False, 1)
        assert question["alone"] is True
        mark = question["mark"]
        assert isinstance(mark, dict)
        assert (mark["id"], mark["destination"], mark["messages"]) == ("t.1", "queue://Y", 1_000)

    asyncio.run(scene())


def test_the_network_beyond_is_asked_if_the_trace_is_of_the_network_and_no_broker_after_the_last_bridge() -> None:
    async def scene() -> None:
        at = Scene()
        at.marks.begin(at.mark, 1, everywhere=True)
        await at.looks()
        assert [(seconds, one["alone"], one["bridges"]) for seconds, one in at.bridges.asked] == [(ASK_S, False, 0)]
        last = Scene()
        last.marks.begin(last.mark, 0, everywhere=True)
        assert await last.looks(0) == []
        assert last.bridges.asked == []
        assert MAX_BRIDGES == 3

    asyncio.run(scene())


def test_a_broker_that_refuses_or_cannot_be_asked_says_why() -> None:
    async def scene() -> None:
        for target, refusal in ((BridgeTarget(Y, FAR), "is no Spanwire"), (BridgeTarget(Y, FAR, "is no Spanwire"), "")):
            at = Scene(target)
            at.bridges.refusal = refusal
            at.marks.begin(at.mark, 1, everywhere=False)
            (told,) = await at.looks()
            assert "is no Spanwire" in str(told["silence"])
            assert len(at.bridges.asked) == (1 if refusal else 0)

    asyncio.run(scene())


def test_what_a_target_tells_and_the_targets_of_a_mark_are_bounded() -> None:
    async def scene() -> None:
        at = Scene(*(BridgeTarget(Destination(0, f"Y{number}"), FAR) for number in range(MAX_TARGETS + 5)))
        at.marks.begin(at.mark, 1, everywhere=False)
        others, *_ = await at.looks()
        assert len(at.bridges.asked) == MAX_TARGETS
        assert others["silence"] == "only 20 of 25 targets of bridges are followed; trace fewer destinations"
        busy = Scene()
        busy.marks.begin(busy.mark, 1, everywhere=False)
        for first in (1, MAX_PENDING):
            busy.bridges.answers = [[state(1_000), *(observed(first + n, "ID:x") for n in range(MAX_PENDING - 1))]]
            (told,) = await busy.looks()
        assert "only the first 1000 messages of all senders to queue://Y were followed" in str(told["silence"])
        assert busy.mark.observations.dropped == MAX_PENDING - 2

    asyncio.run(scene())


def test_s47_brokers_that_a_target_invents_are_not_all_remembered() -> None:
    one = TargetMark(BridgeTarget(Y, FAR), "t.1", everywhere=False)
    for first in (0, 4_000):
        numbers = range(first, first + 4_000)
        one.take([{**state(), "broker": f"b{number}"} for number in numbers])
        one.take([{**observed(1, "ID:x"), "teller": f"b{number}"} for number in numbers])
    assert len(one.states) == len(one.after) == len(one.pending) == MAX_BROKERS
    assert one.dropped == 8_000 - MAX_BROKERS


def test_a_trace_of_a_pattern_says_that_it_does_not_follow_bridges() -> None:
    async def scene() -> None:
        at = Scene()
        mark = at.follower.begin(MarkSettings("p", parse_destination("queue://*")), at.stage.now)
        at.marks.begin(mark, 1, everywhere=False)
        assert at.marks.look(mark, 1) == []
        (others,) = at.marks.collect(mark)
        assert str(others["silence"]).startswith("a trace of a pattern ends at the bridges")
        at.marks.forget([])
        assert at.marks.collect(mark) == []

    asyncio.run(scene())


def test_at_a_busy_target_the_messages_of_the_bridge_are_marked_apart_once_its_ids_are_known() -> None:
    async def scene() -> None:
        at = Scene()
        at.marks.begin(at.mark, 1, everywhere=False)
        at.bridges.answers = [[state(1_000), observed(1, "ID:other:1"), observed(2, "ID:f_'1:1:1:1:1")]]
        await at.looks()
        for number in (1, 2):
            at.crosses(f"ID:f_'1:1:1:1:{number}")
        await at.looks()
        at.bridges.answers = [
            [state(1_000)],
            [state(2), observed(1, "ID:f_'1:1:1:1:1"), observed(2, "ID:f_'1:1:1:1:2")],
        ]
        (full,) = await at.looks()
        assert "and those of the bridge since then" in str(full["silence"])
        assert at.beyond() == [("far", f"ID:f_'1:1:1:1:{number}", 1) for number in (1, 2)]  # each once
        marks = [one["mark"] for _, one in at.bridges.asked]
        assert [one["id"] for one in marks] == ["t.1", "t.1", "t.1", "t.2"]  # type: ignore[index]
        selector = MarkSettings("t", Y, marks[-1]["selector"]).selector_text  # type: ignore[index]
        assert selector == "JMSMessageID LIKE 'ID:f!_''1:1:1:1:%' ESCAPE '!'"
        for number in range(20):
            at.crosses(f"ID:sender:{number}:1")
        for _ in range(3):
            await at.looks()
        assert len({str(one["mark"]["id"]) for _, one in at.bridges.asked}) == 1 + MAX_SENDERS  # type: ignore[index]

    asyncio.run(scene())


def test_marks_that_are_over_are_forgotten_with_their_questions() -> None:
    async def scene() -> None:
        at = Scene()
        at.marks.begin(at.mark, 1, everywhere=False)
        (task,) = at.marks.look(at.mark, 1)
        at.marks.forget([])
        await asyncio.wait([task])
        assert task.cancelled()
        assert at.marks.look(at.mark, 1) == []

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("factory", "silence", "uri"),
    [
        (ConnectionFactory("tcp://far:1", "u"), "", "tcp://far:1"),
        (ConnectionFactory("vm:"), "", "tcp://127.0.0.1:7"),
        (ConnectionFactory("stomp://far:1", provider="stomp"), OTHER_PROTOCOL, ""),
        (ConnectionFactory("failover:(tcp://a:1,tcp://b:1)"), SEVERAL, ""),
    ],
)
def test_a_target_is_asked_at_the_address_of_its_bridge(factory: ConnectionFactory, silence: str, uri: str) -> None:
    definition = BridgeDefinition("b", Source(ConnectionFactory("vm:"), X), Target(factory, Y))
    (target,) = targets_of([definition], X, "tcp://127.0.0.1:7")
    assert (target.destination, target.silence, target.peer.uri) == (Y, silence, uri)
    assert targets_of([definition], Y, "tcp://127.0.0.1:7") == []
    inbound = BridgeDefinition("b", Source(factory, X), Target(ConnectionFactory("vm:"), Y))
    assert len(targets_of([inbound], X, None)) == (1 if uri == "tcp://127.0.0.1:7" else 0)
