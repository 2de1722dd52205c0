"""Commits that leave messages where they lie on the disk: queues get them unread, and treat them as all others."""

from __future__ import annotations

from typing import Unpack

import pytest

from spanwire.broker.persistence.store_unit import Transfer
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry, QueuePolicy
from spanwire.model.destination import TRANSACTION, Destination, parse_destination
from tests.support.control_dialogue import ASK, Program, again
from tests.support.dialogue.broker_dialogue import START_MS, Fields, Listener, Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.support.dialogue.text_format import text_of
from tests.support.late_store import LateStore

OUT = "queue://OUT"
DLQ = "queue://ActiveMQ.DLQ"
SCHEDULED_MESSAGES = Destination(TRANSACTION, "staged-0")


def begun(*policies: PolicyEntry) -> tuple[Stage, Program]:
    stage = Stage(*policies)
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    return stage, program


def stages(program: Program, partition: int, *sends: tuple[str, str, Fields]) -> None:
    """A part of batch 0: destination, text and fields of each message."""
    program.peer.begins(1)
    for to, text, fields in sends:
        program.peer.sends(to, text, transaction=1, **fields)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": partition, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=properties), 1)
    program.peer.commits(1)
    program.stage.settle()


def out(text: str, to: str = OUT, **fields: Unpack[Fields]) -> tuple[str, str, Fields]:
    return to, text, fields


def all_of(stage: Stage, listener: Listener) -> list[str]:
    """What comes, page by page, each acknowledged."""
    found: list[str] = []
    while True:
        stage.settle()
        stage.runs()
        some = listener.takes()
        if not some:
            return found
        found += some
        for text in some:
            listener.acknowledges_one(text)


def reads_of(store: LateStore) -> int:
    return len(store.reads)


def test_a_commit_reads_nothing_and_keeps_nothing_in_memory() -> None:
    stage, program = begun()
    stages(program, 0, out("a"), out("b"))
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    assert reads_of(stage.store) == 0
    stage.syncs()
    assert program.hears() == {"messages": 2, "repeated": False}
    assert reads_of(stage.store) == 0
    assert stage.memory() == 0
    view = stage.view(OUT)
    assert (view.pending, view.enqueued) == (2, 2)
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_a_thousand_come_to_waiting_consumers_in_their_order_with_what_is_sent_behind() -> None:
    stage, program = begun()
    listener = stage.peer("c").consumes(OUT)
    texts = [f"{number:04}" for number in range(1500)]
    stages(program, 1, *[out(text) for text in texts[700:]])
    stages(program, 0, *[out(text) for text in texts[:700]])
    program.begins_to_ask("commit", body="0 0 700\n1 0 800", query="q", epoch=1, batch=0)
    stage.peer("p").sends(OUT, "behind")
    stage.peer("p2").sends(OUT, "fleeting behind", persistent=False)
    assert all_of(stage, listener) == [*texts, "behind", "fleeting behind"]
    assert program.hears() == {"messages": 1500, "repeated": False}
    assert stage.memory() == 0
    assert stage.store.kept(parse_destination(OUT)) == []


