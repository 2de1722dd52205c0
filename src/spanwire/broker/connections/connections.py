"""The connections of one broker: each id and each client id once.

Client ids of bridges are made of the names of brokers. So those of brokers that nobody has named are alike, and count
together with the broker's id.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.connection_output import Outlet
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.ports import ClientConnection, Principal
from spanwire.broker.security.audit_log import printable
from spanwire.model.errors import InvalidClientIdError, ResourceAllocationError
from spanwire.model.info import ConnectionInfo

MAX_CONNECTIONS: Final = 10_000  # logged-in connections of one broker

logger = logging.getLogger(__name__)


class Connections:
    """Knows who is connected. Logging in is left to `Logins`, what a connection leaves behind to `Departures`."""

    def __init__(self, broker_name: str, usage: MemoryUsage, dirty: list[Outlet], max_uncommitted: int) -> None:
        self._broker_name: Final[str] = broker_name
        self._usage: Final[MemoryUsage] = usage
        self._dirty: Final[list[Outlet]] = dirty
        self._max_uncommitted: Final[int] = max_uncommitted
        self._by_id: Final[dict[str, ConnectionState]] = {}
        self._by_client_id: Final[dict[str, ConnectionState]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[ConnectionState]:
        """Everybody, oldest first."""
        return list(self._by_id.values())

    def holders(self, info: ConnectionInfo) -> list[ConnectionState]:
        """Those that have the connection id or client id that ``info`` asks for."""
        found: list[ConnectionState] = []
        holder = self._by_id.get(info.connection_id)
        if holder is not None:
            found.append(holder)
        if info.client_id is not None:
            holder = self._by_client_id.get(client_key(info.client_id, info))
            if holder is not None and holder not in found:
                found.append(holder)
        return found

    def has_jobs(self) -> bool:
        """Return True if something is under way for one of them."""
        for state in self._by_id.values():
            if state.job is not None:
                return True
        return False

    def check_room(self) -> None:
        """Raises `ResourceAllocationError` when there may be no more."""
        if len(self._by_id) >= MAX_CONNECTIONS:
            raise ResourceAllocationError(f"the broker is at its maximum of {MAX_CONNECTIONS} connections")

    def predecessor(self, info: ConnectionInfo, principal: Principal) -> ConnectionState | None:
        """The connection that this one replaces: a failover client may be back before its broken one is noticed here,
        and where the connector says so the newest connection of a user has the client id. So it is with bridges of
        other brokers, which come back as soon as they notice a break.
        Raises `InvalidClientIdError` when the id is somebody else's.
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
        """The connection of the same user that has to give up its client id. That of another user keeps it."""
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
        """A new connection; raises `InvalidClientIdError` while its client id is in use."""
        client_id = info.client_id
        if client_id is not None:
            holder = self._by_client_id.get(client_key(client_id, info))
            if holder is not None:
                raise InvalidClientIdError(
                    f"Broker: {self._broker_name} - Client: {client_id} already connected from "
                    f"{holder.info.remote_address}"
                )
        state = ConnectionState(Outlet(connection, self._dirty, self._usage), info, principal, self._max_uncommitted)
        self._by_id[info.connection_id] = state
        if client_id is not None:
            self._by_client_id[client_key(client_id, info)] = state
        return state

    def leave(self, state: ConnectionState) -> None:
        """It is gone; its ids are free."""
        self._by_id.pop(state.connection_id, None)
        client_id = state.info.client_id
        if client_id is None:
            return
        key = client_key(client_id, state.info)
        if self._by_client_id.get(key) is state:
            del self._by_client_id[key]


def client_key(client_id: str, info: ConnectionInfo) -> str:
    """Return the text that at most one connection has at a time."""
    return f"{client_id}\n{info.unnamed_broker_id}" if info.unnamed_broker_id else client_id
