"""A broker that ends in the middle of a move goes on with it: at every write of the store, nothing lost or doubled."""

from __future__ import annotations

import pytest

from spanwire.broker.moves.move import DONE, Move
from spanwire.broker.moves.move_order import COPY, MOVE, NO_LIMIT, RETRY, MoveOrder
from spanwire.broker.moves.moved_runs import CHUNK_RUNS
from spanwire.broker.moves.moves import KEPT_MS
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import SUBSCRIPTION, Destination
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import text_of

SOURCE, OTHER, TARGET, DLQ = "queue://SOURCE", "queue://OTHER", "queue://TARGET", "queue://ActiveMQ.DLQ"
COUNT = 12
RATE = 30  # three messages a slice


def orders(verb: str) -> MoveOrder:
    if verb == RETRY:
        return MoveOrder(RETRY, [destination(DLQ)], None, None, NO_LIMIT, RATE)
    return MoveOrder(verb, [destination(SOURCE), destination(OTHER)], destination(TARGET), None, NO_LIMIT, RATE)


def prepared(verb: str) -> Stage:
    stage = Stage()
    peer = stage.peer("p")
    for number in range(COUNT):
        peer.sends(SOURCE if number % 2 else OTHER, f"{number:02}")
    stage.settle()
    if verb == RETRY:
        for queue in (SOURCE, OTHER):
            consumer = stage.peer(f"of {queue}").consumes(queue)
            for text in consumer.takes():
                consumer.acknowledges(text, ack_type=POISON_ACK, count=1)
            consumer.peer.leaves()
        stage.settle()
    return stage


def goes_on(stage: Stage) -> None:
    for _ in range(COUNT):
        stage.settle()
        stage.waits(0.1)
    stage.settle()


def kept(stage: Stage, queue: str) -> list[str]:
    """What the store has of a queue, as texts."""
    return sorted(text_of(message) for message in stage.store.kept(destination(queue)))


EVERYTHING = [f"{number:02}" for number in range(COUNT)]
ODD, EVEN = EVERYTHING[1::2], EVERYTHING[::2]
# what the queues have before and after, in the order SOURCE, OTHER, TARGET, DLQ
BEFORE: dict[str, tuple[list[str], ...]] = {
    MOVE: (ODD, EVEN, [], []),
    COPY: (ODD, EVEN, [], []),
    RETRY: ([], [], [], EVERYTHING),
}
AFTER: dict[str, tuple[list[str], ...]] = {
    MOVE: ([], [], EVERYTHING, []),
    COPY: (ODD, EVEN, EVERYTHING, []),
    RETRY: (ODD, EVEN, [], []),
}


def state(stage: Stage) -> tuple[list[str], ...]:
    return tuple(kept(stage, queue) for queue in (SOURCE, OTHER, TARGET, DLQ))


def positions(stage: Stage, before: int) -> range:
    """Every write of the store since ``before``."""
    assert stage.store.position() > before + 4
    return range(before, stage.store.position() + 1)


def only(stage: Stage, number: int) -> Move:
    return next(move for move in stage.broker.moves.all() if move.number == number)


@pytest.mark.parametrize("verb", [MOVE, COPY, RETRY])
def test_a_crash_at_any_write_of_a_move_loses_and_doubles_nothing(verb: str) -> None:
    stage = prepared(verb)
    before = stage.store.position()
    stage.broker.moves.start(orders(verb), stage.now)
    goes_on(stage)
    assert state(stage) == AFTER[verb]
    for position in positions(stage, before):
        again = stage.restarts(position=position)
        found = state(again)
        moves = again.broker.moves.all()
        if verb != COPY:
            assert sorted(text for texts in found for text in texts) == EVERYTHING
        goes_on(again)
        assert [move.state for move in moves] == [DONE] * len(moves)
        assert state(again) == (AFTER[verb] if moves else BEFORE[verb])
        assert all(move.processed == COUNT for move in moves)


