"""Thread that calls the listener of a blocking consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable

from spanwire.client.messages.message import Message

Listener = Callable[[Message], object]
Receive = Callable[[], Message | None]


class ListenerThread:
    """A daemon thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self, run: Callable[[], None]) -> None:
        """Run a function in the thread."""
        self._thread = threading.Thread(target=run, name="spanwire-client-listener", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """True in code that the thread itself runs."""
        return threading.current_thread() is self._thread

    def join(self) -> None:
        """Wait until the function has returned."""
        assert self._thread is not None
        self._thread.join()


def call_listener(listener: Listener, message: Message) -> None:
    """Call a listener with a message."""
    listener(message)
