"""The connections of one broker. Connection ids and client ids are unique.

The client ids of bridges consist of broker names. Brokers without a configured name share a name, so their bridges'
client ids are unique only together with the broker id.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.connections.connection_job import ConnectionJob
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import UncommittedLimit
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.ports import ClientConnection, Principal
from spanwire.broker.security.audit_log import printable
from spanwire.model.errors import InvalidClientIdError, JmsError, ResourceAllocationError, StoreError
from spanwire.model.info import ConnectionInfo

MAX_CONNECTIONS: Final = 10_000  # logged-in connections of one broker

logger = logging.getLogger(__name__)


class Connections:
    """Table of the connections. `Logins` handles logins, `ConnectionCleanup` the cleanup."""

    def __init__(
        self, broker_name: str, usage: MemoryUsage, dirty: list[ConnectionOutput], max_uncommitted: int
    ) -> None:
        self._broker_name: Final[str] = broker_name
        self._usage: Final[MemoryUsage] = usage
        self._dirty: Final[list[ConnectionOutput]] = dirty
        self.uncommitted: Final[UncommittedLimit] = UncommittedLimit(max_uncommitted)
        self._by_id: Final[dict[str, ConnectionState]] = {}
        self._by_client_id: Final[dict[str, ConnectionState]] = {}
        self.entered = 0  # connections since the start

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[ConnectionState]:
        """Return all connections, oldest first."""
        return list(self._by_id.values())

    def find(self, connection_id: str) -> ConnectionState | None:
        """Return the connection of an id."""
        return self._by_id.get(connection_id)

    def holders(self, info: ConnectionInfo) -> list[ConnectionState]:
        """Return the connections that hold the connection id or client id of ``info``."""
        holders: list[ConnectionState] = []
        holder = self._by_id.get(info.connection_id)
        if holder is not None:
            holders.append(holder)
        if info.client_id is not None:
            holder = self._by_client_id.get(client_key(info.client_id, info))
            if holder is not None and holder not in holders:
                holders.append(holder)
        return holders

    def has_job_of(self, info: ConnectionInfo) -> bool:
        """Return True if a connection with the ids of ``info`` has an unfinished job."""
        for holder in self.holders(info):
            if holder.job is not None:
                return True
        return False

    def has_jobs(self) -> bool:
        """Return True if a connection has an unfinished job."""
        for state in self._by_id.values():
            if state.job is not None:
                return True
        return False

    def check_room(self) -> None:
        """Check the number of connections.

        Raises:
            ResourceAllocationError: the maximum is reached.
        """
        if len(self._by_id) >= MAX_CONNECTIONS:
            raise ResourceAllocationError(f"the broker is at its maximum of {MAX_CONNECTIONS} connections")

    def predecessor(self, info: ConnectionInfo, principal: Principal) -> ConnectionState | None:
        """Return the connection that the new connection replaces, or None.

        A failover client may reconnect before the broker notices the broken connection. If the connector allows link
        stealing, the newest connection of a user gets the client id. Bridges of other brokers also replace their older
        connection.

        Raises:
            InvalidClientIdError: the connection id belongs to another client.
        """
        holder = self._by_id.get(info.connection_id)
        if holder is None:
            return self._robbed(info, principal)
        if not info.reconnected or holder.principal.name != principal.name or holder.info.client_id != info.client_id:
            raise InvalidClientIdError(
                f"Broker: {self._broker_name} - connection {info.connection_id} is registered already"
            )
        return holder

    def _robbed(self, info: ConnectionInfo, principal: Principal) -> ConnectionState | None:
        """Return the connection of the same user that must give up its client id.

        Another user's connection keeps the id.
        """
        if not (info.steals_links or info.is_bridge) or info.client_id is None:
            return None
        holder = self._by_client_id.get(client_key(info.client_id, info))
        if holder is None or holder.principal.name != principal.name:
            return None
        if not info.steals_links and not holder.forwards:
            return None
        logger.warning(
            "client id %s: taken over by the connection from %s, that from %s is closed",
            printable(info.client_id),
            info.remote_address,
            holder.info.remote_address,
        )
        return holder

    def enter(self, connection: ClientConnection, info: ConnectionInfo, principal: Principal) -> ConnectionState:
        """Add a new connection.

        Raises:
            InvalidClientIdError: the client id is in use.
        """
        client_id = info.client_id
        if client_id is not None:
            holder = self._by_client_id.get(client_key(client_id, info))
            if holder is not None:
                raise InvalidClientIdError(
                    f"Broker: {self._broker_name} - Client: {client_id} already connected from "
                    f"{holder.info.remote_address}"
                )
        state = ConnectionState(
            ConnectionOutput(connection, self._dirty, self._usage), info, principal, self.uncommitted
        )
        self._by_id[info.connection_id] = state
        self.entered += 1
        if client_id is not None:
            self._by_client_id[client_key(client_id, info)] = state
        return state

    def stop_dispatch(self) -> None:
        """Dispatch no further message to a consumer."""
        for state in self._by_id.values():
            for subscription in state.consumers.values():
                subscription.started = False

    def fail(self, error: StoreError) -> None:
        """End all jobs and close all connections after a failure of the store."""
        states = self.all()
        for state in states:
            if isinstance(state.job, ConnectionJob):
                state.job.fail(JmsError(str(error)))
        for state in states:
            state.output.close_with(error)

    def leave(self, state: ConnectionState) -> None:
        """Remove a connection. Its ids are free afterwards."""
        self._by_id.pop(state.connection_id, None)
        client_id = state.info.client_id
        if client_id is None:
            return
        key = client_key(client_id, state.info)
        if self._by_client_id.get(key) is state:
            del self._by_client_id[key]


def client_key(client_id: str, info: ConnectionInfo) -> str:
    """Return the key of a client id, unique among all connections."""
    return f"{client_id}\n{info.unnamed_broker_id}" if info.unnamed_broker_id else client_id
