"""Messages that are given to a listener of a blocking consumer, instead of being asked for (JMS 1.1 §4.5.2)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from spanwire.client.blocking.connection import CoreConnection
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.model.errors import IllegalStateError, JmsError

MAX_LOGGED: Final = 10  # failures of one listener; dead letters tell of the rest

Listener = Callable[[Message], object]
ErrorListener = Callable[[JmsError], None]
Receive = Callable[[], Message | None]

logger = logging.getLogger(__name__)


class Turns:
    """The listeners of one session: who has the turn, and who is there."""

    def __init__(self) -> None:
        self.lock: Final = threading.Lock()
        self.listening: Final[set[Listening]] = set()

    def is_mine(self) -> bool:
        """Whether one of the listeners is calling."""
        thread = threading.current_thread()
        return any(listening.thread is thread for listening in list(self.listening))


class Listening:
    """One thread that gives each message to a listener. The listeners of a session take turns."""

    def __init__(self, shared: CoreConnection, core: ClientConsumer, receive: Receive, turns: Turns) -> None:
        self.thread: threading.Thread | None = None
        self._shared: Final = shared
        self._core: Final = core
        self._receive: Final = receive
        self._turns: Final = turns
        self._is_wanted = False
        self._logged = 0

    def start(self, listener: Listener, on_error: ErrorListener | None) -> None:
        """Begin. Raises `IllegalStateError` when there is a listener."""
        if self.thread is not None:
            raise IllegalStateError("the consumer has a listener; stop_listening first")
        self._is_wanted = True
        self._core.is_listening = True
        self._core.is_leaving = False
        self._turns.listening.add(self)
        self.thread = threading.Thread(
            target=self._run, args=(listener, on_error), name="spanwire-client-listener", daemon=True
        )
        self.thread.start()

    def stop(self) -> None:
        """End, when the listener has done its work with the message that it has; called by a listener of the session,
        end after that.
        """
        thread = self.thread
        if thread is None:
            return
        with self._shared.lock:
            self._is_wanted = False
            self._core.is_leaving = True
            self._core.wake()
            self._shared.rouse()
        if not self._turns.is_mine():
            thread.join()
            self._core.is_leaving = False
        self._core.is_listening = False
        self._turns.listening.discard(self)
        self.thread = None

    def _run(self, listener: Listener, on_error: ErrorListener | None) -> None:
        try:
            while self._is_wanted and (message := self._receive()) is not None:
                with self._turns.lock:
                    self._hear(listener, message)
        except IllegalStateError:
            pass  # the consumer or its connection is closed
        except JmsError as error:
            if on_error is None:
                logger.warning("a listener gets no more messages: %s", error)
            else:
                on_error(error)

    def _hear(self, listener: Listener, message: Message) -> None:
        is_done = False
        try:
            if self._is_wanted:
                listener(message)
                is_done = True
        except Exception:
            self._logged += 1
            if self._logged <= MAX_LOGGED:
                logger.exception("a listener failed")
        with self._shared.lock:
            if is_done:
                self._core.listened()
            else:
                self._core.listener_failed(self._shared.machine.now())
            self._shared.wrote()
