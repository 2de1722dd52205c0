"""Keep-alives of asyncio connections whose event loop is busy, from one thread per process.

An idle loop sends keep-alives itself. After two thirds of the negotiated interval without output the thread writes a
keep-alive to the plain socket. With TLS the loop must not be blocked for longer than the interval.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from typing import Final

MIN_WAIT: Final = 0.05  # seconds between two checks; a short negotiated interval must not spin the thread
MAX_WAIT: Final = 10.0  # seconds between two checks; a third of the usual interval


class KeepAliveConnection:
    """Port: a connection that the keep-alive thread looks after."""

    @abstractmethod
    def send_overdue_keep_alive(self, now: float) -> float:
        """Send a keep-alive if one is overdue; called by the thread.

        Returns the next check in monotonic seconds.
        """


class KeepAliveThread:
    """Thread that runs while there are connections, and belongs to the process that started it."""

    def __init__(self) -> None:
        self._process = 0
        self._changed = threading.Condition()
        self._connections: list[KeepAliveConnection] = []
        self._changes = 0
        self._runs = False

    def add(self, connection: KeepAliveConnection) -> None:
        """Watch a connection."""
        if self._process != os.getpid():  # a forked process has no thread, and perhaps a locked lock
            self._process = os.getpid()
            self._changed = threading.Condition()
            self._connections = []
            self._runs = False
        with self._changed:
            self._connections = [*self._connections, connection]
            self._changes += 1
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="spanwire-client-heart", daemon=True).start()
            self._changed.notify_all()

    def remove(self, connection: KeepAliveConnection) -> None:
        """Stop watching a connection."""
        if self._process == os.getpid():
            with self._changed:
                self._connections = [other for other in self._connections if other is not connection]
                self._changes += 1
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            changes = self._changes
            wait = self._send_overdue()  # in a call, because a variable here would keep a closed connection alive
            with self._changed:
                if not self._connections:
                    self._runs = False
                    return
                if self._changes == changes:
                    self._changed.wait(wait)

    def _send_overdue(self) -> float:
        """Look after all connections, and return the seconds to the next look."""
        now = time.monotonic()
        due = now + MAX_WAIT
        for connection in self._connections:
            due = min(due, connection.send_overdue_keep_alive(now))
        return max(MIN_WAIT, due - now)


KEEP_ALIVES: Final = KeepAliveThread()
