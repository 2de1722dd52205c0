"""Moves that an operator has ordered: kept in the store, resumed after a crash, undone."""

from __future__ import annotations

import json

import pytest

from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.moves.move import CANCELLED, DONE, RUNNING, Move
from spanwire.broker.moves.move_order import COPY, MOVE, NO_LIMIT, RETRY, MoveOrder
from spanwire.broker.moves.moved_runs import MAX_RUNS
from spanwire.broker.moves.moves import KEPT_MS, MAX_ALL_RUNS, MAX_MOVES, MAX_RUNNING
from spanwire.broker.moves.pace import SLICE_MESSAGES
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import QUEUE
from spanwire.model.errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSelectorError,
    ResourceAllocationError,
)
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.disk_stage import DiskStage
from tests.support.dialogue.text_format import properties_of

SOURCE, TARGET, DLQ = "queue://SOURCE", "queue://TARGET", "queue://ActiveMQ.DLQ"


def order(verb: str = MOVE, selector: str | None = None, **fields: int) -> MoveOrder:
    source, target = (DLQ, None) if verb == RETRY else (SOURCE, destination(TARGET))
    return MoveOrder(
        verb, [destination(source)], target, selector, fields.get("limit", NO_LIMIT), fields.get("rate", 0),
        follows=bool(fields.get("follows")), user="ada",
    )  # fmt: skip


def starts(stage: Stage, verb: str = MOVE, selector: str | None = None, **fields: int) -> Move:
    return stage.broker.moves.start(order(verb, selector, **fields), stage.now)


def moves(stage: Stage, verb: str = MOVE, selector: str | None = None, **fields: int) -> Move:
    return ends(stage, starts(stage, verb, selector, **fields))


def ends(stage: Stage, move: Move) -> Move:
    for _ in range(10_000):
        if not move.is_running:
            break
        stage.syncs()
        stage.reads()
        stage.waits(0.003)
    stage.settle()
    assert move.state == DONE
    return move


def goes_on(stage: Stage, seconds: float = 1.0) -> None:
    for _ in range(int(seconds * 10)):
        stage.settle()
        stage.waits(0.1)
    stage.settle()


def undoes(stage: Stage, move_id: str) -> Move:
    return ends(stage, stage.broker.moves.undo(move_id, "ada", stage.now))


def texts(stage: Stage, queue: str) -> list[str]:
    """What a consumer of a queue gets."""
    if not stage.has(queue):
        return []
    listener = stage.peer(f"of {queue}").consumes(queue, prefetch=30_000)
    stage.settle()
    listener.peer.flushes()
    stage.settle()
    return listener.takes()


def filled(count: int = 4, *policies: PolicyEntry, persistent: bool = True) -> Stage:
    stage = Stage(*policies)
    peer = stage.peer("p")
    for number in range(count):
        peer.sends(SOURCE, f"{number}", properties={"n": number}, persistent=persistent)
    stage.settle()
    return stage


def dead(count: int = 3) -> Stage:
    """A stage with dead letters of SOURCE."""
    stage = filled(count)
    consumer = stage.peer("c").consumes(SOURCE)
    for number in range(count):
        consumer.acknowledges(f"{number}", ack_type=POISON_ACK, count=1)
    consumer.peer.leaves()
    stage.settle()
    assert stage.view(DLQ).pending == count
    return stage


def test_a_move_takes_selected_messages_and_counts_them() -> None:
    stage = filled()
    move = moves(stage, selector="n > 1")
    assert (move.id, move.processed, move.left, move.undoable) == ("M1", 2, 0, 2)
    assert texts(stage, TARGET) == ["2", "3"]
    assert texts(stage, SOURCE) == ["0", "1"]


def test_an_undo_brings_everything_back() -> None:
    stage = filled()
    moves(stage)
    undo = undoes(stage, "M1")
    assert (undo.processed, undo.gone, undo.in_use) == (4, 0, 0)
    assert texts(stage, TARGET) == []
    assert texts(stage, SOURCE) == ["0", "1", "2", "3"]


