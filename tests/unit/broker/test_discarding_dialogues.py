"""Dead letters that are dropped, by plug-in or by strategy, and those that expire (ActiveMQ, "Message Redelivery and
DLQ Handling").
"""

from __future__ import annotations

import logging
from typing import Final

import pytest

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.plugins.discarding_plugin import MAX_KNOWN, Discarding, DiscardingSettings, name_pattern
from spanwire.broker.plugins.plugin_settings import PluginSettings
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy, IndividualNames
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.routing.dead_letters import DROP, KEEP
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.errors import InvalidSelectorError
from tests.support.dialogue.broker_dialogue import START_MS, Stage
from tests.support.dialogue.text_format import properties_of, text_message

Q: Final = "queue://Q"
DLQ: Final = "queue://ActiveMQ.DLQ"
ONLY_NAMED: Final = DiscardingSettings(drop_all=False, drop_temporary_topics=False, drop_temporary_queues=False)


def dies(stage: Stage, queue: str = Q, text: str = "a") -> None:
    """A message is sent and given up."""
    peer = stage.peer(f"of {text} for {queue}")
    listener = peer.consumes(queue)
    stage.peer(f"to {queue} with {text}").sends(queue, text)
    stage.settle()
    listener.acknowledges(text, ack_type=POISON_ACK, count=1)
    stage.settle()
    listener.leaves()


def letters(stage: Stage) -> int:
    return stage.view(DLQ).pending if stage.has(DLQ) else 0


def test_all_of_them_are_dropped_and_leave_nothing() -> None:
    stage = Stage(plugins=PluginSettings((DiscardingSettings(),)))
    dies(stage)
    stage.peer("p").sends(Q, "late", expiration_ms=START_MS + 1_000)
    stage.settle()
    stage.waits(40)
    stage.settle()
    stage.peer("p2").sends(Q, "too late", expiration_ms=START_MS + 1_000)
    stage.settle()
    assert letters(stage) == 0
    assert stage.store.kept(parse_destination(Q)) == []
    assert stage.memory() == 0
    assert stage.view(Q).dequeued == 2
    assert stage.view(Q).expired == 2


@pytest.mark.parametrize("transacted", [True, False])
def test_in_a_transaction_they_are_dropped_as_well(transacted: bool) -> None:
    stage = Stage(plugins=PluginSettings((DiscardingSettings(),)))
    peer = stage.peer("c")
    listener = peer.consumes(Q)
    stage.peer("p").sends(Q, "a")
    stage.settle()
    if transacted:
        peer.begins(1)
    listener.acknowledges("a", ack_type=POISON_ACK, count=1, transaction=1 if transacted else 0)
    if transacted:
        peer.commits(1)
    stage.settle()
    assert letters(stage) == 0
    assert stage.store.kept(parse_destination(Q)) == []


def test_only_what_is_named_is_dropped() -> None:
    named = DiscardingSettings(False, False, False, ("ORDERS\\..*", "LOG"))
    stage = Stage(plugins=PluginSettings((named,)))
    for queue, kept in (
        ("queue://ORDERS.EU", 0), ("queue://ORDERS", 1), ("queue://LOG", 1), ("queue://LOGS", 2), ("queue://MY.LOG", 3),
    ):  # fmt: skip
        dies(stage, queue)
        assert letters(stage) == kept, queue


def test_those_of_temporary_destinations_are_dropped_by_their_kind() -> None:
    for drops, kept in ((True, 0), (False, 1)):
        settings = DiscardingSettings(False, not drops, drops)
        stage = Stage(plugins=PluginSettings((settings,)))
        peer = stage.peer("c")
        queue = peer.temporary()
        listener = peer.consumes(queue)
        stage.peer("p").sends(queue, "a")
        stage.settle()
        listener.acknowledges("a", ack_type=POISON_ACK, count=1)
        stage.settle()
        assert letters(stage) == kept


def test_without_a_reason_to_drop_the_policy_decides() -> None:
    stage = Stage(plugins=PluginSettings((ONLY_NAMED,)))
    dies(stage)
    assert letters(stage) == 1