def test_nothing_comes_before_it_is_safe_and_nothing_after_its_queue_was_removed() -> None:
    stage, program = begun()
    stages(program, 0, out("a"), out("gone", to="queue://GONE"))
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    listener = stage.peer("c").consumes(OUT)
    stage.reads()
    assert listener.takes() == []
    stage.peer("d").removes("queue://GONE")
    stage.settle()
    assert listener.takes() == ["a"]
    assert not stage.has("queue://GONE")
    assert stage.store.kept(parse_destination("queue://GONE")) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_priorities_hold(restarts: bool) -> None:
    policy = PolicyEntry(parse_destination("queue://>"), queue=QueuePolicy(prioritized_messages=True))
    stage, program = begun(policy)
    stages(program, 0, out("usual"), out("low", priority=1), out("high", priority=9), out("other", to="queue://B"))
    stages(program, 1, out("higher", priority=9))
    if restarts:
        stage = stage.restarts(policies=(policy,))
        program = again(program, stage)
    assert program.commits(0, "0 0 4", "1 0 1") == (5, False)
    assert all_of(stage, stage.peer("c").consumes(OUT)) == ["high", "higher", "usual", "low"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_over_its_time_at_the_commit_expires_then(restarts: bool) -> None:
    stage, program = begun()
    stages(
        program, 0,
        out("stays"), out("over", expiration_ms=START_MS + 5_000), out("later", expiration_ms=START_MS + 60_000),
    )  # fmt: skip
    if restarts:
        stage = stage.restarts()
        program = again(program, stage)
    stage.waits(10)
    assert program.commits(0, "0 0 3") == (3, False)
    stage.runs()
    stage.settle()
    stage.runs()
    stage.settle()
    assert [text_of(message) for message in stage.store.kept(parse_destination(DLQ))] == ["over"]
    view = stage.view(OUT)
    assert (view.pending, view.expired, view.enqueued) == (2, 1, 3)
    stage.waits(60)
    stage.runs()
    assert all_of(stage, stage.peer("c").consumes(OUT)) == ["stays"]


def test_groups_and_selectors_hold() -> None:
    stage, program = begun()
    red = stage.peer("r").consumes(OUT, selector="colour = 'red'")
    first, second = stage.peer("one").consumes("queue://G"), stage.peer("two").consumes("queue://G")
    stages(
        program, 0,
        out("r1", properties={"colour": "red"}), out("b1", properties={"colour": "blue"}),
        out("r2", properties={"colour": "red"}),
        *[out(f"{group}{number}", to="queue://G", group=group) for number in range(4) for group in "xy"],
    )  # fmt: skip
    assert program.commits(0, "0 0 11") == (11, False)
    stage.settle()
    stage.runs()
    stage.settle()
    assert red.takes() == ["r1", "r2"]
    stage.runs()
    found = [first.takes(), second.takes()]
    assert sorted(found) == [["x0", "x1", "x2", "x3"], ["y0", "y1", "y2", "y3"]]


@pytest.mark.parametrize(("queues", "count"), [(2, 50), (100, 9)])
def test_targets_take_turns_within_a_part_and_each_keeps_its_order(queues: int, count: int) -> None:
    stage, program = begun()
    names = [f"Q{number}" for number in range(queues)]
    stages(program, 0, *[out(f"{name} {number}", to=f"queue://{name}") for number in range(count) for name in names])
    stage.settle()
    program.begins_to_ask("commit", body=f"0 0 {queues * count}", query="q", epoch=1, batch=0)
    assert reads_of(stage.store) == (queues > 2)  # the store does not remember where each of many messages went
    stage.settle()
    stage.syncs()
    assert program.hears() == {"messages": queues * count, "repeated": False}
    for name in names[:2]:
        listener = stage.peer(name).consumes(f"queue://{name}")
        assert all_of(stage, listener) == [f"{name} {number}" for number in range(count)]


def test_a_cursor_and_a_browser_see_them() -> None:
    stage, program = begun()
    stages(program, 0, *[out(f"{number}") for number in range(20)])
    assert program.commits(0, "0 0 20") == (20, False)
    texts = [str(number) for number in range(20)]
    browser = stage.peer("b").consumes(OUT, browser=True)
    stage.settle()
    assert browser.takes() == texts
    assert program.opens(queue="OUT") == 1
    start, end = program.reserves(100)
    assert isinstance(start, int) and isinstance(end, int)
    assert program.reads(start, end) == texts


def test_a_queue_whose_messages_are_told_of_gets_them_read() -> None:
    policy = PolicyEntry(parse_destination("queue://OUT"), advisories=AdvisoryPolicy(delivered=True))
    stage = Stage(policy, advisory_format=SpokenAdvisories())
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    stages(program, 0, out("a"), out("b", to="queue://OTHER"))
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    assert reads_of(stage.store) == 1
    stage.settle()
    stage.syncs()
    assert program.hears() == {"messages": 2, "repeated": False}
    assert all_of(stage, stage.peer("c").consumes(OUT)) == ["a"]


def test_a_crash_before_or_after_the_commit_is_safe_leaves_all_of_it_in_one_place() -> None:
    stage, program = begun()
    stages(program, 0, out("a"), out("b", to="queue://B"))
    safe = stage.store.synced
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    before, after = stage.restarts(position=safe), stage.restarts(position=stage.store.position())
    for found, repeated in ((before, (2, False)), (after, (0, True))):
        assert again(program, found).commits(0, "0 0 2") == repeated
        assert all_of(found, found.peer("c").consumes(OUT)) == ["a"]
        assert all_of(found, found.peer("d").consumes("queue://B")) == ["b"]
        assert found.store.kept(SCHEDULED_MESSAGES) == []


def test_the_store_of_these_tests_passes_on_what_is_there_and_leaves_gaps_for_the_rest() -> None:
    store, queue = LateStore(), parse_destination(OUT)
    peer = Stage().peer("p")
    first = [store.append(SCHEDULED_MESSAGES, peer.message(OUT, text)) for text in "abc"]
    store.remove(SCHEDULED_MESSAGES, first[1])
    transfers = [
        Transfer(SCHEDULED_MESSAGES, [], queue),
        Transfer(SCHEDULED_MESSAGES, [*first, 99], queue),
        Transfer(SCHEDULED_MESSAGES, [], queue),
    ]
    assert store.transfer_unit(transfers, [], []) == [1, 1, 5]
    assert store.sizes(queue, [2, 4]) == [0, 0]
    assert [text_of(message) for message in store.kept(queue)] == ["a", "c"]
    assert store.kept(SCHEDULED_MESSAGES) == []
    found = store.crash(store.position())
    assert [text_of(message) for message in found.kept(queue)] == ["a", "c"]
