"""Messages with a duplicate id (``_AMQ_DUPL_ID``): the first is taken, the others are answered and dropped."""

from __future__ import annotations

import pytest

from spanwire.broker.moves.move_order import RETRY, MoveOrder
from spanwire.broker.persistence.duplicate_ids import PROPERTY
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.virtual_settings import CompositeDestination, ForwardTo, VirtualSettings, VirtualTopic
from spanwire.broker.ports import WRITE
from spanwire.broker.scheduler.schedule import DELAY, SchedulerSettings
from spanwire.model.acks import POISON_ACK
from spanwire.model.destination import parse_destination
from spanwire.model.errors import AuthorizationError
from spanwire.model.ids import XaTransactionId
from tests.support.dialogue.broker_dialogue import Peer, Stage, destination
from tests.support.dialogue.disk_stage import DiskStage
from tests.support.dialogue.text_format import original_of
from tests.support.recording_authorizer import RecordingAuthorizer
from tests.support.why_dialogue import id_of, said, why

Q = "queue://Q"
X = XaTransactionId(4711, b"global", b"\x01")


def sends(peer: Peer, text: str, duplicate_id: object, to: str = Q, transaction: int = 0, **fields: object) -> int:
    properties = {PROPERTY: duplicate_id, **fields.pop("properties", {})}  # type: ignore[dict-item]
    return peer.sends(to, text, transaction=transaction, properties=properties, **fields)  # type: ignore[arg-type]


def taken(stage: Stage, queue: str = Q) -> list[str]:
    """What a new consumer of the queue gets, and acknowledges."""
    peer = stage.peer(f"taker-{len(stage.broker.connection_views())}")
    listener = peer.consumes(queue)
    stage.settle()
    texts = listener.takes()
    if texts:
        listener.acknowledges(texts[-1])
    peer.leaves()
    stage.settle()
    return texts


def duplicates(stage: Stage, name: str = Q) -> int:
    found = stage.broker.find_destination(parse_destination(name))
    assert found is not None
    return found.duplicates


def test_the_second_message_of_an_id_is_answered_and_dropped() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sends(peer, "1", "a")
    token = sends(peer, "2", "a")
    assert not peer.is_answered(token), "the first one is not safe yet"
    stage.syncs()
    assert peer.is_answered(token)
    assert taken(stage) == ["1"]
    assert (duplicates(stage), stage.view(Q).enqueued) == (1, 1)


def test_another_connection_may_send_the_message_again() -> None:
    stage = Stage()
    sends(stage.peer("p"), "1", "a")
    sends(stage.peer("q"), "1 again", "a")
    assert taken(stage) == ["1"]


def test_an_id_of_another_destination_or_no_id_is_no_duplicate() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sends(peer, "1", "a")
    sends(peer, "2", "a", to="queue://R")
    sends(peer, "3", "a", to="topic://Q")
    peer.sends(Q, "4", "4")
    sends(peer, "5", "")
    sends(peer, "6", None)
    peer.sends(Q, "7", properties={"other": "_AMQ_DUPL_ID"})
    peer.sends(Q, "8", properties={"other": "_AMQ_DUPL_ID"})
    assert taken(stage) == ["1", "4", "4", "5", "6", "7", "8"]
    assert taken(stage, "queue://R") == ["2"]


def test_a_number_is_an_id_too() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sends(peer, "1", 7)
    sends(peer, "2", "7")
    assert taken(stage) == ["1"]


def test_a_message_that_is_not_persistent_is_compared_as_well() -> None:
    stage = Stage()
    peer = stage.peer("p")
    assert peer.is_answered(sends(peer, "1", "a", persistent=False))
    assert peer.is_answered(sends(peer, "2", "a", persistent=False))
    assert taken(stage) == ["1"]


def test_a_broker_without_a_store_compares_ids() -> None:
    stage = Stage(persistent=False)
    peer = stage.peer("p")
    sends(peer, "1", "a")
    assert peer.is_answered(sends(peer, "2", "a"))
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == ["1"]


def test_the_window_forgets_the_oldest_id() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), id_cache_size=2))
    peer = stage.peer("p")
    for text in ("a", "b", "c", "b", "a"):
        sends(peer, text, text)
    assert taken(stage) == ["a", "b", "c", "a"]


def test_a_policy_switches_the_comparison_off() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), id_cache_size=0))
    peer = stage.peer("p")
    sends(peer, "1", "a")
    sends(peer, "2", "a")
    assert taken(stage) == ["1", "2"]


