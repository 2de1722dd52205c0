"""Views that read Arrow's columns of texts and octets in place, without an object per value.

    values     all octets, one value behind the other
    ends       32-bit little-endian numbers: the start of each value and the end of the last, rows + 1 in all
    validity   a bit for each row that has a value, the lowest of an octet first

(Apache Arrow Columnar Format, Variable-size Binary Layout and Validity bitmaps.) `spanwire.pipeline.arrow.rows` cuts
the buffers; this module does not import Arrow.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

END_OCTETS: Final = 4
BITS: Final = 8
NUL: Final = b"\x00"


class Nulls:
    """The validity bitmap of a column."""

    def __init__(self, validity: bytes, first: int) -> None:
        """Use ``first`` as the bit of the first row."""
        self._validity: Final[bytes] = validity
        self._first: Final[i64] = first

    def is_null(self, row: i64) -> bool:
        """Return True if the row has no value."""
        bit = self._first + row
        octet: int = self._validity[bit // BITS]
        return octet >> (bit % BITS) & 1 == 0


class ColumnView:
    """A column of texts or octets, or the ends of each row's entries in a map column."""

    def __init__(self, ends: bytes, octets: bytes, nulls: Nulls | None = None) -> None:
        """Use the first number of ``ends`` as the position at which ``octets`` begins."""
        self.ends: Final[bytes] = ends
        self.octets: Final[bytes] = octets
        self.nulls: Final[Nulls | None] = nulls
        self.first: Final[int] = int(read_i32_le(ends, 0))

    def start_of(self, row: i64) -> i64:
        """Return the offset at which the value of ``row`` begins and the previous value ends."""
        end: int = read_i32_le(self.ends, END_OCTETS * row)
        return end - self.first

    def at(self, row: i64) -> bytes:
        """Return the value of a row; empty for null."""
        return self.octets[self.start_of(row) : self.start_of(row + 1)]

    def is_null(self, row: i64) -> bool:
        """Return True if the row has no value."""
        nulls = self.nulls
        return nulls is not None and nulls.is_null(row)


def is_plain_text(octets: bytes) -> bool:
    """Return True if a text has the same octets in UTF-8 and in Java's modified UTF-8."""
    return octets.isascii() and NUL not in octets
