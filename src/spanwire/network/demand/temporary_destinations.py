"""Local copies of temporary destinations of a remote broker's clients, for replies to the clients."""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.network.demand.advisory_reader import announced_destination, is_removal
from spanwire.network.demand.bridge_settings import BridgeSettings
from spanwire.protocols.openwire.codec import _marshallers as wire


class TemporaryDestinations:
    """Creates and removes the copies for a bridge; the bridge's local connection ``client`` is the owner.

    After the remote client has removed a destination, a reply may still be on the way. So the copy is removed after the
    bridge's last subscription. At the end of the bridge the broker removes all copies.
    """

    def __init__(
        self, broker: Broker, client: ConnectionState, settings: BridgeSettings, remote_broker_id: str
    ) -> None:
        self._broker: Final[Broker] = broker
        self._client: Final[ConnectionState] = client
        self._settings: Final[BridgeSettings] = settings
        self._remote_broker_id: Final[str] = remote_broker_id
        self._pending_removals: Final[dict[str, Destination]] = {}  # copies that ``client`` still owns

    def on_advisory(self, subject: wire.DestinationInfo, now: Time) -> None:
        """Make or remove the copy of a temporary destination. Raises `JmsError` on failure."""
        announced = announced_destination(subject)
        if announced is None:
            return
        destination = announced.destination
        if is_removal(subject):
            self._remove(destination, now)
        elif self._settings.is_demand(destination, announced.path, self._broker.broker_id):
            self._pending_removals.pop(destination.qualified_name, None)
            path = (*announced.path, self._remote_broker_id)
            self._broker.add_remote_temporary(self._client, destination, path, now)

    def on_demand_ended(self, destination: Destination, now: Time) -> None:
        """Remove the copy of ``destination`` if the removal waited for the end of a subscription."""
        departed = self._pending_removals.pop(destination.qualified_name, None)
        if departed is not None:
            self._remove(departed, now)

    def _remove(self, address: Destination, now: Time) -> None:
        name = address.qualified_name
        if name not in self._client.temporary:
            return
        destination = self._broker.find_destination(address)
        if destination is not None and destination.consumer_count > 0:
            self._pending_removals[name] = address
        else:
            self._broker.remove_destination(self._client, address, now)
