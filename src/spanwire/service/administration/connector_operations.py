"""An operator's operations on the transport connectors of a running broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

from spanwire import registry
from spanwire.management.views import connector_row
from spanwire.model.errors import ConfigurationError
from spanwire.transports.admission import Admission
from spanwire.transports.connector import TransportConnector

if TYPE_CHECKING:
    from spanwire.service.config.security.tls import Stores
    from spanwire.transports.base import ConnectorSettings

    ReadListener = Callable[[Mapping[str, str], Stores | None], ConnectorSettings]

MAX_NAMES: Final = 100  # connectors in one request
CLOSE_S: Final = 1.0  # seconds that the answer waits for closed connections
POLL_S: Final = 0.02  # seconds between two looks at them
MAX_CONNECTORS: Final = 100  # connectors of a broker to which operators may add
CLOSED_PER_TURN: Final = 20  # connections closed in one turn; the broker cleans up after each

Open = Callable[[TransportConnector], Awaitable[None]]
Withdraw = Callable[[TransportConnector], None]
Make = Callable[[str, str | None, Mapping[str, str]], TransportConnector]


class ConnectorOperations:
    """Starts, stops, adds and removes connectors by name."""

    def __init__(self, connectors: list[TransportConnector], start: Open, withdraw: Withdraw, make: Make) -> None:
        """``start`` opens a connector, or raises `SpanwireError` for a taken port or a forbidden opening.

        ``withdraw`` ends the announcement of a stopped connector. ``make`` returns a closed connector of an address, a
        name and further attributes, and raises `ConfigurationError` for refused values.
        """
        self._connectors: Final = connectors
        self._make: Final = make
        self._start: Final = start
        self._withdraw: Final = withdraw

    async def start(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Start the closed connectors among the names in ``connectors``; return a view of each.

        Raises:
            ConfigurationError: a name is unknown, a connector has been removed meanwhile, or the port would be open to
                other machines without users
            TransportError: the port cannot be taken
        """
        chosen = self._named(arguments)
        for connector in chosen:
            if not connector.is_started:
                await self._start_listed(connector)
        return [connector_row(connector) for connector in chosen]

    async def stop(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Stop connectors until a start by an operator, and close the connections; return a view of each.

        Raises:
            ConfigurationError: a name is unknown
        """
        return await self._stop(self._named(arguments))

    async def add(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Open a connector at the address ``uri``, with a ``name`` if any; return its view.

        ``settings`` has further attributes of ``<transportConnector>``.

        Raises:
            ConfigurationError: an argument is refused, the name is taken, there are `MAX_CONNECTORS`, the connector has
                been removed meanwhile, or the port would be open to other machines without users
            TransportError: the port cannot be taken
        """
        uri, name, settings = arguments.get("uri"), arguments.get("name"), arguments.get("settings", {})
        if not isinstance(uri, str) or not (name is None or (isinstance(name, str) and name)):
            raise ConfigurationError("uri and name are texts")
        if not isinstance(settings, dict) or not all(isinstance(value, str) for value in settings.values()):
            raise ConfigurationError("settings is an object of texts: attributes of <transportConnector>")
        if len(self._connectors) >= MAX_CONNECTORS:
            raise ConfigurationError(f"there are {MAX_CONNECTORS} connectors: remove one")
        connector = self._make(uri, name, settings)
        if any(connector.name == other.name for other in self._connectors):
            raise ConfigurationError(f"there is a connector {connector.name[:100]} already")
        self._connectors.append(connector)
        try:
            await self._start_listed(connector)
        except BaseException:
            self._forget(connector)
            raise
        return [connector_row(connector)]

    async def remove(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Stop connectors as `stop` does, and forget the connectors until the next start of the broker.

        Raises:
            ConfigurationError: a name is unknown
        """
        chosen = self._named(arguments)
        for connector in chosen:
            self._forget(connector)  # first, so that nobody starts one while its connections close
        return await self._stop(chosen)

    async def reset(self, arguments: Mapping[str, object]) -> list[dict[str, object]]:
        """Set the counters of connectors to 0; return a view of each.

        Raises:
            ConfigurationError: a name is unknown
        """
        chosen = self._named(arguments)
        for connector in chosen:
            connector.accepted = connector.refused = 0
        return [connector_row(connector) for connector in chosen]

    async def _start_listed(self, connector: TransportConnector) -> None:
        """Start a connector, and close the connector again after a removal during the start.

        A start resolves the host and takes the port, so an operator can remove the connector meanwhile.
        """
        await self._start(connector)
        if connector not in self._connectors:
            await self._close(connector)
            raise ConfigurationError(f"connector {connector.name[:100]} has been removed meanwhile")

    async def _stop(self, connectors: Sequence[TransportConnector]) -> list[dict[str, object]]:
        for connector in connectors:
            await self._close(connector)
        await self._closed(connectors)
        return [connector_row(connector) for connector in connectors]

    async def _close(self, connector: TransportConnector) -> None:
        if connector.is_started:
            self._withdraw(connector)
        connector.stop()
        for index, transport in enumerate(connector.open_transports(), 1):
            transport.close()
            if index % CLOSED_PER_TURN == 0:
                await asyncio.sleep(0)
        connector.end_sessions()

    def _forget(self, connector: TransportConnector) -> None:
        if connector in self._connectors:
            self._connectors.remove(connector)

    async def _closed(self, connectors: Sequence[TransportConnector]) -> None:
        """Wait until the connections are closed, for `CLOSE_S` seconds at most; slow clients take longer."""
        for _ in range(int(CLOSE_S / POLL_S)):
            if not any(connector.connection_count for connector in connectors):
                return
            await asyncio.sleep(POLL_S)

    def _named(self, arguments: Mapping[str, object]) -> list[TransportConnector]:
        names = arguments.get("connectors")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"connectors must be a list of 1 to {MAX_NAMES} names of connectors")
        by_name = {connector.name: connector for connector in self._connectors}
        for name in names:
            if not isinstance(name, str) or name not in by_name:
                raise ConfigurationError(
                    f"unknown connector {str(name)[:100]}; known are {', '.join(by_name) or 'none'}"
                )
        return [by_name[name] for name in dict.fromkeys(names)]


def connector_maker(stores: Stores | None, admission: Admission) -> Make:
    """Return a function to make a closed connector with the broker's key store (`ConnectorOperations`)."""

    def make(uri: str, name: str | None, settings: Mapping[str, str]) -> TransportConnector:
        read = cast("ReadListener", registry.load(registry.READ_LISTENER))
        attributes = {**settings, "uri": uri} if name is None else {**settings, "uri": uri, "name": name}
        return TransportConnector(read(attributes, stores), admission)

    return make
