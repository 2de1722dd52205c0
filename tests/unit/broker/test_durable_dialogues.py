"""Durable subscriptions: what waits for whom, what survives, and what is refused (JMS 1.1, "Durable Subscription")."""

from __future__ import annotations

import pytest

from spanwire.broker.connections.connection_job import JOB_STEPS, ConnectionJob
from spanwire.broker.destinations.durable_subscriptions import MAX_DURABLE_SUBSCRIPTIONS
from spanwire.broker.metadata import SUBSCRIPTIONS
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import ADMIN, READ
from spanwire.broker.topic.durable_subscription import SubscriptionTerms, encode_terms
from spanwire.broker.topic.topic import Topic
from spanwire.model.acks import LAST_DELIVERED_UNSET, POISON_ACK
from spanwire.model.destination import SUBSCRIPTION, TOPIC, Destination
from spanwire.model.errors import (
    AuthorizationError,
    InvalidClientIdError,
    InvalidDestinationError,
    JmsError,
    ResourceAllocationError,
)
from tests.support.dialogue.broker_dialogue import Peer, Stage
from tests.support.recording_authorizer import RecordingAuthorizer

MESSAGE_ADVISORIES = "topic://NEWS"


def subscriber(stage: Stage, name: str = "c", client_id: str | None = "app") -> Peer:
    return stage.peer(name, client_id)


@pytest.mark.parametrize("topic", ["ActiveMQ.Advisory.Queue", "ActiveMQ.Advisory.>", "T,ActiveMQ.Advisory.Queue"])
def test_nobody_subscribes_durably_to_advisories(topic: str) -> None:
    stage = Stage()
    peer = stage.peer("a", client_id="a")
    with pytest.raises(JmsError, match="Cannot create a durable subscription for an advisory Topic"):
        peer.consumes(f"topic://{topic}", durable="s")
    assert peer.state.consumers == {}


def test_what_is_sent_while_the_subscriber_is_away_waits_for_it() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="sub")
    producer = stage.peer("p")
    producer.sends(MESSAGE_ADVISORIES, "1")
    assert listener.takes() == ["1"]
    listener.acknowledges("1")
    listener.leaves()
    producer.sends(MESSAGE_ADVISORIES, "2", "3")
    assert peer.consumes(MESSAGE_ADVISORIES, durable="sub").redelivery_counts() == [("2", 0), ("3", 0)]


def test_each_subscription_has_its_own_place() -> None:
    stage = Stage()
    peer = subscriber(stage)
    first, second = peer.consumes(MESSAGE_ADVISORIES, durable="a"), peer.consumes(MESSAGE_ADVISORIES, durable="b")
    plain = stage.peer("d").consumes(MESSAGE_ADVISORIES)
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    assert (first.takes(), second.takes(), plain.takes()) == (["1"], ["1"], ["1"])
    first.acknowledges("1")
    peer.leaves()
    again = subscriber(stage, "e")
    assert again.consumes(MESSAGE_ADVISORIES, durable="a").takes() == []
    assert again.consumes(MESSAGE_ADVISORIES, durable="b").takes() == ["1"]


def test_one_body_is_stored_for_all_subscriptions_and_goes_with_the_last_of_them() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listeners = [peer.consumes(MESSAGE_ADVISORIES, durable=name) for name in ("a", "b", "c")]
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    stage.settle()
    additions = [change for change in stage.store.log if change.kind == "add"]
    assert len({change.position for change in additions}) == 1
    assert len(additions) == 3
    for listener in listeners:
        listener.acknowledges("1")
    stage.settle()
    assert all(stage.store.kept(change.destination) == [] for change in additions)
    assert stage.memory() == 0


def test_a_persistent_send_is_answered_when_it_is_safe_for_every_subscription() -> None:
    stage = Stage()
    subscriber(stage).consumes(MESSAGE_ADVISORIES, durable="a")
    producer = stage.peer("p")
    token = producer.sends(MESSAGE_ADVISORIES, "1")
    assert not producer.is_answered(token)
    stage.syncs()
    assert producer.is_answered(token)


def test_subscriptions_and_what_waits_for_them_survive_a_crash() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="a", selector="n > 1")
    producer = stage.peer("p")
    for number in range(4):
        producer.sends(MESSAGE_ADVISORIES, str(number), properties={"n": number})
    assert listener.takes() == ["2", "3"]
    listener.acknowledges("2")
    stage.settle()
    after = stage.restarts()
    after.peer("p").sends(MESSAGE_ADVISORIES, "4", properties={"n": 4})
    after.peer("p2").sends(MESSAGE_ADVISORIES, "0", properties={"n": 0})
    again = subscriber(after).consumes(MESSAGE_ADVISORIES, durable="a", selector="n > 1")
    after.settle()
    assert again.redelivery_counts() == [("3", 1), ("4", 0)]


