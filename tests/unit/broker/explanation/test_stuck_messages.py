"""Each way in which a message is stuck: built, explained, and freed by the advice."""

from __future__ import annotations

from typing import Final

import pytest

from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.explanation import explanation as cause
from spanwire.broker.policy.policy_entry import PolicyEntry, QueuePolicy
from spanwire.broker.queue.pending_messages import MAX_RESIDENT_MESSAGES
from spanwire.broker.queue.queue import Queue
from spanwire.broker.scheduler.schedule import SchedulerSettings
from spanwire.model.acks import POISON_ACK
from spanwire.model.ids import XaTransactionId
from tests.support.control_dialogue import Program
from tests.support.dialogue.broker_dialogue import START_MS, Stage, destination
from tests.support.why_dialogue import id_of, said, why, why_connection, why_queue, why_subscription, whys

Q: Final = "queue://Q"
DLQ: Final = "queue://ActiveMQ.DLQ"
T: Final = "topic://T"
AT_START: Final = "2023-11-14 22:13:20 UTC"
X: Final = XaTransactionId(4711, b"global", b"\x01")


class Nobody:
    """The observer of an operation whose result does not matter."""

    def on_finished(self, count: int, passed: int) -> None: ...

    def may_go_on(self, count: int) -> bool:
        return True


def policy(**settings: object) -> PolicyEntry:
    return PolicyEntry(destination(Q), queue=QueuePolicy(**settings))  # type: ignore[arg-type]


def test_no_consumer_until_one_comes() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a", timestamp_ms=START_MS)
    stage.settle()
    stage.waits(130)
    answer = why(stage, id_of(producer))
    assert (answer.cause, answer.sentence) == (cause.NO_CONSUMER, "queue://Q has no consumer")
    assert answer.advice == ["start a consumer of queue://Q"]
    assert "sent 2 min ago by producer ID:p:1:1:1" in said(answer)
    assert {one.seen_at for one in answer.evidence} == {Q}
    assert stage.peer("c").consumes(Q).takes() == ["a"]


def test_no_selector_chooses_it_and_the_answer_says_how_near_each_comes() -> None:
    stage = Stage()
    producer, one, two = stage.peer("p"), stage.peer("c"), stage.peer("d")
    one.consumes(Q, selector="colour = 'red' AND size > 5")
    two.consumes(Q, selector="size > 9")
    producer.sends(Q, "a", properties={"colour": "red", "size": 3})
    stage.settle()
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.SELECTOR
    assert answer.sentence == "queue://Q has 2 consumers, none can take it now: 2 selector"
    assert "1 of 2 terms hold; size > 5 fails: size is 3" in said(answer)
    assert "its selector size > 9 does not choose the message: size > 9 fails: size is 3" in said(answer)
    assert any("start a consumer whose selector chooses the message" in line for line in answer.advice)
    assert stage.peer("e").consumes(Q, selector="size = 3").takes() == ["a"]


def test_a_selector_of_a_property_that_the_message_lacks_says_so() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.peer("c").consumes(Q, selector="colour LIKE 'r%' OR NOT (size = 1)")
    producer.sends(Q, "a", properties={"size": 1})
    stage.settle()
    assert "the message has no colour, size is 1" in said(why(stage, id_of(producer)))


def test_a_full_window_says_at_whom_and_since_when_and_ends_with_the_consumer() -> None:
    stage = Stage()
    producer, hanging = stage.peer("p"), stage.peer("c", client_id="billing").consumes(Q, prefetch=1)
    producer.sends(Q, "a", "b")
    stage.settle()
    stage.waits(60)
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == cause.WINDOW_FULL
    text = f"its window is full since {AT_START} (60 s): 1 of 1 messages are unacknowledged"
    assert text in said(answer)
    assert "consumer ID:c:1:1:1 of client billing" in said(answer)
    assert any("spanwire consumer end ID:c:1:1:1" in line for line in answer.advice)
    second = stage.peer("d").consumes(Q, prefetch=5)
    stage.broker.assembly.operator_actions.end_consumer("ID:c:1:1:1", stage.now)
    stage.waits(2)
    stage.settle()
    assert hanging.closed is not None
    assert sorted(second.takes()) == ["a", "b"]


