"""The rounds of questions: who is asked, when, and what happens if a broker cannot answer; and who may ask."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.network.gossip import gossip as rounds
from spanwire.network.gossip.gossip import CHANGE_S, FAN_OUT, Gossip, choose
from spanwire.network.gossip.kept_members import KeptMembers, Linked
from spanwire.network.gossip.members import Members
from spanwire.network.reports.known_brokers import Peer
from tests.support.control_dialogue import Program, Refused
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_control_dialogues import Lists, Users
from tests.unit.network.gossip.test_members import row, told

BRIDGES = ("guest", "admin", "topic://ActiveMQ.Advisory.NetworkBridge")
CONTROLS = ("guest", "admin", "queue://ActiveMQ.Spanwire.Control")


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> Time:
        return Time(self.seconds, 0)


class Connector:
    """A connector with links to some brokers."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.ticks: list[dict[str, tuple[str, ...]]] = []
        self.recalled: dict[str, str] = {}

    def tick(self, now: float, members: dict[str, tuple[str, ...]], accepted: frozenset[str]) -> None:
        self.ticks.append(members)

    def peers(self) -> list[Peer]:
        return [Peer(name, f"tcp://{name}:1") for name in self.names]

    def recall(self, members: dict[str, Linked], now: float) -> None:
        self.recalled = {name: one.uri for name, one in members.items()}

    def linked(self, now: float) -> dict[str, Linked]:
        return {name: Linked(f"tcp://{name}:1", 0.0) for name in self.names}


class Scene:
    def __init__(self, answer: str | Exception, *names: str, stage: Stage | None = None) -> None:
        self.clock = Hand()
        self.asked: list[str] = []
        self.connector = Connector(*names)
        self._answer = answer
        kept = KeptMembers(None if stage is None else stage.broker.assembly.network_members, lambda: None)
        self.gossip = Gossip(Members("a", "ID:a"), lambda: ["tcp://10.0.0.1:1"], tuple, self.clock, self._ask, kept)

    async def _ask(self, peer: Peer, text: str) -> str:
        self.asked.append(peer.name)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def ticks(self, *seconds: float) -> list[str]:
        """The brokers that are asked in ticks at these times."""

        async def run() -> None:
            self.gossip.join(self.connector)
            for at in seconds:  # the task of its own does not begin before there is something to wait for
                self.clock.seconds = at
                await self.gossip.look()
            self.gossip.leave(self.connector)

        asyncio.run(run())
        return self.asked


def test_each_linked_broker_has_its_turn() -> None:
    assert [choose(["b", "c", "d", "e", "f"], turn) for turn in (0, 3)] == [["b", "c", "d"], ["e", "f", "b"]]
    assert choose(["b"], 5) == ["b"]
    assert choose([], 5) == []


def test_without_news_a_round_is_asked_every_five_seconds_and_with_news_every_second() -> None:
    assert len(Scene(told(), "b", "c").ticks(100, 101, 102, 105, 106)) == 4  # at 100 and 105
    asked = Scene(told(row("d")), "b").ticks(100, 101, 102, 103)
    assert len(asked) == 4  # news at 100
    assert len(Scene(told(row("d")), "b").ticks(100, 100 + CHANGE_S, 101 + CHANGE_S)) == 2


def test_a_round_asks_a_few() -> None:
    assert len(Scene(told(), *"bcdefgh").ticks(100)) == FAN_OUT


def test_a_broker_that_knows_no_gossip_is_left_alone_and_one_that_cannot_be_reached_is_not() -> None:
    assert len(Scene(JmsError("is no Spanwire, and knows no members"), "b").ticks(100, 105, 110)) == 1
    assert len(Scene(JmsError("no Spanwire"), "b").ticks(100, 105, 100 + rounds.SILENCE_S)) == 2
    assert len(Scene(ConnectionRefusedError(), "b").ticks(100, 105, 110)) == 3


def test_a_connector_is_told_what_was_heard() -> None:
    scene = Scene(told(row("d")), "b")
    scene.ticks(100, 101)
    assert scene.connector.ticks[-1] == {"d": ("tcp://10.0.0.9:61616",)}


def test_a_connector_recalls_the_members_of_the_last_run() -> None:
    stage = Stage()
    Scene(told(), "b", "c", stage=stage).ticks(100)
    stage.settle()
    scene = Scene(told(), "b", stage=stage.restarts())
    scene.ticks(100)
    assert scene.connector.recalled == {"b": "tcp://b:1", "c": "tcp://c:1"}


def test_an_answer_takes_what_the_asker_knows_and_tells_the_addresses_of_this_broker() -> None:
    gossip = Scene(told()).gossip
    answer = gossip.exchange(told(row("b")).encode(), "tcp://10.0.0.2")
    assert '"tcp://10.0.0.1:1"' in answer
    assert set(gossip.members.members(0.0)) == {"b"}
    assert gossip.exchange(b"\xff\xfe{", "tcp://10.0.0.2") == answer


class Answering:
    """Takes gossip, and keeps who told."""

    def __init__(self) -> None:
        self.tellers: list[str] = []

    def exchange(self, content: bytes, teller: str) -> str:
        self.tellers.append(teller)
        return "{}"


@pytest.mark.parametrize(
    ("refused", "is_answered"), [([], True), ([BRIDGES], True), ([CONTROLS], True), ([BRIDGES, CONTROLS], False)]
)
def test_s46_only_brokers_and_administrators_gossip(refused: list[Any], *, is_answered: bool) -> None:
    stage = Stage(authenticator=Users(), authorizer=Lists(*refused))
    control: Any = stage.broker.assembly.control
    control.reporter = object()
    taker = control.gossip = Answering()
    program = Program(stage, "guest", "guest")
    if is_answered:
        program.asks("gossip")
        assert (program.body, len(taker.tellers)) == ("{}", 1)
    else:
        with pytest.raises(Refused, match=r"^unauthorized: only brokers of the network, and administrators"):
            program.asks("gossip")
        assert taker.tellers == []
