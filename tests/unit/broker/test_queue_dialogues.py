"""Queues: order, turns, windows, redelivery, selectors (JMS 1.1 §4.4, §5; OpenWire MessageAck and RemoveInfo)."""

from __future__ import annotations

import pytest

from spanwire.model.acks import (
    DELIVERED_ACK,
    INDIVIDUAL_ACK,
    LAST_DELIVERED_UNKNOWN,
    LAST_DELIVERED_UNSET,
    POISON_ACK,
    REDELIVERED_ACK,
    MessageAck,
)
from spanwire.model.errors import IllegalStateError, InvalidSelectorError, JmsError
from spanwire.model.ids import ConsumerId, MessageId, ProducerId, SessionId
from tests.support.dialogue.broker_dialogue import Stage

QUEUE = "queue://Q"


def test_messages_go_round_the_consumers_in_turn() -> None:
    stage = Stage()
    first, second, third = (stage.peer(name).consumes(QUEUE) for name in "abc")
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4", "5", "6")
    assert [first.takes(), second.takes(), third.takes()] == [["1", "4"], ["2", "5"], ["3", "6"]]


def test_each_message_goes_to_one_consumer_and_in_the_order_sent() -> None:
    stage = Stage()
    producer = stage.peer("p")
    texts = [str(number) for number in range(50)]
    producer.sends(QUEUE, *texts)
    listener = stage.peer("c").consumes(QUEUE)
    assert listener.takes() == texts


def test_a_consumer_gets_nothing_before_it_is_started() -> None:
    stage = Stage()
    producer, peer = stage.peer("p"), stage.peer("c")
    producer.sends(QUEUE, "1")
    listener = peer.announces(QUEUE)
    producer.sends(QUEUE, "2")
    assert listener.takes() == []
    stage.broker.start_consumer(listener.subscription, stage.now)
    assert listener.takes() == ["1", "2"]


def test_the_prefetch_window_holds_back_what_the_consumer_did_not_acknowledge() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    assert listener.takes() == ["1", "2"]
    listener.acknowledges("1", count=1)
    assert listener.takes() == ["3"]
    listener.acknowledges("3", first="2", count=2)
    assert listener.takes() == ["4"]


def test_a_delivered_acknowledgement_moves_the_window_and_settles_nothing() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4", "5")
    listener.acknowledges("2", ack_type=DELIVERED_ACK, count=2)
    assert listener.takes() == ["1", "2", "3", "4"]
    assert stage.view(QUEUE).in_flight == 4
    listener.acknowledges("2", first="1", count=2)
    assert listener.takes() == []  # 3 and 4 fill the window of two again
    listener.acknowledges("3", count=1)
    assert listener.takes() == ["5"]


def test_an_individual_acknowledgement_behind_the_delivered_ones_leaves_their_extension() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    listener.acknowledges("1", ack_type=DELIVERED_ACK, count=1)
    assert listener.takes() == ["1", "2"]
    listener.acknowledges_one("2")
    assert listener.takes() == ["3"]


def test_an_individual_acknowledgement_settles_that_message_alone() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    listener.acknowledges_one("2")
    peer.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["1", "3"]


def test_a_range_in_the_middle_settles_that_range_alone() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    listener.acknowledges("3", first="2", count=2)
    listener.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["1", "4"]


def test_a_count_that_does_not_fit_its_range_settles_the_range() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    listener.acknowledges("3", first="2", count=3)
    listener.leaves()
    assert stage.peer("d").consumes(QUEUE).takes() == ["1", "4"]


def test_many_messages_that_are_acknowledged_at_once_leave_queue_store_and_memory() -> None:
    stage = Stage()
    producer, peer = stage.peer("p"), stage.peer("c")
    listener, other = peer.consumes(QUEUE, prefetch=40), stage.peer("o").announces(QUEUE)
    empty = stage.memory()
    texts = [f"{number:02}" for number in range(30)]
    for text in texts:
        producer.sends(QUEUE, text, persistent=text != "07")
    assert listener.takes() == texts
    sizes = [reference.message.size for reference in listener.subscription.in_flight.references]
    assert stage.memory() == empty + sum(sizes)
    listener.acknowledges("24", first="00", count=25)
    removed = [change.sequence for change in stage.store.log if change.kind == "remove"]
    assert removed == list(range(1, 25))
    assert (stage.view(QUEUE).dequeued, stage.view(QUEUE).in_flight) == (25, 5)
    assert stage.memory() == empty + sum(sizes[25:])
    assert other.takes() == []
    listener.acknowledges("29", first="25", count=5)
    assert stage.memory() == empty
    assert [change.sequence for change in stage.store.log if change.kind == "remove"] == list(range(1, 30))


