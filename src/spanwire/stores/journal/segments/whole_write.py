"""Completes writes that the operating system accepts only in part. Pure: a `PartWriter` does the I/O.

A write may accept fewer bytes than were passed (POSIX.1-2017, write(); Linux pwritev(2)): at a limit, on a nearly full
disk, or after a signal. The remaining bytes are then written behind the accepted bytes.
"""

from __future__ import annotations

import errno
from typing import Final, Protocol

MAX_PARTS_PER_WRITE: Final = 1024  # IOV_MAX of Linux and macOS
MAX_ZEROS: Final = 1024 * 1024  # bytes of zeros in one write; bounds the size of the constant buffer
_ZEROS: Final = bytes(MAX_ZEROS)


class PartWriter(Protocol):
    """One directory of files, as the operating system writes files."""

    def write_some(self, name: str, offset: int, parts: list[bytes] | list[memoryview]) -> int:
        """Write the beginning of at most `MAX_PARTS_PER_WRITE` parts, one behind the other.

        Returns:
            The number of bytes that the system accepted.

        Raises:
            OSError: the system accepted no byte.
        """
        ...


def write_whole(writer: PartWriter, name: str, offset: int, parts: list[bytes]) -> None:
    """Write all parts one behind the other.

    Raises:
        OSError: the write failed. Any beginning of the parts may be written.
    """
    for first in range(0, len(parts), MAX_PARTS_PER_WRITE):
        group = parts if len(parts) <= MAX_PARTS_PER_WRITE else parts[first : first + MAX_PARTS_PER_WRITE]
        size = 0
        for part in group:
            size += len(part)
        written = writer.write_some(name, offset, group)
        if written < size:
            _write_rest(writer, name, offset, memoryview(b"".join(group)), written)
        offset += size


def _write_rest(writer: PartWriter, name: str, offset: int, data: memoryview, written: int) -> None:
    size = len(data)
    accepted = written
    while written < size:
        if accepted <= 0:
            raise OSError(errno.EIO, "the system takes no more bytes", name)
        accepted = writer.write_some(name, offset + written, [data[written:]])
        written += accepted


def fill(writer: PartWriter, name: str, start: int, end: int) -> None:
    """Write zeros from ``start`` to ``end``.

    Raises:
        OSError: the write failed.
    """
    while start < end:
        zeros = _ZEROS if end - start >= MAX_ZEROS else _ZEROS[: end - start]
        written = writer.write_some(name, start, [zeros])
        if written <= 0:
            raise OSError(errno.EIO, "the system takes no more bytes", name)
        start += written
