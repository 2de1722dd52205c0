"""Assigns the files of a damaged store to segments, whatever the names of the files.

A header with a matching checksum is trusted. A file without such a header is trusted if its records were written for
the number in the file name. The store id is the most frequent id of the headers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.patches import read_or_zeros
from spanwire.stores.journal.segments.record import HEADER_SIZE, LAST_KNOWN_KIND, NONE, read_record
from spanwire.stores.journal.segments.segment import (
    FORMAT_VERSION,
    MAGIC,
    SEGMENT_HEADER_SIZE,
    STORE_ID_SIZE,
    SegmentHeader,
    header_sum,
    newer_or_damaged,
    read_segment_header,
    segment_name,
    segment_number,
    segment_seed,
)
from spanwire.stores.salvage.findings import Finding
from spanwire.stores.salvage.lost_header import lost_seed, store_id_for

MISTAKABLE: Final = ".summary"  # suffix of the summaries; a segment may have got such a name
UNKNOWN_VERSION: Final = 0
MAX_PROBE_BYTES: Final = 1024 * 1024  # bytes; enough to identify a segment whose header is destroyed


class SegmentFile:
    """Segment ``number`` in file ``name`` of ``size`` bytes.

    ``header`` is None if the header is destroyed; ``version`` may then be `UNKNOWN_VERSION`.
    """

    __slots__ = ("header", "name", "number", "size", "version")

    def __init__(self, number: int, name: str, size: int, header: SegmentHeader | None, version: int) -> None:
        self.number: Final[int] = number
        self.name: Final[str] = name
        self.size: Final[int] = size
        self.header: Final[SegmentHeader | None] = header
        self.version: Final[int] = version


class SegmentFiles:
    """The files of a store: segments ``by_number``, ``unused`` files without a segment, and ``findings``."""

    __slots__ = ("_disk", "_sizes", "by_number", "findings", "store_id", "unused")

    def __init__(self, disk: Disk) -> None:
        """Read the headers of all files.

        Raises:
            StoreError: the store has a newer version, or no file is a segment.
        """
        self._disk: Final[Disk] = disk
        self._sizes: Final[dict[str, int]] = disk.files()
        self.by_number: Final[dict[int, SegmentFile]] = {}
        self.findings: Final[list[Finding]] = []
        self.unused: Final[list[str]] = []
        headers = self._headers()
        self.store_id: Final[bytes] = _most_frequent(headers) if headers else self._lost_id()
        for name, header in headers.items():
            if header.store_id == self.store_id and segment_name(header.number) == name:
                self._assign(name, header)
        for name, header in headers.items():
            if header.store_id == self.store_id and segment_name(header.number) != name:
                self._assign_misnamed(name, header)
        for name, header in headers.items():
            if header.store_id != self.store_id:
                self._set_aside(name, 16, "it belongs to another store")
            elif self.by_number[header.number].name != name:
                self._set_aside(name, 32, f"it is a copy of {segment_name(header.number)}")
        for name in sorted(self._sizes):
            if segment_number(name) > 0 and name not in headers:
                self._assign_headless(name)

    def stated_ends(self) -> dict[int, SegmentHeader]:
        """Return the headers that state the end of the segment before theirs, by the number of that segment."""
        stated: dict[int, SegmentHeader] = {}
        numbers = sorted(self.by_number)
        for number, following in pairwise(numbers):
            header = self.by_number[following].header
            if header is not None and header.previous == number:
                stated[number] = header
        return stated

    def _headers(self) -> dict[str, SegmentHeader]:
        """Return all headers with matching checksums, by file."""
        headers: dict[str, SegmentHeader] = {}
        newer: StoreError | None = None
        for name in self._sizes:
            is_named = segment_number(name) > 0
            if not is_named and not name.endswith(MISTAKABLE):
                continue
            first = read_or_zeros(self._disk, name, 0, SEGMENT_HEADER_SIZE)
            header = header_of(first)
            if header is not None:
                headers[name] = header
            elif is_named and first[: len(MAGIC)] == MAGIC and int.from_bytes(first[8:10], "little") > FORMAT_VERSION:
                newer = newer_or_damaged(name, first)
        if not headers and newer is not None:
            raise newer
        return headers

    def _lost_id(self) -> bytes:
        """Return a store id that reads the segments, for a store without any header."""
        for name in sorted(self._sizes):
            number = segment_number(name)
            if number > 0:
                data = read_or_zeros(self._disk, name, 0, self._sizes[name])
                seed = lost_seed(data)
                if seed >= 0:
                    return store_id_for(seed, number, data[16 : 16 + STORE_ID_SIZE])
        raise StoreError("no file is a readable segment of a journal; restore a backup, nothing was changed")

    def _assign(self, name: str, header: SegmentHeader) -> None:
        version = int.from_bytes(self._disk.read(name, 8, 2), "little")
        self.by_number[header.number] = SegmentFile(header.number, name, self._sizes[name], header, version)

    def _assign_misnamed(self, name: str, header: SegmentHeader) -> None:
        if header.number in self.by_number:
            return
        text = f"it holds segment {header.number}: files were swapped or renamed"
        self.findings.append(Finding(name, 32, text, False))
        self._assign(name, header)
        self.unused.append(name)  # `Salvage` removes the name again if another file gets it

    def _assign_headless(self, name: str) -> None:
        """Assign a file with a destroyed header, if its records match the number in its name."""
        number = segment_number(name)
        size = self._sizes[name]
        data = read_or_zeros(self._disk, name, 0, min(size, MAX_PROBE_BYTES))
        if number not in self.by_number and has_records_of(data, segment_seed(self.store_id, number)):
            version = int.from_bytes(data[8:10], "little")
            if not 1 <= version <= FORMAT_VERSION:
                version = UNKNOWN_VERSION
            self.by_number[number] = SegmentFile(number, name, size, None, version)
            self.findings.append(Finding(name, 0, "its header is damaged", False))
            return
        self._set_aside(name, 0, "it is no segment of this journal, or nothing in it can be read")

    def _set_aside(self, name: str, offset: int, text: str) -> None:
        """Leave out a file. The segment of the file's name is lost, unless another file has it."""
        self.findings.append(Finding(name, offset, text, segment_number(name) not in self.by_number))
        self.unused.append(name)


