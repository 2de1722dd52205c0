"""Copies of one topic message that come over several routes: which are taken, how many are remembered, what is kept."""

from __future__ import annotations

import pytest

from spanwire.broker.persistence.network_copies import COPY, COPY_DEPTH, MAX_HOPS, NEARER, NEW, NetworkCopies
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.model.destination import TOPIC, Destination
from spanwire.model.message import Message
from tests.support.plain_format import plain_message

MAKER = "ID:a-1-2-3:1"
T = Destination(TOPIC, "T")


def copy(sequence: int, *path: str, topic: Destination = T, maker: str = MAKER) -> Message:
    message = plain_message(topic, sequence, connection_id=maker)
    message.broker_path = path
    return message


def take(copies: NetworkCopies, message: Message) -> int:
    verdict = copies.judge(message)
    copies.note(message)
    return verdict


def test_the_second_copy_of_a_message_is_recognised_whatever_its_route() -> None:
    copies = NetworkCopies()
    assert [take(copies, copy(1, "A")), take(copies, copy(1, "A", "B")), take(copies, copy(1, "C"))] == [
        NEW,
        COPY,
        COPY,
    ]
    assert copies.dropped == 2


def test_a_copy_with_fewer_hops_than_all_before_is_nearer_once() -> None:
    copies = NetworkCopies()
    routes = (("A", "B", "C"), ("A", "C"), ("A", "B"), ("A",), ("A",))
    assert [take(copies, copy(1, *route)) for route in routes] == [NEW, NEARER, COPY, NEARER, COPY]


def test_other_messages_producers_and_topics_are_not_copies() -> None:
    copies = NetworkCopies()
    other = "ID:a-1-2-3:2"
    for message in (
        copy(1, "A"),
        copy(2, "A"),
        copy(1, "A", maker=other),
        copy(1, "A", topic=Destination(TOPIC, "U")),
        copy(0, "A"),
    ):
        assert take(copies, message) == NEW


def test_a_message_that_was_not_taken_is_new_when_it_comes_again() -> None:
    copies = NetworkCopies()
    assert [copies.judge(copy(1, "A")), copies.judge(copy(1, "A"))] == [NEW, NEW]


def test_the_source_that_was_quiet_for_longest_is_forgotten_first() -> None:
    copies = NetworkCopies(most=2)
    makers = [f"ID:x:{number}" for number in range(3)]
    for maker in (makers[0], makers[1], makers[0], makers[2]):
        take(copies, copy(1, "A", maker=maker))
    assert copies.judge(copy(1, "B", maker=makers[0])) == COPY
    assert copies.judge(copy(1, "B", maker=makers[1])) == NEW


def test_a_copy_that_is_late_by_more_than_the_depth_is_taken() -> None:
    copies = NetworkCopies()
    for sequence in range(COPY_DEPTH + 1):
        take(copies, copy(sequence, "A"))
    assert copies.judge(copy(1, "B")) == COPY
    assert copies.judge(copy(0, "B")) == NEW


def test_routes_longer_than_the_limit_count_as_equally_long() -> None:
    copies = NetworkCopies()
    long = [f"B{number}" for number in range(MAX_HOPS + 3)]
    assert [take(copies, copy(1, *long)), take(copies, copy(1, *long[:-2]))] == [NEW, COPY]
    assert take(copies, copy(1, *long[: MAX_HOPS - 1])) == NEARER


@pytest.mark.parametrize("topic", ["T", "a b:c", "VirtualTopic.Orders"])
def test_what_was_taken_is_known_after_a_restart(topic: str) -> None:
    destination = Destination(TOPIC, topic)
    before, after = ProducerAudit(), ProducerAudit()
    for message in (copy(7, "A", topic=destination), copy(9, "A", "B", topic=destination)):
        take(before.copies, message)
    for metadata_record in before.audit_metadata():
        assert metadata_record.value is not None
        after.restore(metadata_record.key, metadata_record.value)
    assert after.copies.judge(copy(7, "A", "C", topic=destination)) == COPY
    assert after.copies.judge(copy(8, "A", topic=destination)) == NEW
    assert after.copies.judge(copy(9, "A", topic=destination)) == NEARER


@pytest.mark.parametrize("key", [b"C", b"C1", b"C1:", b"C1:1:Tx", b"Cx:1:Ta:1:1", b"C1:99999999:Ta:1:1", b"C1:1:T"])
def test_a_fact_that_cannot_be_read_is_left_out(key: bytes) -> None:
    audit = ProducerAudit()
    take(audit.copies, copy(1, "A"))
    (metadata_record,) = audit.audit_metadata()
    assert metadata_record.value is not None
    again = ProducerAudit()
    again.restore(key, metadata_record.value)
    again.restore(metadata_record.key, b"nonsense")
    assert again.copies.entries() == []
