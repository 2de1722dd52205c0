"""With ``usePrefetchExtension="false"`` the window of a consumer opens with what it has acknowledged for good."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.model.acks import DELIVERED_ACK
from spanwire.model.destination import QUEUE, TOPIC, Destination
from tests.support.dialogue.broker_dialogue import Stage

Q = "queue://Q"
T = "topic://T"


def keeping(keeps: bool = True) -> Stage:
    return Stage(
        PolicyEntry(Destination(QUEUE, ">"), prefetch_extension=not keeps),
        PolicyEntry(Destination(TOPIC, ">"), prefetch_extension=not keeps),
    )


def test_what_is_delivered_opens_no_window() -> None:
    for keeps, expected in ((True, []), (False, ["3"])):
        stage = keeping(keeps)
        consumer = stage.peer("c").consumes(Q, prefetch=2)
        stage.peer("p").sends(Q, "1", "2", "3", persistent=False)
        assert consumer.takes() == ["1", "2"]
        consumer.acknowledges("1", ack_type=DELIVERED_ACK, count=1)
        assert consumer.takes() == expected


def test_what_is_acknowledged_in_a_transaction_opens_the_window_with_the_commit() -> None:
    for keeps, expected in ((True, []), (False, ["3", "4"])):
        stage = keeping(keeps)
        peer = stage.peer("c")
        consumer = peer.consumes(Q, prefetch=2)
        stage.peer("p").sends(Q, "1", "2", "3", "4", "5", persistent=False)
        peer.begins(1)
        assert consumer.takes() == ["1", "2"]
        consumer.acknowledges("2", count=2, transaction=1)
        assert consumer.takes() == expected
        peer.commits(1)
        assert consumer.takes() == (["3", "4"] if keeps else [])


def test_a_rollback_leaves_the_window_as_it_was() -> None:
    stage = keeping()
    peer = stage.peer("c")
    consumer = peer.consumes(Q, prefetch=2)
    stage.peer("p").sends(Q, "1", "2", "3", persistent=False)
    assert consumer.takes() == ["1", "2"]
    for transaction in (1, 2):
        peer.begins(transaction)
        consumer.acknowledges("2", count=2, transaction=transaction)
        peer.rolls_back(transaction)
        assert consumer.takes() == []
    consumer.acknowledges("1", count=1)
    assert consumer.takes() == ["3"]


def test_a_subscriber_s_window_stays_closed_too_durable_or_not() -> None:
    stage = keeping()
    peer = stage.peer("c", client_id="c")
    durable, other = peer.consumes(T, prefetch=1, durable="s"), peer.consumes(T, prefetch=1)
    stage.peer("p").sends(T, "1", "2", persistent=False)
    stage.syncs()
    peer.begins(1)
    for consumer in (durable, other):
        assert consumer.takes() == ["1"]
        consumer.acknowledges("1", count=1, transaction=1)
        assert consumer.takes() == []
    peer.commits(1)
    stage.syncs()
    assert [durable.takes(), other.takes()] == [["2"], ["2"]]


@pytest.mark.parametrize("keeps", [True, False])
@given(st.data())
def test_no_more_is_out_than_the_window_allows(keeps: bool, data: st.DataObject) -> None:
    stage = keeping(keeps)
    peer, producer = stage.peer("c"), stage.peer("p")
    consumer = peer.consumes(Q, prefetch=3)
    out: list[str] = []
    held: list[str] = []
    sent = transaction = 0
    for step in data.draw(st.lists(st.sampled_from(["send", "take", "ack", "commit", "rollback"]), max_size=30)):
        if step == "send":
            sent += 1
            producer.sends(Q, str(sent), persistent=False)
        elif step == "take" and out:
            peer.begins(transaction := transaction or 1)
            consumer.acknowledges(out[0], count=1, transaction=transaction)
            held.append(out.pop(0))
        elif step == "ack" and out and not held:
            consumer.acknowledges(out.pop(0), count=1)
        elif step == "commit" and transaction:
            peer.commits(transaction)
            held, transaction = [], 0
        elif step == "rollback" and transaction:
            peer.rolls_back(transaction)
            out, held, transaction = held + out, [], 0
        out += consumer.takes()
        if keeps:
            assert len(out) + len(held) <= 3
            assert len(out) + len(held) == 3 or sent == int((held + out or [str(sent)])[-1])
