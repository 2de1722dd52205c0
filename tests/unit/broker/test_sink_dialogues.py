"""Sinks: batches that are staged, committed once and fenced by epoch, through crashes at every write."""

from __future__ import annotations

import json

import pytest

from spanwire.broker.exactly_once.sinks import MAX_TARGET
from spanwire.broker.metadata import SINK_LEDGERS, STAGED_BATCHES
from spanwire.broker.request_errors import ControlRefusal
from spanwire.model.destination import TRANSACTION, Destination
from spanwire.model.errors import ResourceAllocationError, StoreError, XaError
from tests.support.control_dialogue import ASK, Program, Refused, again, answered
from tests.support.dialogue.broker_dialogue import Stage

OUT = "queue://OUT"
SCHEDULED_MESSAGES = Destination(TRANSACTION, "staged-0")


def begun() -> tuple[Stage, Program]:
    stage = Stage()
    program = Program(stage)
    assert program.asks("begin", query="q", run="r1") == {"epoch": 1, "batch": -1}
    return stage, program


def in_queue(stage: Stage, name: str = OUT) -> list[str]:
    """What a consumer would get; it goes again."""
    if not stage.has(name):
        return []
    browser = stage.peer(f"looks-{len(stage.dispatches)}").consumes(name, browser=True)
    stage.settle()
    return browser.takes()


def test_what_is_staged_is_seen_by_nobody_before_its_commit() -> None:
    stage, program = begun()
    listener = stage.peer("c").consumes(OUT)
    token = program.stages(0, 0, "a", "b")
    assert not answered(program.peer, token)
    stage.settle()
    assert answered(program.peer, token)
    assert listener.takes() == []
    assert stage.memory() == 0
    assert program.commits(0, "0 0 2") == (2, False)
    assert listener.takes() == ["a", "b"]
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.store.metadata[STAGED_BATCHES] == {}


def test_a_commit_that_is_asked_for_again_is_answered_as_done() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    assert program.commits(0, "0 0 1") == (1, False)
    assert program.commits(0, "0 0 1") == (0, True)
    program.stages(0, 0, "a", attempt=7)  # a program that died after its commit sends the batch again
    assert program.commits(0, "0 7 1") == (0, True)
    assert in_queue(stage) == ["a"]
    stage = stage.restarts()
    assert again(program, stage).commits(0, "0 0 1") == (0, True)
    assert in_queue(stage) == ["a"]


def test_parts_are_delivered_in_the_order_of_partitions() -> None:
    stage, program = begun()
    program.stages(3, 10, "c")
    program.stages(3, 2, "b")
    program.stages(3, 0, "a1")
    program.stages(3, 0, "a2", to="queue://OUT")
    stage.settle()
    assert program.commits(3, "10 0 1", "0 0 2", "2 0 1", "5 0 0") == (4, False)
    assert in_queue(stage) == ["a1", "a2", "b", "c"]


def test_attempts_that_a_commit_does_not_name_are_dropped() -> None:
    stage, program = begun()
    program.stages(0, 0, "lost", attempt=1)
    program.stages(0, 0, "kept", attempt=2)
    program.stages(1, 0, "next", attempt=3)
    assert program.commits(0, "0 2 1") == (1, False)
    assert in_queue(stage) == ["kept"]
    assert program.asks("sinks") == {}
    assert '"staged": 1' in program.body
    assert program.commits(1, "0 3 1") == (1, False)
    assert in_queue(stage) == ["kept", "next"]


def test_batches_may_have_gaps_and_no_messages() -> None:
    _, program = begun()
    assert program.commits(4) == (0, False)
    assert program.commits(2) == (0, True)
    assert program.asks("begin", query="q", run="r1") == {"epoch": 1, "batch": 4}


def test_a_part_without_messages_leaves_nothing_in_the_store() -> None:
    stage, program = begun()
    token = program.stages(0, 0)
    stage.settle()
    assert answered(program.peer, token)
    program.stages(0, 1, "a")
    stage.settle()
    assert list(stage.store.metadata[STAGED_BATCHES]) == [b"q 0 1 0"]
    stage = stage.restarts()
    program = again(program, stage)
    assert program.commits(0, "0 0 0", "1 0 1") == (1, False)
    assert program.asks("forget", query="q", epoch=1) == {"messages": 0}
    assert stage.store.metadata[STAGED_BATCHES] == {}


