"""Durable subscriptions made between the sends of a transaction and its end."""

from __future__ import annotations

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS
from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.broker.topic.durable_subscription import SubscriptionTerms, decode_number, encode_terms
from spanwire.broker.transactions.xa_transactions import LATER, XA_OK
from spanwire.model.destination import TRANSACTION, Destination, parse_destination
from spanwire.model.errors import ResourceAllocationError, StoreError, XaError
from tests.support.dialogue.broker_dialogue import Peer, Stage
from tests.support.dialogue.disk_stage import DiskStage
from tests.unit.broker.test_xa_dialogues import Manager, X

T = "topic://T"
PICKY = "JMSPriority = 9"
LARGE = JOB_STEPS + JOB_STEPS // 2  # messages of a transaction that ends in two slices
BRANCH = Destination(TRANSACTION, "0")


def texts(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def settles(stage: Stage) -> None:
    """Everything is done, and what that has stored is safe and handed on."""
    stage.settle()
    stage.settle()


def subscribes(stage: Stage, name: str = "late", selector: str | None = None, topic: str = T) -> None:
    """A client that makes a durable subscription and goes."""
    peer = stage.peer(f"{name}-made", client_id="c")
    peer.consumes(topic, durable=name, selector=selector).leaves()
    peer.leaves()


def unsubscribes(stage: Stage) -> None:
    peer = stage.peer("unsubscribes", client_id="c")
    peer.unsubscribes("late")
    peer.leaves()


def takes(stage: Stage, name: str = "late", selector: str | None = None, topic: str = T) -> list[str]:
    """What the subscription has."""
    peer = stage.peer(f"{name}-takes", client_id="c")
    listener = peer.consumes(topic, durable=name, selector=selector)
    settles(stage)
    got = listener.takes()
    listener.leaves()
    peer.leaves()
    return got


def prepared(stage: Stage, *sent: str, topic: str = T) -> Manager:
    """The manager of a branch that is prepared and on the disk."""
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(topic, *sent)
    assert manager.prepares() == XA_OK
    settles(stage)
    return manager


def sends_in_transaction(stage: Stage, count: int) -> Peer:
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(T, *texts(count), transaction=1)
    return producer


def test_copies_for_late_subscriptions_do_not_count_for_the_limit_of_the_sender() -> None:
    stage = Stage(max_uncommitted=3)
    producer = sends_in_transaction(stage, 3)
    subscribes(stage, "a")
    subscribes(stage, "b")
    token = producer.commits(1)
    settles(stage)
    assert producer.is_answered(token)
    assert [takes(stage, name) for name in ("a", "b")] == [texts(3)] * 2
    assert (producer.state.uncommitted.count, stage.broker.assembly.local_transactions.late_copies.count) == (0, 0)


def test_late_subscriptions_do_not_count_for_the_limit_at_the_prepare_either() -> None:
    stage = Stage(max_uncommitted=3)
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(T, *texts(3))
    subscribes(stage)
    assert manager.prepares() == XA_OK
    assert stage.broker.assembly.local_transactions.late_copies.count == 3
    manager.commits()
    settles(stage)
    assert takes(stage) == texts(3)
    assert stage.broker.assembly.local_transactions.late_copies.count == 0


def test_a_commit_with_more_late_copies_than_memory_may_hold_is_refused_and_leaves_none() -> None:
    stage = Stage()
    late = stage.broker.assembly.local_transactions.late_copies
    late.limit = 4
    producer = sends_in_transaction(stage, 3)
    subscribes(stage, "a")
    subscribes(stage, "b")
    with pytest.raises(ResourceAllocationError, match="at most 4 are allowed"):
        producer.commits(1)
    assert (late.count, producer.state.uncommitted.count, stage.memory()) == (0, 0, 0)
    assert takes(stage, "a") == []


def test_a_prepared_branch_with_more_late_copies_than_memory_may_hold_stays_prepared() -> None:
    stage = Stage()
    late = stage.broker.assembly.local_transactions.late_copies
    manager = prepared(stage, "1", "2", "3")
    subscribes(stage)
    late.limit = 2
    with pytest.raises(XaError, match=r"at most 2 are allowed.*xaErrorCode:4$"):
        manager.commits()
    assert manager.xa.prepared() == [X]
    late.limit = 3
    manager.commits()
    settles(stage)
    assert (takes(stage), late.count) == (["1", "2", "3"], 0)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_a_subscription_made_between_prepare_and_commit_gets_the_messages(restart: bool, early: bool) -> None:
    stage = Stage()
    if early:
        subscribes(stage, "early")
    manager = prepared(stage, "1", "2")
    subscribes(stage)
    settles(stage)
    if restart:
        stage = stage.restarts()
        manager = Manager(stage.peer("y"))
    token = manager.commits()
    settles(stage)
    assert manager.peer.is_answered(token)
    assert takes(stage) == ["1", "2"]
    if early:
        assert takes(stage, "early") == ["1", "2"]
    assert stage.store.kept(BRANCH) == []


def test_a_subscription_made_after_a_restart_gets_the_messages_of_a_prepared_branch() -> None:
    stage = Stage()
    prepared(stage, "1", "2")
    stage = stage.restarts()
    subscribes(stage)
    subscribes(stage, "picky", PICKY)
    manager = Manager(stage.peer("y"))
    manager.commits()
    settles(stage)
    assert (takes(stage), takes(stage, "picky", PICKY)) == (["1", "2"], [])


def test_a_consumer_of_the_topic_gets_the_messages_of_a_prepared_branch_after_a_restart() -> None:
    stage = Stage()
    prepared(stage, "1", "2")
    stage = stage.restarts()
    listener = stage.peer("c").consumes(T)
    Manager(stage.peer("y")).commits()
    settles(stage)
    assert listener.takes() == ["1", "2"]


@pytest.mark.parametrize("early", [False, True])
def test_messages_with_and_without_duplicate_ids_keep_their_order_after_a_restart(early: bool) -> None:
    stage = Stage()
    if early:
        subscribes(stage, "early")
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(T, "1")
    manager.sends(T, "2", properties={PROPERTY: "an id"})
    manager.sends(T, "3")
    assert manager.prepares() == XA_OK
    settles(stage)
    stage = stage.restarts()
    subscribes(stage)
    listener = stage.peer("c").consumes(T)
    Manager(stage.peer("y")).commits()
    settles(stage)
    assert (listener.takes(), takes(stage)) == (["1", "2", "3"], ["1", "2", "3"])
    if early:
        assert takes(stage, "early") == ["1", "2", "3"]


def test_messages_for_later_subscriptions_do_not_keep_a_commit_from_moving_the_others() -> None:
    stage = Stage()
    subscribes(stage, "early")
    manager = prepared(stage, *texts(20))
    assert len(stage.store.kept(BRANCH)) == 40
    before = len(stage.store.log)
    manager.commits()
    assert not [change for change in stage.store.log[before:] if change.destination == BRANCH and change.message]
    settles(stage)
    assert (takes(stage, "early"), stage.store.kept(BRANCH)) == (texts(20), [])


@pytest.mark.parametrize("cut", ["never", "before the commit", "after the commit"])
@pytest.mark.parametrize("late", [False, True])
def test_a_journal_has_all_messages_of_a_prepared_branch_once_through_power_cuts(cut: str, late: bool) -> None:
    stage = DiskStage()
    subscribes(stage, "early")
    manager = prepared(stage, *texts(20))
    if late:
        subscribes(stage)
        settles(stage)
    if cut == "before the commit":
        stage = stage.loses_power()
        manager = Manager(stage.peer("y"))
    manager.commits()
    settles(stage)
    if cut == "after the commit":
        stage = stage.loses_power()
    assert (takes(stage, "early"), takes(stage)) == (texts(20), texts(20) if late else [])
    stage = stage.loses_power()
    assert stage.broker.xa.prepared() == []


def test_a_prepared_branch_that_is_rolled_back_leaves_nothing_for_later_subscriptions() -> None:
    stage = Stage()
    manager = prepared(stage, "1")
    subscribes(stage)
    manager.rolls_back()
    settles(stage)
    assert (takes(stage), stage.store.kept(BRANCH), stage.memory()) == ([], [], 0)


@pytest.mark.parametrize("way", ["local", "one phase", "two phases", "two phases and a restart"])
def test_a_subscription_made_after_the_topic_was_removed_gets_the_messages(way: str) -> None:
    stage = Stage()
    peer = stage.peer("p")
    manager = Manager(peer)
    if way == "local":
        peer.begins(1)
        peer.sends(T, "1", "2", transaction=1)
    else:
        manager.begins()
        manager.sends(T, "1", "2")
    peer.removes(T)
    subscribes(stage)
    if "two" in way:
        assert manager.prepares() == XA_OK
        settles(stage)
    if "restart" in way:
        stage = stage.restarts()
        manager = Manager(stage.peer("y"))
    if way == "local":
        peer.commits(1)
    else:
        manager.commits(one_phase=way == "one phase")
    settles(stage)
    assert takes(stage) == ["1", "2"]


def test_a_subscription_made_amid_the_slices_of_a_commit_gets_no_part_of_it() -> None:
    stage = Stage()
    producer = sends_in_transaction(stage, LARGE)
    subscribes(stage, "before")
    token = producer.commits(1)
    stage.runs()
    subscribes(stage, "amid")
    settles(stage)
    assert producer.is_answered(token)
    assert (takes(stage, "before"), takes(stage, "amid")) == (texts(LARGE), [])


def test_a_message_sent_after_a_subscription_has_no_copy_to_come_beside_one_sent_before() -> None:
    """Dead letters that a prepare makes amid its slices can stand so, with the copies behind them."""
    stage = Stage()
    subscribes(stage, "before", PICKY)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(T, "1", transaction=1)
    subscribes(stage, "amid", PICKY)
    producer.sends(T, "2", transaction=1)
    transaction = next(iter(producer.state.transactions.values()))
    first, second = transaction.sends
    until = first.served
    first.served = 0
    late = stage.broker.assembly.local_transactions.late_copies
    transaction.add_late_copies(0, first.destination, until, late)
    assert (first.served, second.served) == (until, until + 1)


def test_a_subscription_made_amid_the_slices_of_a_prepare_gets_all_at_the_commit() -> None:
    stage = Stage()
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(T, *texts(LARGE))
    assert manager.xa.prepare(manager.peer.state, X, manager.peer.new_token(), stage.now) == LATER
    stage.runs()
    subscribes(stage, "amid")
    settles(stage)
    manager.commits()
    settles(stage)
    assert takes(stage, "amid") == texts(LARGE)


@pytest.mark.parametrize("restart", [False, True])
def test_a_successor_of_the_same_name_gets_by_its_own_selector(restart: bool) -> None:
    stage = Stage()
    subscribes(stage)
    manager = prepared(stage, "1")
    unsubscribes(stage)
    subscribes(stage, selector=PICKY)
    settles(stage)
    if restart:
        stage = stage.restarts()
        manager = Manager(stage.peer("y"))
    manager.commits()
    settles(stage)
    assert takes(stage, selector=PICKY) == []


def test_a_successor_made_before_the_prepare_gets_one_copy_after_a_restart() -> None:
    stage = Stage()
    subscribes(stage)
    manager = Manager(stage.peer("x"))
    manager.begins()
    manager.sends(T, "1")
    unsubscribes(stage)
    subscribes(stage)
    assert manager.prepares() == XA_OK
    settles(stage)
    stage = stage.restarts()
    Manager(stage.peer("y")).commits()
    settles(stage)
    assert takes(stage) == ["1"]


def test_a_number_is_not_given_again_after_a_restart() -> None:
    stage = Stage()
    prepared(stage, "1")
    subscribes(stage)  # number 1, after the prepare
    settles(stage)
    stage = stage.restarts()
    subscribes(stage, "other")
    settles(stage)
    numbers = [decode_number(value) for value in stage.store.metadata[SUBSCRIPTIONS].values()]
    assert sorted(numbers) == [1, 2]


def test_subscriptions_of_an_older_store_count_as_made_before_the_prepare() -> None:
    stage = Stage()
    for name in ("a", "b"):
        terms = SubscriptionTerms("c", name, parse_destination(T), None, False)
        stage.store.put_metadata(SUBSCRIPTIONS, terms.key.encode(), encode_terms(terms))
    stage.syncs()
    stage = stage.restarts()
    subscribes(stage, "new")
    prepared(stage, "1")
    stage = stage.restarts()
    Manager(stage.peer("y")).commits()
    settles(stage)
    assert [takes(stage, name) for name in ("a", "b", "new")] == [["1"]] * 3


@pytest.mark.parametrize("value", [b"{", b"[]", b'{"number": "1"}', b'{"number": -1}'])
def test_a_number_that_cannot_be_read_is_told_in_one_line(value: bytes) -> None:
    with pytest.raises(StoreError, match="spanwire store check"):
        decode_number(value)
