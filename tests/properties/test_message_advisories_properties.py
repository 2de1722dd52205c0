"""Advisories about messages against the broker's own counters: whatever happens to messages, each is told once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK, STANDARD_ACK
from spanwire.model.errors import JmsError, ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.dialogue.text_format import text_of

QUEUE = "queue://Q"
DLQ = "queue://ActiveMQ.DLQ"
KINDS = ("MessageDelivered", "MessageDispatched", "MessageConsumed", "MessageDLQd", "Expired", "NoConsumer")
LIFETIME_MS = 2_000
REPORTED = AdvisoryPolicy(delivered=True, dispatched=True, consumed=True, no_consumers=True)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.booleans(), st.booleans(), st.booleans()),
        st.tuples(st.just("consume"), st.integers(1, 3)),
        st.tuples(st.just("settle"), st.sampled_from([STANDARD_ACK, POISON_ACK, EXPIRED_ACK]), st.booleans()),
        st.tuples(st.just("end"), st.booleans()),
        st.tuples(st.just("leave")),
        st.tuples(st.just("wait"), st.sampled_from([1.0, 31.0])),
        st.tuples(st.just("room"), st.booleans()),
        st.tuples(st.just("rest")),
    ),
    max_size=40,
)


class Play:
    """One broker with a producer, a changing consumer and a listener to each kind of news."""

    def __init__(self, process_expired: bool) -> None:
        strategy = DeadLetterStrategy(process_expired=process_expired, process_non_persistent=True)
        policy = PolicyEntry(destination(QUEUE), advisories=REPORTED, dead_letter=strategy, memory_limit_bytes=20_000)
        self.stage = Stage(policy, advisory_format=SpokenAdvisories())
        self.advisories = {
            kind: self.stage.peer(kind).consumes(f"topic://ActiveMQ.Advisory.{kind}.Queue.Q") for kind in KINDS
        }
        self.producer: Peer = self.stage.peer("p")
        self.consumer_registry: Peer = self.stage.peer("c")
        self.consumer: Listener | None = None
        self.listeners: list[Listener] = []
        self.out: list[str] = []
        self.transaction = 0
        self.number = 0
        self.alone = 0

    def send(self, persistent: bool, expires: bool, transacted: bool) -> None:
        self.number += 1
        due = self.stage.now.wall_ms + LIFETIME_MS if expires else 0
        transaction = self._open() if transacted else 0
        with suppress(ResourceAllocationError):  # a transaction finds no room on the disk
            token = self.producer.sends(
                QUEUE, str(self.number), persistent=persistent, expiration_ms=due, transaction=transaction
            )
            if not (persistent or transacted or self.consumer) and self.producer.is_answered(token):
                self.alone += 1

    def _open(self) -> int:
        if self.transaction <= 0:
            self.transaction = 1 - self.transaction
            self.producer.begins(self.transaction)
        return self.transaction

    def end(self, commit: bool) -> None:
        if self.transaction > 0:
            with suppress(JmsError):  # one of its sends found no room, which may have ended it
                if commit:
                    self.producer.commits(self.transaction)
            with suppress(JmsError):
                self.producer.rolls_back(self.transaction)
            self.transaction = -self.transaction
            self.stage.syncs()

    def consume(self, prefetch: int) -> None:
        if self.consumer is None:
            self.consumer = self.consumer_registry.consumes(QUEUE, prefetch=prefetch)
            self.listeners.append(self.consumer)

    def settle(self, ack_type: int, flushed: bool) -> None:
        consumer = self.consumer
        if consumer is not None:
            self.out += consumer.takes()
            if self.out:
                consumer.acknowledges(self.out.pop(0), ack_type=ack_type, count=1)
                if flushed:
                    self.stage.syncs()

    def leave(self) -> None:
        if self.consumer is not None:
            self.consumer.leaves()
            self.consumer = None
            self.out = []

    def step(self, name: str, *values: bool | int | float) -> None:
        match name, values:
            case "wait", [float(seconds)]:
                self.end(False)  # what expires before its commit never came to the queue
                self.stage.waits(seconds)
            case "room", [bool(room)]:
                self.stage.has_room(room)
            case "rest", _:
                self.stage.settle()
            case _:
                getattr(self, name)(*values)

    def counts(self) -> Counter[str]:
        return Counter({kind: len(listener.out) for kind, listener in self.advisories.items()})


@settings(deadline=None)
@given(STEPS, st.booleans())
def test_every_message_is_told_as_often_as_it_is_counted(
    steps: list[tuple[str, bool | int | float]], process_expired: bool
) -> None:
    play = Play(process_expired)
    for name, *values in steps:
        play.step(name, *values)
    play.stage.has_room(True)
    play.stage.settle()
    told = play.counts()
    queue = play.stage.view(QUEUE) if play.stage.has(QUEUE) else None
    letters = play.stage.view(DLQ).enqueued if play.stage.has(DLQ) else 0
    assert told["MessageDLQd"] == letters
    assert told["MessageDispatched"] == sum(len(listener.out) for listener in play.listeners)
    assert told["NoConsumer"] >= play.alone
    if queue is not None:
        assert told["MessageDelivered"] == queue.enqueued
        assert told["MessageConsumed"] == queue.dequeued
        assert told["Expired"] == queue.expired
    assert all(text_of(delivery.message) for listener in play.advisories.values() for delivery in listener.deliveries)
