"""A broker inside another program, and the table of brokers that `vm:` URLs find by name.

    broker = EmbeddedBroker(configuration)       configure
    await broker.start()                         in the loop of the broker
    await broker.stop()

A name is reserved from `start` until the end of `stop`. Clients wait until the broker is ready.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from spanwire.model.errors import ConfigurationError, IllegalStateError, SpanwireError
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.data_directory import data_directory
from spanwire.service.machine.environment import RealEnvironment
from spanwire.service.service import BrokerService
from spanwire.transports.vm import NOT_RUNNING, STOPPED, VmClient

MAX_WAITING_CLIENTS: Final = 1_000  # clients that wait for the start of one broker; bounds the memory


class EmbeddedBroker:
    """A broker in the loop of its caller; `spanwire.service.embedding.broker_thread` adds threads.

    Without persistence and without a ``directory`` the broker uses no file. After a fork every call raises
    `IllegalStateError`, because the broker belongs to the parent process. If ``shares_name`` is set and another broker
    has the name, the broker gets another ``vm_name``.
    """

    def __init__(
        self,
        configuration: BrokerConfiguration,
        directory: Path | None = None,
        *,
        allow_anonymous: bool = False,
        shares_name: bool = False,
        environment: RealEnvironment | None = None,
    ) -> None:
        data_path = directory
        if configuration.persistence.persistent:
            data_path = data_directory(configuration, directory, os.environ)
        self.name: Final = configuration.broker_name
        self.shares_name: Final = shares_name
        self.vm_name = configuration.broker_name
        self.service: Final = BrokerService(
            configuration, data_path, allow_anonymous=allow_anonymous, environment=environment
        )
        self._process: Final = os.getpid()
        self._lock: Final = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[VmClient] = []
        self._attaching = 0
        self._is_over = False
        self._is_deserted = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def vm_url(self) -> str:
        """Return the URL for clients of this process."""
        return f"vm://{self.vm_name}"

    def uris(self) -> dict[str, str]:
        """Return the address of the first open connector of each scheme."""
        self.check_process()
        uris_by_scheme: dict[str, str] = {}
        for connector in self.service.connectors:
            if connector.is_started:
                uris_by_scheme.setdefault(connector.settings.scheme, connector.uri)
        return uris_by_scheme

    async def start(self) -> None:
        """Reserve the name, bind the ports, recover the store and accept clients.

        After an error all resources are released. Raises the errors of `BrokerService.start` as well.

        Raises:
            ConfigurationError: another broker of this process has the name.
        """
        IN_PROCESS.enter(self)
        try:
            await self.service.start()
        except BaseException as error:
            IN_PROCESS.leave(self)
            reason = str(error).replace("\n", "; ") if isinstance(error, SpanwireError) else NOT_RUNNING
            for client in self._take_waiting():
                client.closed(reason)
            raise
        with self._lock:
            self._loop = asyncio.get_running_loop()
            waiting, self._waiting = self._waiting, []
            self._attaching += len(waiting)
        for client in waiting:
            self._attach(client)

    async def stop(self) -> None:
        """Close all connections, write the journal and release the name; may be called twice."""
        for client in await self.close():
            client.closed(STOPPED)

    async def close(self) -> list[VmClient]:
        """Stop the broker; return the clients of the meantime, for another broker of the same name."""
        self.check_process()
        with self._lock:
            was_over, self._is_over = self._is_over and not self._is_deserted, True
        if was_over:
            return []
        await self.service.stop()
        IN_PROCESS.leave(self)
        return self._take_waiting()

    def accept(self, client: VmClient) -> bool:
        """Connect a client of this process, from any thread, at once or after the broker's start.

        The client learns of a failure.

        Returns:
            False if the broker has stopped, so that the caller looks for another broker.
        """
        with self._lock:
            if self._is_closed:
                return False
            loop = None if self._is_over else self._loop
            if loop is not None:
                self._attaching += 1
            elif len(self._waiting) < MAX_WAITING_CLIENTS:
                self._waiting.append(client)
                return True
        if loop is None:
            client.closed(NOT_RUNNING)
            return True
        try:
            loop.call_soon_threadsafe(self._attach, client)
        except RuntimeError:  # the loop ended without a stop of the broker
            IN_PROCESS.leave(self)
            return False
        return True

    def on_empty(self, action: Callable[[], object]) -> None:
        """Call ``action`` in the broker's loop whenever the last client of this process has disconnected."""
        self.service.in_process.on_empty = action

    def close_if_unused(self) -> bool:
        """Refuse further clients if no client of this process is connected or connecting; return True then."""
        with self._lock:
            if self.service.in_process.connection_count or self._attaching or self._waiting:
                return False
            self._is_over = self._is_deserted = True
            return True

    def check_process(self) -> None:
        """Raise `IllegalStateError` after a fork."""
        if self._process != os.getpid():
            raise IllegalStateError(
                f"broker {self.name} belongs to process {self._process}; start one of its own after a fork"
            )

    def _attach(self, client: VmClient) -> None:
        with self._lock:
            self._attaching -= 1
        client.attach(self.service.in_process)

    def _take_waiting(self) -> list[VmClient]:
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
            return waiting


