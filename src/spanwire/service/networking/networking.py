"""Links and announcements of a broker, and questions to other brokers; started last and stopped first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.management.control import Operation
from spanwire.management.questions.questions import Questions, ReadStored, TraceCommands, nothing_stored
from spanwire.management.tasks import KeptTasks
from spanwire.network.bridge.duplex_bridge import AcceptedLink, DuplexAcceptor
from spanwire.network.demand.duplicate_suppression import NetworkRoutes
from spanwire.network.reports.known_brokers import Row
from spanwire.network.reports.message_questions import MessageQuestions
from spanwire.network.reports.network_reports import Ask, NetworkReports
from spanwire.service.administration.client_spread import ClientSpread
from spanwire.service.administration.connector_views import accepted_settings_view, count_rows
from spanwire.service.administration.link_resets import reset_link
from spanwire.service.networking.gossiping import make_gossip
from spanwire.service.networking.network_connectors import NetworkConnectors
from spanwire.service.networking.network_questions import BrokerQuestions, questions_of_brokers
from spanwire.service.published_addresses import announced_uri
from spanwire.transports.connector import TransportConnector
from spanwire.transports.loop.turn import Turn

if TYPE_CHECKING:  # loaded by name, because most brokers have no network connectors
    from spanwire.broker.explanation.links import LinkDescription
    from spanwire.network.connector.link import LinkView, NetworkConnectorSettings
    from spanwire.network.connector.network_connector import NetworkConnector
    from spanwire.service.administration.drains import Drains
    from spanwire.service.config.security.tls import Stores
    from spanwire.service.networking.announcements import Announcements

CLUSTER_INTERVAL: Final = 1.0  # seconds between two updates of the brokers that clients learn of
RUNNING: Final = "running"  # the state of an active link


class Networking:
    """The `NetworkConnectors` and announcements of a broker, and the duplex links of other brokers."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings], stores: Stores | None = None) -> None:
        """``stores`` are the broker's key and trust store, for connectors that an operator adds."""
        self.connectors: Final = NetworkConnectors(settings, stores)
        self._broker: Broker | None = None
        self._wake: Callable[[], None] = lambda: None
        self._announcements: Announcements | None = None
        self._routes: Final = NetworkRoutes()
        self._reports: NetworkReports | None = None
        self._asked: dict[str, MessageQuestions] = {}  # by the kind of question
        self._traces: TraceCommands | None = None
        self._acceptor: DuplexAcceptor | None = None
        self._announcing: asyncio.Task[None] | None = None
        self._spread: ClientSpread | None = None
        self._drains: Drains | None = None
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
            broker, self.views, self.connectors.peers, broker.environment,
            lambda peer, seconds, report: cast("Ask", registry.load(registry.NETWORK_QUESTION))(peer, seconds, report),
            lambda: [asdict(row) for row in broker.overview.ledger_links()], broker.overview.brokers_linked_here,
            lambda seconds, known: self.acceptor(broker).invite(seconds, known, turn.wake),
        )  # fmt: skip
        broker.assembly.control.reporter = self._reports
        questions = Questions(broker, broker.environment, read_stored, self)
        traces = self.traces(broker, turn.wake)
        self._asked = questions_of_brokers(broker, self.connectors.peers, turn.wake, questions, traces)
        broker.assembly.control.questions = BrokerQuestions(self._asked)
        gossip = make_gossip(broker, listening, self._accepted_names, turn.wake)
        broker.assembly.control.gossip = gossip

        def make(settings: NetworkConnectorSettings) -> NetworkConnector:
            connector = cast("type[NetworkConnector]", registry.load(registry.NETWORK_CONNECTOR))
            return connector(settings, broker, broker_url, turn, self._routes, lambda: gossip)

        host_name = broker.environment.host_name
        own = [connector.uri for connector in listening] + [announced_uri(one, host_name) for one in listening]
        await self.connectors.start(broker, make, own, turn.wake)
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
            for connector in self.connectors.all()
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
            self._drains = cast("type[Drains]", registry.load(registry.DRAINS))(self.connectors, broker, self._wake)
            self._tasks["D"] = self._drains
        return self._drains

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
        self.connectors.stop()

    async def reset_link(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Set counters of a link to 0 (`link_resets.reset_link`). Raises `ConfigurationError`."""
        assert self._broker is not None
        accepted = [] if self._acceptor is None else self._acceptor.links.values()
        monotonic = self._broker.environment.now().monotonic
        return reset_link(arguments, self.connectors.all(), accepted, monotonic)

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
            "network": self.network,
            "network-reset": self.reset_link,
            **self.connectors.operations(),
        }

    async def network(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the known brokers of the network with their links (`NetworkReports.network`)."""
        return {"brokers": []} if self._reports is None else await self._reports.network(arguments)

    def _accepted_names(self) -> list[str]:
        """Return the names of brokers with a duplex link opened to this broker."""
        return [] if self._acceptor is None else [bridge.remote.name for bridge in self._acceptor.bridges.values()]

    def settings_views(self) -> list[dict[str, object]]:
        """Return the settings of each connector, and of duplex connectors of others with a link here."""
        accepted = [] if self._acceptor is None else self._acceptor.bridges.values()
        return self.connectors.settings_views() + [accepted_settings_view(bridge) for bridge in accepted]

    def views(self) -> list[dict[str, object]]:
        """Return one view per link as plain values."""
        views = self.connectors.views()
        acceptor = self._acceptor
        if acceptor is None or not acceptor.links:
            return views
        accepted_view = cast("Callable[[AcceptedLink, float], LinkView]", registry.load(registry.ACCEPTED_VIEW))
        now = acceptor.now().monotonic
        return views + [asdict(accepted_view(link, now)) for link in acceptor.links.values()]

    def link_descriptions(self) -> list[LinkDescription]:
        """Return the reasons why messages do or do not cross each link."""
        descriptions = self.connectors.descriptions()
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
        yield from count_rows(self.connectors.all(), accepted, broker.environment.now().monotonic)
