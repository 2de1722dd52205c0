"""The audit by itself: what it knows, how much, and what of it comes back."""

from __future__ import annotations

from spanwire.broker.metadata import PRODUCER_AUDIT, MetadataRecord
from spanwire.broker.persistence.producer_audit import AuditedProducer, ProducerAudit
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ids import MessageId, ProducerId, TransactionId, parsed_producer_id
from spanwire.model.message import Message
from tests.support.plain_format import plain_message

ORDERS = Destination(QUEUE, "ORDERS")
OTHER = Destination(QUEUE, "OTHER")


def producer(number: int) -> ProducerId:
    return ProducerId(f"ID:host-1-{number}:1", 1, 1)


def sends(audit: ProducerAudit, number: int, *sequences: int) -> None:
    """A connection of its own whose messages the store takes."""
    known: AuditedProducer | None = None
    maker = producer(number)
    for sequence in sequences:
        known = audit.stored(known, maker, sequence)


def knows(audit: ProducerAudit, number: int, sequence: int) -> bool:
    return audit.is_stored(MessageId(producer(number), sequence))


def restored(metadata: list[MetadataRecord]) -> ProducerAudit:
    audit = ProducerAudit()
    for metadata_record in metadata:
        assert metadata_record.table == PRODUCER_AUDIT
        if metadata_record.value is not None:
            audit.restore(metadata_record.key, metadata_record.value)
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
        known = audit.stored(known, first, sequence)
        known = audit.stored(known, second, sequence * 10)
    assert audit.is_stored(MessageId(ProducerId("ID:c", 1, 1), 3))
    assert audit.is_stored(MessageId(ProducerId("ID:c", 1, 2), 30))
    assert not audit.is_stored(MessageId(ProducerId("ID:c", 1, 1), 30))


def test_the_producer_that_was_quiet_for_longest_is_forgotten_first() -> None:
    audit = ProducerAudit(max_producers=3)
    known = audit.stored(None, producer(1), 1)
    sends(audit, 2, 1)
    sends(audit, 3, 1)
    audit.stored(known, known.producer_id, 2)
    sends(audit, 4, 1)
    assert [knows(audit, number, 1) for number in (1, 2, 3, 4)] == [True, False, True, True]


def test_a_producer_that_was_forgotten_while_it_is_connected_is_known_again_with_its_next_send() -> None:
    audit = ProducerAudit(max_producers=1)
    maker = producer(1)
    known = audit.stored(None, maker, 1)
    sends(audit, 2, 1)
    assert not audit.is_stored(MessageId(maker, 1))
    known = audit.stored(known, maker, 2)
    assert audit.is_stored(MessageId(maker, 2)) and not audit.is_stored(MessageId(maker, 1))


def test_the_facts_bring_back_everything_and_what_is_found_behind_them_is_added() -> None:
    audit = ProducerAudit()
    sends(audit, 1, 1, 2)
    sends(audit, 2, 7)
    back = restored(audit.audit_metadata())
    assert [knows(back, 1, sequence) for sequence in (1, 2, 3)] == [True, True, False]
    assert knows(back, 2, 7)
    back.recovered_cancellation(str(producer(1)), 3)
    back.on_recovered(plain_message(ORDERS, 8, connection_id=producer(2).connection_id))
    assert knows(back, 1, 3) and knows(back, 2, 8)


def test_facts_that_cannot_be_read_are_left_out() -> None:
    audit = ProducerAudit()
    audit.restore(b"", b"")
    audit.restore(b"Pno producer", bytes(17))
    audit.restore(b"\xff\xff", b"\x01" + bytes(16))
    audit.restore(b"P" + str(producer(1)).encode(), b"\x02" + bytes(16))
    assert audit.audit_metadata() == []


def test_a_producer_id_is_read_back_from_its_text() -> None:
    for maker in (ProducerId("ID:a-b-1:2", 3, 4), ProducerId("", -1, 0), ProducerId("ID:ü:x", 9, 9)):
        assert parsed_producer_id(str(maker)) == maker
    assert parsed_producer_id("1:2") is None
    assert parsed_producer_id("a:b:c") is None
    assert parsed_producer_id("a:1:²") is None


def test_committed_transactions_are_known_and_come_back() -> None:
    audit = ProducerAudit()
    metadata: list[MetadataRecord] = []
    for value in (1, 2, 4):
        metadata = audit.note_commit(TransactionId("ID:c", value))
    for known in (audit, restored(metadata)):
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
        audit.note_commit(TransactionId(name, 1))
    metadata = audit.note_commit(TransactionId("ID:c", 1))
    assert [(metadata_record.key, metadata_record.value is None) for metadata_record in metadata] == [
        (b"TID:c", False),
        (b"TID:b", True),
    ]
    assert audit.was_committed(TransactionId("ID:a", 1))
    assert not audit.was_committed(TransactionId("ID:b", 1))