def test_what_a_consumer_has_says_since_when_and_which_delivery() -> None:
    stage = Stage()
    producer, first = stage.peer("p"), stage.peer("c")
    first.consumes(Q)
    producer.sends(Q, "a")
    stage.settle()
    first.leaves()
    stage.settle()
    stage.waits(10)
    second = stage.peer("d").consumes(Q)
    stage.waits(30)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.UNACKNOWLEDGED
    assert answer.sentence == (
        "consumer ID:d:1:1:1 has it since 2023-11-14 22:13:30 UTC (30 s) and does not acknowledge it"
    )
    assert "delivery 2" in said(answer)
    second.acknowledges("a")
    assert why(stage, id_of(producer)).cause == cause.ACKNOWLEDGED


def test_a_client_that_does_not_read_is_named() -> None:
    stage = Stage()
    producer, consumer = stage.peer("p"), stage.peer("c")
    listener = consumer.consumes(Q)
    consumer.reads = False
    producer.sends(Q, "x" * 1_100_000, "b")
    stage.settle()
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == cause.NOT_READING
    assert why_connection(stage, consumer).cause == cause.NOT_READING
    consumer.flushes()
    assert "b" in listener.takes()


def test_a_consumer_that_is_not_started_and_one_that_pulls_nothing() -> None:
    stage = Stage()
    producer, consumer = stage.peer("p"), stage.peer("c")
    listener = consumer.announces(Q)
    producer.sends(Q, "a")
    stage.settle()
    assert why(stage, id_of(producer)).cause == cause.NOT_STARTED
    stage.broker.start_consumer(listener.subscription, stage.now)
    assert listener.takes() == ["a"]
    listener.acknowledges("a")
    listener.leaves()
    puller = stage.peer("d").consumes(Q, prefetch=0)
    producer.sends(Q, "b")
    stage.settle()
    assert why(stage, id_of(producer, 2)).cause == cause.NOT_PULLING
    puller.pulls(0)
    assert puller.takes() == ["b"]


def test_the_owner_of_a_message_group_with_a_full_window() -> None:
    stage = Stage()
    producer = stage.peer("p")
    owner, other = stage.peer("c").consumes(Q, prefetch=1), stage.peer("d").consumes(Q)
    producer.sends(Q, "a", "b", group="g")
    stage.settle()
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == cause.GROUP_OWNER
    assert "consumer ID:c:1:1:1 is the owner of its message group, and its window is full" in answer.sentence
    assert "the message group g belongs to consumer ID:c:1:1:1" in said(answer)
    stage.broker.assembly.operator_actions.end_consumer("ID:c:1:1:1", stage.now)
    stage.waits(2)
    stage.settle()
    assert owner.out == ["a"]
    assert other.takes() == ["a", "b"]


def test_an_exclusive_consumer_with_a_full_window() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.peer("c").consumes(Q, prefetch=1, exclusive=True)
    other = stage.peer("d").consumes(Q)
    producer.sends(Q, "a", "b")
    stage.settle()
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == cause.EXCLUSIVE
    assert "consumer ID:c:1:1:1 is the exclusive consumer" in answer.sentence
    stage.broker.assembly.operator_actions.end_consumer("ID:c:1:1:1", stage.now)
    stage.waits(2)
    stage.settle()
    assert other.takes() == ["a", "b"]


def test_no_local_keeps_a_connection_s_own_messages_from_it() -> None:
    stage = Stage()
    both = stage.peer("p")
    both.consumes(Q, no_local=True)
    both.sends(Q, "a")
    stage.settle()
    assert why(stage, id_of(both)).cause == cause.NO_LOCAL
    assert stage.peer("c").consumes(Q).takes() == ["a"]


def test_a_paused_queue_says_since_when_and_the_command_to_resume() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(Q)
    stage.broker.operations.pause(destination(Q), True, stage.now)
    producer.sends(Q, "a")
    stage.settle()
    stage.waits(7)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.PAUSED
    assert answer.sentence == f"queue://Q is paused since {AT_START} (7 s): it dispatches nothing"
    assert answer.advice == ["spanwire queue resume 'Q'"]
    stage.broker.operations.pause(destination(Q), False, stage.now)
    assert listener.takes() == ["a"]


