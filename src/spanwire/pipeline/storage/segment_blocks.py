"""The content of a segment on shared storage, and the index for reading ranges of the segment.

    segment   schema | record batch | record batch | … | end       an Arrow IPC stream
    index     {"schema": [length, checksum], "batches": [[rows, offset, length, checksum], …]}

The index is written after the segment. A segment without a complete index does not exist.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import BinaryIO, Final, cast

import pyarrow as pa

from spanwire.model.errors import ConfigurationError
from spanwire.pipeline.arrow.segments import with_missing_columns
from spanwire.pipeline.storage.shared_files import SharedFiles, check_content, read_sealed

END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of an Arrow IPC stream


@dataclass(frozen=True, slots=True)
class Block:
    """The octets of one record batch, or of the schema with no rows."""

    rows: int
    offset: int
    length: int
    checksum: int


class SegmentSpool:
    """Collects the record batches of a segment in a local file, so that an upload can be repeated."""

    def __init__(self) -> None:
        self.content: Final[BinaryIO] = cast(BinaryIO, TemporaryFile())
        self._blocks: Final[list[Block]] = []

    def close(self) -> None:
        """Remove the local file."""
        self.content.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Append one record batch.

        Raises:
            OSError: the local disk refuses the data.
        """
        if not self._blocks:
            self._append(0, batch.schema.serialize())
        self._append(batch.num_rows, batch.serialize())

    def finish(self) -> dict[str, object]:
        """Return the index of the complete segment.

        Raises:
            OSError: the local disk refuses the data.
        """
        self.content.write(END)
        self.content.flush()
        schema, *batches = self._blocks
        return {
            "schema": [schema.length, schema.checksum],
            "batches": [[block.rows, block.offset, block.length, block.checksum] for block in batches],
        }

    def _append(self, rows: int, octets: pa.Buffer) -> None:
        offset = self._blocks[-1].offset + self._blocks[-1].length if self._blocks else 0
        self.content.write(octets)
        self._blocks.append(Block(rows, offset, octets.size, zlib.crc32(octets)))


class StoredSegment:
    """A complete segment on shared storage."""

    def __init__(self, files: SharedFiles, name: str, index_name: str) -> None:
        """Read the index.

        Raises:
            ConfigurationError: the index is damaged.
            FileNotFoundError: there is no such segment.
            SharedStorageError: the index cannot be read.
        """
        self._files: Final[SharedFiles] = files
        self._name: Final[str] = name
        index = read_sealed(files, index_name)
        try:
            assert isinstance(index, dict)
            length, checksum = index["schema"]
            self._schema_block: Final = Block(0, 0, int(length), int(checksum))
            self._batches: Final = [Block(*map(int, numbers)) for numbers in index["batches"]]
        except (AssertionError, KeyError, TypeError, ValueError):
            raise ConfigurationError(
                f"spanwire: {files.address(index_name)} was written by a later version of Spanwire; use that version"
            ) from None

    def row_count(self) -> int:
        """Return the number of rows."""
        return sum(block.rows for block in self._batches)

    def rows(self, first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield ``count`` rows from the row ``first`` on, as record batches.

        Raises:
            ConfigurationError: a record batch is damaged.
            FileNotFoundError: the segment was removed.
            SharedStorageError: the segment cannot be read.
        """
        schema = None
        start = 0
        for block in self._batches:
            low, high = max(first - start, 0), min(first + count - start, block.rows)
            start += block.rows
            if low < high:
                if schema is None:
                    schema = pa.ipc.read_schema(pa.py_buffer(self._read(self._schema_block)))
                batch = pa.ipc.read_record_batch(pa.py_buffer(self._read(block)), schema)
                yield with_missing_columns(batch.slice(low, high - low))

    def _read(self, block: Block) -> bytes:
        octets = self._files.read(self._name, block.offset, block.length)
        check_content(self._files, self._name, octets, block.length, block.checksum)
        return octets