def test_what_is_not_persistent_waits_too_and_never_for_an_answer() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    producer = stage.peer("p")
    assert producer.is_answered(producer.sends(MESSAGE_ADVISORIES, "1", persistent=False))
    again = peer.consumes(MESSAGE_ADVISORIES, durable="a")
    stage.settle()
    assert again.takes() == ["1"]


def test_a_changed_selector_or_topic_makes_another_subscription() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    producer = stage.peer("p")
    producer.sends(MESSAGE_ADVISORIES, "old", properties={"n": 5})
    changed = peer.consumes(MESSAGE_ADVISORIES, durable="a", selector="n > 1")
    assert changed.takes() == []
    producer.sends(MESSAGE_ADVISORIES, "new", properties={"n": 5})
    assert changed.takes() == ["new"]
    changed.leaves()
    producer.sends(MESSAGE_ADVISORIES, "lost", properties={"n": 5})
    assert peer.consumes("topic://OTHER", durable="a").takes() == []


def test_a_selector_with_other_blanks_around_it_is_the_same() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a", selector="n > 1").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "kept", properties={"n": 5})
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a", selector=" n > 1 ").takes() == ["kept"]


def test_unsubscribing_forgets_what_waits() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    peer.unsubscribes("a")
    stage.settle()
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").takes() == []
    assert stage.restarts().memory() == 0
    peer_after = subscriber(stage.restarts())
    assert peer_after.consumes(MESSAGE_ADVISORIES, durable="a").takes() == []


def test_a_subscription_in_use_can_be_neither_taken_nor_deleted() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a")
    in_use = "Durable consumer is in use for client: app and subscriptionName: a"
    with pytest.raises(JmsError, match=in_use):
        peer.consumes(MESSAGE_ADVISORIES, durable="a")
    with pytest.raises(JmsError, match="Durable consumer is in use"):
        peer.unsubscribes("a")


def test_a_subscription_that_does_not_exist_cannot_be_deleted() -> None:
    stage = Stage()
    message = "No durable subscription exists for clientID: app and subscriptionName: a"
    with pytest.raises(InvalidDestinationError, match=message):
        subscriber(stage).unsubscribes("a")


def test_the_client_id_is_that_of_the_connection_and_of_no_other() -> None:
    stage = Stage()
    subscriber(stage, "a", "one").consumes(MESSAGE_ADVISORIES, durable="s").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    other = subscriber(stage, "b", "two")
    with pytest.raises(InvalidDestinationError):
        other.unsubscribes("s")
    assert other.consumes(MESSAGE_ADVISORIES, durable="s").takes() == []


def test_names_that_run_together_are_told_apart() -> None:
    stage = Stage()
    subscriber(stage, "a", "x:y").consumes(MESSAGE_ADVISORIES, durable="z").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    assert subscriber(stage, "b", "x").consumes(MESSAGE_ADVISORIES, durable="y:z").takes() == []


def test_without_a_client_id_there_is_no_durable_subscription() -> None:
    stage = Stage()
    with pytest.raises(JmsError, match="unique clientID"):
        subscriber(stage, client_id=None).consumes(MESSAGE_ADVISORIES, durable="a")


@pytest.mark.parametrize("destination", ["queue://Q", "topic://A,queue://Q"])
def test_queues_cannot_be_subscribed_to_durably(destination: str) -> None:
    with pytest.raises(InvalidDestinationError):
        subscriber(Stage()).consumes(destination, durable="a")


def test_a_name_that_no_store_could_hold_is_refused() -> None:
    with pytest.raises(InvalidClientIdError):
        subscriber(Stage()).consumes(MESSAGE_ADVISORIES, durable="n" * 1000)


def test_a_pattern_subscribes_to_topics_that_exist_and_to_those_that_come() -> None:
    stage = Stage()
    peer = subscriber(stage)
    producer = stage.peer("p")
    producer.sends("topic://A.1", "before")
    peer.consumes("topic://A.>", durable="a").leaves()
    producer.sends("topic://A.1", "1")
    producer.sends("topic://A.2", "2")
    producer.sends("topic://B", "3")
    assert peer.consumes("topic://A.>", durable="a").takes() == ["1", "2"]


def test_topics_that_a_subscription_does_not_cover_are_left_alone_when_it_comes_and_goes() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a")
    second = peer.consumes(MESSAGE_ADVISORIES, durable="b")
    advisories = stage.broker.find_destination(Destination(TOPIC, "NEWS"))
    assert isinstance(advisories, Topic)
    served = advisories.durables
    peer.consumes("topic://SPORTS", durable="c").leaves()
    peer.unsubscribes("c")
    assert advisories.durables is served  # there may be thousands of each
    second.leaves()
    peer.unsubscribes("b")
    assert [durable.terms.name for durable in advisories.durables] == ["a"]