def test_an_undo_leaves_the_other_messages_of_the_target() -> None:
    stage = filled()
    stage.peer("other").sends(TARGET, "before")
    moves(stage)
    stage.peer("late").sends(TARGET, "after")
    stage.settle()
    assert undoes(stage, "M1").processed == 4
    assert texts(stage, TARGET) == ["before", "after"]


def test_an_undo_counts_what_was_consumed_and_what_is_at_consumers() -> None:
    stage = filled(5)
    moves(stage)
    consumer = stage.peer("c").consumes(TARGET, prefetch=3)
    stage.settle()
    assert consumer.takes() == ["0", "1", "2"]
    consumer.acknowledges("1", count=2)
    stage.view(TARGET)
    consumer.leaves()
    consumer = stage.peer("c2").consumes(TARGET, prefetch=1)
    stage.settle()
    undo = undoes(stage, "M1")
    assert (undo.processed, undo.gone, undo.in_use) == (2, 2, 1)
    assert stage.broker.moves.undoable(stage.broker.moves.find("M1")) == 1
    consumer.leaves()
    again = undoes(stage, "M1")
    assert (again.processed, again.gone, again.in_use) == (1, 2, 0)


def test_an_undone_copy_removes_the_copies_alone() -> None:
    stage = filled(3)
    stage.peer("other").sends(TARGET, "other")
    move = moves(stage, COPY)
    assert (move.processed, stage.view(SOURCE).pending, stage.view(TARGET).pending) == (3, 3, 4)
    assert undoes(stage, "M1").processed == 3
    assert texts(stage, TARGET) == ["other"]
    assert texts(stage, SOURCE) == ["0", "1", "2"]


def test_an_undone_retry_makes_dead_letters_with_their_cause_again() -> None:
    stage = dead()
    cause = "dlqDeliveryFailureCause"
    before = [properties_of(message)[cause] for message in stage.store.kept(destination(DLQ))]
    assert moves(stage, RETRY).processed == 3
    assert stage.view(SOURCE).pending == 3
    assert undoes(stage, "M1").processed == 3
    stage.settle()
    assert [properties_of(message)[cause] for message in stage.store.kept(destination(DLQ))] == before
    assert moves(stage, RETRY).processed == 3
    assert texts(stage, SOURCE) == ["0", "1", "2"]


def test_messages_outside_of_the_store_are_brought_back_too() -> None:
    stage = filled(persistent=False)
    moves(stage)
    stage.peer("other").sends(TARGET, "other", persistent=False)
    assert undoes(stage, "M1").processed == 4
    assert texts(stage, SOURCE) == ["0", "1", "2", "3"]
    assert texts(stage, TARGET) == ["other"]


def test_a_move_to_a_topic_is_not_undone() -> None:
    stage = filled()
    stage.broker.moves.start(MoveOrder(MOVE, [destination(SOURCE)], destination("topic://T")), stage.now)
    stage.settle()
    with pytest.raises(IllegalStateError, match="sent messages to a topic: its subscribers have them"):
        stage.broker.moves.undo("M1", "", stage.now)


@pytest.mark.large
def test_a_move_of_messages_on_the_disk_is_undone() -> None:
    count = MAX_RESIDENT_MESSAGES + 250
    stage = Stage()
    stage.peer("p").sends(SOURCE, *(str(number) for number in range(count)))
    stage.settle()
    assert moves(stage).undoable == count
    assert len(stage.broker.moves.find("M1").runs) == 1
    assert undoes(stage, "M1").processed == count
    assert stage.view(SOURCE).pending == count


def test_a_rate_spreads_a_move_over_time() -> None:
    stage = filled(25)
    move = starts(stage, rate=10)
    for second in range(3):
        goes_on(stage)
        assert abs(move.processed - 10 * (second + 1)) <= 1 or move.processed == 25
    goes_on(stage)
    assert move.state == DONE
    assert texts(stage, TARGET) == [str(number) for number in range(25)]


def test_the_time_left_follows_from_the_rate() -> None:
    stage = filled(40)
    move = starts(stage, rate=10)
    goes_on(stage, 2.0)
    assert move.is_running
    assert move.seconds_left(stage.now.monotonic) in (1, 2, 3)


