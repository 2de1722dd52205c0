"""Redelivery by the broker: what a consumer gave up on comes back later, as often as its policy says (ActiveMQ,
"Message Redelivery and DLQ Handling").
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spanwire.broker.plugins.discarding_plugin import DiscardingSettings
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.plugins.redelivery_plugin import NO_MAXIMUM, RedeliveryEntry, RedeliveryPolicy, RedeliverySettings
from spanwire.broker.scheduler.schedule import MAX_DELAY_MS, SCHEDULED_MESSAGES, SchedulerSettings
from spanwire.model.acks import POISON_ACK, STANDARD_ACK
from spanwire.model.destination import parse_destination
from tests.support.dialogue.broker_dialogue import START_MS, Listener, Stage
from tests.support.dialogue.text_format import properties_of, text_of

ON: Final = SchedulerSettings()
Q: Final = "queue://Q"
DLQ: Final = "queue://ActiveMQ.DLQ"
TWICE: Final = RedeliveryPolicy(maximum_redeliveries=2, initial_delay_ms=2_000, delay_ms=3_000)


def of(
    pattern: str, policy: RedeliveryPolicy = TWICE, *, falls_back: bool = True, dead_letter_in_the_end: bool = True
) -> RedeliverySettings:
    entry = RedeliveryEntry(parse_destination(pattern), policy)
    return RedeliverySettings((entry,), falls_back=falls_back, dead_letter_in_the_end=dead_letter_in_the_end)


def played(
    plugin: RedeliverySettings, *others: DiscardingSettings, persistent: bool = True, max_jobs: int = 100
) -> Stage:
    scheduler = SchedulerSettings(max_jobs=max_jobs)
    return Stage(scheduler=scheduler, persistent=persistent, plugins=PluginSettings((*others, plugin)))


def fails(listener: Listener, text: str = "a") -> None:
    """The consumer gives up on a message."""
    listener.acknowledges(text, ack_type=POISON_ACK, count=1)
    listener.peer.stage.settle()


def passes(stage: Stage, seconds: float) -> None:
    stage.waits(seconds)
    stage.settle()
    stage.settle()


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_message_comes_back_after_each_failure_and_is_a_dead_letter_in_the_end(
    persistent: bool, stored: bool
) -> None:
    stage = played(of("queue://>"), persistent=stored)
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a", persistent=persistent)
    stage.settle()
    assert listener.redelivery_counts() == [("a", 0)]
    fails(listener)
    passes(stage, 1.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.redelivery_counts() == [("a", 1)]
    fails(listener)
    passes(stage, 2.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.redelivery_counts() == [("a", 2)]
    assert not stage.has(DLQ)
    fails(listener)
    passes(stage, 100)
    assert listener.takes() == []
    if persistent:
        assert stage.view(DLQ).pending == 1
    assert stage.view(Q).pending == 0
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.store.metadata.get(3, {}) == {}


def test_temporary_queues_have_a_policy_of_their_own() -> None:
    stage = played(of("temp-queue://>"))
    peer = stage.peer("c")
    temporary = peer.temporary()
    listener, other = peer.consumes(temporary), peer.consumes(Q)
    producer = stage.peer("p")
    producer.sends(temporary, "a", persistent=False)
    producer.sends(Q, "b")
    stage.settle()
    fails(listener)
    fails(other, "b")
    passes(stage, 2)
    assert listener.redelivery_counts() == [("a", 0), ("a", 1)]
    assert other.out == ["b"]
    assert stage.view(DLQ).pending == 1


def test_the_message_says_how_long_it_waited_and_nothing_of_its_schedule() -> None:
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a", properties={"colour": "red"})
    stage.settle()
    fails(listener)
    passes(stage, 2)
    properties = properties_of(listener.deliveries[-1].message)
    assert properties.pop("scheduledJobId")
    assert properties == {"colour": "red", "redeliveryDelay": 2_000}


def test_an_acknowledged_redelivery_leaves_nothing_behind() -> None:
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    passes(stage, 2)
    listener.acknowledges("a", count=1)
    stage.settle()
    assert stage.memory() == 0
    assert stage.store.kept(parse_destination(Q)) == []
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_others_are_served_while_one_waits() -> None:
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a", "b")
    stage.settle()
    fails(listener)
    assert listener.takes() == ["a", "b"]
    passes(stage, 2)
    assert listener.takes() == ["a"]


@pytest.mark.parametrize("falls_back", [True, False])
def test_without_a_policy_it_is_a_dead_letter_or_gone(falls_back: bool) -> None:
    stage = played(of("queue://OTHER", falls_back=falls_back))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    passes(stage, 10)
    assert stage.has(DLQ) is falls_back
    assert stage.store.kept(parse_destination(Q)) == []
    assert stage.memory() == (stage.view(DLQ).memory_bytes if falls_back else 0)


def test_in_the_end_it_may_be_gone_as_well() -> None:
    never = RedeliveryPolicy(maximum_redeliveries=0)
    stage = played(of(Q, never, dead_letter_in_the_end=False))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    passes(stage, 10)
    assert not stage.has(DLQ)
    assert stage.store.kept(parse_destination(Q)) == []
    assert stage.memory() == 0


def test_the_most_specific_policy_holds_and_then_the_default() -> None:
    plugin = RedeliverySettings(
        (
            RedeliveryEntry(parse_destination("queue://>"), RedeliveryPolicy(initial_delay_ms=9_000)),
            RedeliveryEntry(parse_destination("queue://A.B"), RedeliveryPolicy(initial_delay_ms=2_000)),
            RedeliveryEntry(parse_destination("queue://A.*"), RedeliveryPolicy(initial_delay_ms=5_000)),
        ),
        RedeliveryPolicy(initial_delay_ms=20_000),
    )
    stage = played(plugin)
    peer = stage.peer("c")
    temporary = peer.temporary()
    for queue, seconds in (("queue://A.B", 2), ("queue://A.C", 5), ("queue://A.C.D", 9), (temporary, 20)):
        listener = peer.consumes(queue)
        stage.peer(f"p{seconds}").sends(queue, "a")
        stage.settle()
        fails(listener)
        passes(stage, seconds - 0.1)
        assert listener.takes() == ["a"]
        passes(stage, 0.1)
        assert listener.takes() == ["a"]


def test_what_expired_is_no_failure() -> None:
    stage = played(of("queue://>"))
    stage.peer("p").sends(Q, "a", expiration_ms=START_MS + 1_000)
    stage.settle()
    passes(stage, 40)
    assert stage.view(DLQ).pending == 1


def test_a_delay_grows_up_to_its_maximum() -> None:
    policy = RedeliveryPolicy(
        initial_delay_ms=1_000, delay_ms=1_500, exponential=True, multiplier=3.0, maximum_delay_ms=20_000
    )
    assert [policy.waits_ms(count) for count in range(5)] == [1_000, 3_000, 9_000, 20_000, 20_000]
    low = RedeliveryPolicy(initial_delay_ms=1_000, delay_ms=5_000, exponential=True, maximum_delay_ms=2_000)
    assert [low.waits_ms(count) for count in range(3)] == [1_000, 5_000, 5_000]
    flat = RedeliveryPolicy(initial_delay_ms=1_000, delay_ms=4_000)
    assert [flat.waits_ms(count) for count in range(3)] == [1_000, 4_000, 4_000]


@given(
    st.integers(0, 2**31 - 1),
    st.integers(1_000, 2**40),
    st.integers(1_000, 2**40),
    st.booleans(),
    st.floats(0, 1e300),
    st.integers(-1, 2**40),
)
@settings(max_examples=100)
def test_a_delay_is_always_found_and_never_longer_than_a_century(
    count: int, initial_ms: int, delay_ms: int, exponential: bool, multiplier: float, maximum_ms: int
) -> None:
    policy = RedeliveryPolicy(
        NO_MAXIMUM, initial_ms, delay_ms, exponential=exponential, multiplier=multiplier, maximum_delay_ms=maximum_ms
    )
    assert 0 <= policy.waits_ms(count) <= MAX_DELAY_MS


def test_a_collision_is_avoided_by_dice_within_its_percentage() -> None:
    policy = RedeliveryPolicy(initial_delay_ms=10_000, delay_ms=10_000, collision_avoidance=True, collision_percent=10)
    stage = played(of(Q, policy))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    passes(stage, 10)
    assert listener.takes() == ["a", "a"]
    fails(listener)
    dice = int.from_bytes(stage.environment.random_bytes(4), "big") / 2**31 - 1.0
    waits = 10.0 + 10.0 * dice * 0.1
    assert 9.0 <= waits <= 11.0 and waits != 10.0
    passes(stage, waits - 0.1)
    assert listener.takes() == []
    passes(stage, 0.2)
    assert listener.takes() == ["a"]


@pytest.mark.parametrize("clean", [True, False])
def test_a_waiting_redelivery_survives_a_restart(clean: bool) -> None:
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    stage = stage.restarts(clean=clean, scheduler=ON)
    listener = stage.peer("c").consumes(Q)
    passes(stage, 1.9)
    assert listener.takes() == []
    passes(stage, 0.1)
    assert listener.redelivery_counts() == [("a", 1)]
    fails(listener)
    passes(stage, 3)
    assert listener.redelivery_counts() == [("a", 2)]
    fails(listener)
    assert stage.view(DLQ).pending == 1


def test_at_every_instant_of_a_crash_there_is_one_of_it() -> None:
    """The failure, the delivery that follows, and the second failure, cut off after each call to the store."""
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    first = stage.store.position()
    fails(listener)
    passes(stage, 2)
    fails(listener)
    passes(stage, 3)
    assert listener.takes() == ["a", "a", "a"]
    for position in range(first, stage.store.position() + 1):
        again = stage.restarts(position=position, scheduler=ON)
        other = again.peer("c").consumes(Q)
        again.settle()
        passes(again, 10)
        assert other.takes() == ["a"], f"cut off at {position}"
        assert again.view(Q).pending == 1
        assert again.store.kept(SCHEDULED_MESSAGES) == []


def test_a_durable_subscriber_s_failure_is_redelivered_to_him_alone() -> None:
    stage = played(of("topic://T"))
    first = stage.peer("c1", "one").consumes("topic://T", durable="sub")
    second = stage.peer("c2", "two").consumes("topic://T", durable="sub")
    stage.peer("p").sends("topic://T", "a")
    stage.settle()
    fails(first)
    passes(stage, 2)
    assert first.redelivery_counts() == [("a", 0), ("a", 1)]
    assert second.takes() == ["a"]


def test_what_a_deleted_subscription_should_get_again_is_gone() -> None:
    stage = played(of("topic://T"))
    peer = stage.peer("c", "one")
    listener = peer.consumes("topic://T", durable="sub")
    stage.peer("p").sends("topic://T", "a")
    stage.settle()
    fails(listener)
    listener.leaves()
    peer.unsubscribes("sub")
    passes(stage, 10)
    assert stage.store.kept(SCHEDULED_MESSAGES) == []
    assert stage.memory() == 0


def test_a_queue_that_was_removed_meanwhile_is_made_again() -> None:
    stage = played(of(Q))
    peer = stage.peer("c")
    listener = peer.consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    fails(listener)
    listener.leaves()
    peer.removes(Q)
    passes(stage, 2)
    assert stage.view(Q).pending == 1


def test_without_room_in_the_schedule_it_is_a_dead_letter() -> None:
    stage = played(of(Q), max_jobs=1)
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a", "b")
    stage.settle()
    fails(listener, "a")
    fails(listener, "b")
    assert stage.view(DLQ).pending == 1
    passes(stage, 2)
    assert listener.takes() == ["a", "b", "a"]


def test_without_room_on_the_disk_it_stays_where_it_is_and_comes_back_when_there_is() -> None:
    stage = played(of(Q))
    listener = stage.peer("c").consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    stage.has_room(False)
    fails(listener)
    passes(stage, 100)
    assert listener.takes() == ["a"]
    assert len(stage.store.kept(parse_destination(Q))) == 1
    stage.has_room(True)
    stage.settle()
    passes(stage, 2)
    assert listener.redelivery_counts() == [("a", 1)]
    assert not stage.has(DLQ)


def test_in_a_transaction_it_is_a_dead_letter_at_once() -> None:
    stage = played(of(Q))
    peer = stage.peer("c")
    listener = peer.consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    peer.begins(1)
    listener.acknowledges("a", ack_type=POISON_ACK, count=1, transaction=1)
    peer.commits(1)
    stage.settle()
    assert stage.view(DLQ).pending == 1
    assert stage.store.kept(SCHEDULED_MESSAGES) == []


def test_the_last_plugin_of_the_configuration_is_asked_first() -> None:
    drops = DiscardingSettings()
    for plugins, comes_back in (((drops, of(Q)), True), ((of(Q), drops), False)):
        stage = Stage(scheduler=ON, plugins=PluginSettings(plugins))
        listener = stage.peer("c").consumes(Q)
        stage.peer("p").sends(Q, "a")
        stage.settle()
        fails(listener)
        passes(stage, 2)
        assert (listener.takes() == ["a", "a"]) is comes_back
        assert not stage.has(DLQ)


STEPS: Final = st.lists(
    st.sampled_from(["send", "fail", "fail", "acknowledge", "wait", "wait long", "crash"]), min_size=4, max_size=25
)


@pytest.mark.large
@given(STEPS, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_whatever_fails_waits_and_crashes_each_message_is_in_one_place(steps: list[str], random: Random) -> None:
    """Acknowledged messages alone may be gone, or back if the crash came before the disk knew."""
    stage = played(of("queue://>"))
    alive: set[str] = set()
    number = 0
    while steps:
        listener = stage.peer("c").consumes(Q)
        sender = stage.peer("p")
        crashed = False
        while steps and not crashed:
            stage.settle()
            safe = stage.store.position()
            step = steps.pop()
            number += 1
            doubtful: set[str] = set()
            if step == "send":
                sender.sends(Q, f"m{number}")
                doubtful.add(f"m{number}")
            elif step == "wait" or step == "wait long":
                stage.waits(2.0 if step == "wait" else 10.0)
            elif step == "crash":
                crashed = True
            elif out_at(listener):
                text = out_at(listener)[0]
                listener.acknowledges(text, ack_type=POISON_ACK if step == "fail" else STANDARD_ACK, count=1)
                doubtful.update({text} if step == "acknowledge" else set())
            if random.random() < 0.2:
                crashed = True
            if crashed:
                stage = stage.restarts(position=random.randint(safe, stage.store.position()), scheduler=ON)
                stage.settle()
                found = places(stage)
                assert all(found.count(text) <= 1 for text in doubtful)
                alive = (alive - doubtful) | {text for text in doubtful if text in found}
            else:
                stage.settle()
                alive = alive ^ doubtful
            assert sorted(places(stage)) == sorted(alive)


def out_at(listener: Listener) -> list[str]:
    """What the consumer has and did not acknowledge."""
    subscription = listener.subscription
    return [text_of(reference.message) for reference in subscription.in_flight.all_out()]


def places(stage: Stage) -> list[str]:
    """The texts of all messages that the store has, wherever."""
    return [text_of(message) for name in (Q, DLQ) for message in stage.store.kept(parse_destination(name))] + [
        text_of(message) for message in stage.store.kept(SCHEDULED_MESSAGES)
    ]
