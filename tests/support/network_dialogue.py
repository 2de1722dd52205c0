"""Several brokers, bridges between them and clients at each, in one thread, without a socket; time is passed in.

network = Network()
a, b = network.site("A"), network.site("B")
link = network.link(a, b, BridgeSettings(name="toB"))
inbox = b.client().consumes("queue://Q")
network.settles()
a.client().sends("queue://Q", "one")
network.settles()
assert inbox.texts == ["one"]
"""

from __future__ import annotations

from collections import deque

from spanwire.broker.assembly import BrokerSettings
from spanwire.broker.broker import Broker
from spanwire.broker.destinations.inactive_destinations import UpkeepSettings
from spanwire.broker.dispatch.memory_usage import UsageLimits
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.policy.virtual_settings import VirtualSettings
from spanwire.broker.ports import Authenticator, Authorizer
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, STANDARD_ACK, MessageAck
from spanwire.model.destination import Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError, SpanwireError
from spanwire.model.ids import ConsumerId, MessageId, ProducerId, SessionId
from spanwire.model.info import ConnectionInfo, ConsumerInfo
from spanwire.model.message import FORMAT_OPENWIRE_10, Message
from spanwire.model.message_view import INT_VALUE, TEXT, MessageView
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
from spanwire.protocols.stomp.message_format import stomp_formats
from spanwire.stores.driver.reader import read_all
from spanwire.stores.journal.batch import write_batch
from spanwire.stores.journal.journal import Journal
from spanwire.stores.journal.opening import open_journal
from spanwire.stores.journal.recovery.audited import recover_audit
from tests.simulation.disk import SimulatedDisk

STARTED_MS = 1_795_246_514_000
STORE_ID = b"a store for test"
SEGMENT_BYTES = 64 * 1024
MAX_ROUNDS = 5_000  # until a network must have come to rest


class NetworkEnvironment:
    """Duck-typed to `spanwire.model.environment.Environment`; one clock for all sites."""

    def __init__(self) -> None:
        self.time = Time(1000.0, STARTED_MS)
        self._random = 0

    @property
    def host_name(self) -> str:
        return "network"

    def now(self) -> Time:
        return self.time

    def random_bytes(self, count: int) -> bytes:
        self._random += 1
        return (self._random * 7919).to_bytes(8, "big")[-count:].rjust(count, b"\x01")

    def advance(self, seconds: float) -> None:
        self.time = Time(self.time.monotonic + seconds, self.time.wall_ms + int(seconds * 1000))


class Received:
    """A message as a client's consumer saw it."""

    def __init__(self, message: Message, view: MessageView, redelivery_count: int) -> None:
        self.message = message
        self.text = (view.body or b"").decode()
        self.redelivered = redelivery_count > 0
        self.redelivery_count = redelivery_count
        self.path = message.broker_path


class Inbox:
    """A consumer of a client: duck-typed to `spanwire.broker.ports.MessageConsumer`. Acknowledges when read."""

    def __init__(self, client: Client, info: ConsumerInfo) -> None:
        self.info = info
        self.received: list[Received] = []
        self.unread: deque[Received] = deque()
        self.subscription: Subscription | None = None
        self.closed = False
        self.manual = False
        self._client = client

    def dispatch(self, message: Message, sequence: int, redelivery_count: int) -> None:
        view = self._client.site.formats.view(message)
        self.unread.append(Received(message, view, redelivery_count))

    def switch_to_pull(self) -> bool:
        return False

    def dispatch_end(self) -> None:
        """Nothing pulls here."""

    def close(self, reason: JmsError) -> None:
        self.closed = True

    @property
    def texts(self) -> list[str]:
        """What was read so far."""
        return [one.text for one in self.received]

    def reads(self, count: int = MAX_ROUNDS) -> list[Received]:
        """Reads and acknowledges; gives what was read."""
        taken: list[Received] = []
        client = self._client
        while self.unread and len(taken) < count and client.state is not None:
            one = self.unread.popleft()
            taken.append(one)
            self.received.append(one)
            client.acknowledges(self, one)
        return taken

    def leaves(self) -> None:
        """The consumer is closed."""
        client = self._client
        assert client.state is not None
        client.site.broker.remove_consumer(
            client.state, self.info.consumer_id, LAST_DELIVERED_UNKNOWN, client.site.network.now
        )
        client.inboxes.remove(self)


