"""Puts a damaged store right without deleting anything: what is changed or taken away lies in the quarantine before.

    quarantine/TIME/NAME     the file as it was
    journal/NAME.repaired    the file as it will be, complete and synced
    journal/repair.plan      which of them count; from here on the repair is only ever finished

A process that ends before the plan is there has changed nothing; after that `finish` does the rest, as often as needed.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from spanwire.model.errors import StoreError
from spanwire.stores.disk import FILE_MODE
from spanwire.stores.journal.disk_port import Disk
from spanwire.stores.journal.patches import PatchedFile
from spanwire.stores.journal.salvage import Salvage
from spanwire.stores.journal.segment import SUFFIX

QUARANTINE: Final = "quarantine"
REPAIRED: Final = ".repaired"
PLAN_NAME: Final = "repair.plan"
HALF_PLAN_NAME: Final = "repair.plan.new"
SIDECARS: Final = (".summary",)  # say what a segment holds, and so nothing true once it is changed
MAX_PIECE: Final = 1024 * 1024  # bytes copied at once
DIRECTORY_MODE: Final = 0o700
MAX_SAME_TIME: Final = 100  # repairs of one store in one second


def is_interrupted(journal: Path) -> bool:
    """Whether a repair was decided on and did not end."""
    return (journal / PLAN_NAME).exists()


def finish(journal: Path) -> bool:
    """Ends a repair that was interrupted: what was decided is done, what was not is forgotten. True if one was."""
    found = False
    if is_interrupted(journal):
        _carry_out(journal)
        found = True
    for path in list(journal.iterdir()):
        if path.name.endswith(REPAIRED) or path.name == HALF_PLAN_NAME:
            path.unlink()
    return found


def repair(directory: Path, journal: Path, disk: Disk, salvage: Salvage, time: str) -> Path:
    """Does what ``salvage`` plans for the store in ``journal``; gives the quarantine ``directory``/quarantine/``time``.

    Raises `OSError` and `StoreError`; then the store is as it was.
    """
    changed = sorted(salvage.patched)
    removed = [name for name in sorted(salvage.unused) if name not in salvage.patched]
    for name in changed:
        for sidecar in SIDECARS:
            companion = name.removesuffix(SUFFIX) + sidecar
            if (journal / companion).exists():
                removed.append(companion)
    place = _quarantine(directory / QUARANTINE, time)
    for name in (*changed, *removed):
        if (journal / name).exists():
            _keep(journal / name, place / name)
    _sync(place)
    for name in changed:
        _write(journal / (name + REPAIRED), salvage.patched[name], disk)
    _sync(journal)
    plan = json.dumps({"put": changed, "remove": removed}, indent=1)
    half = journal / HALF_PLAN_NAME
    with half.open("w", encoding="utf-8") as stream:
        stream.write(plan)
        stream.flush()
        os.fsync(stream.fileno())
    half.rename(journal / PLAN_NAME)
    _sync(journal)
    _carry_out(journal)
    return place


def _carry_out(journal: Path) -> None:
    plan = json.loads((journal / PLAN_NAME).read_text(encoding="utf-8"))
    for name in plan["put"]:
        with suppress(FileNotFoundError):  # it was put there before the interruption
            (journal / (name + REPAIRED)).replace(journal / name)
    for name in plan["remove"]:
        (journal / name).unlink(missing_ok=True)
    _sync(journal)
    (journal / PLAN_NAME).unlink()
    _sync(journal)


def _quarantine(parent: Path, time: str) -> Path:
    parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    for number in range(MAX_SAME_TIME):
        place = parent / (time if number == 0 else f"{time}-{number}")
        with suppress(FileExistsError):
            place.mkdir(mode=DIRECTORY_MODE)
            _sync(parent)
            _sync(parent.parent)
            return place
    raise StoreError(f"{parent} holds {MAX_SAME_TIME} repairs of {time} already; move them away")


def _keep(source: Path, target: Path) -> None:
    """The file under another name, too; a copy where a file system knows no links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target)
        target.chmod(FILE_MODE)
        with target.open("rb") as stream:
            os.fsync(stream.fileno())


def _write(path: Path, file: PatchedFile, disk: Disk) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    with os.fdopen(descriptor, "wb") as stream:
        for offset in range(0, file.size, MAX_PIECE):
            stream.write(file.read(disk, offset, MAX_PIECE))
        stream.flush()
        os.fsync(stream.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