def test_a_composite_send_reaches_the_names_that_do_not_know_the_id() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sends(peer, "1", "a", to="queue://A")
    sends(peer, "2", "a", to="queue://A,B,topic://C")
    sends(peer, "3", "a", to="queue://B")
    sends(peer, "4", "a", to="queue://A,B")
    assert (taken(stage, "queue://A"), taken(stage, "queue://B")) == (["1"], ["2"])
    assert (duplicates(stage, "queue://A"), duplicates(stage, "queue://B")) == (2, 2)


def test_the_copies_of_a_virtual_topic_are_one_send_to_the_topic() -> None:
    stage = Stage(virtual=VirtualSettings((VirtualTopic(),)))
    stage.peer("maker").creates("queue://Consumer.A.VirtualTopic.T")
    stage.peer("maker2").creates("queue://Consumer.B.VirtualTopic.T")
    peer = stage.peer("p")
    sends(peer, "1", "a", to="topic://VirtualTopic.T")
    sends(peer, "2", "a", to="topic://VirtualTopic.T")
    sends(peer, "3", "a", to="queue://Consumer.A.VirtualTopic.T")
    assert taken(stage, "queue://Consumer.A.VirtualTopic.T") == ["1", "3"]
    assert taken(stage, "queue://Consumer.B.VirtualTopic.T") == ["1"]


def test_a_route_to_two_queues_takes_both_copies_in_a_transaction_too() -> None:
    forwards = (ForwardTo(destination("queue://A")), ForwardTo(destination("queue://B")))
    stage = Stage(virtual=VirtualSettings((), (CompositeDestination(destination(Q), forwards),)))
    peer = stage.peer("p")
    peer.begins(1)
    sends(peer, "1", "a", transaction=1)
    sends(peer, "2", "a", transaction=1)
    peer.commits(1)
    stage.settle()
    assert (taken(stage, "queue://A"), taken(stage, "queue://B")) == (["1"], ["1"])


def test_the_commit_of_a_transaction_decides() -> None:
    stage = Stage()
    one, two = stage.peer("one"), stage.peer("two")
    one.begins(1)
    two.begins(1)
    sends(one, "1", "a", transaction=1)
    one.sends(Q, "1 plain", transaction=1)
    sends(two, "2", "a", transaction=1)
    two.sends(Q, "2 plain", transaction=1)
    two.commits(1)
    one.commits(1)
    stage.settle()
    assert taken(stage) == ["2", "2 plain", "1 plain"]
    assert duplicates(stage) == 1
    assert stage.memory() == 0


def test_a_send_that_was_rolled_back_does_not_count() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    sends(peer, "1", "a", transaction=1)
    peer.rolls_back(1)
    sends(peer, "2", "a")
    assert taken(stage) == ["2"]


def test_the_same_id_twice_in_one_transaction_is_one_message() -> None:
    stage = Stage()
    peer = stage.peer("p")
    peer.begins(1)
    for text in ("1", "2"):
        sends(peer, text, "a", transaction=1)
        sends(peer, text, "a", to="queue://A,B", transaction=1)
    peer.commits(1)
    stage.settle()
    assert (taken(stage), taken(stage, "queue://A"), taken(stage, "queue://B")) == (["1"], ["1"], ["1"])


def test_a_commit_of_several_slices_loses_to_a_send_in_between() -> None:
    stage = Stage()
    peer, other = stage.peer("p"), stage.peer("o")
    peer.begins(1)
    sends(peer, "0", "a", transaction=1)
    for number in range(1, 1_200):
        peer.sends(Q, str(number), transaction=1)
    peer.commits(1)
    stage.runs()
    sends(other, "between", "a")
    stage.settle()
    assert taken(stage)[:3] == ["between", "1", "2"]
    assert duplicates(stage) == 1


def test_a_send_that_waited_for_room_is_compared_again() -> None:
    stage = Stage(PolicyEntry(destination("queue://>"), memory_limit_bytes=2_000))
    stage.peer("f").sends(Q, "x" * 3_000, persistent=False)
    one, two = stage.peer("one"), stage.peer("two")
    first = sends(one, "1", "a", persistent=False)
    second = sends(two, "2", "a", persistent=False)
    assert first not in one.answers and second not in two.answers
    listener = stage.peer("c").consumes(Q)
    listener.acknowledges("x" * 3_000)
    assert one.is_answered(first) and two.is_answered(second)
    assert listener.out[1:] == ["1"]


