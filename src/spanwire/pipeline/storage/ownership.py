"""Ownership of a staging directory on shared storage, which has no locks.

    epoch-0000000007-1f3c9a20.owner                 claim: who began this epoch
    epoch-0000000007-1f3c9a20-5e-a1b2c3d4.json      record: the source, and the segments taken over from earlier epochs
    segment-0000000012-0000000007-1f3c9a20.arrow    messages; the name has the epoch of the owner that received them
    segment-0000000012-….-4d-0f1e2d3c.json          index: the segment is complete

Each process that receives messages begins an epoch. The highest epoch owns the directory.

| step of an owner | reason |
|---|---|
| 1. write the claim | from here on every earlier owner finds out before it acknowledges anything |
| 2. list | sees every segment that an earlier owner has acknowledged |
| 3. write the record | from here on only the segments of the record and of this epoch count |
| 4. write a segment, then its index | |
| 5. list; stop if there is a later claim | what is acknowledged next was there when any later owner lists |
| 6. acknowledge | |

A segment that an earlier owner completes after step 2 is never acknowledged, because its owner stops in its step 5. It
is in no record, so it does not count, and the broker delivers its messages to the new owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage.shared_files import SharedFiles, read_sealed, stem_of

EPOCH: Final = r"\d{10}-[0-9a-f]{8}"
CLAIM_NAME: Final = re.compile(rf"epoch-({EPOCH})\.owner")
RECORD_STEM: Final = re.compile(rf"epoch-({EPOCH})")
SEGMENT_STEM: Final = re.compile(rf"segment-(\d{{10,}})-({EPOCH})")
ANY_NAME: Final = re.compile(rf"(?:epoch|segment-\d{{10,}})-({EPOCH})[-.].*")
MAX_LOOKS: Final = 5  # listings until a record is read that a new owner has not replaced in between
OWNER_LENGTH: Final = 200  # characters of an owner's name in an error


@dataclass(frozen=True, slots=True)
class View:
    """The segments that count, as index names by number, and their source.

    ``epoch`` is empty without an owner.
    """

    epoch: str
    source: Mapping[str, object]
    segments: Mapping[int, str]


def next_epoch(sizes: Mapping[str, int], run: str) -> str:
    """Return an epoch above all in a listing."""
    newest = max((int(match[1][:10]) for name in sizes if (match := CLAIM_NAME.fullmatch(name))), default=0)
    return f"{newest + 1:010}-{run}"


def claim_name(epoch: str) -> str:
    """Return the name of a claim."""
    return f"epoch-{epoch}.owner"


def record_stem(epoch: str) -> str:
    """Return the stem of the name of a record."""
    return f"epoch-{epoch}"


def segment_stem(number: int, epoch: str) -> str:
    """Return the beginning of the names of a segment and its index."""
    return f"segment-{number:010}-{epoch}"


def stem_of_index(index_name: str) -> str:
    """Return the beginning of the names of the segment with that index."""
    match = SEGMENT_STEM.match(index_name)
    assert match is not None
    return match[0]


def epoch_of(name: str) -> str | None:
    """Return the epoch in the name of any file of a staging directory, or ``None``."""
    match = ANY_NAME.fullmatch(name)
    return None if match is None else match[1]


def later_claim(sizes: Mapping[str, int], epoch: str) -> str | None:
    """Return the newest claim above an epoch, an empty text if the epoch itself is gone, or ``None``."""
    claims = [match[1] for name in sizes if (match := CLAIM_NAME.fullmatch(name))]
    newest = max(claims, default="")
    if newest > epoch:
        return newest
    return None if epoch in claims else ""


def owner_of(files: SharedFiles, epoch: str) -> str:
    """Return the name of the owner of an epoch."""
    try:
        return files.read(claim_name(epoch)).decode(errors="replace")[:OWNER_LENGTH] or "an unnamed one"
    except FileNotFoundError:
        return "one that has been replaced since"


def view_below(files: SharedFiles, epoch: str | None = None) -> tuple[View, dict[str, int]]:
    """Return the segments that count for owners below ``epoch``, or for the present one, and the listing.

    Raises:
        ConfigurationError: a record is damaged.
        SharedStorageError: the file system refuses.
    """
    for _ in range(MAX_LOOKS):
        sizes = files.sizes()
        try:
            return view_in(files, sizes, epoch), sizes
        except FileNotFoundError:  # a new owner has written its record and removed this one
            continue
    raise ConfigurationError(f"spanwire: several queries take over {files.address()} again and again; start one only")


def view_in(files: SharedFiles, sizes: Mapping[str, int], epoch: str | None) -> View:
    """Return the segments that count in a listing; see `view_below`.

    Raises:
        FileNotFoundError: the record has been replaced since.
    """
    records: dict[str, str] = {}
    indexes: dict[str, tuple[int, str]] = {}
    for name, size in sizes.items():
        stem = stem_of(name, size)
        if stem is None:
            continue
        record, segment = RECORD_STEM.fullmatch(stem), SEGMENT_STEM.fullmatch(stem)
        if record is not None and (epoch is None or record[1] < epoch):
            records[record[1]] = name
        elif segment is not None:
            indexes[name] = (int(segment[1]), segment[2])
    if not records:
        return View("", {}, {})
    newest = max(records)
    content = read_sealed(files, records[newest])
    assert isinstance(content, dict)
    adopted = set(content["segments"])
    segments = {number: name for name, (number, owner) in indexes.items() if owner == newest or name in adopted}
    return View(newest, content["source"], segments)
