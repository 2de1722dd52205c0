"""Restores the producer audit at a start.

Sources are its newest copy and the messages written after the copy.

The copy lies in the segment `Replay.audit_segment`. All messages sent after the copy are in the same segment or in
later segments: as a message, or as a cancellation if the message was removed before it was written. Duplicate ids of
messages are metadata records of their own.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import ACCEPTED_IDS, PRODUCER_AUDIT
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.model.errors import SpanwireError
from spanwire.stores.journal.recovery.recovery import Recovery
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.record import (
    BODY,
    CANCELLED,
    FORMAT_MASK,
    MESSAGE,
    METADATA,
    Record,
    expiration_size,
)
from spanwire.stores.journal.segments.segment import SegmentReader, segment_name

_SEQUENCE: Final = Struct("<q")


def recover_audit(disk: Disk, recovery: Recovery, formats: MessageFormats, audit: ProducerAudit) -> None:
    """Fill ``audit`` from the journal read by ``recovery``. Call the function before the first append.

    Unreadable messages are left out, and the audit does not detect duplicates of unreadable messages.

    Raises:
        OSError: the disk cannot read a segment.
    """
    for key, value in recovery.metadata().get(PRODUCER_AUDIT, {}).items():
        audit.restore(key, value)
    first = recovery.replay.audit_segment
    if first == 0:
        first = recovery.last
    for number in range(max(first, 1), recovery.last + 1):
        segment = recovery.index.segments.by_number.get(number)
        if segment is not None:  # only up to its end: a message behind the end is not in the store, so no duplicate
            name = segment_name(number)
            reader = SegmentReader(name, disk.read(name, 0, segment.end), recovery.store_id)
            batch = reader.next_batch()
            while batch is not None:
                for record in batch:
                    _apply(reader, record, formats, audit)
                batch = reader.next_batch()


def _apply(reader: SegmentReader, record: Record, formats: MessageFormats, audit: ProducerAudit) -> None:
    kind = record.kind
    if kind == MESSAGE or kind == BODY:
        raw = reader.payload(record)[expiration_size(record.flags) :]
        try:
            audit.on_recovered(formats.index(record.format_id & FORMAT_MASK, raw))
        except SpanwireError:
            return
    elif kind == METADATA and record.destination == ACCEPTED_IDS:
        payload = reader.payload(record)
        audit.ids.restore_record(payload[: record.sequence], payload[record.sequence :])
    elif kind == CANCELLED and record.payload_length >= _SEQUENCE.size:
        payload = reader.payload(record)
        sequence: int = _SEQUENCE.unpack_from(payload)[0]
        audit.recovered_cancellation(payload[_SEQUENCE.size :].decode("utf-8", "replace"), sequence)
