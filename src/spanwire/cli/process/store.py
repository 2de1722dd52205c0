"""``spanwire store check | repair | export | import DIRECTORY``.

The commands operate on the store of a stopped broker.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from spanwire.cli.arguments import Parser, offer_actions
from spanwire.model.destination import Destination
from spanwire.model.errors import SpanwireError, StoreError
from spanwire.model.text import escaped
from spanwire.model.units import MIB
from spanwire.model.written_destination import written_destination
from spanwire.protocols.readable import readable_or_fault
from spanwire.service.message_formats import message_formats
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.segments.disk_port import DISK_FULL, Disk
from spanwire.stores.journal.segments.patches import PLAN_NAME
from spanwire.stores.offline import repair as repairing
from spanwire.stores.offline.directory import OwnStore, own_directory, read_directory, shared_directory
from spanwire.stores.offline.exporting import export_readable, export_store
from spanwire.stores.offline.importing import import_store
from spanwire.stores.offline.inspection import (
    TABLES,
    DestinationReport,
    Inspection,
    Progress,
    inspect,
    refuse_unreadable,
)
from spanwire.stores.offline.read_disk import ReadDisk
from spanwire.stores.salvage.findings import Finding

DAMAGED: Final = 1
UNREADABLE: Final = 2
USAGE_ERROR: Final = 2
TERMINAL_INTERVAL_S: Final = 0.1
LOG_INTERVAL_S: Final = 5.0
MAX_SHOWN: Final = 200  # damages that are listed


def run(arguments: Sequence[str]) -> int:
    """Run one of the four actions; return 0 after a success."""
    words = list(arguments)
    offer_actions("spanwire store", words, ACTIONS)
    if not words or words[0] not in ACTIONS:
        if words and words[0] in ("-h", "--help"):
            sys.stdout.write(USAGE)
            raise SystemExit(0)
        sys.stderr.write("spanwire store: name an action: check, repair, export or import; spanwire store --help\n")
        return USAGE_ERROR
    action = words.pop(0)
    description, act = ACTIONS[action]
    parser = Parser(prog=f"spanwire store {action}", description=description)
    parser.add_argument("directory", type=Path, metavar="DIRECTORY", help="the broker's data directory")
    parser.add_argument("--progress", action="store_true", help="show the progress even without a terminal")
    if action == "repair":
        parser.add_argument("--yes", action="store_true", help="repair even if some data cannot be saved")
    elif action == "export":
        parser.option(
            "destination", "only destinations under this name or pattern, and no metadata records", metavar="PATTERN"
        )
        parser.add_argument(
            "--readable",
            action="store_true",
            help="one line for each message with text, headers and properties, for people; it cannot be imported",
        )
        parser.add_argument("--queue", dest="destination", metavar="PATTERN", help="the same as --destination")
        parser.add_argument("--output", type=Path, metavar="FILE", help="instead of standard output; must not exist")
        parser.add_argument("--file", dest="output", type=Path, metavar="FILE", help="the same as --output")
    elif action == "import":
        parser.add_argument("file", type=Path, metavar="FILE", help="a file written by spanwire store export")
    options = parser.parse(words)
    try:
        return act(options)
    except BrokenPipeError:
        raise  # the reader of the export is gone
    except OSError as error:
        if error.errno in DISK_FULL:
            raise StoreError(f"the disk is full: {error.strerror}; make room and run it again") from error
        raise refuse_unreadable(error, str(error.filename or options.directory)) from error


def _check(options: argparse.Namespace) -> int:
    try:
        with read_directory(options.directory) as journal, ReadDisk(journal) as disk:
            inspection = inspect(disk, message_formats(), _progress(options))
            if repairing.is_interrupted(disk):
                text = "a repair was interrupted; spanwire store repair ends it"
                inspection.findings.insert(0, Finding(PLAN_NAME, -1, text, False))
            shown = report(inspection, _segments(disk))
    except (OSError, SpanwireError) as error:
        refusal = refuse_unreadable(error, str(options.directory)) if isinstance(error, OSError) else error
        sys.stderr.write(f"spanwire store check: {refusal}\n")
        return UNREADABLE
    sys.stdout.write(shown)
    if not inspection.findings:
        sys.stdout.write("no damage\n")
        return 0
    sys.stdout.write(
        f"{damages(inspection)}{_count(len(inspection.findings), 'damage')}; nothing was changed, "
        "spanwire store repair saves what can be saved\n"
    )
    return DAMAGED


def _repair(options: argparse.Namespace) -> int:
    with own_directory(options.directory, make=False) as store:
        disk = FileDisk(store.journal)
        try:
            if repairing.finish(disk):
                sys.stdout.write("the repair that was interrupted is finished\n")
            return _repair_on(disk, store, options)
        finally:
            disk.close()


def _repair_on(disk: Disk, store: OwnStore, options: argparse.Namespace) -> int:
    progress = _progress(options)
    inspection = inspect(disk, message_formats(), progress)
    salvage = inspection.salvage
    if salvage is None or not inspection.findings:
        sys.stdout.write("there is nothing to repair\n")
        return 0
    sys.stdout.write(damages(inspection) + "contents that can be saved:\n" + report(inspection, _segments(disk)))
    lost = [f"  {each.lost} of {escaped(each.name)}" for each in inspection.destinations if each.lost]
    if lost:
        sys.stdout.write("lost messages, as far as known:\n" + "\n".join(lost) + "\n")
    if inspection.has_loss and not options.yes:
        raise StoreError("some data cannot be saved; nothing was changed, add --yes to save the rest")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    quarantine_directory = repairing.make_quarantine(options.directory, now)
    quarantine = FileDisk(quarantine_directory)
    try:
        repairing.repair(disk, quarantine, salvage, store.check)
    finally:
        quarantine.close()
    sys.stdout.write(f"repaired; the files as they were are in {quarantine_directory}\n")
    remaining = inspect(disk, message_formats(), progress)
    if remaining.findings:
        sys.stdout.write(damages(remaining))
        raise StoreError(f"damage is left after the repair; restore a backup, or the files in {quarantine_directory}")
    return 0


def _export(options: argparse.Namespace) -> int:
    pattern: Destination | None = None
    if options.destination is not None:
        pattern = written_destination(str(options.destination))
    with shared_directory(options.directory) as disk:
        if options.output is None:
            _write_export(disk, sys.stdout.buffer, pattern, options)
            sys.stdout.flush()
            return 0
        try:
            stream = options.output.open("xb")
        except FileExistsError as error:
            raise StoreError(f"{options.output} exists; name another file, or move it away") from error
        with stream:
            summary = _write_export(disk, stream, pattern, options)
    sys.stdout.write(f"{summary} exported\n")
    return 0


def _write_export(disk: Disk, stream: BinaryIO, pattern: Destination | None, options: argparse.Namespace) -> str:
    """Write the export; return a summary."""
    progress, formats = _progress(options), message_formats()
    if options.readable:
        return _count(export_readable(disk, formats, stream, pattern, progress, readable_or_fault), "message")
    messages, metadata = export_store(disk, formats, stream, pattern, progress)
    return f"{_count(messages, 'message')} and {_count(metadata, 'metadata record')}"


def _import(options: argparse.Namespace) -> int:
    if not options.file.is_file():
        raise StoreError(f"{options.file} is no file; name one that spanwire store export wrote")
    with own_directory(options.directory, make=True) as store:
        messages, metadata = import_store(store.journal, options.file, message_formats(), _progress(options))
    sys.stdout.write(f"{_count(messages, 'message')} and {_count(metadata, 'metadata record')} imported\n")
    return 0


ACTIONS: Final[dict[str, tuple[str, Callable[[argparse.Namespace], int]]]] = {
    "check": ("Check a store and report its contents and damage. Changes nothing.", _check),
    "repair": ("Repair a damaged store. The original files stay in DIRECTORY/quarantine.", _repair),
    "export": (
        "Write a store's messages and metadata records as JSON Lines. Of a running broker: as they are at this moment.",
        _export,
    ),
    "import": ("Import an exported file into a new store, or append it to an existing one.", _import),
}
USAGE: Final = (
    "usage: spanwire store ACTION DIRECTORY [OPTIONS]\n\nThe store of a broker that does not run; export also reads "
    "that of a running one.\n\nactions:\n"
    + "".join(f"  {name:<8} {text}\n" for name, (text, _) in ACTIONS.items())
    + "\nspanwire store ACTION --help shows its options.\n"
)


def report(inspection: Inspection, segments: int) -> str:
    """Return the contents of a store: one line for each destination, sorted by name."""
    lines = [
        f"{_count(segments, 'segment')}, {inspection.used_bytes / MIB:.1f} MiB on the disk, "
        f"{inspection.live_bytes / MIB:.1f} MiB of it live"
    ]
    if inspection.destinations:
        lines.append(f"{'messages':>10}  {'bytes':>15}  {'oldest':<20}  destination")
    lines += [_row(each) for each in sorted(inspection.destinations, key=lambda each: each.name)]
    for table, count in sorted(inspection.metadata.items()):
        lines.append(f"{count:>10}  {TABLES.get(table, f'metadata records of table {table}')}")
    lines += [f"note: {warning}" for warning in inspection.warnings]
    return "\n".join(lines) + "\n"


def damages(inspection: Inspection) -> str:
    """Return one line for each damage, at most `MAX_SHOWN`."""
    lines = [f"damage: {escaped(finding.line())}" for finding in inspection.findings[:MAX_SHOWN]]
    if len(inspection.findings) > MAX_SHOWN:
        lines.append(f"and {len(inspection.findings) - MAX_SHOWN} more")
    return "\n".join(lines) + "\n"


def _row(destination: DestinationReport) -> str:
    oldest = "-"
    if 0 < destination.oldest_ms < 1 << 47:
        oldest = datetime.fromtimestamp(destination.oldest_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return f"{destination.messages:>10}  {destination.bytes:>15}  {oldest:<20}  {escaped(destination.name)}"


def _segments(disk: Disk) -> int:
    return sum(name.endswith(".journal") for name in disk.files())


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _progress(options: argparse.Namespace) -> Progress:
    is_terminal = sys.stderr.isatty()
    if not is_terminal and not options.progress:
        return _silent
    return ProgressLine(is_terminal, time.monotonic)


def _silent(what: str, done: int, total: int) -> None:
    """Ignore the progress."""


class ProgressLine:
    """Writes percent and rate to standard error.

    A terminal shows one changing line; elsewhere a line is written now and then.
    """

    def __init__(self, is_terminal: bool, clock: Callable[[], float]) -> None:
        self._is_terminal: Final = is_terminal
        self._clock: Final = clock
        self._what = ""
        self._began = 0.0
        self._shown_at = -LOG_INTERVAL_S

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show the progress: ``done`` of ``total`` bytes or messages."""
        now = self._clock()
        if what != self._what:
            self._what = what
            self._began = now
        elif done < total and now - self._shown_at < (TERMINAL_INTERVAL_S if self._is_terminal else LOG_INTERVAL_S):
            return
        self._shown_at = now
        percent = 100 * done // max(total, 1)
        rate = done / max(now - self._began, 1e-3)
        shown = f"{rate:.0f}/s" if what == "messages" else f"{rate / MIB:.1f} MiB/s"
        end = "\n" if done >= total or not self._is_terminal else ""
        start = "\r" if self._is_terminal else ""
        sys.stderr.write(f"{start}{what}: {percent} %  {shown}    {end}")
        sys.stderr.flush()
