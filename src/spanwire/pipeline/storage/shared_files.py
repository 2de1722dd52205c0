"""Port to the files of one directory that several machines reach, such as a prefix of an object store.

The users of this port depend on four properties alone, which S3, GCS, Azure and HDFS have:

- A file that was written completely is seen by every later listing and read.
- A file that was not written completely is not there, or is shorter than it should be.
- Writing a file again with the same content does no harm.
- A removed file is not seen by a later listing.

There is no lock, no renaming and no conditional write.
"""

from __future__ import annotations

import json
import re
import zlib
from typing import BinaryIO, Final, Protocol

from spanwire.model.errors import ConfigurationError, SpanwireError

# The length of the content and its checksum are in the name, so a listing tells which files are complete.
SEALED: Final = re.compile(r"(.+)-([0-9a-f]{1,15})-([0-9a-f]{8})\.json")


class SharedStorageError(SpanwireError):
    """The file system did not do what it was asked; the text names the file and a remedy."""


class SharedFiles(Protocol):
    """Whole files of one directory; every name may have slashes.

    All methods raise `SharedStorageError` if the file system refuses or does not answer.
    """

    def address(self, name: str = "") -> str:
        """Return the address of a file or of the directory for an error, without credentials."""
        ...

    def sizes(self) -> dict[str, int]:
        """Return the names and sizes of the files of the directory, without those of directories inside."""
        ...

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return a file or a range of it, which is shorter than ``length`` where the file ends.

        Raises:
            FileNotFoundError: there is no such file.
        """
        ...

    def write(self, name: str, content: BinaryIO) -> None:
        """Write a file; it survives a crash of every machine from then on."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        ...


def seal(stem: str, value: object) -> tuple[str, bytes]:
    """Return the name and the content of a small file which readers know to be complete."""
    content = json.dumps(value).encode()
    return f"{stem}-{len(content):x}-{zlib.crc32(content):08x}.json", content


def stem_of(name: str, size: int) -> str | None:
    """Return the stem of a sealed file, or ``None`` if the name is another or the file is incomplete."""
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
    """Check what was read.

    Raises:
        ConfigurationError: it is not what was written.
    """
    if len(content) != length or zlib.crc32(content) != checksum:
        raise ConfigurationError(
            f"spanwire: {files.address(name)} is damaged: it is not what was written there. It holds messages that "
            "the broker no longer has, so restore the file from a copy or an older version of it"
        )