def test_a_send_that_was_refused_is_taken_when_it_comes_again() -> None:
    authorizer = RecordingAuthorizer()
    stage = Stage(authorizer=authorizer)
    peer = stage.peer("p")
    authorizer.refused.add(("*", WRITE, Q))
    with pytest.raises(AuthorizationError):
        sends(peer, "1", "a")
    authorizer.refused.clear()
    sends(peer, "2", "a")
    authorizer.refused.add(("*", WRITE, Q))
    with pytest.raises(AuthorizationError):
        sends(peer, "3", "a")
    authorizer.refused.clear()
    assert taken(stage) == ["2"]
    assert duplicates(stage) == 0


def test_a_scheduled_message_is_compared_when_it_is_sent() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    peer = stage.peer("p")
    sends(peer, "1", "a", properties={DELAY: 1_000})
    sends(peer, "2", "a", properties={DELAY: 1_000})
    sends(peer, "3", "a")
    stage.settle()
    stage.waits(2)
    stage.settle()
    assert taken(stage) == ["1"]


def test_why_says_that_the_duplicate_was_dropped() -> None:
    stage = Stage()
    peer = stage.peer("p")
    sends(peer, "1", "a")
    sends(peer, "2", "a")
    text = said(why(stage, id_of(peer, 2)))
    assert "queue://Q had accepted its _AMQ_DUPL_ID before" in text
    assert "sent by connection ID:p:1" in text


class Bridge:
    """A broker that forwards messages to the stage."""

    def __init__(self, stage: Stage) -> None:
        self.peer = stage.peer("bridge")
        self.peer.state.forwards = self.peer.state.repeats = True

    def forwards(self, text: str, duplicate_id: str, *path: str, original: str | None = None) -> int:
        properties: dict[str, object] = {PROPERTY: duplicate_id}
        message = self.peer.message(Q, text, connection_id="ID:client:1", properties=properties, original=original)
        message.broker_path = path
        return self.peer.sends_message(message)


def test_a_message_that_a_client_sent_to_two_brokers_is_one_message() -> None:
    stage = Stage()
    bridge = Bridge(stage)
    bridge.forwards("1", "a", "A")
    sends(stage.peer("p"), "1 again", "a")
    sends(stage.peer("q"), "2", "b")
    bridge.forwards("2 again", "b", "A")
    assert taken(stage) == ["1", "2"]


def test_a_message_that_comes_back_from_another_broker_is_no_duplicate() -> None:
    stage = Stage()
    sends(stage.peer("p"), "1", "a")
    assert taken(stage) == ["1"]
    Bridge(stage).forwards("1", "a", "ID:stage", "B")
    assert taken(stage) == ["1"]


def test_forwarded_copies_that_were_sent_elsewhere_are_no_duplicates() -> None:
    """Ids are those of a destination: at the other broker two of them led to the queue, or died into it."""
    stage = Stage()
    bridge = Bridge(stage)
    bridge.forwards("1", "a", "A", original="queue://Q.1")
    bridge.forwards("2", "a", "A", original="queue://Q.2")
    sends(stage.peer("p"), "3", "a")
    assert taken(stage) == ["1", "2", "3"]


def test_forwarded_parts_of_a_composite_are_compared() -> None:
    stage = Stage()
    bridge = Bridge(stage)
    sends(stage.peer("p"), "1", "a")
    bridge.forwards("1 again", "a", "A", original="queue://Q,R")
    assert taken(stage) == ["1"]


def test_a_dead_letter_that_another_broker_retries_is_no_duplicate_when_it_comes_back() -> None:
    other = Stage()
    Bridge(other).forwards("1", "a", "ID:stage")
    consumer = other.peer("c").consumes(Q)
    other.settle()
    consumer.acknowledges("1", ack_type=POISON_ACK, count=1)
    consumer.peer.leaves()
    other.settle()
    other.broker.moves.start(MoveOrder(RETRY, [destination("queue://ActiveMQ.DLQ")]), other.now)
    other.settle()
    (retried,) = other.store.kept(destination(Q))
    assert retried.broker_path == ()
    stage = Stage()
    sends(stage.peer("p"), "1", "a")
    assert taken(stage) == ["1"]
    Bridge(stage).forwards("1", "a", "B", original=original_of(retried))
    assert taken(stage) == ["1"]