def test_messages_of_two_queues_that_are_acknowledged_at_once_leave_both() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes("queue://A,B", prefetch=40)
    texts = [str(number) for number in range(20)]
    for text in texts:
        producer.sends("queue://A" if int(text) % 3 else "queue://B", text)
    assert listener.takes() == texts
    listener.acknowledges("19", first="0", count=20)
    assert [(stage.view(name).dequeued, stage.view(name).in_flight) for name in ("queue://A", "queue://B")] == [
        (13, 0),
        (7, 0),
    ]
    assert sum(change.kind == "remove" for change in stage.store.log) == 20


def test_an_acknowledgement_of_a_message_that_is_not_out_is_refused_and_changes_nothing() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    stranger = MessageId(ProducerId("ID:p:1", 1, 1), 99)
    for ack_type in (DELIVERED_ACK, POISON_ACK, 2, REDELIVERED_ACK, INDIVIDUAL_ACK, 6, 77):
        with pytest.raises(IllegalStateError):
            ack = MessageAck(ack_type, None, stranger)
            stage.broker.acknowledge(peer.state, listener.subscription, ack, None, 1, stage.now)
    assert stage.view(QUEUE).in_flight == 1
    listener.acknowledges("1")
    assert stage.view(QUEUE).pending == 0


@pytest.mark.parametrize(
    ("last_delivered", "counts"),
    [
        (LAST_DELIVERED_UNSET, [("1", 0), ("2", 0), ("3", 0)]),
        (LAST_DELIVERED_UNKNOWN, [("1", 1), ("2", 1), ("3", 1)]),
        (2, [("1", 1), ("2", 1), ("3", 0)]),
        (999, [("1", 0), ("2", 0), ("3", 0)]),
    ],
)
def test_what_a_consumer_that_leaves_has_seen_counts_as_delivered(
    last_delivered: int, counts: list[tuple[str, int]]
) -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    sequence = last_delivered if last_delivered < 0 or last_delivered > 9 else listener.deliveries[1].sequence
    listener.leaves(sequence)
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == counts


def test_the_sequence_of_a_message_grows_and_stays_when_it_is_dispatched_again() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    sequences = [delivery.sequence for delivery in listener.takes_deliveries()]
    assert sequences[0] < sequences[1]
    listener.leaves()
    again = stage.peer("d").consumes(QUEUE)
    assert [delivery.sequence for delivery in again.takes_deliveries()] == sequences


@pytest.mark.parametrize("way", ["consumer", "session", "connection"])
def test_messages_of_a_consumer_that_goes_return_to_their_old_place(way: str) -> None:
    stage = Stage()
    peer = stage.peer("c")
    peer.session(2)
    listener = peer.consumes(QUEUE, prefetch=3, session=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4", "5")
    assert listener.takes() == ["1", "2", "3"]
    listener.acknowledges_one("2")
    if way == "consumer":
        listener.leaves()
    elif way == "session":
        stage.broker.remove_session(peer.state, SessionId(peer.connection_id, 2), LAST_DELIVERED_UNKNOWN, stage.now)
    else:
        peer.leaves()
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == [("1", 1), ("3", 1), ("4", 1), ("5", 0)]
    assert stage.view(QUEUE).consumers == 1


def test_messages_go_at_once_to_another_consumer_when_one_goes() -> None:
    stage = Stage()
    first, second = stage.peer("a"), stage.peer("b")
    first.consumes(QUEUE, prefetch=2)
    other = second.consumes(QUEUE, prefetch=10)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    assert other.takes() == ["2", "4"]
    first.leaves()
    assert other.redelivery_counts() == [("1", 1), ("3", 1)]


def test_a_connection_that_goes_twice_goes_once() -> None:
    stage = Stage()
    peer = stage.peer("c")
    peer.consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1")
    peer.leaves()
    peer.leaves()
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == [("1", 1)]


def test_a_redelivered_acknowledgement_counts_an_attempt_and_keeps_the_message_out() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE)
    stage.peer("p").sends(QUEUE, "1", "2")
    listener.acknowledges("1", first="1", ack_type=REDELIVERED_ACK, count=1)
    listener.acknowledges("1", first="1", ack_type=REDELIVERED_ACK, count=1)
    assert stage.view(QUEUE).in_flight == 2
    listener.leaves(LAST_DELIVERED_UNSET)
    assert stage.peer("d").consumes(QUEUE).redelivery_counts() == [("1", 2), ("2", 0)]


