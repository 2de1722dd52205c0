"""Figures of an operator's views that no other test looks at: waits, sizes, times, sessions, scheduled messages."""

from __future__ import annotations

import pytest

from spanwire.broker.admin.destination_details import DestinationDetails
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import AdvisoryPolicy, PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.errors import InvalidDestinationError, JmsError
from tests.support.dialogue.broker_dialogue import START_MS, Stage, destination

QUEUE = "queue://Q"


def details(stage: Stage, name: str = QUEUE) -> DestinationDetails:
    found = stage.broker.find_destination(destination(name))
    assert found is not None
    return stage.broker.overview.destination_details(found)


def test_sends_that_waited_are_counted_with_their_time() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=20_000))
    producer = stage.peer("p", "app")
    producer.producer(QUEUE)
    for number in range(5):
        producer.sends(QUEUE, f"{number}" + "x" * 5_000, persistent=False)
    (state,) = stage.broker.overview.connections()
    waiting = len(state.parked)
    assert waiting > 0
    view = stage.connection_view(producer)
    assert (view.waiting_sends, stage.view(QUEUE).blocked_sends) == (waiting, waiting)
    assert stage.view(QUEUE).blocked_ms == 0
    stage.waits(2)
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    while new := listener.takes():
        listener.acknowledges(new[-1])
    assert (stage.view(QUEUE).blocked_sends, stage.view(QUEUE).blocked_ms) == (waiting, waiting * 2_000)
    assert stage.connection_view(producer).waiting_sends == 0
    (info,) = stage.broker.overview.producers(state)
    own = stage.broker.overview.producer_view(state, info)
    assert (own.blocked_sends, own.blocked_ms) == (waiting, waiting * 2_000)


@pytest.mark.parametrize("name", [QUEUE, "topic://T"])
def test_a_policy_has_its_destinations_measured_from_the_first_message_on(name: str) -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), measures_messages=True),
                  PolicyEntry(destination("topic://>"), measures_messages=True))  # fmt: skip
    stage.peer("p").sends(name, "x")
    shown = details(stage, name)
    assert (shown.statistics_enabled, shown.least_size_bytes is not None) == (True, True)
    stage.broker.administration.switch_statistics(destination(name), False, stage.now)
    assert not details(stage, name).statistics_enabled


def test_sizes_and_times_are_measured_once_they_are_switched_on() -> None:
    stage = Stage()
    administration = stage.broker.administration
    producer, listener = stage.peer("p"), stage.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "before", persistent=False)
    assert (details(stage).statistics_enabled, details(stage).average_size_bytes) == (False, None)
    administration.switch_statistics(destination(QUEUE), True, stage.now)
    sizes = []
    for text in ("a", "b" * 100):
        message = producer.message(QUEUE, text, timestamp_ms=START_MS, persistent=False)
        sizes.append(message.size)
        producer.sends_message(message)
    stage.waits(3)
    listener.acknowledges("b" * 100)
    stage.settle()
    shown = details(stage)
    assert (shown.least_size_bytes, shown.greatest_size_bytes) == (sizes[0], sizes[1])
    assert shown.average_size_bytes == sum(sizes) // 2
    assert shown.greatest_held_ms == 3_000
    administration.reset_statistics(destination(QUEUE), stage.now)
    assert details(stage).average_size_bytes is None
    administration.switch_statistics(destination(QUEUE), False, stage.now)
    producer.sends(QUEUE, "after", persistent=False)
    assert details(stage).statistics_enabled is False


@pytest.mark.parametrize(
    "policy", [None, PolicyEntry(destination("topic://>"), advisories=AdvisoryPolicy(consumed=True))]
)
def test_a_topic_is_measured_from_the_send_to_the_dispatch(policy: PolicyEntry | None) -> None:
    stage = Stage() if policy is None else Stage(policy)
    topic = "topic://T"
    administration, overview = stage.broker.administration, stage.broker.overview
    producer = stage.peer("p")
    administration.create_destination(destination(topic), stage.now)
    found = stage.broker.find_destination(destination(topic))
    assert found is not None
    administration.switch_statistics(destination(topic), True, stage.now)
    message = producer.message(topic, "early", timestamp_ms=START_MS, persistent=False)
    stage.waits(2)
    producer.sends_message(message)
    listener = stage.peer("c").consumes(topic)
    later = producer.message(topic, "late" * 100, timestamp_ms=START_MS, persistent=False)
    producer.sends_message(later)
    assert listener.takes() == ["late" * 100]
    shown = overview.destination_details(found)
    assert (shown.statistics_enabled, shown.least_held_ms, shown.greatest_held_ms) == (True, 2_000, 2_000)
    assert (shown.least_size_bytes, shown.greatest_size_bytes) == (message.size, later.size)
    administration.switch_statistics(destination(topic), False, stage.now)
    assert overview.destination_details(found).statistics_enabled is False
    producer.sends(topic, "after", persistent=False)
    assert listener.takes() == ["after"]


