"""What an operator changes at a running broker, and the figures that follow from links, transactions and groups."""

from __future__ import annotations

import pytest

from spanwire.broker.admin.adjustments import LimitChange, SettingsChange, StrategyChange
from spanwire.broker.admin.views import ConsumerView, ProducerView
from spanwire.broker.admin.work_views import StrategyView
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.policy.policy_entry import PolicyEntry, SlowConsumerPolicy
from spanwire.broker.policy.topic_policy import PendingLimit, TopicPolicy
from spanwire.model.errors import InvalidDestinationError, ResourceAllocationError
from tests.support.dialogue.broker_dialogue import Listener, Peer, Stage, destination
from tests.unit.broker.test_view_dialogues import details

QUEUE, TOPIC = "queue://Q", "topic://T"


def consumer_view(stage: Stage, listener: Listener) -> ConsumerView:
    return stage.broker.overview.consumer_view(listener.peer.state, listener.subscription)


def producer_view(stage: Stage, peer: Peer) -> ProducerView:
    (info,) = stage.broker.overview.producers(peer.state)
    return stage.broker.overview.producer_view(peer.state, info)


def bridge(stage: Stage, name: str = "bridge") -> Peer:
    """A connection of another broker."""
    peer = stage.peer(name)
    peer.state.forwards = peer.state.repeats = True
    return peer


def test_a_raised_memory_limit_lets_waiting_sends_go_on() -> None:
    stage = Stage(memory_limit_bytes=20_000)
    producer = stage.peer("p")
    tokens = [producer.sends(QUEUE, "x" * 5_000, persistent=False) for _ in range(6)]
    assert not producer.is_answered(tokens[-1])
    stage.broker.assembly.adjustments.change_limits(LimitChange(memory_bytes=1_000_000), stage.now)
    assert producer.is_answered(tokens[-1])
    assert stage.broker.statistics().memory_limit_bytes == 1_000_000


def test_a_lowered_store_limit_lets_sends_wait_until_it_is_raised() -> None:
    stage = Stage()
    stage.store.used = 100
    producer = stage.peer("p")
    stage.broker.assembly.adjustments.change_limits(LimitChange(store_bytes=1, temporary_bytes=7), stage.now)
    statistics = stage.broker.statistics()
    assert (statistics.store_limit_bytes, statistics.temporary_limit_bytes) == (1, 7)
    token = producer.sends(QUEUE, "2")
    stage.settle()
    assert not producer.is_answered(token)
    stage.broker.assembly.adjustments.change_limits(LimitChange(store_bytes=0), stage.now)
    stage.settle()
    assert producer.is_answered(token)
    assert stage.broker.statistics().temporary_limit_bytes == 7


def test_other_usage_settings_stay_as_they_are() -> None:
    stage = Stage(limits=UsageLimits(fail_if_no_space=True, fail_after_ms=5))
    stage.broker.assembly.adjustments.change_limits(LimitChange(store_bytes=9), stage.now)
    limits = stage.broker.assembly.flow.limits
    assert (limits.fail_if_no_space, limits.fail_after_ms, limits.store_bytes) == (True, 5, 9)


def test_a_queues_own_limit_and_settings_are_changed() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "x" * 5_000, persistent=False)
    change = SettingsChange(memory_limit_bytes=1_000, blocked_warning_ms=7)
    stage.broker.assembly.adjustments.change_settings(destination(QUEUE), change, stage.now)
    assert stage.view(QUEUE).memory_limit_bytes == 1_000
    assert details(stage).blocked_warning_ms == 7
    token = producer.sends(QUEUE, "2", persistent=False)
    assert not producer.is_answered(token)
    stage.broker.assembly.adjustments.change_settings(
        destination(QUEUE), SettingsChange(memory_limit_bytes=0), stage.now
    )
    assert producer.is_answered(token)
    off = SettingsChange(producer_flow_control=False, audits_copies=False)
    stage.broker.assembly.adjustments.change_settings(destination(QUEUE), off, stage.now)
    shown = details(stage)
    assert (shown.producer_flow_control, shown.audits_copies, shown.blocked_warning_ms) == (False, False, 7)


def test_settings_of_a_destination_that_is_not_there_are_refused() -> None:
    stage = Stage()
    with pytest.raises(InvalidDestinationError):
        stage.broker.assembly.adjustments.change_settings(destination(QUEUE), SettingsChange(), stage.now)


