"""Keep-alives of asyncio connections while their loop is busy with somebody's code: one small thread for all.

The loop sends keep-alives itself as long as it turns. When nothing has gone out for two thirds of the agreed time, the
thread writes one. It can do so on plain sockets; with TLS a loop must not be blocked for longer than that time.
"""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod
from typing import Final

MIN_WAIT: Final = 0.05  # seconds between two looks, however short the agreed time is
MAX_WAIT: Final = 10.0  # a third of the usual time


class KeepAliveConnection:
    """A connection whose heart beats."""

    @abstractmethod
    def send_overdue_keep_alive(self, now: float) -> float:
        """From the thread: send a keep-alive if one is overdue. When to look again, in monotonic seconds."""


class KeepAliveThread:
    """The thread. It runs while there is a connection, and belongs to the process that made it."""

    def __init__(self) -> None:
        self._process = 0
        self._changed = threading.Condition()
        self._connections: list[KeepAliveConnection] = []
        self._runs = False

    def add(self, connection: KeepAliveConnection) -> None:
        """Look after a connection."""
        if self._process != os.getpid():  # a fork leaves neither the thread nor a lock that can be trusted
            self._process = os.getpid()
            self._changed = threading.Condition()
            self._connections = []
            self._runs = False
        with self._changed:
            self._connections = [*self._connections, connection]
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="spanwire-client-heart", daemon=True).start()
            self._changed.notify_all()

    def remove(self, connection: KeepAliveConnection) -> None:
        """The connection is over."""
        if self._process == os.getpid():
            with self._changed:
                self._connections = [other for other in self._connections if other is not connection]
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            now = time.monotonic()
            due = now + MAX_WAIT
            connections = self._connections
            for connection in connections:
                due = min(due, connection.send_overdue_keep_alive(now))
            with self._changed:
                if not self._connections:
                    self._runs = False
                    return
                if self._connections is connections:
                    self._changed.wait(max(MIN_WAIT, due - now))


KEEP_ALIVES: Final = KeepAliveThread()