@pytest.mark.parametrize("way", ["closes", "dies"])
@pytest.mark.parametrize("first_told", [0, 1])  # older clients of ActiveMQ do not report a message's first rollback
def test_a_rollback_that_the_client_told_is_not_counted_again_when_its_consumer_leaves(
    way: str, first_told: int
) -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    counts: list[int] = []
    for number in range(4):  # each time it is rolled back once
        listener = stage.peer(f"c{number}").consumes(QUEUE)
        counts += [count for _, count in listener.redelivery_counts()]
        if number >= 1 - first_told:
            listener.acknowledges("1", first="1", ack_type=REDELIVERED_ACK, count=1)
        if way == "closes":
            listener.leaves(listener.deliveries[-1].sequence)
        else:
            listener.peer.leaves()
    assert counts == [0, 1, 2, 3]


def test_all_rollbacks_at_one_consumer_that_it_tells_of_count() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    for name, count in (("a", 0), ("b", 3)):
        listener = stage.peer(name).consumes(QUEUE)
        assert listener.redelivery_counts() == [("1", count)]
        for _ in range(3):
            listener.acknowledges("1", first="1", ack_type=REDELIVERED_ACK, count=1)
        listener.peer.leaves()
    assert stage.peer("c").consumes(QUEUE).redelivery_counts() == [("1", 6)]


def test_the_exclusive_consumer_gets_everything_and_the_next_takes_over() -> None:
    stage = Stage()
    plain = stage.peer("a").consumes(QUEUE)
    owner_peer = stage.peer("b")
    owner = owner_peer.consumes(QUEUE, exclusive=True)
    heir = stage.peer("c").consumes(QUEUE, exclusive=True)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", "2", "3")
    assert (plain.takes(), owner.takes(), heir.takes()) == ([], ["1", "2", "3"], [])
    owner_peer.leaves()
    assert (plain.takes(), heir.takes()) == ([], ["1", "2", "3"])


