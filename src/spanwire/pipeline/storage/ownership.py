"""Ownership of a staging directory on shared storage without locks.

    epoch-0000000007-1f3c9a20.owner                 claim: machine and process of the owner
    epoch-0000000007-1f3c9a20-5e-a1b2c3d4.json      record: the source, and the segments taken over from earlier epochs
    segment-0000000012-0000000007-1f3c9a20.arrow    messages; the name has the epoch of the receiving owner
    segment-0000000012-….-4d-0f1e2d3c.json          index: the segment is complete

Each receiving process begins an epoch. The process with the highest epoch owns the directory.

| step of an owner | reason |
|---|---|
| 1. write the claim | from here on every earlier owner sees the claim before the next acknowledgement |
| 2. list | the listing has every segment acknowledged by an earlier owner |
| 3. write the record | from here on only the segments of the record and of this epoch count |
| 4. write a segment, then the index | the index makes the segment complete |
| 5. list; stop if there is a later claim | without a later claim, every later owner will list the new segment |
| 6. acknowledge | |

An earlier owner may complete a segment after step 2. The earlier owner then stops in step 5 and never acknowledges the
segment. The segment is in no record and does not count, so the broker delivers the messages to the new owner.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.storage.shared_files import SharedFiles, read_sealed, stem_of
from spanwire.pipeline.storage.state_format import DAMAGED, check_format

EPOCH: Final = r"\d{10}-[0-9a-f]{8}"
CLAIM_NAME: Final = re.compile(rf"epoch-({EPOCH})\.owner")
RECORD_STEM: Final = re.compile(rf"epoch-({EPOCH})")
SEGMENT_STEM: Final = re.compile(rf"segment-(\d{{10,}})-({EPOCH})")
ANY_NAME: Final = re.compile(rf"(?:epoch|segment-\d{{10,}})-({EPOCH})[-.].*")
MAX_LOOKS: Final = 5  # listings; a new owner may replace the record between listing and reading
OWNER_LENGTH: Final = 200  # characters of an owner's name in an error


@dataclass(frozen=True, slots=True)
class View:
    """The valid segments of a listing.

    Attributes:
        epoch: the epoch of the newest record, empty without a record.
        source: the destination and the selector of the segments.
        segments: the name of the index of each segment, by segment number.
    """

    epoch: str
    source: Mapping[str, object]
    segments: Mapping[int, str]


def next_epoch(sizes: Mapping[str, int], run: str) -> str:
    """Return an epoch above all epochs of a listing."""
    newest = max((int(match[1][:10]) for name in sizes if (match := CLAIM_NAME.fullmatch(name))), default=0)
    return f"{newest + 1:010}-{run}"


def claim_name(epoch: str) -> str:
    """Return the name of a claim."""
    return f"epoch-{epoch}.owner"


def record_stem(epoch: str) -> str:
    """Return the stem of the name of a record."""
    return f"epoch-{epoch}"


def segment_stem(number: int, epoch: str) -> str:
    """Return the common beginning of the names of a segment and of the index."""
    return f"segment-{number:010}-{epoch}"


def stem_of_index(index_name: str) -> str:
    """Return the common beginning of the file names of a segment, from the name of the index."""
    match = SEGMENT_STEM.match(index_name)
    assert match is not None
    return match[0]


def epoch_of(name: str) -> str | None:
    """Return the epoch in the name of any file of a staging directory, or ``None``."""
    match = ANY_NAME.fullmatch(name)
    return None if match is None else match[1]


def later_claim(sizes: Mapping[str, int], epoch: str) -> str | None:
    """Return the newest claim above an epoch.

    Returns:
        ``None`` if there is no later claim, an empty string if also the claim of the epoch is missing.
    """
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
    """Return the valid segments by the newest record below ``epoch``, and the listing.

    Without ``epoch``, the newest record of all decides.

    Raises:
        ConfigurationError: a record is damaged or of a newer version, or several queries keep replacing the record.
        SharedStorageError: the file system refuses.
    """
    for _ in range(MAX_LOOKS):
        sizes = files.sizes()
        try:
            return view_in(files, sizes, epoch), sizes
        except FileNotFoundError:  # a new owner has replaced the record
            continue
    raise ConfigurationError(f"spanwire: several queries take over {files.address()} again and again; start one only")


def view_in(files: SharedFiles, sizes: Mapping[str, int], epoch: str | None) -> View:
    """Return the valid segments of a listing; see `view_below`.

    Raises:
        FileNotFoundError: a new owner has replaced the record after the listing.
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
    source, adopted = _content(read_sealed(files, records[newest]), files.address(records[newest]))
    segments = {number: name for name, (number, owner) in indexes.items() if owner == newest or name in adopted}
    return View(newest, source, segments)


def _content(record: object, where: str) -> tuple[dict[str, object], set[str]]:
    """Return the source and the segments in a record, whose checksum holds.

    Raises:
        ConfigurationError: a newer version has written the record.
    """
    try:
        assert isinstance(record, dict)
        source = dict(record["source"].items())
        check_format(source, where)
        return source, set(record["segments"])
    except (*DAMAGED, AssertionError):
        raise ConfigurationError(
            f"spanwire: {where} was written by a later version of Spanwire; use that one"
        ) from None
