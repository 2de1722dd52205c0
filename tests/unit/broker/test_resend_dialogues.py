"""Failover clients send again what was not answered: one message each, however often, and none is lost for it."""

from __future__ import annotations

import pytest

from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.destination import parse_destination
from spanwire.model.errors import InvalidClientIdError, JmsError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo
from tests.support.dialogue.broker_dialogue import Peer, Stage
from tests.support.dialogue.text_format import text_of

QUEUE = "queue://Q"


def again(stage: Stage, peer: Peer) -> Peer:
    """The same client on its next connection."""
    peer.leaves()
    return stage.peer(peer.name, reconnected=True)


def kept(stage: Stage, queue: str = QUEUE) -> list[str]:
    """What the store has."""
    return [text_of(message) for message in stage.store.kept(parse_destination(queue))]


def test_what_is_sent_again_is_answered_and_not_taken() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    peer.sends_message(message)
    stage.syncs()
    peer = again(stage, peer)
    assert peer.is_answered(peer.sends_message(message))
    assert kept(stage) == ["1"]
    assert stage.broker.assembly.producer_audit.duplicates == 1
    assert stage.peer("c").consumes(QUEUE).takes() == ["1"]


def test_the_answer_to_a_repeated_send_waits_until_the_first_one_is_safe() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    peer.sends_message(message)
    peer = again(stage, peer)
    token = peer.sends_message(message)
    assert not peer.is_answered(token)
    stage.syncs()
    assert peer.is_answered(token)


def test_a_message_that_was_acknowledged_before_it_was_written_is_known_too() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    peer.sends_message(message)
    listener.acknowledges("1")
    peer = again(stage, peer)
    peer.sends_message(message)
    assert listener.out == ["1"]


def test_a_client_that_did_not_reconnect_is_not_judged() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    peer.sends_message(message)
    peer.sends_message(message)
    assert kept(stage) == ["1", "1"]


def test_a_send_that_still_waited_for_room_when_its_connection_broke_is_taken_again() -> None:
    stage = Stage(PolicyEntry(parse_destination("queue://>"), memory_limit_bytes=2_000))
    filler, peer = stage.peer("f"), stage.peer("p")
    filler.sends(QUEUE, "x" * 3_000, persistent=False)
    message = peer.message(QUEUE, "1", persistent=False)
    token = peer.sends_message(message)
    assert token not in peer.answers
    peer = again(stage, peer)
    listener = stage.peer("c").consumes(QUEUE)
    listener.acknowledges("x" * 3_000)
    assert peer.is_answered(peer.sends_message(message))
    assert listener.out[1:] == ["1"]


def test_a_send_that_was_refused_is_taken_when_it_comes_again() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message("temp-queue://ID:other:1:1", "1")
    with pytest.raises(JmsError):
        peer.sends_message(message)
    peer = again(stage, peer)
    other = peer.message(QUEUE, "1")
    assert other.message_id == message.message_id  # the first of its producer
    peer.sends_message(other)
    assert kept(stage) == ["1"]


def test_what_is_not_persistent_is_not_judged() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1", persistent=False)
    peer.sends_message(message)
    peer = again(stage, peer)
    peer.sends_message(message)
    assert stage.peer("c").consumes(QUEUE).takes() == ["1", "1"]


def test_new_messages_of_a_reconnected_client_are_taken_and_known_again() -> None:
    stage = Stage()
    peer = stage.peer("p")
    messages = [peer.message(QUEUE, str(number)) for number in range(4)]
    for message in messages[:2]:
        peer.sends_message(message)
    peer = again(stage, peer)
    for message in messages[1:3]:
        peer.sends_message(message)
    peer = again(stage, peer)
    for message in messages[2:]:
        peer.sends_message(message)
    assert kept(stage) == ["0", "1", "2", "3"]
    assert stage.broker.assembly.producer_audit.duplicates == 2


def test_the_copies_of_one_send_to_several_queues_are_judged_as_one() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message("queue://A,B", "1")
    peer.sends_message(message)
    peer = again(stage, peer)
    peer.sends_message(message)
    assert kept(stage, "queue://A") == ["1"] and kept(stage, "queue://B") == ["1"]