def test_consumers_of_higher_priority_are_served_first() -> None:
    stage = Stage()
    low = stage.peer("a").consumes(QUEUE, priority=0, prefetch=1)
    high = stage.peer("b").consumes(QUEUE, priority=5, prefetch=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    assert (high.takes(), low.takes()) == (["1", "2"], ["3"])


def test_consumers_of_the_same_high_priority_take_turns() -> None:
    stage = Stage()
    low = stage.peer("a").consumes(QUEUE)
    first, second = (stage.peer(name).consumes(QUEUE, priority=5) for name in "bc")
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    assert (low.takes(), first.takes(), second.takes()) == ([], ["1", "3"], ["2", "4"])


def test_beside_a_selector_the_turns_begin_with_the_first_consumer_and_go_on_behind_the_last_taker() -> None:
    stage = Stage()
    first, second = stage.peer("a").consumes(QUEUE), stage.peer("b").consumes(QUEUE, selector="n = 1")
    third = stage.peer("c").consumes(QUEUE)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1", properties={"n": 1})
    first.acknowledges("1")  # room that is there again is no turn
    producer.sends(QUEUE, "2", "3", "4", "5", properties={"n": 1})
    assert (first.out, second.out, third.out) == (["1", "4"], ["2", "5"], ["3"])


def test_selectors_part_the_messages_of_a_queue() -> None:
    stage = Stage()
    even = stage.peer("a").consumes(QUEUE, selector="parity = 0")
    odd = stage.peer("b").consumes(QUEUE, selector="parity = 1")
    producer = stage.peer("p")
    for number in range(6):
        producer.sends(QUEUE, str(number), properties={"parity": number % 2})
    assert (even.takes(), odd.takes()) == (["0", "2", "4"], ["1", "3", "5"])


def test_a_consumer_that_matches_nothing_holds_nobody_up() -> None:
    stage = Stage()
    nothing = stage.peer("a").consumes(QUEUE, selector="colour = 'none'")
    stage.peer("p").sends(QUEUE, "0", properties={"colour": "red"})
    everything = stage.peer("b").consumes(QUEUE)
    stage.peer("p2").sends(QUEUE, *[str(number) for number in range(1, 2_000)], properties={"colour": "red"})
    assert nothing.takes() == []
    received: list[str] = []
    while True:
        everything.peer.flushes()
        stage.settle()
        new = everything.takes()
        if not new:
            break
        received += new
        everything.acknowledges(new[-1])
    assert received == [str(number) for number in range(2_000)]


def test_messages_that_nobody_wants_wait_and_go_to_the_first_who_does() -> None:
    stage = Stage()
    stage.peer("a").consumes(QUEUE, selector="colour = 'blue'")
    stage.peer("p").sends(QUEUE, "1", "2", properties={"colour": "red"})
    assert stage.view(QUEUE).pending == 2
    assert stage.peer("b").consumes(QUEUE, selector="colour = 'red'").takes() == ["1", "2"]


def test_selectors_and_redelivery_keep_the_order() -> None:
    stage = Stage()
    first = stage.peer("a").consumes(QUEUE, selector="parity = 0", prefetch=2)
    producer = stage.peer("p")
    for number in range(8):
        producer.sends(QUEUE, str(number), properties={"parity": number % 2})
    assert first.takes() == ["0", "2"]
    first.leaves()
    assert stage.peer("b").consumes(QUEUE).redelivery_counts() == [
        ("0", 1), ("1", 0), ("2", 1), ("3", 0), ("4", 0), ("5", 0), ("6", 0), ("7", 0),
    ]  # fmt: skip


def test_a_redelivered_message_is_shown_again_to_those_who_passed_it_by() -> None:
    stage = Stage()
    late = stage.peer("a").consumes(QUEUE, selector="JMSRedelivered = TRUE")
    holder = stage.peer("b").consumes(QUEUE, selector="JMSRedelivered = FALSE")
    stage.peer("p").sends(QUEUE, "1")
    assert (late.takes(), holder.takes()) == ([], ["1"])
    holder.leaves()
    assert late.takes() == ["1"]


def test_what_comes_back_is_shown_to_those_who_have_looked_further() -> None:
    stage = Stage()
    holder = stage.peer("a").consumes(QUEUE, prefetch=1)
    producer = stage.peer("p")
    producer.sends(QUEUE, "wanted", properties={"n": 0})
    looker = stage.peer("b").consumes(QUEUE, selector="n = 0")
    for number in range(3):
        producer.sends(QUEUE, f"passed by {number}", properties={"n": 1})
    assert (holder.takes(), looker.takes()) == (["wanted"], [])
    holder.leaves()
    assert looker.redelivery_counts() == [("wanted", 1)]


@pytest.mark.large
def test_a_selective_queue_does_not_grow_with_the_messages_that_went_by() -> None:
    stage = Stage()
    taker = stage.peer("a").consumes(QUEUE, selector="kind = 'a'")
    producer = stage.peer("p")
    producer.sends(QUEUE, "stays", properties={"kind": "b"})
    for number in range(5_000):
        producer.sends(QUEUE, str(number), properties={"kind": "a"}, persistent=False)
        taker.acknowledges(str(number), count=1)
    assert taker.takes() == [str(number) for number in range(5_000)]
    assert stage.broker.statistics().pending == 1
    late = stage.peer("b").consumes(QUEUE)
    producer.sends(QUEUE, "last", properties={"kind": "b"})
    assert late.takes() == ["stays", "last"]


def test_a_bad_selector_is_refused_and_leaves_no_trace() -> None:
    stage = Stage()
    peer = stage.peer("c")
    with pytest.raises(InvalidSelectorError):
        peer.announces("queue://NEW", selector="i = = 1")
    assert not stage.has("queue://NEW")
    assert peer.state.consumers == {}


def test_a_selector_that_fails_on_a_message_passes_it_by() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, selector="flag + 1 = 2")
    producer = stage.peer("p")
    producer.sends(QUEUE, "bad", properties={"flag": True})
    producer.sends(QUEUE, "good", properties={"flag": 1})
    assert listener.takes() == ["good"]
    assert stage.view(QUEUE).pending == 2


