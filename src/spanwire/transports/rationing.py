"""Rationing of the receive budget: chooses the reading sockets when half-received frames fill it.

Above the budget one connection, the *reader*, reads until its frame is complete. The reader is the connection with the
most pending bytes. Other connections with much of a frame are throttled until there is room. So any number of large
messages arrive one after the other, and their memory stays near the budget plus one frame.

A stalled reader is closed, because the others would wait for ever. If very many connections have begun small frames,
the largest are closed. While the disk is behind, no connection completes a large frame.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.environment import Time
from spanwire.transports.admission import ReceiveBudget
from spanwire.transports.base import Flushable

READ_ON_BYTES: Final = (
    64 * 1024
)  # of a frame; below, a connection always reads: logins, acknowledgements, most messages
STALL_SECONDS: Final = 10.0  # in which the reader must receive `STALL_BYTES` or the end of its frame
STALL_BYTES: Final = 1024 * 1024
BEHIND_SECONDS: Final = 10.0  # in which the disk should catch up with the received messages

STALLED: Final = "half-received frames exceed the receive budget and this connection, which held most, sends no more"
TOO_MANY: Final = "half-received frames exceed the receive budget and this connection holds most"


class Rationing:
    """Divides the receive budget among ``sockets``, which the owner keeps up to date."""

    def __init__(
        self, budget: ReceiveBudget, sockets: dict[object, Flushable], read_on_bytes: int = READ_ON_BYTES
    ) -> None:
        self._budget: Final[ReceiveBudget] = budget
        self._sockets: Final[dict[object, Flushable]] = sockets
        self._read_on_bytes: Final[int] = read_on_bytes
        self._throttled: Final[dict[object, None]] = {}
        self._reader: object = None  # the connection that reads over the budget
        self._reader_bytes = 0
        self._reader_since = 0.0
        self._is_behind = False  # the disk
        self._behind_since = 0.0
        self._are_all_throttled = False  # until the disk has caught up

    def update_pending(self, connection: object, pending_bytes: int, now: Time) -> None:
        """Set the bytes of ``connection``'s incomplete frame; 0 for a complete frame or a closed connection.

        A throttled connection can still complete its frame with earlier bytes. It reads again as soon as less than
        `READ_ON_BYTES` are pending.
        """
        budget = self._budget
        before = budget.pending(connection)
        budget.set_pending(connection, pending_bytes)
        if pending_bytes < before and connection is self._reader:
            self._reader = None
        if pending_bytes < self._read_on_bytes and connection in self._throttled:
            self._resume(connection)
        if self._are_all_throttled:
            self._throttle(connection)
            self._end_overrun(now)
        elif budget.is_exceeded():
            self._restrict(connection, now)
        elif self._throttled:
            self._resume_all()

    def set_disk_behind(self, is_behind: bool, now: Time) -> None:
        """Note whether the disk is behind with received messages.

        Meanwhile no connection completes a large frame, because the frame would only wait in memory. A disk still
        behind after `BEHIND_SECONDS` may be full, and acknowledgements that make room may follow such a frame. Then all
        connections read again.
        """
        if is_behind and not self._is_behind:
            self._behind_since = now.monotonic
        self._is_behind = is_behind
        throttles_all = is_behind and now.monotonic - self._behind_since < BEHIND_SECONDS
        if throttles_all == self._are_all_throttled:
            return
        self._are_all_throttled = throttles_all
        reader = self._reader
        if throttles_all:
            for holder in self._budget.holders():
                self._throttle(holder)
            socket = self._sockets.get(reader)
            if socket is not None and reader not in self._throttled:
                self._throttled[reader] = None
                socket.set_throttled(True)
        elif not self._budget.is_exceeded():
            self._resume_all()
        elif reader is not None:
            self._reader_since = now.monotonic
            if reader in self._throttled:
                self._resume(reader)
        elif not self._choose_reader(now):
            self._resume_all()

    def check_progress(self, now: Time) -> None:
        """Replace a stalled reader, and choose a reader if there is none. Called by every sweep.

        A connection paused by the broker may want to read again, so an earlier search without success is repeated.
        """
        self.set_disk_behind(self._is_behind, now)
        if self._are_all_throttled:
            return
        reader = self._reader
        if reader is None:
            if self._throttled:
                self._choose_reader(now)
            return
        pending = self._budget.pending(reader)
        if pending >= self._reader_bytes + STALL_BYTES:
            self._reader_bytes = pending
            self._reader_since = now.monotonic
        elif now.monotonic - self._reader_since >= STALL_SECONDS:
            self._reader_since = now.monotonic
            socket = self._sockets.get(reader)
            if socket is None or socket.wants_read():
                self._reader = None
                self._give_up(reader, STALLED, now)
            else:  # the broker has paused the reader, so another connection may read
                self._reader = None
                if self._choose_reader(now):
                    self._throttle(reader)

    def _restrict(self, connection: object, now: Time) -> None:
        """Choose a reader and throttle the other holders, because the budget is exceeded."""
        if self._reader is None:
            if not self._choose_reader(now):
                return
            for holder in self._budget.holders():
                self._throttle(holder)
        else:
            self._throttle(connection)
        self._end_overrun(now)

    def _end_overrun(self, now: Time) -> None:
        """Close the connections with the most pending bytes while the others far exceed the budget."""
        while self._budget.is_overrun_without(self._reader):
            self._give_up(self._budget.largest(self._reader), TOO_MANY, now)

    def _choose_reader(self, now: Time) -> bool:
        """Choose the connection with the most pending bytes as reader, if the connection wants to read.

        Returns False without such a connection.
        """
        chosen: object = None
        most = 0
        for holder in self._budget.holders():
            socket = self._sockets.get(holder)
            pending = self._budget.pending(holder)
            if pending > most and socket is not None and socket.wants_read():
                chosen = holder
                most = pending
        if chosen is None:
            return False
        self._reader = chosen
        self._reader_bytes = most
        self._reader_since = now.monotonic
        if chosen in self._throttled:
            self._resume(chosen)
        return True

    def _throttle(self, holder: object) -> None:
        """Stop reading from ``holder``, except from the reader and from holders of few bytes."""
        if holder is self._reader or holder in self._throttled or self._budget.pending(holder) < self._read_on_bytes:
            return
        socket = self._sockets.get(holder)
        if socket is not None:
            self._throttled[holder] = None
            socket.set_throttled(True)

    def _resume(self, holder: object) -> None:
        del self._throttled[holder]
        socket = self._sockets.get(holder)
        if socket is not None:
            socket.set_throttled(False)

    def _resume_all(self) -> None:
        self._reader = None
        for holder in list(self._throttled):
            self._resume(holder)

    def _give_up(self, holder: object, reason: str, now: Time) -> None:
        socket = self._sockets.get(holder)
        self.update_pending(holder, 0, now)
        if socket is not None:
            socket.give_up(reason, now)
