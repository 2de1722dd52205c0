"""Questions about a message over the network: whom a broker asks, what it keeps of the answers, and when it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from itertools import pairwise
from typing import Final

import pytest

from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.network.reports.known_brokers import Peer
from spanwire.network.reports.message_questions import (
    ASK_S,
    HOP_S,
    MAX_ANSWER,
    MAX_ANSWERING,
    MAX_ASKED,
    MAX_LINES,
    MAX_REMEMBERED,
    MAX_ROWS,
    MAX_TEXT,
    MessageQuestions,
    Row,
    read_explanations,
)
from tests.support.control_dialogue import Program, Refused
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_control_dialogues import Lists, Users

ID: Final = "ID:p:1:1:1:1"
BRIDGES: Final = (
    ("guest", "admin", "topic://ActiveMQ.Advisory.NetworkBridge"),
    ("guest", "admin", "queue://ActiveMQ.Spanwire.Control"),
)


class FixedClock:
    def __init__(self) -> None:
        self.monotonic = 1.0

    def now(self) -> Time:
        return Time(self.monotonic, 1_000)


def in_a_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


def row(broker: str, cause: str = "unknown") -> Row:
    return {
        "broker": broker, "subject": f"message {ID}", "cause": cause, "sentence": f"{broker} says {cause}",
        "evidence": [], "advice": [],
    }  # fmt: skip


class World:
    """Brokers with links; each asks the next by calling its questions."""

    def __init__(self, links: dict[str, tuple[str, ...]], knows: dict[str, str]) -> None:
        self.asked: list[str] = []
        self.clock = FixedClock()
        self.brokers = {name: self._questions(name, others, knows) for name, others in links.items()}

    def _questions(self, name: str, others: tuple[str, ...], knows: dict[str, str]) -> MessageQuestions:
        async def explain(message_id: str) -> list[Row]:
            assert message_id == ID
            self.asked.append(name)
            if knows.get(name) == "busy":
                raise JmsError("another search runs")
            return [row(name, knows.get(name, "unknown"))]

        async def ask(peer: Peer, message_id: str, asked: Sequence[str], seconds: float, question: str) -> list[Row]:
            if peer.name not in self.brokers:
                raise JmsError("nobody is there")
            rows = await self.brokers[peer.name].explain(message_id, asked, seconds, question)
            return read_explanations(json.dumps({"explanations": rows}))

        peers = [Peer(other, f"tcp://{other}") for other in others]
        return MessageQuestions(name, explain, lambda: peers, ask, self.clock, lambda: None)


@in_a_loop
async def test_a_question_goes_from_broker_to_broker_and_those_that_know_come_first() -> None:
    world = World({"a": ("b",), "b": ("c",), "c": ()}, {"c": "no-consumer"})
    rows = await world.brokers["a"].explain(ID)
    assert [(one["broker"], one["cause"]) for one in rows] == [("a", "unknown"), ("c", "no-consumer"), ("b", "unknown")]


@in_a_loop
async def test_a_question_ends_in_a_mesh_and_asks_each_broker_once() -> None:
    names = ("a", "b", "c", "d")
    links = {name: tuple(other for other in names if other != name) for name in names}
    world = World(links, {})
    rows = await world.brokers["a"].explain(ID)
    assert sorted(world.asked) == ["a", "b", "c", "d"]
    assert len(rows) == 4


def layers(*names: str) -> dict[str, tuple[str, ...]]:
    """Links from each broker of a layer to all brokers of the next one."""
    links = {one: tuple(after) for before, after in pairwise(names) for one in before}
    return {**links, **dict.fromkeys(names[-1], ())}


@in_a_loop
async def test_a_broker_that_is_reached_over_several_paths_searches_once() -> None:
    world = World(layers("a", "bc", "def", "ghi", "j"), {"j": "no-consumer"})
    rows = await world.brokers["a"].explain(ID)
    assert sorted(world.asked) == list("abcdefghij")
    assert sorted(str(one["broker"]) for one in rows) == list("abcdefghij")
    await world.brokers["a"].explain(ID)
    assert sorted(world.asked) == sorted("abcdefghij" * 2), "another question about the same message"


@in_a_loop
async def test_a_broker_that_cannot_search_now_says_so_and_asks_those_behind_it() -> None:
    world = World({"a": ("b",), "b": ("c",), "c": ()}, {"b": "busy", "c": "no-consumer"})
    rows = await world.brokers["a"].explain(ID)
    assert [(one["broker"], one["cause"]) for one in rows] == [("a", "unknown"), ("c", "no-consumer"), ("b", "unknown")]
    assert rows[2]["sentence"] == "another search runs"


@in_a_loop
async def test_a_question_does_not_come_back_to_who_asked_it() -> None:
    world = World({"a": ("b",), "b": ("c",), "c": ("A",), "A": ()}, {})
    world.brokers["A"] = world.brokers["a"]  # its link has another name for it
    rows = await world.brokers["a"].explain(ID)
    assert (world.asked, len(rows)) == (["a", "b", "c"], 3)


@in_a_loop
async def test_a_question_is_remembered_for_its_time_and_no_more_than_so_many_are() -> None:
    world = World({"a": ()}, {})
    broker = world.brokers["a"]
    assert len(await broker.explain(ID, (), 20, "q")) == 1
    world.clock.monotonic += ASK_S - 1
    assert await broker.explain(ID, (), 20, "q") == []
    world.clock.monotonic += 1
    assert len(await broker.explain(ID, (), 20, "q")) == 1
    for number in range(MAX_REMEMBERED):
        await broker.explain(ID, (), 20, f"other {number}")
    assert len(await broker.explain(ID, (), 20, "q")) == 1, "the oldest made room"
    assert await broker.explain(ID, (), 20, f"other {MAX_REMEMBERED - 1}") == []
    assert len(await broker.explain(ID)) == len(await broker.explain(ID)) == 1


@in_a_loop
async def test_a_long_chain_is_asked_as_far_as_the_time_goes() -> None:
    names = [f"b{number}" for number in range(12)]
    links = {name: (other,) for name, other in pairwise(names)}
    world = World({**links, names[-1]: ()}, {})
    await world.brokers["b0"].explain(ID, (), 4 * HOP_S + 1)
    assert world.asked == names[:5]


@in_a_loop
async def test_a_broker_that_cannot_be_asked_is_named_with_the_reason() -> None:
    world = World({"a": ("gone",)}, {})
    rows = await world.brokers["a"].explain(ID)
    assert rows[1]["sentence"] == "broker gone cannot be asked: nobody is there"


@in_a_loop
async def test_no_more_brokers_are_asked_than_a_question_can_name() -> None:
    world = World({"a": ("b",), "b": ()}, {})
    await world.brokers["a"].explain(ID, [f"x{number}" for number in range(MAX_ASKED)])
    assert world.asked == ["a"]


class Answers:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def give(self, text: str, now: Time) -> None:
        assert now.wall_ms == 1_000
        self.texts.append(text)


@in_a_loop
async def test_others_are_answered_later_and_too_many_at_once_are_refused() -> None:
    world = World({"a": ()}, {"a": "paused"})
    answers = Answers()
    taken = [
        world.brokers["a"].answer_later(ID, "x\ny", 20, f"q{number}", answers) for number in range(MAX_ANSWERING + 1)
    ]
    assert taken == [True] * MAX_ANSWERING + [False]
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(answers.texts) == MAX_ANSWERING
    assert [one["cause"] for one in read_explanations(answers.texts[0])] == ["paused"]
    world.brokers["a"].stop()


def test_claims_of_other_brokers_are_cut_and_checked() -> None:
    wild = {
        "broker": "b" * 5_000, "cause": 7, "sentence": None, "advice": ["x" * 5_000, 3] * MAX_LINES,
        "evidence": [{"text": 1, "time_ms": "x"}, "no"] * MAX_LINES,
    }  # fmt: skip
    many = read_explanations(json.dumps({"explanations": [{"broker": "b"}, "no"] * MAX_ROWS}))
    assert len(many) == MAX_ROWS // 2
    rows = read_explanations(json.dumps({"explanations": [wild]}))
    assert len(str(rows[0]["broker"])) == MAX_TEXT
    assert (rows[0]["cause"], rows[0]["sentence"]) == ("", "")
    evidence, advice = rows[0]["evidence"], rows[0]["advice"]
    assert isinstance(evidence, list)
    assert isinstance(advice, list)
    assert len(evidence) == MAX_LINES // 2
    assert evidence[0] == {"text": "", "broker": "", "object": "", "time_ms": 0}
    assert {len(one) for one in advice} == {MAX_TEXT}
    assert read_explanations("x" * (MAX_ANSWER + 1)) == []
    assert read_explanations("[]") == read_explanations("nonsense") == read_explanations('{"explanations": 3}') == []


class Waiting:
    """Duck-typed to `spanwire.broker.network_ports.NetworkQuestions`."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, str, int, str]] = []
        self.answers: list[object] = []
        self.takes = True

    def answer_later(self, action: str, text: str, asked: str, seconds: int, question: str, answer: object) -> bool:
        assert action == "why"
        self.questions.append((text, asked, seconds, question))
        self.answers.append(answer)
        return self.takes


