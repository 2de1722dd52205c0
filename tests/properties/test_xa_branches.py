"""Several branches side by side and a power cut at any position: each is done, undone or in doubt as a whole, and what
is in doubt ends as its manager says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.transactions.xa_transactions import LATER
from spanwire.model.acks import INDIVIDUAL_ACK, MessageAck
from spanwire.model.ids import XaTransactionId
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.seeds import share

IN = "queue://IN"
OUT = "queue://OUT"
BRANCHES = 3
MESSAGES = 8
NEVER = 1 << 40


@dataclass
class Branch:
    """What a branch did, and from which position of the store on it was prepared and ended."""

    xid: XaTransactionId
    open: bool = False
    prepared: bool = False
    ended: bool = False
    taken: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    prepared_at: int = NEVER
    ended_at: int = NEVER
    committed: bool = False


class Model:
    """The branches, and a broker that is told the same."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.peer: Peer = self.stage.peer("x")
        self.stage.peer("p").sends(IN, *[f"in {number}" for number in range(MESSAGES)])
        self.stage.syncs()
        self.listener: Listener = self.peer.consumes(IN)
        self.waiting = self.listener.takes()
        self.branches = [Branch(XaTransactionId(1, bytes([number]), b"")) for number in range(BRANCHES)]
        self.first = self.stage.store.position()
        self.number = 0

    def does(self, place: int, action: str) -> None:
        branch = self.branches[place]
        if branch.ended:
            return
        if not branch.open:
            self.stage.broker.xa.begin(self.peer.state, branch.xid)
            branch.open = True
        if action == "take":
            self.takes(branch)
        elif action == "send":
            self.sends(branch)
        elif action == "prepare":
            self.prepares(branch)
        else:
            self.ends(branch, action == "commit")

    def takes(self, branch: Branch) -> None:
        if branch.prepared or not self.waiting:
            return
        text = self.waiting.pop(0)
        subscription = self.listener.subscription
        self.stage.broker.acknowledge(
            self.peer.state,
            subscription,
            MessageAck(INDIVIDUAL_ACK, None, self.listener.id_of(text)),
            branch.xid,
            NO_TOKEN,
            self.stage.now,
        )
        branch.taken.append(text)

    def sends(self, branch: Branch) -> None:
        if branch.prepared:
            return
        self.number += 1
        text = f"out {self.number}"
        self.stage.broker.send(self.peer.state, self.peer.message(OUT, text), branch.xid, NO_TOKEN, self.stage.now)
        branch.sent.append(text)

    def prepares(self, branch: Branch) -> None:
        if branch.prepared or not (branch.taken or branch.sent):
            return
        branch.prepared_at = self.stage.store.position() + 1
        token = self.peer.new_token()
        assert self.stage.broker.xa.prepare(self.peer.state, branch.xid, token, self.stage.now) == LATER
        branch.prepared = True

    def ends(self, branch: Branch, commits: bool) -> None:
        before = self.stage.store.position()
        token = self.peer.new_token()
        if commits:
            self.stage.broker.xa.commit(self.peer.state, branch.xid, not branch.prepared, token, self.stage.now)
            branch.committed = True
        else:
            self.stage.broker.xa.rollback(self.peer.state, branch.xid, token, self.stage.now)
            self.waiting = sorted([*self.waiting, *branch.taken])
        branch.ended = True
        branch.ended_at = before + 1 if self.stage.store.position() > before else before


def took_effect(branch: Branch, position: int) -> bool:
    return branch.committed and branch.ended_at <= position


def in_doubt(branch: Branch, position: int) -> bool:
    return branch.prepared_at <= position < branch.ended_at


def contents(stage: Stage, name: str) -> list[str]:
    listener = stage.peer(f"d{name}{stage.now.monotonic}").consumes(name)
    while stage.store.reads:
        stage.store.answer(stage.broker, stage.now)
    found = listener.takes()
    listener.peer.leaves()
    return found


ACTIONS = ("take", "take", "send", "send", "prepare", "prepare", "commit", "roll back")
STEPS = st.lists(st.tuples(st.integers(0, BRANCHES - 1), st.sampled_from(ACTIONS)), min_size=4, max_size=30)


@settings(max_examples=share(200), deadline=None)
@given(steps=STEPS, back=st.integers(0, 6), commits=st.booleans())
def test_a_power_cut_leaves_each_branch_done_undone_or_in_doubt(
    steps: list[tuple[int, str]], back: int, commits: bool
) -> None:
    model = Model()
    for place, action in steps:
        model.does(place, action)
    position = max(model.first, model.stage.store.position() - back)
    again = model.stage.restarts(position=position)
    doubtful = [branch for branch in model.branches if in_doubt(branch, position)]
    assert {xid.key for xid in again.broker.xa.prepared()} == {branch.xid.key for branch in doubtful}
    gone = {text for branch in model.branches if took_effect(branch, position) for text in branch.taken}
    there = {text for branch in model.branches if took_effect(branch, position) for text in branch.sent}
    held = {text for branch in doubtful for text in branch.taken}
    everything = {f"in {number}" for number in range(MESSAGES)}
    assert sorted(contents(again, IN)) == sorted(everything - gone - held)
    assert sorted(contents(again, OUT)) == sorted(there)
    manager = again.peer("manager")
    for branch in doubtful:
        token = manager.new_token()
        if commits:
            again.broker.xa.commit(manager.state, branch.xid, False, token, again.now)
            there |= set(branch.sent)
            gone |= set(branch.taken)
        else:
            again.broker.xa.rollback(manager.state, branch.xid, token, again.now)
        while again.store.reads:
            again.store.answer(again.broker, again.now)
    again.syncs()
    last = again.restarts()
    for stage in (again, last):
        assert stage.broker.xa.prepared() == []
        assert sorted(contents(stage, IN)) == sorted(everything - gone)
        assert sorted(contents(stage, OUT)) == sorted(there)
