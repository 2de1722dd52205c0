"""Acknowledged means synced: no answer before the store says so (JMS 1.1 §4.7)."""

from __future__ import annotations

import pytest

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.errors import StoreError
from tests.support.dialogue.broker_dialogue import Stage, destination

QUEUE = "queue://Q"


def test_a_persistent_send_is_answered_when_it_is_stored_and_dispatched_before() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "1")
    assert listener.takes() == ["1"]
    assert not producer.is_answered(token)
    stage.syncs()
    assert producer.is_answered(token)


def test_answers_follow_the_position_and_not_the_order_of_calls() -> None:
    stage = Stage()
    producer = stage.peer("p")
    first = producer.sends(QUEUE, "1")
    between = stage.store.position()
    second = producer.sends(QUEUE, "2")
    stage.store.sync(stage.broker, stage.now, between)
    assert producer.is_answered(first)
    assert not producer.is_answered(second)
    stage.syncs()
    assert producer.is_answered(second)


@pytest.mark.parametrize("target", ["topic://T", QUEUE, "temp-queue://ID:p:1:9"])
def test_what_is_not_stored_is_answered_at_once(target: str) -> None:
    stage = Stage()
    producer = stage.peer("p")
    if target.startswith("temp"):
        producer.creates(target)
    stage.syncs()
    assert producer.is_answered(producer.sends(target, "1", persistent=target != QUEUE))


def test_a_broker_without_a_store_answers_at_once() -> None:
    stage = Stage(persistent=False)
    producer = stage.peer("p")
    assert producer.is_answered(producer.sends(QUEUE, "1"))
    assert stage.peer("c").consumes(QUEUE).takes() == ["1"]


def test_a_composite_is_answered_when_its_copies_are_stored_all_of_them_together() -> None:
    stage = Stage()
    producer = stage.peer("p")
    token = producer.sends("queue://A,B,topic://T", "1")
    positions = [change.position for change in stage.store.log if change.kind == "add"]
    assert len(positions) == 2 and positions[0] == positions[1]
    stage.store.sync(stage.broker, stage.now, positions[0] - 1)
    assert not producer.is_answered(token)
    stage.store.sync(stage.broker, stage.now, positions[0])
    assert producer.is_answered(token)


def test_an_acknowledgement_that_wants_an_answer_waits_for_the_removal() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stage.syncs()
    token = listener.acknowledges("1", answer=True)
    assert stage.store.calls("remove") == ["remove queue://Q 1"]
    assert not peer.is_answered(token)
    stage.syncs()
    assert peer.is_answered(token)


def test_an_acknowledgement_of_a_volatile_message_is_answered_at_once() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", persistent=False)
    assert peer.is_answered(listener.acknowledges("1", answer=True))
    assert stage.store.calls("add") == []


def test_a_message_acknowledged_before_its_sync_is_answered_with_its_removal() -> None:
    stage = Stage()
    peer, producer = stage.peer("c"), stage.peer("p")
    listener = peer.consumes(QUEUE)
    sent = producer.sends(QUEUE, "1")
    acknowledged = listener.acknowledges("1", answer=True)
    assert not producer.is_answered(sent)
    assert not peer.is_answered(acknowledged)
    stage.syncs()
    assert producer.is_answered(sent)
    assert peer.is_answered(acknowledged)


def test_dispatch_may_wait_for_the_sync_when_the_policy_says_so() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dispatch_before_sync=False))
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "1")
    assert listener.takes() == []
    stage.syncs()
    assert listener.takes() == ["1"]
    assert producer.is_answered(token)


def test_volatile_messages_do_not_overtake_those_that_wait_for_the_sync() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dispatch_before_sync=False))
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1")
    volatile = producer.sends(QUEUE, "2", persistent=False)
    assert listener.takes() == []
    assert producer.is_answered(volatile)  # its answer promises nothing that the disk must keep
    stage.syncs()
    assert listener.takes() == ["1", "2"]
    producer.sends(QUEUE, "3", persistent=False)
    assert listener.takes() == ["3"]


def test_a_message_whose_queue_is_removed_before_the_sync_goes_with_it() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dispatch_before_sync=False))
    producer = stage.peer("p")
    token = producer.sends(QUEUE, "1")
    producer.removes(QUEUE)
    stage.syncs()
    assert producer.is_answered(token)
    assert stage.memory() == 0
    assert stage.peer("c").consumes(QUEUE).takes() == []


def test_a_message_that_expires_while_it_waits_for_the_sync_is_not_delivered() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), dispatch_before_sync=False))
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", expiration_ms=stage.now.wall_ms + 100)
    stage.environment.advance(1.0)
    stage.settle()
    assert listener.takes() == []
    assert stage.view(QUEUE).expired == 1
    assert stage.view(QUEUE).pending == 0


