"""What the producer audit learns from a journal at a start."""

from __future__ import annotations

from spanwire.broker.metadata import CURSORS
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import Message
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.audited import recover_audit
from spanwire.stores.journal.space import UNMANAGED
from tests.simulation.disk import SimulatedDisk
from tests.support.plain_format import plain_formats, plain_message

Q = Destination(QUEUE, "Q")
STORE_ID = b"audited-journal!"
SEGMENT_BYTES = 16 * 1024


class Audited:
    """A journal with its audit; the broker's part is played by the test."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        opened = open_journal(disk, STORE_ID, SEGMENT_BYTES)
        self.journal: Journal = opened.journal
        self.audit = ProducerAudit()
        recover_audit(disk, opened.recovery, plain_formats(), self.audit)
        self.journal.attach_audit(self.audit)

    def sends(self, number: int, body: bytes = b"") -> int:
        """One message of the one producer; gives its sequence."""
        message = plain_message(Q, number, body)
        sequence = self.journal.append(Q, message)
        self.audit.stored(None, message.producer_id, message.sequence)
        return sequence

    def writes(self) -> None:
        """Everything that may be written."""
        batch = self.journal.next_batch()
        while batch is not None:
            write_batch(self.disk, batch, True)
            self.journal.on_completed(batch)
            batch = self.journal.next_batch()

    def crashes(self) -> Audited:
        """The next run, with what was synced."""
        return Audited(self.disk.power_cut_keeping(lambda _: None, lambda: False))

    def knows(self, number: int) -> bool:
        return self.audit.is_stored(MessageId(ProducerId("ID:test:1", 1, 1), number))


def test_what_was_written_is_known_after_a_crash_and_nothing_else() -> None:
    run = Audited(SimulatedDisk())
    run.sends(1)
    run.writes()
    run.sends(2)
    again = run.crashes()
    assert again.knows(1) and not again.knows(2)


def test_a_message_that_was_removed_before_it_was_written_is_known_after_a_crash() -> None:
    run = Audited(SimulatedDisk())
    run.journal.remove(Q, run.sends(1))
    run.writes()
    assert run.crashes().knows(1)


def test_a_message_from_another_broker_that_was_removed_before_it_was_written_is_known_by_its_number() -> None:
    run = Audited(SimulatedDisk())
    message = plain_message(Q, 1)
    message.broker_path = ("A",)
    message.link_number = ProducerAudit(identity=b"of A....").number_of(Q, 5)
    run.journal.remove(Q, run.journal.append(Q, message))
    run.writes()
    again = run.crashes()
    assert not again.knows(1)
    message.redelivery_count = 1
    assert again.audit.is_repeated_over_link(message, False)


def test_segments_that_are_gone_have_left_what_they_knew_in_a_copy() -> None:
    run = Audited(SimulatedDisk())
    for number in range(1, 200):
        run.journal.remove(Q, run.sends(number, bytes(1000)))
        sequence = run.sends(number + 1000, bytes(1000))
        run.writes()
        run.journal.remove(Q, sequence)
        run.writes()
    assert len(run.disk.files()) < 6
    for again in (run.crashes(), run.crashes().crashes()):
        assert all(again.knows(number) for number in range(1, 200))
        assert all(again.knows(number + 1000) for number in range(1, 200))
        assert not again.knows(500)


def test_a_run_that_crashes_before_its_first_batch_loses_nothing_of_what_the_last_one_knew() -> None:
    run = Audited(SimulatedDisk())
    run.sends(1)
    run.writes()
    for _ in range(5):
        run = run.crashes()
    assert run.knows(1)


def test_a_copy_does_not_overtake_the_messages_that_wait_for_a_full_disk() -> None:
    run = Audited(SimulatedDisk())
    run.sends(1)
    run.writes()
    run.sends(2)
    run.journal.append(Q, plain_message(Q, 3, bytes(run.journal.segment_bytes)))
    run.journal.space_changed(UNMANAGED, False)
    segment = run.journal.segment
    while run.journal.segment == segment:
        run.journal.put_metadata(CURSORS, b"reader", bytes(2000))
        run.writes()
    again = run.crashes()
    assert again.knows(1) and not again.knows(2)
    run.journal.space_changed(UNMANAGED, True)
    run.writes()
    assert run.crashes().knows(2)


def unreadable(message: Message) -> Message:
    """The same id with bytes that are no message."""
    return Message(message.format_id, b"no message", 0, 0, 0, Q, message.producer_id, message.sequence, True, 4, 0, 0)


def test_a_message_that_cannot_be_read_is_left_out() -> None:
    run = Audited(SimulatedDisk())
    run.journal.append(Q, unreadable(plain_message(Q, 1)))
    run.sends(2)
    run.writes()
    again = run.crashes()
    assert not again.knows(1) and again.knows(2)
