"""Reads advisories of a remote broker about consumers and temporary destinations."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import Destination
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.ids import ConsumerId
from spanwire.model.info import ConsumerInfo
from spanwire.model.routing import MAX_PATH
from spanwire.network.demand.demand_subscription import RemoteConsumer
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.messages.identities import consumer_id_of, destination_of

REMOVE_OPERATION: Final = 1
MAX_REMEMBERED: Final = 1_000  # shared connection ids, destinations and paths; then sharing starts anew


class AnnouncedDestination:
    """A temporary destination of a remote client, and the brokers on the way before the remote one."""

    __slots__ = ("destination", "path")

    def __init__(self, destination: Destination, path: tuple[str, ...]) -> None:
        self.destination: Final[Destination] = destination
        self.path: Final[tuple[str, ...]] = path


class AdvisoryReader:
    """Reads the data structures of advisories and shares equal parts, such as connection ids.

    Raises `JmsError` for long paths, because clients of the remote broker can forge paths. Consumers with a long path
    are no demand, and the bridge stays open.
    """

    def __init__(self) -> None:
        self._texts: Final[dict[str, str]] = {}
        self._destinations: Final[dict[str, Destination]] = {}
        self._paths: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}

    def consumer(self, subject: wire.ConsumerInfo, remote_broker_id: str) -> RemoteConsumer | None:
        """Return the announced consumer, or None for a destination that cannot exist here."""
        try:
            destination = self._destination(subject.destination)
        except InvalidDestinationError:
            return None
        info = ConsumerInfo(
            self._consumer_id(subject.consumer_id),
            destination,
            selector=subject.selector,
            subscription_name=subject.subscription_name,
            client_id=subject.client_id,
            browser=subject.browser,
            exclusive=subject.exclusive,
            priority=min(max(subject.priority, -128), 127),
            network_subscription=subject.network_subscription,
            network_consumer_path=self._consumers(subject.network_consumer_path),
        )
        return RemoteConsumer(info, self._path((*path_of(subject.broker_path), remote_broker_id)))

    def removed_consumer_id(self, subject: wire.RemoveInfo) -> ConsumerId | None:
        """Return the id of the removed consumer, or None after the removal of another object."""
        object_id = subject.object_id
        return consumer_id_of(object_id) if isinstance(object_id, wire.ConsumerId) else None

    def _destination(self, structure: wire.ActiveMQDestination | None) -> Destination:
        destination = destination_of(structure)
        destination.parts()
        if len(self._destinations) >= MAX_REMEMBERED:
            self._destinations.clear()
        return self._destinations.setdefault(destination.qualified_name, destination)

    def _path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        if len(self._paths) >= MAX_REMEMBERED:
            self._paths.clear()
        return self._paths.setdefault(path, path)

    def _consumer_id(self, structure: wire.ConsumerId | None) -> ConsumerId:
        consumer_id = consumer_id_of(structure)
        if len(self._texts) >= MAX_REMEMBERED:
            self._texts.clear()
        connection_id = self._texts.setdefault(consumer_id.connection_id, consumer_id.connection_id)
        return ConsumerId(connection_id, consumer_id.session_id, consumer_id.value)

    def _consumers(self, ids: list[wire.ConsumerId] | None) -> tuple[ConsumerId, ...]:
        if ids is None:
            return ()
        if len(ids) > MAX_PATH:
            raise JmsError(f"a subscription has a path of {len(ids)} consumers; at most {MAX_PATH} are allowed")
        return tuple([self._consumer_id(one) for one in ids])


def announced_destination(subject: wire.DestinationInfo) -> AnnouncedDestination | None:
    """Return the announced temporary destination; None for other destinations."""
    try:
        destination = destination_of(subject.destination)
    except InvalidDestinationError:
        return None
    if not destination.is_temporary or destination.is_composite or destination.is_pattern:
        return None
    return AnnouncedDestination(destination, path_of(subject.broker_path))


def is_removal(subject: wire.DestinationInfo) -> bool:
    """Return True if the destination was removed."""
    return subject.operation_type == REMOVE_OPERATION


def path_of(ids: list[wire.BrokerId] | None) -> tuple[str, ...]:
    """Return a broker path. Raises `JmsError` for long paths."""
    if ids is None:
        return ()
    if len(ids) > MAX_PATH:
        raise JmsError(f"a subscription has a path of {len(ids)} brokers; at most {MAX_PATH} are allowed")
    return tuple([broker_id.value or "" for broker_id in ids])
