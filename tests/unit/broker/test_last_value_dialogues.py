"""Queues that keep the last message of each key: a new one replaces the older one that waits."""

from __future__ import annotations

import pytest

from spanwire.broker.admin.destination_details import destination_details
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.last_value_queue import LastValueQueue
from spanwire.model.ledger import REPLACED
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.support.dialogue.disk_stage import DiskStage
from tests.support.why_dialogue import id_of, said, why, whys

Q = "queue://Q"
KEY = "_AMQ_LVQ_NAME"


def last_values(memory_limit_bytes: int = 0, key: str = "", prioritized: bool = False) -> PolicyEntry:
    queue = QueuePolicy(last_value=True, last_value_key=key, prioritized_messages=prioritized)
    return PolicyEntry(destination("queue://>"), queue=queue, memory_limit_bytes=memory_limit_bytes)


def sends(peer: Peer, *texts: str, persistent: bool = True, transaction: int = 0, priority: int = 4) -> None:
    """Send texts such as ``a1``: the letters are the key, and ``-1`` has none."""
    for text in texts:
        key = text.rstrip("0123456789")
        properties: dict[str, object] = {} if key == "-" else {KEY: key}
        peer.sends(Q, text, transaction=transaction, persistent=persistent, priority=priority, properties=properties)


def taken(stage: Stage) -> list[str]:
    listener = stage.peer("taker").consumes(Q)
    stage.settle()
    return listener.takes()


def replaced(stage: Stage) -> int:
    found = stage.broker.find_destination(destination(Q))
    assert found is not None
    return destination_details(found).replaced


def kept(stage: Stage) -> int:
    return len(stage.store.kept(destination(Q)))


def browsed(stage: Stage, name: str = "b") -> list[str]:
    browser = stage.peer(name).consumes(Q, browser=True)
    stage.settle()
    return browser.takes()


@pytest.mark.parametrize("persistent", [True, False])
def test_the_last_message_of_each_key_stays_and_stands_at_its_own_place(persistent: bool) -> None:
    stage = Stage(last_values())
    sends(stage.peer("p"), "a1", "b1", "-1", "a2", "-2", "c1", "a3", persistent=persistent)
    view = stage.view(Q)
    assert (view.pending, view.enqueued, view.dequeued, replaced(stage)) == (5, 7, 2, 2)
    assert kept(stage) == (5 if persistent else 0)
    assert taken(stage) == ["b1", "-1", "-2", "c1", "a3"]


def test_the_key_is_the_text_of_the_named_property_or_else_of_artemis_one() -> None:
    stage = Stage(last_values(key="code"))
    peer = stage.peer("p")
    sent: list[tuple[str, dict[str, object]]] = [
        ("1", {"code": "7"}), ("2", {"code": 7}), ("3", {KEY: "7"}), ("4", {"code": "7", KEY: "x"}),
        ("5", {KEY: "x"}), ("6", {"code": True}), ("7", {"code": "true"}), ("8", {"other": "7"}),
    ]  # fmt: skip
    for text, properties in sent:
        peer.sends(Q, text, properties=properties)
    assert taken(stage) == ["4", "5", "7", "8"]


def test_a_message_in_flight_is_not_replaced_and_may_be_acknowledged() -> None:
    stage = Stage(last_values())
    listener = stage.peer("c").consumes(Q, prefetch=1)
    sends(stage.peer("p"), "a1", "a2", "a3")
    assert listener.takes() == ["a1"]
    assert (stage.view(Q).pending, replaced(stage)) == (2, 1)
    listener.acknowledges("a1")
    assert listener.takes() == ["a3"]


def test_a_message_that_returns_gives_way_to_a_newer_one() -> None:
    stage = Stage(last_values())
    listener = stage.peer("c").consumes(Q, prefetch=2)
    sends(stage.peer("p"), "a1", "b1", "a2")
    assert listener.takes() == ["a1", "b1"]
    listener.peer.leaves()
    stage.settle()
    assert (stage.view(Q).pending, replaced(stage), kept(stage)) == (2, 1, 2)
    assert taken(stage) == ["b1", "a2"]


def test_of_returned_messages_the_newest_stays_also_when_an_older_one_came_back_before() -> None:
    stage = Stage(last_values())
    first = stage.peer("c1").consumes(Q, prefetch=1)
    second = stage.peer("c2").consumes(Q, prefetch=1)
    sends(stage.peer("p"), "a1", "a2")
    assert (first.takes(), second.takes()) == (["a1"], ["a2"])
    first.peer.leaves()
    stage.settle()
    assert stage.view(Q).pending == 2  # without a newer one that waits, a1 waits again
    second.peer.leaves()
    stage.settle()
    assert taken(stage) == ["a2"]
    both = Stage(last_values())
    listener = both.peer("c").consumes(Q, prefetch=2)
    sends(both.peer("p"), "a1", "a2")
    listener.peer.leaves()
    both.settle()
    assert taken(both) == ["a2"]