def test_a_queue_that_waits_for_its_consumers_says_until_when() -> None:
    stage = Stage(policy(consumers_before_dispatch_starts=2, time_before_dispatch_starts_ms=5_000))
    producer = stage.peer("p")
    first = stage.peer("c").consumes(Q)
    producer.sends(Q, "a")
    stage.settle()
    stage.waits(1)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.START_WAIT
    assert answer.sentence == "queue://Q waits for its first consumers: it dispatches in 4 s, or with 2 consumers"
    second = stage.peer("d").consumes(Q)
    stage.settle()
    assert [*first.takes(), *second.takes()] == ["a"]


def test_a_purge_under_way_holds_dispatch_up() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, *(str(number) for number in range(300)))
    stage.settle()
    stage.peer("c").announces(Q)
    queue = stage.broker.find_destination(destination(Q))
    assert isinstance(queue, Queue)
    queue.purge()
    answer = why(stage, id_of(producer, 300))
    assert answer.cause == cause.PURGING
    stage.settle()
    answer = why(stage, id_of(producer, 300))
    assert answer.cause == cause.ACKNOWLEDGED
    assert "300 messages removed or purged unread" in said(answer)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_send_without_room_says_what_is_full(persistent: bool) -> None:
    limits = UsageLimits(memory_bytes=20_000, store_bytes=10_000) if persistent else UsageLimits(memory_bytes=20_000)
    stage = Stage(limits=limits)
    producer, consumer = stage.peer("p"), stage.peer("c")
    if persistent:
        stage.store.used = 20_000
        stage.broker.assembly.flow.refresh()
    count = 1 if persistent else 40
    producer.sends(Q, *(f"{number:0100}" for number in range(count)), persistent=persistent)
    stage.settle()
    stage.waits(5)
    last = id_of(producer, producer.state.parked[0].message.sequence)
    answer = why(stage, last)
    assert answer.cause == (cause.NO_STORE if persistent else cause.NO_MEMORY)
    assert f"waits for room since {AT_START} (5 s)" in answer.sentence
    assert ("raise storeUsage" if persistent else "memoryUsage") in said(answer)
    assert why_connection(stage, producer).cause == cause.NO_MEMORY
    listener = consumer.consumes(Q)
    stage.store.used = 0
    for _ in range(100):
        stage.waits(1)
        stage.settle()
        for text in listener.takes():
            listener.acknowledges(text)
    assert not producer.state.parked


def test_a_full_disk_is_told_from_a_full_store() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.has_room(False)
    producer.sends(Q, "a")
    assert why(stage, id_of(producer)).cause == cause.NO_DISK
    stage.has_room(True)
    stage.settle()
    assert stage.peer("c").consumes(Q).takes() == ["a"]


def test_a_message_behind_others_of_its_connection_waits_for_its_turn() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.has_room(False)
    producer.sends(Q, "a")
    producer.sends(Q, "b", persistent=False)
    answer = why(stage, id_of(producer, 2))
    assert answer.cause == cause.TURN
    assert "1 send of its connection are before it" in said(answer)


def test_a_message_that_the_disk_does_not_have_yet_says_so() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(Q)
    producer = stage.peer("p")
    producer.begins(1)
    producer.sends(Q, "a", transaction=1)
    producer.commits(1)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.SYNC
    assert "it is being written to the disk, before queue://Q gets it" in answer.sentence
    stage.settle()
    assert listener.takes() == ["a"]


def test_a_send_that_waits_because_the_disk_is_behind_goes_on_when_it_catches_up() -> None:
    stage = Stage(limits=UsageLimits(memory_bytes=100_000))  # a tenth may be on its way to the disk
    producer = stage.peer("p")
    producer.sends(Q, *(f"{number:04000}" for number in range(4)))
    answer = why(stage, id_of(producer, 4))
    assert answer.cause == cause.DISK_BEHIND
    assert "the disk is behind with earlier messages" in said(answer)
    stage.settle()
    assert not producer.state.parked
    assert len(stage.peer("c").consumes(Q).takes()) == 4