def test_a_slice_of_a_move_waits_for_the_disk() -> None:
    stage = filled(3 * SLICE_MESSAGES)
    move = starts(stage)
    for _ in range(5):
        stage.runs()
        stage.waits(0.01)
    assert move.processed == SLICE_MESSAGES
    stage.syncs()
    stage.waits(0.01)
    stage.waits(0.01)
    assert move.processed == 2 * SLICE_MESSAGES


def test_the_next_slice_begins_when_the_disk_has_the_last_one_and_not_some_time_later() -> None:
    stage = filled(5 * SLICE_MESSAGES)
    move = starts(stage)
    stage.runs()
    for slices in (2, 3, 4):
        stage.syncs()
        stage.runs()
        assert move.processed == slices * SLICE_MESSAGES


def test_one_read_of_the_disk_serves_several_slices() -> None:
    stage = filled(3 * SLICE_MESSAGES).restarts()
    move = starts(stage)
    stage.runs()
    assert [len(read.sequences) for read in stage.store.reads] == [3 * SLICE_MESSAGES]
    stage.reads()
    for slices in (1, 2, 3):
        stage.runs()
        assert (move.processed, stage.store.reads) == (slices * SLICE_MESSAGES, [])
        stage.syncs()
    assert texts(stage, TARGET) == [str(number) for number in range(3 * SLICE_MESSAGES)]


def test_a_move_that_waits_for_a_sync_ends_when_it_is_cancelled() -> None:
    stage = filled(3 * SLICE_MESSAGES)
    move = starts(stage)
    stage.runs()
    stage.broker.moves.cancel(move.id, stage.now)
    stage.runs()
    assert (move.state, move.processed) == (CANCELLED, SLICE_MESSAGES)
    stage.settle()
    assert stage.view(SOURCE).pending == 2 * SLICE_MESSAGES


def test_a_move_waits_for_the_disk_and_says_so() -> None:
    stage = filled()
    stage.has_room(False)
    move = starts(stage)
    stage.runs()
    assert (move.state, move.pace and move.pace.waits_for) == (RUNNING, "room on the disk")
    assert stage.view(SOURCE).pending == 4
    stage.has_room(True)
    goes_on(stage)
    assert (move.state, move.processed) == (DONE, 4)


def test_a_move_waits_for_the_memory_of_the_target() -> None:
    limit = PolicyEntry(destination(TARGET), memory_limit_bytes=1)
    stage = filled(4, limit, persistent=False)
    stage.peer("first").sends(TARGET, "first", persistent=False)
    move = starts(stage)
    stage.runs()
    assert (move.processed, move.pace and move.pace.waits_for) == (0, f"memory of {TARGET}")
    consumer = stage.peer("c").consumes(TARGET)
    stage.settle()
    consumer.acknowledges("first")
    goes_on(stage)
    assert move.processed == 1
    assert consumer.takes()[-1] == "0"


def test_a_move_that_follows_waits_for_the_consumers() -> None:
    stage = filled(1_500)
    consumer = stage.peer("c").consumes(TARGET, prefetch=100)
    move = starts(stage, follows=1)
    stage.settle()
    assert (move.processed, move.pace and move.pace.waits_for) == (1_100, f"consumers of {TARGET}")
    consumer.acknowledges("99", count=100)
    goes_on(stage)
    assert move.processed == 1_200
    consumer.leaves()
    goes_on(stage)
    assert move.state == DONE


def test_a_cancelled_move_is_resumed_without_later_messages() -> None:
    stage = filled(25)
    move = starts(stage, rate=10)
    stage.runs()
    stage.broker.moves.cancel("M1", stage.now)
    goes_on(stage)
    assert (move.state, move.processed) == (CANCELLED, 1)
    stage.peer("late").sends(SOURCE, "late")
    stage.broker.moves.resume("M1", stage.now)
    goes_on(stage, 3.0)
    assert (move.state, move.processed) == (DONE, 25)
    assert texts(stage, SOURCE) == ["late"]


