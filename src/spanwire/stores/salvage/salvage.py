"""Inspects a whole store in any state and plans its repair. Changes nothing.

Good records stay in place. Damage in a segment is patched (`segment_scan`), swapped files get their names back, and a
destroyed header is rebuilt if the records identify the segment. A damaged store gets an additional segment with a new
check-point. `Salvage.disk` shows the repaired store; recovery of this view reveals the saved data.
"""

from __future__ import annotations

from typing import Final, Protocol
from zlib import crc32

from spanwire.model.errors import StoreError
from spanwire.stores.journal.index.index import JournalIndex
from spanwire.stores.journal.recovery.checkpoint import (
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    restore_destination,
)
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.patches import PatchedDisk, PatchedFile, read_or_zeros
from spanwire.stores.journal.segments.record import (
    BODY,
    CANCELLED,
    CHECKPOINT,
    DESTINATION,
    DESTINATION_REMOVED,
    FORMAT_MASK,
    HEADER_SIZE,
    LAST_KIND_OF_FORMAT_1,
    MESSAGE,
    MOVED,
    MOVED_BODY,
    REDELIVERY,
    REFERENCE,
    REMOVAL,
    SEGMENT_DROPPED,
    TRANSFER,
    Record,
    expiration_size,
    read_record,
    record_size,
)
from spanwire.stores.journal.segments.segment import (
    FORMAT_VERSION,
    SegmentHeader,
    encode_segment_header,
    segment_name,
    segment_number,
    segment_seed,
)
from spanwire.stores.journal.segments.transfers import decode_transfer
from spanwire.stores.salvage.findings import Finding, hole_finding
from spanwire.stores.salvage.segment_files import UNKNOWN_VERSION, SegmentFile, SegmentFiles
from spanwire.stores.salvage.segment_scan import Hole, SegmentScan, filler_header

OF_A_DESTINATION: Final = (MESSAGE, REMOVAL, CANCELLED, REDELIVERY, DESTINATION_REMOVED, REFERENCE, MOVED)
LOST_NAME: Final = "queue://SPANWIRE.RECOVERED."


class MessageNames(Protocol):
    """Decodes the destination of a message."""

    def destination_name(self, format_id: int, raw: bytes) -> str:
        """Return the qualified name of the message's destination; "" if the message cannot be decoded."""
        ...