def test_a_queue_waits_for_what_a_consumer_that_went_gives_back() -> None:
    stage = Stage()
    producer, consumer = stage.peer("p"), stage.peer("c")
    consumer.consumes(Q, prefetch=1_500)
    producer.sends(Q, *(str(number) for number in range(1_600)))
    stage.settle()
    consumer.leaves()
    answer = why(stage, id_of(producer, 1_600))
    assert answer.cause == cause.RETURNING
    assert "waits for older messages that return to it" in answer.sentence
    stage.settle()
    listener = stage.peer("d").consumes(Q, prefetch=2_000)
    stage.settle()
    assert listener.takes()[:1_000] == [str(number) for number in range(1_000)]


def test_a_queue_that_is_dispatching_says_to_whom() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, *(str(number) for number in range(300)), properties={"n": 1})
    stage.settle()
    listener = stage.peer("c").consumes(Q, selector="n = 1", prefetch=1_000)
    answer = why(stage, id_of(producer, 300))
    assert answer.cause == cause.DISPATCHING
    assert "queue://Q is dispatching: " in answer.sentence
    assert answer.advice == ["ask again: it is offered to its consumers some messages at a time"]
    stage.settle()
    assert len(listener.takes()) == 300


def test_a_scheduled_message_says_when_it_is_due() -> None:
    stage = Stage(scheduler=SchedulerSettings())
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(Q)
    producer.sends(Q, "a", properties={"AMQ_SCHEDULED_DELAY": 60_000})
    stage.settle()
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.SCHEDULED
    assert answer.sentence == "it is scheduled: it will be delivered to queue://Q at 2023-11-14 22:14:20 UTC"
    stage.waits(61)
    stage.settle()
    stage.settle()
    assert listener.takes() == ["a"]


def test_a_transaction_says_whose_and_since_when() -> None:
    stage = Stage()
    producer = stage.peer("p", client_id="shop")
    stage.waits(3)
    producer.begins(1)
    producer.sends(Q, "a", transaction=1)
    stage.waits(30)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.TRANSACTION
    assert answer.sentence == (
        "it was sent to queue://Q in transaction TX:ID:p:1:1, which is open since 2023-11-14 22:13:23 UTC (30 s)"
    )
    assert "client shop" in said(answer)
    producer.commits(1)
    stage.settle()
    listener = stage.peer("c").consumes(Q)
    assert listener.takes() == ["a"]
    listener.peer.begins(2)
    listener.acknowledges("a", transaction=2)
    answer = why(stage, id_of(producer))
    assert "it was acknowledged from queue://Q in transaction TX:ID:c:1:2" in answer.sentence
    assert any("spanwire disconnect ID:c:1" in line for line in answer.advice)
    stage.broker.administration.disconnect("ID:c:1", stage.now)
    listener.peer.leaves()
    stage.settle()
    assert stage.peer("d").consumes(Q).takes() == ["a"]


def test_a_branch_in_doubt_is_named_before_and_after_a_restart() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.broker.xa.begin(producer.state, X)
    message = producer.message(Q, "a")
    stage.broker.send(producer.state, message, X, producer.new_token(), stage.now)
    stage.broker.xa.prepare(producer.state, X, producer.new_token(), stage.now)
    stage.settle()
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.IN_DOUBT
    assert f"sent to queue://Q in XA branch {X}" in answer.sentence
    again = stage.restarts()
    answer = why(again, id_of(producer))
    assert answer.cause == cause.IN_DOUBT
    assert "from before the start of the broker" in answer.sentence
    manager = again.peer("m")
    again.broker.xa.commit(manager.state, X, False, manager.new_token(), again.now)
    again.settle()
    again.settle()
    assert again.peer("c").consumes(Q).takes() == ["a"]


def test_a_cursor_holds_what_it_reserved_and_an_exclusive_one_the_whole_queue() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a", "b")
    stage.settle()
    program = Program(stage)
    program.opens(exclusive=True)
    program.reserves(1)
    held, kept = why(stage, id_of(producer, 1)), why(stage, id_of(producer, 2))
    assert held.cause == kept.cause == cause.CURSOR
    assert held.sentence.startswith("cursor c of user ")
    assert "holds it as number 0 of queue://Q" in held.sentence
    assert kept.sentence == "an exclusive cursor has queue://Q: its consumers get no messages"
    assert any("spanwire pipeline release 'c'" in line for line in held.advice)
    listener = stage.peer("c").consumes(Q)
    program.asks("release", cursor="c", epoch=1)
    stage.settle()
    assert listener.takes() == ["a", "b"]


