"""Sessions: names for groups of a connection's consumers and producers."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connection_cleanup import ConnectionCleanup
from spanwire.broker.connections.connection_state import MAX_SESSIONS_PER_CONNECTION, ConnectionState
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.ids import SessionId

HIDDEN_SESSION: Final = -1  # the connection's own session, never announced


class Sessions:
    """Adds and removes the sessions of all connections.

    Callers check that an id belongs to the connection.
    """

    def __init__(self, connection_cleanup: ConnectionCleanup) -> None:
        self._connection_cleanup: Final[ConnectionCleanup] = connection_cleanup

    def add(self, state: ConnectionState, session: int) -> None:
        """Add a session; a repeated announcement changes nothing.

        Raises:
            ResourceAllocationError: the connection has too many sessions.
        """
        if len(state.sessions) >= MAX_SESSIONS_PER_CONNECTION and session not in state.sessions:
            raise ResourceAllocationError(
                f"Can't add session on connection {state.connection_id}: "
                f"at maximum limit: {MAX_SESSIONS_PER_CONNECTION}"
            )
        state.sessions.add(session)

    def remove(self, state: ConnectionState, session_id: SessionId, last_delivered_sequence: int) -> None:
        """End a session with its consumers and producers.

        Raises:
            JmsError: the session does not exist.
        """
        session = session_id.value
        if session not in state.sessions:
            raise JmsError(f"Cannot remove session that had not been registered: {session_id}")
        state.sessions.discard(session)
        self._connection_cleanup.leave_session(state, session, last_delivered_sequence)

    def check(self, state: ConnectionState, session: int, request: str) -> None:
        """Raise `JmsError` if ``request`` names a session that does not exist."""
        if session != HIDDEN_SESSION and session not in state.sessions:
            raise JmsError(f"{request} to a session that had not been registered: {state.connection_id}:{session}")