def test_a_rollback_brings_back_what_was_not_replaced_meanwhile() -> None:
    stage = Stage(last_values())
    peer = stage.peer("c")
    listener = peer.consumes(Q, prefetch=2)
    sends(stage.peer("p"), "a1", "b1")
    peer.begins(1)
    listener.acknowledges("b1", transaction=1)
    sends(stage.peer("p2"), "b2")
    peer.rolls_back(1)
    listener.leaves()
    stage.settle()
    assert taken(stage) == ["a1", "b2"]


def test_the_order_of_commits_decides() -> None:
    stage = Stage(last_values())
    early, late = stage.peer("early"), stage.peer("late")
    early.begins(1)
    sends(early, "a1", transaction=1)
    sends(late, "a2")
    assert stage.view(Q).pending == 1
    early.commits(1)
    stage.settle()
    assert taken(stage) == ["a1"]
    assert replaced(stage) == 1


def test_with_priorities_the_last_value_counts_whatever_its_priority() -> None:
    stage = Stage(last_values(prioritized=True))
    peer = stage.peer("p")
    sends(peer, "a1", priority=9)
    sends(peer, "b1", priority=4)
    sends(peer, "a2", priority=0)
    assert taken(stage) == ["b1", "a2"]


def test_messages_that_only_the_disk_has_are_replaced_unread() -> None:
    stage = Stage(last_values(memory_limit_bytes=10_000))
    peer = stage.peer("p")
    for round_ in range(4):
        for key in range(100):
            peer.sends(Q, f"{key}.{round_}", properties={KEY: str(key)})
            stage.settle()
    assert (stage.view(Q).pending, kept(stage), replaced(stage)) == (100, 100, 300)
    listener: Listener = stage.peer("c").consumes(Q, prefetch=1)
    for key in range(100):
        stage.settle()
        assert listener.takes() == [f"{key}.3"]
        listener.acknowledges(f"{key}.3")
    assert stage.memory() == 0


def test_a_message_is_replaced_while_the_store_reads_its_page() -> None:
    stage = Stage(last_values(memory_limit_bytes=2_000))
    peer = stage.peer("p")
    for number in range(60):
        sends(peer, f"k{'x' * number}1")
    stage.settle()
    listener = stage.peer("c").consumes(Q, prefetch=1)
    texts = []
    for _ in range(60):
        texts += listener.takes()
        sends(peer, f"k{'x' * 59}2")  # before the answer to a read that may be under way
        stage.settle()
        texts += listener.takes()
        listener.acknowledges(texts[-1])
    assert len(texts) == len(set(texts))
    assert f"k{'x' * 59}1" not in texts


def test_consumers_with_selectors_and_groups_see_last_values() -> None:
    stage = Stage(last_values())
    peer = stage.peer("p")
    chosen = stage.peer("c").consumes(Q, selector=f"{KEY} = 'a'", prefetch=1)
    sends(peer, "b1", "a1", "b2", "a2", "a3")
    stage.settle()
    assert chosen.takes() == ["a1"]
    chosen.acknowledges("a1")
    assert chosen.takes() == ["a3"]
    chosen.leaves()
    grouped = Stage(last_values())
    one = grouped.peer("one").consumes(Q, prefetch=1)
    for text in ("a1", "a2", "b1", "b2", "a3"):
        grouped.peer("p" + text).sends(Q, text, properties={KEY: text[0]}, group="g")
    grouped.settle()
    assert one.takes() == ["a1"]
    one.acknowledges("a1")
    grouped.settle()
    assert one.takes() == ["b2"]


def test_browsers_see_one_message_of_each_key() -> None:
    stage = Stage(last_values())
    sends(stage.peer("p"), "a1", "b1", "a2")
    assert browsed(stage) == ["b1", "a2"]


def crashed(*texts: str) -> DiskStage:
    """A stage after a power cut that kept the messages ``texts`` and no removal."""
    plain = DiskStage()
    sends(plain.peer("p"), *texts)
    plain.syncs()
    disk = plain.disk_store.disk.power_cut_keeping(lambda _: None, lambda: False)
    stage = DiskStage(last_values(), disk=disk)
    recovery = stage.disk_store.recovery
    stage.broker.recover(recovery.destinations(), recovery.clean, stage.now, recovery.metadata())
    return stage