def test_a_dead_letter_says_why_how_often_and_from_where() -> None:
    stage = Stage()
    producer, consumer = stage.peer("p"), stage.peer("c")
    listener = consumer.consumes(Q)
    producer.sends(Q, "a")
    stage.settle()
    listener.leaves()
    stage.settle()
    listener = consumer.consumes(Q)
    listener.acknowledges("a", ack_type=POISON_ACK, count=1)
    stage.settle()
    letter, gone = whys(stage, id_of(producer))
    assert letter.cause == gone.cause == cause.DEAD_LETTERED
    assert letter.sentence.startswith("it is a dead letter of queue://Q in queue://ActiveMQ.DLQ")
    assert gone.sentence == f"it was given up in queue://Q at {AT_START}, and a dead letter went to {DLQ}"
    assert f"spanwire queue retry 'ActiveMQ.DLQ' --selector 'JMSMessageID = '\\''{id_of(producer)}'\\'''" in said(
        letter
    )
    stage.broker.operations.retry(destination(DLQ), f"JMSMessageID = '{id_of(producer)}'", Nobody(), 10, stage.now)
    stage.settle()
    assert listener.takes_deliveries()[-1].text == "a"
    assert [one.cause for one in whys(stage, id_of(producer))] == [cause.UNACKNOWLEDGED, "moved", cause.DEAD_LETTERED]


def test_an_expired_message_says_when_and_where_its_dead_letter_is() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a", expiration_ms=START_MS + 1_000)
    producer.sends(Q, "b", persistent=False, expiration_ms=START_MS + 1_000)
    stage.settle()
    stage.waits(40)
    stage.settle()
    letter, gone = whys(stage, id_of(producer, 1))
    assert gone.cause == "expired"
    assert "it expired in queue://Q at 2023-11-14 22:14:00 UTC, and a dead letter went to" in gone.sentence
    lost = why(stage, id_of(producer, 2))
    assert (lost.cause, letter.cause) == ("expired", cause.DEAD_LETTERED)
    assert lost.sentence.endswith("and left no dead letter")


def test_a_message_to_a_topic_without_a_subscriber_was_sent_nowhere() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(T, "a")
    stage.settle()
    answer = why(stage, id_of(producer))
    assert answer.cause == "sent-nowhere"
    assert answer.sentence == f"it was sent nowhere at {AT_START}: topic topic://T had no subscriber"
    assert why_queue(stage, T).cause == cause.NO_SUBSCRIBER
    listener = stage.peer("c", client_id="id").consumes(T, durable="s")
    producer.sends(T, "b")
    stage.settle()
    assert listener.takes() == ["b"]
    assert why_queue(stage, T).cause == cause.HEALTHY


def test_a_slow_subscriber_of_a_topic_is_named_with_its_backlog() -> None:
    stage = Stage()
    producer = stage.peer("p")
    slow = stage.peer("c").consumes(T, prefetch=1)
    producer.sends(T, "a", "b", "c")
    answer = why(stage, id_of(producer, 3))
    assert answer.cause == cause.WINDOW_FULL
    assert "it waits for consumer ID:c:1:1:1 of topic://T behind 1 message" in answer.sentence
    assert why_queue(stage, T).cause == cause.WINDOW_FULL
    slow.acknowledges("a")
    slow.acknowledges("b")
    assert slow.takes() == ["a", "b", "c"]


def test_a_durable_subscription_without_its_subscriber_keeps_messages() -> None:
    stage = Stage()
    producer, subscriber = stage.peer("p"), stage.peer("c", client_id="id")
    subscriber.consumes(T, durable="s")
    subscriber.leaves()
    stage.settle()
    producer.sends(T, "a")
    stage.settle()
    stage.waits(9)
    answer = why(stage, id_of(producer))
    assert answer.cause == cause.NO_CONSUMER
    assert answer.sentence.startswith(f"subscription s of client id has no subscriber since {AT_START} (9 s)")
    assert why_subscription(stage, "id", "s").cause == cause.NO_CONSUMER
    assert stage.peer("c2", client_id="id").consumes(T, durable="s").takes() == ["a"]