def test_a_consumer_that_must_not_hear_itself_leaves_its_own_messages_to_others() -> None:
    stage = Stage()
    peer = stage.peer("a")
    deaf = peer.consumes(QUEUE, no_local=True)
    peer.sends(QUEUE, "own")
    stage.peer("p").sends(QUEUE, "foreign")
    assert deaf.takes() == ["foreign"]
    assert stage.peer("b").consumes(QUEUE).takes() == ["own"]


def test_a_consumer_without_prefetch_gets_one_message_per_pull() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    stage.peer("p").sends(QUEUE, "1", "2")
    assert listener.takes() == []
    listener.pulls(0)
    assert listener.takes() == ["1"]
    listener.pulls(0)
    assert listener.takes() == ["2"]
    assert listener.ends == 0


def test_a_pull_that_waits_for_ever_never_ends_with_nothing() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    listener.pulls(0)
    stage.waits(1_000_000)
    assert listener.ends == 0
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == ["1"]


def test_a_pull_that_wants_no_waiting_ends_at_once() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    listener.pulls(-1)
    assert (listener.takes(), listener.ends) == ([], 1)
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == []  # the pull is over
    listener.pulls(-1)
    assert (listener.takes(), listener.ends) == (["1"], 1)


def test_a_pull_that_wants_no_waiting_ends_at_once_when_nothing_matches() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    listener = stage.peer("c").consumes(QUEUE, prefetch=0, selector="colour = 'red'")
    listener.pulls(-1)
    assert (listener.takes(), listener.ends) == ([], 1)


def test_a_pull_ends_after_its_time() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    stage.runs()
    listener.pulls(500)
    due = stage.broker.next_timeout()
    assert due == pytest.approx(stage.now.monotonic + 0.5)
    stage.waits(0.4)
    assert listener.ends == 0
    stage.waits(0.1)
    assert listener.ends == 1
    stage.peer("p").sends(QUEUE, "1")
    assert listener.takes() == []


def test_a_pull_that_was_served_in_time_does_not_end_the_next_one() -> None:
    stage = Stage()
    producer = stage.peer("p")
    listener = stage.peer("c").consumes(QUEUE, prefetch=0)
    listener.pulls(500)
    producer.sends(QUEUE, "1")
    listener.pulls(0)
    stage.waits(1.0)
    assert listener.ends == 0
    producer.sends(QUEUE, "2")
    assert listener.takes() == ["1", "2"]


def test_a_pull_waits_for_a_page_that_is_being_read() -> None:
    stage = Stage()
    stage.peer("p").sends(QUEUE, "1")
    stage.syncs()
    again = stage.restarts()
    listener = again.peer("c").consumes(QUEUE, prefetch=0)
    listener.pulls(-1)
    assert (listener.takes(), listener.ends) == ([], 0)
    again.reads()
    assert listener.takes() == ["1"]


def test_a_consumer_may_ask_for_another_window() -> None:
    stage = Stage()
    listener = stage.peer("c").consumes(QUEUE, prefetch=1)
    stage.peer("p").sends(QUEUE, "1", "2", "3", "4")
    assert listener.takes() == ["1"]
    stage.broker.set_prefetch(listener.subscription, 3, stage.now)
    assert listener.takes() == ["2", "3"]