def test_a_start_removes_what_a_crash_has_left_of_replaced_messages() -> None:
    stage = crashed("a1", "b1", "-1", "a2", "a3")
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == []
    stage.settle()
    assert listener.takes() == ["b1", "-1", "a3"]
    assert replaced(stage) == 2
    stage.syncs()
    again = stage.loses_power()
    again.settle()
    assert again.view(Q).pending == 3


def test_messages_that_come_during_the_look_replace_what_was_not_looked_at_yet() -> None:
    stage = crashed("a1", "b1", "a2")
    sends(stage.peer("p"), "b2")
    sends(stage.peer("p2"), "a4", persistent=False)
    stage.settle()
    assert taken(stage) == ["b2", "a4"]


def test_a_browser_waits_for_the_look() -> None:
    stage = crashed("a1", "b1", "a2")
    browser = stage.peer("b").consumes(Q, browser=True)
    assert browser.takes() == []
    stage.settle()
    assert browser.takes() == ["b1", "a2"]


def test_a_queue_is_purged_or_removed_during_the_look() -> None:
    stage = crashed(*[f"{'k' * number}1" for number in range(1, 700)])
    stage.peer("p").removes(Q)
    stage.settle()
    assert stage.memory() == 0
    stage = crashed("a1", "a2", "b1")
    found = stage.broker.find_destination(destination(Q))
    assert isinstance(found, LastValueQueue)
    found.purge()
    stage.settle()
    assert (stage.view(Q).pending, stage.view(Q).dequeued) == (0, 3)
    sends(stage.peer("p"), "a3")
    assert taken(stage) == ["a3"]


def test_why_and_the_ledger_know_what_was_replaced() -> None:
    stage = Stage(last_values())
    peer = stage.peer("p")
    sends(peer, "a1", "a2")
    assert "a newer message with its key replaced it in queue://Q" in said(why(stage, id_of(peer, 1)))
    found = stage.broker.find_destination(destination(Q))
    assert isinstance(found, LastValueQueue)
    assert found.all_sums().counts[REPLACED] == 1
    unread = Stage(last_values(memory_limit_bytes=1))
    peer = unread.peer("p")
    sends(peer, "b1", "a1", "a2")
    assert any("1 message replaced by newer ones" in said(one) for one in whys(unread, id_of(peer, 2)))


def test_keys_without_a_message_are_forgotten() -> None:
    stage = Stage(last_values())
    listener = stage.peer("c").consumes(Q, prefetch=1)
    peer = stage.peer("p")
    for number in range(3_000):
        text = f"{'k'}{number}"
        peer.sends(Q, text, persistent=False, properties={KEY: text})
        listener.acknowledges(listener.takes()[0])
    found = stage.broker.find_destination(destination(Q))
    assert isinstance(found, LastValueQueue)
    assert len(found._values) <= 1_002


def test_what_a_cursor_releases_gives_way_to_newer_messages() -> None:
    stage = Stage(last_values())
    sends(stage.peer("p"), "a1", "b1")
    stage.settle()
    program = Program(stage)
    assert program.opens() == 1
    assert program.reserves(2) == (0, 2)
    sends(stage.peer("p2"), "a2")
    assert program.asks("release", cursor="c", epoch=1) == {"epoch": 2, "released": 2}
    stage.settle()
    assert taken(stage) == ["b1", "a2"]


def filled_to_the_limit(stage: Stage, peer: Peer) -> str:
    """Send messages of different keys until one waits for memory; the last key that is in the queue."""
    for number in range(100):
        sends(peer, f"k{'x' * number}1", persistent=False)
        if peer.state.parked:
            return f"k{'x' * (number - 1)}"
    raise AssertionError("the limit was never reached")


def test_a_message_that_replaces_another_does_not_wait_for_the_memory_that_it_frees() -> None:
    stage = Stage(last_values(memory_limit_bytes=4_000))
    last = filled_to_the_limit(stage, stage.peer("p"))
    before = (stage.view(Q).pending, stage.memory())
    other = stage.peer("q")
    sends(other, f"{last}2", "k2", persistent=False)
    assert not other.state.parked
    assert (stage.view(Q).pending, stage.memory()) == before
    sends(other, "new1", persistent=False)
    assert len(other.state.parked) == 1  # it replaces nothing
    sends(other, "k3", persistent=False)
    assert len(other.state.parked) == 2  # the sends of a connection keep their order


def test_a_message_larger_than_the_one_that_it_replaces_waits_for_the_difference() -> None:
    stage = Stage(last_values(memory_limit_bytes=4_000))
    filled_to_the_limit(stage, stage.peer("p"))
    other = stage.peer("q")
    other.sends(Q, "y" * 3_000, persistent=False, properties={KEY: "k"})
    assert len(other.state.parked) == 1
