"""What nobody uses is removed where the configuration says so, and nothing else is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from spanwire.broker.destinations.inactive_destinations import MAX_LOOKED_AT, MAX_REMOVED, UpkeepSettings
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from tests.support.dialogue.broker_dialogue import Listener, Stage, destination

QUEUE = "queue://GONE.Q"
TOPIC = "topic://GONE.T"
EACH_SECOND = UpkeepSettings(destinations_period_ms=1_000)


def removing(pattern: str = "queue://GONE.>", network: bool = False, timeout_ms: int = 5_000) -> PolicyEntry:
    return PolicyEntry(
        destination(pattern), gc_inactive=True, inactive_timeout_ms=timeout_ms, gc_with_network_consumers=network
    )


def passes(stage: Stage, seconds: int) -> None:
    """Time passes, second by second."""
    for _ in range(seconds):
        stage.waits(1.0)
        stage.settle()


@pytest.mark.parametrize("name", [QUEUE, TOPIC])
def test_what_nobody_uses_is_removed_after_its_time(name: str) -> None:
    stage = Stage(removing(), removing("topic://GONE.>"), upkeep=EACH_SECOND)
    stage.peer("c").creates(name)
    stage.runs()
    passes(stage, 4)
    assert stage.has(name)
    passes(stage, 2)
    assert not stage.has(name)
    assert stage.store.crash().recovered() == []


def test_other_destinations_are_never_removed() -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    peer = stage.peer("c")
    peer.creates("queue://OTHER")
    own = peer.temporary()
    passes(stage, 20)
    assert stage.has("queue://OTHER")
    assert stage.has(own)


def test_without_a_period_nothing_is_removed() -> None:
    stage = Stage(removing())
    stage.peer("c").creates(QUEUE)
    passes(stage, 20)
    assert stage.has(QUEUE)


@pytest.mark.parametrize("user", ["consumer", "producer", "browser", "message", "message out", "withheld"])
def test_a_queue_in_use_is_kept_and_goes_after_its_last_use(user: str) -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    peer = stage.peer("c")
    listener: Listener | None = None
    if user == "producer":
        producer = peer.producer(QUEUE)
    elif user == "message":
        peer.sends(QUEUE, "a")
    elif user == "withheld":
        peer.begins(1)
        peer.sends(QUEUE, "a", transaction=1)
        peer.commits(1)  # and the disk takes its time
    elif user == "message out":
        peer.sends(QUEUE, "a")
        listener = peer.consumes(QUEUE)
    else:
        listener = peer.consumes(QUEUE, browser=user == "browser")
    for _ in range(20):
        stage.waits(1.0)
    assert stage.has(QUEUE)
    stage.settle()
    if user == "producer":
        stage.broker.remove_producer(peer.state, producer.producer_id, stage.now)
    elif user in ("message", "withheld"):
        listener = peer.consumes(QUEUE)
        listener.acknowledges("a")
        listener.leaves()
    elif listener is not None:
        if user == "message out":
            listener.acknowledges("a")
        listener.leaves()
    passes(stage, 4)
    assert stage.has(QUEUE)
    passes(stage, 3)
    assert not stage.has(QUEUE)


def test_whoever_comes_and_goes_between_two_looks_counts_as_a_user() -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    peer = stage.peer("c")
    peer.creates(QUEUE)
    for _ in range(5):
        passes(stage, 4)
        peer.consumes(QUEUE).leaves()
        assert stage.has(QUEUE)
    for _ in range(5):
        passes(stage, 4)
        peer.sends(QUEUE, "a")
        listener = peer.consumes(QUEUE)
        listener.acknowledges("a")
        listener.leaves()
        assert stage.has(QUEUE)
    for number in range(5):
        passes(stage, 4)
        producer = peer.producer(QUEUE, number)
        stage.broker.remove_producer(peer.state, producer.producer_id, stage.now)
        assert stage.has(QUEUE)
    passes(stage, 7)
    assert not stage.has(QUEUE)


def test_a_queue_that_was_removed_and_made_again_has_its_whole_time() -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    peer = stage.peer("c")
    peer.creates(QUEUE)
    passes(stage, 4)
    peer.removes(QUEUE)
    peer.creates(QUEUE)
    passes(stage, 4)
    assert stage.has(QUEUE)
    passes(stage, 3)
    assert not stage.has(QUEUE)


def test_a_message_that_comes_after_the_removal_makes_the_queue_again() -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    peer = stage.peer("c")
    peer.sends(QUEUE, "a")
    listener = peer.consumes(QUEUE)
    listener.acknowledges("a")
    listener.leaves()
    passes(stage, 7)
    assert not stage.has(QUEUE)
    peer.sends(QUEUE, "b")
    stage.settle()
    again = stage.restarts()
    again.settle()
    late = again.peer("d").consumes(QUEUE)
    again.settle()
    assert late.takes() == ["b"]


def test_a_topic_with_a_durable_subscription_is_kept() -> None:
    stage = Stage(removing("topic://GONE.>"), upkeep=EACH_SECOND)
    stage.peer("c", "client").consumes(TOPIC, durable="s").leaves()
    passes(stage, 20)
    assert stage.has(TOPIC)


def network_consumer(stage: Stage, name: str) -> Listener:
    """A bridge's consumer at work."""
    peer = stage.peer("bridge")
    info = ConsumerInfo(ConsumerId(peer.connection_id, 1, 1), destination(name), 1000, network_subscription=True)
    listener = Listener(peer, info)
    listener.attached(stage.broker.add_consumer(peer.state, info, listener, stage.now))
    stage.broker.start_consumer(listener.subscription, stage.now)
    return listener


