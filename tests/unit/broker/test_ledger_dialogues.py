"""Each message that comes to a queue leaves it by one way, which the broker and its store name alike."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from spanwire.broker.admin.ledger_views import MAX_SUSPECTS, REMOVED, SINCE_START, LedgerView
from spanwire.broker.dispatch.broker_context import MAX_COUNTED
from spanwire.broker.dispatch.history.lost_messages import MAX_NAMES as MAX_LOST
from spanwire.broker.dispatch.history.lost_messages import OTHERS, LostMessages
from spanwire.broker.metadata import LOST_MESSAGES, MAX_VALUE_BYTES
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.queue import Queue
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import QUEUE as QUEUE_KIND
from spanwire.model.destination import Destination
from spanwire.model.ledger import NAMES
from tests.support.dialogue.broker_dialogue import START_MS, Stage, destination
from tests.support.dialogue.text_format import text_message
from tests.support.late_store import LateStore

QUEUE: Final = "queue://Q"
DLQ: Final = "queue://ActiveMQ.DLQ"
KEPT: Final = PolicyEntry(destination(QUEUE))
DROPPED: Final = PolicyEntry(destination(QUEUE), dead_letter=DeadLetterStrategy(process_expired=False))


class Nobody:
    """Who asked for an operation and hears nothing."""

    def may_go_on(self, count: int) -> bool:
        return True

    def on_finished(self, count: int, passed: int) -> None:
        pass


def row(stage: Stage, name: str = QUEUE) -> LedgerView:
    """The equation of a queue, which holds."""
    stage.settle()
    rows = {view.destination: view for view in stage.broker.overview.ledger_views() if view.scope == SINCE_START}
    assert all(view.adds_up for view in rows.values()), rows
    return rows[name]


def sums(stage: Stage, name: str = QUEUE) -> dict[str, int]:
    """The sums of a queue above 0; those of the store are the same, because each message was persistent."""
    view = row(stage, name)
    found = {term: getattr(view, term) for term in NAMES if getattr(view, term)}
    stored = stage.store.ledger_of(destination(name)).counts
    assert found == {term: stored[index] for index, term in enumerate(NAMES) if stored[index]}
    return found


def test_what_consumers_take_is_acknowledged_and_the_rest_is_pending() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    listener = stage.peer("c").consumes(QUEUE, prefetch=2)
    stage.settle()
    listener.acknowledges("1")
    assert sums(stage) == {"sent": 3, "acknowledged": 1}
    assert row(stage).pending == 2


def test_what_a_consumer_gives_up_becomes_a_dead_letter() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    listener = stage.peer("c").consumes(QUEUE)
    stage.settle()
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    assert sums(stage) == {"sent": 2, "dead_lettered": 1}
    assert sums(stage, DLQ) == {"dead_letters": 1}


def test_what_expires_becomes_a_dead_letter_or_is_gone_as_the_policy_says() -> None:
    for policy, expected in ((KEPT, "dead_lettered"), (DROPPED, "expired")):
        stage = Stage(replace(policy, expire_messages_period_ms=1_000))
        stage.peer("p").sends(QUEUE, "1", expiration_ms=START_MS + 500)
        stage.settle()
        for _ in range(3):
            stage.waits(2)
            stage.settle()
        assert sums(stage) == {"sent": 1, expected: 1}


def test_what_a_transaction_gives_up_leaves_by_another_way_than_what_it_takes() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    consumer = stage.peer("c")
    listener = consumer.consumes(QUEUE)
    stage.settle()
    consumer.begins(1)
    listener.acknowledges("1", transaction=1)
    listener.acknowledges("2", ack_type=POISON_ACK, count=1, transaction=1)
    consumer.sends("queue://R", "4", transaction=1)
    consumer.commits(1)
    assert sums(stage) == {"sent": 3, "acknowledged": 1, "dead_lettered": 1}
    assert sums(stage, DLQ) == {"dead_letters": 1}
    assert sums(stage, "queue://R") == {"sent": 1}


def test_what_an_operator_moves_removes_or_purges_has_a_way_of_its_own() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    stage.settle()
    operations, now = stage.broker.operations, stage.now
    operations.transfer(destination(QUEUE), destination("queue://R"), False, None, Nobody(), 1, now)
    stage.settle()
    operations.transfer(destination(QUEUE), destination("queue://R"), True, None, Nobody(), 1, now)
    stage.settle()
    operations.remove(destination(QUEUE), None, Nobody(), 1, now)
    stage.settle()
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    queue.purge()
    assert sums(stage) == {"sent": 4, "purged": 3, "moved_out": 1}
    assert sums(stage, "queue://R") == {"moved_in": 2}


def test_a_dead_letter_that_is_retried_comes_back_as_moved() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.settle()
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    stage.settle()
    stage.broker.operations.retry(destination(DLQ), None, Nobody(), 10, stage.now)
    assert sums(stage, DLQ) == {"dead_letters": 1, "moved_out": 1}
    assert sums(stage) == {"sent": 1, "moved_in": 1, "dead_lettered": 1}


def test_the_sums_of_a_removed_queue_stay_in_those_of_all_removed_ones() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.settle()
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    queue.purge()
    stage.settle()
    stage.broker.administration.remove_destination(destination(QUEUE), stage.now)
    view = row(stage, REMOVED)
    assert (view.sent, view.purged, view.pending) == (2, 2, 0)


def test_a_reset_of_the_counters_leaves_the_ledger_alone() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.settle()
    listener.acknowledges("1")
    stage.broker.administration.reset_statistics(destination(QUEUE), stage.now)
    assert sums(stage) == {"sent": 2, "acknowledged": 1}


def test_after_a_restart_messages_in_the_store_are_found_and_others_are_lost_with_the_memory() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "kept")
    stage.peer("p2").sends(QUEUE, "lost", persistent=False)
    stage.settle()
    again = stage.restarts()
    view = row(again)
    assert (view.found, view.sent, view.pending) == (1, 0, 1)


def test_a_duplicate_is_counted_and_does_not_come() -> None:
    stage = Stage()
    producer = stage.peer("p", reconnected=True)
    message = text_message(destination(QUEUE), 1)
    producer.sends_message(message)
    producer.sends_message(text_message(destination(QUEUE), 1))
    view = row(stage)
    assert (view.sent, view.duplicates) == (1, 1)


def test_the_duplicates_of_so_many_destinations_are_counted() -> None:
    context = Stage().broker.assembly.context
    for number in range(MAX_COUNTED + 5):
        context.note_duplicate(1, text_message(destination(f"queue://{number}"), 1), "c")
    context.note_duplicate(1, text_message(destination("queue://0"), 1), "c")
    assert (len(context.duplicates), context.duplicates["queue://0"]) == (MAX_COUNTED, 2)


@pytest.mark.parametrize("planted", [1, -2])
def test_an_equation_that_does_not_hold_names_what_left_lately(planted: int) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, *(str(number) for number in range(MAX_SUSPECTS + 5)))
    listener = stage.peer("c").consumes(QUEUE)
    stage.settle()
    for text in list(listener.out)[: MAX_SUSPECTS + 2]:
        listener.acknowledges(text, ack_type=POISON_ACK, count=1)
    stage.settle()
    queue = stage.broker.find_destination(destination(QUEUE))
    assert isinstance(queue, Queue)
    queue.enqueued += planted
    broken = [view for view in stage.broker.overview.ledger_views() if not view.adds_up]
    assert [(view.destination, view.scope, view.difference) for view in broken] == [(QUEUE, SINCE_START, planted)]
    assert len(broken[0].suspects) == MAX_SUSPECTS
    assert broken[0].suspects[0].startswith("dead-lettered ID:p")


def stopped(stage: Stage, clean: bool = True) -> Stage:
    """The broker that follows on the store of one that has stopped."""
    stage.settle()
    stage.broker.stop(stage.now)
    store = stage.store.crash(stage.store.position())
    after = Stage(store=store)
    after.broker.recover(store.recovered(), clean, after.now, store.metadata)
    return after


def recent(stage: Stage) -> dict[str, tuple[int, bool]]:
    """What the broker before has lost with its memory, by destination, and whether that is known."""
    views = [view for view in stage.broker.overview.ledger_views() if view.scope == SINCE_START]
    assert all(view.adds_up for view in views)
    return {view.destination: (view.lost, view.lost_is_known) for view in views}


def test_what_an_orderly_stop_loses_with_the_memory_is_counted_exactly() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "kept")
    producer.sends(QUEUE, *"abc", persistent=False)
    producer.sends("queue://R", "d", "e", persistent=False)
    listener = stage.peer("c").consumes(QUEUE, prefetch=3)
    stage.settle()
    listener.acknowledges_one("b")
    after = stopped(stage)
    assert recent(after) == {QUEUE: (2, True), "queue://R": (2, True), REMOVED: (0, True)}
    assert recent(stopped(after)) == {QUEUE: (0, True), "queue://R": (0, True), REMOVED: (0, True)}


def test_what_a_crash_loses_with_the_memory_is_unknown_also_after_a_stop_before() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "a", persistent=False)
    stage.peer("q").sends(QUEUE, "b")
    assert recent(stopped(stage, clean=False))[QUEUE] == (0, False)
    after = stopped(stopped(Stage()))
    store = after.store.crash(after.store.position())
    crashed = Stage(store=store)
    crashed.broker.recover(store.recovered(), False, crashed.now, store.metadata)
    assert recent(crashed) == {REMOVED: (0, False)}


def test_lost_messages_of_many_destinations_are_counted_together_beyond_a_limit() -> None:
    store = LateStore()
    lost = LostMessages(store, store)
    lost.note_stop([(Destination(QUEUE_KIND, f"{number:05}"), number) for number in range(MAX_LOST + 3)])
    after = LostMessages(store, store)
    after.restore(store.metadata[LOST_MESSAGES], True)
    assert (len(after.counts), after.counts[OTHERS]) == (MAX_LOST + 1, 1 + 2)
    assert LOST_MESSAGES not in store.metadata or not store.metadata[LOST_MESSAGES]
    long = [(Destination(QUEUE_KIND, "\u20ac" * 300 + str(number)), 1) for number in range(MAX_LOST)]
    lost.note_stop(long)
    assert len(store.metadata[LOST_MESSAGES][b"stop"]) < MAX_VALUE_BYTES
