"""Local transactions: all or nothing, in order, with the texts that clients know (JMS 1.1 §4.4.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spanwire.broker.connections import transaction as transactions
from spanwire.model.acks import POISON_ACK
from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, TransactionError
from spanwire.model.ids import TransactionId
from tests.support.dialogue.broker_dialogue import Stage, destination
from tests.support.dialogue.text_format import original_of
from tests.support.recording_authorizer import RecordingAuthorizer

QUEUE = "queue://Q"


def test_sends_of_a_transaction_are_seen_after_its_commit_is_stored() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.begins(1)
    assert producer.is_answered(producer.sends(QUEUE, "1", "2", transaction=1))
    stage.settle()
    assert listener.takes() == []
    token = producer.commits(1)
    assert (listener.takes(), producer.is_answered(token)) == ([], False)
    stage.syncs()
    assert (listener.takes(), producer.is_answered(token)) == (["1", "2"], True)


def test_a_transaction_is_one_unit_in_the_store() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://IN")
    peer = listener.peer
    stage.peer("p").sends("queue://IN", "in")
    stage.syncs()
    peer.begins(1)
    listener.acknowledges("in", transaction=1)
    peer.sends("queue://OUT", "out", transaction=1)
    assert stage.store.calls("remove") == []
    peer.commits(1)
    unit = [change for change in stage.store.log if change.kind in ("add", "remove")][-2:]
    assert {change.kind for change in unit} == {"add", "remove"}
    assert len({change.position for change in unit}) == 1


@pytest.mark.parametrize("synced", [False, True])
def test_a_power_cut_leaves_all_or_nothing_of_a_transaction(synced: bool) -> None:
    stage = Stage()
    listener = stage.peer("c").consumes("queue://IN")
    stage.peer("p").sends("queue://IN", "in")
    stage.syncs()
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges("in", transaction=1)
    peer.sends("queue://OUT", "1", transaction=1)
    peer.sends("queue://OTHER", "2", transaction=1)
    peer.commits(1)
    if synced:
        stage.syncs()
    again = stage.restarts()
    found = {name: again.view(name).pending if again.has(name) else 0 for name in ("queue://IN", "queue://OUT")}
    assert found == ({"queue://IN": 0, "queue://OUT": 1} if synced else {"queue://IN": 1, "queue://OUT": 0})


def test_a_rollback_forgets_the_sends() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(QUEUE, "1", transaction=1)
    producer.rolls_back(1)
    stage.settle()
    assert listener.takes() == []
    assert stage.store.calls("add") == []
    assert stage.memory() == 0


def test_persistent_and_volatile_messages_of_a_transaction_keep_their_order_and_appear_together() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    topic_listener = stage.peer("t").consumes("topic://T")
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(QUEUE, "1", transaction=1)
    producer.sends(QUEUE, "2", transaction=1, persistent=False)
    producer.sends("topic://T", "t", transaction=1)
    producer.sends(QUEUE, "3", transaction=1)
    producer.commits(1)
    assert (listener.takes(), topic_listener.takes()) == ([], [])
    stage.syncs()
    assert (listener.takes(), topic_listener.takes()) == (["1", "2", "3"], ["t"])


def test_a_later_volatile_transaction_does_not_overtake_one_that_waits_for_the_disk() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(QUEUE, "1", transaction=1)
    producer.commits(1)
    producer.begins(2)
    producer.sends(QUEUE, "2", transaction=2, persistent=False)
    producer.commits(2)
    producer.sends(QUEUE, "3", persistent=False)
    producer.sends(QUEUE, "4")
    assert listener.takes() == []
    stage.syncs()
    assert listener.takes() == ["1", "2", "3", "4"]


def test_acknowledgements_of_a_transaction_free_the_window_and_settle_at_the_commit() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges("2", transaction=1)
    assert listener.takes() == ["1", "2", "3", "4"]
    assert stage.view(QUEUE).in_flight == 4
    assert stage.store.calls("remove") == []
    token = peer.commits(1)
    assert stage.view(QUEUE).in_flight == 2
    assert not peer.is_answered(token)
    stage.syncs()
    assert peer.is_answered(token)


def test_a_rollback_leaves_the_acknowledged_messages_with_their_consumer_in_order() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges("1", transaction=1)
    listener.acknowledges("3", transaction=1)
    peer.rolls_back(1)
    assert stage.view(QUEUE).in_flight == 4
    listener.acknowledges("3", first="2", count=2)
    listener.leaves()
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == [("1", 1), ("4", 1)]


def test_an_individual_acknowledgement_that_is_rolled_back_is_not_swept_up_by_a_range_before_it() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    peer = listener.peer
    peer.begins(1)
    listener.acknowledges_one("3", transaction=1)
    listener.acknowledges_one("1", transaction=1)
    peer.rolls_back(1)
    listener.acknowledges("2")
    listener.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["3"]


def test_messages_acknowledged_in_a_transaction_come_back_when_consumer_and_transaction_go() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    peer.begins(1)
    listener.acknowledges("2", transaction=1)
    listener.leaves()
    other = stage.peer("d").consumes(QUEUE)
    assert other.takes() == ["3"]
    peer.rolls_back(1)
    assert other.redelivery_counts() == [("1", 1), ("2", 1)]


def test_a_commit_settles_what_a_consumer_that_left_had_acknowledged() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    peer.begins(1)
    listener.acknowledges("1", transaction=1)
    listener.leaves()
    peer.commits(1)
    assert stage.peer("d").consumes(QUEUE).takes() == ["2"]
    assert stage.view(QUEUE).in_flight == 1


def test_a_connection_that_goes_rolls_its_transactions_back() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    peer.begins(1)
    listener.acknowledges("2", transaction=1)
    peer.sends("queue://OUT", "lost", transaction=1)
    peer.leaves()
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == [("1", 1), ("2", 1), ("3", 1)]
    assert stage.peer("e").consumes("queue://OUT").takes() == []


def test_unknown_transactions_are_refused_with_the_known_text() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    actions: list[Callable[[], object]] = [
        lambda: peer.commits(1),
        lambda: peer.rolls_back(2),
        lambda: peer.sends(QUEUE, "2", transaction=3),
        lambda: listener.acknowledges("1", transaction=4),
    ]
    for number, action in enumerate(actions, 1):
        with pytest.raises(TransactionError) as refused:
            action()
        assert str(refused.value) == f"Transaction 'TX:ID:c:1:{number}' has not been started."
    assert stage.view(QUEUE).pending == 1
    assert stage.view(QUEUE).in_flight == 1


def test_a_transaction_is_committed_once() -> None:
    stage = Stage()
    peer = stage.peer("c")
    peer.begins(779)
    peer.begins(779)  # a second BEGIN is ignored
    peer.commits(779)
    with pytest.raises(TransactionError, match=r"Transaction 'TX:ID:c:1:779' has not been started\."):
        peer.commits(779)


def test_a_transaction_with_a_refused_send_can_only_be_rolled_back() -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("*", "write", "queue://RO")))
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "in")
    peer.begins(1)
    listener.acknowledges("in", transaction=1)
    peer.sends("queue://OK", "1", transaction=1)
    with pytest.raises(AuthorizationError):
        peer.sends("queue://RO", "2", transaction=1)
    with pytest.raises(TransactionError) as refused:
        peer.commits(1)
    assert str(refused.value) == "COMMIT FAILED: Transaction marked rollback only xaErrorCode:100"
    stage.settle()
    assert stage.view("queue://OK").pending == 0
    assert stage.view(QUEUE).in_flight == 1
    with pytest.raises(TransactionError, match="has not been started"):
        peer.rolls_back(1)


def test_a_unit_that_the_store_refuses_is_rolled_back() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "in", "poison")
    peer.begins(1)
    listener.acknowledges_one("in", transaction=1)
    listener.acknowledges("poison", ack_type=POISON_ACK, count=1, transaction=1)
    peer.sends("queue://OUT", "1", transaction=1)
    stage.store.refused = ResourceAllocationError("the transaction is too large")
    with pytest.raises(JmsError, match="too large"):
        peer.commits(1)
    stage.settle()
    assert stage.view(QUEUE).in_flight == 2
    assert stage.view("queue://OUT").pending == 0
    assert stage.store.kept(destination("queue://ActiveMQ.DLQ")) == []
    listener.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["in", "poison"]


def test_poison_in_a_transaction_goes_to_the_dead_letters_at_the_commit() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    peer.begins(1)
    listener.acknowledges("1", ack_type=POISON_ACK, count=1, transaction=1)
    assert not stage.has("queue://ActiveMQ.DLQ")
    peer.commits(1)
    dead = stage.store.kept(destination("queue://ActiveMQ.DLQ"))
    assert [original_of(message) for message in dead] == [QUEUE]
    assert stage.store.kept(destination(QUEUE)) == []


def test_a_message_that_expires_before_the_commit_is_not_delivered() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    topic_listener = stage.peer("t").consumes("topic://T")
    producer = stage.peer("p")
    producer.begins(1)
    soon = stage.now.wall_ms + 100
    producer.sends(QUEUE, "1", transaction=1, expiration_ms=soon)
    producer.sends(QUEUE, "2", transaction=1, expiration_ms=soon, persistent=False)
    producer.sends("topic://T", "3", transaction=1, expiration_ms=soon)
    producer.sends(QUEUE, "4", transaction=1)
    stage.environment.advance(1.0)
    producer.commits(1)
    stage.settle()
    assert (listener.takes(), topic_listener.takes()) == (["4"], [])
    assert stage.view(QUEUE).expired == 2
    assert [stage.view(QUEUE).pending, stage.view(QUEUE).in_flight] == [1, 1]


def test_a_queue_removed_before_the_commit_is_made_again_for_its_messages() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(QUEUE, "1", transaction=1)
    stage.peer("admin").removes(QUEUE)
    producer.commits(1)
    stage.settle()
    assert stage.peer("c").consumes(QUEUE).takes() == ["1"]


def test_a_removed_queue_is_not_made_again_without_the_right_to() -> None:
    stage = Stage(authorizer=RecordingAuthorizer(("user", "admin", QUEUE)))
    admin, producer = stage.peer("a", user="admin"), stage.peer("p", user="user")
    admin.creates(QUEUE)
    producer.begins(1)
    producer.sends(QUEUE, "1", transaction=1)
    admin.removes(QUEUE)
    with pytest.raises(AuthorizationError, match="not authorized to create: queue://Q"):
        producer.commits(1)
    assert not stage.has(QUEUE)
    assert stage.memory() == 0


def test_a_temporary_queue_that_went_before_the_commit_takes_its_messages_along() -> None:
    stage = Stage()
    owner, producer = stage.peer("o"), stage.peer("p")
    name = owner.temporary()
    producer.begins(1)
    producer.sends(name, "1", transaction=1)
    producer.sends(QUEUE, "2", transaction=1)
    owner.leaves()
    producer.commits(1)
    stage.settle()
    assert not stage.has(name)
    assert stage.peer("c").consumes(QUEUE).takes() == ["2"]


@pytest.mark.large
def test_s45_a_transaction_holds_only_so_many_messages() -> None:
    limit = transactions.MAX_UNCOMMITTED
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    peer.begins(1)
    message = peer.message(QUEUE, "x", persistent=False)
    for _ in range(limit):
        stage.broker.send(peer.state, message, peer.transaction_id(1), -1, stage.now)
    peer.begins(2)
    with pytest.raises(ResourceAllocationError, match=f"at most {limit}"):
        peer.sends(QUEUE, "one more", transaction=2)
    with pytest.raises(TransactionError, match="rollback only"):
        peer.commits(2)
    neighbour.begins(1)
    neighbour.sends(QUEUE, "fine", transaction=1)
    neighbour.commits(1)
    peer.rolls_back(1)
    peer.begins(3)
    peer.sends(QUEUE, "again", transaction=3)
    stage.settle()
    assert stage.view(QUEUE).pending == 1


def test_the_transactions_of_a_connection_are_limited_and_its_own() -> None:
    stage = Stage()
    peer, neighbour = stage.peer("p"), stage.peer("n")
    for number in range(1, 1_001):
        peer.begins(number)
    with pytest.raises(ResourceAllocationError, match="at maximum limit: 1000"):
        peer.begins(1_001)
    neighbour.begins(1)
    with pytest.raises(AuthorizationError):
        stage.broker.begin(neighbour.state, peer.transaction_id(1), stage.now)
    with pytest.raises(TransactionError, match="has not been started"):
        stage.broker.rollback(neighbour.state, TransactionId(peer.connection_id, 1), stage.now)
    peer.rolls_back(1)
    peer.begins(1_001)


def test_s45_uncommitted_messages_count_in_memory_and_a_full_memory_refuses_more() -> None:
    stage = Stage(memory_limit_bytes=100_000)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(QUEUE, "x" * 60_000, transaction=1)
    assert stage.memory() >= 60_000
    producer.sends(QUEUE, "x" * 45_000, transaction=1)
    with pytest.raises(ResourceAllocationError, match="Usage Manager Memory Limit reached"):
        producer.sends(QUEUE, "more", transaction=1)
    with pytest.raises(TransactionError, match="rollback only"):
        producer.commits(1)
    assert stage.memory() == 0
    producer.begins(2)
    producer.sends(QUEUE, "fits", transaction=2)
    producer.commits(2)
    stage.settle()
    assert stage.peer("c").consumes(QUEUE).takes() == ["fits"]
