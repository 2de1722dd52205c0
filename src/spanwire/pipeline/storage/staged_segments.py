"""Staged messages in a directory of this machine, or on a file system of PyArrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import pyarrow as pa

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.segments import StagingDirectory, read_rows, row_count
from spanwire.pipeline.storage.arrow_files import open_files
from spanwire.pipeline.storage.location import Location, parse
from spanwire.pipeline.storage.shared_staging import SharedStaging, index_names, stored_rows, stored_segment


class NewSegment(Protocol):
    """Writer of a new segment; without `finish` there is no segment."""

    def __enter__(self) -> Self:
        """Begin to write."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Remove an unfinished segment."""
        ...

    def add(self, batch: pa.RecordBatch) -> None:
        """Append one record batch."""
        ...

    def finish(self) -> None:
        """Write the segment durably."""
        ...


class StagedSegments(Protocol):
    """The segments of one source, for the process that owns the directory."""

    def close(self) -> None:
        """End the use."""
        ...

    def numbers(self) -> list[int]:
        """Return the numbers of the segments in order."""
        ...

    def segment(self, number: int) -> NewSegment:
        """Return a writer for a new segment."""
        ...

    def check_owner(self) -> None:
        """Check that this process still owns the directory, before each acknowledgement and removal."""
        ...

    def settle(self, number: int) -> None:
        """Record the broker's confirmation of an acknowledgement; a lost record does no harm."""
        ...

    def is_settled(self, number: int) -> bool:
        """Return True if the acknowledgement of the segment is recorded as confirmed."""
        ...

    def ids(self, number: int, has_many_sources: bool = False) -> set[str]:
        """Return the message ids of a segment, with destinations if there are several sources."""
        ...

    def discard(self, number: int) -> None:
        """Delete a segment."""
        ...


def open_segments(address: str, source: dict[str, str]) -> StagedSegments:
    """Return the segments of a staging directory, and make this process the owner.

    Raises:
        ConfigurationError: the directory cannot be used or belongs to another source or query.
        SharedStorageError: the file system refuses.
    """
    if isinstance(directory := parse(address), Location):
        return SharedStaging(open_files(address), source)
    return StagingDirectory(directory, source)


def names_below(address: str) -> tuple[list[str], bool]:
    """Return the names of the directories in a staging directory, and True if there are files, too.

    Raises:
        ConfigurationError: the directory cannot be read.
        SharedStorageError: the file system refuses.
    """
    if isinstance(directory := parse(address), Location):
        names = list(open_files(address).all_sizes())
        return sorted({name.partition("/")[0] for name in names if "/" in name}), any("/" not in name for name in names)
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return [], False
    except OSError as error:
        raise ConfigurationError(f"spanwire: stagingDirectory {directory}: {error.strerror}") from None
    return [path.name for path in entries if path.is_dir()], any(path.is_file() for path in entries)


def count_rows(address: str, numbers: list[int]) -> list[tuple[str, int]]:
    """Return the name of each segment for `staged_rows`, and the number of rows.

    Raises:
        ConfigurationError: a segment does not exist.
        SharedStorageError: the file system refuses.
    """
    if isinstance(directory := parse(address), Path):
        return [(str(number), row_count(directory, number)) for number in numbers]
    files = open_files(address)
    return [
        (name, stored_segment(files, name).row_count()) for name in (index_names(files, numbers) if numbers else [])
    ]


def staged_rows(address: str, segment: str, first: int, count: int) -> Iterator[pa.RecordBatch]:
    """Yield ``count`` rows of a segment from the row ``first`` on, as record batches.

    Raises:
        ConfigurationError: the segment does not exist.
        SharedStorageError: the file system refuses.
    """
    if isinstance(directory := parse(address), Path):
        return read_rows(directory, int(segment), first, count)
    return stored_rows(open_files(address), segment, first, count)
