"""A topic against a model: each subscriber has the list of what it should get, and gets it in order, once."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.dispatch.connection_output import MAX_OUTPUT_BYTES
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage

TOPICS = ("topic://T.a", "topic://T.b")
PATTERNS = (
    ("topic://T.a", "a"),
    ("topic://T.*", "ab"),
    ("topic://T.a,topic://T.b", "ab"),
    ("topic://T.b,topic://T.>", "ab"),
)
SELECTORS = (None, "n = 0", "n = 1")


@dataclass
class Subscriber:
    """What one subscriber should have got (``wanted``), and how far it is."""

    listener: Listener
    topics: str
    selector: str | None
    prefetch: int
    connection_id: str | None
    wanted: list[str] = field(default_factory=list)
    acknowledged: int = 0
    writable: bool = True

    def accepts(self, topic: str, n: int, connection_id: str) -> bool:
        if topic[-1] not in self.topics or connection_id == self.connection_id:
            return False
        return self.selector is None or self.selector == f"n = {n}"


class TopicModel(RuleBasedStateMachine):
    """Two topics, changing subscribers."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage()
        self.producers = [self.stage.peer("p"), self.stage.peer("q")]
        self.subscribers: list[Subscriber] = []
        self.stuck: list[Peer] = []
        self.number = 0

    @rule(topic=st.sampled_from(TOPICS), n=st.integers(0, 1), producer=st.integers(0, 1), persistent=st.booleans())
    def send(self, topic: str, n: int, producer: int, persistent: bool) -> None:
        self.number += 1
        peer = self.producers[producer]
        for subscriber in self.subscribers:
            if subscriber.accepts(topic, n, peer.connection_id):
                subscriber.wanted.append(str(self.number))
        token = peer.sends(topic, str(self.number), properties={"n": n}, persistent=persistent)
        assert peer.is_answered(token)

    @precondition(lambda self: len(self.subscribers) < 5)
    @rule(
        pattern=st.sampled_from(PATTERNS),
        selector=st.sampled_from(SELECTORS),
        prefetch=st.sampled_from((1, 3, 100)),
        deaf=st.booleans(),
        own=st.booleans(),
    )
    def subscribe(self, pattern: tuple[str, str], selector: str | None, prefetch: int, deaf: bool, own: bool) -> None:
        self.number += 1
        peer = self.producers[0] if own else self.stage.peer(f"s{self.number}")
        peer.reads = False
        listener = peer.consumes(pattern[0], selector=selector, prefetch=prefetch, no_local=deaf)
        connection_id = peer.connection_id if deaf else None
        subscriber = Subscriber(listener, pattern[1], selector, prefetch, connection_id)
        subscriber.writable = peer not in self.stuck
        self.subscribers.append(subscriber)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        subscriber = self.choose(data)
        self.subscribers.remove(subscriber)
        subscriber.listener.leaves()

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        subscriber = self.choose(data)
        out = len(subscriber.listener.out) - subscriber.acknowledged
        if out:
            count = data.draw(st.integers(1, out))
            subscriber.acknowledged += count
            subscriber.listener.acknowledges(subscriber.listener.out[subscriber.acknowledged - 1], count=count)

    @precondition(lambda self: self.subscribers)
    @rule(data=st.data(), stuck=st.booleans())
    def flush(self, data: st.DataObject, stuck: bool) -> None:
        subscriber = self.choose(data)
        peer = subscriber.listener.peer
        for other in self.subscribers:
            if other.listener.peer is peer:
                other.writable = not stuck
        if stuck:
            self.stuck.append(peer)
        else:
            self.stuck = [other for other in self.stuck if other is not peer]
        subscriber.listener.peer.flushes(MAX_OUTPUT_BYTES + 1 if stuck else 0)

    def choose(self, data: st.DataObject) -> Subscriber:
        return self.subscribers[data.draw(st.integers(0, len(self.subscribers) - 1))]

    @invariant()
    def everybody_got_what_fits(self) -> None:
        for subscriber in self.subscribers:
            got = subscriber.listener.out
            assert got == subscriber.wanted[: len(got)], subscriber
            assert len(got) - subscriber.acknowledged <= subscriber.prefetch
            if subscriber.writable and len(got) < len(subscriber.wanted):
                assert len(got) - subscriber.acknowledged == subscriber.prefetch, "stuck"

    def teardown(self) -> None:
        for peer in self.stuck:
            peer.flushes()
        for subscriber in self.subscribers:
            subscriber.listener.peer.flushes()
            while len(subscriber.listener.out) > subscriber.acknowledged:
                subscriber.acknowledged = len(subscriber.listener.out)
                subscriber.listener.acknowledges(subscriber.listener.out[-1])
            assert subscriber.listener.out == subscriber.wanted
        assert self.stage.memory() == 0
        super().teardown()


TestTopicModel = TopicModel.TestCase
TestTopicModel.settings = settings(stateful_step_count=40)
