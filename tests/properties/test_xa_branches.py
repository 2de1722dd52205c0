"""Several branches side by side and a power cut at any position: each is done, undone or in doubt as a whole, and what
is in doubt ends as its manager says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from spanwire.broker.persistence.store_unit import LEAST_STRETCH
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.transactions.xa_transactions import LATER
from spanwire.model.acks import INDIVIDUAL_ACK, MessageAck
from spanwire.model.ids import XaTransactionId
from spanwire.model.ledger import MOVED_OUT
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.seeds import share

IN = "queue://IN"
OUT = "queue://OUT"
OTHER = "queue://OTHER"
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
    sent: list[tuple[str, str]] = field(default_factory=list)  # queues and texts
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

    def does(self, place: int, action: str, count: int, queue: str) -> None:
        branch = self.branches[place]
        if branch.ended:
            return
        if not branch.open:
            self.stage.broker.xa.begin(self.peer.state, branch.xid)
            branch.open = True
        if action == "take":
            self.takes(branch)
        elif action == "send":
            self.sends(branch, count, queue)
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

    def sends(self, branch: Branch, count: int, queue: str) -> None:
        if branch.prepared:
            return
        for _ in range(count):
            self.number += 1
            text = f"out {self.number}"
            message = self.peer.message(queue, text)
            self.stage.broker.send(self.peer.state, message, branch.xid, NO_TOKEN, self.stage.now)
            branch.sent.append((queue, text))

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


def sent_to(stage: Stage) -> list[tuple[str, str]]:
    return sorted((name, text) for name in (OUT, OTHER) for text in contents(stage, name))


ACTIONS = ("take", "take", "send", "send", "prepare", "prepare", "commit", "roll back")
COUNTS = st.integers(1, 12) | st.just(4 * LEAST_STRETCH)
STEP = st.tuples(st.integers(0, BRANCHES - 1), st.sampled_from(ACTIONS), COUNTS, st.sampled_from([OUT, OTHER]))
MOVED_STEPS = [(0, "send", LEAST_STRETCH, OUT), (0, "prepare", 1, OUT), (0, "commit", 1, OUT)]


def moved(stage: Stage) -> int:
    """How many messages left a staging destination for a queue."""
    return sum(sums.counts[MOVED_OUT] for sums in stage.store.ledgers.values())


def test_a_commit_of_many_messages_moves_them() -> None:
    model = Model()
    for step in MOVED_STEPS:
        model.does(*step)
    assert moved(model.stage) == LEAST_STRETCH


@settings(max_examples=share(200), deadline=None)
@given(steps=st.lists(STEP, min_size=4, max_size=30), back=st.integers(0, 6), commits=st.booleans())
@example(steps=MOVED_STEPS, back=0, commits=True)
@example(steps=MOVED_STEPS, back=1, commits=True)
def test_a_power_cut_leaves_each_branch_done_undone_or_in_doubt(
    steps: list[tuple[int, str, int, str]], back: int, commits: bool
) -> None:
    model = Model()
    for step in steps:
        model.does(*step)
    event("moved" if moved(model.stage) else "stored again")
    position = max(model.first, model.stage.store.position() - back)
    again = model.stage.restarts(position=position)
    doubtful = [branch for branch in model.branches if in_doubt(branch, position)]
    assert {xid.key for xid in again.broker.xa.prepared()} == {branch.xid.key for branch in doubtful}
    gone = {text for branch in model.branches if took_effect(branch, position) for text in branch.taken}
    there = {sent for branch in model.branches if took_effect(branch, position) for sent in branch.sent}
    held = {text for branch in doubtful for text in branch.taken}
    everything = {f"in {number}" for number in range(MESSAGES)}
    assert sorted(contents(again, IN)) == sorted(everything - gone - held)
    assert sent_to(again) == sorted(there)
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
        assert sent_to(stage) == sorted(there)