def test_each_so_many_of_them_are_told(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(plugins=PluginSettings((DiscardingSettings(report_interval=3),)))
    with caplog.at_level(logging.INFO, Discarding.__module__):
        for number in range(7):
            dies(stage, text=f"m{number}")
    assert [record.getMessage().split()[0] for record in caplog.records] == ["3", "6"]


def test_a_pattern_is_of_the_whole_name_and_no_trick() -> None:
    assert name_pattern("A|B").is_found_in("B")
    assert not name_pattern("A|B").is_found_in("AB")
    assert not name_pattern("A|B").is_found_in("XB")
    with pytest.raises(InvalidSelectorError):
        name_pattern("A)|(B")
    with pytest.raises(InvalidSelectorError):
        name_pattern("(A" * 100)


def test_what_patterns_say_of_a_name_is_remembered_within_a_limit() -> None:
    rule = Discarding(DiscardingSettings(False, False, False, ("A.*",)))
    entry = PolicyEntry(parse_destination(Q))
    for number in range(2 * MAX_KNOWN + 1):
        name = f"{'AB'[number % 2]}{number}"
        message = text_message(parse_destination(f"queue://{name}"), 1)
        reference = MessageReference(BrokerDestination(message.destination, entry, MemoryUsage(0)), message, 0, 0, 0)
        assert rule.fate(reference, "x") == rule.fate(reference, "x") == (DROP if name[0] == "A" else KEEP)
        assert len(rule.known) <= MAX_KNOWN
    assert rule.dropped == 2 * (MAX_KNOWN + 1)


def test_a_strategy_that_discards_keeps_none() -> None:
    stage = Stage(PolicyEntry(parse_destination(Q), dead_letter=DeadLetterStrategy(discards=True)))
    dies(stage)
    dies(stage, "queue://OTHER")
    stage.peer("p").sends(Q, "late", expiration_ms=START_MS + 1_000)
    stage.settle()
    stage.waits(40)
    stage.settle()
    assert letters(stage) == 1
    assert stage.store.kept(parse_destination(Q)) == []


def test_dead_letters_expire_where_their_strategy_says_so() -> None:
    strategy = DeadLetterStrategy(expiration_ms=60_000)
    stage = Stage(PolicyEntry(parse_destination(Q), dead_letter=strategy))
    dies(stage)
    (letter,) = stage.store.kept(parse_destination(DLQ))
    assert letter.expiration_ms == stage.now.wall_ms + 60_000
    assert "originalExpiration" not in properties_of(letter)
    stage.waits(59)
    stage.settle()
    assert letters(stage) == 1
    stage.waits(31)
    stage.settle()
    assert letters(stage) == 0
    assert stage.store.kept(parse_destination(DLQ)) == []


def of_its_own(pattern: str, *, queue_for_queues: bool = True, per_durable_subscriber: bool = False) -> PolicyEntry:
    names = IndividualNames(
        "DQ.", "DT.", queue_for_queues=queue_for_queues, per_durable_subscriber=per_durable_subscriber
    )
    strategy = DeadLetterStrategy(individual=names)
    return PolicyEntry(parse_destination(pattern), dead_letter=strategy)


def test_dead_letters_of_a_queue_can_go_to_a_topic() -> None:
    stage = Stage(of_its_own("queue://>", queue_for_queues=False), of_its_own("topic://>", queue_for_queues=False))
    listener = stage.peer("l").consumes("topic://DQ.Q")
    durable = stage.peer("d", "d").consumes("topic://DQ.Q", durable="letters")
    away = stage.peer("a", "a").consumes("topic://DQ.Q", durable="letters")
    away.leaves()
    dies(stage)
    assert listener.takes() == durable.takes() == ["a"]
    assert stage.store.kept(parse_destination(Q)) == []
    durable.acknowledges("a", ack_type=POISON_ACK, count=1)  # it does not go round
    stage.settle()
    assert listener.takes() == []
    assert not stage.has("topic://DT.DQ.Q") and not stage.has("queue://DT.DQ.Q")
    stage = stage.restarts(
        policies=(of_its_own("queue://>", queue_for_queues=False), of_its_own("topic://>", queue_for_queues=False))
    )
    again = stage.peer("a", "a").consumes("topic://DQ.Q", durable="letters")
    stage.settle()
    assert again.takes() == ["a"]


def test_nobody_listens_to_a_topic_of_dead_letters_and_they_are_gone() -> None:
    stage = Stage(of_its_own("queue://>", queue_for_queues=False))
    dies(stage)
    assert stage.memory() == 0
    assert stage.store.kept(parse_destination(Q)) == []
    assert stage.view("topic://DQ.Q").enqueued == 1


@pytest.mark.parametrize("transacted", [True, False])
def test_durable_subscribers_can_have_their_own_dead_letters(transacted: bool) -> None:
    stage = Stage(of_its_own("topic://>", per_durable_subscriber=True))
    for client in ("one", "two"):
        stage.peer(client, client).consumes("topic://T", durable="sub")
    peer = stage.peer("odd", "a,b*")
    odd = peer.consumes("topic://T", durable="sub")
    listener = stage.peer("three", "three").consumes("topic://T", durable="sub")
    stage.peer("p").sends("topic://T", "a")
    stage.settle()
    for failing in (listener, odd):
        if transacted:
            failing.peer.begins(1)
        failing.acknowledges("a", ack_type=POISON_ACK, count=1, transaction=1 if transacted else 0)
        if transacted:
            failing.peer.commits(1)
        stage.settle()
    assert stage.view("queue://DT.T.three:sub").pending == 1
    assert letters(stage) == 1  # a name that no queue can have
    assert not stage.has("queue://DT.T.one:sub")


@pytest.mark.parametrize(("lifetime_ms", "left_ms"), [(0, 0), (3_600_000, 3_600_000)])
def test_a_dead_letter_that_would_expire_is_retried_with_its_own_time_to_live(lifetime_ms: int, left_ms: int) -> None:
    stage = Stage(PolicyEntry(parse_destination(Q), dead_letter=DeadLetterStrategy(expiration_ms=60_000)))
    listener = stage.peer("c").consumes(Q)
    expiration_ms = START_MS + lifetime_ms if lifetime_ms else 0
    stage.peer("p").sends(Q, "a", timestamp_ms=START_MS, expiration_ms=expiration_ms)
    stage.settle()
    listener.acknowledges("a", ack_type=POISON_ACK, count=1)
    stage.settle()
    stage.waits(10)
    stage.broker.operations.retry(parse_destination(DLQ), None, Counting(), 10, stage.now)
    stage.settle()
    (message,) = stage.store.kept(parse_destination(Q))
    assert message.expiration_ms == (stage.now.wall_ms + left_ms if left_ms else 0)


class Counting:
    """Duck-typed to `spanwire.broker.admin.selective_walk.OperationObserver`."""

    def may_go_on(self, count: int) -> bool:
        return True

    def on_finished(self, count: int, passed: int) -> None:
        assert (count, passed) == (1, 0)
