"""An embedded broker with its own thread and event loop, for programs without one or with several.

    thread = BrokerThread(EmbeddedBroker(configuration))
    thread.start(); thread.call(lambda broker: broker.uris()); thread.stop()

The thread is a daemon. If a program ends without `stop`, the broker is stopped in order at the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from spanwire.model.errors import IllegalStateError, SpanwireError
from spanwire.service.embedding.embedded_broker import EmbeddedBroker
from spanwire.transports.vm import VmClient

logger = logging.getLogger(__name__)

START_TIMEOUT: Final = 60.0  # seconds; a start recovers a journal, which can be large
STOP_TIMEOUT: Final = 30.0  # seconds; a stop closes sockets and writes the journal
CALL_TIMEOUT: Final = 30.0  # seconds for a call into the broker's loop

T = TypeVar("T")


class BrokerThread:
    """Runs a broker; call `start` and `stop` once each, from any other thread.

    After a fork every call raises `IllegalStateError`.
    """

    def __init__(self, broker: EmbeddedBroker) -> None:
        self.broker: Final = broker
        self._thread: Final = threading.Thread(target=self._run, name=f"spanwire-{self.broker.name}", daemon=True)
        self._started: Final = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """Start the broker and wait until clients can connect; raises the errors of `EmbeddedBroker.start`.

        With ``startAsync`` in the configuration the call returns at once, also while the broker waits for its store,
        and errors of the start are logged.
        """
        self._thread.start()
        if self.broker.service.configuration.start_async:
            atexit.register(self._at_exit)
            return
        if not self._started.wait(START_TIMEOUT):
            loop = self._loop
            if loop is not None:
                loop.call_soon_threadsafe(self.broker.service.request_stop)  # a waiting standby must not start later
            raise SpanwireError(f"broker {self.broker.name} has not started after {START_TIMEOUT:g} s")
        if self._error is not None:
            self._thread.join(STOP_TIMEOUT)
            raise self._error
        atexit.register(self._at_exit)

    def call(self, action: Callable[[EmbeddedBroker], T], timeout: float = CALL_TIMEOUT) -> T:
        """Call ``action`` in the broker's loop and return the result."""

        async def called(broker: EmbeddedBroker) -> T:
            return action(broker)

        return self.run(called, timeout)

    def run(self, action: Callable[[EmbeddedBroker], Awaitable[T]], timeout: float = CALL_TIMEOUT) -> T:
        """Await ``action`` in the broker's loop and return the result.

        Raises:
            IllegalStateError: the broker does not run.
            SpanwireError: the call takes longer than ``timeout`` seconds.
        """
        self.broker.check_process()
        loop = self._loop
        if loop is None or not self._thread.is_alive():
            raise IllegalStateError(f"broker {self.broker.name} does not run")

        async def awaited() -> T:
            return await action(self.broker)

        coroutine = awaited()
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        except RuntimeError as error:
            coroutine.close()
            raise IllegalStateError(f"broker {self.broker.name} does not run") from error
        try:
            return future.result(timeout)
        except TimeoutError as error:
            future.cancel()
            raise SpanwireError(f"broker {self.broker.name} has not answered within {timeout:g} s") from error

    def stop(self) -> None:
        """Stop the broker and wait for the thread; may be called twice.

        Raises:
            SpanwireError: the stop takes longer than `STOP_TIMEOUT`.
            StoreError: the journal could not be written.
        """
        self.broker.check_process()
        atexit.unregister(self._at_exit)
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(self.broker.service.request_stop)
            except RuntimeError:
                logger.debug("the loop of broker %s has ended already", self.broker.name)
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT)
        if self._thread.is_alive():
            raise SpanwireError(f"broker {self.broker.name} has not stopped after {STOP_TIMEOUT:g} s")
        failure, self.broker.service.failure = self.broker.service.failure, None
        if failure is not None:
            raise failure

    def _at_exit(self) -> None:
        """Stop the broker if the program ends without `stop`; a forked child has no broker to stop."""
        if self._thread.is_alive():
            self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            is_starting = not self._started.is_set()
            if is_starting and not self.broker.service.configuration.start_async:
                self._error = error
            elif is_starting and isinstance(error, SpanwireError):
                logger.warning("broker %s cannot start: %s", self.broker.name, error)
            else:
                logger.exception("broker %s ended unexpectedly", self.broker.name)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self.broker.start()
        self._started.set()
        await self.broker.service.finished()
        await self.broker.stop()


class TransientBroker:
    """The thread of a broker created by a `vm:` URL; stops after the last client of the process.

    ``late`` receives the clients that arrive during the stop.
    """

    def __init__(self, broker: EmbeddedBroker, late: Callable[[VmClient], None]) -> None:
        self._broker: Final = broker
        self._late: Final = late
        self._thread: Final = threading.Thread(target=self._run, name=f"spanwire-{broker.name}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start the broker without waiting; the clients learn of a failure."""
        self._thread.start()

    def _run(self) -> None:
        atexit.register(self._stop)
        try:
            asyncio.run(self._serve())
        except SpanwireError as error:
            logger.warning("broker %s cannot start: %s", self._broker.name, error)
        except Exception:
            logger.exception("broker %s ended unexpectedly", self._broker.name)
        finally:
            atexit.unregister(self._stop)

    async def _serve(self) -> None:
        broker, loop = self._broker, asyncio.get_running_loop()
        self._loop = loop
        broker.on_empty(lambda: loop.call_soon(self._stop_if_unused))
        await broker.start()
        loop.call_soon(self._stop_if_unused)
        await broker.service.finished()
        for client in await broker.close():
            self._late(client)

    def _stop_if_unused(self) -> None:
        if self._broker.close_if_unused():
            self._broker.service.request_stop()

    def _stop(self) -> None:
        loop = self._loop
        if loop is None or not self._thread.is_alive():
            return
        try:
            loop.call_soon_threadsafe(self._broker.service.request_stop)
        except RuntimeError:
            return
        self._thread.join(STOP_TIMEOUT)
