"""Networks of hundreds of brokers in one process: real brokers, bridges and bytes on every link, stores in memory.

Unlike `tests.support.network_dialogue`, which turns everything until nothing moves, only what has something to do is
turned, so that the cost is that of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, ProducerId, SessionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo, ProducerInfo
from spanwire.model.message import Message
from spanwire.network.bridge.bridge import NetworkBridge
from spanwire.network.bridge.bridge_states import State
from spanwire.network.bridge.duplex_bridge import DuplexAcceptor
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.protocols.base import ConnectionSettings
from spanwire.protocols.openwire.broker_connection import OpenWireBrokerConnection
from spanwire.protocols.openwire.codec.wire_format import WireFormatPreferences
from spanwire.protocols.openwire.messages.advisory_format import OpenWireAdvisoryFormat
from spanwire.protocols.openwire.messages.message_format import openwire_formats
from spanwire.stores.memory import MemoryStore
from tests.support.network_dialogue import NetworkEnvironment

MAX_TURNS = 50_000_000  # of one broker each, until a network must have come to rest
NEIGHBOURS = 4  # of each broker of a regular graph


class SilentConsumer:
    """Duck-typed to `spanwire.broker.ports.MessageConsumer`: it is there, and counts what it gets."""

    def __init__(self) -> None:
        self.count = 0

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        self.count += 1

    def dispatch_end(self) -> None:
        """Nothing pulls here."""

    def switch_to_pull(self) -> bool:
        return False

    def close(self, reason: JmsError) -> None:
        raise AssertionError(f"a consumer was ended: {reason}")


class DemandClient:
    """A client of one broker with consumers and producers: duck-typed to `spanwire.broker.ports.ClientConnection`."""

    def __init__(self, site: DemandSite, number: int) -> None:
        self._site = site
        self._id = f"ID:{site.name}-client:{number}"
        self._numbers: Iterator[int] = count(1)
        self.state = site.broker.add_connection(self, ConnectionInfo(self._id, f"client-{self._id}"), site.now)
        site.broker.add_session(self.state, SessionId(self._id, 1))

    def consumes(self, destination: Destination) -> Subscription:
        broker, now = self._site.broker, self._site.now
        info = ConsumerInfo(ConsumerId(self._id, 1, next(self._numbers)), destination, prefetch_size=100)
        made = broker.add_consumer(self.state, info, SilentConsumer(), now)
        broker.start_consumer(made, now)
        self._site.has_work()
        return made

    def produces_for(self, destination: Destination) -> None:
        info = ProducerInfo(ProducerId(self._id, 1, next(self._numbers)), destination)
        self._site.broker.add_producer(self.state, info, self._site.now)
        self._site.has_work()

    def leaves(self) -> None:
        self._site.broker.remove_connection(self.state, self._site.now)
        self._site.has_work()

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Nothing is sent."""

    def close_with(self, error: SpanwireError) -> None:
        raise AssertionError(f"a client was ended: {error}")


class DemandSite:
    """One broker whose store is its memory."""

    def __init__(self, network: DemandNetwork, name: str) -> None:
        self.name = name
        self.network = network
        self.routes = NetworkRoutes()
        self.links: dict[int, DemandLink] = {}  # by the identity of this broker's end
        self._store = MemoryStore()
        self._position = 0
        self._clients = 0
        formats = network.formats
        advisories = OpenWireAdvisoryFormat(
            name, f"broker{name}", f"tcp://{name}:61616", f"ID:{name}:advisory", formats
        )
        self.broker = Broker(
            f"broker{name}", name, network.environment, self._store, formats, BrokerSettings(advisory_format=advisories)
        )
        self.acceptor = DuplexAcceptor(self.broker, self.routes)

    @property
    def now(self) -> Time:
        return self.network.environment.time

    def client(self) -> DemandClient:
        self._clients += 1
        return DemandClient(self, self._clients)

    def advisories(self) -> dict[str, int]:
        """How many advisories this broker has sent, by topic."""
        found: dict[str, int] = {}
        for view in self.broker.destination_views():
            name = str(view.destination)
            if "ActiveMQ.Advisory." in name and view.dispatched > 0:
                found[name] = view.dispatched
        return found

    def consumers_of(self, name: Destination) -> int:
        """How many consumers it has here, those of bridges among them."""
        destination = self.broker.find_destination(name)
        return 0 if destination is None else destination.consumer_count

    def has_work(self) -> None:
        """Something was done here: it has a turn."""
        self.network.waiting[self] = None

    def turn(self) -> None:
        """The store, what is due, and everything that is to be sent."""
        broker, now = self.broker, self.now
        if self._store.position() != self._position:
            self._position = self._store.turn()
            broker.stored(self._position, now)
            for request, messages in self._store.take_fetched():
                broker.on_fetched(request, messages, now)
        while broker.next_timeout() == 0.0:
            broker.run(now)
        for connection in broker.take_dirty():
            link = self.links.get(id(connection))
            if link is not None:
                link.carries(self)


