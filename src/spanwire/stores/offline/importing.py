"""Imports an export of `spanwire.stores.offline.exporting`.

The target is a new store, or the end of an existing store.

The file is read twice: first to check every line, then to store the contents. A new store is written under another name
and renamed when it is complete. In an existing store a message gets a new sequence if its sequence is taken. The order
of the messages is kept.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import (
    BRIDGES,
    CURSORS,
    DRAINS,
    LEDGER_LINKS,
    LOST_MESSAGES,
    MOVES,
    NETWORK_CONNECTORS,
    NETWORK_MEMBERS,
    SCHEDULES,
    STAGED_BATCHES,
    XA_BRANCHES,
    check_metadata,
)
from spanwire.broker.scheduler.schedule import stored_form
from spanwire.model.destination import SCHEDULE, SCHEMES, Destination, check_name
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.model.message import Message
from spanwire.stores.directory import DIRECTORY_MODE
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.index.index import destination_of
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import OpenedJournal, open_journal
from spanwire.stores.journal.recovery.recovery import recover
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.segment import DEFAULT_SEGMENT_BYTES, SPARE_NAME, STORE_ID_SIZE, segment_name
from spanwire.stores.offline.exporting import EXPORT_NAME, EXPORT_VERSION
from spanwire.stores.offline.inspection import TABLES, Progress

MAX_LINE_BYTES: Final = 256 * 1024 * 1024  # bytes; enough for the largest frame in base64
MAX_BACKLOG_BYTES: Final = 4 * 1024 * 1024  # bytes of one batch; bounds the memory
MAX_SEQUENCE: Final = (1 << 62) - 1
MAX_REDELIVERIES: Final = 0xFFFFFFFF
MAX_TABLE_NUMBER: Final = 255  # of metadata, in any version
# These name messages, links or tasks by numbers, which others have in a used store. Links and bridges of a broker are
# its own.
OF_NEW_STORES: Final = (MOVES, LEDGER_LINKS, LOST_MESSAGES, DRAINS, NETWORK_CONNECTORS, NETWORK_MEMBERS, BRIDGES)
TEMPORARY_NAME: Final = "journal.importing"


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message with destination, sequence and redelivery count."""

    destination: Destination
    sequence: int
    redelivery_count: int
    message: Message


@dataclass(frozen=True, slots=True)
class ImportedMetadata:
    """A metadata record."""

    table: int
    key: bytes
    value: bytes


Item = Destination | ImportedMessage | ImportedMetadata
"""The start of a destination, one of its messages, or a metadata record."""


