"""The prefetch of a policy holds for consumers that ask for the default of their client."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.topic_policy import TopicPolicy
from spanwire.model.destination import QUEUE, TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Stage

T = "topic://T"
Q = "queue://Q"


def choosing(prefetch: int) -> Stage:
    return Stage(
        PolicyEntry(Destination(QUEUE, ">"), queue_prefetch=prefetch, queue_browser_prefetch=prefetch),
        PolicyEntry(Destination(TOPIC, ">"), topic_prefetch=prefetch, topic=TopicPolicy(durable_prefetch=prefetch)),
    )


@pytest.mark.parametrize(
    ("destination", "durable", "default"),
    [(Q, None, 1_000), (T, None, 32_766), (T, None, 32_767), (T, "s", 100), (T, "s", 1_000)],
)
def test_the_policy_s_prefetch_is_for_those_that_ask_for_the_default(
    destination: str, durable: str | None, default: int
) -> None:
    for asked, got in ((default, 3), (50, 20), (2, 2)):
        stage = choosing(3)
        consumer = stage.peer("a", client_id="c").consumes(destination, prefetch=asked, durable=durable)
        stage.peer("p").sends(destination, *[str(number) for number in range(20)])
        assert len(consumer.takes()) == got
        assert not consumer.was_told_to_pull


@pytest.mark.parametrize(("destination", "durable", "default"), [(Q, None, 1_000), (T, None, 32_767), (T, "s", 100)])
def test_with_a_prefetch_of_nothing_the_client_is_told_to_pull(
    destination: str, durable: str | None, default: int
) -> None:
    stage = choosing(0)
    consumer = stage.peer("a", client_id="c").consumes(destination, prefetch=default, durable=durable)
    stage.peer("p").sends(destination, "1", "2")
    assert consumer.was_told_to_pull and consumer.takes() == []
    consumer.pulls(-1)
    assert consumer.takes() == ["1"]


def test_who_cannot_pull_keeps_its_prefetch() -> None:
    stage = choosing(0)
    consumer = stage.peer("a").announces(Q, prefetch=1_000, pulls_when_told=False)
    stage.broker.start_consumer(consumer.subscription, stage.now)
    stage.peer("p").sends(Q, "1", "2")
    assert consumer.takes() == ["1", "2"]


def test_a_browser_has_a_prefetch_of_its_own() -> None:
    stage = choosing(0)
    stage.peer("p").sends(Q, "1", "2")
    browser = stage.peer("a").consumes(Q, prefetch=500, browser=True)
    assert browser.was_told_to_pull and browser.takes() == []
    for expected in (["1"], ["2"], []):
        browser.pulls(-1)
        assert browser.takes() == expected
    assert browser.ends > 0