def header_of(data: bytes) -> SegmentHeader | None:
    """Return the header in the first bytes of a file, with any segment number.

    Returns None for a damaged or foreign header.

    Raises:
        StoreError: the header has a newer version.
    """
    if len(data) < SEGMENT_HEADER_SIZE or data[: len(MAGIC)] != MAGIC:
        return None
    if header_sum(data) != int.from_bytes(data[12:16], "little"):
        return None
    number = int.from_bytes(data[16 + STORE_ID_SIZE : 24 + STORE_ID_SIZE], "little")
    return read_segment_header(segment_name(number), data)


def _most_frequent(headers: dict[str, SegmentHeader]) -> bytes:
    counts: dict[bytes, int] = {}
    store_id_of_most = b""
    for header in headers.values():
        counts[header.store_id] = counts.get(header.store_id, 0) + 1
        if store_id_of_most == b"" or counts[header.store_id] > counts[store_id_of_most]:
            store_id_of_most = header.store_id
    return store_id_of_most


def has_records_of(data: bytes, seed: int) -> bool:
    """Return True if a record in a segment's first bytes was written with this seed."""
    view = memoryview(data)
    offset = SEGMENT_HEADER_SIZE
    while offset + HEADER_SIZE <= len(data):
        if NONE < data[offset + 8] <= LAST_KNOWN_KIND:
            if read_record(view, offset, len(data), seed, offset) is not None:
                return True
        offset += 8
    return False
