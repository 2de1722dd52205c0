"""Copies of the producer audit: one in each segment, behind all that it knows of."""

from __future__ import annotations

from spanwire.broker.metadata import PRODUCER_AUDIT, MetadataRecord
from spanwire.model.destination import QUEUE, Destination
from spanwire.stores.journal.segments.record import AUDIT_MARK, MESSAGE, METADATA
from spanwire.stores.journal.segments.segment import SegmentReader, segment_number
from tests.support.journal_driver import JournalDriver
from tests.support.plain_format import plain_message

A = Destination(QUEUE, "A")


class Counting:
    """An audit that knows how many messages were sent."""

    def __init__(self) -> None:
        self.sent = 0
        self.keys = [b"sent"]

    def audit_metadata(self) -> list[MetadataRecord]:
        return [MetadataRecord(PRODUCER_AUDIT, key, b"%d" % self.sent) for key in self.keys]


def send(driver: JournalDriver, audit: Counting, messages: int) -> None:
    for _ in range(messages):
        audit.sent += 1
        driver.store.append(A, plain_message(A, audit.sent, b"x" * 700))
        if audit.sent % 3:
            driver.turn()
    driver.turn()


def records(driver: JournalDriver) -> list[tuple[int, int, bytes]]:
    """(segment, kind, payload) of all messages and facts on the disk."""
    found: list[tuple[int, int, bytes]] = []
    for name, data in sorted(driver.disk.contents().items()):
        if segment_number(name):
            reader = SegmentReader(name, data, None)
            batch = reader.next_batch()
            while batch is not None:
                found += [
                    (segment_number(name), record.kind, reader.payload(record))
                    for record in batch
                    if record.kind in (MESSAGE, METADATA)
                ]
                batch = reader.next_batch()
    return found


def test_each_segment_gets_a_copy_behind_the_messages_it_knows_of() -> None:
    driver = JournalDriver()
    audit = Counting()
    driver.store.attach_audit(audit)
    send(driver, audit, 40)
    messages = 0
    copies: dict[int, int] = {}
    for segment, kind, payload in records(driver):
        if kind == MESSAGE:
            messages += 1
        elif payload.startswith(b"sent"):
            assert int(payload[4:]) <= messages, "it knows of a message that is not on the disk"
            copies[segment] = int(payload[4:])
    assert len(copies) >= len([name for name in driver.disk.files() if segment_number(name)]) - 1
    driver.crash()
    assert driver.metadata[PRODUCER_AUDIT] == {b"sent": b"%d" % max(copies.values())}


def test_keys_that_the_audit_has_forgotten_go_and_the_mark_is_no_fact() -> None:
    driver = JournalDriver()
    audit = Counting()
    audit.keys = [b"old", b"new"]
    driver.store.attach_audit(audit)
    send(driver, audit, 10)
    audit.keys = [b"new"]
    send(driver, audit, 10)
    driver.crash()
    assert set(driver.metadata[PRODUCER_AUDIT]) == {b"new"}
    assert AUDIT_MARK not in driver.metadata[PRODUCER_AUDIT]


def test_segments_with_sends_that_no_copy_knows_of_are_kept_though_their_messages_are_gone() -> None:
    driver = JournalDriver()
    audit = Counting()
    driver.store.attach_audit(audit)
    for _ in range(30):
        audit.sent += 1
        sequence = driver.store.append(A, plain_message(A, audit.sent, b"x" * 700))
        driver.turn()
        driver.store.remove(A, sequence)
        driver.turn()
    assert driver.store.used_bytes() <= 4 * driver.segment_bytes, "older ones are not"
    known = 0
    newer = 0
    for _, kind, payload in records(driver):
        if kind == METADATA and payload.startswith(b"sent"):
            known = int(payload[4:])
            newer = 0
        elif kind == MESSAGE:
            newer += 1
    assert known + newer >= audit.sent


def test_without_an_audit_nothing_is_kept_for_it() -> None:
    driver = JournalDriver()
    audit = Counting()
    driver.store.attach_audit(audit)
    send(driver, audit, 3)
    driver.reopen()
    for number in range(30):
        driver.store.remove(A, driver.store.append(A, plain_message(A, number, b"x" * 700)))
        driver.turn()
    assert driver.store.used_bytes() <= 5 * driver.segment_bytes