def test_a_changed_limit_of_transactions_holds_for_open_connections_and_refusals_are_counted() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    stage.broker.assembly.adjustments.change_limits(LimitChange(uncommitted=2), stage.now)
    peer.sends(QUEUE, "1", "2", transaction=1)
    with pytest.raises(ResourceAllocationError):
        peer.sends(QUEUE, "3", transaction=1)
    statistics = stage.broker.statistics()
    assert (statistics.maximum_uncommitted, statistics.refused_uncommitted) == (2, 1)
    assert details(stage).refused_uncommitted == 1
    stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    assert details(stage).refused_uncommitted == 0


def test_an_acknowledgement_beyond_the_limit_is_counted_at_its_queue() -> None:
    stage = Stage(max_uncommitted=1)
    peer = stage.peer("p")
    peer.sends(QUEUE, "1", "2")
    stage.settle()
    listener = peer.consumes(QUEUE)
    peer.begins(1)
    with pytest.raises(ResourceAllocationError):
        listener.acknowledges("2", count=2, transaction=1)
    assert (details(stage).refused_uncommitted, stage.broker.statistics().refused_uncommitted) == (1, 1)


def test_the_age_of_the_oldest_open_transaction_is_shown() -> None:
    stage = Stage()
    peer = stage.peer("p")
    stage.waits(60)
    assert stage.connection_view(peer).oldest_transaction_ms is None
    peer.begins(1)
    stage.waits(3)
    peer.begins(2)
    stage.waits(2)
    assert stage.broker.overview.connection_view(peer.state, stage.now.wall_ms).oldest_transaction_ms == 5_000
    peer.rolls_back(1)
    assert stage.broker.overview.connection_view(peer.state, stage.now.wall_ms).oldest_transaction_ms == 2_000


@pytest.mark.parametrize("name", [QUEUE, TOPIC])
def test_messages_of_other_brokers_are_counted_in_both_directions(name: str) -> None:
    stage = Stage()
    here, remote = stage.peer("p"), bridge(stage)
    forwarded = remote.consumes(name, network=True)
    own = here.consumes(name, priority=-1)
    remote.sends(name, "1", "2")
    here.sends(name, "3")
    stage.settle()
    assert details(stage, name).from_brokers == 2
    assert details(stage, name).to_brokers == 0
    forwarded.acknowledges(forwarded.out[-1], count=len(forwarded.out))
    own.takes()
    assert details(stage, name).to_brokers == len(forwarded.out) > 0
    forwarded.leaves()
    assert details(stage, name).to_brokers == len(forwarded.out)
    stage.broker.administration.reset_statistics(destination(name), stage.now)
    assert (details(stage, name).from_brokers, details(stage, name).to_brokers) == (0, 0)


def test_a_bridge_that_stays_counts_from_a_reset_on() -> None:
    stage = Stage()
    forwarded = bridge(stage).consumes(QUEUE, network=True)
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.settle()
    forwarded.acknowledges("1")
    stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    forwarded.acknowledges("2")
    assert details(stage).to_brokers == 1


def test_the_last_messages_of_a_measured_queue_are_shown() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), measures_messages=True))
    producer = stage.peer("p", "app")
    assert details_of_messages(stage) == (None, None)
    producer.sends(QUEUE, "1", "2", timestamp_ms=stage.now.wall_ms - 10)
    stage.settle()
    listener = stage.peer("c").consumes(QUEUE)
    stage.waits(1)
    listener.acknowledges("1")
    shown = details(stage)
    assert (shown.last_in_id, shown.last_out_id) == (str(listener.id_of("2")), str(listener.id_of("1")))
    assert shown.last_in_connection == producer.connection_id
    assert shown.last_in_ms is not None
    assert shown.last_in_sent_ms == shown.last_in_ms - 10
    assert shown.last_out_ms == shown.last_in_ms + 1_000
    stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    assert details_of_messages(stage) == (None, None)


def details_of_messages(stage: Stage) -> tuple[str | None, str | None]:
    stage.broker.configure_destination(destination(QUEUE))
    shown = details(stage)
    return shown.last_in_id, shown.last_out_id


