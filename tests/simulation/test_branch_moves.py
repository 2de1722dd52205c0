"""Prepared branches with many messages, over power cuts between the batches of the store: each branch is done, undone
or in doubt as a whole.

A commit moves what the prepare has stored. The segments are so small that a branch fills one or several.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any, Final

import pytest

from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.store_unit import Transfer
from spanwire.broker.ports import NO_TOKEN
from spanwire.model.acks import INDIVIDUAL_ACK, MessageAck
from spanwire.model.destination import Destination
from spanwire.model.ids import XaTransactionId
from spanwire.stores.journal.batch import write_batch
from tests.simulation.disk import SimulatedDisk
from tests.support.dialogue.broker_dialogue import Peer
from tests.support.dialogue.disk_stage import DiskStage
from tests.support.seeds import SEEDS

QUEUES: Final = ("queue://A", "queue://B", "queue://C")
ENOUGH: Final = 10  # seeds, of which at least one must show the fault

PREPARING, PREPARED, COMMITTING, COMMITTED, ROLLING, ROLLED, UNKNOWN = range(7)
WHEN_STORED: Final = {PREPARING: PREPARED, COMMITTING: COMMITTED, ROLLING: ROLLED}
# Of a branch that is not in doubt after a power cut.
WHEN_CUT: Final = {PREPARING: ROLLED, COMMITTING: UNKNOWN, ROLLING: ROLLED}


@dataclass
class Branch:
    """What a branch did: texts and queues of its messages, and texts that it acknowledged."""

    xid: XaTransactionId
    state: int = PREPARING
    sent: list[tuple[str, str]] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)


class Branches:
    """A broker over a journal, its branches, and what is known about its messages."""

    def __init__(self, seed: int, forgets: bool = False) -> None:
        self.random = Random(seed)
        self.forgets = forgets
        self.moved = 0
        self.branches: list[Branch] = []
        self.plain: dict[str, str] = {}  # messages outside branches, and their queues
        self.taken: set[str] = set()
        self.number = 0
        self.starts(DiskStage(segment_bytes=self.random.choice([8, 16, 64]) * 1024, disk=SimulatedDisk()))

    def starts(self, stage: DiskStage) -> None:
        self.stage = stage
        store: Any = stage.disk_store
        store.transfer_unit = self.transfer_unit
        self.peers: list[Peer] = []
        self.manager = self.peer()

    def transfer_unit(
        self, transfers: list[Transfer], removals: list[tuple[Destination, int]], metadata: list[MetadataRecord]
    ) -> list[int]:
        """Store what a commit moves, without the first message if the store ``forgets``."""
        journal = self.stage.disk_store.journal
        firsts = journal.transfer_unit(transfers, removals, metadata)
        self.moved += sum(len(transfer.sequences) for transfer in transfers)
        if self.forgets:
            journal.remove(transfers[0].target, firsts[0])
        return firsts

    def peer(self) -> Peer:
        self.number += 1
        self.peers.append(self.stage.peer(f"p{self.number}"))
        return self.peers[-1]

    def settles(self) -> None:
        for _ in range(1_000):
            self.stage.settle()
            self.stage.syncs()  # what the last reads led to
            unread = [peer for peer in self.peers if peer.out_bytes]
            for peer in unread:
                peer.flushes()
            if not (unread or self.stage.store.reads):
                break
        for branch in self.branches:
            branch.state = WHEN_STORED.get(branch.state, branch.state)

    def stores(self, settled: float) -> None:
        """Store everything, with the probability ``settled``, or a few batches."""
        while self.manager.state.job is not None:
            self.stage.runs()
        if self.random.random() < settled:
            self.settles()
            return
        store = self.stage.disk_store
        for _ in range(self.random.randint(0, 3)):
            batch = store.journal.next_batch()
            if batch is not None:
                write_batch(store.disk, batch, True)
                self.stage.broker.stored(store.journal.on_completed(batch), self.stage.now)

    def acts(self) -> None:
        choice = self.random.random()
        if choice < 0.5:
            self.works()
        elif choice < 0.6:
            self.sends()
        elif choice < 0.8:
            self.takes()
        else:
            self.cuts()

    def works(self) -> None:
        """A branch takes and sends, is prepared, and is often finished."""
        branch = Branch(XaTransactionId(1, b"%d" % len(self.branches), b""))
        self.stage.broker.xa.begin(self.manager.state, branch.xid)
        if self.random.random() < 0.3:
            self.acknowledges(branch)
        for _ in range(self.random.randint(1, 3)):
            queue = self.random.choice(QUEUES)
            for _ in range(self.random.choice([1, 8, 9, 20])):
                text = f"x{len(self.branches)}-{len(branch.sent)}"
                padding = "y" * self.random.choice([0, 0, 10, 300])
                message = self.manager.message(queue, text, properties={"padding": padding})
                token = self.manager.new_token()
                self.stage.broker.send(self.manager.state, message, branch.xid, token, self.stage.now)
                branch.sent.append((text, queue))
        self.stage.broker.xa.prepare(self.manager.state, branch.xid, self.manager.new_token(), self.stage.now)
        self.branches.append(branch)
        self.stores(0.8)
        if self.random.random() < 0.8:
            self.finishes(branch, self.random.random() < 0.8)
            self.stores(0.7)

    def acknowledges(self, branch: Branch) -> None:
        listener = self.manager.consumes(self.random.choice(QUEUES), prefetch=self.random.choice([1, 5, 100]))
        self.settles()
        texts = listener.takes()
        branch.taken = texts[: self.random.randint(0, 6)]
        for text in branch.taken:
            ack = MessageAck(INDIVIDUAL_ACK, None, listener.id_of(text), 1)
            self.stage.broker.acknowledge(
                self.manager.state, listener.subscription, ack, branch.xid, NO_TOKEN, self.stage.now
            )
        listener.leaves()

    def finishes(self, branch: Branch, commits: bool) -> None:
        xa = self.stage.broker.xa
        token = self.manager.new_token()
        if commits:
            xa.commit(self.manager.state, branch.xid, False, token, self.stage.now)
        else:
            xa.rollback(self.manager.state, branch.xid, token, self.stage.now)
        branch.state = COMMITTING if commits else ROLLING

    def sends(self) -> None:
        queue = self.random.choice(QUEUES)
        for _ in range(self.random.randint(1, 10)):
            text = f"plain {len(self.plain)}"
            self.manager.sends(queue, text)
            self.plain[text] = queue
        self.settles()

    def takes(self) -> None:
        self.settles()
        listener = self.peer().consumes(self.random.choice(QUEUES), prefetch=self.random.choice([3, 50, 1_000]))
        self.settles()
        texts = listener.takes()
        for text in texts[: self.random.randint(0, len(texts))]:
            assert text not in self.taken
            listener.acknowledges_one(text)
            self.taken.add(text)
        self.settles()
        listener.peer.leaves()
        self.peers.remove(listener.peer)

    def cuts(self) -> None:
        """The power goes; the manager finishes some of the branches in doubt."""
        self.starts(self.stage.loses_power())
        doubtful = {xid.key for xid in self.stage.broker.xa.prepared()}
        for branch in self.branches:
            if branch.xid.key in doubtful:
                assert branch.state in (PREPARING, PREPARED, COMMITTING, ROLLING)
                branch.state = PREPARED
            else:
                assert branch.state != PREPARED
                branch.state = WHEN_CUT.get(branch.state, branch.state)
        self.settles()
        for branch in self.branches:
            if branch.state == PREPARED and self.random.random() < 0.8:
                self.finishes(branch, self.random.random() < 0.5)
                self.settles()

    def check(self) -> None:
        """Each message is where its branch has it, once, and in the order of its branch."""
        self.settles()
        self.starts(self.stage.loses_power())
        found: dict[str, str] = {}
        for queue in QUEUES:
            listener = self.manager.consumes(queue, prefetch=10_000)
            self.settles()
            texts = listener.takes()
            places: dict[str, list[int]] = {}
            for text in texts:
                assert text not in found, "twice"
                found[text] = queue
                if text in self.plain:
                    continue
                owner, place = text.split("-")
                places.setdefault(owner, []).append(int(place))
            assert all(one < other for own in places.values() for one, other in pairwise(own)), "in another order"
        assert not self.taken & found.keys()
        ended = (COMMITTED, UNKNOWN, PREPARED)
        away = self.taken.union(*[branch.taken for branch in self.branches if branch.state in ended])
        for branch in self.branches:
            expected = {text: queue for text, queue in branch.sent if text not in away}
            there = {text: found[text] for text, _ in branch.sent if text in found and text not in away}
            if branch.state == COMMITTED or (branch.state == UNKNOWN and there):
                assert there == expected, "a part of a branch"
            elif branch.state != UNKNOWN:
                assert not there, "a branch without a commit"
        assert all(found.get(text) == queue for text, queue in self.plain.items() if text not in away)


def lives(seed: int, forgets: bool = False) -> Branches:
    branches = Branches(seed, forgets)
    for _ in range(branches.random.randint(5, 20)):
        branches.acts()
    branches.check()
    return branches


@pytest.mark.parametrize("seed", SEEDS)
def test_each_branch_is_done_undone_or_in_doubt_after_power_cuts(seed: int) -> None:
    lives(seed)


def test_the_branches_move_messages() -> None:
    assert sum(lives(seed).moved for seed in range(ENOUGH)) > 100


def test_a_message_that_is_lost_in_a_move_is_found() -> None:
    with pytest.raises(AssertionError, match="a part of a branch"):
        for seed in range(ENOUGH):
            lives(seed, forgets=True)
