"""Network connectors and announcements of a broker; started last and stopped first."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.management.control import Operation
from spanwire.management.questions.questions import Questions, ReadStored, TraceCommands, nothing_stored
from spanwire.management.tasks import KeptTasks
from spanwire.model.environment import Environment
from spanwire.model.errors import ConfigurationError
from spanwire.network.bridge.duplex_bridge import AcceptedLink, DuplexAcceptor
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.reports.known_brokers import Peer, Row
from spanwire.network.reports.message_questions import MessageQuestions
from spanwire.network.reports.network_reports import Ask, NetworkReports
from spanwire.service.administration.client_spread import ClientSpread
from spanwire.service.administration.connector_views import (
    COMES_BACK,
    REMOVED,
    accepted_settings_view,
    answer_rows,
    connector_view,
    count_rows,
    course_view,
    durable_topics,
)
from spanwire.service.administration.link_resets import reset_link
from spanwire.service.networking.gossiping import make_gossip
from spanwire.service.networking.network_questions import BrokerQuestions, questions_of_brokers
from spanwire.service.published_addresses import announced_uri
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn

if TYPE_CHECKING:  # loaded by name, because most brokers have no network connectors
    from spanwire.broker.explanation.links import LinkDescription
    from spanwire.network.connector.link import Link, LinkView, NetworkConnectorSettings
    from spanwire.network.connector.network_connector import NetworkConnector
    from spanwire.service.administration.added_connectors import AddedConnectors, Attributes
    from spanwire.service.administration.drains import Drains
    from spanwire.service.config.security.tls import Stores
    from spanwire.service.networking.announcements import Announcements

    DrainLinks = Callable[[Sequence[Link], Environment, Callable[[], None]], Awaitable[None]]
    AskedFor = Callable[[Mapping[str, object], str], Attributes]
    ReadConnector = Callable[[Attributes, Stores | None], NetworkConnectorSettings]

logger = logging.getLogger(__name__)

MAX_CONNECTORS: Final = 100  # network connectors of a broker to which operators may add; each has up to 100 links
FIRST_NAME: Final = "NC"  # ActiveMQ's name for a network connector without one
MAX_NAMES: Final = 100  # connectors in one request; bounds the work of one request
CLUSTER_INTERVAL: Final = 1.0  # seconds between two updates of the brokers that clients learn of
RUNNING: Final = "running"  # the state of an active link


class Networking:
    """All network connectors and announcements of a broker, and the duplex links of other brokers."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings], stores: Stores | None = None) -> None:
        """``stores`` are the broker's key and trust store, for connectors that an operator adds."""
        self._stores: Final = stores
        self._configured: Final = {one.bridge.name: one for one in settings}
        self._connectors: Final[dict[str, NetworkConnector]] = {}
        self._make: Callable[[NetworkConnectorSettings], NetworkConnector] | None = None
        self._broker: Broker | None = None
        self._wake: Callable[[], None] = lambda: None
        self._own: list[str] = []  # addresses of this broker
        self._announcements: Announcements | None = None
        self._routes: Final = NetworkRoutes()
        self._reports: NetworkReports | None = None
        self._asked: dict[str, MessageQuestions] = {}  # by the kind of question
        self._traces: TraceCommands | None = None
        self._acceptor: DuplexAcceptor | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._spread: ClientSpread | None = None
        self._drains: Drains | None = None
        self._added: AddedConnectors | None = None
        self._tasks: dict[str, KeptTasks] = {}  # where the drains are listed

    def acceptor(self, broker: Broker) -> DuplexAcceptor:
        """Return the acceptor for duplex links of other brokers, shared by all connectors."""
        if self._acceptor is None:
            self._acceptor = DuplexAcceptor(broker, self._routes)
        return self._acceptor

    async def start(
        self,
        broker: Broker,
        broker_url: str,
        turn: Turn,
        listening: Sequence[TransportConnector] = (),
        read_stored: ReadStored = nothing_stored,
    ) -> None:
        """Announce this broker and start all connectors with autoStart.

        ``broker_url`` is this broker's address for remote brokers. ``listening`` are the transport connectors; a closed
        connector is announced at the start by an operator. ``read_stored`` reads messages for questions of others.

        Raises:
            ConfigurationError: a discovery group cannot be joined.
        """
        self._broker, self._wake = broker, turn.wake
        self._reports = NetworkReports(
            broker, self.views, self._peers, broker.environment,
            lambda peer, seconds, report: cast("Ask", registry.load(registry.NETWORK_QUESTION))(peer, seconds, report),
            lambda: [asdict(row) for row in broker.overview.ledger_links()], broker.overview.brokers_linked_here,
            lambda seconds, known: self.acceptor(broker).invite(seconds, known, turn.wake),
        )  # fmt: skip
        broker.assembly.control.reporter = self._reports
        questions = Questions(broker, broker.environment, read_stored, self)
        traces = self.traces(broker, turn.wake)
        self._asked = questions_of_brokers(broker, self._peers, turn.wake, questions, traces)
        broker.assembly.control.questions = BrokerQuestions(self._asked)
        gossip = make_gossip(broker, listening, self._accepted_names, turn.wake)
        broker.assembly.control.gossip = gossip
        self._make = lambda settings: cast("type[NetworkConnector]", registry.load(registry.NETWORK_CONNECTOR))(
            settings, broker, broker_url, turn, self._routes, lambda: gossip
        )
        host_name = broker.environment.host_name
        self._own = [connector.uri for connector in listening] + [
            announced_uri(listener, host_name) for listener in listening
        ]
        for settings in self._configured.values():
            connector = self._connectors[settings.bridge.name] = self._make(settings)
            if settings.auto_start:
                await connector.start(self._own)
        if broker.assembly.added_connectors.values:
            await self._start_added(self._kept_connectors(broker))
        for listener in listening:
            if listener.is_started:
                await self.announce(listener)
        self._spread = ClientSpread(listening, lambda listener: self._brokers_for(listener, host_name), turn.wake)
        if broker.assembly.drains.values:
            await self._kept_drains(broker).go_on()
        if any(listener.cluster.announces for listener in listening):
            announcing = self._announce_brokers(listening, host_name, turn)
            self._announcing = asyncio.get_running_loop().create_task(announcing)

    async def _announce_brokers(self, listening: Sequence[TransportConnector], host_name: str, turn: Turn) -> None:
        """Send clients of connectors with updateClusterClients the brokers with links to or from this broker."""
        while True:
            for listener in listening:
                cluster = listener.cluster
                if cluster.announces:
                    known = cluster.brokers
                    cluster.change(self._brokers_for(listener, host_name))
                    is_changed = cluster.brokers is not known
                    while is_changed:
                        turn.wake()  # no client has sent anything, so nothing else would flush what it is sent
                        is_changed = cluster.announce_more()
                        await asyncio.sleep(0)
            await asyncio.sleep(CLUSTER_INTERVAL)

    def _brokers_for(self, listener: TransportConnector, host_name: str) -> list[str]:
        """Return the addresses of this broker and of linked brokers, as clients of a connector may learn of."""
        linked = [
            (view.uri, view.remote)
            for connector in self._connectors.values()
            for view in connector.views()
            if view.state == RUNNING
        ]
        if self._acceptor is not None:
            linked += self._acceptor.remote_brokers()
        others = [uri for uri, name in sorted(linked) if listener.cluster.is_announced(name)]
        return list(dict.fromkeys([announced_uri(listener, host_name), *others]))

    async def rebalance(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Spread clients over the linked brokers (`ClientSpread.rebalance`). Raises `ConfigurationError`."""
        return [] if self._spread is None else await self._spread.rebalance(arguments)

    async def drain(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Begin to drain the broker (`Drains.start`). Raises `ConfigurationError`."""
        assert self._broker is not None
        return await self._kept_drains(self._broker).start(arguments)

    def _kept_drains(self, broker: Broker) -> Drains:
        if self._drains is None:
            self._drains = cast("type[Drains]", registry.load(registry.DRAINS))(self, broker, self._wake)
            self._tasks["D"] = self._drains
        return self._drains

    async def drain_links(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Stop the network connectors among the names in ``connectors`` after the last message on the way.

        Their links take no further messages meanwhile. Returns a view of each link.

        Raises:
            ConfigurationError: a name is unknown, or messages get no answer; the links then go on.
        """
        connectors = self._named(arguments)
        assert self._broker is not None
        drain = cast("DrainLinks", registry.load(registry.DRAIN_LINKS))
        await drain(
            [link for connector in connectors for link in connector.links()], self._broker.environment, self._wake
        )
        for connector in connectors:
            connector.end()
        return [asdict(view) for connector in connectors for view in connector.views()]

    async def announce(self, listener: TransportConnector) -> None:
        """Announce an open connector to the discovery group, if there is a group.

        Raises:
            ConfigurationError: the group cannot be joined.
        """
        group = listener.settings.discovery_uri
        if not group or self._broker is None:
            return
        if self._announcements is None:
            self._announcements = cast("type[Announcements]", registry.load(registry.ANNOUNCEMENTS))()
        await self._announcements.add(group, announced_uri(listener, self._broker.environment.host_name))

    def withdraw(self, listener: TransportConnector) -> None:
        """Announce the farewell of a connector stopped by an operator."""
        group = listener.settings.discovery_uri
        if group and self._announcements is not None and self._broker is not None:
            self._announcements.remove(group, announced_uri(listener, self._broker.environment.host_name))

    async def replace(
        self, removed: Sequence[NetworkConnectorSettings], added: Sequence[NetworkConnectorSettings]
    ) -> list[str]:
        """Stop some connectors and start others; a changed connector is in both arguments.

        Returns:
            One line for each connector that failed to start; an operator can start it later.
        """
        for settings in removed:
            self._configured.pop(settings.bridge.name, None)
            connector = self._connectors.pop(settings.bridge.name, None)
            if connector is not None:
                connector.end()
        self._configured.update((one.bridge.name, one) for one in added)
        if self._added is not None:
            self._added.give_way(list(self._configured))
        failed = await self._open(added)
        return [f"network connector {settings.bridge.name} is not started: {error}" for settings, error in failed]

    async def _open(
        self, opened: Iterable[NetworkConnectorSettings]
    ) -> list[tuple[NetworkConnectorSettings, ConfigurationError]]:
        """Make connectors and let them connect; return failed connectors with the reason."""
        failed: list[tuple[NetworkConnectorSettings, ConfigurationError]] = []
        make = self._make
        if make is None:
            return failed
        for settings in opened:
            former = self._connectors.pop(settings.bridge.name, None)  # one that an operator has added
            if former is not None:
                former.end()
            try:
                connector = self._connectors[settings.bridge.name] = make(settings)
                if settings.auto_start:
                    await connector.start(self._own)
            except ConfigurationError as error:
                failed.append((settings, error))
        return failed

    async def _start_added(self, added: AddedConnectors) -> None:
        added.give_way(list(self._configured))
        for settings, error in await self._open(added.recovered()):
            added.report(settings.bridge.name, error)

    def stop(self) -> None:
        """Withdraw announcements and stop connecting. Open links end with their connections. May be repeated."""
        if self._drains is not None:
            self._drains.stop()
        if self._reports is not None:
            self._reports.stop()
        for asked in self._asked.values():
            asked.stop()
        if self._announcing is not None:
            self._announcing.cancel()
            self._announcing = None
        if self._announcements is not None:
            self._announcements.stop()
        for connector in self._connectors.values():
            connector.stop()

    async def start_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Start the stopped network connectors among the names in ``connectors``; return a view of each link.

        Raises:
            ConfigurationError: a name is unknown.
        """
        connectors = self._named(arguments)
        make = self._make
        for index, connector in enumerate(connectors):
            if connector.is_started or make is None:
                continue
            started = connectors[index] = make(connector.settings)  # a connector can be started only once
            started.stopped_ms = connector.stopped_ms
            self._connectors[connector.settings.bridge.name] = started
            await started.start(self._own)
        return [asdict(view) for connector in connectors for view in connector.views()]

    async def stop_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Stop network connectors until an operator starts them; return links. Raises `ConfigurationError`."""
        connectors = self._named(arguments)
        for connector in connectors:
            connector.end()
        return [asdict(view) for connector in connectors for view in connector.views()]

    async def add_connector(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Add the network connector ``name`` with the addresses ``uri`` until the next start of the broker.

        ``settings`` has further attributes of ``<networkConnector>``, and lists of destinations by the names of its
        elements. The first one without a name is called NC, the next one NC-2.

        Returns a view of each link.

        Raises:
            ConfigurationError: an argument is refused, the name is taken, or there are `MAX_CONNECTORS` connectors
        """
        return answer_rows((await self._add(arguments))[1])

    async def keep_connector(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Add a network connector as `add_connector` does, and keep it over starts of the broker.

        Where it is not kept, the rows have a ``note`` with the reason. Raises `ConfigurationError`.
        """
        assert self._broker is not None
        attributes, connector = await self._add(arguments)
        added = self._kept_connectors(self._broker)
        note = await added.keep(connector.settings.bridge.name, attributes, list(self._configured))
        return answer_rows(connector, note=note)

    async def _add(self, arguments: Mapping[str, object]) -> tuple[Attributes, NetworkConnector]:
        attributes = cast("AskedFor", registry.load(registry.ASKED_FOR))(arguments, self._free_name())
        if len(self._connectors) >= MAX_CONNECTORS:
            raise ConfigurationError(f"there are {MAX_CONNECTORS} network connectors: remove one")
        settings = cast("ReadConnector", registry.load(registry.READ_CONNECTOR))(attributes, self._stores)
        make = self._make
        if make is None:
            raise ConfigurationError("the broker has not started yet")
        if settings.bridge.name in self._connectors:
            raise ConfigurationError(f"there is a network connector {settings.bridge.name[:100]} already")
        connector = self._connectors[settings.bridge.name] = make(settings)
        try:
            await connector.start(self._own)
        except ConfigurationError:
            del self._connectors[settings.bridge.name]
            raise
        return attributes, connector

    def _kept_connectors(self, broker: Broker) -> AddedConnectors:
        if self._added is None:
            added = cast("type[AddedConnectors]", registry.load(registry.ADDED_CONNECTORS))
            self._added = added(broker, self._stores, self._wake)
        return self._added

    def _free_name(self) -> str:
        taken = {*self._connectors, *self._configured, *([] if self._added is None else self._added.names())}
        numbers = itertools.count(2)
        name = FIRST_NAME
        while name in taken:
            name = f"{FIRST_NAME}-{next(numbers)}"
        return name

    async def remove_connectors(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """End links and forget their network connectors; the configuration's come back with the next start.

        Raises `ConfigurationError`.
        """
        added = self._added
        unread = [] if added is None else [name for name in added.names() if name not in self._connectors]
        connectors = self._named(arguments, unread)
        rows: list[dict[str, object]] = []
        for connector in connectors:
            connector.end()
            self._connectors.pop(connector.settings.bridge.name, None)
            note = COMES_BACK if connector.settings.bridge.name in self._configured else ""
            rows += answer_rows(connector, REMOVED, note)
        if added is not None:
            rows += await added.forget(cast("list[str]", arguments["connectors"]), unread)
        return rows

    async def reset_link(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Set counters of a link to 0 (`link_resets.reset_link`). Raises `ConfigurationError`."""
        assert self._broker is not None
        accepted = [] if self._acceptor is None else self._acceptor.links.values()
        monotonic = self._broker.environment.now().monotonic
        return reset_link(arguments, self._connectors.values(), accepted, monotonic)

    def _named(self, arguments: Mapping[str, object], others: Sequence[str] = ()) -> list[NetworkConnector]:
        """Return the named connectors; ``others`` are names without one. Raises `ConfigurationError`."""
        names = arguments.get("connectors")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"connectors must be a list of 1 to {MAX_NAMES} names of network connectors")
        for name in names:
            if name not in self._connectors and name not in others:
                known = ", ".join([*self._connectors, *others]) or "none"
                raise ConfigurationError(f"unknown network connector {str(name)[:100]}; known are {known}")
        return [self._connectors[name] for name in dict.fromkeys(names) if name in self._connectors]

    def status(self) -> dict[str, object]:
        """Return the links and the settings of the connectors for the broker's status."""
        return {"network_connectors": self.views(), "network_settings": self.settings_views()}

    def operations(self, tasks: dict[str, KeptTasks]) -> dict[str, Operation]:
        """Return the operations on network connectors by their commands; the drains are listed in ``tasks``."""
        if self._drains is not None:
            tasks["D"] = self._drains
        self._tasks = tasks
        return {
            "connector-rebalance": self.rebalance,
            "drain": self.drain,
            "link-drain": self.drain_links,
            "network": self.network,
            "network-add": self.keep_connector,
            "network-remove": self.remove_connectors,
            "network-reset": self.reset_link,
            "network-start": self.start_connectors,
            "network-stop": self.stop_connectors,
        }

    async def network(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the known brokers of the network with their links (`NetworkReports.network`)."""
        return {"brokers": []} if self._reports is None else await self._reports.network(arguments)

    def _accepted_names(self) -> list[str]:
        """Return the names of brokers with a duplex link opened to this broker."""
        return [] if self._acceptor is None else [bridge.remote.name for bridge in self._acceptor.bridges.values()]

    def _peers(self) -> list[Peer]:
        return [peer for connector in self._connectors.values() for peer in connector.peers()]

    def settings_views(self) -> list[dict[str, object]]:
        """Return the settings of each connector, and of duplex connectors of others with a link here."""
        accepted = [] if self._acceptor is None else self._acceptor.bridges.values()
        here = [
            {
                **connector_view(connector.settings),
                "durableDestinations": durable_topics(self._broker, connector.settings.bridge),
                **course_view(connector),
            }
            for connector in self._connectors.values()
        ]
        return here + [accepted_settings_view(bridge) for bridge in accepted]

    def definitions(self) -> list[dict[str, object]]:
        """Return the definition of each connector of this broker."""
        define = cast("Callable[..., dict[str, object]]", registry.load(registry.NETWORK_DEFINITION))
        return [
            define(connector.settings, is_started=connector.is_started, stores=self._stores)
            for connector in self._connectors.values()
        ]

    def views(self) -> list[dict[str, object]]:
        """Return one view per link as plain values."""
        views = [asdict(view) for connector in self._connectors.values() for view in connector.views()]
        acceptor = self._acceptor
        if acceptor is None or not acceptor.links:
            return views
        accepted_view = cast("Callable[[AcceptedLink, float], LinkView]", registry.load(registry.ACCEPTED_VIEW))
        now = acceptor.now().monotonic
        return views + [asdict(accepted_view(link, now)) for link in acceptor.links.values()]

    def link_descriptions(self) -> list[LinkDescription]:
        """Return the reasons why messages do or do not cross each link."""
        descriptions = [one for connector in list(self._connectors.values()) for one in connector.descriptions()]
        acceptor = self._acceptor
        if acceptor is None or not acceptor.links:
            return descriptions
        accepted = cast(
            "Callable[[AcceptedLink, float], LinkDescription]", registry.load(registry.ACCEPTED_DESCRIPTION)
        )
        now = acceptor.now().monotonic
        return descriptions + [accepted(link, now) for link in acceptor.links.values()]

    async def explain_everywhere(self, message_id: str) -> list[Row]:
        """Return the explanations of this broker and the brokers behind about a message."""
        return await self.ask_everywhere("why", message_id)

    async def ask_everywhere(self, action: str, text: str) -> list[Row]:
        """Return the answers of this broker and the brokers behind to a question of some kind."""
        asked = self._asked.get(action)
        return [] if asked is None else await asked.explain(text)

    def traces(self, broker: Broker, wake: Callable[[], None]) -> TraceCommands:
        """Return the traces of the broker, the same for operators and for other brokers."""
        if self._traces is None:
            self._traces = TraceCommands(broker, broker.environment, wake, self)
        return self._traces

    def count_rows(self) -> Iterator[dict[str, object]]:
        """Yield the messages of each link by direction and destination."""
        broker = self._broker
        if broker is None:
            return
        accepted = [] if self._acceptor is None else self._acceptor.links.values()
        yield from count_rows(self._connectors.values(), accepted, broker.environment.now().monotonic)