def test_what_the_subscriber_sends_itself_does_not_come_back_to_it() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="a", no_local=True)
    peer.sends(MESSAGE_ADVISORIES, "own")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "other")
    assert listener.takes() == ["other"]


def test_a_rolled_back_and_a_poisoned_message_behave_as_in_a_queue() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="a")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", "2")
    assert listener.takes() == ["1", "2"]
    listener.acknowledges("1", ack_type=POISON_ACK, count=1)
    letters = stage.peer("d").consumes("queue://ActiveMQ.DLQ")
    assert letters.takes() == ["1"]
    listener.leaves()
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").redelivery_counts() == [("2", 1)]


def test_a_transaction_reaches_all_subscriptions_or_none_also_over_a_crash() -> None:
    stage = Stage()
    peer = subscriber(stage)
    for name in ("a", "b"):
        peer.consumes(MESSAGE_ADVISORIES, durable=name).leaves()
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(MESSAGE_ADVISORIES, "1", transaction=1)
    producer.sends("queue://Q", "2", transaction=1)
    before = stage.store.synced
    producer.commits(1)
    for position, expected in ((before, []), (stage.store.position(), ["1"])):
        after = stage.restarts(position=position)
        again = subscriber(after)
        for name in ("a", "b"):
            listener = again.consumes(MESSAGE_ADVISORIES, durable=name)
            after.settle()
            assert listener.takes() == expected


def test_acknowledging_in_a_transaction_counts_with_its_commit() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="a")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", "2")
    peer.begins(1)
    listener.acknowledges("1", transaction=1)
    peer.commits(1)
    stage.settle()
    again = subscriber(stage.restarts()).consumes(MESSAGE_ADVISORIES, durable="a")
    again.peer.stage.settle()
    assert again.takes() == ["2"]


def test_expired_messages_leave_an_idle_subscription() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1", expiration_ms=stage.now.wall_ms + 1_000)
    stage.settle()
    stage.waits(61)
    stage.settle()
    letters = stage.peer("d").consumes("queue://ActiveMQ.DLQ")
    stage.settle()
    assert letters.takes() == ["1"]
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").takes() == []


def test_a_crash_amid_unsubscribing_leaves_nothing_behind() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    stage.syncs()
    position = stage.store.position()
    peer.unsubscribes("a")
    again = stage.restarts(position=position + 1)  # the description is gone, its line is not
    assert len(again.store.calls("drop")) == 1
    assert again.store.kept(Destination(SUBSCRIPTION, "3:app:a")) == []


@pytest.mark.large
def test_there_is_a_limit_to_durable_subscriptions_and_those_that_exist_can_be_used() -> None:
    metadata: dict[bytes, bytes] = {}
    for number in range(MAX_DURABLE_SUBSCRIPTIONS):
        terms = SubscriptionTerms("app", str(number), Destination(TOPIC, "NEWS"), None, False)
        metadata[terms.key.encode()] = encode_terms(terms)
    stage = Stage()
    stage.broker.recover([], True, stage.now, {SUBSCRIPTIONS: metadata})
    peer = subscriber(stage)
    with pytest.raises(ResourceAllocationError, match="unsubscribe those that nobody needs"):
        peer.consumes("topic://OTHER", durable="one more")
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="1")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "news")
    assert listener.takes() == ["news"]
    peer.unsubscribes("0")
    peer.consumes("topic://OTHER", durable="one more")


def test_a_full_store_lets_sends_to_a_durable_topic_wait() -> None:
    stage = Stage()
    listener = subscriber(stage).consumes(MESSAGE_ADVISORIES, durable="a")
    stage.store.room = False
    stage.broker.room_changed(stage.now)
    producer = stage.peer("p")
    token = producer.sends(MESSAGE_ADVISORIES, "1")
    stage.settle()
    assert (producer.is_answered(token), listener.takes()) == (False, [])
    stage.store.room = True
    stage.broker.room_changed(stage.now)
    stage.settle()
    assert (producer.is_answered(token), listener.takes()) == (True, ["1"])


def test_a_full_store_lets_sends_that_are_not_persistent_wait_too_while_the_subscriber_is_away() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    stage.has_room(False)
    producer = stage.peer("p")
    token = producer.sends(MESSAGE_ADVISORIES, "1", persistent=False)
    stage.settle()
    assert not producer.is_answered(token), "the store would have to keep it in memory, and all that follow"
    assert stage.store.calls("add") == []
    stage.has_room(True)
    stage.settle()
    assert producer.is_answered(token)
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").takes() == ["1"]


def test_dispatch_may_be_told_to_wait_for_the_disk() -> None:
    stage = Stage(PolicyEntry(Destination(TOPIC, ">"), dispatch_before_sync=False))
    listener = subscriber(stage).consumes(MESSAGE_ADVISORIES, durable="a")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    assert listener.takes() == []
    stage.syncs()
    assert listener.takes() == ["1"]


