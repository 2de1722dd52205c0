"""Repairs a damaged store.

The quarantine gets a copy of each file before the file is changed or removed.

    quarantine/TIME/NAME     the file as it was
    journal/NAME.repaired    the repaired file, complete and synced
    journal/repair.plan      the list of the changes; from here on a repair can only be completed

A process that ends before the plan exists has changed nothing. Afterwards `finish` completes the repair, in as many
runs as needed. The plan has a line for each step, below its format and the checksum of the steps::

    plan 2 1f3c9a20
    put 0000000001.journal
    remove 0000000001.summary

Format 1 has no first line, and names without escapes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote
from zlib import crc32

from spanwire.model.errors import StoreError
from spanwire.stores.driver.disk import FileDisk
from spanwire.stores.journal.segments.disk_port import Disk
from spanwire.stores.journal.segments.patches import PLAN_NAME, PatchedFile
from spanwire.stores.journal.segments.segment import SUFFIX
from spanwire.stores.salvage.salvage import Salvage

QUARANTINE: Final = "quarantine"
REPAIRED: Final = ".repaired"
HALF_PLAN_NAME: Final = "repair.plan.new"
PUT: Final = "put"
REMOVE: Final = "remove"
PLAN_FORMAT: Final = 2
WAY_BACK: Final = (
    f"put the files of the newest directory in {QUARANTINE} back into the journal, move {PLAN_NAME} away, and repair "
    "the store again"
)
HEAD: Final = re.compile(r"plan ([1-9]\d{0,8}) ([0-9a-f]{8})", re.ASCII)
STEP: Final = re.compile(rf"({PUT}|{REMOVE}) ([^\0/]+)")
SIDECARS: Final = (".summary",)  # suffixes of files that describe a segment, and are wrong after a change of it
MAX_PART_BYTES: Final = 1024 * 1024  # bytes of one copied part; bounds the memory
DIRECTORY_MODE: Final = 0o700
MAX_SAME_TIME: Final = 100  # directories; two repairs in one second are rare already


def is_interrupted(journal: Disk) -> bool:
    """Return True if a repair was decided and not completed."""
    return PLAN_NAME in journal.files()


def finish(journal: Disk) -> bool:
    """Complete an interrupted repair, or remove the files of a repair without a plan.

    Returns:
        True if a repair was completed.

    Raises:
        StoreError: the plan is damaged, or a newer Spanwire has made it; nothing was changed.
    """
    was_interrupted = is_interrupted(journal)
    if was_interrupted:
        _carry_out(journal)
    for name in journal.files():
        if name.endswith(REPAIRED) or name == HALF_PLAN_NAME:
            journal.delete(name)
    return was_interrupted


def repair(journal: Disk, quarantine: Disk, salvage: Salvage, check: Callable[[], None] = lambda: None) -> None:
    """Repair the store in ``journal`` by the plan of ``salvage``. ``quarantine`` must be empty.

    ``check`` raises `StoreError` after a loss of the store to another process, before any change.

    Raises:
        StoreError: from ``check``.
        OSError: the store is unchanged, or needs `finish`.
    """
    sizes = journal.files()
    changed = sorted(salvage.patched)
    removed = [name for name in sorted(salvage.unused) if name not in salvage.patched]
    for name in (*changed, *salvage.unused):
        for sidecar in SIDECARS:
            companion = name.removesuffix(SUFFIX) + sidecar
            if companion in sizes and companion not in removed:
                removed.append(companion)
    for name in (*changed, *removed):
        if name in sizes:
            _copy(journal, PatchedFile(name, sizes[name], []), quarantine, name)
    quarantine.sync_directory()
    for name in changed:
        _copy(journal, salvage.patched[name], journal, name + REPAIRED)
    journal.sync_directory()
    _write(journal, HALF_PLAN_NAME, _encoded([(PUT, name) for name in changed] + [(REMOVE, name) for name in removed]))
    check()
    journal.rename(HALF_PLAN_NAME, PLAN_NAME)
    journal.sync_directory()
    _carry_out(journal)


def make_quarantine(directory: Path, time: str) -> Path:
    """Create and return the directory ``directory``/quarantine/``time``.

    If the directory exists, the name gets a number behind the time.

    Raises:
        StoreError: `MAX_SAME_TIME` directories of this time exist.
    """
    parent = directory / QUARANTINE
    parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    for number in range(MAX_SAME_TIME):
        path = parent / (time if number == 0 else f"{time}-{number}")
        try:
            path.mkdir(mode=DIRECTORY_MODE)
        except FileExistsError:
            continue
        for above in (parent, directory):
            FileDisk(above).sync_directory()
        return path
    raise StoreError(f"{parent} holds {MAX_SAME_TIME} repairs of {time} already; move them away")


def _carry_out(journal: Disk) -> None:
    names = journal.files()
    for action, name in _steps(journal.read(PLAN_NAME, 0, names[PLAN_NAME]), names):
        if action == PUT and name + REPAIRED in names:  # without it the file was renamed before the interruption
            journal.rename(name + REPAIRED, name)
        elif action == REMOVE and name in names:
            journal.delete(name)
    journal.sync_directory()
    journal.delete(PLAN_NAME)
    journal.sync_directory()


def _encoded(steps: list[tuple[str, str]]) -> bytes:
    """Return a plan. Escapes in names keep each step on a line of ASCII characters."""
    text = "".join(f"{action} {quote(name, errors='surrogateescape')}\n" for action, name in steps).encode("ascii")
    return b"plan %d %08x\n" % (PLAN_FORMAT, crc32(text)) + text


def _steps(plan: bytes, names: dict[str, int]) -> list[tuple[str, str]]:
    """Return the steps of a plan, checked against the ``names`` in the journal.

    Raises:
        StoreError: the plan is damaged, or of a newer Spanwire.
    """
    first, _, rest = plan.partition(b"\n")
    head = HEAD.fullmatch(first.decode("ascii", "replace"))
    if head is not None and int(head[1]) > PLAN_FORMAT:
        raise StoreError(
            f"{PLAN_NAME} has the format {head[1]} of a newer Spanwire, or a damaged first line, and this one reads up "
            f"to {PLAN_FORMAT}: end the repair with the newer one. If there was none, {WAY_BACK}; nothing was changed"
        )
    text = (plan if head is None else rest).decode("ascii", "replace")
    lines = [STEP.fullmatch(line) for line in text.split("\n")[:-1]]
    steps = [(line[1], line[2]) for line in lines if line is not None]
    if head is not None:
        steps = [(action, unquote(name, errors="surrogateescape")) for action, name in steps]
    put = {name for action, name in steps if action == PUT}
    is_whole = text.endswith("\n") and None not in lines and (head is None or crc32(rest) == int(head[2], 16))
    is_of_journal = all(name in names or name + REPAIRED in names for name in put) and all(
        name.removesuffix(REPAIRED) in put for name in names if name.endswith(REPAIRED)
    )
    if not (is_whole and is_of_journal):
        raise StoreError(f"{PLAN_NAME} is damaged, and nothing was changed: {WAY_BACK}")
    return steps


def _copy(source: Disk, file: PatchedFile, target: Disk, name: str) -> None:
    """Write the contents of ``file`` and sync the copy. Unreadable bytes become zeros."""
    target.resize(name, file.size)
    for offset in range(0, file.size, MAX_PART_BYTES):
        target.write(name, offset, [file.read(source, offset, MAX_PART_BYTES)])
    target.sync(name)


def _write(disk: Disk, name: str, data: bytes) -> None:
    disk.resize(name, len(data))
    disk.write(name, 0, [data])
    disk.sync(name)
