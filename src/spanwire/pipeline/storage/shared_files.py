"""Port to the files of one shared directory, such as a prefix of an object store.

The users of this port depend on four properties of S3, GCS, Azure and HDFS:

- Every later listing and every later read sees a completely written file.
- An incompletely written file is missing or too short.
- Writing a file again with the same content does no harm.
- No later listing sees a removed file.

The port has no locks, no renaming and no conditional writes.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import BinaryIO, Final, Protocol

from spanwire.model.errors import ConfigurationError, SpanwireError

# The name has the length and the checksum of the content, so a listing shows which files are complete.
SEALED: Final = re.compile(r"(.+)-([0-9a-f]{1,15})-([0-9a-f]{8})\.json")


class SharedStorageError(SpanwireError):
    """A request to the file system failed; the text names the file and a remedy."""


class SharedFiles(Protocol):
    """Whole files of one directory; every name may have slashes.

    All methods raise `SharedStorageError` if the file system refuses or does not answer.
    """

    def address(self, name: str = "") -> str:
        """Return the address of a file or of the directory for an error, without credentials."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the names and the sizes in bytes of the files in the directory, without subdirectories."""
        ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file, or up to ``length`` bytes of a file from ``offset`` on.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write(self, name: str, content: BinaryIO) -> None:
        """Write a file durably: the file survives a crash of every machine."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; a missing file is not an error."""
        ...


def seal(stem: str, value: object) -> tuple[str, bytes]:
    """Return the name and the content of a sealed file: the name has the length and the checksum."""
    content = json.dumps(value).encode()
    return f"{stem}-{len(content):x}-{zlib.crc32(content):08x}.json", content


def stem_of(name: str, size: int) -> str | None:
    """Return the stem of a sealed file, or ``None`` for another name or an incomplete file."""
    match = SEALED.fullmatch(name)
    return match[1] if match is not None and int(match[2], 16) == size else None


def read_sealed(files: SharedFiles, name: str) -> object:
    """Return the value of a sealed file.

    Raises:
        ConfigurationError: the file is damaged.
        FileNotFoundError: there is no such file.
        SharedStorageError: the file cannot be read.
    """
    content = files.read(name)
    match = SEALED.fullmatch(name)
    assert match is not None
    check_content(files, name, content, int(match[2], 16), int(match[3], 16))
    return json.loads(content)


def check_content(files: SharedFiles, name: str, content: bytes, length: int, checksum: int) -> None:
    """Check the length and the checksum of read octets.

    Raises:
        ConfigurationError: the file is damaged.
    """
    if len(content) != length or zlib.crc32(content) != checksum:
        raise ConfigurationError(
            f"spanwire: {files.address(name)} is damaged: it is not what was written there. It holds messages that "
            "the broker no longer has, so restore the file from a copy or an older version of it"
        )
