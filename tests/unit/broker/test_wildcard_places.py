"""The count of places at which consumers of wildcards listen is exact, whoever and whatever comes and goes."""

from __future__ import annotations

from typing import Final

from hypothesis import example, given
from hypothesis import strategies as st

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import parse_destination
from spanwire.model.errors import JmsError
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories

PATTERNS: Final = (
    "queue://>",
    "queue://A.*",
    "topic://>",
    "topic://A.*,queue://A.1",
    "queue://A.*,topic://A.*",
    "topic://ActiveMQ.Advisory.>",
    "topic://ActiveMQ.Advisory.Consumer.>,topic://ActiveMQ.Advisory.Queue",
    "queue://A.1",
)
NAMES: Final = ("queue://A.1", "queue://A.2", "topic://A.1", "topic://B", "temp-queue")
MOVES: Final = st.one_of(
    st.tuples(st.just("consumes"), st.sampled_from(PATTERNS)),
    st.tuples(st.just("bridges"), st.sampled_from(PATTERNS)),
    st.tuples(st.just("consumer leaves"), st.just("")),
    st.tuples(st.just("connection leaves"), st.just("")),
    st.tuples(st.just("creates"), st.sampled_from(NAMES)),
    st.tuples(st.just("removes"), st.sampled_from(NAMES)),
    st.tuples(st.just("sends"), st.sampled_from(NAMES)),
    st.tuples(st.just("is idle"), st.just("")),
    st.tuples(st.just("runs"), st.just("")),
)


class Places:
    """A broker whose consumers and destinations come and go."""

    def __init__(self) -> None:
        policies = [
            PolicyEntry(parse_destination(pattern), gc_inactive=True, gc_with_network_consumers=True)
            for pattern in ("queue://>", "topic://>")
        ]
        self.stage = Stage(
            *policies, advisory_format=SpokenAdvisories(), upkeep=UpkeepSettings(destinations_period_ms=1_000)
        )
        self.peers: list[Peer] = [self.stage.peer("0")]
        self.listeners: list[Listener] = []
        self.temporary = 0

    def moves(self, move: str, about: str) -> None:
        peer = self.peers[-1]
        try:
            if move in ("consumes", "bridges"):
                self.listeners.append(peer.consumes(about, network=move == "bridges"))
            elif move == "consumer leaves" and self.listeners:
                self.listeners.pop(0).leaves()
            elif move == "connection leaves":
                self.listeners = [one for one in self.listeners if one.peer is not peer]
                peer.leaves()
                self.peers.append(self.stage.peer(str(len(self.peers))))
            elif move == "creates":
                if about == "temp-queue":
                    self.temporary += 1
                    peer.temporary(self.temporary)
                else:
                    peer.creates(about)
            elif move == "removes" and about != "temp-queue":
                peer.removes(about)
            elif move == "sends" and about != "temp-queue":
                peer.sends(about, "x")
        except JmsError:
            pass  # there is a consumer, or it is there already
        if move == "is idle":
            self.stage.waits(120)
        if move == "runs":
            self.stage.runs()

    def check(self) -> None:
        destination_map = self.stage.broker.assembly.map
        assert isinstance(destination_map, DestinationMap)
        wildcards = destination_map.wildcards
        assert wildcards.attached == sum(len(one.destinations) for one in wildcards._by_number.values())


@example(
    [
        ("consumes", "queue://A.1"),
        ("consumes", "topic://ActiveMQ.Advisory.>"),
        ("consumer leaves", ""),
        ("removes", "queue://A.1"),
    ]
)
@example(
    [
        ("creates", "queue://A.1"),
        ("bridges", "queue://A.*"),
        ("bridges", "queue://A.1"),
        ("consumes", "topic://A.*,queue://A.1"),
        ("consumer leaves", ""),
        ("is idle", ""),
        ("connection leaves", ""),
        ("bridges", "queue://>"),
        ("is idle", ""),
        ("is idle", ""),
    ]
)
@given(st.lists(MOVES, max_size=30))
def test_the_count_of_places_is_what_a_recount_gives(moves: list[tuple[str, str]]) -> None:
    places = Places()
    for move, about in moves:
        places.moves(move, about)
        places.check()
    for peer in places.peers:
        peer.leaves()
    places.check()
    destination_map = places.stage.broker.assembly.map
    assert isinstance(destination_map, DestinationMap)
    assert destination_map.wildcards.attached == 0
