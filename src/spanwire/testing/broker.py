"""A whole broker in the test's own process, on a thread of its own.

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
from spanwire.service.browsing import browse, purge
from spanwire.service.config.model import BrokerConfiguration
from spanwire.service.embedding.broker_thread import BrokerThread
from spanwire.service.embedding.embedded_broker import EmbeddedBroker
from spanwire.testing.clock import VirtualClock
from spanwire.testing.configuration import Source, for_test, read_source, with_ports
from spanwire.testing.message import WaitingMessage, waiting_message
from spanwire.testing.queue import DestinationLook, wait_until
from spanwire.testing.unacknowledged import DurableBacklog, HeldMessages, in_flight_by_consumer, pending_by_subscription
from spanwire.testing.wire import Wire

OPENWIRE: Final = "openwire"
STOMP: Final = "stomp"
CLIENT_SCHEMES: Final = {OPENWIRE: ("tcp", "ssl"), STOMP: ("stomp", "stomp+ssl")}  # plain, with TLS
KILLED: Final = "the test kills the broker"
NO_FILES: Final = ("lock", "control.sock")  # of a broker that runs, and nothing of its messages
CLOSING_GRACE: Final = 0.5  # seconds in which the broker may notice that a client has closed

BRIDGE: Final = "network"  # the protocol of a bridge's end here
REMOTE_BRIDGE: Final = "_outbound"  # how the client id of another broker's bridge ends

T = TypeVar("T")


class Broker:
    """A broker for tests: free ports of the loopback, messages in memory. `start` and `stop`, or a ``with`` block.

    ``source`` is an ``activemq.xml`` or TOML as text or path; its connectors get free ports unless ``keep_ports``.
    ``directory`` lets it keep a journal there. ``users`` are names and passwords, for a configuration without.
    ``sockets=False`` leaves only `vm_url`. Brokers that share a ``clock`` see the same time.

    May be used from any thread; after a fork every call raises
    `IllegalStateError`. Raises `ConfigurationError` for what cannot be honoured.
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
        """Between `start` and `stop`."""
        return self._thread is not None

    def start(self) -> None:
        """Start it and wait until clients can connect; raises in one line what stands in the way. While another thread
        stops it, wait for that first.
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
        """Stop it in order; clients that are still connected are disconnected. May be called twice."""
        with self._changing:
            thread = self._thread
            if thread is not None:
                thread.stop()
                self._thread = None

    def restart(self) -> None:
        """Stop it and start it on the same ports. What the journal keeps is there again; the rest is gone."""
        with self._changing:
            self.stop()
            self.start()

    def kill(self) -> None:
        """End it as a power cut would: connections break, and of the journal there is what had been written. `start`
        begins anew from that.
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
        """Let time pass: what expires has expired, what is scheduled is due. Clients stay connected.

        Brokers with the same clock have to be told, too: `Network.advance` does so.
        """
        self.clock.add(seconds)
        self.notice_time()

    def notice_time(self) -> None:
        """The clock was set forward by somebody else."""
        if self._thread is not None:
            self._call(lambda broker: broker.service.time_moved())

    @property
    def name(self) -> str:
        """The broker's name."""
        return self._configuration.broker_name

    @property
    def url(self) -> str:
        """The URL for OpenWire clients; `vm_url` when it has no such socket."""
        return self._url(OPENWIRE) or self.vm_url

    @property
    def vm_url(self) -> str:
        """The URL for clients in this process, without a socket; ``vm://`` and the broker's name, or that and a number
        where a broker of this name runs already. It never creates a second broker.
        """
        name = self.name if self._thread is None else self._thread.broker.vm_name
        return f"vm://{name}?create=false"

    @property
    def stomp_url(self) -> str:
        """The URL for STOMP clients; raises `IllegalStateError` when no connector speaks STOMP."""
        url = self._url(STOMP)
        if url is None:
            raise IllegalStateError(f"broker {self.name} has no connector for STOMP; add one to its configuration")
        return url

    @property
    def host(self) -> str:
        """The address of its connectors."""
        return self._configuration.connectors[0].host if self._configuration.connectors else ""

    @property
    def port(self) -> int:
        """The port for OpenWire clients; raises `IllegalStateError` when there is none."""
        return self._port(OPENWIRE)

    @property
    def running_port(self) -> int:
        """The same while it runs; raises `IllegalStateError` when it does not."""
        self._running()
        return self.port

    @property
    def stomp_port(self) -> int:
        """The port for STOMP clients; raises `IllegalStateError` when there is none."""
        return self._port(STOMP)

    def wire(self) -> Wire:
        """A way to its OpenWire connector that a test can cut, slow down and clog; to be started and stopped."""
        return Wire(lambda: self.running_port)

    def queue(self, name: str) -> DestinationLook:
        """A queue, whether it exists or not."""
        return DestinationLook(self, written_destination(name))

    def topic(self, name: str) -> DestinationLook:
        """A topic, whether it exists or not."""
        return DestinationLook(self, written_destination(name, TOPIC))

    def destinations(self) -> list[DestinationView]:
        """The counters of all queues and topics by name, without advisory topics."""
        views = self._call(lambda broker: broker.service.broker.destination_views())
        own_views = [view for view in views if not parse_destination(view.destination).is_advisory]
        return sorted(own_views, key=lambda view: view.destination)

    def connections(self) -> list[ConnectionView]:
        """Who is logged in: clients and bridges."""
        return self._call(lambda broker: broker.service.broker.connection_views())

    def clients(self) -> list[ConnectionView]:
        """Who is logged in, without the bridges of linked brokers."""
        return [view for view in self.connections() if not _is_bridge(view)]

    def links(self) -> list[dict[str, object]]:
        """The links of its network connectors: name, uri, remote, state, reason, demand, enqueued, dequeued."""
        return self._call(lambda broker: broker.service.links())

    def purge(self) -> int:
        """Drop what waits in all queues, without what consumers hold; gives how many."""
        return sum(self.purge_one(parse_destination(view.destination)) for view in self.destinations())

    def left_open(self) -> list[ConnectionView]:
        """The clients that are connected still; one that has just closed is given a moment."""
        if self._thread is None:
            return []
        wait_until(lambda: not self.clients(), CLOSING_GRACE)
        return self.clients()

    def view(self, destination: Destination) -> DestinationView | None:
        """The counters of one destination; None when it does not exist."""
        views = self._call(lambda broker: broker.service.broker.destination_views())
        return next((view for view in views if view.destination == destination.qualified_name), None)

    def browse(self, destination: Destination, limit: int) -> list[WaitingMessage]:
        """The oldest messages that wait in a queue."""
        thread = self._running()
        messages = thread.run(lambda broker: browse(broker.service, destination, limit))
        return thread.call(
            lambda broker: [waiting_message(message, broker.service.broker.formats) for message in messages]
        )

    def held(self, destination: Destination, limit: int) -> list[HeldMessages]:
        """The consumers of a queue that hold messages, with the oldest of these."""
        return self._call(lambda broker: in_flight_by_consumer(broker, destination, limit))

    def durables(self, limit: int = 100) -> list[DurableBacklog]:
        """All durable subscriptions, and what waits for them."""
        return self._running().run(lambda broker: pending_by_subscription(broker, limit))

    def purge_one(self, destination: Destination) -> int:
        """Drop what waits in one queue."""
        return self._call(lambda broker: purge(broker.service, destination))

    def _running(self) -> BrokerThread:
        if self._thread is None:
            raise IllegalStateError(f"broker {self.name} does not run; start it first")
        return self._thread

    def _call(self, action: Callable[[EmbeddedBroker], T]) -> T:
        return self._running().call(action)

    def _url(self, protocol: str) -> str | None:
        for connector in self._configuration.connectors:
            if protocol in connector.spoken():
                scheme = CLIENT_SCHEMES[protocol][connector.tls is not None]
                return f"{scheme}://{connector.host}:{connector.port}"
        return None

    def _port(self, protocol: str) -> int:
        for connector in self._configuration.connectors:
            if protocol in connector.spoken():
                return connector.port
        raise IllegalStateError(f"broker {self.name} has no connector for {protocol}")


def _is_bridge(view: ConnectionView) -> bool:
    return view.protocol == BRIDGE or (view.client_id or "").endswith(REMOTE_BRIDGE)


def _break_off(broker: EmbeddedBroker, journal: Path, copy: Path) -> None:
    """In the broker's loop: what the disk has now, before anybody's leaving is written to it."""
    shutil.copytree(journal, copy, ignore=shutil.ignore_patterns(*NO_FILES))
    broker.service.break_connections(KILLED)
