"""Creation and removal of queues and topics.

Causes are an announcement, the first use, and the end of the owner's connection.

Destinations are made and removed only here. Rights are checked, the store remembers queues, waiting wildcard
subscriptions are attached, and advisories are published.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap, check_physical
from spanwire.broker.destinations.fan_out_room import refusal
from spanwire.broker.destinations.wildcard_matching import Attaching, Joining
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.queue import Queue
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.security.audit_log import printable
from spanwire.model.destination import Destination
from spanwire.model.errors import (
    DestinationDoesNotExistError,
    IllegalStateError,
    InvalidDestinationError,
    JmsError,
    ResourceAllocationError,
)

MAX_TEMPORARY_PER_CONNECTION: Final = 1_000  # temporary destinations of one connection
MAX_AWAITED_TEMPORARY: Final = 1_000  # temporary destinations of one broker that sends made before the announcement
MAX_REMOTE_TEMPORARY: Final = 10_000  # temporary destinations beyond one bridge, as many as connections

logger = logging.getLogger(__name__)


class Destinations(Attaching):
    """Makes and removes destinations on behalf of connections and of the broker."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        access: AccessControl,
        advisories: Advisories | None,
        temporary_by_send: bool,
    ) -> None:
        """Take the parts of the broker.

        With ``temporary_by_send`` a send creates a missing temporary destination.
        """
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._access: Final[AccessControl] = access
        self._advisories: Final[Advisories | None] = advisories
        self._temporary_by_send: Final[bool] = temporary_by_send
        self._owners: Final[dict[str, ConnectionState]] = {}
        self._awaited: Final[dict[str, Destination]] = {}  # made by sends; the owner has not announced them yet

    def ensure(self, state: ConnectionState, destination: Destination) -> BrokerDestination:
        """Return the destination, made now if missing and allowed. A temporary destination must exist already."""
        existing = self._map.find(destination)
        return existing if existing is not None else self.ensure_all(state, [destination])[0]

    def ensure_all(
        self, state: ConnectionState, destinations: list[Destination], by_send: bool = False
    ) -> list[BrokerDestination]:
        """Return all ``destinations``, in order, after `check_all`."""
        self.check_all(state, destinations, by_send)
        return self.make_all(state, destinations)

    def check_all(self, state: ConnectionState, destinations: list[Destination], by_send: bool = False) -> None:
        """Check that missing destinations may be created, and that there is room.

        Args:
            by_send: True if ``destinations`` are the targets of a send.

        Raises:
            JmsError: a destination may not be created, or there is no room.
        """
        missing: list[Destination] = []
        for destination in destinations:
            if self._map.find(destination) is None:
                self._check_new(state, destination, by_send)
                missing.append(destination)
        if missing:
            self._map.check_room(missing)

    def make_all(self, state: ConnectionState, names: list[Destination]) -> list[BrokerDestination]:
        """Return the destinations of ``names``, in order, and make missing ones.

        `check_all` has allowed the list.
        """
        destinations: list[BrokerDestination] = []
        for name in names:
            existing = self._map.find(name)
            if existing is None and name.is_temporary:
                existing = self._make_awaited(state, name)
            destinations.append(existing if existing is not None else self._make(name, state.connection_id))
        return destinations

    def _make_awaited(self, state: ConnectionState, destination: Destination) -> BrokerDestination:
        """Make a temporary destination for a send by its own connection.

        The send comes before the announcement or after the removal.

        The destination ends with the connection. Beyond `MAX_AWAITED_TEMPORARY` the oldest such destination is removed.
        """
        if len(self._awaited) >= MAX_AWAITED_TEMPORARY:
            oldest = self._map.find(next(iter(self._awaited.values())))
            if oldest is not None:
                self._drop(oldest, state.connection_id)
        self._awaited[destination.qualified_name] = destination
        return self._make(destination, state.connection_id)

    def _check_new(self, state: ConnectionState, destination: Destination, by_send: bool = False) -> None:
        if destination.is_temporary and not (by_send and self._temporary_by_send):
            raise DestinationDoesNotExistError(destination.qualified_name)
        check_physical(destination)
        if not is_control(destination):  # the right to write includes the creation by the first request
            self._access.check_create(state, destination)

    def ensure_own(self, destination: Destination) -> BrokerDestination:
        """Return a destination for the broker's own purposes, such as a dead letter queue, made if missing."""
        existing = self._map.find(destination)
        return existing if existing is not None else self._make(destination, "")

    def ensure_dead_letter_destination(self, destination: Destination, shared: Destination) -> BrokerDestination:
        """Return a dead letter queue; the ``shared`` queue if there is no room for another destination."""
        if destination != shared and self._map.find(destination) is None:
            try:
                self._map.check_room([destination])
            except (IllegalStateError, ResourceAllocationError):
                return self.ensure_own(shared)
        return self.ensure_own(destination)

    def recovered(self, destination: Destination) -> Queue:
        """Return a queue of the store, and create the queue if missing."""
        queue = self._map.queue(destination)
        if queue is None:
            made = self._map.create(destination)
            assert isinstance(made, Queue)
            queue = made
        return queue

    def add_all(self, state: ConnectionState, parts: list[Destination]) -> None:
        """Make destinations for a client; temporary destinations belong to the client's connection."""
        self.ensure_all(state, [part for part in parts if not part.is_temporary])
        for part in parts:
            if part.is_temporary:
                self.add_temporary(state, part)

    def add_temporary(self, state: ConnectionState, destination: Destination) -> None:
        """Create a temporary destination for the lifetime of the connection.

        The name must begin with the connection's id.
        """
        name = destination.qualified_name
        if self._owners.get(name) is state:
            return
        prefix = state.connection_id + ":"
        own = destination.name.startswith(prefix) and ":" not in destination.name[len(prefix) :]
        if not own or name in self._owners:
            reason = " (the name of a temporary destination begins with the connection's id)"
            self._access.refuse(state, f"create: {name}", reason)
        if len(state.temporary) >= MAX_TEMPORARY_PER_CONNECTION:
            raise ResourceAllocationError(
                f"Can't add temporary destination on connection {state.connection_id}: "
                f"at maximum limit: {MAX_TEMPORARY_PER_CONNECTION}"
            )
        check_physical(destination)
        self._access.check_create(state, destination)
        self._own(state, destination)

    def add_remote_temporary(
        self, state: ConnectionState, destination: Destination, broker_path: tuple[str, ...]
    ) -> None:
        """Make a temporary destination of another broker.

        ``state`` is the connection of the bridge to the broker.

        An existing destination came by another route, or belongs to this broker.
        """
        name = destination.qualified_name
        if name in self._owners:
            return
        if len(state.temporary) >= MAX_REMOTE_TEMPORARY:
            raise ResourceAllocationError(f"a bridge announces at most {MAX_REMOTE_TEMPORARY} temporary destinations")
        check_physical(destination)
        self._access.check_create(state, destination)
        self._map.check_room([destination])
        if self._advisories is not None:
            self._advisories.note_route(destination, broker_path)
        self._own(state, destination)

    def _own(self, state: ConnectionState, destination: Destination) -> None:
        before = self._map.find(destination)
        if before is not None and destination.qualified_name not in self._awaited:
            self._drop(before, state.connection_id)  # an ending connection with the same id owns the destination
        awaited = self._awaited.pop(destination.qualified_name, None) is not None
        if not awaited:
            self._map.check_room([destination])
        self._owners[destination.qualified_name] = state
        state.temporary[destination.qualified_name] = destination
        if not awaited:
            self._make(destination, state.connection_id)

    def check_owner(self, state: ConnectionState, destination: Destination) -> None:
        """Raise `InvalidDestinationError` if ``destination`` is a temporary destination of another connection."""
        if destination.is_temporary and self._owners.get(destination.qualified_name) is not state:
            if destination.qualified_name not in self._owners:
                raise DestinationDoesNotExistError(destination.qualified_name)
            raise InvalidDestinationError("Cannot use a Temporary destination from another Connection")

    def remove_all(self, state: ConnectionState, names: list[Destination]) -> None:
        """Remove destinations without consumers; missing destinations are no error.

        All are checked before the first is removed. Missing destinations are checked as well, so that a client without
        the right does not learn of their absence.
        """
        destinations: list[BrokerDestination] = []
        for name in names:
            existing = self._map.find(name)
            if not name.is_temporary:
                self._access.check_remove(state, name)
            elif existing is not None:
                self.check_owner(state, name)
            if existing is not None:
                if existing.consumer_count > 0:
                    raise JmsError(f"Destination: {name} still has an active subscription")
                if existing.cursors > 0:
                    raise JmsError(f"Destination: {name} still has a cursor: release it first")
                destinations.append(existing)
        for destination in destinations:
            self._drop(destination, state.connection_id)

    def remove_own(self, destination: Destination) -> bool:
        """Remove a destination for an operator.

        Returns:
            False if the destination does not exist.

        Raises:
            JmsError: the destination has consumers, messages, cursors or durable subscriptions.
        """
        existing = self._map.find(destination)
        if existing is None:
            return False
        if existing.consumer_count > 0:
            raise JmsError(f"{destination.qualified_name} has {existing.consumer_count} consumers: end them first")
        if existing.durable_count > 0:
            count = existing.durable_count
            raise JmsError(f"{destination.qualified_name} has {count} durable subscriptions: remove them first")
        if existing.cursors > 0:
            raise JmsError(f"{destination.qualified_name} has a cursor: release it first")
        count = existing.in_flight + existing.waiting() + existing.withheld
        if count > 0:
            raise JmsError(f"{destination.qualified_name} has {count} messages: purge it first")
        self._drop(existing, "")
        return True

    def remove_idle(self, destination: BrokerDestination) -> None:
        """Remove an idle destination. The consumers of bridges join a new destination with the name."""
        for subscription in destination.attached():
            destination.detach(subscription)
            del subscription.destinations[destination]
            self._map.wildcards.recount(subscription)
            self._map.await_again(destination.name, subscription)
        self._drop(destination, "")

    def disown(self, state: ConnectionState) -> list[BrokerDestination]:
        """Release the temporary destinations of a closed connection.

        Returns the destinations for `drop_left`.

        The names are free at once, for the same client after a reconnect.
        """
        prefix = state.connection_id + ":"
        awaited = [one for one in self._awaited.values() if one.name.startswith(prefix)]
        ownerless: list[BrokerDestination] = []
        for destination in [*state.temporary.values(), *awaited]:
            self._owners.pop(destination.qualified_name, None)
            self._awaited.pop(destination.qualified_name, None)
            temporary = self._map.find(destination)
            if temporary is not None:
                ownerless.append(temporary)
        state.temporary.clear()
        return ownerless

    def drop_left(self, destination: BrokerDestination, connection_id: str) -> int:
        """Remove a temporary destination without owner, unless already removed.

        Returns the number of steps.
        """
        if destination.removed:
            return 0
        self._drop(destination, connection_id)
        return 1 if self._advisories is None else 1 + self._advisories.listener_count

    def attach(self, destination: BrokerDestination, subscription: Subscription) -> bool:
        """Attach a wildcard subscription to a destination.

        The user may read the destination and, for a bridge, may forward.

        Returns:
            False if there is no room any more; the subscription is then ended.
        """
        network_filter = subscription.network_filter
        if network_filter is not None and not network_filter.covers(destination.name):
            return True
        if self._access.may_read(subscription.principal, destination.name):
            if destination not in subscription.destinations and not destination.has_room(subscription.weight):
                _end(subscription, refusal(destination.name))
                return False
            attach(destination, subscription)
            self._map.wildcards.recount(subscription)
        return True

    def has_room(self) -> bool:
        """Return True if wildcard consumers may be attached to further destinations."""
        return self._map.wildcards.has_room()

    def end(self, subscription: Subscription) -> None:
        """End the connection of a wildcard consumer that finds no room at a destination."""
        _end(subscription, self._map.wildcards.refusal())

    def _make(self, name: Destination, connection_id: str) -> BrokerDestination:
        if self._context.observer is not None:
            self._context.observer.destination_event("adding destination", name.qualified_name)
        destination = self._map.create(name)
        store = self._context.store
        if store is not None and isinstance(destination, Queue) and not name.is_temporary:
            store.add_destination(name)
        if self._context.follower is not None:
            self._context.follower.destination_added(destination)
        listeners = self._map.pattern_subscriptions(name)
        if len(listeners) == 1:
            self.attach(destination, listeners[0])
        elif listeners:
            Joining(name, [destination], listeners, self, self._context).start()
        if self._advisories is not None:
            self._advisories.destination_added(name, connection_id)
        return destination

    def _drop_mirror(self, destination: Destination, connection_id: str) -> None:
        """Remove the topic of a mirrored queue with the queue, unless the topic is in use."""
        topic = self._map.topic(destination)
        if topic is not None and topic.consumer_count == 0 and topic.producers == 0 and not topic.durables:
            self._drop(topic, connection_id)

    def _drop(self, destination: BrokerDestination, connection_id: str) -> None:
        name = destination.name
        if self._context.observer is not None:
            self._context.observer.destination_event("removing destination", name.qualified_name)
        destination.removed = True
        if isinstance(destination, Queue):
            destination.drop()
            if self._context.store is not None and not name.is_temporary:
                self._context.store.remove_destination(name)
        self._map.remove(name)
        if destination.route is not None and destination.route.mirror is not None:
            self._drop_mirror(destination.route.mirror.destination, connection_id)
        self._awaited.pop(name.qualified_name, None)
        owner = self._owners.pop(name.qualified_name, None)
        if owner is not None:
            owner.temporary.pop(name.qualified_name, None)
        if self._advisories is not None:
            self._advisories.destination_removed(name, connection_id)


def _end(subscription: Subscription, reason: JmsError) -> None:
    connection_id = printable(subscription.info.consumer_id.connection_id)
    logger.warning("connection %s is ended: %s", connection_id, printable(str(reason)))
    subscription.output.close_with(reason)


def attach(destination: BrokerDestination, subscription: Subscription) -> None:
    """Attach ``subscription`` to a queue or topic, once."""
    if destination in subscription.destinations:
        return
    destination.attach(subscription)
