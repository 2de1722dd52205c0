"""Reads a whole store and reports contents and faults, without a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.stores.journal.recovery.recovery import refuse_orphans
from spanwire.stores.journal.recovery.summary import summary_number
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.record import HEADER_SIZE
from spanwire.stores.journal.segments.segment import segment_number
from spanwire.stores.offline.contents import StoreContents
from spanwire.stores.salvage.findings import MESSAGES, Finding
from spanwire.stores.salvage.salvage import Salvage
from spanwire.stores.salvage.segment_scan import Hole

TABLES: Final = {
    1: "durable subscriptions",
    2: "XA branches",
    3: "schedules",
    4: "producer audit",
    5: "cursors",
    6: "staged batches",
    7: "sink ledgers",
    8: "remote durable subscribers",
    9: "accepted ids of messages",
    10: "moves",
    11: "links in the ledger",
    12: "drains",
    13: "added network connectors",
    14: "linked brokers of gossip",
    15: "created bridges",
    16: "count of messages lost with the memory",  # "1 messages lost" would be read as a loss
}

Progress = Callable[[str, int, int], None]
"""The task, the amount done, and the total amount."""


Location = tuple[int, int, int]
"""Segment and offset of a record, and the length of its payload."""


@dataclass(slots=True)
class DestinationReport:
    """The messages of one destination.

    ``bytes`` is the size of the encoded messages, ``oldest_ms`` the sending time of the oldest message (0: unknown).
    ``lost`` counts the known losses.
    """

    name: str
    messages: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    lost: int = 0


@dataclass(slots=True)
class Inspection:
    """The report about a store. ``salvage`` plans a repair, and is None for a directory without segments."""

    salvage: Salvage | None = None
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    destinations: list[DestinationReport] = field(default_factory=list)
    metadata: dict[int, int] = field(default_factory=dict)
    used_bytes: int = 0
    live_bytes: int = 0

    @property
    def has_loss(self) -> bool:
        """True if a repair loses data."""
        return any(finding.has_loss for finding in self.findings)


class FormatNames:
    """Decodes destinations with the message formats; see `spanwire.stores.salvage.salvage.MessageNames`."""

    def __init__(self, formats: MessageFormats) -> None:
        self._formats: Final = formats

    def destination_name(self, format_id: int, raw: bytes) -> str:
        try:
            return self._formats.index(format_id, raw).destination.qualified_name
        except SpanwireError:
            return ""


def inspect(disk: Disk, formats: MessageFormats, progress: Progress) -> Inspection:
    """Read every segment and every message, and return the report.

    Raises:
        StoreError: no part of the store is readable, or all segments are missing.
    """
    inspection = Inspection()
    files = disk.files()
    if not any(segment_number(name) > 0 for name in files):
        refuse_orphans(files)
        return inspection
    salvage = Salvage(disk, FormatNames(formats))
    inspection.salvage = salvage
    while salvage.scan_next():
        progress("segments", salvage.done_bytes, salvage.total_bytes)
    contents = StoreContents(salvage.disk)
    _read_messages(contents, formats, salvage, inspection, progress)
    if not salvage.findings:
        _check_summaries(disk, contents, salvage)
    inspection.findings = salvage.findings
    inspection.warnings = salvage.warnings
    inspection.used_bytes = sum(disk.files().values())
    inspection.metadata = {table: len(metadata) for table, metadata in contents.metadata.items() if metadata}
    for metadata in contents.metadata.values():
        inspection.live_bytes += sum(HEADER_SIZE + len(key) + len(value) for key, value in metadata.items())
    _count_losses(salvage.holes, contents, inspection)
    return inspection


def _read_messages(
    contents: StoreContents, formats: MessageFormats, salvage: Salvage, inspection: Inspection, progress: Progress
) -> None:
    total = contents.messages
    done = 0
    unreadable: list[tuple[Location, str]] = []
    for recovered in contents.destinations:
        report = DestinationReport(recovered.destination.qualified_name)
        inspection.destinations.append(report)
        for stored in contents.read(recovered):
            done += 1
            if done % 1000 == 0:
                progress("messages", done, total)
            try:
                message = formats.index(stored.format_id, stored.raw)
            except SpanwireError as error:
                report.lost += 1
                text = f"message {stored.sequence} of {report.name} cannot be read: {error}"
                unreadable.append(((stored.segment, stored.offset, stored.payload_length), text))
                continue
            if report.messages == 0:
                report.oldest_ms = message.timestamp_ms
            report.messages += 1
            report.bytes += len(stored.raw)
        inspection.live_bytes += report.bytes + HEADER_SIZE * report.messages
    if total:
        progress("messages", total, total)
    for location, text in unreadable:
        salvage.give_up_record(*location, text)


def _check_summaries(disk: Disk, contents: StoreContents, salvage: Salvage) -> None:
    """Compare recovery with the summaries to recovery without; a difference becomes a finding."""
    summaries = [name for name in disk.files() if summary_number(name) > 0]
    if not summaries:
        return
    try:
        others = StoreContents(disk)
    except StoreError as error:
        others = None
        text = str(error)
    else:
        text = "the summaries of the segments do not say what the segments say"
    if others is None or _state(others) != _state(contents):
        salvage.findings.append(Finding(summaries[0], -1, text, False))
        salvage.unused.extend(summaries)


def _state(contents: StoreContents) -> tuple[object, object]:
    states: dict[str, object] = {}
    for recovered in contents.destinations:
        expirations = (recovered.expirations.sequences, recovered.expirations.wall_ms)
        states[recovered.destination.qualified_name] = (
            recovered.sequences,
            recovered.redeliveries,
            recovered.priorities,
            expirations,
        )
    return states, contents.metadata


def _count_losses(holes: list[Hole], contents: StoreContents, inspection: Inspection) -> None:
    """Count lost messages: holes with a plausible header, unless the message is also stored elsewhere.

    A later removed message counts, too, if the record of the removal is unknown.
    """
    index = contents.recovery.index
    reports = {report.name: report for report in inspection.destinations}
    for hole in holes:
        number, sequence = index.present_label(hole.number, hole.sequence)
        owner = index.by_number.get(number)
        if owner is None or hole.kind not in MESSAGES or owner.has(sequence):
            continue
        report = reports.get(owner.destination.qualified_name)
        if report is not None:
            report.lost += 1


def refuse_unreadable(error: OSError, path: str) -> StoreError:
    """Return the error for a store made unreadable by the disk or missing rights."""
    return StoreError(f"the store in {path} cannot be read: {error.strerror or error}; look at the disk and its rights")