def test_making_one_needs_the_right_to_read_and_to_administer_the_topic() -> None:
    for action in (READ, ADMIN):
        stage = Stage(authorizer=RecordingAuthorizer(("*", action, MESSAGE_ADVISORIES)))
        with pytest.raises(AuthorizationError):
            subscriber(stage).consumes(MESSAGE_ADVISORIES, durable="a")


def test_a_topic_that_is_removed_and_made_again_serves_its_subscriptions() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="a").leaves()
    peer.removes(MESSAGE_ADVISORIES)
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").takes() == ["1"]


def test_what_a_consumer_never_saw_comes_back_unflagged() -> None:
    stage = Stage()
    peer = subscriber(stage)
    listener = peer.consumes(MESSAGE_ADVISORIES, durable="a")
    stage.peer("p").sends(MESSAGE_ADVISORIES, "1")
    listener.leaves(LAST_DELIVERED_UNSET)
    assert peer.consumes(MESSAGE_ADVISORIES, durable="a").redelivery_counts() == [("1", 0)]


def test_a_subscription_that_comes_between_send_and_commit_gets_the_messages_in_order() -> None:
    stage = Stage()
    peer = subscriber(stage)
    early = peer.consumes(MESSAGE_ADVISORIES, durable="early")
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(MESSAGE_ADVISORIES, "1", "2", transaction=1)
    late = peer.consumes(MESSAGE_ADVISORIES, durable="late")
    picky = peer.consumes(MESSAGE_ADVISORIES, durable="picky", selector="JMSPriority = 9")
    plain = stage.peer("d").consumes(MESSAGE_ADVISORIES)
    producer.sends(MESSAGE_ADVISORIES, "3", transaction=1)
    producer.commits(1)
    stage.syncs()
    assert [listener.takes() for listener in (early, late, plain, picky)] == [["1", "2", "3"]] * 3 + [[]]
    for listener in (early, late, plain):
        listener.acknowledges("3")
    assert stage.memory() == 0


@pytest.mark.parametrize("subscriptions", [1, 3])
def test_messages_for_a_late_subscription_are_committed_in_slices(subscriptions: int) -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.begins(1)
    texts = [str(number) for number in range(JOB_STEPS - 1)]
    producer.sends(MESSAGE_ADVISORIES, *texts, transaction=1)
    peers = [subscriber(stage, f"c{number}", f"app{number}") for number in range(subscriptions)]
    late = [peer.consumes(MESSAGE_ADVISORIES, durable="s") for peer in peers]
    token = producer.commits(1)
    assert isinstance(producer.state.job, ConnectionJob)
    stage.settle()
    stage.settle()
    assert producer.is_answered(token)
    assert [listener.takes() for listener in late] == [texts] * subscriptions


def test_a_subscription_removed_before_the_commit_gets_nothing_and_its_successor_everything() -> None:
    stage = Stage()
    peer = subscriber(stage)
    peer.consumes(MESSAGE_ADVISORIES, durable="sub").leaves()
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(MESSAGE_ADVISORIES, "1", transaction=1)
    peer.unsubscribes("sub")
    successor = peer.consumes(MESSAGE_ADVISORIES, durable="sub")
    producer.commits(1)
    stage.syncs()
    assert successor.takes() == ["1"]


@pytest.mark.parametrize("count", [2, JOB_STEPS])
@pytest.mark.parametrize("early", ["before the send", "between send and commit"])
def test_a_subscription_gets_what_was_sent_to_a_topic_that_was_removed_before_the_commit(
    count: int, early: str
) -> None:
    stage = Stage()
    peer = subscriber(stage)
    if early == "before the send":
        peer.consumes(MESSAGE_ADVISORIES, durable="early").leaves()
    producer = stage.peer("p")
    producer.begins(1)
    texts = [str(number) for number in range(count)]
    producer.sends(MESSAGE_ADVISORIES, *texts, transaction=1)
    peer.consumes(MESSAGE_ADVISORIES, durable="late").leaves()
    stage.peer("r").removes(MESSAGE_ADVISORIES)
    token = producer.commits(1)
    stage.settle()
    assert producer.is_answered(token)
    assert peer.consumes(MESSAGE_ADVISORIES, durable="late").takes() == texts


def test_selectors_of_many_late_subscriptions_cut_a_commit_into_slices() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(MESSAGE_ADVISORIES, *[str(number) for number in range(100)], transaction=1)
    peer = subscriber(stage)
    for number in range(200):
        peer.consumes(MESSAGE_ADVISORIES, durable=str(number), selector="JMSPriority = 9")
    token = producer.commits(1)
    assert isinstance(producer.state.job, ConnectionJob)
    stage.settle()
    assert producer.is_answered(token)