def test_a_commit_that_was_stored_and_is_done_again_takes_effect_once() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://OUT")
    peer = stage.peer("p")
    peer.sends(QUEUE, "work")
    messages = [peer.message("queue://OUT", "1"), peer.message("queue://OUT", "2", persistent=False)]
    worker = peer.consumes(QUEUE)
    for _ in range(2):
        peer.begins(7)
        for message in messages:
            peer.sends_message(message, 7)
        if worker.peer is peer:
            worker.acknowledges("work", transaction=7)
        token = peer.commits(7)
        if worker.peer is peer:
            peer = again(stage, peer)
        else:
            assert not peer.is_answered(token)
    stage.settle()
    assert peer.is_answered(token)
    assert sorted(listener.out) == ["1", "2"]
    assert kept(stage) == []


def test_acknowledgements_of_a_transaction_that_took_effect_before_are_taken_without_effect() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.sends(QUEUE, "1", "2")
    worker = peer.consumes(QUEUE)
    peer.begins(1)
    worker.acknowledges("1", transaction=1)
    peer.commits(1)
    stage.settle()
    peer = again(stage, peer)
    worker = peer.consumes(QUEUE)
    assert worker.takes() == ["2"]
    peer.begins(1)
    worker.acknowledges("2", transaction=1)
    token = peer.commits(1)
    stage.settle()
    assert peer.is_answered(token)
    peer = again(stage, peer)
    assert peer.consumes(QUEUE).takes() == ["2"]


def test_a_commit_that_is_only_asked_for_again_is_answered() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    peer.sends(QUEUE, "1", transaction=1)
    peer.commits(1)
    peer = again(stage, peer)
    token = peer.commits(1)
    assert not peer.is_answered(token)
    stage.settle()
    assert peer.is_answered(token)
    assert kept(stage) == ["1"]


def test_a_transaction_that_was_not_committed_when_the_connection_broke_is_done_as_a_whole() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    peer.begins(1)
    peer.sends_message(message, 1)
    peer = again(stage, peer)
    peer.begins(1)
    peer.sends_message(message, 1)
    peer.commits(1)
    assert kept(stage) == ["1"]


def test_a_commit_that_the_store_refused_is_not_remembered() -> None:
    stage = Stage()
    peer = stage.peer("p")
    message = peer.message(QUEUE, "1")
    stage.store.refused = ResourceAllocationError("too large")
    peer.begins(1)
    peer.sends_message(message, 1)
    with pytest.raises(ResourceAllocationError):
        peer.commits(1)
    stage.store.refused = None
    peer = again(stage, peer)
    peer.begins(1)
    peer.sends_message(message, 1)
    peer.commits(1)
    assert kept(stage) == ["1"]


def test_a_client_that_comes_back_before_its_broken_connection_is_noticed_replaces_it() -> None:
    stage = Stage()
    old = stage.peer("p", client_id="c")
    message = old.message(QUEUE, "1")
    old.sends_message(message)
    held = old.consumes(QUEUE)
    assert held.takes() == ["1"]
    new = stage.peer("p", client_id="c", reconnected=True)
    assert old.closed_with is not None and old.state.removed
    stage.syncs()
    assert new.is_answered(new.sends_message(message))
    assert new.consumes(QUEUE).redelivery_counts() == [("1", 1)]


def test_nobody_else_takes_the_place_of_a_connection() -> None:
    stage = Stage()
    old = stage.peer("p", client_id="c", user="ann")
    for client_id, user, reconnected in (("c", "ann", False), ("c", "bob", True), ("d", "ann", True)):
        with pytest.raises(InvalidClientIdError):
            stage.peer("p", client_id=client_id, user=user, reconnected=reconnected)
    assert old.closed_with is None and not old.state.removed


def test_what_a_bridge_forwards_again_is_answered_and_not_taken() -> None:
    stage = Stage()
    bridge = stage.peer("b")
    bridge.state.forwards = bridge.state.repeats = True
    message = bridge.message(QUEUE, "1")
    message.broker_path = ("A",)
    message.link_number = ProducerAudit(identity=b"of A....").number_of(message.destination, 1)
    for delivered_before in (0, 1, 1):
        message.redelivery_count = delivered_before
        bridge.sends_message(message)
    assert kept(stage) == ["1"]
    message.redelivery_count = 0
    bridge.sends_message(message)
    assert kept(stage) == ["1", "1"]


def test_messages_of_other_brokers_are_known_by_their_ids_where_the_connector_says_so() -> None:
    for audited in (True, False):
        stage = Stage()
        bridge = Peer(stage, "b", ConnectionInfo("ID:b:1", audit_makers=audited))
        bridge.state.forwards = bridge.state.repeats = True
        message = bridge.message(QUEUE, "1")
        message.broker_path = ("A",)
        bridge.sends_message(message)
        message.redelivery_count = 1
        bridge.sends_message(message)
        assert kept(stage) == (["1"] if audited else ["1", "1"])
