"""Messages that are stuck or were given up, freed by what the answer advises: rights, time to live, ids, order."""

from __future__ import annotations

from typing import Final

from spanwire.broker.explanation import explanation as cause
from spanwire.broker.policy.dead_letter_strategy import DeadLetterStrategy
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.queue import Queue
from spanwire.model.acks import POISON_ACK
from tests.support.dialogue.broker_dialogue import START_MS, Stage, destination
from tests.support.why_dialogue import id_of, said, why, whys
from tests.unit.broker.explanation.test_stuck_messages import DLQ, Nobody, Q
from tests.unit.broker.test_durable_rights_dialogues import Town, lists

DUPLICATE_ID: Final = "_AMQ_DUPL_ID"


def test_a_durable_wildcard_whose_user_lost_a_right_gets_the_message_with_it() -> None:
    town = Town(rights=lists(("B.>", "a")))
    town.subscribes("alice").peer.leaves()
    root = town.logs_in("root", None)
    root.sends("topic://B.t", "b")
    town.stage.settle()
    town.stage.broker.reconfiguration.use_authorizer(lists())
    listener = town.subscribes("alice")
    assert town.takes(listener) == []
    answer = why(town.stage, id_of(root))
    assert answer.cause == cause.NOT_READABLE
    assert "its user alice may not read topic://B.t" in said(answer)
    who = listener.subscription.info.consumer_id
    assert answer.advice == [f"give the user of consumer {who} the right to read the topic, and let it subscribe again"]
    town.stage.broker.reconfiguration.use_authorizer(lists(("B.>", "a")))
    assert town.takes(listener) == []
    listener.peer.leaves()
    assert town.takes(town.subscribes("alice")) == ["b"]


def test_a_message_behind_others_goes_when_these_have_room() -> None:
    stage = Stage()
    producer, listener = stage.peer("p"), stage.peer("c").consumes(Q)
    stage.has_room(False)
    producer.sends(Q, "a")
    producer.sends(Q, "b", persistent=False)
    assert why(stage, id_of(producer, 2)).cause == cause.TURN
    stage.has_room(True)
    stage.settle()
    assert listener.takes() == ["a", "b"]


def test_a_message_sent_during_a_purge_stays_and_goes_behind_it() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, *(str(number) for number in range(300)))
    stage.settle()
    listener = stage.peer("c").announces(Q)
    queue = stage.broker.find_destination(destination(Q))
    assert isinstance(queue, Queue)
    queue.purge()
    producer.sends(Q, "later")
    answer = why(stage, id_of(producer, 301))
    assert answer.cause in (cause.PURGING, cause.SYNC)
    stage.settle()
    stage.broker.start_consumer(listener.subscription, stage.now)
    assert listener.takes() == ["later"]


def test_the_dead_letter_of_an_expired_message_goes_when_it_is_retried() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a", expiration_ms=START_MS + 1_000)
    stage.settle()
    stage.waits(40)
    stage.settle()
    letter, gone = whys(stage, id_of(producer))
    assert gone.cause == "expired"
    assert any("queue retry" in line for line in letter.advice)
    stage.broker.operations.retry(destination(DLQ), None, Nobody(), 10, stage.now)
    stage.settle()
    assert stage.peer("c").consumes(Q).takes() == ["a"]


def test_what_left_no_dead_letter_leaves_one_with_the_policy_of_the_advice() -> None:
    for keeps in (False, True):
        letters = DeadLetterStrategy(process_non_persistent=keeps)
        stage = Stage(PolicyEntry(destination(Q), dead_letter=letters))
        producer, listener = stage.peer("p"), stage.peer("c").consumes(Q)
        producer.sends(Q, "a", persistent=False)
        stage.settle()
        listener.acknowledges("a", ack_type=POISON_ACK, count=1)
        stage.settle()
        answer = whys(stage, id_of(producer))[-1]
        if not keeps:
            assert answer.cause == "discarded"
            assert "processNonPersistent" in said(answer)
    stage.broker.operations.retry(destination(DLQ), None, Nobody(), 10, stage.now)
    stage.settle()
    assert listener.takes_deliveries()[-1].text == "a"


def test_a_duplicate_by_its_own_id_goes_with_another_one() -> None:
    stage = Stage()
    producer, listener = stage.peer("p"), stage.peer("c").consumes(Q)
    producer.sends(Q, "a", properties={DUPLICATE_ID: "1"})
    producer.sends(Q, "b", properties={DUPLICATE_ID: "1"})
    stage.settle()
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == "duplicate"
    assert any("give each message an _AMQ_DUPL_ID of its own" in line for line in answer.advice)
    producer.sends(Q, "b", properties={DUPLICATE_ID: "2"})
    stage.settle()
    assert listener.takes() == ["a", "b"]


def test_a_message_pushed_out_of_a_ring_stays_in_a_larger_one() -> None:
    for size in (1, 2):
        stage = Stage(PolicyEntry(destination(Q), queue=QueuePolicy(ring_size=size)))
        producer = stage.peer("p")
        producer.sends(Q, "a", "b")
        stage.settle()
        if size == 1:
            answer = why(stage, id_of(producer))
            assert "newer messages pushed it out of queue://Q" in answer.sentence
            assert any("raise ringSize" in line for line in answer.advice)
    assert stage.peer("c").consumes(Q).takes() == ["a", "b"]


def test_a_replaced_last_value_stays_with_a_key_of_its_own() -> None:
    for keys in ("kk", "kl"):
        stage = Stage(PolicyEntry(destination(Q), queue=QueuePolicy(last_value=True)))
        producer = stage.peer("p")
        for text, key in zip("ab", keys, strict=True):
            producer.sends(Q, text, properties={"_AMQ_LVQ_NAME": key})
        stage.settle()
        if keys == "kk":
            answer = why(stage, id_of(producer))
            assert "a newer message with its key replaced it in queue://Q" in answer.sentence
            assert any("different keys" in line for line in answer.advice)
    assert stage.peer("c").consumes(Q).takes() == ["a", "b"]
