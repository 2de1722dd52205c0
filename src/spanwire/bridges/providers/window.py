"""The number of messages that a broker may send ahead of acknowledgements, by the sizes of the messages so far.

A broker counts messages, and the answers that a bridge waits for stand behind messages already sent. So a credit of
1,000 would let 1,000 messages of 100 MiB into memory. A message without room is not kept: it stays unacknowledged at
the broker. The source then takes what it holds, and asks for the rest again with a smaller window.
"""

from __future__ import annotations

from typing import Final

from spanwire.bridges.providers.inbox import MAX_OCTETS

FIRST: Final = 32  # messages of the first window, whose sizes nobody knows
AIM: Final = MAX_OCTETS // 2  # octets of a full window by the mean size; a batch of a bridge is full at half of that
# Messages of a window for a broker that has exceeded one. Mosquitto 2.0.11 answers each PUBACK with up to a window of
# messages less one, so two are the largest window that it keeps to.
IGNORED: Final = 2
SAMPLES: Final = 4  # windows of messages before a larger window opens, because the broker sends messages again for it


class Window:
    """Counts the messages of one source without an acknowledgement.

    A closed window keeps no further message. The next window opens when the source holds no message any more, so
    messages stay in order, and no message is received twice.
    """

    def __init__(self, credit: int, first: int | None = None, is_fixed: bool = False) -> None:
        """Open the first window. It is as large as the credit of the bridge, or has at most ``first`` messages.

        A fixed window keeps its size, and all messages: their broker would not send them again.
        """
        self.size = credit if first is None else min(credit, first)
        self.held = 0  # kept messages without an acknowledgement
        self.is_closed = False
        self._credit: Final[int] = credit
        self._is_fixed: Final[bool] = is_fixed
        self._overflowed = False
        self._is_ignored = False  # the broker sends more than it was asked for
        self._sent = 0  # messages without an acknowledgement at the broker, kept or not
        self._count = 0  # messages that have come in this window, the latest ones above all
        self._octets = 0  # of these

    def admit(self, octets: int, waiting: int) -> bool:
        """Count a message. Returns False if the window is closed, or closes for want of room in memory.

        ``waiting`` octets are in memory already. A message larger than the room is kept alone.
        """
        if self._count >= 2 * SAMPLES * self.size:  # so that the mean follows the sizes of now
            self._count //= 2
            self._octets //= 2
        self._count += 1
        self._octets += octets
        self._sent += 1
        self._is_ignored = self._is_ignored or self._sent > self.size
        if not self.is_closed and not self._is_fixed and waiting and waiting + octets > MAX_OCTETS:
            self.is_closed = self._overflowed = True
        if self.is_closed:
            return False
        self.held += 1
        return True

    def take(self, count: int, octets: int) -> None:
        """Count messages that are received at once, instead of `admit`: their client keeps what has room."""
        if self._count >= 2 * SAMPLES * self.size:
            self._count //= 2
            self._octets //= 2
        self._count += count
        self._octets += octets
        self.held += count

    def overflow(self) -> None:
        """Close the window, because the client had no room for a message."""
        self.is_closed = self._overflowed = True

    def release(self, count: int) -> None:
        """Count messages whose acknowledgement is written next. The broker may send as many before its answer."""
        self._sent -= count

    def acknowledge(self, count: int) -> None:
        """Count acknowledged messages. Closes the window if a window of twice the size has room in memory."""
        self.held -= count
        is_known = self._count >= SAMPLES * self.size and not self._is_ignored
        if is_known and not self._is_fixed and self._fitting() >= 2 * self.size:
            self.is_closed = True

    def is_exhausted(self, waiting: int) -> bool:
        """Return True if no message comes before an acknowledgement; ``waiting`` messages have come and are untaken."""
        return not waiting and self.held > 0 and (self.is_closed or self.held >= self.size)

    def is_due(self) -> bool:
        """Return True if the next window can open."""
        return self.is_closed and not self.held

    def open_next(self) -> int:
        """Open the next window. Returns its size in messages."""
        fitting = self._fitting()
        self.size = max(1, min(fitting, self.size // 2)) if self._overflowed else fitting
        if self._is_ignored:
            self.size = min(self.size, IGNORED)
        self.is_closed = self._overflowed = False
        self.held = self._sent = self._count = self._octets = 0
        return self.size

    def _fitting(self) -> int:
        return max(1, min(self._credit, AIM * self._count // max(1, self._octets)))
