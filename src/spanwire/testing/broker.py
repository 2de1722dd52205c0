"""A whole broker in the process of the test, in a thread of its own.

with Broker() as broker:
    connection = blocking.connect(broker.url)
    …
    assert broker.queue("ORDERS").pending == 0
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

from spanwire.broker.admin.views import ConnectionView, DestinationView
from spanwire.model.destination import TOPIC, Destination, parse_destination
from spanwire.model.errors import IllegalStateError
from spanwire.model.written_destination import written_destination
from spanwire.service.administration.browsing import browse, purge
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.embedding.broker_thread import BrokerThread
from spanwire.service.embedding.embedded_broker import EmbeddedBroker
from spanwire.testing.clock import VirtualClock
from spanwire.testing.configuration import Source, for_test, read_source, with_ports
from spanwire.testing.message import WaitingMessage, waiting_message
from spanwire.testing.queue import DestinationLook, wait_until
from spanwire.testing.unacknowledged import DurableBacklog, HeldMessages, in_flight_by_consumer, pending_by_subscription
from spanwire.testing.wire import Wire
from spanwire.transports.base import ConnectorSettings

OPENWIRE: Final = "openwire"
STOMP: Final = "stomp"
CLIENT_SCHEMES: Final = {OPENWIRE: ("tcp", "ssl"), STOMP: ("stomp", "stomp+ssl")}  # plain, with TLS
KILLED: Final = "the test kills the broker"
NO_FILES: Final = ("lock", "control.sock")  # files of a running broker, without messages
MAX_COPIES: Final = 10  # attempts to copy a journal; its writer removes few segments in a row
CLOSING_GRACE: Final = 0.5  # seconds until the broker has noticed closed clients

BRIDGE: Final = "network"  # protocol of the local end of a bridge
REMOTE_BRIDGE: Final = "_outbound"  # suffix of the client ids of bridges from other brokers

T = TypeVar("T")


class Broker:
    """A broker for tests, with free ports of the loopback and messages in memory.

    Call `start` and `stop`, or use a ``with`` block. Methods may be called from any thread. After a fork every call
    raises `IllegalStateError`.

    Arguments:
        source: An ``activemq.xml`` or TOML configuration as text or path; None for the default configuration.
        name: Name of the broker; unique by default.
        directory: Directory of the journal; None keeps messages in memory.
        users: Names and passwords, for a configuration without authentication.
        sockets: False leaves only `vm_url`.
        keep_ports: Keep the ports of the configuration.
        placeholders: Values of ``${…}`` in the configuration.
        clock: Clock to share with other brokers.

    Raises:
        ConfigurationError: The configuration cannot be honoured.
    """

    def __init__(
        self,
        source: Source = None,
        *,
        name: str | None = None,
        directory: Path | None = None,
        users: Mapping[str, str] | None = None,
        sockets: bool = True,
        keep_ports: bool = False,
        placeholders: Mapping[str, str] | None = None,
        clock: VirtualClock | None = None,
    ) -> None:
        self.directory: Final = directory
        self.clock: Final = clock if clock is not None else VirtualClock()
        self._process: Final = os.getpid()
        self._configuration: BrokerConfiguration = for_test(
            read_source(source, placeholders),
            name=name,
            persistent=directory is not None,
            users=users,
            sockets=sockets,
            keep_ports=keep_ports,
        )
        self._thread: BrokerThread | None = None
        # A start waits for the stop of another thread, and the other way round; `BrokerThread` limits both.
        self._changing: Final = threading.RLock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process == os.getpid():  # a forked child that leaves the block has no broker to stop
            self.stop()

    def __repr__(self) -> str:
        return f"<Broker {self.name} {'at ' + self.url if self.is_running else 'stopped'}>"

    @property
    def is_running(self) -> bool:
        """True between `start` and `stop`."""
        return self._thread is not None

    def start(self) -> None:
        """Start the broker and wait until clients can connect.

        Waits for a stop in another thread first. Raises an error of one line if the broker cannot start.
        """
        with self._changing:
            if self._thread is not None:
                return
            environment = self.clock.environment()
            broker = EmbeddedBroker(self._configuration, self.directory, shares_name=True, environment=environment)
            thread = BrokerThread(broker)
            thread.start()
            self._thread = thread
            ports = thread.call(lambda broker: [connector.port for connector in broker.service.connectors])
            self._configuration = with_ports(self._configuration, ports)

    def stop(self) -> None:
        """Stop the broker and disconnect its clients. May be called twice."""
        with self._changing:
            thread = self._thread
            if thread is not None:
                thread.stop()
                self._thread = None

    def restart(self) -> None:
        """Stop the broker, and start the broker again on the same ports. Only messages of the journal survive."""
        with self._changing:
            self.stop()
            self.start()

    def kill(self) -> None:
        """End the broker as a power cut does.

        Connections break, and the journal keeps only bytes written before. `start` recovers from the journal.
        """
        thread = self._running()
        if self.directory is None:
            thread.call(lambda broker: broker.service.break_connections(KILLED))
            self.stop()
            return
        with tempfile.TemporaryDirectory() as folder:
            copy, journal = Path(folder, "copy"), self.directory
            thread.call(lambda broker: _break_off(broker, journal, copy))
            self.stop()
            shutil.rmtree(journal)
            shutil.copytree(copy, journal)

    def advance(self, seconds: float) -> None:
        """Move the clock forward: messages expire and scheduled messages are due, clients stay connected.

        Other brokers with the same clock must be told; `Network.advance` does that.
        """
        self.clock.add(seconds)
        self.notice_time()

    def notice_time(self) -> None:
        """Handle a clock that was moved forward outside of `advance`."""
        if self._thread is not None:
            self._call(lambda broker: broker.service.time_moved())

    @property
    def name(self) -> str:
        """Name of the broker."""
        return self._configuration.broker_name

    @property
    def url(self) -> str:
        """URL for OpenWire clients; `vm_url` without an OpenWire socket."""
        return self._url(OPENWIRE) or self.vm_url

    @property
    def vm_url(self) -> str:
        """URL for clients of this process, without a socket; never creates a second broker.

        The URL is ``vm://`` and the broker's name, with a number if another broker of the name is running.
        """
        name = self.name if self._thread is None else self._thread.broker.vm_name
        return f"vm://{name}?create=false"

    @property
    def stomp_url(self) -> str:
        """URL for STOMP clients. Raises `IllegalStateError` without a STOMP connector."""
        url = self._url(STOMP)
        if url is None:
            raise IllegalStateError(f"broker {self.name} has no connector for STOMP; add one to its configuration")
        return url

    @property
    def host(self) -> str:
        """Host address of the connectors."""
        return self._configuration.connectors[0].host if self._configuration.connectors else ""

    @property
    def port(self) -> int:
        """Port for OpenWire clients. Raises `IllegalStateError` without an OpenWire connector."""
        return self._port(OPENWIRE)

    @property
    def running_port(self) -> int:
        """Port for OpenWire clients of the running broker.

        Raises `IllegalStateError` while the broker is stopped.
        """
        self._running()
        return self.port

    @property
    def stomp_port(self) -> int:
        """Port for STOMP clients. Raises `IllegalStateError` without a STOMP connector."""
        return self._port(STOMP)

    def wire(self) -> Wire:
        """Return a proxy of the OpenWire connector that a test can cut, slow down and clog."""
        return Wire(lambda: self.running_port)

    def queue(self, name: str) -> DestinationLook:
        """Return a view of a queue, which need not exist."""
        return DestinationLook(self, written_destination(name))

    def topic(self, name: str) -> DestinationLook:
        """Return a view of a topic, which need not exist."""
        return DestinationLook(self, written_destination(name, TOPIC))

    def destinations(self) -> list[DestinationView]:
        """Return the counters of all queues and topics, sorted by name, without advisory topics."""
        views = self._call(lambda broker: broker.service.broker.destination_views())
        own_views = [view for view in views if not parse_destination(view.destination).is_advisory]
        return sorted(own_views, key=lambda view: view.destination)

    def connections(self) -> list[ConnectionView]:
        """Return the connections of clients and bridges."""
        return self._call(lambda broker: broker.service.broker.connection_views())

    def clients(self) -> list[ConnectionView]:
        """Return the connections of clients, without bridges of linked brokers."""
        return [view for view in self.connections() if not _is_bridge(view)]

    def links(self) -> list[dict[str, object]]:
        """Return the links of network connectors.

        Keys are name, uri, remote, state, reason, demand, enqueued and dequeued.
        """
        return self._call(lambda broker: broker.service.links())

    def purge(self) -> int:
        """Remove pending messages from all queues, except for messages in flight. Returns their number."""
        return sum(self.purge_one(parse_destination(view.destination)) for view in self.destinations())

    def left_open(self) -> list[ConnectionView]:
        """Return the clients that are still connected, after a short wait for clients that are closing."""
        if self._thread is None:
            return []
        wait_until(lambda: not self.clients(), CLOSING_GRACE)
        return self.clients()

    def view(self, destination: Destination) -> DestinationView | None:
        """Return the counters of one destination, or None if the destination does not exist."""
        views = self._call(lambda broker: broker.service.broker.destination_views())
        return next((view for view in views if view.destination == destination.qualified_name), None)

    def browse(self, destination: Destination, limit: int) -> list[WaitingMessage]:
        """Return the oldest messages of a queue that are not in flight."""
        thread = self._running()
        messages = thread.run(lambda broker: browse(broker.service, destination, limit))
        return thread.call(
            lambda broker: [waiting_message(message, broker.service.broker.formats) for message in messages]
        )

    def held(self, destination: Destination, limit: int) -> list[HeldMessages]:
        """Return the consumers of a queue with messages in flight, and the oldest of these messages."""
        return self._call(lambda broker: in_flight_by_consumer(broker, destination, limit))

    def durables(self, limit: int = 100) -> list[DurableBacklog]:
        """Return all durable subscriptions with their pending messages."""
        return self._running().run(lambda broker: pending_by_subscription(broker, limit))

    def purge_one(self, destination: Destination) -> int:
        """Remove pending messages from one queue, except for messages in flight. Returns their number."""
        return self._call(lambda broker: purge(broker.service, destination))

    def _running(self) -> BrokerThread:
        if self._thread is None:
            raise IllegalStateError(f"broker {self.name} does not run; start it first")
        return self._thread

    def _call(self, action: Callable[[EmbeddedBroker], T]) -> T:
        return self._running().call(action)

    def _url(self, protocol: str) -> str | None:
        for connector in self._configuration.connectors:
            if _is_open_for(connector, protocol):
                scheme = CLIENT_SCHEMES[protocol][connector.tls is not None]
                return f"{scheme}://{connector.host}:{connector.port}"
        return None

    def _port(self, protocol: str) -> int:
        for connector in self._configuration.connectors:
            if _is_open_for(connector, protocol):
                return connector.port
        raise IllegalStateError(f"broker {self.name} has no connector for {protocol}")


def _is_open_for(connector: ConnectorSettings, protocol: str) -> bool:
    return connector.auto_start and protocol in connector.spoken() and not connector.is_websocket


def _is_bridge(view: ConnectionView) -> bool:
    return view.protocol == BRIDGE or (view.client_id or "").endswith(REMOTE_BRIDGE)


def _break_off(broker: EmbeddedBroker, journal: Path, copy: Path) -> None:
    """Copy the journal as it is on the disk, then break all connections; runs in the broker's loop.

    The writer's thread may remove a segment meanwhile, so a copy that lacks a file is made again.
    """
    for attempt in range(MAX_COPIES):
        try:
            shutil.copytree(journal, copy, ignore=shutil.ignore_patterns(*NO_FILES))
            break
        except shutil.Error:
            if attempt + 1 == MAX_COPIES:
                raise
            shutil.rmtree(copy)
    broker.service.break_connections(KILLED)
