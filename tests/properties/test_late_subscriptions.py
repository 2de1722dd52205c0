"""Transactions and durable subscriptions that come and go, against a model: a subscription has the messages of each
transaction that was committed while the subscription existed, all or none, also through power cuts.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.transactions.xa_transactions import LATER
from spanwire.model.destination import TRANSACTION, Destination, parse_destination
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage
from tests.support.seeds import SEEDS

TOPICS: Final = ("topic://W.1", "topic://W.2", "topic://X")
PATTERNS: Final = ("topic://W.1", "topic://W.>", "topic://X,topic://W.2", "topic://>")
NAMES: Final = ("a", "b", "c")
LARGE: Final = JOB_STEPS + 100  # messages of a transaction that ends in slices
MOST: Final = 3  # open transactions
STEPS: Final = 120


class Sent:
    """A message of a transaction."""

    def __init__(self, topic: str, text: str, priority: int) -> None:
        self.topic: Final = topic
        self.text: Final = text
        self.priority: Final = priority


class Expected:
    """A durable subscription of the model; ``texts`` are the messages in their order."""

    def __init__(self, pattern: str, picky: bool) -> None:
        self.pattern: Final = pattern
        self.picky: Final = picky
        self.texts: Final[list[str]] = []

    def takes(self, sent: list[Sent]) -> None:
        parts = parse_destination(self.pattern).parts()
        for message in sent:
            topic = parse_destination(message.topic)
            if (message.priority == 9 or not self.picky) and any(part.matches(topic) for part in parts):
                self.texts.append(message.text)

    @property
    def selector(self) -> str | None:
        return "JMSPriority = 9" if self.picky else None


class Game:
    """One broker, and what its subscriptions should have."""

    def __init__(self, random: Random) -> None:
        self.random: Final = random
        self.durables: Final[dict[str, Expected]] = {}
        self.local: Final[dict[int, list[Sent]]] = {}
        self.branches: Final[dict[XaTransactionId, list[Sent]]] = {}
        self.prepared: Final[set[XaTransactionId]] = set()
        self.starts = 0
        self.texts = 0
        self.transactions = 0
        self.stage = Stage()
        self.meets()

    def meets(self) -> None:
        """Everybody connects, under new names: no two messages have one id."""
        self.starts += 1
        self.producer: Peer = self.stage.peer(f"producer{self.starts}")
        self.manager: Peer = self.stage.peer(f"manager{self.starts}")
        self.subscriber: Peer = self.stage.peer(f"subscriber{self.starts}", client_id="c")

    def settles(self) -> None:
        """Everything is done and read by the clients, and what that has stored is safe."""
        for _ in range(4):
            self.subscriber.flushes()
            self.stage.settle()

    def plays(self, steps: int) -> None:
        moves = [
            self.begins, self.begins, self.sends, self.sends, self.sends, self.sends, self.subscribes, self.subscribes,
            self.subscribes, self.unsubscribes, self.unsubscribes, self.removes, self.prepares, self.commits,
            self.commits_branch, self.rolls_back, self.crashes,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(moves)()
        self.checks()

    def begins(self) -> None:
        if len(self.local) + len(self.branches) >= MOST:
            return
        self.transactions += 1
        if self.random.random() < 0.5:
            self.local[self.transactions] = []
            self.producer.begins(self.transactions)
        else:
            xid = XaTransactionId(1, str(self.transactions).encode(), b"")
            self.branches[xid] = []
            self.stage.broker.xa.begin(self.manager.state, xid)

    def sends(self) -> None:
        open_branches = [xid for xid in self.branches if xid not in self.prepared]
        own: list[int | XaTransactionId] = [*self.local, *open_branches]
        if not own:
            return
        chosen = self.random.choice(own)
        topic = self.random.choice(TOPICS)
        for _ in range(LARGE if self.random.random() < 0.02 else 3):
            self.texts += 1
            sent = Sent(topic, str(self.texts), self.random.choice((4, 9)))
            if isinstance(chosen, int):
                self.producer.sends(topic, sent.text, transaction=chosen, priority=sent.priority)
                self.local[chosen].append(sent)
            else:
                peer = self.manager
                message = peer.message(topic, sent.text, priority=sent.priority)
                assert self.stage.broker.send(peer.state, message, chosen, peer.new_token(), self.stage.now)
                self.branches[chosen].append(sent)

    def subscribes(self) -> None:
        name = self.random.choice(NAMES)
        known = self.durables.get(name)
        if known is not None and self.random.random() < 0.5:
            return
        made = Expected(self.random.choice(PATTERNS), self.random.random() < 0.3)
        if known is None or (known.pattern, known.picky) != (made.pattern, made.picky):
            self.durables[name] = made
        self.listens(name).leaves()
        self.stage.syncs()

    def listens(self, name: str) -> Listener:
        own = self.durables[name]
        peer = self.subscriber
        return peer.consumes(own.pattern, durable=name, selector=own.selector, prefetch=100_000)

    def unsubscribes(self) -> None:
        if self.durables:
            name = self.random.choice(list(self.durables))
            self.settles()
            self.subscriber.unsubscribes(name)
            del self.durables[name]

    def removes(self) -> None:
        with suppress(JmsError):  # the last consumer is still leaving
            self.producer.removes(self.random.choice(TOPICS))

    def prepares(self) -> None:
        ready = [xid for xid, sent in self.branches.items() if sent and xid not in self.prepared]
        if not ready:
            return
        xid = self.random.choice(ready)
        token = self.manager.new_token()
        if self.stage.broker.xa.prepare(self.manager.state, xid, token, self.stage.now) == LATER:
            self.disturbs()
            self.settles()
            assert self.manager.is_answered(token)
        self.prepared.add(xid)

    def commits(self) -> None:
        if self.local:
            number = self.random.choice(list(self.local))
            before = list(self.durables.values())
            token = self.producer.commits(number)
            if self.producer.state.job is not None and self.is_cut_off():
                return
            self.takes_effect(before, self.local.pop(number))
            assert self.producer.is_answered(token)

    def commits_branch(self) -> None:
        if not self.branches:
            return
        xid = self.random.choice(list(self.branches))
        before = list(self.durables.values())
        token = self.manager.new_token()
        one_phase = xid not in self.prepared
        if self.stage.broker.xa.commit(self.manager.state, xid, one_phase, token, self.stage.now):
            self.manager.answers[token] = None
        if self.manager.state.job is not None and self.is_cut_off():
            return
        self.takes_effect(before, self.branches.pop(xid))
        self.prepared.discard(xid)
        assert self.manager.is_answered(token)

    def is_cut_off(self) -> bool:
        """Play between the slices of a commit, and return True if the power fails there."""
        self.stage.runs()
        if self.random.random() < 0.3:
            self.cuts()
            return True
        self.disturbs()
        return False

    def disturbs(self) -> None:
        """Subscriptions and topics come and go between two slices."""
        for move in (self.subscribes, self.removes):
            if self.random.random() < 0.5:
                move()

    def takes_effect(self, before: list[Expected], sent: list[Sent]) -> None:
        """The subscriptions of ``before``, when the commit was asked for, have the transaction."""
        self.settles()
        for own in before:
            own.takes(sent)

    def rolls_back(self) -> None:
        own: list[int | XaTransactionId] = [*self.local, *self.branches]
        if not own:
            return
        chosen = self.random.choice(own)
        if isinstance(chosen, int):
            self.producer.rolls_back(chosen)
            del self.local[chosen]
        else:
            self.stage.broker.xa.rollback(self.manager.state, chosen, self.manager.new_token(), self.stage.now)
            del self.branches[chosen]
            self.prepared.discard(chosen)
        self.settles()

    def crashes(self) -> None:
        if self.random.random() < 0.3:
            self.settles()
            self.cuts()

    def cuts(self) -> None:
        """The power fails, and what was not prepared is gone."""
        self.stage = self.stage.restarts()
        self.local.clear()
        for xid in list(self.branches):
            if xid not in self.prepared:
                del self.branches[xid]
        assert set(self.stage.broker.xa.prepared()) == self.prepared
        self.meets()

    def checks(self) -> None:
        """Every subscription has what it should have, and nothing is left of ended transactions."""
        while self.local or self.branches:
            self.rolls_back()
        for name, own in self.durables.items():
            listener = self.listens(name)
            self.settles()
            got = listener.takes()
            assert got == own.texts, name
            if got:
                listener.acknowledges(got[-1])
        self.settles()
        transactions = self.stage.broker.assembly.local_transactions
        assert (self.stage.memory(), transactions.late_copies.count) == (0, 0)
        for number in range(self.transactions):
            assert self.stage.store.kept(Destination(TRANSACTION, str(number))) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_subscription_has_all_or_nothing_of_each_transaction(seed: int) -> None:
    Game(Random(seed)).plays(STEPS)