def test_a_limit_holds_over_a_continuation() -> None:
    stage = filled(25)
    move = starts(stage, rate=10, limit=5)
    stage.runs()
    again = stage.restarts(position=stage.store.position())
    goes_on(again)
    (move,) = again.broker.moves.all()
    assert (move.state, move.processed) == (DONE, 5)


def test_a_dry_run_counts_and_shows_a_sample() -> None:
    stage = filled()

    class Observer:
        result = (0, 0)

        def may_go_on(self, count: int) -> bool:
            return True

        def on_finished(self, count: int, passed: int) -> None:
            self.result = (count, passed)

    observer = Observer()
    position = stage.store.position()
    preview = stage.broker.moves.preview(order(selector="n > 0"), 0, observer, stage.now)
    stage.settle()
    assert observer.result == (3, 0)
    assert [(sampled.target, sampled.message_id) for sampled in preview.sample] == [
        (TARGET, f"ID:p:1:1:1:{number}") for number in (2, 3, 4)
    ]
    assert (stage.store.position(), stage.has(TARGET), stage.view(SOURCE).pending) == (position, False, 4)


@pytest.mark.parametrize("verb", [MOVE, COPY])
def test_a_broken_order_is_refused_and_leaves_nothing(verb: str) -> None:
    stage = filled()
    position = stage.store.position()
    with pytest.raises(InvalidSelectorError):
        starts(stage, verb, "n >")
    missing = MoveOrder(verb, [destination("queue://NONE")], destination(TARGET))
    with pytest.raises(InvalidDestinationError, match="there is no queue NONE"):
        stage.broker.moves.start(missing, stage.now)
    assert (stage.broker.moves.all(), stage.store.position()) == ([], position)


def test_ended_moves_are_forgotten_after_a_day_and_at_the_limit() -> None:
    stage = filled()
    for _ in range(MAX_MOVES + 5):
        moves(stage, limit=0)
    assert next(move.number for move in stage.broker.moves.all()) == 6
    again = stage.restarts(position=stage.store.position())
    assert [move.number for move in again.broker.moves.all()] == list(range(6, MAX_MOVES + 6))
    again.environment.advance(KEPT_MS / 1000 + 1)
    again.runs()
    assert again.broker.moves.all() == []
    assert again.restarts(position=again.store.position()).broker.moves.all() == []


