"""The windows of duplicate ids: what they remember, what they forget first, and what is kept of them."""

from __future__ import annotations

from spanwire.broker.metadata import MAX_VALUE_BYTES
from spanwire.broker.persistence.duplicate_ids import MAX_ID_CACHE, DuplicateIds, SendIdentity, digest_of
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.model.destination import QUEUE, TOPIC, Destination

Q = Destination(QUEUE, "Q")


def identity(text: str, destination: Destination = Q, depth: int = 3) -> SendIdentity:
    return SendIdentity(destination, digest_of(text), depth)


def noted(ids: DuplicateIds, *texts: str, destination: Destination = Q, depth: int = 3) -> DuplicateIds:
    for text in texts:
        ids.note(identity(text, destination, depth))
    return ids


def known(ids: DuplicateIds, texts: str, destination: Destination = Q) -> str:
    return "".join(text for text in texts if ids.holds(identity(text, destination)))


def test_a_window_forgets_the_oldest_id_first() -> None:
    ids = noted(DuplicateIds(), *"abcbd")
    assert (known(ids, "abcd"), ids.count) == ("bcd", 3)


def test_a_smaller_window_forgets_at_the_next_id() -> None:
    ids = noted(DuplicateIds(), *"abc")
    noted(ids, "d", depth=2)
    assert (known(ids, "abcd"), ids.count) == ("cd", 2)


def test_each_destination_has_a_window_of_its_own() -> None:
    topic = Destination(TOPIC, "Q")
    ids = noted(noted(DuplicateIds(), "a"), "b", destination=topic)
    assert (known(ids, "ab"), known(ids, "ab", topic)) == ("a", "b")


def test_no_id_is_compared_where_the_window_is_empty() -> None:
    ids = noted(DuplicateIds(), "a", depth=0)
    assert (known(ids, "a"), ids.count) == ("", 0)


def test_of_all_destinations_the_one_without_new_ids_for_longest_forgets_first() -> None:
    other = Destination(QUEUE, "R")
    ids = noted(noted(DuplicateIds(most=3), "a", "b"), "c", destination=other)
    noted(ids, "d", destination=other)
    assert (known(ids, "ab"), known(ids, "cd", other), ids.count) == ("b", "cd", 3)
    noted(ids, "e", "f", destination=other)
    assert (known(ids, "ab"), known(ids, "cdef", other), ids.count) == ("", "def", 3)


def test_so_many_destinations_have_windows() -> None:
    ids = DuplicateIds(most_addresses=2)
    queues = [Destination(QUEUE, str(number)) for number in range(3)]
    for queue in (queues[0], queues[1], queues[0], queues[2]):
        noted(ids, "a", queue.name, destination=queue)
    assert [known(ids, "a", queue) for queue in queues] == ["a", "", "a"]
    assert ids.count == 4


def test_a_copy_of_the_audit_restores_the_windows() -> None:
    audit = ProducerAudit()
    noted(audit.ids, *"abcd")
    noted(audit.ids, "x", destination=Destination(TOPIC, "x" * 1_024))
    again = ProducerAudit()
    for record in audit.audit_metadata():
        assert record.value is not None
        again.restore(record.key, record.value)
    assert known(again.ids, "abcd") == "bcd"
    assert known(again.ids, "x", Destination(TOPIC, "x" * 1_024)) == "x"
    noted(again.ids, "e")
    assert known(again.ids, "abcde") == "cde"


def test_a_full_window_of_a_long_name_fits_a_record() -> None:
    ids = DuplicateIds()
    for number in range(MAX_ID_CACHE):
        ids.note(SendIdentity(Destination(QUEUE, "x" * 1_024), number.to_bytes(16, "big"), MAX_ID_CACHE))
    ((_, value),) = ids.entries()
    assert len(value) <= MAX_VALUE_BYTES


def test_an_unreadable_record_is_ignored() -> None:
    ids = DuplicateIds()
    for value in (b"", b"\x05", b"\x05\0Q", b"\x01\0Q" + bytes(15), b"\x01\0\xff" + bytes(16), b"\0\0" + bytes(16)):
        ids.restore(value)
    record = identity("a").metadata_record()
    assert record.value is not None
    for key, value in ((record.key[:-1], record.value), (record.key, b""), (record.key, b"\0\0Q"), (b"", b"\x01\0Q")):
        ids.restore_record(key, value)
    assert (ids.count, ids.entries()) == (0, [])
    ids.restore_record(record.key, record.value)
    assert known(ids, "a") == "a"
