"""Scheduled delivery: when messages come, how often, what survives a crash (ActiveMQ, "Delay and Schedule Message
Delivery").
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.ports import ADMIN, WRITE
from spanwire.broker.routing.unscheduled import LOOKED_AT, MAX_NAMED_PRODUCERS
from spanwire.broker.scheduler import schedule
from spanwire.broker.scheduler.schedule import (
    CRON,
    DELAY,
    JOB_ID,
    MAX_REPEATED_BYTES_PER_SECOND,
    MIN_ENDLESS_PERIOD_MS,
    PERIOD,
    REPEAT,
    SCHEDULED_MESSAGES,
    SchedulerSettings,
)
from spanwire.broker.scheduler.scheduler import MAX_DELIVERIES, REFUSED_MS
from spanwire.broker.scheduler.scheduler_requests import CHOSEN_PER_STEP, LOOKED_PER_STEP
from spanwire.model.errors import AuthorizationError, MessageFormatError, ResourceAllocationError
from spanwire.model.message_view import LONG_VALUE, NULL_VALUE, STRING_VALUE
from tests.support.dialogue.broker_dialogue import START_MS, Listener, Peer, Stage, destination
from tests.support.dialogue.text_format import properties_of
from tests.support.recording_authorizer import RecordingAuthorizer

ON: Final = SchedulerSettings()
QUEUE: Final = "queue://Q"
MANAGEMENT: Final = "topic://ActiveMQ.Scheduler.Management"
DAY: Final = 24 * 3600.0


def played(persistent: bool = True) -> Stage:
    return Stage(scheduler=ON, persistent=persistent)


def delayed(peer: Peer, text: str, delay_ms: int, **more: object) -> int:
    return peer.sends(QUEUE, text, properties={"AMQ_SCHEDULED_DELAY": delay_ms, **more})


def passes(stage: Stage, seconds: float) -> None:
    """Time passes, and everything that follows from it happens."""
    stage.waits(seconds)
    comes_to_rest(stage)


def comes_to_rest(stage: Stage) -> None:
    """What is due is read and delivered, and that is safe."""
    stage.settle()
    stage.settle()


def listening(stage: Stage, name: str = "c", to: str = QUEUE) -> Listener:
    return stage.peer(name).consumes(to)


def test_a_property_without_a_value_asks_for_nothing() -> None:
    for name in (DELAY, PERIOD, CRON):
        assert not schedule.asks({name: (NULL_VALUE, None)})
        assert schedule.asks({name: (LONG_VALUE, 0), JOB_ID: (NULL_VALUE, None)})
        assert not schedule.asks({name: (LONG_VALUE, 0), JOB_ID: (STRING_VALUE, "a")})


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_comes_after_its_delay_and_not_before(persistent: bool) -> None:
    stage = played(persistent=persistent)
    listener = listening(stage)
    delayed(stage.peer("p"), "later", 5_000)
    stage.settle()
    passes(stage, 4.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.takes() == ["later"]
    passes(stage, DAY)
    assert listener.takes() == []
    listener.acknowledges("later")
    stage.settle()
    assert stage.memory() == 0
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.store.metadata.get(3, {}) == {}


def test_without_scheduler_support_the_properties_mean_nothing() -> None:
    stage = Stage()
    listener = listening(stage)
    delayed(stage.peer("p"), "now", 5_000)
    assert listener.takes() == ["now"]
    assert properties_of(listener.deliveries[0].message) == {"AMQ_SCHEDULED_DELAY": 5_000}


def test_what_leaves_has_the_job_and_no_schedule_and_keeps_its_id() -> None:
    stage = played()
    listener = listening(stage)
    sender = stage.peer("p")
    delayed(sender, "later", 1_000, colour="red")
    stage.settle()
    passes(stage, 1)
    message = listener.takes_deliveries()[0].message
    properties = properties_of(message)
    assert set(properties) == {"colour", "scheduledJobId"}
    assert message.message_id.producer_id.connection_id == sender.connection_id


def test_a_message_that_was_scheduled_by_another_broker_is_not_scheduled_again() -> None:
    stage = played()
    listener = listening(stage)
    delayed(stage.peer("p"), "now", 5_000, scheduledJobId="ID:other:1")
    assert listener.takes() == ["now"]


def test_the_text_of_a_message_schedules_nothing() -> None:
    stage = played()
    listener = listening(stage)
    stage.peer("p").sends(QUEUE, "AMQ_SCHEDULED_DELAY", properties={"AMQ_SCHEDULED_REPEAT": 3})
    assert listener.takes() == ["AMQ_SCHEDULED_DELAY"]


def test_a_large_message_is_scheduled_as_a_small_one_is() -> None:
    stage = played()
    listener = listening(stage)
    sender = stage.peer("p")
    delayed(sender, "x" * 100_000, 1_000)
    sender.sends(QUEUE, "AMQ_SCHEDULED" * 10_000)
    comes_to_rest(stage)
    assert [text[:1] for text in listener.takes()] == ["A"]
    passes(stage, 1)
    assert [text[:1] for text in listener.takes()] == ["x"]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_message_comes_once_and_then_as_often_as_it_repeats_each_with_an_id_of_its_own(persistent: bool) -> None:
    stage = played(persistent=persistent)
    listener = listening(stage)
    delayed(stage.peer("p"), "again", 1_000, AMQ_SCHEDULED_PERIOD=10_000, AMQ_SCHEDULED_REPEAT=2)
    stage.settle()
    came = []
    for second in range(60):
        passes(stage, 1)
        came.extend([second + 1 for _ in listener.takes()])
    assert came == [1, 11, 21]
    assert len({str(delivery.message.message_id) for delivery in listener.deliveries}) == 3
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_a_period_alone_is_a_delay_and_strings_are_numbers() -> None:
    stage = played()
    listener = listening(stage)
    sender = stage.peer("p")
    sender.sends(QUEUE, "a", properties={"AMQ_SCHEDULED_PERIOD": "2000"})
    stage.settle()
    passes(stage, 1.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.takes() == ["a"]


def test_a_message_that_repeats_for_ever_does_not_drift() -> None:
    stage = played()
    listener = listening(stage)
    delayed(stage.peer("p"), "x", 1_000, AMQ_SCHEDULED_PERIOD=1_000, AMQ_SCHEDULED_REPEAT=-1)
    stage.settle()
    for _ in range(300):
        passes(stage, 0.7)
    assert len(listener.takes()) == 210


def test_a_message_that_repeats_for_ever_comes_ten_times_a_second_at_most() -> None:
    stage = played()
    listener = listening(stage)
    delayed(stage.peer("p"), "x", 1_000, AMQ_SCHEDULED_PERIOD=1, AMQ_SCHEDULED_REPEAT=-1)
    stage.settle()
    for _ in range(3_000):
        passes(stage, 0.001)
    assert 2_000 // MIN_ENDLESS_PERIOD_MS <= len(listener.takes()) <= 2_000 // MIN_ENDLESS_PERIOD_MS + 1


@pytest.mark.parametrize("to", ["queue://Q", "queue://Q,R,S,T"])
def test_a_large_message_repeats_as_often_as_its_share_of_the_disk_allows(to: str) -> None:
    stage = played()
    body = "x" * (MAX_REPEATED_BYTES_PER_SECOND // 100)
    properties: dict[str, object] = {DELAY: 1, PERIOD: 1, REPEAT: 1_000}
    stage.peer("p").sends(to, body, properties=properties)
    stage.settle()
    for _ in range(500):
        passes(stage, 0.002)
    share = 100 if to == QUEUE else 25
    assert 0.8 * share < stage.view(QUEUE).enqueued <= share


def test_scheduled_messages_that_are_due_together_are_delivered_some_at_a_time() -> None:
    stage = played(persistent=False)
    sender = stage.peer("p")
    for number in range(2 * MAX_DELIVERIES + 1):
        delayed(sender, str(number), 1_000)
    stage.environment.advance(1)
    came = []
    while stage.broker.next_timeout() == 0.0:
        stage.runs()
        came.append(stage.view(QUEUE).enqueued)
    assert came[:3] == [MAX_DELIVERIES, 2 * MAX_DELIVERIES, 2 * MAX_DELIVERIES + 1]


def test_a_month_of_a_cron_entry_passes() -> None:
    stage = played()  # it begins on Tuesday, 2023-11-14, 22:13:20 UTC
    listener = listening(stage)
    stage.peer("p").sends(QUEUE, "tick", properties={"AMQ_SCHEDULED_CRON": "30 */6 * * *"})
    stage.settle()
    for _ in range(30 * 24):
        passes(stage, 3600)
    assert len(listener.takes()) == 30 * 4


def test_a_cron_entry_with_repetitions_begins_them_at_each_of_its_times() -> None:
    stage = played()
    listener = listening(stage)
    properties = {"AMQ_SCHEDULED_CRON": "0 * * * *", "AMQ_SCHEDULED_DELAY": 1_000, "AMQ_SCHEDULED_PERIOD": 10_000,
                  "AMQ_SCHEDULED_REPEAT": 2}  # fmt: skip
    stage.peer("p").sends(QUEUE, "x", properties=properties)
    stage.settle()
    for _ in range(2 * 3600 // 10):
        passes(stage, 10)
    assert len(listener.takes()) == 6
    assert len({str(delivery.message.message_id) for delivery in listener.deliveries}) == 6


@pytest.mark.parametrize(
    "properties",
    [
        {"AMQ_SCHEDULED_DELAY": "soon"},
        {"AMQ_SCHEDULED_DELAY": True},
        {"AMQ_SCHEDULED_DELAY": 1 << 62},
        {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_REPEAT": 1_001},
        {"AMQ_SCHEDULED_DELAY": 1, "AMQ_SCHEDULED_REPEAT": -1},
        {"AMQ_SCHEDULED_CRON": "every day"},
        {"AMQ_SCHEDULED_CRON": "0 0 31 2 *"},
    ],
)
@pytest.mark.parametrize("transaction", [0, 1])
def test_what_cannot_be_understood_or_is_too_much_is_refused(properties: dict[str, object], transaction: int) -> None:
    stage = played()
    sender = stage.peer("p")
    if transaction:
        sender.begins(transaction)
    with pytest.raises(MessageFormatError):
        sender.sends(QUEUE, "x", properties=properties, transaction=transaction)
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_what_expires_lives_as_long_after_its_delay_as_it_would_have_before() -> None:
    stage = played()
    stage.peer("p").sends(
        QUEUE, "x", properties={"AMQ_SCHEDULED_DELAY": 60_000}, timestamp_ms=START_MS, expiration_ms=START_MS + 5_000
    )
    stage.settle()
    passes(stage, 60)
    listener = listening(stage)
    stage.settle()
    message = listener.takes_deliveries()[0].message
    assert (message.timestamp_ms, message.expiration_ms) == (START_MS + 60_000, START_MS + 65_000)


def test_a_send_is_answered_when_it_is_safe() -> None:
    stage = played()
    sender = stage.peer("p")
    token = delayed(sender, "x", 1_000)
    assert not sender.is_answered(token)
    stage.syncs()
    assert sender.is_answered(token)


def test_a_message_is_dispatched_when_its_delivery_is_safe() -> None:
    stage = played()
    listener = listening(stage)
    delayed(stage.peer("p"), "x", 1_000)
    stage.settle()
    stage.waits(1)
    stage.reads()
    stage.runs()
    assert listener.takes() == []
    stage.syncs()
    assert listener.takes() == ["x"]


def test_scheduled_messages_of_a_transaction_begin_to_wait_with_its_commit() -> None:
    stage = played()
    listener = listening(stage)
    sender = stage.peer("p")
    sender.begins(1)
    sender.sends(QUEUE, "never", properties={"AMQ_SCHEDULED_DELAY": 1_000}, transaction=1)
    sender.rolls_back(1)
    sender.begins(2)
    sender.sends(QUEUE, "later", properties={"AMQ_SCHEDULED_DELAY": 1_000}, transaction=2)
    sender.sends(QUEUE, "now", transaction=2)
    passes(stage, 10)
    assert listener.takes() == []
    sender.commits(2)
    stage.settle()
    assert listener.takes() == ["now"]
    passes(stage, 1)
    assert listener.takes() == ["later"]
    listener.acknowledges("later")
    stage.settle()
    assert stage.memory() == 0


def test_a_transaction_without_a_store_schedules_too() -> None:
    stage = played(persistent=False)
    listener = listening(stage)
    sender = stage.peer("p")
    sender.begins(1)
    sender.sends(QUEUE, "later", properties={"AMQ_SCHEDULED_DELAY": 1_000}, transaction=1)
    sender.commits(1)
    passes(stage, 1)
    assert listener.takes() == ["later"]


def test_a_property_that_tells_the_delivery_time_is_delivered_as_it_was_sent() -> None:
    stage = played()
    listener = listening(stage)
    delayed(stage.peer("p"), "x", 1_000, JMSDeliveryTime=START_MS + 1_000)
    stage.settle()
    passes(stage, 1)
    (delivery,) = listener.takes_deliveries()
    assert properties_of(delivery.message)["JMSDeliveryTime"] == START_MS + 1_000
    assert "AMQ_SCHEDULED_DELAY" not in properties_of(delivery.message)


def test_messages_to_topics_composites_and_durable_subscribers_are_delivered_later() -> None:
    stage = played()
    plain = listening(stage, "a", "topic://T")
    stage.peer("b", "app").consumes("topic://T", durable="s").leaves()
    queue = listening(stage, "d", "queue://R")
    stage.peer("p").sends("topic://T,queue://R", "x", properties={"AMQ_SCHEDULED_DELAY": 1_000})
    stage.settle()
    passes(stage, 1)
    assert (plain.takes(), queue.takes()) == (["x"], ["x"])
    after = stage.restarts(scheduler=ON)
    again = after.peer("e", "app").consumes("topic://T", durable="s")
    after.settle()
    assert again.takes() == ["x"]


def test_who_may_not_write_may_not_schedule_and_who_may_no_longer_is_not_delivered() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(scheduler=ON, authorizer=authorizer)
    sender = stage.peer("p")
    listener = listening(stage)
    delayed(sender, "x", 1_000)
    stage.settle()
    authorizer.refused.add(("*", WRITE, QUEUE))
    with pytest.raises(AuthorizationError):
        delayed(sender, "y", 1_000)
    passes(stage, 1)
    assert listener.takes() == []
    assert [str(message.destination) for message in stage.store.kept(destination("queue://ActiveMQ.DLQ"))] == [
        "queue://ActiveMQ.DLQ"
    ]
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_a_message_to_a_temporary_queue_that_is_gone_is_a_dead_letter() -> None:
    stage = played()
    owner = stage.peer("o")
    temporary = owner.temporary()
    stage.peer("p").sends(temporary, "x", properties={"AMQ_SCHEDULED_DELAY": 1_000})
    stage.settle()
    owner.leaves()
    passes(stage, 1)
    assert len(stage.store.kept(destination("queue://ActiveMQ.DLQ"))) == 1


def test_a_message_for_which_there_is_no_room_comes_when_there_is() -> None:
    stage = Stage(scheduler=ON, limits=UsageLimits(store_bytes=1_000))
    listener = listening(stage)
    delayed(stage.peer("p"), "x", 1_000)
    stage.settle()
    stage.store.used = 2_000
    stage.broker.room_changed(stage.now)
    passes(stage, 5)
    assert listener.takes() == []
    stage.store.used = 0
    stage.broker.room_changed(stage.now)
    passes(stage, 1)
    assert listener.takes() == ["x"]


def test_a_scheduled_send_waits_for_room_as_others_do() -> None:
    stage = Stage(scheduler=ON, limits=UsageLimits(store_bytes=1_000))
    sender = stage.peer("p")
    stage.store.used = 2_000
    stage.broker.room_changed(stage.now)
    token = delayed(sender, "x", 1_000)
    stage.settle()
    assert not sender.is_answered(token)
    stage.store.used = 0
    stage.broker.room_changed(stage.now)
    stage.settle()
    assert sender.is_answered(token)
    listener = listening(stage)
    passes(stage, 1)
    assert listener.takes() == ["x"]


@pytest.mark.parametrize("transaction", [0, 1])
def test_no_more_messages_wait_for_their_time_than_the_broker_may_hold(transaction: int) -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=2))
    sender = stage.peer("p")
    for text in ("a", "b"):
        delayed(sender, text, 1_000)
    if transaction:
        sender.begins(transaction)
    with pytest.raises(ResourceAllocationError, match="holds 2 scheduled messages"):
        sender.sends(QUEUE, "c", properties={"AMQ_SCHEDULED_DELAY": 1_000}, transaction=transaction)
    comes_to_rest(stage)
    passes(stage, 1)
    delayed(stage.peer("q"), "d", 1_000)


def test_a_transaction_that_would_be_too_much_is_rolled_back_at_its_commit() -> None:
    stage = Stage(scheduler=SchedulerSettings(max_jobs=2))
    sender = stage.peer("p")
    sender.begins(1)
    for text in ("a", "b", "c"):
        sender.sends(QUEUE, text, properties={"AMQ_SCHEDULED_DELAY": 1_000}, transaction=1)
    with pytest.raises(ResourceAllocationError):
        sender.commits(1)
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    delayed(sender, "d", 1_000)
    comes_to_rest(stage)
    listener = listening(stage)
    passes(stage, 1)
    assert listener.takes() == ["d"]


def test_after_a_stop_a_message_that_was_missed_comes_once_and_goes_on_from_now() -> None:
    stage = played()
    delayed(stage.peer("p"), "x", 1_000, AMQ_SCHEDULED_PERIOD=10_000, AMQ_SCHEDULED_REPEAT=100)
    stage.settle()
    stage.environment.advance(95)
    after = stage.restarts(scheduler=ON)
    listener = listening(after)
    comes_to_rest(after)
    assert listener.takes() == ["x"]
    passes(after, 9.9)
    assert listener.takes() == []
    passes(after, 0.1)
    assert listener.takes() == ["x"]


def test_a_broker_without_scheduler_support_keeps_scheduled_messages(caplog: pytest.LogCaptureFixture) -> None:
    stage = played()
    delayed(stage.peer("p"), "x", 1_000)
    stage.settle()
    without = stage.restarts()
    passes(without, 10)
    assert "1 scheduled messages wait in the store" in caplog.text
    after = without.restarts(scheduler=ON)
    listener = listening(after)
    comes_to_rest(after)
    assert listener.takes() == ["x"]


def test_a_crash_at_every_position_neither_loses_nor_repeats_a_time() -> None:
    stage = played()
    sender = stage.peer("p")
    delayed(sender, "once", 1_000)
    delayed(sender, "often", 2_000, AMQ_SCHEDULED_PERIOD=1_000, AMQ_SCHEDULED_REPEAT=3)
    sender.begins(1)
    sender.sends(QUEUE, "committed", properties={"AMQ_SCHEDULED_DELAY": 1_500}, transaction=1)
    sender.commits(1)
    stage.settle()
    scheduled = stage.store.position()
    for _ in range(12):
        passes(stage, 0.5)
    last = stage.store.position()
    assert len(stage.store.kept(destination(QUEUE))) == 6
    assert last > scheduled
    for position in range(scheduled, last + 1):
        after = stage.restarts(position=position, scheduler=ON)
        for _ in range(12):
            passes(after, 1)
        listener = listening(after)
        after.settle()
        assert sorted(listener.takes()) == ["committed", "often", "often", "often", "often", "once"], position
        assert after.store.kept(SCHEDULED_MESSAGES) == []


@pytest.mark.large
@given(
    st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 4_000), st.integers(0, 4)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 3_000), st.booleans()), min_size=1, max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_whatever_is_scheduled_comes_as_often_as_it_should_over_any_crashes(
    jobs: list[tuple[int, int, int]], steps: list[tuple[int, bool]]
) -> None:
    stage = played()
    sender = stage.peer("p")
    for number, (delay_ms, period_ms, repeat) in enumerate(jobs):
        delayed(sender, str(number), delay_ms, AMQ_SCHEDULED_PERIOD=period_ms, AMQ_SCHEDULED_REPEAT=repeat)
    stage.settle()
    for wait_ms, crashes in steps:
        stage.waits(wait_ms / 1000)
        stage.reads()
        stage.runs()
        if crashes:
            stage = stage.restarts(scheduler=ON)
        else:
            comes_to_rest(stage)
    for _ in range(30):
        passes(stage, 5)
    expected = sorted(str(number) for number, (_, _, repeat) in enumerate(jobs) for _ in range(repeat + 1))
    listener = listening(stage)
    comes_to_rest(stage)
    assert sorted(listener.takes()) == expected
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_a_crash_before_the_send_is_safe_leaves_nothing_of_it() -> None:
    stage = played()
    sender = stage.peer("p")
    before = stage.store.position()
    delayed(sender, "x", 1_000)
    for position in range(before, stage.store.position()):
        after = stage.restarts(position=position, scheduler=ON)
        passes(after, 10)
        assert after.store.kept(SCHEDULED_MESSAGES) == []
        assert after.store.metadata.get(3, {}) == {}


def test_a_job_whose_message_is_missing_is_forgotten_at_the_next_start(caplog: pytest.LogCaptureFixture) -> None:
    stage = played()
    sender = stage.peer("p")
    delayed(sender, "lost", 1_000)
    delayed(sender, "kept", 2_000)
    stage.settle()
    stage.store.lose(SCHEDULED_MESSAGES, 1)
    listener = listening(stage)
    for _ in range(4):
        passes(stage, 1)
    assert listener.takes() == ["kept"]
    assert "cannot be read" in caplog.text


def test_a_failover_client_that_sends_again_schedules_once() -> None:
    stage = played()
    sender = stage.peer("p")
    message = sender.message(QUEUE, "x", properties={"AMQ_SCHEDULED_DELAY": 1_000})
    sender.sends_message(message)
    again = stage.peer("p", reconnected=True)
    token = again.sends_message(message)
    stage.settle()
    assert again.is_answered(token)
    listener = listening(stage)
    for _ in range(3):
        passes(stage, 1)
    assert listener.takes() == ["x"]


def asks(peer: Peer, action: str, reply_to: str | None = None, **properties: object) -> None:
    wanted = {"AMQ_SCHEDULER_ACTION": action, **properties}
    peer.sends_message(peer.message(MANAGEMENT, "", properties=wanted, reply_to=reply_to))
    comes_to_rest(peer.stage)


@pytest.mark.parametrize("persistent", [True, False])
def test_scheduled_messages_are_browsed_in_the_order_of_their_times(persistent: bool) -> None:
    stage = played(persistent=persistent)
    peer = stage.peer("p")
    for delay_ms in (3_000, 1_000, 2_000):
        delayed(peer, str(delay_ms), delay_ms)
    answers = peer.temporary()
    listener = peer.consumes(answers)
    asks(peer, "BROWSE", answers)
    assert listener.takes() == ["1000", "2000", "3000"]
    message = listener.deliveries[0].message
    assert not message.persistent
    assert set(properties_of(message)) == {"AMQ_SCHEDULED_DELAY", "scheduledJobId"}
    asks(peer, "BROWSE", answers, ACTION_START_TIME=START_MS + 1_500, ACTION_END_TIME=str(START_MS + 2_000))
    assert listener.takes() == ["2000"]
    asks(peer, "BROWSE")
    asks(peer, "DANCE", answers)
    assert listener.takes() == []


def test_many_scheduled_messages_are_browsed_in_slices() -> None:
    stage = played()
    peer = stage.peer("p")
    for number in range(350):
        delayed(peer, str(number), 100_000 + number)
    answers = peer.temporary()
    listener = peer.consumes(answers)
    asks(peer, "BROWSE", answers)
    assert listener.takes() == [str(number) for number in range(350)]


@pytest.mark.parametrize("persistent", [True, False])
def test_scheduled_messages_are_removed_one_or_all_or_those_of_a_span_of_time(persistent: bool) -> None:
    stage = played(persistent=persistent)
    peer = stage.peer("p")
    for delay_ms in (1_000, 2_000, 3_000, 4_000):
        delayed(peer, str(delay_ms), delay_ms)
    answers = peer.temporary()
    listener = peer.consumes(answers)
    asks(peer, "BROWSE", answers)
    job = properties_of(listener.deliveries[0].message)["scheduledJobId"]
    listener.acknowledges("4000")
    asks(peer, "REMOVE", scheduledJobId=job)
    asks(peer, "REMOVE", scheduledJobId="nobody's")
    asks(peer, "REMOVEALL", ACTION_START_TIME=START_MS, ACTION_END_TIME=START_MS + 2_000)
    asks(peer, "BROWSE", answers)
    assert listener.takes()[4:] == ["3000", "4000"]
    asks(peer, "REMOVEALL")
    consumer = listening(stage)
    for _ in range(6):
        passes(stage, 1)
    assert consumer.takes() == []
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.store.metadata.get(3, {}) == {}


def test_requests_count_steps_for_the_jobs_that_they_look_at_choose_and_remove() -> None:
    stage = played()
    peer = stage.peer("p")
    count = 2 * LOOKED_PER_STEP
    for number in range(count):
        delayed(peer, str(number), 3_600_000)
    far = {"ACTION_START_TIME": "1", "ACTION_END_TIME": "2"}
    for action, more, least in (
        ("REMOVEALL", far, count // LOOKED_PER_STEP),
        ("BROWSE", {}, count // CHOSEN_PER_STEP),
        ("REMOVEALL", {}, count // CHOSEN_PER_STEP),
    ):
        before = stage.broker.steps
        wanted: dict[str, object] = {"AMQ_SCHEDULER_ACTION": action, **more}
        peer.sends_message(peer.message(MANAGEMENT, "", properties=wanted, reply_to="queue://ANSWERS"))
        assert stage.broker.steps - before >= 1 + least


def test_without_the_right_admin_one_sees_and_removes_what_is_ones_own() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(scheduler=ON, authorizer=authorizer)
    ours, theirs = stage.peer("a", user="alice"), stage.peer("b", user="bob")
    delayed(ours, "ours", 60_000)
    delayed(theirs, "theirs", 60_000)
    answers = theirs.temporary()
    listener = theirs.consumes(answers)
    asks(theirs, "BROWSE", answers)
    assert listener.takes() == ["ours", "theirs"]
    job = properties_of(listener.deliveries[0].message)["scheduledJobId"]
    authorizer.refused.add(("*", ADMIN, MANAGEMENT))
    asks(theirs, "BROWSE", answers)
    assert listener.takes() == ["theirs"]
    with pytest.raises(AuthorizationError):
        asks(theirs, "REMOVE", scheduledJobId=job)
    asks(theirs, "REMOVEALL")
    assert len(stage.store.kept(SCHEDULED_MESSAGES)) == 1
    authorizer.refused.add(("*", WRITE, MANAGEMENT))
    with pytest.raises(AuthorizationError):
        asks(ours, "REMOVEALL")


def test_a_request_whose_asker_is_gone_is_dropped() -> None:
    stage = played()
    peer = stage.peer("p")
    for number in range(300):
        delayed(peer, str(number), 60_000)
    answers = peer.temporary()
    peer.sends_message(peer.message(MANAGEMENT, "", properties={"AMQ_SCHEDULER_ACTION": "BROWSE"}, reply_to=answers))
    peer.leaves()
    stage.settle()
    stage.settle()
    assert stage.broker.next_timeout() != 0.0


def test_there_are_not_more_requests_than_the_broker_can_answer() -> None:
    stage = played()
    peer = stage.peer("p")
    delayed(peer, "x", 60_000)
    answers = peer.temporary()
    properties: dict[str, object] = {"AMQ_SCHEDULER_ACTION": "BROWSE"}
    for _ in range(16):
        peer.sends_message(peer.message(MANAGEMENT, "", properties=properties, reply_to=answers))
    with pytest.raises(ResourceAllocationError):
        peer.sends_message(peer.message(MANAGEMENT, "", properties=properties, reply_to=answers))


def test_a_broker_without_scheduler_warns_once_for_each_producer(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    listener = listening(stage)
    first, second = stage.peer("p"), stage.peer("o")
    first.sends(QUEUE, "plain", properties={"n": 1})
    stage.settle()
    assert caplog.messages == []
    for text in "abc":
        delayed(first, text, 5_000)
    delayed(second, "d", 5_000)
    stage.settle()
    assert listener.takes() == ["plain", "a", "b", "c", "d"]
    assert len(caplog.messages) == 2
    for message in caplog.messages:
        assert f"sends messages to {QUEUE} that ask for a delay, and this broker has no scheduler" in message


def test_what_mentions_a_delay_and_asks_for_none_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "about AMQ_SCHEDULED_DELAY", properties={"n": 1})
    stage.peer("p2").sends(QUEUE, "again", properties={"AMQ_SCHEDULED_DELAY": 1, "scheduledJobId": "x"})
    stage.settle()
    assert caplog.messages == []


def test_the_warnings_of_a_broker_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    for number in range(MAX_NAMED_PRODUCERS + 5):
        delayed(stage.peer(f"p{number}"), "x", 5_000)
    assert len(caplog.messages) == MAX_NAMED_PRODUCERS


def test_only_the_first_messages_of_a_producer_are_looked_at_for_a_delay(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    peer = stage.peer("p")
    for number in range(LOOKED_AT):
        peer.sends(QUEUE, str(number))
    delayed(peer, "late", 5_000)
    assert caplog.messages == []


@pytest.mark.parametrize("persistent", [True, False])
def test_a_scheduled_message_waits_while_the_disk_has_no_room(persistent: bool) -> None:
    stage = played()
    listener = listening(stage)
    stage.has_room(False)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "a", persistent=persistent, properties={DELAY: 1_000})
    stage.settle()
    assert not producer.is_answered(token)
    stage.has_room(True)
    comes_to_rest(stage)
    assert producer.is_answered(token)
    passes(stage, 1)
    assert listener.out == ["a"]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_scheduled_message_in_the_store_needs_no_room_in_memory(persistent: bool) -> None:
    stage = Stage(scheduler=ON, persistent=True, limits=UsageLimits(memory_bytes=4_000))
    producer = stage.peer("p")
    producer.sends("queue://FULL", "x" * 3_500, persistent=False)
    token = producer.sends(QUEUE, "a" * 300, persistent=persistent, properties={DELAY: 1_000})
    stage.settle()
    assert producer.is_answered(token)


def test_a_series_that_begins_while_the_disk_has_no_room_holds_up_no_scheduled_message() -> None:
    stage = played()
    peer = stage.peer("p")
    peer.sends(QUEUE, "series", properties={CRON: "* * * * *", REPEAT: 1, PERIOD: 1_000})
    delayed(peer, "once", 60_000)
    peer.sends(QUEUE, "light", persistent=False, properties={DELAY: 60_000})
    listener = listening(stage)
    comes_to_rest(stage)
    stage.has_room(False)
    passes(stage, 60)
    assert listener.takes() == ["light"]
    stage.has_room(True)
    passes(stage, 2)
    passes(stage, 2)
    assert sorted(listener.takes()) == ["once", "series"]


def test_a_delivery_that_the_store_refuses_is_tried_again_and_the_others_come() -> None:
    stage = played()
    peer = stage.peer("p")
    listener = listening(stage)
    for text in ("one", "two", "three"):
        delayed(peer, text, 1_000)
    comes_to_rest(stage)
    stage.waits(1)
    stage.store.refused = ResourceAllocationError("no")
    stage.reads()
    stage.runs()
    stage.store.refused = None
    passes(stage, REFUSED_MS / 1000 - 1)
    assert listener.takes() == []
    passes(stage, 1)
    assert listener.takes() == ["one", "two", "three"]