def test_an_id_is_known_after_a_power_cut_with_its_message_and_without_it_unknown() -> None:
    stage = DiskStage()
    peer = stage.peer("p")
    sends(peer, "1", "a")
    sends(peer, "2", "b", persistent=False)
    stage.syncs()
    sends(peer, "3", "c")
    stage = stage.loses_power()
    peer = stage.peer("p")
    for text, duplicate_id in (("1 again", "a"), ("2 again", "b"), ("3 again", "c")):
        sends(peer, text, duplicate_id)
    assert taken(stage) == ["1", "2 again", "3 again"]


def test_an_id_is_known_after_its_message_was_consumed_before_it_was_written() -> None:
    stage = DiskStage()
    listener = stage.peer("c").consumes(Q)
    sends(stage.peer("p"), "1", "a")
    listener.acknowledges("1")
    stage.syncs()
    stage = stage.loses_power()
    sends(stage.peer("p"), "2", "a")
    assert taken(stage) == []


def test_the_id_of_a_message_to_a_topic_that_nobody_keeps_is_known_after_a_power_cut() -> None:
    stage = DiskStage()
    sends(stage.peer("p"), "1", "a", to="topic://T")
    stage.syncs()
    stage = stage.loses_power()
    listener = stage.peer("c").consumes("topic://T")
    sends(stage.peer("p"), "2", "a", to="topic://T")
    assert listener.takes() == []


def test_the_window_outlives_the_segments_in_which_its_ids_were_written() -> None:
    stage = DiskStage(segment_bytes=4_096)
    peer = stage.peer("p")
    for number in range(60):
        sends(peer, "x" * 400, str(number))
        assert len(taken(stage)) == 1
    assert len(stage.disk_store.disk.files()) < 8, "the first segments are gone"
    for _ in range(2):
        stage = stage.loses_power()
        for number in range(60):
            sends(stage.peer(f"p{number}"), "again", str(number))
        assert taken(stage) == []
        stage.syncs()


@pytest.mark.parametrize("cut", [False, True])
def test_a_branch_counts_its_ids_at_the_commit(cut: bool) -> None:
    stage: DiskStage = DiskStage()
    peer = stage.peer("p")
    xa = stage.broker.xa
    xa.begin(peer.state, X)
    for text, duplicate_id in (("1", "a"), ("2", "b")):
        message = peer.message(Q, text, properties={PROPERTY: duplicate_id})
        assert stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    xa.prepare(peer.state, X, peer.new_token(), stage.now)
    stage.settle()
    sends(stage.peer("q"), "other", "a")
    stage.settle()
    if cut:
        stage = stage.loses_power()
        stage.settle()
    other = stage.peer("r")
    stage.broker.xa.commit(other.state, X, False, other.new_token(), stage.now)
    stage.settle()
    sends(other, "2 again", "b")
    assert taken(stage) == ["other", "2"]
    stage = stage.loses_power()
    sends(stage.peer("p"), "again", "a")
    sends(stage.peer("q"), "again", "b")
    assert taken(stage) == []


def test_a_branch_that_is_rolled_back_leaves_no_id() -> None:
    stage = DiskStage()
    peer = stage.peer("p")
    stage.broker.xa.begin(peer.state, X)
    message = peer.message(Q, "1", properties={PROPERTY: "a"})
    assert stage.broker.send(peer.state, message, X, peer.new_token(), stage.now)
    stage.broker.xa.prepare(peer.state, X, peer.new_token(), stage.now)
    stage.settle()
    stage = stage.loses_power()
    other = stage.peer("r")
    stage.broker.xa.rollback(other.state, X, other.new_token(), stage.now)
    stage.settle()
    sends(other, "2", "a")
    assert taken(stage) == ["2"]


def test_a_transaction_and_its_ids_survive_a_power_cut_together() -> None:
    for syncs in (False, True):
        stage = DiskStage()
        peer = stage.peer("p")
        peer.begins(1)
        for number in range(600):
            sends(peer, str(number), str(number), transaction=1)
        peer.commits(1)
        if syncs:
            stage.settle()
            stage.syncs()
        stage = stage.loses_power()
        peer = stage.peer("p")
        for number in (0, 599):
            sends(peer, "again", str(number))
        assert len(taken(stage)) == (600 if syncs else 2)