def test_a_crash_at_any_write_of_a_copy_to_a_topic_doubles_nothing_of_a_durable_subscription() -> None:
    stage = prepared(COPY)
    peer = stage.peer("d", client_id="d")
    peer.consumes("topic://T", durable="s")
    peer.leaves()
    stage.settle()
    before = stage.store.position()
    sources = [destination(SOURCE), destination(OTHER)]
    stage.broker.moves.start(MoveOrder(COPY, sources, destination("topic://T"), None, NO_LIMIT, RATE), stage.now)
    goes_on(stage)
    for position in positions(stage, before):
        again = stage.restarts(position=position)
        goes_on(again)
        copied = sorted(text_of(message) for message in again.store.kept(Destination(SUBSCRIPTION, "1:d:s")))
        assert copied == (EVERYTHING if again.broker.moves.all() else [])


@pytest.mark.parametrize("verb", [MOVE, COPY, RETRY])
def test_a_crash_at_any_write_of_an_undo_loses_and_doubles_nothing(verb: str) -> None:
    stage = prepared(verb)
    stage.broker.moves.start(orders(verb), stage.now)
    goes_on(stage)
    before = stage.store.position()
    stage.broker.moves.undo("M1", "", stage.now)
    goes_on(stage)
    assert state(stage) == BEFORE[verb]
    for position in positions(stage, before):
        again = stage.restarts(position=position)
        undone = len(again.broker.moves.all()) == 2
        goes_on(again)
        assert state(again) == (BEFORE[verb] if undone else AFTER[verb])
        if undone:
            move = only(again, 2)
            assert (move.state, move.processed, move.gone, move.in_use) == (DONE, COUNT, 0, 0)


@pytest.mark.parametrize("verb", [MOVE, COPY, RETRY])
def test_what_was_moved_before_and_after_a_crash_is_undone(verb: str) -> None:
    stage = prepared(verb)
    before = stage.store.position()
    stage.broker.moves.start(orders(verb), stage.now)
    goes_on(stage)
    for position in positions(stage, before):
        again = stage.restarts(position=position)
        goes_on(again)
        if again.broker.moves.all():
            again.broker.moves.undo("M1", "", again.now)
            goes_on(again)
            assert only(again, 2).processed == COUNT
        assert state(again) == BEFORE[verb]


def test_messages_of_others_are_neither_moved_nor_undone() -> None:
    stage = prepared(MOVE)
    peer = stage.peer("others")
    before = stage.store.position()
    stage.broker.moves.start(orders(MOVE), stage.now)
    for number in range(COUNT):
        stage.settle()
        peer.sends(SOURCE, f"late {number}")
        peer.sends(TARGET, f"other {number}")
        stage.waits(0.1)
    stage.settle()
    others = sorted(f"other {number}" for number in range(COUNT))
    late = sorted(f"late {number}" for number in range(COUNT))
    assert kept(stage, TARGET) == EVERYTHING + others
    for position in positions(stage, before):
        again = stage.restarts(position=position)
        goes_on(again)
        if again.broker.moves.all():
            assert not set(kept(again, SOURCE)).difference(late)
            again.broker.moves.undo("M1", "", again.now)
            goes_on(again)
        assert not set(kept(again, TARGET)).difference(others)
        everything = [*kept(again, SOURCE), *kept(again, OTHER)]
        assert [text for text in sorted(everything) if not text.startswith("late")] == EVERYTHING


def test_a_crash_at_any_write_of_a_forgotten_move_leaves_a_store_that_opens() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sources = [destination(f"queue://SOURCE.{number}") for number in range(CHUNK_RUNS + 1)]
    for source in sources:
        peer.sends(source.qualified_name, "a")
    stage.settle()
    stage.broker.moves.start(MoveOrder(MOVE, sources, destination(TARGET)), stage.now)
    for _ in range(len(sources)):
        goes_on(stage)
    assert [move.runs.chunk_count() for move in stage.broker.moves.all()] == [2]
    before = stage.store.position()
    stage.waits(KEPT_MS / 1000)
    assert stage.broker.moves.all() == []
    for position in positions(stage, before - 1):
        assert len(stage.restarts(position=position).broker.moves.all()) <= 1
