"""A broker inside a program of somebody else, and the table of those that `vm:` URLs find by name.

    broker = EmbeddedBroker(configuration)       configure
    await broker.start()                         in the loop that it shall live in
    await broker.stop()

A name is taken from `start` on until `stop` is done. Clients may come before the broker is ready; they wait.
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

MAX_WAITING_CLIENTS: Final = 1_000  # clients that wait for one broker of this process to start


class EmbeddedBroker:
    """One broker in the loop that starts it. Leaves threads to `spanwire.service.embedding.broker_thread`.

    Without persistence and without a ``directory`` it touches no file. After a fork it belongs to the process that
    started it: every call raises `IllegalStateError`. One that ``shares_name`` is found by another name, its
    ``vm_name``, when a broker of the same name runs already.
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
        """The URL for clients of this process."""
        return f"vm://{self.vm_name}"

    def uris(self) -> dict[str, str]:
        """Where its connectors listen, by the scheme; the first of each."""
        self.check_process()
        uris_by_scheme: dict[str, str] = {}
        for connector in self.service.connectors:
            uris_by_scheme.setdefault(connector.settings.scheme, connector.uri)
        return uris_by_scheme

    async def start(self) -> None:
        """Take the name and the ports, recover the store, take clients.

        Raises `ConfigurationError` for a name that another broker of this process has, else as `BrokerService.start`;
        what was taken is given back.
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
        """Close every connection, write the journal, give the name free. May be called twice."""
        for client in await self.close():
            client.closed(STOPPED)

    async def close(self) -> list[VmClient]:
        """The same; gives the clients that came meanwhile and may want another broker of this name."""
        self.check_process()
        with self._lock:
            was_over, self._is_over = self._is_over and not self._is_deserted, True
        if was_over:
            return []
        await self.service.stop()
        IN_PROCESS.leave(self)
        return self._take_waiting()

    def accept(self, client: VmClient) -> bool:
        """Connect a client of this process, from any thread, at once or when the broker has started; its feed hears it
        when there can be no connection. False when the broker has gone: look for another one.
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
        except RuntimeError:  # the loop has ended without a stop
            IN_PROCESS.leave(self)
            return False
        return True

    def on_empty(self, action: Callable[[], object]) -> None:
        """Call ``action`` in the broker's loop whenever the last client of this process has gone."""
        self.service.in_process.on_empty = action

    def close_if_unused(self) -> bool:
        """Whether no client of this process is connected or on its way; then none is taken from now on."""
        with self._lock:
            if self.service.in_process.connection_count or self._attaching or self._waiting:
                return False
            self._is_over = self._is_deserted = True
            return True

    def check_process(self) -> None:
        """Raises `IllegalStateError` after a fork."""
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
    """The brokers of this process by name. A forked child begins with none."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._process = os.getpid()
        self._brokers: dict[str, EmbeddedBroker] = {}
        self._expected: dict[str, list[VmClient]] = {}

    def enter(self, broker: EmbeddedBroker) -> None:
        """A broker takes its name, and gets the clients that wait for it; raises `ConfigurationError` when another one
        has it.
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
        """A broker gives its name free."""
        with self._lock:
            if self._brokers.get(broker.vm_name) is broker:
                del self._brokers[broker.vm_name]

    def find(self, name: str) -> EmbeddedBroker | None:
        """The broker of this name, if it has started or is about to."""
        with self._lock:
            self._forget_parent()
            return self._brokers.get(name)

    def find_or_enter(self, name: str, make_broker: Callable[[], EmbeddedBroker]) -> tuple[EmbeddedBroker, bool]:
        """The broker of this name, made now if there is none; and whether it was. The caller starts a new one."""
        with self._lock:
            self._forget_parent()
            broker = self._brokers.get(name)
            if broker is not None:
                return broker, False
            new_broker = make_broker()
            self._brokers[name] = new_broker
            return new_broker, True

    def expect(self, name: str, client: VmClient, timeout: float) -> None:
        """Let a client wait ``timeout`` seconds for a broker of this name to start."""
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
