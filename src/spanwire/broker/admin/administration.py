"""Removes durable subscriptions and destinations, disconnects clients, and logs operators in.

An operator on the control socket needs no rights.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.admin.destination_details import forget_bridged, statistics_of, switch_statistics
from spanwire.broker.connection_cleanup import ConnectionCleanup
from spanwire.broker.connections.connections import Connections
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import QueueBase
from spanwire.broker.ports import Authenticator, LoginObserver, Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.security.login import Logins
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.errors import InvalidDestinationError, JmsError
from spanwire.model.info import ConnectionInfo

DISCONNECTED: Final = "an operator has disconnected this client"


class Administration:
    """Removes unused objects and ends connections. `Operations` handles messages."""

    def __init__(
        self,
        context: BrokerContext,
        connections: Connections,
        connection_cleanup: ConnectionCleanup,
        destinations: Destinations,
        durables: DurableSubscriptions,
        parked: ParkedSends,
        logins: Logins,
        destination_map: DestinationMap,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._connections: Final[Connections] = connections
        self._connection_cleanup: Final[ConnectionCleanup] = connection_cleanup
        self._destinations: Final[Destinations] = destinations
        self._durables: Final[DurableSubscriptions] = durables
        self._parked: Final[ParkedSends] = parked
        self._logins: Final[Logins] = logins
        self._map: Final[DestinationMap] = destination_map

    def must_wait(self, asker: object, info: ConnectionInfo, observer: LoginObserver, now: Time) -> bool:
        """Return True if a directory has to answer before `log_in`; ``observer`` learns of the answer."""
        self._context.begin_request(now)
        return self._logins.must_wait(asker, info, observer)

    def forget_login(self, asker: object) -> None:
        """Drop a waiting login."""
        self._logins.forget(asker)

    def log_in(
        self, info: ConnectionInfo, now: Time, authenticator: Authenticator | None = None, asker: object = None
    ) -> Principal:
        """Return the principal of an operator without a connection; ``asker`` is the asker of `must_wait`.

        ``authenticator`` decides in place of the broker's own, with the same delays after failures.

        Raises:
            AuthenticationError: the credentials are wrong, or too many were wrong before.
            ResourceAllocationError: a directory does not answer, or too many logins wait for directories.
        """
        self._context.begin_request(now)
        return self._logins.log_in(info, asker, authenticator)

    def remove_subscription(self, client_id: str, name: str, now: Time) -> int:
        """Delete a durable subscription without subscriber and return the number of deleted messages.

        Raises:
            InvalidDestinationError: the subscription does not exist.
            JmsError: the subscription is in use.
        """
        self._context.begin_request(now)
        pending = self._durables.pending(client_id, name)
        self._durables.remove(client_id, name)
        self._parked.unpark()
        return pending

    def remove_destination(self, destination: Destination, now: Time) -> None:
        """Remove an empty queue or topic without consumers.

        Raises:
            InvalidDestinationError: the destination does not exist.
            JmsError: the destination is in use.
        """
        self._context.begin_request(now)
        if destination.is_temporary or destination.is_advisory:
            raise JmsError(f"{destination.qualified_name} goes with those who use it and cannot be removed")
        if not self._destinations.remove_own(destination):
            raise InvalidDestinationError(f"there is no {destination.qualified_name}")
        self._parked.unpark()

    def create_destination(self, destination: Destination, now: Time) -> bool:
        """Create a queue or topic. Return False for an existing destination.

        Raises:
            JmsError: the destination is temporary, or an advisory topic.
        """
        self._context.begin_request(now)
        if destination.is_temporary or destination.is_advisory:
            raise JmsError(f"{destination.qualified_name} comes with those who use it and cannot be created")
        if self._map.find(destination) is not None:
            return False
        self._destinations.ensure_own(destination)
        return True

    def switch_statistics(self, destination: Destination, enabled: bool, now: Time) -> None:
        """Measure sizes and times of the messages of a queue or topic from now on, or no longer.

        Raises:
            InvalidDestinationError: there is no such destination.
        """
        self._context.begin_request(now)
        found = self._map.find(destination)
        if found is None:
            raise InvalidDestinationError(f"there is no {destination.qualified_name}")
        switch_statistics(found, enabled, self._context)

    def free_groups(self, destination: Destination, group: str | None, now: Time) -> int:
        """Take a message group of a queue, or all groups, from the consumers. Return the number of groups.

        Raises:
            InvalidDestinationError: there is no such queue.
        """
        self._context.begin_request(now)
        found = self._map.find(destination)
        if not isinstance(found, Queue):
            raise InvalidDestinationError(f"there is no queue {destination.qualified_name}")
        groups = found.selective.groups
        count = 0 if groups is None else groups.free(group)
        if count > 0:
            found.regroup()
        return count

    def reset_statistics(self, destination: Destination, now: Time) -> None:
        """Set the counters of a queue or topic to 0. Counts of present things, such as consumers, stay.

        Raises:
            InvalidDestinationError: there is no such destination.
        """
        self._context.begin_request(now)
        found = self._map.find(destination)
        if found is None:
            raise InvalidDestinationError(f"there is no {destination.qualified_name}")
        if isinstance(found, QueueBase):
            found.enqueued_before += found.enqueued
            found.dequeued_before += found.dequeued
        found.enqueued = found.dequeued = found.dispatched = found.expired = found.blocked_sends = 0
        found.blocked_seconds = 0.0
        found.refused_uncommitted = 0
        found.duplicates = 0
        found.pushed_out = 0
        found.replaced = 0
        forget_bridged(found)
        found.resets += 1  # a browser that waits compares the counters
        found.visits += 1  # the removal of unused destinations compares them too
        statistics = statistics_of(found)
        if statistics is not None:
            statistics.reset()

    def disconnect(self, name: str, now: Time) -> list[str]:
        """Close the connections with a connection id, client id or remote address.

        Return the connection ids.
        """
        self._context.begin_request(now)
        connections = [
            state
            for state in self._connections.all()
            if name in (state.connection_id, state.info.client_id, state.info.remote_address)
        ]
        for state in connections:
            state.output.close_with(JmsError(DISCONNECTED))
            if not state.removed:
                self._connection_cleanup.leave(state)
        return [state.connection_id for state in connections]
