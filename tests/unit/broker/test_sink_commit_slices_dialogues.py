"""Large batches are committed a slice at a time: whole or not at all, once, and in order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.exactly_once.part_names import MAX_COMMIT_BYTES
from spanwire.broker.exactly_once.requests import Control
from spanwire.broker.exactly_once.sink_commit import COPIES_AT_ONCE, COPIES_IN_STEP, MAX_REPETITIONS, SinkCommit
from spanwire.broker.exactly_once.staged_transfer import ENTERED_IN_STEP
from spanwire.broker.metadata import STAGED_BATCHES
from spanwire.broker.persistence.deferred_dispatch import DISPATCH_STEPS
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import ControlRefusal
from spanwire.model.destination import TRANSACTION, parse_destination
from spanwire.model.errors import ResourceAllocationError
from tests.support.control_dialogue import Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage
from tests.unit.broker.test_commit_dialogues import settles
from tests.unit.broker.test_sink_dialogues import begun
from tests.unit.broker.test_sink_transfer_dialogues import all_of

OUT: Final = "queue://OUT"
MANY: Final = 2 * JOB_STEPS * COPIES_IN_STEP  # copies of one part that stay in place: some slices
TEXTS: Final = [f"{number:05}" for number in range(MANY)]
READ: Final = 3 * JOB_STEPS  # copies that are read and written again
SLACK: Final = COPIES_AT_ONCE // COPIES_IN_STEP + 2  # steps that are counted behind their work
NAMES: Final = f"0 0 {MANY}"


def commit_of(stage: Stage) -> SinkCommit | None:
    """The commit that is under way."""
    control = stage.broker.assembly.router.control
    assert isinstance(control, Control)
    for commit in control._commits:
        return commit
    return None


@cache
def staged_batch(count: int, persistent: bool) -> Stage:
    """A large batch that is staged. Tests begin with a restart of it, which costs less than to stage it each time."""
    stage, program = begun()
    program.stages(0, 0, *TEXTS[:count], to=OUT, persistent=persistent)
    settles(stage)
    return stage


def under_way(*texts: str, persistent: bool = True) -> tuple[Stage, Program]:
    """A large batch whose commit has begun; its first slice is done."""
    stage = staged_batch(len(texts) or MANY, persistent).restarts(clean=True)
    program = Program(stage)
    program.begins_to_ask("commit", body=f"0 0 {len(texts) or MANY}", query="q", epoch=1, batch=0)
    return stage, program


def slices(stage: Stage) -> Iterator[int]:
    """Turns until nothing is under way, each with its steps."""
    commit = commit_of(stage)
    assert commit is not None
    while commit_of(stage) is commit:
        before = commit.steps
        stage.runs()
        stage.reads()
        yield commit.steps - before


def in_queue(stage: Stage, name: str = OUT) -> list[str]:
    """All that a queue holds, by the way of a browser."""
    settles(stage)
    browser = stage.peer(f"b{len(stage.dispatches)}").consumes(name, prefetch=100_000, browser=True)
    for _ in range(30):
        settles(stage)
        browser.peer.flushes()
    found = browser.takes()
    browser.leaves()
    return found


def staged(stage: Stage) -> int:
    """All copies in the store that are staged."""
    return sum([len(found.sequences) for found in stage.store.recovered() if found.destination.kind == TRANSACTION])


def hears(program: Program) -> dict[str, object] | None:
    settles(program.stage)
    return program.hears()


@pytest.mark.large
def test_a_batch_in_place_is_committed_in_slices() -> None:
    stage, program = under_way()
    before = stage.store.position()
    taken = []
    for steps in slices(stage):
        taken.append(steps)
        assert steps <= JOB_STEPS + SLACK
    assert len(taken) >= 2
    assert stage.store.position() == before + 1, "the store gets all in one call at the end"
    assert (program.hears(), stage.has(OUT), stage.view(OUT).enqueued) == (None, True, 0)
    stage.syncs()
    found = [stage.view(OUT).enqueued]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        found.append(stage.view(OUT).enqueued)
    most = DISPATCH_STEPS * ENTERED_IN_STEP
    assert max([after - before for before, after in zip([0, *found], found, strict=False)]) <= most
    assert found[-1] == MANY and len(found) >= MANY // most
    assert hears(program) == {"messages": MANY, "repeated": False}
    assert (stage.memory(), staged(stage), stage.store.metadata[STAGED_BATCHES]) == (0, 0, {})
    assert in_queue(stage) == TEXTS


@pytest.mark.large
def test_many_parts_are_committed_in_slices() -> None:
    stage, program = begun()
    count = 2 * JOB_STEPS
    for part in range(count):
        program.stages(0, part, *[f"{part}-{copy}" for copy in range(8)], attempt=part % 3, transaction=part + 1)
        program.stages(0, part, "lost", attempt=5, transaction=part + 1)
    settles(stage)
    names = "\n".join([f"{part} {part % 3} 8" for part in reversed(range(count))])
    program.begins_to_ask("commit", body=names, query="q", epoch=1, batch=0)
    assert len(stage.store.reads) == 0
    turns = 0
    for steps in slices(stage):
        assert steps <= JOB_STEPS + SLACK
        turns += 1
    assert turns >= 2 * count // JOB_STEPS
    assert hears(program) == {"messages": 8 * count, "repeated": False}
    assert (staged(stage), stage.store.metadata[STAGED_BATCHES]) == (0, {})
    assert in_queue(stage) == [f"{part}-{copy}" for part in range(count) for copy in range(8)]


def test_a_batch_that_is_read_is_committed_in_slices() -> None:
    stage, program = begun()
    stage.peer("s", client_id="c").consumes("topic://T", durable="d").leaves()
    texts = TEXTS[:READ]
    program.stages(0, 0, *texts, persistent=False)
    program.stages(0, 1, *texts, to="topic://T")
    settles(stage)
    listener = stage.peer("l").consumes("topic://T", prefetch=READ)
    program.begins_to_ask("commit", body=f"0 0 {READ}\n1 0 {READ}", query="q", epoch=1, batch=0)
    stage.reads()
    turns = 0
    for steps in slices(stage):
        assert steps <= JOB_STEPS + SLACK
        turns += 1
    assert turns >= 2 * READ // JOB_STEPS
    assert (listener.takes(), program.hears()) == ([], None)
    stage.syncs()
    before = stage.view("topic://T").enqueued
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        after = stage.view("topic://T").enqueued + stage.view(OUT).enqueued
        assert after - before <= DISPATCH_STEPS
        before = after
    assert hears(program) == {"messages": 2 * READ, "repeated": False}
    listener.peer.flushes()
    settles(stage)
    assert listener.takes() == texts
    assert in_queue(stage) == texts
    assert staged(stage) == 0


def test_a_small_batch_is_committed_in_the_turn_of_its_request() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS[:JOB_STEPS])
    stage.settle()
    program.begins_to_ask("commit", body=f"0 0 {JOB_STEPS}", query="q", epoch=1, batch=0)
    assert commit_of(stage) is None
    stage.syncs()
    assert program.hears() == {"messages": JOB_STEPS, "repeated": False}


def test_the_first_slice_of_each_commit_counts_as_steps_of_its_request() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    settles(stage)
    before = stage.broker.steps
    program.begins_to_ask("commit", body=NAMES, query="q", epoch=1, batch=0)
    assert stage.broker.steps - before >= JOB_STEPS


@pytest.mark.large
@pytest.mark.parametrize("after", [0, 2, 5])
@pytest.mark.parametrize("action", ["begin", "commit", "abort", "forget"])
def test_requests_about_the_sink_wait_for_the_end_of_the_commit(action: str, after: int) -> None:
    stage, program = under_way()
    other = Program(stage, "other")
    for _ in range(after):
        stage.runs()
    is_waiting = commit_of(stage) is not None
    other.begins_to_ask(action, body=NAMES, query="q", epoch=1, batch=0, run="r2")
    stage.syncs()
    assert other.hears() is None if is_waiting else True
    assert hears(program) == {"messages": MANY, "repeated": False}
    if is_waiting:
        answers: dict[str, dict[str, object]] = {
            "begin": {"epoch": 2, "batch": 0}, "commit": {"messages": 0, "repeated": True},
            "abort": {"messages": 0}, "forget": {"messages": 0},
        }  # fmt: skip
        assert hears(other) == answers[action]
    assert in_queue(stage) == TEXTS


@pytest.mark.large
def test_parts_of_this_batch_are_refused_meanwhile_and_those_of_the_next_one_are_kept() -> None:
    stage, program = begun()
    program.stages(3, 0, *TEXTS)
    settles(stage)
    program.begins_to_ask("commit", body=NAMES, query="q", epoch=1, batch=3)
    late = Program(stage, "late")
    for batch in (2, 3):
        with pytest.raises(ControlRefusal, match="batch 3 of sink q is being committed: stage for a later batch"):
            late.stages(batch, 0, "late", transaction=batch)
    late.stages(4, 0, "next", transaction=9)
    assert hears(program) == {"messages": MANY, "repeated": False}
    assert program.commits(4, "0 0 1") == (1, False)
    assert in_queue(stage) == [*TEXTS, "next"]


@pytest.mark.large
def test_two_sinks_commit_to_one_queue_at_once() -> None:
    stage, program = begun()
    other = Program(stage, "other")
    other.asks("begin", query="p", run="r1")
    program.stages(0, 0, *[f"a{text}" for text in TEXTS])
    other.stages(0, 0, *[f"b{text}" for text in TEXTS], query="p")
    settles(stage)
    program.begins_to_ask("commit", body=NAMES, query="q", epoch=1, batch=0)
    other.begins_to_ask("commit", body=NAMES, query="p", epoch=1, batch=0)
    assert hears(program) == hears(other) == {"messages": MANY, "repeated": False}
    found = in_queue(stage)
    assert [text[1:] for text in found] == TEXTS + TEXTS
    assert len({text[0] for text in found[:MANY]}) == 1


def test_what_is_sent_behind_the_commit_comes_behind_the_batch() -> None:
    stage, program = under_way()
    listener = stage.peer("c").consumes(OUT, prefetch=10)
    stage.peer("early").sends(OUT, "early", persistent=False)
    assert listener.takes() == ["early"], "nothing waits for the commit before the store has it"
    listener.acknowledges_one("early")
    for _ in slices(stage):
        pass
    stage.peer("p").sends(OUT, "behind")
    stage.peer("p2").sends(OUT, "fleeting behind", persistent=False)
    stage.syncs()
    stage.runs()
    stage.peer("p3").sends(OUT, "last", persistent=False)
    stage.peer("p4").sends("queue://ELSEWHERE", "x", persistent=False)
    assert stage.view("queue://ELSEWHERE").enqueued == 1
    assert all_of(stage, listener) == [*TEXTS, "behind", "fleeting behind", "last"]
    assert hears(program) == {"messages": MANY, "repeated": False}


@pytest.mark.parametrize("persistent", [True, False])
def test_a_queue_that_is_removed_meanwhile_is_made_again(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    stage.reads()
    assert commit_of(stage) is not None and stage.has(OUT)
    stage.peer("d").removes(OUT)
    assert hears(program) == {"messages": len(texts), "repeated": False}
    assert in_queue(stage) == texts
    assert staged(stage) == 0


@pytest.mark.parametrize("persistent", [True, False])
def test_a_queue_that_is_removed_again_and_again_stops_the_commit(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    stage.reads()
    peer = stage.peer("d")
    removals = 0
    while commit_of(stage) is not None:
        if stage.has(OUT):
            peer.removes(OUT)
            removals += 1
        stage.runs()
    assert removals > MAX_REPETITIONS
    with pytest.raises(Refused, match="limit: destinations of batch 0 of sink q were removed 4 times during its"):
        hears(program)
    assert (stage.memory(), staged(stage)) == (0, len(texts))
    assert program.commits(0, f"0 0 {len(texts)}") == (len(texts), False)
    assert in_queue(stage) == texts


@pytest.mark.parametrize("persistent", [True, False])
def test_a_queue_that_is_removed_before_the_batch_is_safe_takes_it_along(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    stage.reads()
    for _ in slices(stage):
        pass
    stage.peer("d").removes(OUT)
    assert hears(program) == {"messages": len(texts), "repeated": False}
    assert (stage.memory(), staged(stage), stage.has(OUT)) == (0, 0, False)
    assert stage.store.kept(parse_destination(OUT)) == []


def test_a_queue_that_is_removed_while_it_gets_the_batch_takes_it_along() -> None:
    stage, program = under_way()
    for _ in slices(stage):
        pass
    stage.syncs()
    assert 0 < stage.view(OUT).enqueued < MANY
    stage.peer("d").removes(OUT)
    assert hears(program) == {"messages": MANY, "repeated": False}
    assert (stage.memory(), stage.has(OUT)) == (0, False)
    stage.peer("p").sends(OUT, "next")
    assert in_queue(stage) == ["next"]


def test_a_purge_takes_what_the_queue_has_already() -> None:
    stage, program = under_way()
    stage.peer("p").sends(OUT, "early")
    stage.syncs()
    queue = stage.broker.find_destination(parse_destination(OUT))
    assert isinstance(queue, Queue)
    queue.purge()
    assert hears(program) == {"messages": MANY, "repeated": False}
    assert in_queue(stage) == TEXTS


@pytest.mark.large
def test_a_durable_subscription_that_ends_meanwhile_takes_its_messages_along() -> None:
    stage, program = begun()
    peer = stage.peer("s", client_id="c")
    peer.consumes("topic://T", durable="d").leaves()
    program.stages(0, 0, *TEXTS, to="topic://T")
    settles(stage)
    program.stages(0, 1, *TEXTS, to="queue://A", transaction=2)
    settles(stage)
    program.begins_to_ask("commit", body=f"0 0 {MANY}\n1 0 {MANY}", query="q", epoch=1, batch=0)
    stage.reads()
    assert commit_of(stage) is not None
    peer.unsubscribes("d")
    assert hears(program) == {"messages": 2 * MANY, "repeated": False}
    assert (staged(stage), stage.memory()) == (0, stage.view("queue://A").memory_bytes)
    assert in_queue(stage, "queue://A") == TEXTS


@pytest.mark.parametrize("persistent", [True, False])
def test_a_connection_that_is_lost_leaves_a_whole_commit(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    program.peer.leaves()
    settles(stage)
    other = Program(stage, "other")
    assert other.commits(0, f"0 0 {len(texts)}") == (0, True)
    assert in_queue(stage) == texts
    assert staged(stage) == 0


@pytest.mark.parametrize("persistent", [True, False])
def test_a_commit_that_the_store_refuses_changes_nothing_and_can_be_repeated(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    stage.store.refused = ResourceAllocationError("no")
    stage.reads()
    for _ in slices(stage):
        pass
    with pytest.raises(Refused, match="limit: no"):
        hears(program)
    stage.store.refused = None
    assert (stage.memory(), staged(stage)) == (0, len(texts))
    assert in_queue(stage) == []
    assert program.commits(0, f"0 0 {len(texts)}") == (len(texts), False)
    assert in_queue(stage) == texts


def test_a_message_that_is_missing_at_the_end_of_a_batch_stops_the_commit() -> None:
    stage, program = begun()
    program.stages(0, 0, *TEXTS)
    settles(stage)
    (entry,) = [found for found in stage.store.recovered() if found.destination.kind == TRANSACTION]
    stage.store.lose(entry.destination, entry.sequences[-1])
    program.begins_to_ask("commit", body=NAMES, query="q", epoch=1, batch=0)
    with pytest.raises(Refused, match="incomplete: a message of part q 0 0 0 is missing in the store"):
        hears(program)
    assert in_queue(stage) == []
    assert program.asks("abort", query="q", epoch=1, batch=0) == {"messages": MANY}


@pytest.mark.large
@pytest.mark.parametrize("persistent", [True, False])
def test_a_crash_in_any_turn_leaves_the_batch_staged_or_delivered(persistent: bool) -> None:
    texts = TEXTS if persistent else TEXTS[:READ]
    stage, program = under_way(*texts, persistent=persistent)
    stage.reads()
    outcomes = set()
    for turn in range(30):
        if turn == 25:
            stage.syncs()
        for found in () if turn % 3 == 1 else (stage.restarts(), stage.restarts(position=stage.store.position())):
            is_delivered = staged(found) == 0
            outcomes.add((turn < 25, is_delivered))
            assert len(found.store.kept(parse_destination(OUT))) == (len(texts) if is_delivered and persistent else 0)
            if turn % 5 == 0:
                expected = (0, True) if is_delivered else (len(texts), False)
                assert again(program, found).commits(0, f"0 0 {len(texts)}") == expected
        stage.runs()
    assert (True, False) in outcomes and (True, True) in outcomes and (False, True) in outcomes


@pytest.mark.large
@pytest.mark.parametrize("after", range(0, 12, 3))
def test_a_stop_in_any_turn_leaves_the_batch_staged_or_delivered(after: int) -> None:
    stage, program = under_way()
    for _ in range(after):
        stage.runs()
    is_handed_over = commit_of(stage) is None
    stage.broker.begin_stop(stage.now)
    stage.broker.stop(stage.now)
    stage.syncs()
    found = stage.restarts(clean=True)
    assert again(program, found).commits(0, NAMES) == ((0, True) if is_handed_over else (MANY, False))
    assert in_queue(found) == TEXTS


@pytest.mark.large
def test_targets_that_take_turns_are_committed_in_slices() -> None:
    stage, program = begun()
    count = 2 * JOB_STEPS
    program.peer.begins(1)
    for number in range(count):
        program.peer.sends(f"queue://Q{number % 50}", *[f"{number}-{copy}" for copy in range(10)], transaction=1)
    program.stages(0, 0)
    settles(stage)
    program.begins_to_ask("commit", body=f"0 0 {10 * count}", query="q", epoch=1, batch=0)
    assert len(stage.store.reads) == 0
    for steps in slices(stage):
        assert steps <= JOB_STEPS + COPIES_AT_ONCE
    assert hears(program) == {"messages": 10 * count, "repeated": False}
    for name in (0, 49):
        numbers = range(name, count, 50)
        expected = [f"{number}-{copy}" for number in numbers for copy in range(10)]
        assert in_queue(stage, f"queue://Q{name}") == expected


def test_a_commit_whose_body_is_longer_than_any_is_refused() -> None:
    _, program = begun()
    with pytest.raises(Refused, match=f"limit: the body of a commit has at most {MAX_COMMIT_BYTES} bytes, this one"):
        program.commits(0, " " * MAX_COMMIT_BYTES, "")


def test_empty_lines_of_a_commit_are_read_in_slices() -> None:
    stage, program = begun()
    program.begins_to_ask("commit", body="\n" * MAX_COMMIT_BYTES, query="q", epoch=1, batch=0)
    for steps in slices(stage):
        assert steps <= JOB_STEPS + SLACK
    assert hears(program) == {"messages": 0, "repeated": False}
