"""Duplicate ids against a model that is a few plain lists: sends, transactions, power cuts in any order.

The broker keeps its messages in a journal of small segments on a simulated disk, so that windows outlive the segments
in which their ids were written.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.broker.policy.policy_entry import PolicyEntry
from tests.support.dialogue.broker_dialogue import Peer, destination
from tests.support.dialogue.disk_stage import DiskStage

QUEUES = ("queue://A", "queue://B")
DEPTH = 4  # ids that a queue remembers
IDS = st.sampled_from("abcdefgh")
TO = st.sampled_from((("queue://A",), ("queue://B",), QUEUES))
SEGMENT_BYTES = 4_096


@dataclass
class Place:
    """A queue as the model knows it."""

    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    duplicates: int = 0

    def takes(self, text: str, duplicate_id: str | None) -> None:
        if duplicate_id is not None:
            if duplicate_id in self.ids:
                self.duplicates += 1
                return
            self.ids.append(duplicate_id)
            del self.ids[:-DEPTH]
        self.texts.append(text)


Send = tuple[tuple[str, ...], str, str | None]


class DuplicateIdMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = DiskStage(PolicyEntry(destination("queue://>"), id_cache_size=DEPTH), segment_bytes=SEGMENT_BYTES)
        self.places = {name: Place() for name in QUEUES}
        self.safe = deepcopy(self.places)
        self.open: dict[int, list[Send]] = {}
        self.number = 0
        self.runs = 1
        self.peer = self._peer()

    def _peer(self) -> Peer:
        self.taken: dict[str, list[str]] = {name: [] for name in QUEUES}
        return self.stage.peer(f"p{self.runs}")

    def _send(self, names: tuple[str, ...], duplicate_id: str | None, transaction: int = 0) -> Send:
        self.number += 1
        text = f"{self.number:03}" + "x" * 150
        properties: dict[str, object] = {} if duplicate_id is None else {PROPERTY: duplicate_id}
        to = "queue://" + ",".join(name.removeprefix("queue://") for name in names)
        self.peer.sends(to, text, transaction=transaction, properties=properties)
        return names, text, duplicate_id

    def _apply(self, send: Send) -> None:
        names, text, duplicate_id = send
        for name in names:
            self.places[name].takes(text, duplicate_id)

    @rule(names=TO, duplicate_id=st.none() | IDS)
    def send(self, names: tuple[str, ...], duplicate_id: str | None) -> None:
        self._apply(self._send(names, duplicate_id))

    @precondition(lambda self: len(self.open) < 2)
    @rule()
    def begin(self) -> None:
        self.number += 1
        self.peer.begins(self.number)
        self.open[self.number] = []

    @precondition(lambda self: self.open)
    @rule(data=st.data(), names=TO, duplicate_id=st.none() | IDS)
    def send_in_transaction(self, data: st.DataObject, names: tuple[str, ...], duplicate_id: str | None) -> None:
        transaction = data.draw(st.sampled_from(sorted(self.open)))
        self.open[transaction].append(self._send(names, duplicate_id, transaction))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), commits=st.booleans())
    def end(self, data: st.DataObject, commits: bool) -> None:
        transaction = data.draw(st.sampled_from(sorted(self.open)))
        sends = self.open.pop(transaction)
        if not commits:
            self.peer.rolls_back(transaction)
            return
        self.peer.commits(transaction)
        for send in sends:
            self._apply(send)

    @rule(name=st.sampled_from(QUEUES))
    def drain(self, name: str) -> None:
        """A consumer takes what waits, so that segments become empty."""
        self.sync()
        listener = self.peer.consumes(name)
        self.stage.settle()
        texts = listener.takes()
        assert texts == self.places[name].texts
        if texts:
            listener.acknowledges(texts[-1])
        listener.leaves()
        self.places[name].texts.clear()
        self.sync()

    @rule()
    def sync(self) -> None:
        self.stage.settle()
        self.stage.syncs()
        self.safe = deepcopy(self.places)

    @rule()
    def cut_the_power(self) -> None:
        self.stage = self.stage.loses_power()
        self.places = deepcopy(self.safe)
        for place in self.places.values():
            place.duplicates = 0
        self.open.clear()
        self.runs += 1
        self.peer = self._peer()

    @invariant()
    def agrees(self) -> None:
        for name, place in self.places.items():
            found = self.stage.broker.find_destination(destination(name))
            if found is not None:
                assert found.duplicates == place.duplicates

    def teardown(self) -> None:
        for name in QUEUES:
            self.drain(name)


DuplicateIdMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=50, deadline=None)
TestDuplicateIds = DuplicateIdMachine.TestCase
