"""Columns of texts and octets as Arrow has them: read in place, without an object for each value.

    values     all octets, one value behind the other
    ends       32-bit little-endian numbers, one more than there are rows: where each value begins and the last one ends
    validity   a bit for each row that has a value, the lowest of an octet first

(Apache Arrow Columnar Format, Variable-size Binary Layout and Validity bitmaps.) Nothing of Arrow is known here but
that; `spanwire.pipeline.arrow.rows` cuts the buffers.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_le
from mypy_extensions import i64

END_OCTETS: Final = 4
BITS: Final = 8
NUL: Final = b"\x00"


class Nulls:
    """Which rows have no value."""

    def __init__(self, validity: bytes, first: int) -> None:
        """``first``: the bit of the first row."""
        self._validity: Final[bytes] = validity
        self._first: Final[i64] = first

    def is_null(self, row: i64) -> bool:
        """Whether this one has none."""
        bit = self._first + row
        octet: int = self._validity[bit // BITS]
        return octet >> (bit % BITS) & 1 == 0


class ColumnView:
    """A column, or what tells where the entries of each row end."""

    def __init__(self, ends: bytes, octets: bytes, nulls: Nulls | None = None) -> None:
        """The first number of ``ends`` stands for the place where ``octets`` begins."""
        self.ends: Final[bytes] = ends
        self.octets: Final[bytes] = octets
        self.nulls: Final[Nulls | None] = nulls
        self.first: Final[int] = int(read_i32_le(ends, 0))

    def start_of(self, row: i64) -> i64:
        """Where the value begins, and where the one before it ends."""
        end: int = read_i32_le(self.ends, END_OCTETS * row)
        return end - self.first

    def at(self, row: i64) -> bytes:
        """The value; no octets for none."""
        return self.octets[self.start_of(row) : self.start_of(row + 1)]

    def is_null(self, row: i64) -> bool:
        """Whether there is none."""
        nulls = self.nulls
        return nulls is not None and nulls.is_null(row)


def is_plain_text(octets: bytes) -> bool:
    """Whether a text is the same in UTF-8 and in Java's modified form of it, octet for character."""
    return octets.isascii() and NUL not in octets