def import_store(directory: Path, source: Path, formats: MessageFormats, progress: Progress) -> tuple[int, int]:
    """Store everything from the file ``source``. The journal's directory may be missing.

    Returns:
        The number of messages and of metadata records.

    Raises:
        StoreError: a line of the file is wrong; the text names the line. Nothing was written.
        OSError: a file cannot be read or written.
    """
    tables: set[int] = set()
    with source.open("rb") as stream:
        reader = ImportReader(stream, source.name, formats)
        for number, item in enumerate(reader.items()):
            if isinstance(item, ImportedMetadata):
                tables.add(item.table)
            if number % 1000 == 0:
                progress("read", reader.offset, source.stat().st_size)
    if directory.exists():
        if XA_BRANCHES in tables:
            raise StoreError(
                f"{source.name} holds prepared transactions, which name messages by their numbers: nothing was "
                f"imported into {directory}; import into a new directory, or finish them before the export"
            )
        if CURSORS in tables or STAGED_BATCHES in tables:
            raise StoreError(
                f"{source.name} holds cursors or staged batches, which name messages by their numbers: nothing was "
                f"imported into {directory}; import into a new directory, or release and commit them before the export"
            )
        return _fill(directory, source, formats, progress, SCHEDULES in tables)
    temporary = directory.with_name(TEMPORARY_NAME)
    if temporary.exists():
        shutil.rmtree(temporary)  # the remains of an interrupted import
    temporary.mkdir(mode=DIRECTORY_MODE)
    try:
        counts = _fill(temporary, source, formats, progress, False)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    temporary.rename(directory)
    descriptor = os.open(directory.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return counts


def _fill(
    directory: Path, source: Path, formats: MessageFormats, progress: Progress, schedules: bool
) -> tuple[int, int]:
    disk = FileDisk(directory)
    try:
        if schedules and recover(disk).metadata().get(SCHEDULES):
            raise StoreError(
                f"{source.name} and {directory} both hold scheduled messages, whose numbers would clash: nothing was "
                f"imported; import into a new directory"
            )
        size = source.stat().st_size
        with source.open("rb") as stream:
            return fill(disk, ImportReader(stream, source.name, formats), lambda at: progress("stored", at, size))
    finally:
        disk.close()


def fill(
    disk: Disk, reader: ImportReader, progress: Callable[[int], None], segment_bytes: int = DEFAULT_SEGMENT_BYTES
) -> tuple[int, int]:
    """Store the items of ``reader`` on ``disk`` and close the store cleanly.

    Returns:
        The number of messages and of metadata records.
    """
    opened = open_journal(disk, os.urandom(STORE_ID_SIZE), segment_bytes)
    journal = opened.journal
    is_new = not opened.recovery.destinations()
    messages = metadata = 0
    for item in reader.items():
        if isinstance(item, Destination):
            journal.add_destination(item)
        elif isinstance(item, ImportedMetadata):
            if item.table in OF_NEW_STORES and not is_new:
                continue
            journal.put_metadata(item.table, item.key, item.value)
            metadata += 1
        else:
            _append(opened, item)
            messages += 1
        if journal.backlog_bytes > MAX_BACKLOG_BYTES:
            _write(journal, disk)
            progress(reader.offset)
    _write(journal, disk)
    journal.note_clean_stop()
    _write(journal, disk)
    disk.resize(segment_name(journal.segment), journal.segment_end)
    if SPARE_NAME in disk.files():
        disk.delete(SPARE_NAME)
    progress(reader.offset)
    return messages, metadata


def _append(opened: OpenedJournal, item: ImportedMessage) -> None:
    """Append a message under the message's own sequence.

    If the destination has a higher sequence, the message gets a new sequence.
    """
    journal = opened.journal
    owner = opened.recovery.index.by_name[item.destination.qualified_name]
    if owner.high < item.sequence - 1:
        owner.high = item.sequence - 1
    sequence = journal.append(item.destination, item.message)
    if item.redelivery_count > 0:
        journal.note_redelivery(item.destination, sequence, item.redelivery_count)


def _write(journal: Journal, disk: Disk) -> None:
    batch = journal.next_batch()
    while batch is not None:
        write_batch(disk, batch, True)
        journal.on_completed(batch)
        batch = journal.next_batch()


class ImportReader:
    """Reads an export line by line. ``offset`` counts the bytes read so far."""

    def __init__(self, stream: BinaryIO, name: str, formats: MessageFormats) -> None:
        self._stream: Final = stream
        self._name: Final = name
        self._formats: Final = formats
        self._line_number = 0
        self._destination: Destination | None = None
        self._expected = 0  # messages of the destination that must still follow
        self._last_sequence = 0  # the sequence of the message before
        self._counts = [0, 0, 0]  # destinations, messages, metadata records
        self.offset = 0

    def items(self) -> Iterator[Item]:
        """Yield all items of the export.

        Raises:
            StoreError: a line is wrong; the text names the line.
        """
        first = self._object()
        if first is None:
            raise StoreError(f"{self._name}: the file is empty; nothing was stored")
        if EXPORT_NAME not in first:
            if "line" in first and "message_id" in first:
                raise self._refusal("a readable export cannot be imported: export again without --readable")
            raise self._refusal("this is no export of a store")
        if first[EXPORT_NAME] != EXPORT_VERSION:
            raise self._refusal(
                f"the export has version {first[EXPORT_NAME]!r}, this build reads {EXPORT_VERSION}: use the Spanwire"
                " that wrote it, or a newer one"
            )
        while True:
            members = self._object()
            if members is None:
                raise self._refusal("the file ends before its last line")
            if "end" in members:
                self._check_end(members)
                return
            yield self._item(members)

    def _item(self, members: dict[str, object]) -> Item:
        if "bytes" in members:
            return self._message(members)
        if self._expected != 0:
            raise self._refusal(f"{self._expected} messages of {self._destination} are missing")
        if "destination" in members:
            return self._begin(members)
        if "table" in members:
            return self._metadata(members)
        raise self._refusal("this is neither a destination, a message nor a metadata record")

    def _begin(self, members: dict[str, object]) -> Destination:
        name = members["destination"]
        if not isinstance(name, str):
            raise self._refusal("destination is no text")
        try:
            destination = destination_of(name)
            if destination.kind < len(SCHEMES):
                check_name(destination.name)
        except SpanwireError as error:
            raise self._refusal(str(error)) from error
        self._destination = destination
        self._expected = self._number(members, "messages", 0, MAX_SEQUENCE)
        self._last_sequence = 0
        self._counts[0] += 1
        return destination

    def _message(self, members: dict[str, object]) -> ImportedMessage:
        destination = self._destination
        if destination is None or self._expected == 0:
            raise self._refusal("no destination announced this message")
        sequence = self._number(members, "sequence", self._last_sequence + 1, MAX_SEQUENCE)
        count = self._number(members, "redelivery_count", 0, MAX_REDELIVERIES)
        raw = self._bytes(members, "bytes")
        try:
            message = self._formats.index(self._number(members, "format", 0, 0xFFFF), raw)
        except SpanwireError as error:
            raise self._refusal(f"the message cannot be read: {error}") from error
        if destination.kind == SCHEDULE:  # the field has the number of the job, not an expiration
            message = stored_form(message, self._number(members, "expiration", 0, MAX_SEQUENCE))
        if message.priority != members.get("priority") or message.expiration_ms != members.get("expiration"):
            raise self._refusal("priority or expiration are not those of the message")
        self._last_sequence = sequence
        self._expected -= 1
        self._counts[1] += 1
        return ImportedMessage(destination, sequence, count, message)

    def _metadata(self, members: dict[str, object]) -> ImportedMetadata:
        key = self._bytes(members, "key")
        value = self._bytes(members, "value")
        table = self._number(members, "table", 1, MAX_TABLE_NUMBER)
        if table not in TABLES:
            raise self._refusal(
                f"the metadata record is of table {table}, this build reads up to {max(TABLES)}: use a newer Spanwire"
            )
        try:
            check_metadata(key, value)
        except SpanwireError as error:
            raise self._refusal(str(error)) from error
        self._counts[2] += 1
        return ImportedMetadata(table, key, value)

    def _check_end(self, members: dict[str, object]) -> None:
        if self._expected != 0:
            raise self._refusal(f"{self._expected} messages of {self._destination} are missing")
        if [members.get("end"), members.get("messages"), members.get("facts")] != self._counts:
            raise self._refusal("the counts do not fit: lines are missing or were added")
        if self._stream.read(1):
            self._line_number += 1
            raise self._refusal("something follows the last line")

    def _number(self, members: dict[str, object], name: str, lowest: int, highest: int) -> int:
        value = members.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise self._refusal(f"{name} is no whole number from {lowest} to {highest}")
        return value

    def _bytes(self, members: dict[str, object], name: str) -> bytes:
        value = members.get(name)
        if isinstance(value, str):
            try:
                return base64.b64decode(value.encode("ascii"), validate=True)
            except (binascii.Error, UnicodeError):
                pass
        raise self._refusal(f"{name} is no base64")

    def _object(self) -> dict[str, object] | None:
        """Return the next line; None at the end of the file."""
        line = self._stream.readline(MAX_LINE_BYTES + 1)
        if not line:
            return None
        self._line_number += 1
        self.offset += len(line)
        if len(line) > MAX_LINE_BYTES:
            raise self._refusal(f"the line is longer than {MAX_LINE_BYTES} bytes")
        if not line.endswith(b"\n"):
            raise self._refusal("the line is cut off")
        try:
            members = json.loads(line.decode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError) as error:
            raise self._refusal("the line is no JSON") from error
        if not isinstance(members, dict):
            raise self._refusal("the line is no JSON object")
        return members

    def _refusal(self, text: str) -> StoreError:
        return StoreError(f"{self._name} line {self._line_number}: {text}; nothing was stored")