@pytest.mark.large
def test_the_oldest_moves_make_room_for_the_places_of_later_ones() -> None:
    stage = filled()
    rows = [[0, 0, 0, 2 * number, 1, 0] for number in range(1, MAX_RUNS + 1)]
    names = [[0, [QUEUE, "TARGET"]]]
    places = json.dumps({"names": names, "causes": [[0, ""]], "runs": rows}).encode()
    for _ in range(MAX_ALL_RUNS // MAX_RUNS + 1):
        moves(stage, limit=0).runs.restore([places])
    assert [move.number for move in stage.broker.moves.all()] == [1, 2, 3, 4, 5]
    moves(stage)
    assert [move.number for move in stage.broker.moves.all()] == [2, 3, 4, 5, 6]


def test_there_is_a_limit_of_running_moves() -> None:
    stage = filled(50)
    for _ in range(MAX_RUNNING):
        starts(stage, rate=1)
    with pytest.raises(IllegalStateError, match="10 moves are running: wait for one, or cancel one"):
        starts(stage)


@pytest.mark.parametrize(
    ("action", "why"), [("undo", "is running: cancel it before"), ("resume", "is running: only a cancelled")]
)
def test_a_running_move_is_neither_undone_nor_resumed(action: str, why: str) -> None:
    stage = filled(50)
    starts(stage, rate=1)
    stage.runs()
    arguments = ("M1", "ada", stage.now) if action == "undo" else ("M1", stage.now)
    with pytest.raises(IllegalStateError, match=why):
        getattr(stage.broker.moves, action)(*arguments)


@pytest.mark.parametrize("move_id", ["", "M", "M2", "1", "Mx", "M99999999999999999999"])
def test_an_unknown_id_is_refused(move_id: str) -> None:
    stage = filled()
    moves(stage)
    with pytest.raises(IllegalStateError, match=f"there is no task {move_id}"):
        stage.broker.moves.undo(move_id, "ada", stage.now)


def test_an_undo_keeps_the_move_that_it_undoes_when_the_oldest_makes_room() -> None:
    stage = filled()
    moves(stage)
    for _ in range(MAX_MOVES - 1):
        moves(stage)
    undo = undoes(stage, "M1")
    assert (undo.processed, undo.gone) == (4, 0)
    assert texts(stage, SOURCE) == ["0", "1", "2", "3"]


def test_a_move_that_ended_a_day_ago_is_not_undone() -> None:
    stage = filled()
    moves(stage)
    stage.waits(KEPT_MS / 1000)
    with pytest.raises(IllegalStateError, match="there is no task M1"):
        stage.broker.moves.undo("M1", "ada", stage.now)


def test_an_undo_whose_move_is_forgotten_is_not_resumed() -> None:
    stage = filled()
    moves(stage)
    stage.broker.moves.undo("M1", "ada", stage.now)
    stage.broker.moves.cancel("M2", stage.now)
    goes_on(stage, 0.2)
    for _ in range(MAX_MOVES - 1):
        moves(stage)
    assert next(iter(stage.broker.moves.all())).id == "M2"
    with pytest.raises(IllegalStateError, match="M1, which was being undone, is forgotten"):
        stage.broker.moves.resume("M2", stage.now)


def test_a_refused_record_of_an_order_leaves_no_move() -> None:
    stage = DiskStage()
    stage.peer("p").sends(SOURCE, "1")
    long = MoveOrder(MOVE, [destination(SOURCE)], destination(TARGET), user="x" * MAX_VALUE_BYTES)
    with pytest.raises(ResourceAllocationError, match="metadata record"):
        stage.broker.moves.start(long, stage.now)
    assert stage.broker.moves.all() == []


def test_a_copy_to_a_topic_goes_on_behind_what_was_copied() -> None:
    stage = filled(6)
    listener = stage.peer("c").consumes("topic://T")
    copy = MoveOrder(COPY, [destination(SOURCE)], destination("topic://T"), None, NO_LIMIT, 20)
    move = stage.broker.moves.start(copy, stage.now)
    stage.settle()
    stage.broker.moves.cancel(move.id, stage.now)
    goes_on(stage, 0.2)
    assert move.state == CANCELLED and 0 < move.processed < 6
    stage.broker.moves.resume(move.id, stage.now)
    ends(stage, move)
    assert listener.takes() == ["0", "1", "2", "3", "4", "5"]


def test_a_continued_copy_of_messages_outside_of_the_store_doubles_none() -> None:
    stage = filled(6, persistent=False)
    move = starts(stage, COPY, rate=20)
    stage.settle()
    stage.broker.moves.cancel(move.id, stage.now)
    goes_on(stage, 0.2)
    assert move.state == CANCELLED and 0 < move.processed < 6
    stage.broker.moves.resume(move.id, stage.now)
    ends(stage, move)
    assert texts(stage, TARGET) == ["0", "1", "2", "3", "4", "5"]


def test_a_copy_with_more_places_than_it_keeps_is_not_resumed() -> None:
    stage = filled()
    move = starts(stage, COPY, rate=20)
    stage.settle()
    stage.broker.moves.cancel(move.id, stage.now)
    goes_on(stage, 0.2)
    move.runs.untraced = 1
    with pytest.raises(IllegalStateError, match="would copy them again"):
        stage.broker.moves.resume(move.id, stage.now)


def test_a_dry_run_of_a_retry_makes_no_queue() -> None:
    stage = dead()
    stage.broker.administration.remove_destination(destination(SOURCE), stage.now)

    class Observer:
        result = (0, 0)

        def may_go_on(self, count: int) -> bool:
            return True

        def on_finished(self, count: int, passed: int) -> None:
            self.result = (count, passed)

    observer = Observer()
    stage.broker.moves.preview(order(RETRY), 0, observer, stage.now)
    stage.settle()
    assert observer.result == (3, 0)
    assert not stage.has(SOURCE)