def test_nothing_is_answered_after_the_store_has_failed() -> None:
    stage = Stage()
    producer = stage.peer("p")
    first = producer.sends(QUEUE, "1")
    failure = StoreError("the disk is gone")
    stage.broker.store_failed(failure, stage.now)
    with pytest.raises(StoreError):
        producer.is_answered(first)
    assert producer.closed_with is failure
    second = producer.sends(QUEUE, "2")
    assert not producer.is_answered(second)


def test_after_a_failure_of_the_store_nobody_is_served_while_others_are_told() -> None:
    stage = Stage()
    peers = [stage.peer(f"p{number}") for number in range(1_000)]
    tokens = [peer.sends(QUEUE, "1") for peer in peers]
    failure = StoreError("the disk is gone")
    stage.broker.store_failed(failure, stage.now)
    assert {peer.closed_with for peer in peers} == {failure}  # in one turn: in a slice behind it others would be served
    for peer, token in zip(peers, tokens, strict=True):
        with pytest.raises(StoreError):
            peer.is_answered(token)


def test_queues_are_remembered_and_forgotten_by_the_store_and_temporary_ones_are_not() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.creates(QUEUE)
    peer.creates("topic://T")
    peer.temporary()
    peer.removes(QUEUE)
    assert stage.store.calls("make") == ["make queue://Q 0"]
    assert stage.store.calls("drop") == ["drop queue://Q 0"]


def test_a_volatile_message_on_a_temporary_queue_never_reaches_the_store() -> None:
    stage = Stage()
    peer = stage.peer("p")
    name = peer.temporary()
    listener = peer.consumes(name)
    peer.sends(name, "1")
    listener.acknowledges("1")
    assert stage.store.log == []


def test_after_a_power_cut_everything_that_was_answered_is_there_and_says_it_may_be_a_double() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2")
    stage.syncs()
    producer.sends(QUEUE, "3")
    again = stage.restarts()
    assert again.view(QUEUE).pending == 2
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.redelivery_counts() == [("1", 1), ("2", 1)]


def test_after_a_stop_in_order_only_those_that_were_out_say_that_they_may_be_doubles() -> None:
    stage = Stage()
    peer, producer = stage.peer("c"), stage.peer("p")
    listener = peer.consumes(QUEUE, prefetch=1)
    producer.sends(QUEUE, "1", "2")
    assert listener.takes() == ["1"]
    stage.broker.stop(stage.now)
    assert peer.closed_with is not None
    stage.syncs()
    again = stage.restarts(clean=True)
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.redelivery_counts() == [("1", 1), ("2", 0)]


def test_a_stop_in_order_hands_nothing_to_those_who_are_told_last() -> None:
    stage = Stage()
    first, second = (stage.peer(name).consumes(QUEUE, prefetch=1) for name in "ab")
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.broker.stop(stage.now)
    assert (first.takes(), second.takes()) == (["1"], ["2"])
    stage.syncs()
    again = stage.restarts(clean=True)
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.redelivery_counts() == [("1", 1), ("2", 1), ("3", 0)]


def test_what_a_power_cut_left_uncertain_stays_so_over_a_stop_in_order() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    stage.peer("c").consumes(QUEUE)
    stage.syncs()
    again = stage.restarts()
    again.peer("p").sends(QUEUE, "4")
    listener = again.peer("c").consumes(QUEUE, prefetch=1)
    again.settle()
    assert listener.takes() == ["1"]
    again.broker.stop(again.now)
    again.syncs()
    third = again.restarts(clean=True)
    listener = third.peer("c").consumes(QUEUE)
    third.settle()
    assert listener.redelivery_counts() == [("1", 2), ("2", 1), ("3", 1), ("4", 0)]


def test_redelivery_counts_survive() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    for name in "abc":
        stage.peer(name).consumes(QUEUE, prefetch=1).leaves()
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.redelivery_counts() == [("1", 3), ("2", 1)]


def test_new_messages_stand_behind_the_recovered_ones() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1", "2")
    stage.syncs()
    again = stage.restarts()
    producer = again.peer("p")
    producer.sends(QUEUE, "3")
    producer.sends(QUEUE, "4", persistent=False)
    listener = again.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "5")
    again.settle()
    assert listener.redelivery_counts() == [("1", 1), ("2", 1), ("3", 0), ("4", 0), ("5", 0)]


def test_acknowledged_messages_do_not_come_back() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    listener.acknowledges("1")
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE)
    again.settle()
    assert listener.takes() == ["2"]
    listener.acknowledges("2")
    again.syncs()
    assert again.restarts().view(QUEUE).pending == 0


def test_an_empty_queue_is_there_after_a_restart() -> None:
    stage = Stage()
    stage.peer("p").creates(QUEUE)
    stage.syncs()
    assert stage.restarts().has(QUEUE)
