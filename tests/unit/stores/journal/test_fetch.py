"""What came from the disk is what was asked for, or it is refused; reads are put in the order of the file."""

from __future__ import annotations

from random import Random

import pytest

from spanwire.model.destination import parse_destination
from spanwire.stores.journal.fetching.fetch import Fetch, Read, StoredBytes, check_read, check_reads
from spanwire.stores.journal.fetching.fetch_blocks import blocks
from spanwire.stores.journal.index.stored_destination import StoredDestination
from spanwire.stores.journal.segments.record import (
    BODY,
    EXPIRES,
    HEADER_SIZE,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    REMOVAL,
    encode_expiration,
    encode_header,
    encode_message_header,
    record_size,
)
from tests.support.plain_format import plain_message

SEED = 0xFFFFFFF0  # the sum with an offset goes beyond 32 bits
NUMBER = 0x80000003
SEQUENCE = (1 << 62) + 5


def read_of(length: int, offset: int = 64) -> Read:
    return Read(0, NUMBER, SEQUENCE, 1, offset, length, SEED)


@pytest.mark.parametrize("kind", [MESSAGE, MOVED, BODY, MOVED_BODY])
@pytest.mark.parametrize("payload", [b"", b"x", b"some words" * 20])
@pytest.mark.parametrize("expires", [b"", encode_expiration(1_700_000_000_000)])
def test_a_record_is_believed_until_any_octet_of_it_is_another(kind: int, payload: bytes, expires: bytes) -> None:
    flags = 4 | (EXPIRES if expires else 0)
    header = encode_message_header(SEED, 64, kind, flags, 0x8104, NUMBER, SEQUENCE, expires, payload)
    block = b"before.." + header + payload + b"behind"
    read = read_of(len(expires) + len(payload))
    found = check_read(read, block, 8)
    assert (found.damage, found.format_id, found.raw) == ("", 0x04, payload)  # the upper byte is for the ledger
    assert check_read(read, b"other" + block, 13).raw == payload
    for place in range(8, 8 + read.size):
        damaged = block[:place] + bytes([block[place] ^ 0x10]) + block[place + 1 :]
        assert check_read(read, damaged, 8).damage == "its checksum does not hold"
    for end in range(8, 8 + read.size):
        assert check_read(read, block[:end], 8).damage == "its checksum does not hold"


def test_a_whole_record_of_another_message_is_refused() -> None:
    def found(kind: int, number: int, sequence: int, offset: int, length: int = 4) -> str:
        block = encode_header(SEED, offset, kind, 0, 1, number, sequence, b"text") + b"text"
        return check_read(read_of(length), block, 0).damage

    assert found(MESSAGE, NUMBER, SEQUENCE, 64) == ""
    assert found(BODY, 0, 0, 64) == ""
    for kind, number, sequence, offset, length in [
        (MESSAGE, NUMBER + 1, SEQUENCE, 64, 4),
        (MESSAGE, NUMBER, SEQUENCE + 1, 64, 4),
        (MESSAGE, NUMBER, SEQUENCE, 72, 4),
        (MESSAGE, NUMBER, SEQUENCE, 64, 3),
        (MESSAGE, NUMBER, SEQUENCE, 64, 5),
        (REMOVAL, NUMBER, SEQUENCE, 64, 4),
    ]:
        assert found(kind, number, sequence, offset, length) == "its checksum does not hold"


def test_a_record_that_is_too_short_for_the_time_it_should_begin_with_is_refused() -> None:
    header = encode_header(SEED, 64, MESSAGE, EXPIRES, 1, NUMBER, SEQUENCE, b"abc")
    assert check_read(read_of(3), header + b"abc", 0).damage == "its checksum does not hold"


def test_reads_in_any_order_are_answered_in_their_own_places() -> None:
    payloads = [bytes([65 + n]) * (n * 3) for n in range(20)]
    reads: list[Read] = []
    octets = b""
    for n, payload in enumerate(payloads):
        offset = 64 + len(octets)
        reads.append(Read(n, 1, n + 1, 7, offset, len(payload), SEED))
        record = encode_header(SEED, offset, MESSAGE, 0, 1, 1, n + 1, payload) + payload
        octets += record + bytes(record_size(len(payload)) - len(record))
    Random(4).shuffle(reads)
    (group,) = blocks(reads)
    assert [reads[index].index for index in group] == list(range(20))
    found: list[StoredBytes | None] = [None] * len(reads)
    check_reads(reads, group, octets, found)
    assert [stored.raw for stored in found if stored is not None] == [payloads[read.index] for read in reads]
    assert HEADER_SIZE + len(payloads[-1]) == reads[group[-1]].size


def test_what_is_removed_while_it_is_read_is_not_given() -> None:
    owner = StoredDestination(1, parse_destination("queue://A"), 0)
    owner.index.add_run(1, 8, 8, 4, 6)
    fetch = Fetch(1, owner, [1, 2, 3, 4], [], [Read(n, 1, n + 1, 1, 64, 4, SEED) for n in range(4)])
    message = plain_message(owner.destination, 1)
    fetch.messages.extend([message] * 4)
    owner.take_out(2)
    owner.leaving.add(3)
    fetch.forget_removed()
    assert fetch.messages == [message, None, None, message]