def test_a_duplicate_says_of_which_message() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a")
    stage.settle()
    again = stage.peer("p2", reconnected=True)
    again.sends(Q, "a", connection_id=producer.connection_id)
    answers = whys(stage, id_of(producer))
    assert [one.cause for one in answers] == [cause.NO_CONSUMER, "duplicate"]
    assert "duplicate of the message with the same id, sent by connection ID:p2:1" in said(answers[1])


def test_a_moved_and_a_removed_message_say_where_they_went() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, "a", "b")
    stage.settle()
    operations = stage.broker.operations
    one = f"JMSMessageID = '{id_of(producer, 1)}'"
    operations.transfer(destination(Q), destination("queue://R"), False, one, Nobody(), 10, stage.now)
    two = f"JMSMessageID = '{id_of(producer, 2)}'"
    operations.remove(destination(Q), two, Nobody(), 10, stage.now)
    stage.settle()
    here, moved = whys(stage, id_of(producer, 1))
    assert here.sentence == "queue://R has no consumer"
    assert moved.sentence == f"an operator moved it from queue://Q to queue://R at {AT_START}"
    removed = why(stage, id_of(producer, 2))
    assert removed.sentence == f"an operator removed it from queue://Q at {AT_START}"


def test_an_id_that_nobody_knows_says_when_the_memory_begins() -> None:
    answer = why(Stage(), "ID:nobody:1:1:1:1")
    assert answer.cause == cause.UNKNOWN
    assert f"the memory of departures begins at {AT_START} and has 0 messages" in said(answer)


@pytest.mark.large
def test_messages_on_the_disk_are_found_with_their_place_and_named_queues_alone_are_read() -> None:
    stage = Stage()
    producer = stage.peer("p")
    producer.sends(Q, *(str(number) for number in range(MAX_RESIDENT_MESSAGES + 600)))
    producer.sends("queue://R", "r")
    stage.settle()
    last = id_of(producer, MAX_RESIDENT_MESSAGES + 500)
    answer = why(stage, last)
    assert answer.cause == cause.NO_CONSUMER
    assert f"pending behind {MAX_RESIDENT_MESSAGES + 499} messages" in said(answer)
    assert "its body is in the store alone" in said(answer)
    assert whys(stage, last, queue="queue://R")[0].cause == cause.ACKNOWLEDGED


def test_a_queue_is_explained_by_its_oldest_message() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(Q, selector="n = 1")
    producer.sends(Q, "a")
    stage.settle()
    answer = why_queue(stage, Q)
    assert answer.cause == cause.SELECTOR
    assert f"the oldest pending message is {id_of(producer)}" in said(answer)
    producer.sends(Q, "b", properties={"n": 1})
    stage.settle()
    assert listener.takes() == ["b"]


def test_a_queue_whose_messages_are_all_out_names_who_has_them() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(Q)
    producer.sends(Q, "a")
    stage.settle()
    stage.waits(31)
    answer = why_queue(stage, Q)
    assert answer.cause == cause.UNACKNOWLEDGED
    assert f"1 are unacknowledged, the oldest since {AT_START} (31 s)" in answer.sentence
    assert why_connection(stage, listener.peer).cause == cause.UNACKNOWLEDGED
    listener.acknowledges("a")
    assert why_queue(stage, Q).cause == cause.EMPTY
    assert why_connection(stage, listener.peer).cause == cause.HEALTHY


def test_questions_change_nothing() -> None:
    stage = Stage()
    producer = stage.peer("p")
    stage.peer("c").consumes(Q, selector="n = 1")
    producer.sends(Q, "a", "b")
    stage.settle()
    before = (stage.view(Q), stage.memory(), len(stage.store.log), stage.broker.next_timeout())
    for _ in range(3):
        why(stage, id_of(producer))
        why_queue(stage, Q)
    assert (stage.view(Q), stage.memory(), len(stage.store.log), stage.broker.next_timeout()) == before