def test_a_part_whose_line_is_not_in_the_store_is_forgotten_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    stage.settle()
    empty = b'{"epoch":1,"line":1,"destinations":[],"sends":[]}'
    lost = b'{"epoch":1,"line":2,"destinations":[[0,"OUT"]],"sends":[[0,3]]}'
    stage.store.put_metadata(STAGED_BATCHES, b"q 0 1 0", empty)
    stage.store.put_metadata(STAGED_BATCHES, b"q 0 2 0", lost)
    stage.syncs()
    stage = stage.restarts()
    assert "part q 0 2 0 of a batch has lost its messages in the store: stage it again" in caplog.text
    program = again(program, stage)
    program.asks("sinks")
    assert list(stage.store.metadata[STAGED_BATCHES]) == [b"q 0 0 0"]
    stage = stage.restarts()
    assert list(stage.store.metadata[STAGED_BATCHES]) == [b"q 0 0 0"]
    program = again(program, stage)
    with pytest.raises(Refused, match=r"incomplete: .* 0 of 3 messages of partition 2"):
        program.commits(0, "0 0 1", "1 0 0", "2 0 3")
    program.stages(0, 2, "c")
    stage.settle()
    assert {entry.destination.name for entry in stage.store.recovered() if entry.destination.kind == TRANSACTION} == {
        "staged-0", "staged-1"
    }  # fmt: skip
    assert program.commits(0, "0 0 1", "1 0 0", "2 0 1") == (2, False)
    assert in_queue(stage) == ["a", "c"]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (("0 0 2",), "incomplete: batch 0 of sink q: 1 of 2 messages of partition 0, attempt 0, are staged"),
        (("0 1 1",), "incomplete: batch 0 of sink q: 0 of 1 messages of partition 0, attempt 1"),
        (("0 0 0",), "incomplete: batch 0 of sink q: 1 of 0 messages"),
        (("0 0 1", "0 1 0"), "malformed: two attempts of partition 0"),
        (("0 0",), "malformed: a line of a commit is '0 0'"),
        (("0 0 x",), "malformed: a line of a commit is '0 0 x'"),
    ],
)
def test_a_commit_of_what_is_not_there_is_refused_and_changes_nothing(parts: tuple[str, ...], text: str) -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    with pytest.raises(Refused, match=text):
        program.commits(0, *parts)
    assert in_queue(stage) == []
    assert program.commits(0, "0 0 1") == (1, False)


def test_a_sink_is_for_one_target_through_restarts_until_it_is_forgotten() -> None:
    stage = Stage()
    program = Program(stage)
    assert program.asks("begin", query="q", run="r1", target=OUT) == {"epoch": 1, "batch": -1}
    program.stages(0, 0, "a")
    assert program.commits(0, "0 0 1") == (1, False)
    stage = stage.restarts()
    program = again(program, stage)
    program.stages(1, 0, "b")
    for run in ("r1", "r2"):
        with pytest.raises(
            Refused, match="other-target: up to batch 0 sink q was for queue://OUT, now it is queue://X"
        ):
            program.asks("begin", query="q", run=run, target="queue://X")
    assert program.asks("begin", query="q", run="r1", target=OUT) == {"epoch": 1, "batch": 0}
    assert program.commits(1, "0 0 1") == (1, False)
    assert in_queue(stage) == ["a", "b"]
    assert program.asks("begin", query="q", run="r2") == {"epoch": 2, "batch": 1}
    with pytest.raises(Refused, match="other-target"):
        program.asks("begin", query="q", run="r3", target="queue://X")
    program.asks("forget", query="q", epoch=2)
    assert program.asks("begin", query="q", run="r3", target="queue://X") == {"epoch": 1, "batch": -1}


def test_a_sink_that_was_begun_without_a_target_takes_the_first_that_is_named() -> None:
    stage, program = begun()
    assert b"target" not in stage.store.metadata[SINK_LEDGERS][b"q"]
    assert program.asks("begin", query="q", run="r1", target=OUT) == {"epoch": 1, "batch": -1}
    stage = stage.restarts()
    with pytest.raises(Refused, match="other-target"):
        again(program, stage).asks("begin", query="q", run="r2", target="queue://X")


def test_s46_what_a_sink_is_for_is_limited() -> None:
    _, program = begun()
    with pytest.raises(Refused, match="malformed: target has 2049 characters, at most 2048"):
        program.asks("begin", query="new", run="r1", target="x" * (MAX_TARGET + 1))
    assert program.asks("sinks", query="new") == {}
    assert program.body == "[]"
    assert program.asks("begin", query="new", run="r1", target="x" * MAX_TARGET) == {"epoch": 1, "batch": -1}