def test_the_broker_has_the_sizes_of_all_measured_destinations_that_exist() -> None:
    stage = Stage()
    peer = stage.peer("p")
    assert stage.broker.statistics().average_size_bytes is None
    for name in ("queue://A", "queue://B"):
        stage.broker.configure_destination(destination(name))
    stage.broker.administration.switch_statistics(destination("queue://A"), True, stage.now)
    stage.broker.administration.switch_statistics(destination("queue://B"), True, stage.now)
    peer.sends("queue://A", "x" * 10, persistent=False)
    peer.sends("queue://B", "x" * 1_010, persistent=False)
    peer.sends("queue://C", "x" * 9_000, persistent=False)
    statistics = stage.broker.statistics()
    least, greatest = statistics.least_size_bytes, statistics.greatest_size_bytes
    assert least is not None
    assert (greatest, statistics.average_size_bytes) == (least + 1_000, least + 500)
    stage.broker.administration.switch_statistics(destination("queue://B"), False, stage.now)
    assert stage.broker.statistics().greatest_size_bytes == least


def test_counters_of_a_producer_are_reset_all_or_those_of_waits() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=8_000))
    peer = stage.peer("p")
    producer = peer.producer(QUEUE)
    counts = producer.counts
    counts.sent, counts.blocked, counts.blocked_seconds = 5, 2, 1.5
    key = str(producer.producer_id)
    stage.broker.assembly.adjustments.reset_producer(key, True, stage.now)
    view = producer_view(stage, peer)
    assert (view.sent, view.blocked_sends, view.blocked_ms) == (5, 0, 0)
    stage.broker.assembly.adjustments.reset_producer(key, False, stage.now)
    assert producer_view(stage, peer).sent == 0
    with pytest.raises(InvalidDestinationError):
        stage.broker.assembly.adjustments.reset_producer("ID:none:1:1", False, stage.now)


def test_counters_of_a_consumer_are_reset_while_its_messages_stay() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.settle()
    listener.acknowledges("1")
    stage.broker.assembly.adjustments.reset_consumer(str(listener.info.consumer_id), stage.now)
    view = consumer_view(stage, listener)
    assert (view.dispatched, view.dequeued, view.in_flight) == (0, 0, 2)
    listener.acknowledges("3", count=2)
    assert consumer_view(stage, listener).dequeued == 2
    with pytest.raises(InvalidDestinationError):
        stage.broker.assembly.adjustments.reset_consumer("ID:none:1:1", stage.now)


def test_messages_discarded_for_a_slow_subscriber_are_counted_with_its_limit() -> None:
    policy = PolicyEntry(destination("topic://>"), topic=TopicPolicy(pending_limit=PendingLimit(2)))
    stage = Stage(policy)
    listener = stage.peer("c").consumes(TOPIC, prefetch=1)
    stage.peer("p").sends(TOPIC, *"123456", persistent=False)
    view = consumer_view(stage, listener)
    assert (view.discarded, view.pending_limit, view.pending) == (3, 2, 2)
    stage.broker.assembly.adjustments.reset_consumer(str(listener.info.consumer_id), stage.now)
    assert consumer_view(stage, listener).discarded == 0


def slow_stage(*, by_acks: bool = False, network: bool = False, ignores: bool = True) -> tuple[Stage, Listener]:
    slow = SlowConsumerPolicy(
        -1, 4_000, 1_000, ignore_network_consumers=ignores, max_since_ack_ms=2_000 if by_acks else None
    )
    stage = Stage(PolicyEntry(destination("topic://>"), slow_consumers=slow))
    listener = stage.peer("c").consumes(TOPIC, prefetch=2, network=network)
    stage.peer("p").sends(TOPIC, *"123456789", persistent=False)
    return stage, listener


def strategies(stage: Stage) -> list[StrategyView]:
    overview = stage.broker.overview
    return [overview.strategy_view(watch) for watch in overview.strategies()]


def test_a_strategy_shows_its_bounds_and_slow_consumers() -> None:
    assert strategies(Stage()) == []
    stage, listener = slow_stage()
    (view,) = strategies(stage)
    assert (view.name, view.max_slow_ms, view.check_period_ms, view.max_since_ack_ms) == (
        "topic://>",
        4_000,
        1_000,
        None,
    )
    assert view.slow == [{"consumer_id": str(listener.info.consumer_id), "slow_count": 1, "mark_count": 0}]
    assert details(stage, TOPIC).slow_consumer_strategy == "topic://>"
    assert details(stage, "topic://T").policy == "topic://>"


