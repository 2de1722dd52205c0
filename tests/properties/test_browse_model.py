"""A browser beside consumers that come, acknowledge and go: what is not acknowledged is shown once, nothing twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination
from tests.support.seeds import share

QUEUE = "queue://Q"
STEPS = st.lists(
    st.tuples(st.sampled_from(["sends", "volatile", "comes", "chooses", "acks", "leaves", "shows"]), st.integers(0, 9)),
    max_size=20,
)


class Play:
    """One queue, its consumers, and the numbers of the messages that are still there."""

    def __init__(self, prioritized: bool) -> None:
        self.stage = Stage(PolicyEntry(destination("queue://>"), queue=QueuePolicy(prioritized_messages=prioritized)))
        self.listeners: list[Listener] = []
        self.there: set[str] = set()
        self.number = 0
        self.peers = 0

    def does(self, what: str, choice: int) -> None:
        if what in ("sends", "volatile"):
            self.sends(1 + choice * 12, what == "sends")
        elif what in ("comes", "chooses"):
            self.peers += 1
            selector = f"n <> {choice % 3}" if what == "chooses" else None
            peer = self.stage.peer(f"c{self.peers}")
            self.listeners.append(peer.consumes(QUEUE, prefetch=choice * 10 + 1, selector=selector))
        elif self.listeners and what in ("acks", "leaves"):
            listener = self.listeners[choice % len(self.listeners)]
            if what == "leaves":
                self.listeners.remove(listener)
                listener.leaves()
            elif listener.subscription.dispatched_count > 0:
                first = listener.subscription.in_flight.all_out()[0]
                text = next(d.text for d in listener.deliveries if d.message.message_id == first.message.message_id)
                listener.acknowledges_one(text)
                self.there.discard(text)

    def sends(self, count: int, persistent: bool) -> None:
        producer = self.stage.peer(f"p{self.number}")
        for _ in range(count):
            self.number += 1
            text = str(self.number)
            properties: dict[str, object] = {"n": self.number % 3}
            producer.sends(QUEUE, text, persistent=persistent, properties=properties, priority=self.number % 10)
            self.there.add(text)


@settings(max_examples=share(60), deadline=None)
@given(STEPS, STEPS, st.integers(1, 30), st.booleans())
def test_a_browser_shows_what_is_there_from_its_beginning_to_its_end(
    before: list[tuple[str, int]], meanwhile: list[tuple[str, int]], window: int, prioritized: bool
) -> None:
    play = Play(prioritized)
    stage = play.stage
    for what, choice in before:
        play.does(what, choice)
    at_the_beginning = set(play.there)
    browser = stage.peer("b").consumes(QUEUE, browser=True, prefetch=window)
    for what, choice in meanwhile:
        play.does(what, choice)
        if browser.deliveries:
            browser.acknowledges(browser.out[-1])
        stage.settle()
    for _ in range(6_000):
        if browser.ends:
            break
        browser.acknowledges(browser.out[-1])
        stage.settle()
    assert browser.ends == 1
    shown = browser.out
    assert len(shown) == len(set(shown))
    assert at_the_beginning & play.there <= set(shown)
    browser.leaves()
    for listener in play.listeners:
        listener.leaves()
    last = stage.peer("last").consumes(QUEUE, prefetch=10_000)
    stage.settle()
    assert set(last.takes()) == play.there
    if play.there:
        for text in last.out:
            last.acknowledges_one(text)
    stage.settle()
    assert stage.memory() == 0