class Salvage:
    """The plan of a repair. Call `scan_next` until it returns False; then the attributes are complete.

    ``findings`` are all faults, ``holes`` the ranges of lost records. ``patched`` are the files to write, by name,
    ``unused`` the files to remove. ``done_bytes`` of ``total_bytes`` have been read.
    """

    __slots__ = (
        "_all_names",
        "_checkpoint",
        "_checkpoint_of",
        "_disk",
        "_dropped",
        "_floor",
        "_high",
        "_is_closed",
        "_numbers",
        "_ports",
        "_present_names",
        "_previous",
        "_sizes",
        "_sources",
        "_stated",
        "_store_id",
        "done_bytes",
        "findings",
        "holes",
        "newest",
        "patched",
        "seeds",
        "total_bytes",
        "unused",
        "warnings",
    )

    def __init__(self, disk: Disk, ports: MessageNames) -> None:
        """Assign the files to segments.

        Raises:
            StoreError: the store has a newer version, or the directory has no segment.
        """
        files = SegmentFiles(disk)
        self._disk: Final[Disk] = disk
        self._ports: Final[MessageNames] = ports
        self._sizes: Final[dict[str, int]] = disk.files()
        self._sources: Final[dict[int, SegmentFile]] = files.by_number
        self._numbers: Final[list[int]] = sorted(files.by_number)
        self._stated: Final[dict[int, SegmentHeader]] = files.stated_ends()
        self._store_id: Final[bytes] = files.store_id
        self._present_names: dict[int, bytes] = {}  # names of destinations by number at the present record
        self._all_names: dict[int, bytes] | None = None  # names from all segments
        self._high: Final[dict[int, int]] = {}
        self._floor = 0
        self._checkpoint: Checkpoint | None = None
        self._checkpoint_of = 0  # the check-point's segment
        self._dropped: Final[set[int]] = set()
        self._previous: SegmentScan | None = None
        self._is_closed = False  # `_add_segment` has run
        self.findings: Final[list[Finding]] = files.findings
        self.unused: Final[list[str]] = files.unused
        self.warnings: Final[list[str]] = []
        self.holes: Final[list[Hole]] = []
        self.patched: Final[dict[str, PatchedFile]] = {}
        self.seeds: Final[dict[int, int]] = {}
        self.newest = 0
        self.done_bytes = 0
        self.total_bytes = 0
        for source in files.by_number.values():
            self.total_bytes += source.size

    @property
    def disk(self) -> PatchedDisk:
        """The segments as a repair leaves them, without summaries and other files."""
        hidden = set(self.unused)
        for name in self._sizes:
            if segment_number(name) == 0:
                hidden.add(name)
        return PatchedDisk(self._disk, self.patched, hidden)

    def scan_next(self) -> bool:
        """Read the next segment; return False if all segments were read before."""
        if not self._numbers:
            return False
        number = self._numbers.pop(0)
        source = self._sources[number]
        self._scan_segment(source, len(self._numbers) == 0)
        self.done_bytes += source.size
        if not self._numbers:
            self._close()
        return True

    def give_up_record(self, number: int, offset: int, length: int, text: str) -> None:
        """Give up the good record at ``offset`` of segment ``number``.

        Its ``length`` payload bytes are unreadable.
        """
        name = segment_name(number)
        self.findings.append(Finding(name, offset, text, True))
        self._drop(number, offset, length)
        offset += record_size(length)
        record = self._record_at(number, offset)
        while record is not None and record.kind == REFERENCE:  # the body is gone; the reference must not get another
            self._drop(number, offset, 0)
            offset = record.end
            record = self._record_at(number, offset)
        self._close()

    def _record_at(self, number: int, offset: int) -> Record | None:
        block = self._read_patched(segment_name(number), offset, HEADER_SIZE)
        return read_record(memoryview(block), 0, len(block), self.seeds[number], offset)

    def _drop(self, number: int, offset: int, length: int) -> None:
        """Patch a good record into a record without effect."""
        name = segment_name(number)
        payload = self._read_patched(name, offset + HEADER_SIZE, length)
        header = filler_header(self.seeds[number], offset, payload)
        file = self.patched.get(name)
        if file is None:
            self.patched[name] = PatchedFile(name, self._sizes[name], [(offset, header)])
        else:
            file.add(offset, header)

    def _read_patched(self, name: str, offset: int, length: int) -> bytes:
        """Read a segment as `disk` shows it."""
        file = self.patched.get(name)
        return self._disk.read(name, offset, length) if file is None else file.read(self._disk, offset, length)

    # The segments in order

    def _scan_segment(self, source: SegmentFile, is_last: bool) -> None:
        number = source.number
        name = segment_name(number)
        if name in self.unused:
            self.unused.remove(name)  # another file takes the name
        seed = segment_seed(self._store_id, number)
        self.seeds[number] = seed
        scan = SegmentScan(number, self._before_seal(number, self._read(source)), seed)
        stated = self._stated.get(number)
        if stated is not None:
            scan.expect(stated.previous_end, stated.previous_batches)
        elif not is_last:
            scan.close()
        elif scan.torn_bytes > 0:
            self.warnings.append(
                f"{name} ends with an incomplete write of {scan.torn_bytes} bytes after byte {scan.end}, none of it was"
                " acknowledged"
            )
        if scan.batches == 0:
            self.findings.append(Finding(name, scan.end, "nothing in it can be read", True))
            del self._sources[number]
            self.unused.append(source.name)
            return
        self._apply(scan)
        self._name_holes(name, scan)
        self._plan(source, scan, is_last)
        self._previous = scan
        self.newest = number

    def _read(self, source: SegmentFile) -> bytes:
        try:
            return self._disk.read(source.name, 0, source.size)
        except OSError as error:
            self.findings.append(Finding(source.name, -1, f"the disk cannot read it: {error.strerror or error}", True))
            return read_or_zeros(self._disk, source.name, 0, source.size)

    def _seal(self, number: int) -> int:
        """Return the end of a segment that a take-over sealed; -1 for other segments.

        The segment of a take-over leaves out a number. Bytes behind the end that it states are an old owner's, and
        count as little as for recovery.
        """
        stated = self._stated.get(number)
        return -1 if stated is None or stated.number == number + 1 else stated.previous_end

    def _before_seal(self, number: int, data: bytes) -> bytes:
        seal = self._seal(number)
        return data if seal < 0 else data[:seal]

    def _name_holes(self, name: str, scan: SegmentScan) -> None:
        for hole in scan.holes:
            self.findings.append(hole_finding(name, hole, self._present_names))
            self.holes.append(hole)

    def _plan(self, source: SegmentFile, scan: SegmentScan, is_last: bool) -> None:
        """Plan the file of the segment."""
        name = segment_name(source.number)
        patches: list[tuple[int, bytes]] = []
        if source.header is None:
            patches.append((0, self._header(source, _version_of(scan, source.version))))
        patches.extend(scan.patches())
        size = source.size
        is_sealed = self._seal(source.number) >= 0
        if scan.end > size or is_sealed or (scan.torn_bytes > 0 and not is_last):
            size = scan.end  # also the seal may be lost
        file = PatchedFile(source.name, size, patches)
        if file.is_changed(name, self._sizes.get(name, -1)):
            self.patched[name] = file

    def _header(self, source: SegmentFile, version: int) -> bytes:
        previous = self._previous  # a start with a lease leaves out a number
        number = source.number
        if previous is None:
            header = encode_segment_header(self._store_id, number, number - 1, 0, 0)
        else:
            header = encode_segment_header(self._store_id, number, previous.number, previous.end, previous.batches)
        header = header[:8] + version.to_bytes(2, "little") + header[10:]
        return header[:12] + crc32(header[:12] + bytes(4) + header[16:]).to_bytes(4, "little") + header[16:]

    # The records of a segment

    def _apply(self, scan: SegmentScan) -> None:
        for region in scan.regions:
            listing: dict[int, bytes] | None = None
            has_body = False
            cursor = region.start
            for record in region.records:
                if record.offset - cursor > HEADER_SIZE:
                    has_body = False  # the missing bytes may have held another body
                cursor = record.end
                if record.kind == CHECKPOINT:
                    listing = self._apply_checkpoint(scan, record, region.is_whole)
                elif record.kind == BODY or record.kind == MOVED_BODY:
                    has_body = True
                elif record.kind == REFERENCE and not has_body:
                    scan.drop(record)
                    size = record.end - record.offset
                    scan.holes.append(
                        Hole(scan.number, record.offset, size, REFERENCE, record.destination, record.sequence)
                    )
                else:
                    self._apply_record(scan, record, listing)
            if listing is not None:
                self._present_names = listing

    def _apply_record(self, scan: SegmentScan, record: Record, listing: dict[int, bytes] | None) -> None:
        kind = record.kind
        if kind == DESTINATION:
            self._present_names[record.destination] = scan.payload(record)
            self._note_high(record.destination, record.sequence)
            if listing is not None:
                listing[record.destination] = scan.payload(record)
        elif kind == SEGMENT_DROPPED:
            self._dropped.add(record.sequence)
        elif kind == TRANSFER:
            self._apply_transfer(scan, record)
        elif kind in OF_A_DESTINATION:
            self._check_owner(scan, record)

    def _apply_transfer(self, scan: SegmentScan, record: Record) -> None:
        runs = decode_transfer(scan.payload(record))
        if runs is None:
            scan.drop(record)
        elif self._ensure_name(scan, record, runs.source) and self._ensure_name(scan, record, record.destination):
            self._note_high(record.destination, record.sequence + runs.count - 1)
            for index, first in enumerate(runs.firsts):
                self._note_high(runs.source, first + runs.counts[index] - 1)

    def _apply_checkpoint(self, scan: SegmentScan, record: Record, is_whole: bool) -> dict[int, bytes] | None:
        """Return an empty list for the destinations of the check-point, or None if the list has holes."""
        checkpoint = decode_checkpoint(scan.payload(record))
        if checkpoint is None or not is_whole:
            scan.drop(record)
            return None
        self._checkpoint = checkpoint
        self._checkpoint_of = scan.number
        self._dropped.clear()
        self._floor = max(self._floor, checkpoint.floor)
        return {}

    def _note_high(self, number: int, sequence: int) -> None:
        if sequence > self._high.get(number, 0):
            self._high[number] = sequence

    def _check_owner(self, scan: SegmentScan, record: Record) -> None:
        if self._ensure_name(scan, record, record.destination):
            self._note_high(record.destination, record.sequence)
            if record.kind == DESTINATION_REMOVED:
                del self._present_names[record.destination]

    def _ensure_name(self, scan: SegmentScan, record: Record, number: int) -> bool:
        """Find or restore the name of destination ``number`` in ``record``.

        Drop the record and return False without success.
        """
        if number not in self._present_names:
            name = self._find_name(scan, number)
            if not scan.insert(record.offset, DESTINATION, number, 0, name):
                scan.drop(record)
                self.findings.append(
                    Finding(segment_name(scan.number), record.offset, f"nobody knows destination {number}", True)
                )
                return False
            self._present_names[number] = name
        return True

    def _find_name(self, scan: SegmentScan, number: int) -> bytes:
        """Return the name of a destination whose record is lost."""
        names = self._all_names
        if names is None:
            names = self._read_all_names()
            self._all_names = names
        known_name = names.get(number)
        if known_name is not None:
            return known_name
        for region in scan.regions:
            for other in region.records:
                if other.destination == number and other.kind == MESSAGE:
                    raw = scan.payload(other)[expiration_size(other.flags) :]
                    name = self._ports.destination_name(other.format_id & FORMAT_MASK, raw)
                    if name != "":
                        return name.encode("utf-8", "surrogatepass")
        return f"{LOST_NAME}{number}".encode()

    def _read_all_names(self) -> dict[int, bytes]:
        names: dict[int, bytes] = {}
        for source in self._sources.values():
            data = self._before_seal(source.number, read_or_zeros(self._disk, source.name, 0, source.size))
            scan = SegmentScan(source.number, data, segment_seed(self._store_id, source.number))
            for region in scan.regions:
                for record in region.records:
                    if record.kind == DESTINATION:
                        names[record.destination] = scan.payload(record)
        return names

    # The end

    def _close(self) -> None:
        """Check the newest check-point and its segments.

        Add a segment with a new check-point after any damage.

        The new check-point ensures that no sequence of a lost message is assigned again.
        """
        previous = self._previous
        if previous is None:
            raise StoreError("nothing in the store can be read; restore a backup, nothing was changed")
        if self._is_closed:
            return
        checkpoint = self._checkpoint if self._checkpoint_of == self.newest else None
        if checkpoint is None:
            first = previous.regions[0].start
            self.findings.append(
                Finding(segment_name(self.newest), first, "its check-point is damaged; a new one is made", False)
            )
        else:
            for number in checkpoint.segments:
                if number not in self._sources and number not in self._dropped:
                    self.findings.append(Finding(segment_name(number), -1, "it is missing", True))
        if self.findings:
            self._add_segment(checkpoint, previous)

    def _add_segment(self, checkpoint: Checkpoint | None, previous: SegmentScan) -> None:
        self._is_closed = True
        index = JournalIndex()
        index.leave_out_ledger()
        index.floor = self._floor
        for high in self._high.values():
            index.floor = max(index.floor, high)
        for number, name in self._present_names.items():
            restore_destination(index, number, self._high.get(number, 0), name)
        for number in sorted(self._sources):
            listed = checkpoint is None or number in checkpoint.segments or number == self.newest
            if listed and number not in self._dropped:
                index.segments.open(number, self.seeds[number], 0, 0)
        number = self.newest + 1
        seed = segment_seed(self._store_id, number)
        parts = [encode_segment_header(self._store_id, number, self.newest, previous.end, previous.batches)]
        parts.append(encode_checkpoint(index, seed))
        data = b"".join(parts)
        self.seeds[number] = seed
        self.patched[segment_name(number)] = PatchedFile("", len(data), [(0, data)])
        newest = segment_name(self.newest)
        file = self.patched.get(newest)
        if file is None:
            file = PatchedFile(newest, self._sizes[newest], [])
            self.patched[newest] = file
        file.size = previous.end  # a segment with a successor ends with its last batch
        self.newest = number


def _version_of(scan: SegmentScan, version: int) -> int:
    """Return the format of a segment whose header is lost.

    Format 1 is assumed if there are messages, no record has flags, and all kinds are known to format 1.
    """
    if version != UNKNOWN_VERSION:
        return version
    version = FORMAT_VERSION
    for region in scan.regions:
        for record in region.records:
            if record.flags != 0 or record.kind > LAST_KIND_OF_FORMAT_1:
                return FORMAT_VERSION
            if record.kind == MESSAGE:
                version = 1
    return version
