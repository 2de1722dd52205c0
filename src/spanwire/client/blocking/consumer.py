"""A message consumer of a blocking session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from spanwire.client.blocking.core_connection import CoreConnection
from spanwire.client.blocking.listener import ErrorListener, ListenerLoop, Turns
from spanwire.client.blocking.listener_thread import Listener
from spanwire.client.messages.message import Message
from spanwire.client.protocol.consumer import ClientConsumer
from spanwire.client.protocol.session import ClientSession
from spanwire.model.errors import IllegalStateError

MAX_BYTES_AT_ONCE: Final = 4 * 1024 * 1024  # of messages of one `receive_many`: they are all in memory


class Consumer:
    """Receives messages; also ``for message in consumer``, which ends when the consumer is closed."""

    def __init__(self, session: ClientSession, core: ClientConsumer, shared: CoreConnection, turns: Turns) -> None:
        self.core: Final = core
        self._session: Final = session
        self._shared: Final = shared
        self._listener_loop: Final = ListenerLoop(shared, core, self.receive, turns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        while not self.core.is_closed:
            try:
                message = self.receive()
            except IllegalStateError:
                if self.core.is_closed:
                    return
                raise
            if message is None:
                return
            yield message

    def receive_no_wait(self) -> Message | None:
        """The next message that is here already; None, too, while the broker takes no acknowledgements."""
        shared = self._shared
        shared.check_process()
        with shared.lock:
            if not shared.wait_written(0.0):
                return None
            message = self.core.next_message(shared.machine.now())
            if message is None and shared.core.failure is None:
                shared.read_available()
                message = self.core.next_message(shared.machine.now())
            shared.write_acknowledgements()
            return message

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next message; None when ``timeout`` seconds are over. Without one it waits as long as it takes."""
        shared = self._shared
        shared.check_process()
        core = self.core
        with shared.lock:
            asked_at = shared.machine.now()
            if not shared.wait_written(timeout):
                return None
            message = core.next_message(asked_at)
            if message is not None:
                shared.write_acknowledgements()
                return message
            end = None if timeout is None else asked_at.monotonic + timeout
            core.begin_receive()
            while not core.is_ended and not core.is_leaving:
                core.prepare_wait()
                core.is_waiting = True  # before the lock may be given away
                until = core.pull_until(end, shared.machine.now())
                shared.flush(until)
                is_over = not shared.wait_for_message(core, until)
                message = core.next_message(shared.machine.now())
                if message is not None or is_over:
                    shared.write_acknowledgements()
                    return message
            return None

    def receive_many(self, max_count: int, timeout: float | None = None) -> list[Message]:
        """What is there, at most ``max_count`` messages and a few MiB: a wait for the first as in `receive`, then one
        lock and some looks at the connection for all that follow. In ``auto`` all are acknowledged with that. Nothing
        is done for a ``max_count`` below 1.
        """
        if max_count < 1:
            return []
        first = self.receive(timeout)
        if first is None:
            return []
        shared, core = self._shared, self.core
        messages = [first]
        room = MAX_BYTES_AT_ONCE - len(first.raw)
        is_all = False
        with shared.lock:
            now = shared.machine.now()
            while core.failure is None and not core.is_closed:
                more = core.next_messages(max_count - len(messages), room, now)
                messages += more
                room -= core.last_batch_bytes
                if len(messages) >= max_count or room <= 0 or shared.is_congested or (is_all and not more):
                    break
                is_all = not more
                shared.read_available()
            shared.write_acknowledgements()
        return messages

    def acknowledge_stored(self, timeout: float | None = None) -> bool:
        """Acknowledge what a consumer that keeps nothing has handed over, and wait until the broker has that on its
        disk. False when there was nothing, or its connection broke before. Raises `JmsError`.
        """
        shared = self._shared
        with shared.ready():
            request = self.core.acknowledge_stored()
            if request is None:
                return False
            shared.answer(request, timeout)
            return True

    def take_next(self, take: Callable[[Message], bool], is_done: Callable[[], bool], end: float | None) -> bool:
        """Hand the next message to ``take``, or wait for one or until ``is_done``. The connection's lock is held.

        ``take`` returns True when another waiting call may be done with the message. Returns False at ``end``, in
        monotonic seconds.
        """
        shared, core = self._shared, self.core
        message = core.next_message(shared.machine.now())
        if message is not None:
            if take(message):
                shared.notify_waiters()
            shared.write_soon()
            return True
        core.is_waiting = True
        return shared.wait(lambda: is_done() or not core.is_waiting, end)

    def listen(self, listener: Listener, on_error: ErrorListener | None = None) -> None:
        """Give each message to ``listener`` in a thread of its own; those of one session take turns.

        In ``auto`` a message is acknowledged when the listener has done its work; what it raises is logged, and the
        message comes again as after a rollback (in ``client`` and ``transacted`` sessions it decides that itself).
        ``on_error`` gets the error that ended it all, if one did. Raises `IllegalStateError` when there is a listener.
        """
        self._shared.check()
        self._listener_loop.start(listener, on_error)

    def stop_listening(self) -> None:
        """No more messages for the listener; what it has it ends."""
        self._listener_loop.stop()

    def close(self) -> None:
        """The consumer leaves; in a transaction with messages of it, at its end."""
        shared = self._shared
        shared.check_process()
        self._listener_loop.stop()
        with shared.lock:
            request = None if shared.core.failure is not None else self._session.close_consumer(self.core)
            if not self.core.closes_with_transaction:
                shared.remove_consumer(self.core)
            shared.answer_close(request)
