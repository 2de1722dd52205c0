"""The end of every turn of the event loop: output is written once, then the journal gets its batch.

Sockets with input, and connections with dispatched messages, are flushed together. Output comes first and the journal
second, so a client without need of the disk does not wait for the disk. The broker's timers fire exactly; the timers of
connections are checked every `SWEEP_INTERVAL`.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.model.environment import Time
from spanwire.transports.admission import ReceiveBudget
from spanwire.transports.base import (
    FLUSH_ROUNDS,
    MAX_FLUSHES,
    SWEEP_BUDGET,
    SWEEP_INTERVAL,
    SWEEP_SLICE,
    Clock,
    EventLoop,
    Flushable,
    Timer,
    TurnBroker,
    TurnStore,
)
from spanwire.transports.loop.polling import Polling
from spanwire.transports.rationing import Rationing

logger = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE: Final = 1.0  # seconds without the broker's timers after an unexpected error of one


class Turn:
    """Knows the sockets to flush and the time of the next timer. One per broker, in the loop's thread."""

    def __init__(
        self,
        loop: EventLoop,
        broker: TurnBroker,
        clock: Clock,
        store: TurnStore | None = None,
        budget: ReceiveBudget | None = None,
        polling: Polling | None = None,
    ) -> None:
        self.clock: Final = clock
        self.loop: Final = loop
        self.budget: Final = budget if budget is not None else ReceiveBudget(0)
        self._broker: Final = broker
        self._store: Final = store
        self._sockets: Final[dict[object, Flushable]] = {}
        self._rationing: Final = Rationing(self.budget, self._sockets)
        self._touched: list[Flushable] = []
        self._scheduled = False
        self._timer: Timer | None = None
        self._timer_due = 0.0
        self._paused_until = 0.0
        self._was_behind = False  # the disk, at the end of the last turn
        self._is_in_store = False
        self._is_reported = False  # by the store, in its turn
        self._sweep_timer: Timer | None = None
        self._stopped = False
        self._polling: Final = polling
        self._is_polling = False
        self._flushed = 0  # sockets in this turn

    def start(self) -> None:
        """Start the timers."""
        self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL, self._sweep)
        self.wake()

    def stop(self) -> None:
        """Cancel all timers; flush no more."""
        self._stopped = True
        for timer in (self._timer, self._sweep_timer):
            if timer is not None:
                timer.cancel()

    def attach(self, connection: object, socket: Flushable) -> None:
        """Register ``socket`` as the socket of ``connection``."""
        self._sockets[connection] = socket

    def detach(self, connection: object) -> None:
        """Forget the socket of ``connection`` and the pending bytes of the connection."""
        self._rationing.update_pending(connection, 0, self.clock.now())
        self._sockets.pop(connection, None)

    @property
    def connection_count(self) -> int:
        """The number of open sockets."""
        return len(self._sockets)

    def touch(self, socket: Flushable) -> None:
        """Flush ``socket`` at the end of this turn."""
        if not socket.touched:
            socket.touched = True
            self._touched.append(socket)
        self.wake()

    def touch_connection(self, connection: object) -> None:
        """Flush the socket of ``connection``, if it is open, at the end of this turn."""
        socket = self._sockets.get(connection)
        if socket is not None:
            self.touch(socket)

    def awaits_login(self, connection: object) -> bool:
        """Return True if requests of ``connection`` wait for a login, so that their turn has not come."""
        return self._broker.awaits_login(connection)

    def time_moved(self) -> None:
        """Treat every peer as heard from just now, and run due timers, because the clock was set forward."""
        for socket in list(self._sockets.values()):
            socket.note_activity()
        if self._timer is not None:
            self._timer.cancel()
        self._run()

    def wake(self) -> None:
        """End this turn with a flush, because the broker has work."""
        if self._is_in_store:
            self._is_reported = True
        elif not self._scheduled and not self._stopped:
            self._scheduled = True
            self.loop.call_soon(self._end)

    def update_pending(self, connection: object, pending_bytes: int, now: Time) -> None:
        """Note the bytes of ``connection``'s incomplete frame; above the receive budget others are throttled."""
        self._rationing.update_pending(connection, pending_bytes, now)

    def give_up_all(self, reason: str) -> None:
        """Close every socket at once."""
        now = self.clock.now()
        for socket in list(self._sockets.values()):
            socket.give_up(reason, now)

    def stop_reading(self) -> None:
        """Drop all further input of all peers; output is still written."""
        for socket in list(self._sockets.values()):
            socket.stop_reading()

    def close_all(self) -> None:
        """Close every socket after its remaining output is written."""
        now = self.clock.now()
        for socket in list(self._sockets.values()):
            socket.close(now)

    def _end(self) -> None:
        self._scheduled = False
        if self._stopped:
            return
        now = self.clock.now()
        active = len(self._touched)
        self._flushed = 0
        self._flush(now)
        store = self._store
        if store is not None:
            if self._ends_in_store(store, active, now):
                self._flush(now)  # the answers to what the store has written just now
                store.turn(now.monotonic, 0)
            is_behind = self._broker.is_behind()
            if is_behind or self._was_behind:
                self._was_behind = is_behind
                self._rationing.set_disk_behind(is_behind, now)
        self._arm(now)
        if active and self._polling is not None and self._polling.begins(now.monotonic, self._flushed):
            if not self._is_polling:
                self._is_polling = True
                self.loop.call_soon(self._poll)

    def _poll(self) -> None:
        """Keep the loop awake: with a callback due it looks for input, but does not sleep."""
        if self._polling is not None and not self._stopped and self._polling.goes_on(self.clock.now().monotonic):
            self.loop.call_soon(self._poll)
        else:
            self._is_polling = False

    def _ends_in_store(self, store: TurnStore, active: int, now: Time) -> bool:
        """Give the store its turn.

        Returns True if a report of the store needs the end of a turn.
        """
        self._is_in_store = True
        self._is_reported = False
        try:
            store.turn(now.monotonic, active)
        finally:
            self._is_in_store = False
        return self._is_reported

    def _flush(self, now: Time) -> None:
        left = MAX_FLUSHES
        for _ in range(FLUSH_ROUNDS):
            touched = self._touched
            for connection in self._broker.take_dirty():
                attached = self._sockets.get(connection)
                if attached is not None and not attached.touched:  # one flush for a socket with input and output
                    attached.touched = True
                    touched.append(attached)
            if not touched:
                return
            self._touched = touched[left:]  # of too many sockets for one turn the oldest are flushed
            del touched[left:]
            left -= len(touched)
            self._flushed += len(touched)
            for socket in touched:
                socket.touched = False
                socket.flush(now)
            if left <= 0:
                break
        self.wake()

    def _arm(self, now: Time) -> None:
        due = self._broker.next_timeout()
        if due is not None and due < self._paused_until:
            due = self._paused_until
        deadline = None if self._store is None else self._store.next_deadline()
        if due is None or (deadline is not None and deadline < due):
            due = deadline
        if due is None:
            return
        if self._timer is not None:
            if self._timer_due <= due:
                return  # the timer fires early enough and is set anew then
            self._timer.cancel()
        self._timer_due = due
        self._timer = self.loop.call_later(max(0.0, due - now.monotonic), self._run)

    def _run(self) -> None:
        self._timer = None
        now = self.clock.now()
        due = self._broker.next_timeout()
        if due is not None and max(due, self._paused_until) <= now.monotonic:
            try:
                self._broker.run(now)
            except Exception:
                logger.exception("the broker's timers failed; they run again in %s s", PAUSE_AFTER_FAILURE)
                self._paused_until = now.monotonic + PAUSE_AFTER_FAILURE
        self.wake()

    def _sweep(self) -> None:
        self._sweep_timer = self.loop.call_later(SWEEP_INTERVAL, self._sweep)
        self._rationing.check_progress(self.clock.now())
        self._sweep_some(list(self._sockets.values()), 0)

    def _sweep_some(self, sockets: list[Flushable], start: int) -> None:
        """Sweep sockets for `SWEEP_BUDGET`, then let other callbacks run.

        Thousands of connections may miss one deadline together, and closing them all takes long.
        """
        now = self.clock.now()
        end = now.monotonic + SWEEP_BUDGET
        while start < len(sockets) and now.monotonic < end:
            for socket in sockets[start : start + SWEEP_SLICE]:
                socket.sweep(now)
            start += SWEEP_SLICE
            now = self.clock.now()
        if start < len(sockets):
            self.loop.call_soon(lambda: self._sweep_some(sockets, start))