class Client:
    """A client of one site, in process: duck-typed to `spanwire.broker.ports.ClientConnection`."""

    def __init__(self, site: Site, number: int, client_id: str | None = None) -> None:
        self.site = site
        self.granted: list[str] = []
        self.settled: list[str] = []
        self.refused: list[str] = []
        self.inboxes: list[Inbox] = []
        connection_id = f"ID:{site.name}-client-{site.generation}:{number}"
        info = ConnectionInfo(connection_id, client_id or f"client-{connection_id}")
        self.state = site.broker.add_connection(self, info, site.network.now)
        self.connection_id = connection_id
        site.broker.add_session(self.state, SessionId(connection_id, 1))
        self._producer = ProducerId(connection_id, 1, 1)
        self._sequence = 0
        self._token = 0
        self._waiting: dict[int, tuple[list[str], str]] = {}
        self._consumers = 0

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        kind, text = self._waiting.pop(token)
        if error is None:
            kind.append(text)
        else:
            self.refused.append(text)

    def close_with(self, error: SpanwireError) -> None:
        """The broker stops."""

    def sends(
        self,
        destination: str,
        text: str,
        *,
        persistent: bool = True,
        properties: dict[str, int] | None = None,
        group: str | None = None,
    ) -> Message:
        """One text message, of a message ``group`` if there is one."""
        message = self._made(destination, text, persistent, properties, group)
        self._hand_in(message, text)
        return message

    def forwards(self, destination: str, text: str, path: tuple[str, ...]) -> None:
        """One text message that came through the brokers of ``path``, from a client that is a bridge."""
        message = self._made(destination, text, True, None, None)
        message.broker_path = path
        self._hand_in(message, text)

    def _made(
        self, destination: str, text: str, persistent: bool, properties: dict[str, int] | None, group: str | None
    ) -> Message:
        site = self.site
        self._sequence += 1
        view = MessageView(TEXT, parse_destination(destination), MessageId(self._producer, self._sequence))
        view.persistent = persistent
        view.timestamp_ms = site.network.now.wall_ms
        view.body = text.encode()
        view.group_id = group
        view.properties = {name: (INT_VALUE, value) for name, value in (properties or {}).items()}
        return site.formats.format(FORMAT_OPENWIRE_10).encode_from_view(view)

    def _hand_in(self, message: Message, text: str) -> None:
        self._token += 1
        self._waiting[self._token] = (self.granted, text)
        if self.site.broker.send(self.state, message, None, self._token, self.site.network.now):
            self.on_completed(self._token, None)

    def consumes(
        self,
        destination: str,
        *,
        selector: str | None = None,
        prefetch: int = 100,
        manual: bool = False,
        durable: str | None = None,
    ) -> Inbox:
        """A consumer; it reads by itself when the network settles, unless ``manual``. ``durable`` names its durable
        subscription.
        """
        self._consumers += 1
        info = ConsumerInfo(
            ConsumerId(self.connection_id, 1, self._consumers),
            parse_destination(destination),
            prefetch_size=prefetch,
            selector=selector,
            subscription_name=durable,
            client_id=self.state.info.client_id,
        )
        inbox = Inbox(self, info)
        inbox.manual = manual
        broker, now = self.site.broker, self.site.network.now
        inbox.subscription = broker.add_consumer(self.state, info, inbox, now)
        self.inboxes.append(inbox)
        broker.start_consumer(inbox.subscription, now)
        return inbox

    def browses(self, destination: str) -> Inbox:
        """A browser of a queue."""
        self._consumers += 1
        consumer_id = ConsumerId(self.connection_id, 1, self._consumers)
        info = ConsumerInfo(consumer_id, parse_destination(destination), prefetch_size=10, browser=True)
        inbox = Inbox(self, info)
        inbox.manual = True
        inbox.subscription = self.site.broker.add_consumer(self.state, info, inbox, self.site.network.now)
        self.inboxes.append(inbox)
        self.site.broker.start_consumer(inbox.subscription, self.site.network.now)
        return inbox

    def acknowledges(self, inbox: Inbox, one: Received) -> None:
        """Acknowledge one message for good."""
        assert inbox.subscription is not None
        self._token += 1
        self._waiting[self._token] = (self.settled, one.text)
        message_id = one.message.message_id
        done = self.site.broker.acknowledge(
            self.state,
            inbox.subscription,
            MessageAck(STANDARD_ACK, message_id, message_id),
            None,
            self._token,
            self.site.network.now,
        )
        if done:
            self.on_completed(self._token, None)

    def temporary_queue(self) -> Destination:
        """A temporary queue of this client."""
        destination = parse_destination(f"temp-queue://{self.connection_id}:1")
        self.site.broker.add_destination(self.state, destination, self.site.network.now)
        return destination

    def leaves(self) -> None:
        """The client is gone."""
        self.site.broker.remove_connection(self.state, self.site.network.now)
        self.site.clients.remove(self)

    def turn(self) -> bool:
        """Reads what came; True when there was something."""
        busy = False
        for inbox in self.inboxes:
            if not inbox.manual:
                busy = bool(inbox.reads()) or busy
        self.site.broker.output_progress(self.state, 0, self.site.network.now)
        return busy


