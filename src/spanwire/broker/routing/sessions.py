"""Sessions come and go: only names, by which a connection tells its consumers and producers apart."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connection_cleanup import Departures
from spanwire.broker.connections.connection_state import MAX_SESSIONS_PER_CONNECTION, ConnectionState
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.ids import SessionId

HIDDEN_SESSION: Final = -1  # the connection's own session, never announced


class Sessions:
    """Adds and removes the sessions of all connections. That an id is of the connection itself is checked before."""

    def __init__(self, departures: Departures) -> None:
        self._departures: Final[Departures] = departures

    def add(self, state: ConnectionState, session: int) -> None:
        """A session; announcing it twice changes nothing. Raises `ResourceAllocationError` for too many of them."""
        if len(state.sessions) >= MAX_SESSIONS_PER_CONNECTION and session not in state.sessions:
            raise ResourceAllocationError(
                f"Can't add session on connection {state.connection_id}: "
                f"at maximum limit: {MAX_SESSIONS_PER_CONNECTION}"
            )
        state.sessions.add(session)

    def remove(self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int) -> None:
        """End a session with its consumers and producers. Raises `JmsError` for one that is not there."""
        session = session_id.value
        if session not in state.sessions:
            raise JmsError(f"Cannot remove session that had not been registered: {session_id}")
        state.sessions.discard(session)
        self._departures.leave_session(state, session, last_delivered_sequence)

    def check(self, state: ConnectionState, session: int, request: str) -> None:
        """Raises `JmsError` to a ``request`` that names a session that is not there."""
        if session != HIDDEN_SESSION and session not in state.sessions:
            raise JmsError(f"{request} to a session that had not been registered: {state.connection_id}:{session}")
