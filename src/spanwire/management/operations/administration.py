"""An operator's removal of durable subscriptions, destinations and connections (control socket)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from spanwire.model.destination import QUEUE, Destination, parse_destination
from spanwire.model.environment import Time
from spanwire.model.errors import ConfigurationError
from spanwire.transports.base import Clock

View = dict[str, object]
MAX_NAMES: Final = 100  # names in one request; bounds the work of one turn


class AdministeredBroker(Protocol):
    """The part of the broker used here (``broker/admin/administration.py``)."""

    def remove_subscription(self, client_id: str, name: str, now: Time) -> int:
        """Delete a durable subscription. Returns the number of the pending messages."""
        ...

    def remove_destination(self, destination: Destination, now: Time) -> None:
        """Remove an empty and unused destination."""
        ...

    def disconnect(self, name: str, now: Time) -> list[str]:
        """Close connections. Returns the ids of the connections."""
        ...

    def create_destination(self, destination: Destination, now: Time) -> bool:
        """Create a queue or topic. Returns False for an existing destination."""
        ...

    def switch_statistics(self, destination: Destination, enabled: bool, now: Time) -> None:
        """Measure the messages of a queue or topic, or no longer."""
        ...

    def free_groups(self, destination: Destination, group: str | None, now: Time) -> int:
        """Take message groups of a queue from the groups' consumers."""
        ...

    def reset_statistics(self, destination: Destination, now: Time) -> None:
        """Set the counters of a queue or topic to 0."""
        ...


class BrokerAdministration:
    """Checks the arguments of requests, and calls the broker."""

    def __init__(self, broker: AdministeredBroker, clock: Clock, wake: Callable[[], None]) -> None:
        self._broker: Final = broker
        self._clock: Final = clock
        self._wake: Final = wake

    async def remove_subscription(self, arguments: Mapping[str, object]) -> View:
        """Delete the durable subscription of ``client_id`` and ``name``.

        Returns:
            ``removed``, the number of its pending messages.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: the broker refuses
        """
        client_id, name = arguments.get("client_id"), arguments.get("name")
        if not isinstance(client_id, str) or not isinstance(name, str):
            raise ConfigurationError("client_id and name are the texts that name a durable subscription")
        removed = self._broker.remove_subscription(client_id, name, self._clock.now())
        self._wake()
        return {"client_id": client_id, "name": name, "removed": removed}

    async def delete(self, arguments: Mapping[str, object]) -> list[View]:
        """Remove the ``destinations``, names of queues or topics without patterns.

        Destinations before the first refused one are removed.

        Raises:
            ConfigurationError: a name is invalid
            JmsError: the broker refuses
        """
        destinations = named_destinations(arguments)
        removed_views: list[View] = []
        for destination in destinations:
            self._broker.remove_destination(destination, self._clock.now())
            removed_views.append({"destination": destination.qualified_name})
        self._wake()
        return removed_views

    async def create(self, arguments: Mapping[str, object]) -> list[View]:
        """Create the ``destinations``, names of queues or topics without patterns.

        Returns:
            ``destination`` and ``created`` for each; existing destinations do not change.

        Raises:
            ConfigurationError: a name is invalid
            JmsError: the broker refuses
        """
        views: list[View] = []
        for destination in named_destinations(arguments):
            created = self._broker.create_destination(destination, self._clock.now())
            views.append({"destination": destination.qualified_name, "created": created})
        self._wake()
        return views

    async def statistics(self, arguments: Mapping[str, object]) -> list[View]:
        """Measure sizes and times of the messages of the ``destinations`` if ``enabled``, else no longer.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: there is no such destination
        """
        enabled = arguments.get("enabled")
        if not isinstance(enabled, bool):
            raise ConfigurationError("enabled is true or false")
        views: list[View] = []
        for destination in named_destinations(arguments):
            self._broker.switch_statistics(destination, enabled, self._clock.now())
            views.append({"destination": destination.qualified_name, "statistics_enabled": enabled})
        return views

    async def reset_statistics(self, arguments: Mapping[str, object]) -> list[View]:
        """Set the counters of the ``destinations`` to 0.

        Raises:
            ConfigurationError: a name is invalid
            JmsError: there is no such destination
        """
        views: list[View] = []
        for destination in named_destinations(arguments):
            self._broker.reset_statistics(destination, self._clock.now())
            views.append({"destination": destination.qualified_name})
        return views

    async def free_groups(self, arguments: Mapping[str, object]) -> list[View]:
        """Take the message ``group`` of the queues ``destinations`` from the group's consumer.

        Without ``group`` all groups are taken.
        Returns:
            ``destination`` and ``removed``, the number of groups, for each queue.

        Raises:
            ConfigurationError: an argument is invalid
            JmsError: there is no such queue
        """
        group = arguments.get("group")
        if group is not None and not isinstance(group, str):
            raise ConfigurationError("group is a text")
        views: list[View] = []
        for destination in named_destinations(arguments):
            removed = self._broker.free_groups(destination, group, self._clock.now())
            views.append({"destination": destination.qualified_name, "removed": removed})
        self._wake()
        return views

    async def disconnect(self, arguments: Mapping[str, object]) -> list[View]:
        """Close the connections of ``client``: a client id, a connection id or a remote address.

        Returns:
            ``connection_id`` for each closed connection.

        Raises:
            ConfigurationError: there is no such connection
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


def named_destinations(arguments: Mapping[str, object]) -> list[Destination]:
    """Return the ``destinations`` of a request. Raises `ConfigurationError`."""
    names = arguments.get("destinations")
    if not isinstance(names, list) or not 0 < len(names) <= MAX_NAMES:
        raise ConfigurationError(f"destinations is no list of 1 to {MAX_NAMES} names")
    destinations = [parse_destination(str(name), QUEUE) for name in names]
    for destination in destinations:
        if destination.is_pattern or destination.is_composite:
            raise ConfigurationError(f"{destination.qualified_name[:80]} is a pattern: name one destination")
    return destinations
