"""A last-value queue against a model that is a list of sends: sends, consumers, rollbacks and a power cut anywhere.

At rest the waiting messages have different keys. After a power cut behind any call of the store no key has two
messages, and of each key the newest stored and unacknowledged message is there, as is every one without a key.
"""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import text_of

Q: Final = "queue://Q"
KEY: Final = "_AMQ_LVQ_NAME"
KEYS: Final = ("a", "b", "c", "-")  # the last one stands for none
STEP: Final = st.one_of(
    st.tuples(st.just("send"), st.integers(0, len(KEYS) - 1), st.booleans()),
    st.tuples(st.just("send"), st.integers(0, len(KEYS) - 1), st.booleans()),
    st.tuples(st.just("take"), st.integers(1, 3), st.booleans()),
    st.tuples(st.sampled_from(["leave", "acknowledge", "settle", "begin", "end"]), st.just(0), st.booleans()),
)


def key_of(text: str) -> str:
    return text.rstrip("0123456789")


def number_of(text: str) -> int:
    return int(text.lstrip("abc-"))


def waiting(stage: Stage) -> list[str]:
    """The texts that wait, in memory or not."""
    found = stage.broker.find_destination(destination(Q))
    if found is None:
        return []
    assert isinstance(found, Queue)
    texts = []
    for sequence, message in found.oldest(1_000):
        read = message if message is not None else stage.store.read(found.name, [sequence])[0]
        assert read is not None
        texts.append(text_of(read))
    return texts


def check_different_keys(stage: Stage) -> None:
    keys = [key_of(text) for text in waiting(stage) if key_of(text) != "-"]
    assert len(keys) == len(set(keys)), waiting(stage)


class Driver:
    """Drives one stage; each text has a number, and is known by it."""

    def __init__(self, policies: tuple[PolicyEntry, ...]) -> None:
        self.stage = Stage(*policies)
        self.sent = 0
        self.listener: Listener | None = None
        self.out: list[str] = []
        self.peers = 0
        self.transaction: Peer | None = None

    def peer(self) -> Peer:
        self.peers += 1
        return self.stage.peer(f"p{self.peers}")

    def send(self, key: int, persistent: bool) -> None:
        self.sent += 1
        properties: dict[str, object] = {KEY: KEYS[key]} if KEYS[key] != "-" else {}
        text = f"{KEYS[key]}{self.sent}"
        if self.transaction is not None and self.sent % 2 == 0:
            self.transaction.sends(Q, text, transaction=1, persistent=persistent, properties=properties)
        else:
            self.peer().sends(Q, text, persistent=persistent, properties=properties)

    def take(self, prefetch: int, _: bool) -> None:
        if self.listener is None:
            self.listener = self.peer().consumes(Q, prefetch=prefetch)

    def acknowledge(self, _: int, __: bool) -> None:
        if self.listener is not None:
            self.out += self.listener.takes()
            if self.out:
                self.listener.acknowledges(self.out.pop(0))

    def leave(self, _: int, __: bool) -> None:
        if self.listener is not None:
            self.listener.peer.leaves()
            self.listener, self.out = None, []

    def settle(self, _: int, __: bool) -> None:
        self.stage.settle()
        check_different_keys(self.stage)

    def begin(self, _: int, __: bool) -> None:
        if self.transaction is None:
            self.transaction = self.peer()
            self.transaction.begins(1)

    def end(self, _: int, commits: bool) -> None:
        if self.transaction is not None:
            if commits:
                self.transaction.commits(1)
            else:
                self.transaction.rolls_back(1)
            self.transaction = None


@settings(max_examples=200, deadline=None)
@given(steps=st.lists(STEP, min_size=3, max_size=40), small=st.booleans(), cut=st.integers(0, 10_000))
def test_waiting_messages_have_different_keys_and_a_power_cut_loses_none_that_was_not_replaced(
    steps: list[tuple[str, int, bool]], small: bool, cut: int
) -> None:
    share = 1 if small else 70  # percent of the memory that may hold persistent messages: some four or all
    entry = PolicyEntry(
        destination("queue://>"), queue=QueuePolicy(last_value=True), memory_limit_bytes=100_000,
        cursor_memory_high_water_mark=share,
    )  # fmt: skip
    policies = (entry,)
    driver = Driver(policies)
    for name, number, flag in steps:
        getattr(driver, name)(number, flag)
    driver.settle(0, False)
    driver.leave(0, False)
    driver.settle(0, False)
    check_a_power_cut(driver.stage, policies, cut)


def check_a_power_cut(stage: Stage, policies: tuple[PolicyEntry, ...], cut: int) -> None:
    """Compare a start behind any call of the store with what the calls up to there say."""
    positions = sorted({change.position for change in stage.store.log})
    if not positions:
        return
    position = positions[cut % len(positions)]
    again = stage.restarts(position=position, policies=policies)
    found = [text_of(message) for message in again.store.kept(destination(Q))]
    newest = {key_of(text): text for text in found if key_of(text) != "-"}
    expected = sorted([*newest.values(), *(text for text in found if key_of(text) == "-")], key=number_of)
    again.settle()
    assert sorted(waiting(again), key=number_of) == expected
    stored = stored_texts(stage, position)
    for text, is_removed in stored.items():
        later = [other for other in stored if key_of(other) == key_of(text) != "-" and other != text]
        assert is_removed or text in expected or later, (text, stored)


def stored_texts(stage: Stage, position: int) -> dict[str, bool]:
    """The texts that the store has got up to a position, and whether each was removed."""
    by_sequence: dict[int, str] = {}
    texts: dict[str, bool] = {}
    for change in stage.store.log:
        if change.position > position or change.destination != destination(Q):
            continue
        if change.kind == "add" and change.message is not None:
            by_sequence[change.sequence] = text_of(change.message)
            texts[text_of(change.message)] = False
        elif change.kind == "remove":
            texts[by_sequence[change.sequence]] = True
    return texts