def test_a_broker_that_asks_over_the_control_destination_is_answered_later() -> None:
    stage = Stage()
    stage.broker.assembly.control.reporter = Reporter()
    waiting = stage.broker.assembly.control.questions = Waiting()
    program = Program(stage)
    program.begins_to_ask("why", message=ID, asked="a\nb", seconds=9, question="q" * 100)
    stage.settle()
    assert program.hears() is None
    assert waiting.questions == [(ID, "a\nb", 9, "q" * 64)]
    waiting.answers[0].give('{"explanations": []}', stage.now)  # type: ignore[attr-defined]
    stage.settle()
    assert program.hears() == {}
    assert program.body == '{"explanations": []}'


def test_a_user_without_the_right_of_links_learns_nothing_and_a_busy_broker_says_so() -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(*BRIDGES))
    stage.broker.assembly.control.reporter = Reporter()
    waiting = stage.broker.assembly.control.questions = Waiting()
    program = Program(stage, user="guest")
    assert refused(program).word == "unauthorized"
    assert waiting.questions == []
    other = Stage()
    other.broker.assembly.control.reporter = Reporter()
    busy = other.broker.assembly.control.questions = Waiting()
    busy.takes = False
    assert refused(Program(other)).word == "unavailable"


@pytest.mark.parametrize("action", ["trace", "route"])
def test_s47_a_client_without_the_right_of_links_marks_no_messages(action: str) -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(*BRIDGES))
    stage.broker.assembly.control.reporter = Reporter()
    waiting = stage.broker.assembly.control.questions = Waiting()
    question = json.dumps({"mark": {"id": "m", "destination": "queue://ORDERS"}})
    with pytest.raises(Refused) as refusal:
        Program(stage, user="guest").asks(action, body=question)
    assert refusal.value.word == "unauthorized"
    assert waiting.questions == []
    assert stage.broker.assembly.context.follower is None


class Reporter:
    def report(self, seconds: int, may_read: object = None) -> str:
        return "{}"

    def take(self, content: bytes, teller: str) -> None:
        raise AssertionError("nobody reports here")

    def invite(self, name: str, seconds: int) -> None:
        raise AssertionError("nobody invites here")


def refused(program: Program) -> Refused:
    try:
        program.asks("why", message=ID)
    except Refused as error:
        return error
    raise AssertionError("nobody refused")
