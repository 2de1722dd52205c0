"""A wire between clients and a broker on which the broker's answers can be lost.

    with AnswerLoss(broker.openwire_port) as wire:
        … clients connect to wire.port …
        wire.lose()                  # what the broker says from now on is read and dropped
        wire.wait_for_lost()         # it has said something
        broker.kill(); broker.start()
        wire.breaks()                # the connections end; the next ones are whole again

Threads with blocking sockets; knows nothing of the protocol.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final, Self

PATIENCE_S: Final = 60.0
READ_BYTES: Final = 64 * 1024


class AnswerLoss:
    """Listens on ``port`` and connects everyone to ``target_port`` of this machine."""

    def __init__(self, target_port: int) -> None:
        self._target_port: Final = target_port
        self._listener: Final = socket.create_server(("127.0.0.1", 0))
        self.port: Final[int] = self._listener.getsockname()[1]
        self._lock: Final = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._losing = False
        self._lost: Final = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.breaks()

    def uri(self) -> str:
        """For clients."""
        return f"tcp://127.0.0.1:{self.port}"

    def lose(self) -> None:
        """From now on nothing of what the broker says arrives."""
        self._lost.clear()
        self._losing = True

    def wait_for_lost(self) -> None:
        """Until something was lost; raises TimeoutError when the broker says nothing."""
        if not self._lost.wait(PATIENCE_S):
            raise TimeoutError("the broker has said nothing that could be lost")

    def breaks(self) -> None:
        """All connections end; what is said on later ones arrives."""
        with self._lock:
            pairs = self._pairs
            self._pairs = []
            self._losing = False
        for pair in pairs:
            for end in pair:
                _close(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(("127.0.0.1", self._target_port))
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._pairs.append((client, broker))
            threading.Thread(target=self._carry, args=(client, broker, False), daemon=True).start()
            threading.Thread(target=self._carry, args=(broker, client, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, from_broker: bool) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                if from_broker and self._losing:
                    self._lost.set()
                else:
                    target.sendall(data)
        if not (from_broker and self._losing):  # a dead broker is no answer either
            _close(target)
        _close(source)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