class InProcessBrokers:
    """The brokers of this process by name; a forked child starts without any."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._process = os.getpid()
        self._brokers: dict[str, EmbeddedBroker] = {}
        self._expected: dict[str, list[VmClient]] = {}

    def enter(self, broker: EmbeddedBroker) -> None:
        """Register a broker by name, and pass the waiting clients to the broker.

        Raises:
            ConfigurationError: another broker has the name.
        """
        with self._lock:
            self._forget_parent()
            if broker.shares_name:
                broker.vm_name = self._free_name(broker)
            if self._brokers.setdefault(broker.vm_name, broker) is not broker:
                raise ConfigurationError(
                    f"a broker named {broker.name} runs in this process already; give one of them another brokerName"
                )
            expected = self._expected.pop(broker.vm_name, [])
        for client in expected:
            broker.accept(client)

    def leave(self, broker: EmbeddedBroker) -> None:
        """Release the name of a broker."""
        with self._lock:
            if self._brokers.get(broker.vm_name) is broker:
                del self._brokers[broker.vm_name]

    def find(self, name: str) -> EmbeddedBroker | None:
        """Return the started or starting broker with this name, or None."""
        with self._lock:
            self._forget_parent()
            return self._brokers.get(name)

    def find_or_enter(self, name: str, make_broker: Callable[[], EmbeddedBroker]) -> tuple[EmbeddedBroker, bool]:
        """Return the broker with this name, created if missing, and True for a new broker.

        The caller starts a new broker.
        """
        with self._lock:
            self._forget_parent()
            broker = self._brokers.get(name)
            if broker is not None:
                return broker, False
            new_broker = make_broker()
            self._brokers[name] = new_broker
            return new_broker, True

    def expect(self, name: str, client: VmClient, timeout: float) -> None:
        """Let a client wait ``timeout`` seconds for the start of a broker with this name."""
        with self._lock:
            self._forget_parent()
            broker = self._brokers.get(name)
            if broker is None:
                self._expected.setdefault(name, []).append(client)
        if broker is not None:
            if not broker.accept(client):
                client.closed(STOPPED)
            return
        timer = threading.Timer(timeout, self._give_up, (name, client, timeout))
        timer.daemon = True
        timer.start()

    def _give_up(self, name: str, client: VmClient, timeout: float) -> None:
        with self._lock:
            clients = self._expected.get(name, [])
            if client not in clients:
                return
            clients.remove(client)
        client.closed(f"no broker of this name started in this process within {timeout:g} s")

    def _free_name(self, broker: EmbeddedBroker) -> str:
        if self._brokers.get(broker.name, broker) is broker:
            return broker.name
        return next(name for name in (f"{broker.name}-{n}" for n in itertools.count(2)) if name not in self._brokers)

    def _forget_parent(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._brokers = {}
            self._expected = {}


IN_PROCESS: Final = InProcessBrokers()