def test_a_zombie_can_neither_stage_nor_commit() -> None:
    stage, program = begun()
    zombie = Program(stage, "zombie")
    zombie.stages(0, 0, "old")
    assert program.asks("begin", query="q", run="r2") == {"epoch": 2, "batch": -1}
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    with pytest.raises(Refused, match="fenced: sink q is at epoch 2, for run r2 has it now: epoch 1 has ended"):
        zombie.commits(0, "0 0 1")
    with pytest.raises(ControlRefusal, match="fenced: sink q is at epoch 2"):
        zombie.stages(0, 0, "late", transaction=2)
    zombie.peer.rolls_back(2)
    assert in_queue(stage) == []
    assert stage.memory() == 0


def test_a_zombie_whose_transaction_was_open_cannot_stage_either() -> None:
    stage, program = begun()
    zombie = Program(stage, "zombie")
    zombie.peer.begins(1)
    zombie.peer.sends(OUT, "old", transaction=1)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    zombie.peer.sends_message(zombie.peer.message(ASK, "", properties=properties), 1)
    program.asks("begin", query="q", run="r2")
    with pytest.raises(ControlRefusal, match="fenced"):
        zombie.peer.commits(1)
    assert stage.memory() == 0
    assert in_queue(stage) == []


def test_a_refused_stage_makes_the_commit_say_why() -> None:
    stage, program = begun()
    program.asks("begin", query="q", run="r2")
    program.peer.begins(1)
    program.peer.sends(OUT, "old", transaction=1)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    with pytest.raises(ControlRefusal, match="fenced"):
        program.peer.sends_message(program.peer.message(ASK, "", properties=properties), 1)
    with pytest.raises(ControlRefusal, match="fenced"):
        program.peer.commits(1)
    stage.settle()
    assert in_queue(stage) == []


def test_a_run_that_has_ended_does_not_come_back() -> None:
    stage, program = begun()
    program.asks("begin", query="q", run="r2")
    for there in (stage, stage.restarts()):
        program = program if there is stage else again(program, there)
        with pytest.raises(Refused, match="fenced: sink q is at epoch 2, for run r2 has it now: run r1 has ended"):
            program.asks("begin", query="q", run="r1")
        assert program.asks("begin", query="q", run="r2")["epoch"] == 2


def test_the_same_run_keeps_its_epoch_and_what_it_staged() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    assert program.asks("begin", query="q", run="r1") == {"epoch": 1, "batch": -1}
    stage = stage.restarts()
    program = again(program, stage)
    assert program.asks("begin", query="q", run="r1") == {"epoch": 1, "batch": -1}
    assert program.commits(0, "0 0 1") == (1, False)


def test_what_is_aborted_or_forgotten_leaves_nothing() -> None:
    stage, program = begun()
    program.stages(0, 0, "a", "b")
    program.stages(1, 0, "c")
    stage.settle()
    assert program.asks("abort", query="q", epoch=1, batch=0) == {"messages": 2}
    assert program.asks("abort", query="q", epoch=1, batch=0) == {"messages": 0}
    assert program.asks("forget", query="q", epoch=1) == {"messages": 1}
    assert program.asks("forget", query="q", epoch=1) == {"messages": 0}
    with pytest.raises(Refused, match="unknown: there is no sink q: begin it"):
        program.commits(0)
    after = stage.restarts()
    assert all(not after.store.kept(Destination(TRANSACTION, f"staged-{number}")) for number in range(3))


def test_a_crash_at_any_write_leaves_a_batch_staged_or_delivered_and_the_commit_can_be_repeated() -> None:
    stage, program = begun()
    token = program.stages(0, 0, "a", "b")
    program.stages(0, 1, "c")
    program.stages(1, 0, "d")
    stage.settle()
    assert answered(program.peer, token)
    first = stage.store.position()
    assert program.commits(0, "0 0 2", "1 0 1") == (3, False)
    assert program.commits(1, "0 0 1") == (1, False)
    outcomes = set()
    for position in range(first, stage.store.position() + 1):
        after = stage.restarts(position=position)
        found = in_queue(after)
        outcomes.add(tuple(found))
        assert found in ([], ["a", "b", "c"], ["a", "b", "c", "d"])
        back = again(program, after)
        assert back.commits(0, "0 0 2", "1 0 1")[0] == (0 if found else 3)
        assert back.commits(1, "0 0 1")[0] == (0 if "d" in found else 1)
        assert in_queue(after) == ["a", "b", "c", "d"]
    assert len(outcomes) == 3


