"""Many scheduled messages are removed a slice at a time, and none of them is delivered or shown from the request on."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from spanwire.broker.metadata import SCHEDULES
from spanwire.broker.ports import Principal
from spanwire.broker.scheduler.removal_job import MAX_REMOVED
from spanwire.broker.scheduler.schedule import SCHEDULED_MESSAGES, Job, SchedulerSettings
from spanwire.broker.scheduler.scheduler_requests import (
    MAX_BROWSES,
    MAX_COPIES,
    MAX_LOOKED,
    MAX_ORDERED,
    MAX_REMOVALS,
    Browse,
)
from spanwire.model.errors import ResourceAllocationError
from tests.support.dialogue.broker_dialogue import START_MS, Peer, Stage, destination
from tests.support.dialogue.text_format import properties_of
from tests.unit.broker.test_commit_dialogues import fails_with, settles

QUEUE: Final = "queue://Q"
MANAGEMENT: Final = "topic://ActiveMQ.Scheduler.Management"
MANY: Final = 3 * MAX_REMOVED
HOUR: Final = 3600.0
IN_AN_HOUR: Final[dict[str, object]] = {"AMQ_SCHEDULED_DELAY": 3_600_000}


def scheduled(persistent: bool = True, count: int = MANY, settings: SchedulerSettings | None = None) -> Stage:
    """A broker with messages that are due in an hour."""
    stage = Stage(scheduler=SchedulerSettings() if settings is None else settings, persistent=persistent)
    stage.peer("p").sends(QUEUE, *[str(number) for number in range(count)], properties=IN_AN_HOUR)
    stage.settle()
    return stage


def asks(peer: Peer, action: str, reply_to: str | None = None, **properties: object) -> int:
    wanted = {"AMQ_SCHEDULER_ACTION": action, **properties}
    return peer.sends_message(peer.message(MANAGEMENT, "", properties=wanted, reply_to=reply_to))


def left(stage: Stage) -> int:
    """How many scheduled messages the store has."""
    kept = len(stage.store.kept(SCHEDULED_MESSAGES))
    assert len(stage.store.metadata.get(SCHEDULES, {})) == kept, "each message has its record"
    return kept


def comes(stage: Stage, seconds: float = HOUR) -> list[str]:
    """What is delivered within some time from now."""
    listener = stage.peer(f"c{stage.now.wall_ms}").consumes(QUEUE, prefetch=10 * MANY)
    stage.waits(seconds)
    for _ in range(4):
        stage.settle()
        stage.waits(1.0)
    for _ in range(100):
        listener.peer.flushes()
        stage.settle()
    return listener.takes()


def test_many_scheduled_messages_are_removed_in_slices_and_the_answer_follows_the_last() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    before, slices = left(stage), 0
    assert before == MANY
    while before > 0:
        position = stage.store.position()
        stage.runs()
        stage.syncs()
        assert 0 < before - left(stage) <= MAX_REMOVED
        assert stage.store.position() == position + 1, "a slice is one unit of the store"
        before, slices = left(stage), slices + 1
        assert peer.is_answered(token) == (before == 0)
    assert slices == MANY // MAX_REMOVED
    assert stage.broker.next_timeout() != 0.0
    assert comes(stage) == []


def test_the_answer_to_a_removal_waits_for_the_store() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    while left(stage) > 0:
        stage.runs()
    stage.runs()
    assert not peer.is_answered(token)
    stage.syncs()
    assert peer.is_answered(token)


def test_without_a_store_many_are_removed_in_slices_too() -> None:
    stage = scheduled(persistent=False)
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    for _ in range(MANY // MAX_REMOVED):
        assert not peer.is_answered(token)
        stage.runs()
    assert peer.is_answered(token)
    assert comes(stage) == []
    assert stage.memory() == 0


@pytest.mark.large
def test_messages_that_are_scheduled_during_a_removal_stay_and_have_room() -> None:
    stage = scheduled(settings=SchedulerSettings(max_jobs=MANY))
    peer = stage.peer("r")
    asks(peer, "REMOVEALL")
    peer.sends(QUEUE, "new", properties=IN_AN_HOUR)
    stage.runs()
    peer.sends(QUEUE, "newer", properties=IN_AN_HOUR)
    settles(stage)
    assert left(stage) == 2
    peer.sends(QUEUE, *["x"] * (MANY - 2), properties=IN_AN_HOUR)
    with pytest.raises(ResourceAllocationError):
        peer.sends(QUEUE, "too much", properties=IN_AN_HOUR)
    assert comes(stage)[:2] == ["new", "newer"]


@pytest.mark.large
def test_room_during_removals_has_an_end() -> None:
    stage = scheduled(settings=SchedulerSettings(max_jobs=MANY))
    peer = stage.peer("r")
    asks(peer, "REMOVEALL")
    peer.sends(QUEUE, *["x"] * MANY, properties=IN_AN_HOUR)
    asks(peer, "REMOVEALL")
    with pytest.raises(ResourceAllocationError):
        peer.sends(QUEUE, "y", properties=IN_AN_HOUR)
    settles(stage)
    peer.sends(QUEUE, *["z"] * MANY, properties=IN_AN_HOUR)
    assert left(stage) == MANY


def test_what_is_due_during_its_removal_is_not_delivered() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    series: dict[str, object] = {"AMQ_SCHEDULED_CRON": "* * * * *", "AMQ_SCHEDULED_REPEAT": 3}
    peer.sends(QUEUE, "series", properties=series)
    stage.settle()
    asks(peer, "REMOVEALL")
    listener = stage.peer("c").consumes(QUEUE, prefetch=10 * MANY)
    stage.environment.advance(HOUR)
    settles(stage)
    assert left(stage) == 0
    assert listener.takes() == []


def test_what_is_being_read_for_its_delivery_when_it_is_removed_is_not_delivered() -> None:
    stage = scheduled()
    listener = stage.peer("c").consumes(QUEUE, prefetch=10 * MANY)
    stage.waits(HOUR)
    assert stage.store.reads
    asks(stage.peer("r"), "REMOVEALL")
    settles(stage)
    assert (left(stage), listener.takes()) == (0, [])


def test_a_span_of_time_is_that_of_the_request() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    peer.sends(QUEUE, "later", properties={"AMQ_SCHEDULED_DELAY": 7_200_000})
    hour = START_MS + 3_600_000
    token = asks(peer, "REMOVEALL", ACTION_START_TIME=str(hour - 1_000), ACTION_END_TIME=str(hour + 1_000))
    peer.sends(QUEUE, "new", properties=IN_AN_HOUR)
    settles(stage)
    assert peer.is_answered(token)
    assert left(stage) == 2
    assert comes(stage) == ["new"]


def test_what_is_being_removed_is_not_shown_and_can_be_removed_by_another_request() -> None:
    stage = scheduled()
    peer, other = stage.peer("r"), stage.peer("o")
    answers = other.temporary()
    listener = other.consumes(answers, prefetch=10 * MANY)
    other.sends(QUEUE, "last", properties={"AMQ_SCHEDULED_DELAY": 7_200_000})
    asks(other, "BROWSE", answers, ACTION_START_TIME=START_MS + 7_000_000, ACTION_END_TIME=START_MS + 8_000_000)
    settles(stage)
    last = str(properties_of(listener.deliveries[-1].message)["scheduledJobId"])
    assert listener.takes() == ["last"]
    first = asks(peer, "REMOVEALL")
    for _ in range(MAX_BROWSES + 1):
        asks(other, "BROWSE", answers)
    one = asks(other, "REMOVE", scheduledJobId=last)
    assert left(stage) == MANY
    second = asks(other, "REMOVEALL")
    stage.syncs()
    assert other.is_answered(one)
    assert not other.is_answered(second), "what the answer promises is not done yet"
    settles(stage)
    assert (peer.is_answered(first), other.is_answered(second)) == (True, True)
    assert (left(stage), listener.takes()) == (0, [])


@pytest.mark.parametrize("persistent", [True, False])
def test_a_browse_that_began_before_a_removal_goes_on_without_what_is_removed(persistent: bool) -> None:
    stage = scheduled(persistent)
    peer = stage.peer("r")
    answers = peer.temporary()
    listener = peer.consumes(answers, prefetch=10 * MANY)
    asks(peer, "BROWSE", answers)
    stage.runs()
    asks(peer, "REMOVEALL")
    stage.reads()
    settles(stage)
    listener.peer.flushes()
    assert len(listener.takes()) == MAX_COPIES


def test_only_so_many_long_removals_are_under_way() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    tokens = [asks(peer, "REMOVEALL") for _ in range(MAX_REMOVALS)]
    with pytest.raises(ResourceAllocationError, match="try again later"):
        asks(peer, "REMOVEALL")
    position = stage.store.position()
    settles(stage)
    assert stage.store.position() == position + MANY // MAX_REMOVED, "each message is removed once"
    assert all(peer.is_answered(token) for token in tokens)
    stage.peer("q").sends(QUEUE, *["again"] * MANY, properties=IN_AN_HOUR)
    token = asks(peer, "REMOVEALL")
    settles(stage)
    assert (peer.is_answered(token), left(stage)) == (True, 0)


def test_a_removal_goes_on_when_its_connection_is_lost() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    stage.runs()
    peer.leaves()
    settles(stage)
    assert left(stage) == 0
    assert token not in peer.answers


def test_a_removal_in_a_transaction_is_cut_too() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    peer.begins(1)
    peer.sends(MANAGEMENT, "", transaction=1, properties={"AMQ_SCHEDULER_ACTION": "REMOVEALL"})
    stage.runs()
    assert left(stage) == MANY - MAX_REMOVED
    settles(stage)
    assert left(stage) == 0
    assert peer.reports == []


def test_after_a_crash_what_was_not_removed_is_scheduled() -> None:
    stage = scheduled()
    token = asks(peer := stage.peer("r"), "REMOVEALL")
    stage.runs()
    stage.syncs()
    stage.runs()
    assert not peer.is_answered(token)
    again = stage.restarts(scheduler=SchedulerSettings())
    assert left(again) == MANY - MAX_REMOVED
    assert len(comes(again)) == MANY - MAX_REMOVED


@pytest.mark.large
@pytest.mark.parametrize("slices", [0, 1])
def test_a_removal_that_the_store_refuses_keeps_the_rest_and_can_be_repeated(slices: int) -> None:
    stage = scheduled(settings=SchedulerSettings(max_jobs=MANY))
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    for _ in range(slices):
        stage.runs()
    stage.store.refused = ResourceAllocationError("no")
    settles(stage)
    stage.store.refused = None
    assert fails_with(peer, token) == "no"
    kept = MANY - slices * MAX_REMOVED
    assert left(stage) == kept
    if slices:
        peer.sends(QUEUE, *["new"] * MAX_REMOVED, properties=IN_AN_HOUR)
    with pytest.raises(ResourceAllocationError):
        peer.sends(QUEUE, "too much", properties=IN_AN_HOUR)
    if slices:
        assert len(comes(stage)) == MANY
        return
    again = asks(peer, "REMOVEALL")
    settles(stage)
    assert (peer.is_answered(again), left(stage)) == (True, 0)


@pytest.mark.large
def test_what_was_due_during_a_refused_removal_is_delivered_after_it() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    asks(peer, "REMOVEALL")
    stage.store.refused = ResourceAllocationError("no")
    stage.waits(HOUR)
    stage.reads()
    settles(stage)
    stage.store.refused = None
    assert sorted(comes(stage, 120.0), key=int) == [str(number) for number in range(MANY)]


def test_a_removal_needs_no_room_on_the_disk() -> None:
    stage = scheduled()
    peer = stage.peer("r")
    stage.has_room(False)
    token = asks(peer, "REMOVEALL")
    settles(stage)
    assert (peer.is_answered(token), left(stage)) == (True, 0)


@pytest.mark.parametrize("waits", [True, False])
def test_a_stop_ends_a_removal(waits: bool) -> None:
    stage = scheduled()
    peer = stage.peer("r")
    token = asks(peer, "REMOVEALL")
    stage.runs()
    stage.syncs()
    stage.broker.begin_stop(stage.now)
    assert stage.broker.awaits_disk()
    while waits and stage.broker.awaits_disk():
        stage.runs()
        stage.syncs()
    assert peer.is_answered(token) == waits
    stage.broker.stop(stage.now)
    assert left(stage) == 0


def browse_of(count: int) -> Browse:
    jobs = [
        Job(number, f"ID:{number}", Principal("u"), 1, count - number, "", 0, 0, 0, False) for number in range(count)
    ]
    return Browse(Stage().peer("p").state, destination(QUEUE), jobs)


def test_a_browse_passes_over_so_many_messages_that_went_meanwhile_in_one_turn() -> None:
    browse = browse_of(2 * MAX_LOOKED + 1)
    assert browse.prepare()
    left_after = []
    while browse.left:
        assert browse.take({}) == []
        left_after.append(browse.left)
    assert left_after == [MAX_LOOKED + 1, 1, 0]


@pytest.mark.large
def test_many_messages_of_a_browse_are_put_in_order_in_slices() -> None:
    count = 2 * MAX_ORDERED + 50
    browse = browse_of(count)
    random = Random(1)
    random.shuffle(browse.chosen)
    jobs = {job.number: job for job in browse.chosen}
    assert [browse.prepare() for _ in range(4)] == [False, False, True, True]
    found: list[int] = []
    while browse.left:
        taken = browse.take(jobs)
        assert len(taken) <= MAX_COPIES
        found.extend([job.number for job in taken])
    assert found == list(range(count - 1, -1, -1))
