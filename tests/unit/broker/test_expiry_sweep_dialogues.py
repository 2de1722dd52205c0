"""How often each queue is looked through for expired messages (``expireMessagesPeriod``)."""

from __future__ import annotations

import pytest

from spanwire.broker.destinations.expiry_schedule import MIN_PERIOD_SECONDS
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.policy.policy_entry import PolicyEntry
from tests.support.dialogue.broker_dialogue import Stage, destination


def each(pattern: str, period_ms: int) -> PolicyEntry:
    return PolicyEntry(destination(pattern), expire_messages_period_ms=period_ms)


def short(stage: Stage, *names: str) -> None:
    """A message for each queue whose time is over in a moment."""
    for name in names:
        stage.peer(f"p{name}").sends(name, "short", expiration_ms=stage.now.wall_ms + 1)


def passes(stage: Stage, seconds: float) -> None:
    stage.waits(seconds)
    stage.settle()


def test_each_queue_is_looked_through_after_the_time_of_its_own_policy() -> None:
    stage = Stage(each("queue://OFTEN", 1_000), each("queue://SELDOM", 120_000), each("queue://NEVER", 0))
    names = ["queue://OFTEN", "queue://USUAL", "queue://SELDOM", "queue://NEVER"]
    for name in names:
        stage.peer(f"m{name}").creates(name)
    stage.settle()
    short(stage, *names)
    found: dict[str, int] = {}
    for second in range(1, 200):
        assert stage.broker.next_timeout() is not None
        passes(stage, 1.0)
        for name in names:
            if stage.view(name).expired and name not in found:
                found[name] = second
    assert found == {"queue://OFTEN": 1, "queue://USUAL": 30, "queue://SELDOM": 120}


def test_a_broker_that_never_looks_has_nothing_to_wait_for() -> None:
    stage = Stage(each("queue://>", 0), each("topic://>", 0))
    short(stage, "queue://Q")
    passes(stage, 1_000.0)
    assert stage.view("queue://Q").expired == 0
    listener = stage.peer("c").consumes("queue://Q")
    assert listener.takes() == []
    assert stage.view("queue://Q").expired == 1


def test_no_period_is_so_short_that_the_broker_does_nothing_else() -> None:
    stage = Stage(each("queue://>", 1))
    stage.settle()
    due = stage.broker.next_timeout()
    assert due is not None
    assert due >= stage.now.monotonic + MIN_PERIOD_SECONDS - 1e-9


def test_a_queue_that_was_removed_is_forgotten_and_one_that_is_made_again_is_looked_through() -> None:
    stage = Stage(each("queue://>", 1_000))
    peer = stage.peer("m")
    peer.creates("queue://Q")
    stage.settle()
    peer.removes("queue://Q")
    passes(stage, 1.0)
    short(stage, "queue://Q")
    passes(stage, 1.0)
    assert stage.view("queue://Q").expired == 1


@pytest.mark.parametrize(("there", "also_active", "expires"), [
    (False, False, True), (True, False, False), (True, True, True),
])  # fmt: skip
def test_a_durable_subscription_is_looked_through_while_its_subscriber_is_away_or_if_the_broker_is_told_so(
    there: bool, also_active: bool, expires: bool
) -> None:
    stage = Stage(each("topic://>", 1_000), upkeep=UpkeepSettings(expire_active_durables=also_active))
    subscriber = stage.peer("c", "client").consumes("topic://T", durable="s", prefetch=1)
    sender = stage.peer("p")
    sender.sends("topic://T", "first")
    sender.sends("topic://T", "short", expiration_ms=stage.now.wall_ms + 1)
    stage.settle()
    assert subscriber.takes() == ["first"]
    if not there:
        subscriber.leaves()
    for _ in range(5):
        passes(stage, 1.0)
    dead = [str(message.destination) for message in stage.store.kept(destination("queue://ActiveMQ.DLQ"))]
    assert dead == (["queue://ActiveMQ.DLQ"] if expires else [])
    if there:
        subscriber.acknowledges("first")
        stage.settle()
        assert subscriber.takes() == []
        assert len(stage.store.kept(destination("queue://ActiveMQ.DLQ"))) == 1