def test_what_was_not_answered_may_be_gone_after_a_crash_but_never_in_part() -> None:
    stage, program = begun()
    first = stage.store.position()
    program.stages(0, 0, "a", "b")
    for position in range(first, stage.store.position() + 1):
        after = stage.restarts(position=position)
        staged = len(after.store.kept(SCHEDULED_MESSAGES))
        assert staged in (0, 2)
        back = again(program, after)
        if staged == 0:
            back.stages(0, 0, "a", "b", transaction=9)
        assert back.commits(0, "0 0 2") == (2, False)
        assert in_queue(after) == ["a", "b"]


def test_a_commit_is_answered_when_it_is_safe_and_not_before() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    stage.settle()
    listener = stage.peer("c").consumes(OUT)
    program.begins_to_ask("commit", body="0 0 1", query="q", epoch=1, batch=0)
    stage.reads()
    assert program.hears() is None
    assert listener.takes() == []
    assert again(program, stage.restarts()).commits(0, "0 0 1") == (1, False)
    stage.syncs()
    assert program.hears() == {"messages": 1, "repeated": False}
    stage.reads()
    assert listener.takes() == ["a"]


def test_requests_that_come_during_a_commit_wait_for_its_end() -> None:
    stage, program = begun()
    listener = stage.peer("l").consumes("topic://T")
    program.stages(0, 0, "a", to="topic://T")
    stage.settle()
    program.begins_to_ask("commit", body="0 0 1", query="q", epoch=1, batch=0)
    other = Program(stage, "other")
    other.begins_to_ask("commit", body="0 0 1", query="q", epoch=1, batch=0)
    taker = Program(stage, "taker")
    taker.begins_to_ask("begin", query="q", run="r2")
    with pytest.raises(ControlRefusal, match="is being committed"):
        Program(stage, "late").stages(0, 0, "b")
    assert other.hears() is None
    stage.settle()
    stage.syncs()
    assert program.hears() == {"messages": 1, "repeated": False}
    assert other.hears() == {"messages": 0, "repeated": True}
    assert taker.hears() == {"epoch": 2, "batch": 0}
    assert listener.takes() == ["a"]


def test_a_disk_without_room_refuses_and_changes_nothing() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    stage.settle()
    stage.has_room(False)
    with pytest.raises(Refused, match="limit: the disk of the message store is full"):
        program.commits(0, "0 0 1")
    with pytest.raises(ResourceAllocationError):
        program.stages(1, 0, "b", transaction=5)
    stage.has_room(True)
    assert program.commits(0, "0 0 1") == (1, False)


def test_a_message_that_is_missing_in_the_store_stops_the_commit() -> None:
    stage, program = begun()
    program.stages(0, 0, "a", "b")
    stage.settle()
    stage.store.lose(SCHEDULED_MESSAGES, 1)
    with pytest.raises(Refused, match="incomplete: a message of part q 0 0 0 is missing in the store"):
        program.commits(0, "0 0 2")
    assert in_queue(stage) == []


def test_a_part_that_says_nothing_of_its_messages_is_read() -> None:
    stage, program = begun()
    program.stages(0, 0, "a", "b")
    stage.settle()
    (key,) = stage.store.metadata[STAGED_BATCHES]
    fields = json.loads(stage.store.metadata[STAGED_BATCHES][key])
    assert fields.pop("plain") is True  # as a version wrote it that had no such word
    stage.store.put_metadata(STAGED_BATCHES, key, json.dumps(fields).encode())
    stage.syncs()
    stage = stage.restarts()
    program = again(program, stage)
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    assert len(stage.store.reads) == 1
    stage.settle()
    stage.syncs()
    assert program.hears() == {"messages": 2, "repeated": False}
    assert in_queue(stage) == ["a", "b"]


def test_a_part_that_cannot_be_read_stops_the_start() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    stage.settle()
    stage.store.put_metadata(STAGED_BATCHES, b"q 0 0", b"{}")
    stage.syncs()
    with pytest.raises(StoreError, match="a staged batch in the store cannot be read"):
        stage.restarts()


def test_all_kinds_of_messages_reach_all_kinds_of_destinations() -> None:
    stage, program = begun()
    stage.peer("s", client_id="client").consumes("topic://T", durable="sub").leaves()
    program.peer.begins(1)
    program.peer.sends("topic://T", "t", transaction=1)
    program.peer.sends("queue://A,queue://B", "both", transaction=1)
    program.peer.sends(OUT, "fleeting", transaction=1, persistent=False)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=properties), 1)
    program.peer.commits(1)
    stage.settle()
    stage = stage.restarts()
    program = again(program, stage)
    listener = stage.peer("l").consumes("topic://T")
    assert program.commits(0, "0 0 3") == (3, False)
    assert in_queue(stage, "queue://A") == ["both"]
    assert in_queue(stage, "queue://B") == ["both"]
    assert in_queue(stage) == ["fleeting"]
    assert listener.takes() == ["t"]
    assert stage.peer("s", client_id="client").consumes("topic://T", durable="sub").takes() == ["t"]


