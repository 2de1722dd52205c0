"""Window of seen sequence numbers: the highest number, and a bit for each of the last numbers.

A window starts with its first number. Lower numbers, and numbers too far below the highest, count as unseen, because a
duplicate message does less harm than a lost message.

The bytes of a window on the disk, little-endian::

    0         1              9               17
    | form 1  | lowest i64   | highest i64   | a bit for the lowest, the one above it, … up to the highest |

The bits are omitted if all are set.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

DEFAULT_DEPTH: Final = 2048  # sequences; failoverProducersAuditDepth of ActiveMQ's KahaDB
MAX_DEPTH: Final = 65_536  # sequences; 8 KiB of bits in each window

_FORM: Final = 1
_HEAD: Final = Struct("<Bqq")
_ALL: Final = 0xFF


class SequenceWindow:
    """A window of ``depth`` numbers. Bits exist only after a gap."""

    __slots__ = ("_bits", "_depth", "_lowest", "highest")

    def __init__(self, first: int, depth: int) -> None:
        self._depth: Final[int] = depth
        self._lowest = first
        self._bits: bytearray | None = None
        self.highest = first

    def add(self, sequence: int) -> None:
        """Mark ``sequence`` as seen. A sequence too far below the highest has no effect."""
        highest = self.highest
        if sequence == highest + 1 and self._bits is None:
            self.highest = sequence
        elif sequence > highest:
            self._rise(sequence)
        elif sequence > highest - self._depth:
            self._add_below(sequence)

    def add_run(self, first: int, last: int) -> None:
        """Mark all numbers from ``first`` to ``last`` as seen. Visits no more numbers than the window has."""
        if first == self.highest + 1 and self._bits is None:
            self.highest = last
            return
        for sequence in range(max(first, last - self._depth + 1), last + 1):
            self.add(sequence)

    def remove(self, sequence: int) -> None:
        """Mark ``sequence`` as unseen."""
        if self.holds(sequence):
            bits = self._bits_now()
            index = sequence % self._depth
            bits[index >> 3] = bits[index >> 3] & (_ALL ^ 1 << (index & 7))

    def holds(self, sequence: int) -> bool:
        """Return True if ``sequence`` is known as seen."""
        if sequence > self.highest or sequence < self.lowest:
            return False
        bits = self._bits
        if bits is None:
            return True
        index = sequence % self._depth
        return bits[index >> 3] >> (index & 7) & 1 != 0

    @property
    def lowest(self) -> int:
        """The lowest number of the window."""
        return max(self._lowest, self.highest - self._depth + 1)

    def encoded(self) -> bytes:
        """Return the bytes for the store, empty if no number is seen."""
        lowest = self.lowest
        seen = self._seen(lowest)
        if seen == 0:
            return b""
        gap = _trailing_zeros(seen)
        seen >>= gap
        count = seen.bit_length()
        head = _HEAD.pack(_FORM, lowest + gap, lowest + gap + count - 1)
        return head if seen == (1 << count) - 1 else head + seen.to_bytes((count + 7) >> 3, "little")

    def _seen(self, lowest: int) -> int:
        """Return the bits as an integer; the lowest bit stands for ``lowest``."""
        every = (1 << self.highest - lowest + 1) - 1
        bits = self._bits
        if bits is None:
            return every
        ring = int.from_bytes(bits, "little")
        turn = lowest % self._depth
        return (ring >> turn | ring << self._depth - turn) & every

    def _rise(self, sequence: int) -> None:
        """Set a new highest number. The skipped numbers are unseen."""
        bits = self._bits_now()
        depth = self._depth
        if sequence - self.highest >= depth:
            self._bits = bytearray(len(bits))
        else:
            for skipped in range(self.highest + 1, sequence):
                index = skipped % depth
                bits[index >> 3] = bits[index >> 3] & (_ALL ^ 1 << (index & 7))
        self.highest = sequence
        self._mark(sequence)

    def _add_below(self, sequence: int) -> None:
        if sequence < self._lowest:
            self._bits_now()
            self._lowest = sequence
        elif self._bits is None:
            return
        self._mark(sequence)

    def _mark(self, sequence: int) -> None:
        bits = self._bits_now()
        index = sequence % self._depth
        bits[index >> 3] = bits[index >> 3] | 1 << (index & 7)

    def _bits_now(self) -> bytearray:
        """Return the bits, created from the plain range on the first call."""
        bits = self._bits
        if bits is None:
            depth = self._depth
            bits = bytearray((depth + 7) >> 3)
            for sequence in range(self.lowest, self.highest + 1):
                index = sequence % depth
                bits[index >> 3] = bits[index >> 3] | 1 << (index & 7)
            self._bits = bits
        return bits


def decoded_window(value: bytes, depth: int) -> SequenceWindow | None:
    """Return the window written by `SequenceWindow.encoded`, limited to ``depth``, or None if invalid."""
    if len(value) < _HEAD.size:
        return None
    form, lowest, highest = _HEAD.unpack_from(value)
    count = highest - lowest + 1
    if form != _FORM or not 0 < count <= MAX_DEPTH:
        return None
    seen = (1 << count) - 1
    if len(value) > _HEAD.size:
        seen &= int.from_bytes(value[_HEAD.size :], "little")
    if count > depth:
        seen >>= count - depth
        lowest += count - depth
    if seen == 0:
        return None
    gap = _trailing_zeros(seen)
    seen >>= gap
    window = SequenceWindow(lowest + gap, depth)
    count = seen.bit_length()
    if seen == (1 << count) - 1:
        window.highest = lowest + gap + count - 1
        return window
    for index in range(1, count):
        if seen >> index & 1:
            window.add(lowest + gap + index)
    return window


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1