class Site:
    """One broker with its journal on a disk that can lose its power."""

    def __init__(
        self,
        network: Network,
        name: str,
        authenticator: Authenticator | None = None,
        authorizer: Authorizer | None = None,
        memory_limit_bytes: int = 64 * 1024 * 1024,
        policies: PolicyMap | None = None,
        virtual: VirtualSettings | None = None,
        upkeep: UpkeepSettings | None = None,
        broker_name: str = "",
        advisories: bool = True,
    ) -> None:
        self._has_advisories = advisories
        self.broker_name = broker_name or f"broker{name}"
        self.network = network
        self.name = name
        self.generation = 0
        self.disk = SimulatedDisk()
        self.formats = MessageFormats({**openwire_formats(), **stomp_formats()})
        self.clients: list[Client] = []
        self.broker: Broker
        self.journal: Journal
        self._rights = (authenticator, authorizer)
        self._memory_limit_bytes = memory_limit_bytes
        self._policies = policies
        self._virtual = virtual
        self._upkeep = upkeep
        self._number = 0
        self.starts()

    def starts(self) -> None:
        """The broker comes up with what the disk has kept."""
        self.generation += 1
        self.routes = NetworkRoutes()
        self.acceptor: DuplexAcceptor
        opened = open_journal(self.disk, STORE_ID, SEGMENT_BYTES)
        self.journal = opened.journal
        audit = ProducerAudit(identity=self.name.encode().ljust(8, b"."))
        recover_audit(self.disk, opened.recovery, self.formats, audit)
        self.journal.attach_audit(audit)
        advisories = OpenWireAdvisoryFormat(
            self.name,
            self.broker_name,
            f"tcp://{self.name}:61616",
            f"ID:{self.name}-{self.generation}:advisory",
            self.formats,
        )
        authenticator, authorizer = self._rights
        self.broker = Broker(
            self.broker_name,
            self.name,
            self.network.environment,
            self.journal,
            self.formats,
            BrokerSettings(
                advisory_format=advisories if self._has_advisories else None,
                authenticator=authenticator,
                authorizer=authorizer,
                policies=self._policies,
                virtual=self._virtual,
                upkeep=self._upkeep,
                limits=UsageLimits(memory_bytes=self._memory_limit_bytes),
                producer_audit=audit,
            ),
        )
        self.acceptor = DuplexAcceptor(self.broker, self.routes)
        self.broker.recover(
            opened.recovery.destinations(), opened.recovery.clean, self.network.now, opened.recovery.metadata()
        )

    def crashes(self, disk: SimulatedDisk | None = None) -> None:
        """The power goes and comes back: clients and links are gone, the disk has what was synced."""
        self.disk = disk if disk is not None else self.disk.copy()
        self.clients.clear()
        self.network.site_gone(self)
        self.starts()

    def client(self, client_id: str | None = None) -> Client:
        """A new client."""
        self._number += 1
        made = Client(self, self._number, client_id)
        self.clients.append(made)
        return made

    def store_turn(self) -> bool:
        """What the store's threads do, at once; True when there was something."""
        now, journal, broker = self.network.now, self.journal, self.broker
        busy = False
        for fetch in journal.take_fetches():
            busy = True
            messages: list[Message | None] = fetch.messages
            for read, stored in zip(fetch.reads, read_all(self.disk, fetch.reads), strict=True):
                if fetch.still_there(read):
                    assert stored is not None
                    messages[read.index] = self.formats.index(stored.format_id, stored.raw)
            journal.answered(fetch)
            broker.on_fetched(fetch.request, messages, now)
        position = journal.take_answer()
        if position >= 0:
            broker.stored(position, now)
        batch = journal.next_batch()
        if batch is not None:
            busy = True
            write_batch(self.disk, batch, True)
            broker.stored(journal.on_completed(batch), now)
        return busy

    def turn(self) -> bool:
        """One turn of everything at this site but its links."""
        busy = self.store_turn()
        for client in list(self.clients):
            busy = client.turn() or busy
        if self.broker.next_timeout() == 0.0:
            busy = True
            self.broker.run(self.network.now)
        return busy

    def queue(self, name: str) -> tuple[int, int, int]:
        """Enqueued, dequeued and waiting messages of a queue."""
        for view in self.broker.destination_views():
            if view.destination == f"queue://{name}" or str(view.destination) == f"queue://{name}":
                return view.enqueued, view.dequeued, view.pending
        return 0, 0, 0


