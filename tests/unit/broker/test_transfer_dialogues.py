"""An operator moves and copies messages of a queue, in memory and on the disk."""

from __future__ import annotations

import pytest

from spanwire.broker.admin.selective_walk import PAGE_MESSAGES, SLICE_BYTES
from spanwire.broker.queue.page import SLICE_MESSAGES
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.model.errors import InvalidDestinationError, JmsError
from tests.support.dialogue.broker_dialogue import Stage, destination

SOURCE, TARGET = "queue://SOURCE", "queue://TARGET"
ALL = 1 << 60


class Observer:
    """Duck-typed to `spanwire.broker.admin.selective_walk.OperationObserver`."""

    def __init__(self) -> None:
        self.results: list[tuple[int, int]] = []
        self.most = ALL  # messages after which the operator ends it

    def may_go_on(self, count: int) -> bool:
        return count < self.most

    def on_finished(self, count: int, passed: int) -> None:
        self.results.append((count, passed))


def transfers(
    stage: Stage, keeps: bool, selector: str | None = None, target: str = TARGET, limit: int = ALL
) -> Observer:
    observer = Observer()
    stage.broker.operations.transfer(
        destination(SOURCE), destination(target), keeps, selector, observer, limit, stage.now
    )
    while not observer.results:
        stage.settle()
    return observer


def texts(stage: Stage, queue: str) -> list[str]:
    """What a consumer of a queue gets."""
    listener = stage.peer(f"of {queue}").consumes(queue, prefetch=30_000)
    got: list[str] = []
    while True:
        stage.settle()
        listener.peer.flushes()
        new = listener.takes()
        if not new:
            return got
        got += new


def filled(count: int = 3) -> Stage:
    stage = Stage()
    peer = stage.peer("p")
    for number in range(count):
        peer.sends(SOURCE, f"{number}", properties={"n": number})
    stage.settle()
    return stage


def test_selected_messages_are_moved_in_order() -> None:
    stage = filled(4)
    assert transfers(stage, False, "n > 1").results == [(2, 0)]
    assert (stage.view(SOURCE).pending, stage.view(TARGET).pending) == (2, 2)
    assert texts(stage, TARGET) == ["2", "3"]
    assert texts(stage, SOURCE) == ["0", "1"]


def test_copies_leave_the_queue_as_it_is() -> None:
    stage = filled(4)
    before = stage.view(SOURCE)
    assert transfers(stage, True, limit=3).results == [(3, 0)]
    assert stage.view(SOURCE) == before
    assert texts(stage, TARGET) == ["0", "1", "2"]
    assert texts(stage, SOURCE) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.large
def test_messages_on_the_disk_are_transferred_too(keeps: bool) -> None:
    count = MAX_RESIDENT_MESSAGES + 2 * PAGE_MESSAGES
    stage = Stage()
    stage.peer("p").sends(SOURCE, *(str(number) for number in range(count)))
    stage.settle()
    assert transfers(stage, keeps).results == [(count, 0)]
    assert stage.view(SOURCE).pending == (count if keeps else 0)
    assert texts(stage, TARGET) == [str(number) for number in range(count)]
    assert texts(stage, SOURCE) == ([str(number) for number in range(count)] if keeps else [])


@pytest.mark.parametrize("keeps", [True, False])
def test_a_transfer_survives_a_restart(keeps: bool) -> None:
    stage = filled()
    transfers(stage, keeps)
    stage.settle()
    again = stage.restarts()
    assert texts(again, TARGET) == ["0", "1", "2"]
    assert texts(again, SOURCE) == (["0", "1", "2"] if keeps else [])


def test_a_move_to_a_topic_reaches_consumers_and_durable_subscriptions() -> None:
    stage = filled(2)
    away = stage.peer("away", "app")
    away.consumes("topic://T", durable="kept")
    away.leaves()
    listener = stage.peer("c").consumes("topic://T")
    assert transfers(stage, False, target="topic://T").results == [(2, 0)]
    stage.settle()
    assert listener.takes() == ["0", "1"]
    assert stage.view("topic://T").pending == 2  # for the absent subscriber
    assert stage.view(SOURCE).memory_bytes == 0


@pytest.mark.parametrize("keeps", [True, False])
def test_a_full_disk_keeps_messages_in_their_queue(keeps: bool) -> None:
    stage = filled()
    stage.has_room(False)
    assert transfers(stage, keeps).results == [(0, 3)]
    assert stage.view(SOURCE).pending == 3


@pytest.mark.parametrize(
    "target", [SOURCE, "queue://a.>", "queue://A,queue://B", "temp-queue://x", "topic://ActiveMQ.Advisory.Queue"]
)
def test_a_target_that_is_no_other_single_destination_is_refused(target: str) -> None:
    stage = filled()
    with pytest.raises(JmsError):
        transfers(stage, False, target=target)
    assert stage.view(SOURCE).pending == 3


def test_a_transfer_from_a_queue_that_is_not_there_creates_nothing() -> None:
    stage = Stage()
    with pytest.raises(InvalidDestinationError, match="there is no queue SOURCE"):
        transfers(stage, False)
    assert not stage.has(TARGET)


def test_large_messages_are_moved_in_several_units() -> None:
    stage = Stage()
    large = "x" * (SLICE_BYTES // 2)
    stage.peer("p").sends(SOURCE, *[large] * 10)
    stage.settle()
    before = stage.store.position()
    assert transfers(stage, False).results == [(10, 0)]
    assert stage.store.position() - before == 1 + 10  # the record of the target, and each message
    assert stage.view(TARGET).pending == 10


def test_an_operation_ends_at_the_slice_after_its_cancel() -> None:
    stage = Stage()
    stage.peer("p").sends(SOURCE, *(str(number) for number in range(5 * SLICE_MESSAGES)))
    stage.settle()
    observer = Observer()
    observer.most = 1
    stage.broker.operations.transfer(destination(SOURCE), destination(TARGET), False, None, observer, ALL, stage.now)
    while not observer.results:
        stage.settle()
    ((count, _),) = observer.results
    assert 0 < count <= SLICE_MESSAGES
    assert (stage.view(SOURCE).pending, stage.view(TARGET).pending) == (5 * SLICE_MESSAGES - count, count)


@pytest.mark.parametrize("kept", range(3))
def test_each_slice_is_one_unit_of_the_store(kept: int) -> None:
    stage = filled(20)
    before = stage.store.position()
    transfers(stage, False, limit=15)
    slices = stage.store.position() - before
    assert slices == 1 + 1  # the record of the target, and all messages
    again = stage.restarts(position=before + kept)
    moved = 15 if kept == slices else 0
    assert texts(again, TARGET) == [str(number) for number in range(moved)]
    assert texts(again, SOURCE) == [str(number) for number in range(moved, 20)]