def test_s45_no_window_is_larger_than_the_largest() -> None:
    stage = Stage()
    peer = stage.peer("c")
    assert peer.consumes(QUEUE, prefetch=2**31 - 1).subscription.prefetch_size == 32_766
    asked_later = peer.consumes(QUEUE, prefetch=5)
    stage.broker.set_prefetch(asked_later.subscription, 2**31 - 1, stage.now)
    assert asked_later.subscription.prefetch_size == 32_766


def test_removing_what_was_never_announced_is_refused_with_the_known_texts() -> None:
    stage = Stage()
    peer = stage.peer("c")
    with pytest.raises(JmsError) as refused:
        stage.broker.remove_consumer(peer.state, ConsumerId(peer.connection_id, 1, 666), -1, stage.now)
    assert str(refused.value) == "Cannot remove a consumer that had not been registered: ID:c:1:1:666"
    with pytest.raises(JmsError) as refused:
        stage.broker.remove_producer(peer.state, ProducerId(peer.connection_id, 1, 666), stage.now)
    assert str(refused.value) == "Cannot remove a producer that had not been registered: ID:c:1:1:666"
    with pytest.raises(JmsError) as refused:
        stage.broker.remove_session(peer.state, SessionId(peer.connection_id, 666), -1, stage.now)
    assert str(refused.value) == "Cannot remove session that had not been registered: ID:c:1:666"


def test_producers_and_consumers_need_a_session() -> None:
    stage = Stage()
    peer = stage.peer("c")
    with pytest.raises(JmsError) as refused:
        peer.producer(QUEUE, session=999)
    assert str(refused.value) == "Cannot add a producer to a session that had not been registered: ID:c:1:999"
    with pytest.raises(JmsError) as refused:
        peer.announces(QUEUE, session=999)
    assert str(refused.value).endswith("Cannot add a consumer to a session that had not been registered: ID:c:1:999")
    assert not stage.has(QUEUE)


def test_an_automatic_consumer_has_acknowledged_what_was_flushed() -> None:
    stage = Stage()
    peer = stage.peer("c")
    listener = peer.consumes(QUEUE, automatic=True, prefetch=2)
    stage.peer("p").sends(QUEUE, "1", "2", "3")
    assert listener.takes() == ["1", "2"]
    peer.flushes(unsent=10)
    assert stage.view(QUEUE).dequeued == 0
    peer.flushes()
    assert stage.view(QUEUE).dequeued == 2
    assert listener.takes() == ["3"]


def test_an_automatic_consumer_has_not_acknowledged_what_was_dispatched_since_the_flush() -> None:
    stage = Stage()
    peer = stage.peer("c")
    one = peer.consumes(QUEUE, automatic=True)
    two = peer.consumes(QUEUE, automatic=True)
    texts = [character * 600_000 for character in "1234"]  # two of them fill the connection's buffer
    stage.peer("p").sends(QUEUE, *texts)
    assert (one.takes(), two.takes()) == (texts[:1], texts[1:2])
    peer.flushes()
    assert sorted(one.takes() + two.takes()) == texts[2:]
    peer.leaves()  # 3 and 4 were never written
    assert stage.peer("d").consumes(QUEUE, prefetch=1).takes() == texts[2:3]
    assert stage.view(QUEUE).pending == 2


def test_a_new_consumer_goes_behind_the_others_in_turn() -> None:
    stage = Stage()
    first, second = (stage.peer(name).consumes(QUEUE) for name in "ab")
    producer = stage.peer("p")
    producer.sends(QUEUE, "1")
    third = stage.peer("c").consumes(QUEUE)
    producer.sends(QUEUE, "2", "3", "4")
    assert (first.takes(), second.takes(), third.takes()) == (["1", "3"], ["2"], ["4"])


def test_the_turn_stays_with_the_next_consumer_when_another_leaves() -> None:
    stage = Stage()
    first, second = (stage.peer(name).consumes(QUEUE) for name in "ab")
    leaving = stage.peer("c")
    leaving.consumes(QUEUE)
    producer = stage.peer("p")
    producer.sends(QUEUE, "1")
    leaving.leaves()
    producer.sends(QUEUE, "2", "3")
    assert (first.takes(), second.takes()) == (["1", "3"], ["2"])
