"""A queue against a model that is a plain list: whatever happens, in whatever order, both agree."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.outlet import MAX_OUTPUT_BYTES
from spanwire.broker.policy import PolicyEntry
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, LAST_DELIVERED_UNSET
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination

QUEUE = "queue://Q"
LIMIT = 30_000  # bytes; above 70 % of it persistent messages stay on the disk
MESSAGE_BYTES = 1_000  # what a message of the model takes at the most
SELECTORS = (None, "n = 0", "n = 1", "n > 0", "JMSRedelivered = TRUE")


@dataclass
class Entry:
    """A message as the model knows it."""

    text: str
    n: int
    persistent: bool
    count: int = 0


@dataclass
class Holder:
    """A consumer as the model knows it."""

    listener: Listener
    selector: str | None
    prefetch: int
    writable: bool = True
    out: list[Entry] = field(default_factory=list)

    def accepts(self, entry: Entry) -> bool:
        if self.selector == "JMSRedelivered = TRUE":
            return entry.count > 0
        return {None: True, "n = 0": entry.n == 0, "n = 1": entry.n == 1, "n > 0": entry.n > 0}[self.selector]

    def has_room(self) -> bool:
        return self.writable and len(self.out) < self.prefetch


class QueueModel(RuleBasedStateMachine):
    """``line`` is what waits, oldest first; each holder has what is out at it."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.line: list[Entry] = []
        self.places: dict[str, int] = {}
        self.holders: list[Holder] = []
        self.begin(Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT)))

    def begin(self, stage: Stage) -> None:
        self.stage = stage
        self.number += 1
        self.producer = stage.peer(f"p{self.number}")  # no two messages have one id
        self.producer.creates(QUEUE)
        self.holders = []
        self.peers: list[Peer] = []

    # What can happen

    @precondition(lambda self: len(self.line) < 200)
    @rule(n=st.integers(0, 2), persistent=st.booleans(), count=st.integers(1, 12))
    def send(self, n: int, persistent: bool, count: int) -> None:
        for _ in range(count):
            home = self.stage.broker.home_of(destination(QUEUE))
            if not persistent and home is not None and not home.usage.takes(MESSAGE_BYTES):
                return  # it would be parked
            self.number += 1
            entry = Entry(str(self.number), n, persistent)
            self.places[entry.text] = self.number
            self.line.append(entry)
            self.producer.sends(QUEUE, entry.text, persistent=persistent, properties={"n": n})
            self.follow()

    @precondition(lambda self: len(self.holders) < 4)
    @rule(prefetch=st.sampled_from((1, 2, 5, 100)), selector=st.sampled_from(SELECTORS))
    def join(self, prefetch: int, selector: str | None) -> None:
        self.number += 1
        peer: Peer = self.stage.peer(f"c{self.number}")
        self.peers.append(peer)
        peer.reads = False
        listener = peer.announces(QUEUE, prefetch=prefetch, selector=selector)
        self.holders.append(Holder(listener, selector, prefetch))
        self.stage.broker.start_consumer(listener.subscription, self.stage.now)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), last=st.sampled_from(("unset", "unknown", "some")), whole=st.booleans())
    def leave(self, data: st.DataObject, last: str, whole: bool) -> None:
        holder = self.choose(data)
        listener = holder.listener
        seen = len(holder.out)
        sequence = LAST_DELIVERED_UNKNOWN
        if not whole and last == "unset":
            seen, sequence = 0, LAST_DELIVERED_UNSET
        elif not whole and last == "some" and holder.out:
            seen = data.draw(st.integers(1, len(holder.out)))
            text = holder.out[seen - 1].text
            sequence = next(d.sequence for d in listener.deliveries if d.text == text)
        self.holders.remove(holder)
        for entry in holder.out[:seen]:
            entry.count += 1
        self.line = sorted(self.line + holder.out, key=lambda entry: self.places[entry.text])
        if whole:
            listener.peer.leaves()
        else:
            listener.leaves(sequence)

    @precondition(lambda self: any(holder.out for holder in self.holders))
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        holder = self.choose(data)
        if holder.out:
            count = data.draw(st.integers(1, len(holder.out)))
            last = holder.out[count - 1].text
            del holder.out[:count]
            holder.listener.acknowledges(last, count=count)

    @precondition(lambda self: any(holder.out for holder in self.holders))
    @rule(data=st.data())
    def acknowledge_one(self, data: st.DataObject) -> None:
        holder = self.choose(data)
        if holder.out:
            entry = holder.out.pop(data.draw(st.integers(0, len(holder.out) - 1)))
            holder.listener.acknowledges_one(entry.text)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), stuck=st.booleans())
    def flush(self, data: st.DataObject, stuck: bool) -> None:
        holder = self.choose(data)
        holder.writable = not stuck
        holder.listener.peer.flushes(MAX_OUTPUT_BYTES + 1 if stuck else 0)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), prefetch=st.sampled_from((1, 3, 50)))
    def ask_for_another_window(self, data: st.DataObject, prefetch: int) -> None:
        holder = self.choose(data)
        holder.prefetch = prefetch
        self.stage.broker.set_prefetch(holder.listener.subscription, prefetch, self.stage.now)

    @rule()
    def sync(self) -> None:
        self.stage.syncs()

    @precondition(lambda self: self.stage.store.reads)
    @rule()
    def answer_a_read(self) -> None:
        self.stage.store.answer(self.stage.broker, self.stage.now)

    @rule()
    def run_jobs(self) -> None:
        self.stage.runs()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        for entry in [*self.line, *(entry for holder in self.holders for entry in holder.out)]:
            if clean:
                entry.count += any(entry in holder.out for holder in self.holders)
            else:
                entry.count = max(1, entry.count)
        everything = self.line + [entry for holder in self.holders for entry in holder.out]
        self.line = sorted(
            (entry for entry in everything if entry.persistent), key=lambda entry: self.places[entry.text]
        )
        if clean:
            self.stage.broker.stop(self.stage.now)
        self.stage.syncs()
        store = self.stage.store.crash()
        stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT), store=store)
        stage.broker.recover(store.recovered(), clean, stage.now)
        self.begin(stage)

    # What must hold

    def choose(self, data: st.DataObject) -> Holder:
        return self.holders[data.draw(st.integers(0, len(self.holders) - 1))]

    def follow(self) -> None:
        """Each dispatch since the last look took the oldest message that its consumer accepts, and had room for it."""
        dispatches = self.stage.dispatches.copy()
        self.stage.dispatches.clear()
        for listener, delivery in dispatches:
            holder = next(holder for holder in self.holders if holder.listener is listener)
            assert holder.has_room(), f"{delivery.text} was dispatched over the window"
            entry = next((entry for entry in self.line if holder.accepts(entry)), None)
            assert entry is not None and entry.text == delivery.text, f"{delivery.text} was not the next for {holder}"
            assert delivery.redelivery_count == entry.count, entry
            self.line.remove(entry)
            holder.out.append(entry)

    @invariant()
    def agree(self) -> None:
        self.follow()
        view = self.stage.view(QUEUE)
        out = sum(len(holder.out) for holder in self.holders)
        assert (view.pending, view.in_flight) == (len(self.line) + out, out)
        assert view.consumers == len(self.holders)
        for holder in self.holders:
            assert holder.listener.subscription.dispatched_count == len(holder.out)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.stage.store.reads or self.stage.broker.next_timeout() == 0.0:
            return
        for holder in self.holders:
            if holder.has_room():
                assert not [entry.text for entry in self.line if holder.accepts(entry)], f"stuck beside {holder}"

    def teardown(self) -> None:
        """Everything comes out in the end, and nothing stays in memory or store."""
        for holder in self.holders.copy():
            holder.listener.peer.leaves()
            for entry in holder.out:
                entry.count += 1
            self.line = sorted(self.line + holder.out, key=lambda entry: self.places[entry.text])
            self.holders.remove(holder)
            self.follow_others()
        for peer in self.peers:
            peer.flushes()
        peer = self.stage.peer("last")
        listener = peer.announces(QUEUE, prefetch=100)
        last = Holder(listener, None, 100)
        self.holders = [last]
        self.stage.broker.start_consumer(listener.subscription, self.stage.now)
        while True:
            self.stage.settle()
            self.follow()
            if not last.out:
                break
            listener.acknowledges(last.out[-1].text, count=len(last.out))
            last.out.clear()
        assert self.line == []
        assert self.stage.memory() == 0
        assert self.stage.store.kept(destination(QUEUE)) == []
        super().teardown()

    def follow_others(self) -> None:
        for listener, delivery in self.stage.dispatches:
            holder = next(holder for holder in self.holders if holder.listener is listener)
            entry = next(entry for entry in self.line if entry.text == delivery.text)
            self.line.remove(entry)
            holder.out.append(entry)
        self.stage.dispatches.clear()


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(stateful_step_count=40)