def test_a_switch_leaves_the_observer_of_the_policy_in_place() -> None:
    stage = Stage()
    stage.peer("p").creates(QUEUE)
    queue = stage.broker.assembly.map.queue(destination(QUEUE))
    assert queue is not None
    before = queue.observer
    for enabled in (True, True, False, False):
        stage.broker.administration.switch_statistics(destination(QUEUE), enabled, stage.now)
    assert queue.observer is before


def test_a_reset_leaves_what_is_there() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    listener = stage.peer("c").consumes(QUEUE)
    stage.settle()
    listener.acknowledges("1")
    stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    view = stage.view(QUEUE)
    assert (view.enqueued, view.dequeued, view.dispatched) == (0, 0, 0)
    assert (view.pending, view.in_flight, view.consumers) == (1, 1, 1)
    with pytest.raises(InvalidDestinationError, match="there is no queue://MISSING"):
        stage.broker.administration.reset_statistics(destination("queue://MISSING"), stage.now)
    with pytest.raises(InvalidDestinationError, match="there is no queue://MISSING"):
        stage.broker.administration.switch_statistics(destination("queue://MISSING"), True, stage.now)


def test_a_destination_is_created_once() -> None:
    stage = Stage()
    administration = stage.broker.administration
    assert administration.create_destination(destination("topic://T"), stage.now)
    assert not administration.create_destination(destination("topic://T"), stage.now)
    assert stage.has("topic://T")
    with pytest.raises(JmsError, match="cannot be created"):
        administration.create_destination(destination("topic://ActiveMQ.Advisory.Connection"), stage.now)


def test_a_scheduled_message_is_listed_with_its_time() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    stage.peer("p").sends(QUEUE, "later", properties={"AMQ_SCHEDULED_DELAY": 5_000})
    overview = stage.broker.overview
    (job,) = [overview.job_view(job) for job in overview.jobs()]
    assert (job.due_ms, job.delay_ms, job.repeat, job.redelivery) == (START_MS + 5_000, 5_000, 0, False)
    assert stage.broker.statistics().scheduled_messages == 1
    stage.waits(5)
    stage.settle()
    stage.settle()
    assert overview.jobs() == []


def test_sessions_and_slow_consumers_are_shown() -> None:
    stage = Stage()
    peer = stage.peer("c", "app")
    peer.producer(QUEUE, 1)
    listener = peer.consumes(QUEUE, prefetch=1)
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.settle()
    overview = stage.broker.overview
    state = listener.peer.state
    assert [(view.consumers, view.producers) for view in overview.sessions(state)] == [(1, 1)]
    (view,) = [overview.consumer_view(state, one) for one in overview.consumers(state)]
    assert (view.slow, view.connection_id, view.session) == (True, state.connection_id, 1)
    listener.acknowledges("1")
    stage.settle()
    (view,) = [overview.consumer_view(state, one) for one in overview.consumers(state)]
    assert view.slow is False
    assert stage.connection_view(peer).connected_ms == START_MS


def test_destinations_of_dead_letters_are_known_by_the_policies() -> None:
    policies = PolicyMap(
        [
            PolicyEntry(destination("queue://a.>"), dead_letter=DeadLetterStrategy(queue_name="LETTERS")),
            PolicyEntry(destination("queue://b.>"), dead_letter=DeadLetterStrategy(individual=IndividualNames())),
            PolicyEntry(destination("queue://c.>"), dead_letter=DeadLetterStrategy(queue_name="NONE", discards=True)),
        ]
    )
    shown = [name for name in ("LETTERS", "ActiveMQ.DLQ", "ActiveMQ.DLQ.Queue.b.1", "NONE", "a.1")
             if policies.takes_dead_letters(destination(f"queue://{name}"))]  # fmt: skip
    assert shown == ["LETTERS", "ActiveMQ.DLQ", "ActiveMQ.DLQ.Queue.b.1"]
