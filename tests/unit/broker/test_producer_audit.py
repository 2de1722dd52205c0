"""The audit by itself: what it knows, how much, and what of it comes back."""

from __future__ import annotations

from spanwire.broker.facts import PRODUCER_AUDIT, Fact
from spanwire.broker.producer_audit import AuditedProducer, ProducerAudit, parsed_producer_id
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ids import MessageId, ProducerId, TransactionId

ORDERS = Destination(QUEUE, "ORDERS")


def producer(number: int) -> ProducerId:
    return ProducerId(f"ID:host-1-{number}:1", 1, 1)


def sends(audit: ProducerAudit, number: int, *sequences: int) -> None:
    """A connection of its own whose messages the store takes."""
    known: AuditedProducer | None = None
    maker = producer(number)
    for sequence in sequences:
        known = audit.stored(known, MessageId(maker, sequence))


def knows(audit: ProducerAudit, number: int, sequence: int) -> bool:
    return audit.is_stored(MessageId(producer(number), sequence))


def restored(facts: list[Fact], **limits: int) -> ProducerAudit:
    audit = ProducerAudit(**limits)
    for fact in facts:
        assert fact.table == PRODUCER_AUDIT
        if fact.value is not None:
            audit.restore(fact.key, fact.value)
    return audit


def test_only_what_the_store_took_is_known() -> None:
    audit = ProducerAudit()
    sends(audit, 1, 1, 2, 4)
    assert [knows(audit, 1, sequence) for sequence in range(6)] == [False, True, True, False, True, False]
    assert not knows(audit, 2, 1)


def test_two_producers_of_one_connection_keep_their_own_windows() -> None:
    audit = ProducerAudit()
    first, second = ProducerId("ID:c", 1, 1), ProducerId("ID:c", 1, 2)
    known: AuditedProducer | None = None
    for sequence in (1, 2, 3):
        known = audit.stored(known, MessageId(first, sequence))
        known = audit.stored(known, MessageId(second, sequence * 10))
    assert audit.is_stored(MessageId(ProducerId("ID:c", 1, 1), 3))
    assert audit.is_stored(MessageId(ProducerId("ID:c", 1, 2), 30))
    assert not audit.is_stored(MessageId(ProducerId("ID:c", 1, 1), 30))


def test_the_producer_that_was_quiet_for_longest_is_forgotten_first() -> None:
    audit = ProducerAudit(max_producers=3)
    known = audit.stored(None, MessageId(producer(1), 1))
    sends(audit, 2, 1)
    sends(audit, 3, 1)
    audit.stored(known, MessageId(known.producer_id, 2))
    sends(audit, 4, 1)
    assert [knows(audit, number, 1) for number in (1, 2, 3, 4)] == [True, False, True, True]


def test_a_producer_that_was_forgotten_while_it_is_connected_is_known_again_with_its_next_send() -> None:
    audit = ProducerAudit(max_producers=1)
    maker = producer(1)
    known = audit.stored(None, MessageId(maker, 1))
    sends(audit, 2, 1)
    assert not audit.is_stored(MessageId(maker, 1))
    known = audit.stored(known, MessageId(maker, 2))
    assert audit.is_stored(MessageId(maker, 2)) and not audit.is_stored(MessageId(maker, 1))


def test_a_snapshot_brings_back_everything_but_what_was_not_written() -> None:
    audit = ProducerAudit()
    sends(audit, 1, 1, 2, 3)
    sends(audit, 2, 7)
    back = restored(audit.snapshot([MessageId(producer(1), 3), MessageId(producer(2), 7)]))
    assert [knows(back, 1, sequence) for sequence in (1, 2, 3)] == [True, True, False]
    assert not knows(back, 2, 7)
    back.recovered_cancellation(str(producer(1)), 3)
    assert knows(back, 1, 3)


def test_a_snapshot_discards_the_producers_that_were_forgotten_since_the_last_one() -> None:
    audit = ProducerAudit(max_producers=1)
    sends(audit, 1, 1)
    first = audit.snapshot([])
    sends(audit, 2, 1)
    discarded = [fact.key for fact in audit.snapshot([]) if fact.value is None]
    assert discarded == [fact.key for fact in first]
    again = restored(first, max_producers=1)
    sends(again, 2, 1)
    assert [fact.key for fact in again.snapshot([]) if fact.value is None] == discarded


def test_facts_that_cannot_be_read_are_left_out() -> None:
    audit = ProducerAudit()
    audit.restore(b"", b"")
    audit.restore(b"Pno producer", bytes(17))
    audit.restore(b"\xff\xff", b"\x01" + bytes(16))
    audit.restore(b"P" + str(producer(1)).encode(), b"\x02" + bytes(16))
    assert audit.snapshot([]) == []


def test_a_producer_id_is_read_back_from_its_text() -> None:
    for maker in (ProducerId("ID:a-b-1:2", 3, 4), ProducerId("", -1, 0), ProducerId("ID:ü:x", 9, 9)):
        assert parsed_producer_id(str(maker)) == maker
    assert parsed_producer_id("1:2") is None
    assert parsed_producer_id("a:b:c") is None
    assert parsed_producer_id("a:1:²") is None


def test_committed_transactions_are_known_and_come_back() -> None:
    audit = ProducerAudit()
    facts: list[Fact] = []
    for value in (1, 2, 4):
        facts = audit.committed(TransactionId("ID:c", value))
    for known in (audit, restored(facts)):
        assert [known.was_committed(TransactionId("ID:c", value)) for value in (1, 2, 3, 4, 5)] == [
            True,
            True,
            False,
            True,
            False,
        ]
    assert not audit.was_committed(TransactionId("ID:d", 1))


def test_transactions_of_connections_that_were_quiet_for_longest_are_discarded() -> None:
    audit = ProducerAudit(max_producers=2)
    for name in ("ID:a", "ID:b", "ID:a"):
        audit.committed(TransactionId(name, 1))
    facts = audit.committed(TransactionId("ID:c", 1))
    assert [(fact.key, fact.value is None) for fact in facts] == [(b"TID:c", False), (b"TID:b", True)]
    assert audit.was_committed(TransactionId("ID:a", 1))
    assert not audit.was_committed(TransactionId("ID:b", 1))


def test_what_came_over_a_link_is_known_by_its_number_there() -> None:
    audit = ProducerAudit()
    audit.came_over_link("broker a", ORDERS, 17)
    assert audit.has_come_over_link("broker a", ORDERS, 17)
    assert not audit.has_come_over_link("broker a", ORDERS, 18)
    assert not audit.has_come_over_link("broker b", ORDERS, 17)
    assert not audit.has_come_over_link("broker a", Destination(QUEUE, "OTHER"), 17)