def test_a_changed_strategy_ends_a_slow_consumer_at_the_next_check() -> None:
    stage, listener = slow_stage()
    stage.waits(2)
    assert listener.closed is None
    stage.broker.assembly.adjustments.change_strategy("topic://>", StrategyChange(max_slow_count=1), stage.now)
    stage.waits(2)
    assert listener.closed is not None


def test_whether_bridges_are_ended_changes_for_those_that_are_attached() -> None:
    stage, listener = slow_stage(network=True)
    for _ in range(10):
        stage.waits(1)
    assert listener.closed is None
    assert strategies(stage)[0].slow == []
    change = StrategyChange(ignore_network_consumers=False)
    stage.broker.assembly.adjustments.change_strategy("topic://>", change, stage.now)
    stage.waits(2)
    assert listener.closed is None, "its time begins with the change"
    for _ in range(4):
        stage.waits(1)
    assert listener.closed is not None


def test_a_spared_bridge_that_acknowledges_nothing_has_its_time_from_the_change() -> None:
    stage, listener = slow_stage(by_acks=True, network=True)
    for _ in range(10):
        stage.waits(1)
    change = StrategyChange(ignore_network_consumers=False)
    stage.broker.assembly.adjustments.change_strategy("topic://>", change, stage.now)
    stage.waits(2)
    assert listener.closed is None
    for _ in range(5):
        stage.waits(1)
    assert listener.closed is not None


def test_bridges_that_are_attached_can_be_spared() -> None:
    stage, listener = slow_stage(network=True, ignores=False)
    stage.waits(1)
    change = StrategyChange(ignore_network_consumers=True)
    stage.broker.assembly.adjustments.change_strategy("topic://>", change, stage.now)
    for _ in range(10):
        stage.waits(1)
    assert listener.closed is None


def test_a_change_keeps_the_other_bounds_and_the_kind_of_a_strategy() -> None:
    stage, _ = slow_stage()
    change = StrategyChange(max_slow_ms=-1, max_since_ack_ms=5, ignore_network_consumers=False)
    stage.broker.assembly.adjustments.change_strategy("topic://>", change, stage.now)
    (view,) = strategies(stage)
    assert (view.max_slow_ms, view.max_slow_count, view.max_since_ack_ms) == (-1, -1, None)
    assert (view.ignores_network, view.ignores_idle) == (False, True)
    stage, _ = slow_stage(by_acks=True)
    stage.broker.assembly.adjustments.change_strategy("topic://>", change, stage.now)
    assert strategies(stage)[0].max_since_ack_ms == 5
    with pytest.raises(InvalidDestinationError):
        stage.broker.assembly.adjustments.change_strategy("queue://>", change, stage.now)


def test_a_freed_group_goes_to_another_consumer() -> None:
    stage = Stage()
    first, second = stage.peer("c").consumes(QUEUE, prefetch=1), stage.peer("d").consumes(QUEUE, prefetch=1)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2", group="g")
    stage.settle()
    owner, other = (first, second) if first.out else (second, first)
    assert (owner.takes(), other.takes()) == (["1"], [])
    free = stage.broker.administration.free_groups
    assert free(destination(QUEUE), "h", stage.now) == 0
    assert free(destination(QUEUE), "g", stage.now) == 1
    assert other.takes() == ["2"]
    assert free(destination(QUEUE), None, stage.now) == 1
    assert details(stage).groups == {}
    with pytest.raises(InvalidDestinationError):
        free(destination(TOPIC), None, stage.now)


def test_the_cursor_of_a_durable_subscription_is_shown() -> None:
    stage = Stage(PolicyEntry(destination("topic://>"), memory_limit_bytes=10_000))
    stage.peer("c", "app").consumes(TOPIC, durable="s").peer.leaves()
    (durable,) = stage.broker.overview.durables()
    assert stage.broker.overview.durable_view(durable, 0.0).memory_percent == 0
    stage.peer("p").sends(TOPIC, "x" * 5_000)
    stage.settle()
    view = stage.broker.overview.durable_view(durable, 0.0)
    assert (view.memory_percent > 40, view.full) == (True, durable.queue.pending.is_full())