@pytest.mark.parametrize(("name", "pattern"), [(QUEUE, "queue://GONE.>"), (TOPIC, "topic://GONE.>")])
def test_bridges_consumers_do_not_count_where_the_policy_says_so_and_get_what_comes_later(
    name: str, pattern: str
) -> None:
    stage = Stage(removing(pattern, network=True), upkeep=EACH_SECOND)
    listener = network_consumer(stage, name)
    for text in ("a", "b"):
        passes(stage, 7)
        assert not stage.has(name)
        stage.peer(f"p{text}").sends(name, text)
        stage.settle()
        assert listener.takes() == [text]
        listener.acknowledges(text)
    passes(stage, 7)
    listener.leaves()
    stage.peer("pc").sends(name, "c")
    assert stage.view(name).consumers == 0


def test_bridges_consumers_count_by_default() -> None:
    stage = Stage(removing(), upkeep=EACH_SECOND)
    network_consumer(stage, QUEUE)
    passes(stage, 20)
    assert stage.has(QUEUE)


def test_one_look_removes_at_most_so_many() -> None:
    stage = Stage(removing(), upkeep=UpkeepSettings(1_000, max_removed=3))
    peer = stage.peer("c")
    for number in range(10):
        peer.creates(f"queue://GONE.{number}")
    passes(stage, 5)
    counts = []
    for _ in range(5):
        passes(stage, 1)
        counts.append(sum(stage.has(f"queue://GONE.{number}") for number in range(10)))
    assert counts == [7, 4, 1, 0, 0] or counts == [10, 7, 4, 1, 0]


def test_many_are_looked_at_and_removed_a_few_in_each_turn() -> None:
    stage = Stage(removing(), upkeep=UpkeepSettings(60_000))
    peer = stage.peer("c")
    total = MAX_LOOKED_AT + 10
    for number in range(total):
        peer.creates(f"queue://GONE.{number}")
    stage.settle()
    stage.waits(61.0)
    assert stage.broker.next_timeout() == 0.0
    left = [total]
    while stage.broker.next_timeout() == 0.0:
        left.append(len(stage.broker.destination_views()))
        stage.runs()
    assert max(before - after for before, after in pairwise(left)) <= MAX_REMOVED
    assert len(stage.broker.destination_views()) == 0


def test_a_durable_subscription_that_stays_away_is_deleted() -> None:
    stage = Stage(upkeep=UpkeepSettings(offline_timeout_ms=10_000, offline_check_ms=1_000))
    peer = stage.peer("c", "client")
    peer.consumes("topic://T", durable="away").leaves()
    peer.consumes("topic://T", durable="there")
    stage.peer("p").sends("topic://T", "a")
    passes(stage, 9)
    again = peer.consumes("topic://T", durable="away")
    assert again.takes() == ["a"]
    again.leaves()
    passes(stage, 9)
    assert len(stage.store.metadata) > 0
    passes(stage, 3)
    later = peer.consumes("topic://T", durable="away")
    assert later.takes() == []  # another one: the message is gone with the first
    stage.peer("q").sends("topic://T", "b")
    assert later.takes() == ["b"]


def test_a_durable_subscription_has_its_whole_time_after_a_restart_and_is_gone_for_good() -> None:
    settings = UpkeepSettings(offline_timeout_ms=10_000, offline_check_ms=1_000)
    stage = Stage(upkeep=settings)
    stage.peer("c", "client").consumes("topic://T", durable="away").leaves()
    stage.peer("p").sends("topic://T", "a")
    stage.settle()
    passes(stage, 9)
    store = stage.store.crash(-1)
    again = Stage(store=store, upkeep=settings)
    again.environment.time = stage.now
    again.broker.recover(store.recovered(), True, again.now, store.metadata)
    passes(again, 9)
    assert any(store.metadata.values())
    passes(again, 3)
    again.settle()
    assert not any(store.metadata.values())
    assert again.store.crash().recovered() == []


def test_durable_subscriptions_stay_for_ever_by_default() -> None:
    stage = Stage()
    peer = stage.peer("c", "client")
    peer.consumes("topic://T", durable="away").leaves()
    stage.peer("p").sends("topic://T", "a")
    stage.waits(400 * 24 * 3600.0)
    stage.settle()
    assert peer.consumes("topic://T", durable="away").takes() == ["a"]


def test_a_power_cut_amid_a_removal_leaves_it_whole_or_gone() -> None:
    stage = Stage(removing(), upkeep=UpkeepSettings(1_000, 0, 10_000, 1_000))
    stage.peer("c", "client").consumes("topic://T", durable="s").leaves()
    peer = stage.peer("p")
    peer.sends("topic://T", "a")
    peer.creates(QUEUE)
    stage.settle()
    before = stage.store.position()
    passes(stage, 15)
    assert not stage.has(QUEUE)
    assert not any(stage.store.metadata.values())
    seen: set[bool] = set()
    for position in range(before, stage.store.position() + 1):
        again = stage.restarts(position=position)
        again.settle()
        described = any(again.store.metadata.values())
        left = again.peer("d", "client").consumes("topic://T", durable="s")
        again.settle()
        assert left.takes() == (["a"] if described else [])
        again.peer("q").sends(QUEUE, "b")
        again.settle()
        listener = again.peer("e").consumes(QUEUE)
        again.settle()
        assert listener.takes() == ["b"]
        seen.add(described)
    assert seen == {True, False}
