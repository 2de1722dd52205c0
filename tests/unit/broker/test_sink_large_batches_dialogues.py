"""Batches of more messages than the memory holds: one record decides, the messages stay on the disk, and consumers get
them in slices.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Final

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.exactly_once.part_removal import REMOVED_AT_ONCE, REMOVED_IN_STEP
from spanwire.broker.exactly_once.sink import Sink
from spanwire.broker.exactly_once.sink_commit import COPIES_IN_STEP
from spanwire.broker.exactly_once.sinks import MAX_BATCH_MESSAGES, MAX_READ_BYTES, MAX_READ_MESSAGES
from spanwire.broker.metadata import STAGED_BATCHES
from spanwire.broker.persistence.deferred_dispatch import DISPATCH_STEPS
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.request_errors import ControlRefusal
from spanwire.model.destination import parse_destination
from tests.support.control_dialogue import Program, Refused, again
from tests.support.dialogue.broker_dialogue import Stage
from tests.support.dialogue.spoken_advisories import SpokenAdvisories
from tests.unit.broker.test_commit_dialogues import settles
from tests.unit.broker.test_sink_commit_slices_dialogues import staged
from tests.unit.broker.test_sink_dialogues import OUT, begun
from tests.unit.broker.test_sink_removal_dialogues import removal_of, slices

LARGE: Final = MAX_READ_MESSAGES + 2  # copies: more than a commit may read
PARTS: Final = 2
NAMES: Final = tuple(f"{partition} 0 {LARGE // PARTS}" for partition in range(PARTS))


def sink_of(stage: Stage) -> Sink:
    return stage.broker.assembly.sinks._sinks["q"]


@cache
def large_batch(attempt: int = 0) -> Stage:
    """A batch that is staged: the same message many times, with a part for each half."""
    stage, program = begun()
    for partition in range(PARTS):
        message = program.peer.message(OUT, f"part {partition}")
        program.peer.begins(1)
        for _ in range(LARGE // PARTS):
            program.peer.sends_message(message, 1)
        program.stages(0, partition, attempt=attempt)
        settles(stage)
    return stage


def pending(stage: Stage) -> int:
    return stage.view(OUT).pending if stage.has(OUT) else 0


@pytest.mark.large
def test_a_batch_too_large_for_the_memory_stays_on_the_disk_and_a_kill_in_between_completes_it() -> None:
    stage = large_batch().restarts(clean=True)
    program = Program(stage)
    safe = stage.store.synced
    program.begins_to_ask("commit", body="\n".join(NAMES), query="q", epoch=1, batch=0)
    before = stage.store.position()
    while stage.store.position() == before:
        assert pending(stage) == 0
        stage.runs()
    assert stage.store.position() == before + 1, "one call decides for all"
    stage.syncs()
    seen = [0, pending(stage)]
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        seen.append(pending(stage))
    most = DISPATCH_STEPS * 4
    assert 0 < seen[1] <= most and seen[-1] == LARGE, "a consumer may get a part before the rest"
    assert max([after - some for some, after in pairwise(seen)]) <= most
    assert program.hears() == {"messages": LARGE, "repeated": False}
    assert (len(stage.store.reads), stage.memory(), staged(stage)) == (0, 0, 0)
    undecided, decided = stage.restarts(position=safe), stage.restarts(position=before + 1)
    assert (pending(undecided), staged(undecided)) == (0, LARGE)
    assert (pending(decided), staged(decided)) == (LARGE, 0)
    assert again(program, decided).commits(0, *NAMES) == (0, True)
    assert again(program, undecided).commits(0, *NAMES) == (LARGE, False)
    settles(undecided)
    assert (pending(decided), pending(undecided)) == (LARGE, LARGE)


@pytest.mark.large
def test_a_large_part_is_dropped_in_slices() -> None:
    stage = large_batch().restarts(clean=True)
    program = Program(stage)
    before = stage.store.position()
    program.begins_to_ask("abort", query="q", epoch=1, batch=0)
    taken = list(slices(stage))
    assert max(taken) <= JOB_STEPS + REMOVED_AT_ONCE // REMOVED_IN_STEP
    assert len(taken) >= LARGE // REMOVED_IN_STEP // JOB_STEPS - 1
    assert (removal_of(stage), stage.store.position()) == (None, before + 1)
    settles(stage)
    assert program.hears() == {"messages": LARGE}
    assert (staged(stage), stage.store.metadata[STAGED_BATCHES]) == (0, {})


@pytest.mark.large
def test_a_commit_drops_the_large_parts_of_attempts_that_it_does_not_name() -> None:
    stage = large_batch(attempt=3).restarts(clean=True)
    program = Program(stage)
    program.stages(0, 0, "a", "b")
    settles(stage)
    program.begins_to_ask("commit", body="0 0 2", query="q", epoch=1, batch=0)
    settles(stage)
    assert program.hears() == {"messages": 2, "repeated": False}
    assert (staged(stage), stage.store.metadata[STAGED_BATCHES], pending(stage)) == (0, {}, 2)


def test_a_batch_has_a_limit() -> None:
    stage, program = begun()
    program.stages(0, 0, "a")
    settles(stage)
    sink_of(stage)._batches[0].copies = MAX_BATCH_MESSAGES - 2
    with pytest.raises(ControlRefusal, match=f"limit: batch 0 of sink q has {MAX_BATCH_MESSAGES + 1} messages") as told:
        program.peer.is_answered(program.stages(0, 1, "a", "b", "c"))
    assert "make smaller batches" in str(told.value)
    program.stages(0, 1, "a", "b", transaction=2)
    settles(stage)
    assert len(sink_of(stage).parts) == 2
    assert stage.memory() == 0


@pytest.mark.parametrize("was_plain", [True, False])
def test_a_batch_that_must_be_read_has_a_smaller_limit(was_plain: bool) -> None:
    stage, program = begun()
    program.stages(0, 0, "a", persistent=was_plain)
    settles(stage)
    sink_of(stage)._batches[0].copies = MAX_READ_MESSAGES - 2
    with pytest.raises(ControlRefusal, match=f"limit: batch 0 of sink q has {MAX_READ_MESSAGES + 1} messages of 0 MiB"):
        program.peer.is_answered(program.stages(0, 1, "a", "b", "c", persistent=not was_plain))
    program.stages(0, 1, "a", "b", persistent=not was_plain, transaction=2)
    settles(stage)
    with pytest.raises(ControlRefusal, match="where the broker must see each message"):
        program.peer.is_answered(program.stages(0, 2, "a", transaction=3))


def test_a_batch_may_have_any_size_unless_it_must_be_read() -> None:
    told_of = PolicyEntry(parse_destination("queue://TOLD"), advisories=AdvisoryPolicy(delivered=True))
    stage = Stage(told_of, advisory_format=SpokenAdvisories())
    program = Program(stage)
    program.asks("begin", query="q", run="r1")
    for batch, to in enumerate((OUT, "queue://TOLD")):
        program.stages(batch, 0, "a", to=to)
        settles(stage)
        (part,) = sink_of(stage).parts.values()
        part.bytes = MAX_READ_BYTES + 1
        if to == OUT:
            assert program.commits(batch, "0 0 1") == (1, False)
        else:
            with pytest.raises(Refused, match=r"batch 1 of sink q has 1 messages of 256 MiB.*make smaller batches"):
                program.commits(batch, "0 0 1")
    assert program.asks("abort", query="q", epoch=1, batch=1) == {"messages": 1}


@pytest.mark.parametrize("is_heard", [False, True])
def test_copies_for_several_subscriptions_lie_together_and_stay_in_place(is_heard: bool) -> None:
    stage, program = begun()
    for name in ("a", "b"):
        subscriber = stage.peer(name, client_id=name)
        subscriber.consumes("topic://T", durable=name)
        subscriber.leaves()
    texts = [f"{number:03}" for number in range(200)]
    if is_heard:
        stage.peer("c").consumes("topic://T")
    program.stages(0, 0, *texts, to="topic://T")
    settles(stage)
    program.begins_to_ask("commit", body="0 0 200", query="q", epoch=1, batch=0)
    assert (len(stage.store.reads) > 0) == is_heard, "a listener must see each message"
    settles(stage)
    assert program.hears() == {"messages": 200, "repeated": False}
    assert (stage.view("topic://T").enqueued, staged(stage)) == (200, 0)
    for name in ("a", "b"):
        listener = stage.peer(f"again {name}", name).consumes("topic://T", durable=name)
        settles(stage)
        assert listener.takes() == texts


@pytest.mark.large
def test_a_listener_that_comes_during_the_commit_sees_each_message() -> None:
    stage, program = begun()
    texts = [str(number) for number in range(2 * JOB_STEPS * COPIES_IN_STEP)]
    program.stages(0, 0, *texts, to="topic://T")
    settles(stage)
    program.begins_to_ask("commit", body=f"0 0 {len(texts)}", query="q", epoch=1, batch=0)
    listener = stage.peer("c").consumes("topic://T", prefetch=len(texts))
    settles(stage)
    assert program.hears() == {"messages": len(texts), "repeated": False}
    assert (listener.takes()[:100], stage.view("topic://T").enqueued) == (texts[:100], len(texts))
