"""A queue against a model that is a plain list: whatever happens, in whatever order, both agree.

Proven of the pure core, with a store that answers late, memory for some thirty messages and restarts in between:
nothing is invented (I2), what is delivered again says so (I3), order (I6), order within groups (I7), one exclusive
consumer at a time (I8), one dead letter each (I10), nothing expired is delivered (I11), selectors (I12), browsing
changes nothing (I17), and nobody waits for nothing. The numbers are those of docs/concepts/promises.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spanwire.broker.dispatch.connection_output import MAX_OUTPUT_BYTES
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, LAST_DELIVERED_UNSET, POISON_ACK
from tests.support.dialogue.broker_dialogue import Delivery, Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import is_first, text_of

QUEUE = "queue://Q"
LIMIT = 30_000  # bytes; above 70 % of it persistent messages stay on the disk
MESSAGE_BYTES = 1_000  # what a message of the model takes at the most
DLQ = "queue://ActiveMQ.DLQ"
LIFETIME_MS = 4_000
SELECTORS = (None, "n = 0", "n = 1", "n > 0", "JMSRedelivered = TRUE")


@dataclass
class Entry:
    """A message as the model knows it."""

    text: str
    n: int
    persistent: bool
    count: int = 0
    priority: int = 4
    group: str | None = None
    closes: bool = False
    due_ms: int = 0


@dataclass
class Holder:
    """A consumer as the model knows it."""

    listener: Listener
    selector: str | None
    prefetch: int
    writable: bool = True
    exclusive: bool = False
    priority: int = 0
    out: list[Entry] = field(default_factory=list)
    gave_way: bool = False  # all it held was acknowledged once, in a transaction that was rolled back

    def accepts(self, entry: Entry) -> bool:
        if self.selector == "JMSRedelivered = TRUE":
            return entry.count > 0
        return {None: True, "n = 0": entry.n == 0, "n = 1": entry.n == 1, "n > 0": entry.n > 0}[self.selector]

    def has_room(self) -> bool:
        return self.writable and len(self.out) < self.prefetch


class QueueModel(RuleBasedStateMachine):
    """``line`` is what waits, oldest first; each holder has what is out at it. ``due`` are those of the line whose time
    is over: the broker may have noticed already or not. ``letters`` are the dead letters there must be in the end.
    """

    def policy(self) -> PolicyEntry:
        return PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT)

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self.due: list[Entry] = []
        self.letters: list[str] = []
        self.browsers: list[Listener] = []
        self.paused = False
        self.purging = 0  # messages that may be there until the purge has come to them
        self.line: list[Entry] = []
        self.places: dict[str, int] = {}
        self.holders: list[Holder] = []
        self.begin(Stage(self.policy()))

    def begin(self, stage: Stage) -> None:
        self.stage = stage
        self.number += 1
        self.producer = stage.peer(f"p{self.number}")  # no two messages have one id
        self.producer.creates(QUEUE)
        self.holders = []
        self.browsers = []
        self.paused = False
        self.peers: list[Peer] = []

    # What can happen

    @precondition(lambda self: len(self.line) < 200)
    @rule(n=st.integers(0, 2), persistent=st.booleans(), count=st.integers(1, 12))
    def send(self, n: int, persistent: bool, count: int) -> None:
        self.send_some(n, persistent, count)

    @precondition(lambda self: len(self.line) < 200)
    @rule(n=st.integers(0, 2), persistent=st.booleans(), count=st.integers(1, 6))
    def send_short_lived(self, n: int, persistent: bool, count: int) -> None:
        self.send_some(n, persistent, count, lives=True)

    def send_some(
        self,
        n: int,
        persistent: bool,
        count: int,
        lives: bool = False,
        priority: int = 4,
        group: str | None = None,
        closes: bool = False,
    ) -> None:
        for _ in range(count):
            queue = self.stage.broker.find_destination(destination(QUEUE))
            if not persistent and queue is not None and not queue.usage.takes(MESSAGE_BYTES):
                return  # it would be parked
            self.number += 1
            due_ms = self.stage.now.wall_ms + LIFETIME_MS if lives else 0
            entry = Entry(str(self.number), n, persistent, 0, priority, group, closes, due_ms)
            self.places[entry.text] = self.number
            self.line.append(entry)
            self.line.sort(key=self.place)
            self.producer.sends(
                QUEUE,
                entry.text,
                persistent=persistent,
                properties={"n": n},
                expiration_ms=due_ms,
                priority=priority,
                group=group or "",
                group_sequence=-1 if closes else 0,
            )
            self.follow()

    def place(self, entry: Entry) -> tuple[int, int]:
        """Where an entry stands in the line."""
        return 0, self.places[entry.text]

    def put_back(self, entries: list[Entry]) -> None:
        """What was out waits again; some of it may be over its time by now."""
        self.line = sorted(self.line + entries, key=self.place)
        self.note_due()

    def note_due(self) -> None:
        now = self.stage.now.wall_ms
        over = [entry for entry in self.line if 0 < entry.due_ms <= now]
        self.due += over
        self.letters += [entry.text for entry in over if entry.persistent]
        self.line = [entry for entry in self.line if entry not in over]

    @rule(seconds=st.sampled_from((1.0, 5.0, 31.0)))
    def time_passes(self, seconds: float) -> None:
        self.stage.environment.advance(seconds)
        self.note_due()
        self.stage.runs()

    @precondition(lambda self: len(self.browsers) < 3)
    @rule(prefetch=st.sampled_from((1, 7, 1000)), selector=st.sampled_from(SELECTORS[:3]))
    def browse(self, prefetch: int, selector: str | None) -> None:
        self.number += 1
        view = replace(self.stage.view(QUEUE), memory_bytes=0)  # decoded properties take some
        log = len(self.stage.store.log)
        peer = self.stage.peer(f"b{self.number}")
        self.browsers.append(peer.consumes(QUEUE, prefetch=prefetch, selector=selector, browser=True))
        assert replace(self.stage.view(QUEUE), memory_bytes=0) == view
        assert len(self.stage.store.log) == log

    @precondition(lambda self: self.browsers)
    @rule(acknowledges=st.booleans())
    def end_a_browse(self, acknowledges: bool) -> None:
        browser = self.browsers.pop(0)
        assert len(set(browser.out)) == len(browser.out)
        order = [self.places[text] for text in browser.out]
        assert self.shuffles or order == sorted(order)
        if acknowledges and browser.out:
            browser.acknowledges(browser.out[-1])
        browser.peer.leaves()

    shuffles = False  # whether a line may have another order than that of sending

    @rule()
    def pause_or_resume(self) -> None:
        queue = self.stage.broker.find_destination(destination(QUEUE))
        assert isinstance(queue, Queue)
        self.paused = not self.paused
        if self.paused:
            queue.pause()
        else:
            queue.resume()

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
        self.gone(holder)
        self.put_back(holder.out)
        if whole:
            listener.peer.leaves()
        else:
            listener.leaves(sequence)
            listener.peer.flushes()  # what it has not read yet would stay in memory

    def gone(self, holder: Holder) -> None:
        """A consumer left."""

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

    @precondition(lambda self: any(holder.out for holder in self.holders))
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        holder = self.choose(data)
        if holder.out:
            count = data.draw(st.integers(1, len(holder.out)))
            self.letters += [entry.text for entry in holder.out[:count] if entry.persistent]
            last = holder.out[count - 1].text
            del holder.out[:count]
            holder.listener.acknowledges(last, count=count, ack_type=POISON_ACK)

    @precondition(lambda self: any(holder.out for holder in self.holders))
    @rule(data=st.data(), commits=st.booleans())
    def acknowledge_in_a_transaction(self, data: st.DataObject, commits: bool) -> None:
        holder = self.choose(data)
        if not holder.out:
            return
        count = data.draw(st.integers(1, len(holder.out)))
        peer = holder.listener.peer
        taken = holder.out[:count]
        del holder.out[:count]
        peer.begins(1)
        holder.listener.acknowledges(taken[-1].text, count=count, transaction=1)
        self.follow()
        if commits:
            peer.commits(1)
        else:
            holder.gave_way = not holder.out
            holder.out[:0] = taken
            peer.rolls_back(1)

    @precondition(lambda self: len(self.line) > 0)
    @rule()
    def purge(self) -> None:
        queue = self.stage.broker.find_destination(destination(QUEUE))
        assert isinstance(queue, Queue)
        if any(entry.persistent for entry in self.due):
            return  # some may be dead letters already
        self.purging += len(self.line) + len(self.due)
        self.line = []
        self.due = []
        queue.purge()

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

    @precondition(lambda self: self.purging > 0)
    @rule()
    def end_a_purge(self) -> None:
        self.purging = 0
        self.stage.settle()

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if self.purging:
            self.end_a_purge()
            self.follow()
        held = [entry for holder in self.holders for entry in holder.out]
        for entry in [*self.line, *self.due, *held]:
            if clean:
                entry.count += any(entry in holder.out for holder in self.holders)
            else:
                entry.count = max(1, entry.count)
        everything = [entry for entry in self.line + held if entry.persistent]
        if clean:
            self.stage.broker.stop(self.stage.now)
        self.stage.syncs()
        store = self.stage.store.crash()
        kept = {text_of(message) for message in store.kept(destination(QUEUE))}
        stage = Stage(self.policy(), store=store)
        stage.environment.time = self.stage.now
        stage.broker.recover(store.recovered(), clean, stage.now)
        self.line = []
        self.due = [entry for entry in self.due if entry.text in kept]
        self.begin(stage)
        self.put_back(everything)

    # What must hold

    def choose(self, data: st.DataObject) -> Holder:
        return self.holders[data.draw(st.integers(0, len(self.holders) - 1))]

    def follow(self) -> None:
        """Each dispatch since the last look took the oldest message that its consumer accepts, and had room for it."""
        dispatches = self.stage.dispatches.copy()
        self.stage.dispatches.clear()
        for listener, delivery in dispatches:
            if listener.info.browser or str(listener.info.destination) != QUEUE:
                continue
            holder = next(holder for holder in self.holders if holder.listener is listener)
            assert not self.paused
            assert holder.has_room(), f"{delivery.text} was dispatched over the window"
            entry = next((entry for entry in self.line if self.may_take(holder, entry)), None)
            assert entry is not None and entry.text == delivery.text, f"{delivery.text} was not the next for {holder}"
            assert delivery.redelivery_count == entry.count, entry
            self.taken(holder, entry, delivery)
            self.line.remove(entry)
            holder.out.append(entry)

    def may_take(self, holder: Holder, entry: Entry) -> bool:
        """Whether the consumer is one for this message."""
        return holder.accepts(entry)

    def must_take(self, holder: Holder, entry: Entry) -> bool:
        """The same where it has room."""
        return self.may_take(holder, entry)

    def taken(self, holder: Holder, entry: Entry, delivery: Delivery) -> None:
        """A consumer got a message."""

    @invariant()
    def agree(self) -> None:
        self.follow()
        view = self.stage.view(QUEUE)
        out = sum(len(holder.out) for holder in self.holders)
        still = self.stage.store.kept(destination(QUEUE))
        unnoticed = view.pending - len(self.line) - out
        assert 0 <= unnoticed <= len(self.due) + self.purging
        stored = {text_of(message) for message in still}
        assert all(entry.text in stored for entry in self.line if entry.persistent)
        assert (view.in_flight, view.consumers) == (out, len(self.holders))
        for holder in self.holders:
            assert holder.listener.subscription.dispatched_count == len(holder.out)

    @invariant()
    def it_adds_up(self) -> None:
        """What came to each queue is what left it and what is pending, each message by one way."""
        for name in (QUEUE, DLQ):
            queue = self.stage.broker.find_destination(destination(name))
            if isinstance(queue, Queue):
                assert queue.all_sums().balance() == queue.waiting() + queue.in_flight, queue.all_sums().counts

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        if self.paused or self.stage.store.reads or self.stage.broker.next_timeout() == 0.0:
            return
        for holder in self.holders:
            if holder.has_room():
                waiting = [entry.text for entry in self.line if self.must_take(holder, entry)]
                assert not waiting, f"stuck beside {holder}"

    def teardown(self) -> None:
        """Everything comes out in the end, and nothing stays in memory or store."""
        if self.paused:
            self.pause_or_resume()
        if self.purging:
            self.end_a_purge()
        self.follow()
        for browser in self.browsers:
            browser.peer.leaves()
        for holder in self.holders.copy():
            self.holders.remove(holder)
            for entry in holder.out:
                entry.count += 1
            self.gone(holder)
            self.put_back(holder.out)
            holder.listener.peer.leaves()
            self.follow()
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
        self.expect_dead_letters()
        assert self.stage.memory() == 0
        assert self.stage.store.kept(destination(QUEUE)) == []
        super().teardown()

    def expect_dead_letters(self) -> None:
        """One for each persistent message whose time was over while it waited."""
        self.stage.waits(31.0)
        self.stage.settle()
        if not self.stage.has(DLQ):
            assert self.letters == []
            return
        listener = self.stage.peer("undertaker").consumes(DLQ, prefetch=30_000)
        self.stage.settle()
        assert sorted(listener.out) == sorted(self.letters)
        if listener.out:
            listener.acknowledges(listener.out[-1])


class PrioritizedQueueModel(QueueModel):
    """The same with a line for each priority."""

    shuffles = True

    def policy(self) -> PolicyEntry:
        queue = QueuePolicy(prioritized_messages=True)
        return PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT, queue=queue)

    def place(self, entry: Entry) -> tuple[int, int]:
        return -entry.priority, self.places[entry.text]

    @precondition(lambda self: len(self.line) < 200)
    @rule(priority=st.integers(0, 9), persistent=st.booleans(), count=st.integers(1, 12), lives=st.booleans())
    def send_with_priority(self, priority: int, persistent: bool, count: int, lives: bool) -> None:
        self.send_some(0, persistent, count, lives=lives, priority=priority)


class GroupedQueueModel(QueueModel):
    """The same with message groups: ``owners`` has the consumer of each."""

    def __init__(self) -> None:
        self.owners: dict[str, Holder] = {}
        super().__init__()

    def begin(self, stage: Stage) -> None:
        self.owners = {}
        super().begin(stage)

    @precondition(lambda self: len(self.line) < 200)
    @rule(
        group=st.sampled_from("xyz"),
        persistent=st.booleans(),
        count=st.integers(1, 8),
        closes=st.sampled_from((0, 0, 1)),
    )
    def send_to_group(self, group: str, persistent: bool, count: int, closes: int) -> None:
        self.send_some(1, persistent, count, group=group, closes=bool(closes))

    def may_take(self, holder: Holder, entry: Entry) -> bool:
        owner = None if entry.group is None else self.owners.get(entry.group)
        return holder.accepts(entry) and owner in (None, holder)

    def taken(self, holder: Holder, entry: Entry, delivery: Delivery) -> None:
        if entry.group is None:
            return
        assert is_first(delivery.message) == (entry.group not in self.owners) or entry.count > 0
        self.owners[entry.group] = holder
        if entry.closes:
            del self.owners[entry.group]

    def gone(self, holder: Holder) -> None:
        self.owners = {group: owner for group, owner in self.owners.items() if owner is not holder}


class ExclusiveQueueModel(QueueModel):
    """The same with exclusive consumers of different priorities."""

    @precondition(lambda self: len(self.holders) < 4)
    @rule(prefetch=st.sampled_from((1, 5)), priority=st.integers(0, 2))
    def join_exclusive(self, prefetch: int, priority: int) -> None:
        self.number += 1
        peer: Peer = self.stage.peer(f"c{self.number}")
        peer.reads = False
        listener = peer.announces(QUEUE, prefetch=prefetch, exclusive=True, priority=priority)
        self.holders.append(Holder(listener, None, prefetch, exclusive=True, priority=priority))
        self.stage.broker.start_consumer(listener.subscription, self.stage.now)

    def may_take(self, holder: Holder, entry: Entry) -> bool:
        exclusive = [other for other in self.holders if other.exclusive]
        if not exclusive:
            return holder.accepts(entry)
        best = min(exclusive, key=lambda other: -other.priority)
        best.gave_way = False
        others = [other for other in exclusive if other is not best]
        return holder is best and not any(other.out and not other.gave_way for other in others)

    def must_take(self, holder: Holder, entry: Entry) -> bool:
        """Who may have been followed by a better one while its acknowledgements were not rolled back yet may not."""
        others = [other for other in self.holders if other.exclusive and other is not holder]
        return self.may_take(holder, entry) and not (holder.exclusive and any(other.out for other in others))


def crowded() -> PolicyEntry:
    """Consumers that choose look at the queue together, however few there are."""
    return PolicyEntry(destination("queue://>"), memory_limit_bytes=LIMIT, queue=QueuePolicy(look_together_from=1))


class CrowdedQueueModel(QueueModel):
    """The same where an index of the selectors finds who may want a message."""

    def policy(self) -> PolicyEntry:
        return crowded()


class CrowdedGroupedQueueModel(GroupedQueueModel):
    """Message groups turn up where consumers look together."""

    def policy(self) -> PolicyEntry:
        return crowded()


class CrowdedExclusiveQueueModel(ExclusiveQueueModel):
    """Exclusive consumers and consumers of different priorities come where consumers look together."""

    def policy(self) -> PolicyEntry:
        return crowded()


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(stateful_step_count=40)
TestPrioritizedQueueModel = PrioritizedQueueModel.TestCase
TestPrioritizedQueueModel.settings = settings(stateful_step_count=40)
TestGroupedQueueModel = GroupedQueueModel.TestCase
TestGroupedQueueModel.settings = settings(stateful_step_count=40)
TestExclusiveQueueModel = ExclusiveQueueModel.TestCase
TestExclusiveQueueModel.settings = settings(stateful_step_count=40)
TestCrowdedQueueModel = CrowdedQueueModel.TestCase
TestCrowdedQueueModel.settings = settings(stateful_step_count=40)
TestCrowdedGroupedQueueModel = CrowdedGroupedQueueModel.TestCase
TestCrowdedGroupedQueueModel.settings = settings(stateful_step_count=40)
TestCrowdedExclusiveQueueModel = CrowdedExclusiveQueueModel.TestCase
TestCrowdedExclusiveQueueModel.settings = settings(stateful_step_count=40)
