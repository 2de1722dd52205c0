"""Temporary destinations of clients of a remote broker, which are here so that replies find their way to them."""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.network.demand.advisory_reader import destination_announced, destination_removed
from spanwire.network.settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire


class RemoteTemporaries:
    """Makes and removes them for one bridge, whose connection here, ``client``, owns them.

    One that is gone there may still have a reply on its way: it is removed here when the bridge consumes from it no
    more. When the bridge ends, the broker removes all that are left.
    """

    def __init__(
        self, broker: Broker, client: ConnectionState, settings: BridgeSettings, remote_broker_id: str
    ) -> None:
        self._broker: Final[Broker] = broker
        self._client: Final[ConnectionState] = client
        self._settings: Final[BridgeSettings] = settings
        self._remote_broker_id: Final[str] = remote_broker_id
        self._departed: Final[dict[str, Destination]] = {}  # some of those that ``client`` owns

    def told(self, subject: wire.DestinationInfo, now: Time) -> None:
        """A client there made or removed one. Raises `JmsError` when it cannot be made here."""
        announced = destination_announced(subject)
        if announced is None:
            return
        destination = announced.destination
        if destination_removed(subject):
            self._remove(destination, now)
        elif self._settings.wants(destination, announced.path, self._broker.broker_id):
            self._departed.pop(destination.qualified_name, None)
            path = (*announced.path, self._remote_broker_id)
            self._broker.add_remote_temporary(self._client, destination, path, now)

    def consumer_gone(self, destination: Destination, now: Time) -> None:
        """The bridge has one subscription to ``destination`` less."""
        departed = self._departed.pop(destination.qualified_name, None)
        if departed is not None:
            self._remove(departed, now)

    def _remove(self, destination: Destination, now: Time) -> None:
        name = destination.qualified_name
        if name not in self._client.temporary:
            return
        home = self._broker.home_of(destination)
        if home is not None and home.consumer_count > 0:
            self._departed[name] = destination
        else:
            self._broker.remove_destination(self._client, destination, now)
