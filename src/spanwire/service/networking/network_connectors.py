"""The network connectors of a broker by name, and what operators do with them."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.broker.broker import Broker
from spanwire.management.control import Operation
from spanwire.model.environment import Environment
from spanwire.model.errors import ConfigurationError
from spanwire.network.reports.known_brokers import Peer
from spanwire.service.administration.connector_views import (
    COMES_BACK,
    REMOVED,
    answer_rows,
    connector_view,
    course_view,
    durable_topics,
)

if TYPE_CHECKING:  # loaded by name, because most brokers have no network connectors
    from spanwire.broker.explanation.links import LinkDescription
    from spanwire.network.connector.link import Link, NetworkConnectorSettings
    from spanwire.network.connector.network_connector import NetworkConnector
    from spanwire.service.administration.added_connectors import AddedConnectors, Attributes
    from spanwire.service.config.security.tls import Stores

    DrainLinks = Callable[[Sequence[Link], Environment, Callable[[], None]], Awaitable[None]]
    AskedFor = Callable[[Mapping[str, object], str], Attributes]
    ReadConnector = Callable[[Attributes, Stores | None], NetworkConnectorSettings]

MAX_CONNECTORS: Final = 100  # network connectors of a broker to which operators may add; each has up to 100 links
FIRST_NAME: Final = "NC"  # ActiveMQ's name for a network connector without one
MAX_NAMES: Final = 100  # connectors in one request; bounds the work of one request


class NetworkConnectors:
    """The connectors of the configuration and those that operators added, running or stopped."""

    def __init__(self, settings: Sequence[NetworkConnectorSettings], stores: Stores | None = None) -> None:
        """``stores`` are the broker's key and trust store, for connectors that an operator adds."""
        self._stores: Final = stores
        self._configured: Final = {one.bridge.name: one for one in settings}
        self._connectors: Final[dict[str, NetworkConnector]] = {}
        self._make: Callable[[NetworkConnectorSettings], NetworkConnector] | None = None
        self._broker: Broker | None = None
        self._wake: Callable[[], None] = lambda: None
        self._own: list[str] = []  # addresses of this broker
        self._added: AddedConnectors | None = None

    async def start(
        self,
        broker: Broker,
        make: Callable[[NetworkConnectorSettings], NetworkConnector],
        own: list[str],
        wake: Callable[[], None],
    ) -> None:
        """Start all connectors with autoStart; ``own`` are the addresses of this broker."""
        self._broker, self._make, self._own, self._wake = broker, make, own, wake
        for settings in self._configured.values():
            connector = self._connectors[settings.bridge.name] = make(settings)
            if settings.auto_start:
                await connector.start(own)
        if broker.assembly.added_connectors.values:
            await self._start_added(self._kept_connectors(broker))

    def stop(self) -> None:
        """Stop connecting. Open links end with their connections. May be repeated."""
        for connector in self._connectors.values():
            connector.stop()

    def all(self) -> list[NetworkConnector]:
        """Return all connectors."""
        return list(self._connectors.values())

    def operations(self) -> dict[str, Operation]:
        """Return the operations on connectors by their commands."""
        return {
            "link-drain": self.drain_links,
            "network-add": self.keep_connector,
            "network-remove": self.remove_connectors,
            "network-start": self.start_connectors,
            "network-stop": self.stop_connectors,
        }

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

    def peers(self) -> list[Peer]:
        """Return the brokers at the other ends of the links."""
        return [peer for connector in self._connectors.values() for peer in connector.peers()]

    def definitions(self) -> list[dict[str, object]]:
        """Return the definition of each connector of this broker."""
        define = cast("Callable[..., dict[str, object]]", registry.load(registry.NETWORK_DEFINITION))
        return [
            define(connector.settings, is_started=connector.is_started, stores=self._stores)
            for connector in self._connectors.values()
        ]

    def settings_views(self) -> list[dict[str, object]]:
        """Return the settings of each connector."""
        return [
            {
                **connector_view(connector.settings),
                "durableDestinations": durable_topics(self._broker, connector.settings.bridge),
                **course_view(connector),
            }
            for connector in self._connectors.values()
        ]

    def views(self) -> list[dict[str, object]]:
        """Return one view per link as plain values."""
        return [asdict(view) for connector in self._connectors.values() for view in connector.views()]

    def descriptions(self) -> list[LinkDescription]:
        """Return the reasons why messages do or do not cross each link."""
        return [one for connector in self.all() for one in connector.descriptions()]