def over_link(number: int, *, delivered_before: int = 0, destination: Destination = ORDERS) -> Message:
    message = plain_message(destination, 1)
    message.broker_path = ("A",)
    message.link_number = number
    message.redelivery_count = delivered_before
    return message


def test_what_a_broker_forwards_again_is_known_by_its_number() -> None:
    sender, audit = ProducerAudit(identity=b"senders."), ProducerAudit()
    number = sender.number_of(ORDERS, 17)
    audit.came_over_link(over_link(number))
    for known in (audit, restored(audit.audit_metadata())):
        assert known.is_repeated_over_link(over_link(number, delivered_before=1), False)
        assert known.duplicates == 1
        assert not known.is_repeated_over_link(over_link(sender.number_of(ORDERS, 18), delivered_before=1), False)


def test_a_link_that_was_forgotten_for_another_is_noted_anew() -> None:
    audit = ProducerAudit(max_producers=1)
    one, other = (ProducerAudit(identity=identity).number_of(ORDERS, 17) for identity in (b"senders.", b"another."))
    by_id = over_link(0)
    for between in (over_link(other), by_id):
        for message in (over_link(one), between, over_link(one)):
            audit.came_over_link(message)
        for known in (audit, restored(audit.audit_metadata())):
            assert known.is_repeated_over_link(over_link(one, delivered_before=1), False)
            assert not known.is_repeated_over_link(over_link(other, delivered_before=1), False)


def test_numbers_of_two_links_in_turn_are_all_known() -> None:
    audit = ProducerAudit()
    senders = [ProducerAudit(identity=identity) for identity in (b"senders.", b"another.")]
    numbers = [sender.number_of(ORDERS, place) for place in (0xFFFF, 0x10000, 0x10001) for sender in senders]
    for number in numbers:
        audit.came_over_link(over_link(number))
    for known in (audit, restored(audit.audit_metadata())):
        assert all(known.is_repeated_over_link(over_link(number, delivered_before=1), False) for number in numbers)


def test_what_says_that_it_was_not_delivered_before_is_no_repetition() -> None:
    sender, audit = ProducerAudit(identity=b"senders."), ProducerAudit()
    number = sender.number_of(ORDERS, 17)
    audit.came_over_link(over_link(number))
    assert not audit.is_repeated_over_link(over_link(number), False)


def test_a_message_has_another_number_in_each_store_and_queue_and_later_again() -> None:
    senders = [ProducerAudit(identity=b"senders."), ProducerAudit(identity=b"another.")]
    numbers = {
        sender.number_of(destination, epoch << 16 | 17)
        for sender in senders
        for destination in (ORDERS, OTHER)
        for epoch in (0, 1, 1 << 16)
    }
    assert len(numbers) == 12
    assert all(-(1 << 63) <= number < 0 for number in numbers)


def test_what_is_not_in_a_store_has_no_number_and_is_no_repetition() -> None:
    assert ProducerAudit(identity=b"senders.").number_of(ORDERS, 0) == 0
    assert ProducerAudit().number_of(ORDERS, 5) == 0
    audit = ProducerAudit()
    for number in (0, 1, (1 << 63) - 1):  # other brokers leave the place empty or count in it
        audit.came_over_link(over_link(number))
        assert not audit.is_repeated_over_link(over_link(number, delivered_before=1), False)


def test_a_store_that_has_been_used_keeps_its_numbers() -> None:
    first = ProducerAudit(identity=b"senders.")
    again = ProducerAudit(identity=b"another.")
    for metadata_record in first.audit_metadata():
        assert metadata_record.value is not None
        again.restore(metadata_record.key, metadata_record.value)
    assert again.number_of(ORDERS, 1) == first.number_of(ORDERS, 1)


def test_messages_of_other_brokers_say_nothing_about_producers() -> None:
    sender, audit = ProducerAudit(identity=b"senders."), ProducerAudit()
    number = sender.number_of(ORDERS, 17)
    message = over_link(number)
    audit.on_recovered(message)
    assert not audit.is_stored(message.message_id)
    assert audit.is_repeated_over_link(over_link(number, delivered_before=3), False)


def test_other_brokers_are_known_by_makers_where_that_is_asked_for() -> None:
    audit = ProducerAudit()
    audit.came_over_link(over_link(0))
    for known in (audit, restored(audit.audit_metadata())):
        assert known.is_repeated_over_link(over_link(0, delivered_before=1), True)
        assert not known.is_repeated_over_link(over_link(0, delivered_before=1), False)
        assert not known.is_repeated_over_link(over_link(0), True)
        assert not known.is_repeated_over_link(over_link(0, delivered_before=1, destination=OTHER), True)


def test_a_message_that_went_round_and_comes_back_is_no_repetition() -> None:
    audit = ProducerAudit()
    audit.came_over_link(over_link(0))
    back = over_link(0, delivered_before=1)
    back.broker_path = ("A", "B", "A")
    assert not audit.is_repeated_over_link(back, True)
    other = over_link(0, delivered_before=1)
    other.broker_path = ("A", "C")
    assert not audit.is_repeated_over_link(other, True)