class Link:
    """A network connector of one site, with the wire to the other one. Bytes move when told to."""

    def __init__(self, near: Site, far: Site, settings: BridgeSettings) -> None:
        self.near = near
        self.far = far
        self.settings = settings
        self.bridge: NetworkBridge | None = None
        self.peer: OpenWireBrokerConnection | None = None
        self.reasons: list[str] = []
        self.to_far: deque[bytes] = deque()
        self.to_near: deque[bytes] = deque()
        self.broker_url = f"tcp://{near.name}:61616"  # where the near broker says that it listens
        self.enabled = True
        self.stalled = False  # nothing arrives at the far end any more, and nothing is lost

    @property
    def running(self) -> bool:
        """Whether the bridge is up."""
        return self.bridge is not None and self.bridge.state is State.RUNNING

    def connects(self) -> None:
        """A new socket."""
        now = self.near.network.now
        preferences = WireFormatPreferences()
        near = self.near
        self.bridge = NetworkBridge(near.broker, self.settings, self.broker_url, preferences, now, near.routes)
        settings = ConnectionSettings(f"tcp://{near.name}:40000")
        self.peer = OpenWireBrokerConnection(self.far.broker, settings, now, self.far.acceptor)
        self.to_far.clear()
        self.to_near.clear()

    def breaks(self) -> None:
        """The wire is cut; what was on it is lost."""
        now = self.near.network.now
        bridge, peer = self.bridge, self.peer
        self.bridge = self.peer = None
        if bridge is not None:
            bridge.receive_eof(now)
            self.reasons.append(bridge.reason)
        if peer is not None:
            peer.receive_eof(now)

    def near_is_gone(self) -> None:
        """The near broker died: only the far one notices."""
        peer, self.peer, self.bridge = self.peer, None, None
        if peer is not None:
            peer.receive_eof(self.near.network.now)

    def far_is_gone(self) -> None:
        """The far broker died."""
        bridge, self.peer, self.bridge = self.bridge, None, None
        if bridge is not None:
            bridge.receive_eof(self.near.network.now)

    def flush(self) -> bool:
        """Both ends put what they have to send on the wire."""
        bridge, peer = self.bridge, self.peer
        if bridge is None or peer is None:
            return False
        near, far = bridge.data_to_send(), peer.data_to_send()
        self.to_far.extend(near)
        self.to_near.extend(far)
        bridge.unsent(0)
        peer.unsent(0)
        return bool(near or far)

    def deliver(self, count: int = MAX_ROUNDS) -> bool:
        """Up to ``count`` pieces in each direction arrive."""
        now = self.near.network.now
        busy = False
        for _ in range(count):
            bridge, peer = self.bridge, self.peer
            if bridge is None or peer is None or not (self.to_near or (self.to_far and not self.stalled)):
                return busy
            busy = True
            if self.to_far and peer.wants_read and not self.stalled:
                peer.receive_data(self.to_far.popleft(), now)
            if self.to_near:
                bridge.receive_data(self.to_near.popleft(), now)
            if bridge.closed or peer.closed:
                self.flush()
                for data in list(self.to_near):
                    bridge.receive_data(data, now)
                self.breaks()
        return busy

    def turn(self) -> bool:
        """Connects, flushes and delivers."""
        if not self.enabled:
            return False
        if self.bridge is None:
            self.connects()
        busy = self.flush()
        return self.deliver() or busy


class Network:
    """All sites and links."""

    def __init__(self) -> None:
        self.environment = NetworkEnvironment()
        self.sites: list[Site] = []
        self.links: list[Link] = []

    @property
    def now(self) -> Time:
        return self.environment.time

    def site(self, name: str, **options: object) -> Site:
        """A new broker of this id."""
        made = Site(self, name, **options)  # type: ignore[arg-type]
        self.sites.append(made)
        return made

    def link(self, near: Site, far: Site, settings: BridgeSettings | None = None) -> Link:
        """A network connector from one site to another."""
        made = Link(near, far, settings or BridgeSettings(name=f"to{far.name}"))
        self.links.append(made)
        return made

    def site_gone(self, site: Site) -> None:
        """All links of a site that died are cut."""
        for link in self.links:
            if link.near is site:
                link.near_is_gone()
            elif link.far is site:
                link.far_is_gone()

    def runs_timers(self) -> None:
        """What is due at the brokers is done, and what follows."""
        for site in self.sites:
            site.broker.run(self.now)
        self.settles()

    def settles(self) -> None:
        """Everything goes on until nothing moves."""
        for _ in range(MAX_ROUNDS):
            busy = False
            for site in self.sites:
                busy = site.turn() or busy
            for link in self.links:
                busy = link.turn() or busy
            for site in self.sites:
                site.broker.take_dirty()
            if not busy:
                return
        raise AssertionError("the network does not come to rest")
