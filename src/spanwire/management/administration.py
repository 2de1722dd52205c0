"""What an operator removes or ends over the control socket: durable subscriptions, destinations, connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock

View = dict[str, object]
MAX_NAMES: Final = 100  # of one request


class AdministeredBroker(Protocol):
    """The part of the broker that does it (``broker/admin/administration.py``)."""

    def remove_subscription(self, client_id: str, name: str, now: Time) -> int:
        """Delete a durable subscription; gives how many messages waited for it."""
        ...

    def remove_destination(self, destination: Destination, now: Time) -> None:
        """Remove a destination that is empty and not in use."""
        ...

    def disconnect(self, name: str, now: Time) -> list[str]:
        """Close connections; gives their ids."""
        ...


class BrokerAdministration:
    """Checks what is asked for and has the broker do it."""

    def __init__(self, broker: AdministeredBroker, clock: Clock, wake: Callable[[], None]) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake

    async def remove_subscription(self, arguments: Mapping[str, object]) -> View:
        """``client_id`` and ``name`` of a durable subscription. Gives ``removed``, the messages that waited for it.

        Raises `ConfigurationError` and `JmsError`.
        """
        client_id, name = arguments.get("client_id"), arguments.get("name")
        if not isinstance(client_id, str) or not isinstance(name, str):
            raise ConfigurationError("client_id and name are the texts that name a durable subscription")
        removed = self._broker.remove_subscription(client_id, name, self._clock.now())
        self._wake()
        return {"client_id": client_id, "name": name, "removed": removed}

    async def delete(self, arguments: Mapping[str, object]) -> list[View]:
        """``destinations``: names of queues or topics, without patterns. Those before the first that is refused are
        removed. Raises `ConfigurationError` and `JmsError`.
        """
        names = arguments.get("destinations")
        if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
            raise ConfigurationError(f"destinations is no list of 1 to {MAX_NAMES} names")
        destinations = [parse_destination(str(name), QUEUE) for name in names]
        for destination in destinations:
            if destination.is_pattern or destination.is_composite:
                raise ConfigurationError(f"{destination.qualified_name[:80]} is a pattern: name one destination")
        removed_views: list[View] = []
        for destination in destinations:
            self._broker.remove_destination(destination, self._clock.now())
            removed_views.append({"destination": destination.qualified_name})
        self._wake()
        return removed_views

    async def disconnect(self, arguments: Mapping[str, object]) -> list[View]:
        """``client``: a client id, a connection id or a remote address. Gives ``connection_id`` for each connection
        that is closed. Raises `ConfigurationError` when there is none.
        """
        name = arguments.get("client")
        if not isinstance(name, str) or not name:
            raise ConfigurationError("client is a client id, a connection id or a remote address")
        closed = self._broker.disconnect(name, self._clock.now())
        if not closed:
            raise ConfigurationError(
                f"no client {name[:80]} is connected; spanwire query -QConnection='*' lists those that are"
            )
        self._wake()
        return [{"connection_id": connection_id} for connection_id in closed]