def test_nothing_is_staged_for_temporary_destinations() -> None:
    stage, program = begun()
    with pytest.raises(ControlRefusal, match="nothing can be staged for temp-queue"):
        program.stages(0, 0, "a", to=program.peer.temporary(7))
    assert stage.memory() == 0


def test_a_transaction_that_stages_acknowledges_nothing() -> None:
    _, program = begun()
    program.peer.sends("queue://IN", "in")
    listener = program.peer.consumes("queue://IN")
    program.peer.begins(1)
    listener.acknowledges("in", transaction=1)
    properties: dict[str, object] = {
        "action": "stage", "query": "q", "epoch": 1, "batch": 0, "partition": 0, "attempt": 0,
    }  # fmt: skip
    program.peer.sends_message(program.peer.message(ASK, "", properties=properties), 1)
    with pytest.raises(ControlRefusal, match="acknowledges nothing"):
        program.peer.commits(1)
    assert listener.subscription.dispatched_count == 1


def counts(stage: Stage) -> list[tuple[int, int, int]]:
    """Parts, copies and bytes that are counted for batches 0 to 2, which is what their parts have."""
    sink = stage.broker.assembly.sinks._sinks["q"]
    found = []
    for batch in range(3):
        counted = sink.staged_batch(batch)
        parts = [part for part in sink.parts.values() if part.key.batch == batch]
        found.append((counted.parts, counted.copies, counted.bytes))
        assert found[-1] == (
            len(parts), sum([len(part.sequences) for part in parts]), sum([part.bytes for part in parts])
        )  # fmt: skip
    return found


def test_what_is_staged_for_a_batch_is_counted_until_it_goes() -> None:
    stage, program = begun()
    size = program.peer.message(OUT, "a").size
    program.stages(0, 0, "a", "b")
    program.stages(0, 0, "c")
    program.stages(0, 1, "d", "e", to="queue://A,queue://B", attempt=7)
    program.stages(1, 0, "f")
    program.stages(2, 0, "g")
    stage.settle()
    found = counts(stage)
    assert [(parts, copies) for parts, copies, _ in found] == [(2, 7), (1, 1), (1, 1)]
    assert found[0][2] > 6 * size
    stage = stage.restarts()
    program = again(program, stage)
    assert [(parts, copies) for parts, copies, _ in counts(stage)] == [(2, 7), (1, 1), (1, 1)]
    program.asks("abort", query="q", epoch=1, batch=2)
    assert program.commits(0, "0 0 3") == (3, False)
    assert [(parts, copies) for parts, copies, _ in counts(stage)] == [(0, 0), (1, 1), (0, 0)]
    program.asks("begin", query="q", run="r2")
    assert counts(stage) == [(0, 0, 0)] * 3


def test_only_stage_is_asked_for_in_a_transaction() -> None:
    _, program = begun()
    program.peer.begins(1)
    with pytest.raises(ControlRefusal, match="only stage is asked for in a transaction"):
        program.peer.sends_message(program.peer.message(ASK, "", properties={"action": "commit"}), 1)
    with pytest.raises((ControlRefusal, XaError), match="only stage"):
        program.peer.commits(1)


def test_lines_are_used_again() -> None:
    stage, program = begun()
    for batch in range(5):
        program.stages(batch, 0, "a")
        program.stages(batch, 1, "b")
        assert program.commits(batch, "0 0 1", "1 0 1") == (2, False)
    lines = {entry.destination.name for entry in stage.store.recovered() if entry.destination.kind == TRANSACTION}
    assert lines == {"staged-0", "staged-1"}
    stage = stage.restarts()
    program = again(program, stage)
    program.stages(9, 0, "a")
    assert stage.store.kept(Destination(TRANSACTION, "staged-0")) or stage.store.kept(
        Destination(TRANSACTION, "staged-1")
    )


def test_a_client_that_connects_again_commits_its_transaction_once() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    stage.settle()
    program.peer.leaves()
    peer = stage.peer("program", reconnected=True)
    peer.begins(1)
    peer.sends(OUT, "a", transaction=1)
    token = peer.commits(1)
    stage.settle()
    assert answered(peer, token)
    assert Program(stage, "other").commits(0, "0 0 1") == (1, False)
    assert in_queue(stage) == ["a"]
