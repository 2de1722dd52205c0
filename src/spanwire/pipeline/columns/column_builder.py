"""Columns in the making, laid out as Arrow has them: little-endian numbers one after the other, texts and octets end to
end with a list of where each ends, and a bit for each row that has a value.

Nothing of Arrow is known here but that layout (Apache Arrow Columnar Format, Physical Memory Layout);
`spanwire.pipeline.arrow.record_batch` hands the octets over to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from spanwire.model.errors import MessageFormatError

NO_OCTETS: Final = b""
BITS: Final = 8
MAX_COLUMN_OCTETS: Final[i64] = 2147483647  # of the values of a column: their ends are 32-bit numbers
MAX_MICROS_MS: Final[i64] = 9223372036854775  # the last millisecond that microseconds can say: 2**63 - 1 of them


class OctetColumn:
    """Texts or octets of some rows, in order; a row that nobody mentions has none, and costs nothing."""

    def __init__(self) -> None:
        self.parts: Final[list[bytes]] = []
        self.nulls: Final[list[int]] = []
        self._ends: Final = BytesWriter()
        self._size: i64 = 0
        self._rows = 0
        write_i32_le(self._ends, 0)

    def put(self, row: int, octets: bytes) -> None:
        """The value of ``row``, which is behind all that have one. Raises `MessageFormatError` when the column gets too
        large; nothing is added then.
        """
        size: i64 = end_of(self._size + len(octets))
        if self._rows < row:
            self.fill(row)
        self._rows = row + 1
        self._size = size
        self.parts.append(octets)
        write_i32_le(self._ends, i32(size))

    def fill(self, rows: int) -> None:
        """There are so many rows."""
        for row in range(self._rows, rows):
            self.nulls.append(row)
            write_i32_le(self._ends, i32(self._size))
        self._rows = max(self._rows, rows)

    def ends(self) -> bytes:
        """32-bit numbers: 0, and where the value of each row ends."""
        return self._ends.getvalue()

    def octets(self) -> bytes:
        """All values, end to end."""
        return NO_OCTETS.join(self.parts)


def end_of(size: i64) -> i64:
    """Where a value ends. Raises `MessageFormatError` when a column cannot be so large."""
    if size > MAX_COLUMN_OCTETS:
        raise MessageFormatError("the messages of one part of a batch have more than 2 GiB in one column")
    return size


def text_column(texts: Sequence[str | None]) -> OctetColumn:
    """A column of texts, one for each row."""
    column = OctetColumn()
    for row in range(len(texts)):
        text = texts[row]
        if text is not None:
            column.put(row, text.encode("utf-8", "replace"))
    return column


class TimeColumn:
    """Times in microseconds since 1970, given in milliseconds; 0 stands for none."""

    def __init__(self) -> None:
        self.nulls: Final[list[int]] = []
        self._numbers: Final = BytesWriter()

    def put(self, row: int, millis: i64) -> None:
        """The time of the next row. What microseconds cannot say becomes the last time that they can."""
        if millis == 0:
            self.nulls.append(row)
        elif millis > MAX_MICROS_MS:
            millis = MAX_MICROS_MS
        elif millis < -MAX_MICROS_MS:
            millis = -MAX_MICROS_MS
        write_i64_le(self._numbers, millis * 1000)

    def octets(self) -> bytes:
        """64-bit numbers."""
        return self._numbers.getvalue()


def valid_bits(nulls: list[int], rows: int) -> bytes | None:
    """A bit for each row that is not in ``nulls``, the lowest first; None when there are no nulls."""
    if not nulls:
        return None
    bits = bytearray(b"\xff" * ((rows + BITS - 1) // BITS))
    for row in nulls:
        bits[row // BITS] &= ~(1 << row % BITS) & 255
    return bytes(bits)
