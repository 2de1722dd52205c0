"""Columns under construction, laid out like Arrow's.

Numbers are little-endian. Texts and octets stand end to end, with a list of their ends and a validity bit per row
(Apache Arrow Columnar Format, Physical Memory Layout). `spanwire.pipeline.arrow.record_batch` hands the octets to
Arrow; this module does not import Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from librt.strings import BytesWriter, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from spanwire.model.errors import MessageFormatError

NO_OCTETS: Final = b""
BITS: Final = 8
MAX_COLUMN_OCTETS: Final[i64] = 2147483647  # values of one column; Arrow stores their ends as 32-bit numbers
MAX_MICROS_MS: Final[i64] = 9223372036854775  # milliseconds; the last time that 64-bit microseconds can represent


class OctetColumn:
    """Texts or octets of consecutive rows; a row without a value costs only its end."""

    def __init__(self) -> None:
        self.parts: Final[list[bytes]] = []
        self.nulls: Final[list[int]] = []
        self._ends: Final = BytesWriter()
        self._size: i64 = 0
        self._rows = 0
        write_i32_le(self._ends, 0)

    def put(self, row: int, octets: bytes) -> None:
        """Set the value of ``row``, which must follow all rows with a value.

        Raises:
            MessageFormatError: the column would exceed `MAX_COLUMN_OCTETS`; nothing is added then.
        """
        size: i64 = end_of(self._size + len(octets))
        if self._rows < row:
            self.fill(row)
        self._rows = row + 1
        self._size = size
        self.parts.append(octets)
        write_i32_le(self._ends, i32(size))

    def fill(self, rows: int) -> None:
        """Add rows without a value up to a total of ``rows``."""
        for row in range(self._rows, rows):
            self.nulls.append(row)
            write_i32_le(self._ends, i32(self._size))
        self._rows = max(self._rows, rows)

    def ends(self) -> bytes:
        """Return 32-bit numbers: 0, then the end of each row's value."""
        return self._ends.getvalue()

    def octets(self) -> bytes:
        """Return all values end to end."""
        return NO_OCTETS.join(self.parts)


def end_of(size: i64) -> i64:
    """Return ``size`` as the end of a value.

    Raises:
        MessageFormatError: a column cannot have so many octets.
    """
    if size > MAX_COLUMN_OCTETS:
        raise MessageFormatError("the messages of one part of a batch have more than 2 GiB in one column")
    return size


def text_column(texts: Sequence[str | None]) -> OctetColumn:
    """Return a column with one text, or null, for each row."""
    column = OctetColumn()
    for row in range(len(texts)):
        text = texts[row]
        if text is not None:
            column.put(row, text.encode("utf-8", "replace"))
    return column


class TimeColumn:
    """Times in microseconds since 1970, added in milliseconds; 0 milliseconds means null."""

    def __init__(self) -> None:
        self.nulls: Final[list[int]] = []
        self._numbers: Final = BytesWriter()

    def put(self, row: int, millis: i64) -> None:
        """Add the time of the next row, clamped to the range of 64-bit microseconds."""
        if millis == 0:
            self.nulls.append(row)
        elif millis > MAX_MICROS_MS:
            millis = MAX_MICROS_MS
        elif millis < -MAX_MICROS_MS:
            millis = -MAX_MICROS_MS
        write_i64_le(self._numbers, millis * 1000)

    def octets(self) -> bytes:
        """Return 64-bit numbers, one per row."""
        return self._numbers.getvalue()


def valid_bits(nulls: list[int], rows: int) -> bytes | None:
    """Return a bitmap with a 1 for each row outside of ``nulls``, lowest bit first, or ``None``."""
    if not nulls:
        return None
    bits = bytearray(b"\xff" * ((rows + BITS - 1) // BITS))
    for row in nulls:
        bits[row // BITS] &= ~(1 << row % BITS) & 255
    return bytes(bits)