class DemandLink:
    """A network connector with its wire, which carries all bytes at once and counts frames of advisories."""

    def __init__(self, near: DemandSite, far: DemandSite, settings: BridgeSettings) -> None:
        now = near.now
        self.near = near
        self.far = far
        self.bytes_carried = 0
        self.bridge = NetworkBridge(
            near.broker, settings, f"tcp://{near.name}:61616", WireFormatPreferences(), now, near.routes
        )
        self.peer = OpenWireBrokerConnection(
            far.broker, ConnectionSettings(f"tcp://{near.name}:40000"), now, far.acceptor
        )
        near.links[id(self.bridge)] = self
        far.links[id(self.peer)] = self

    @property
    def running(self) -> bool:
        return self.bridge.state is State.RUNNING

    def carries(self, sender: DemandSite) -> None:
        """What ``sender`` has for the other end goes there, and what that answers comes back."""
        here = sender
        quiet = 0
        while quiet < 2:
            quiet = 0 if self._carries_once(here) else quiet + 1
            here = self.far if here is self.near else self.near

    def _carries_once(self, sender: DemandSite) -> bool:
        own: NetworkBridge | OpenWireBrokerConnection = self.bridge if sender is self.near else self.peer
        other: NetworkBridge | OpenWireBrokerConnection = self.peer if sender is self.near else self.bridge
        receiver = self.far if sender is self.near else self.near
        chunks = own.data_to_send()
        if not chunks:
            return False
        data = b"".join(chunks)
        self.bytes_carried += len(data)
        own.unsent(0)
        other.receive_data(data, receiver.now)
        assert not other.closed, f"{sender.name} to {receiver.name}: {self.bridge.reason}"
        receiver.has_work()
        sender.has_work()
        return True


class DemandNetwork:
    """All brokers and links; ``waiting`` are those that have something to do."""

    def __init__(self) -> None:
        self.environment = NetworkEnvironment()
        self.formats = MessageFormats(openwire_formats())
        self.sites: list[DemandSite] = []
        self.links: list[DemandLink] = []
        self.waiting: dict[DemandSite, None] = {}

    def site(self, name: str) -> DemandSite:
        made = DemandSite(self, name)
        self.sites.append(made)
        return made

    def link(self, near: DemandSite, far: DemandSite, settings: BridgeSettings) -> None:
        made = DemandLink(near, far, settings)
        self.links.append(made)
        made.carries(near)
        made.carries(far)

    def settles(self) -> None:
        """Everything goes on until nothing moves."""
        for _ in range(MAX_TURNS):
            if not self.waiting:
                return
            site = next(iter(self.waiting))
            del self.waiting[site]
            site.turn()
        raise AssertionError("the network does not come to rest")

    @property
    def demand(self) -> int:
        """Subscriptions of bridges, at all brokers."""
        accepted = sum(
            len(bridge.forwarder.local.demand.subscriptions)
            for site in self.sites
            for bridge in site.acceptor.bridges.values()
        )
        return accepted + sum(link.bridge.demand_count for link in self.links)

    @property
    def advisories(self) -> int:
        """Advisories that brokers have sent so far, which is to bridges alone."""
        return sum(sum(site.advisories().values()) for site in self.sites)


def hub_and_spokes(size: int, ttl: int = 2) -> DemandNetwork:
    """Each spoke opens its link to the hub, and messages go both ways over it."""
    network = DemandNetwork()
    hub = network.site("N0")
    for number in range(1, size):
        spoke = network.site(f"N{number}")
        network.link(spoke, hub, _settings(f"C{number}", ttl))
    network.settles()
    return network


def regular_graph(size: int, ttl: int = 3, seed: int = 1) -> DemandNetwork:
    """Every broker has four neighbours, chosen by ``seed``; links carry both directions."""
    network = DemandNetwork()
    for number in range(size):
        network.site(f"N{number}")
    for number, (near, far) in enumerate(sorted(regular_edges(size, seed))):
        network.link(network.sites[near], network.sites[far], _settings(f"C{number}", ttl))
    network.settles()
    return network


def _settings(name: str, ttl: int) -> BridgeSettings:
    return BridgeSettings(name=name, duplex=True, message_ttl=ttl, consumer_ttl=ttl)


def regular_edges(size: int, seed: int) -> set[tuple[int, int]]:
    """A ring, so that all are joined, and a second one through everybody in another order; everybody with everybody
    where there are too few for that.
    """
    if size <= NEIGHBOURS:
        return {(one, other) for other in range(size) for one in range(other)}
    choose = Random(seed)
    edges = {_edge(place, (place + 1) % size) for place in range(size)}
    while True:
        order = list(range(size))
        choose.shuffle(order)
        second = {_edge(one, order[place - 1]) for place, one in enumerate(order)}
        if not second & edges:
            return edges | second


def _edge(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def queues_and_topics(total: int) -> list[Destination]:
    """So many destinations, half of them topics."""
    return [parse_destination(f"{('queue', 'topic')[number % 2]}://D{number}") for number in range(total)]
