"""Sessions come and go: only names, by which a connection tells its consumers and producers apart."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connection_state import MAX_SESSIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.consuming import Consuming
from spanwire.broker.producing import Producing
from spanwire.model.errors import JmsError, ResourceAllocationError
from spanwire.model.ids import SessionId

HIDDEN_SESSION: Final = -1  # the connection's own session, never announced


class Sessions:
    """Adds and removes the sessions of all connections. That an id is of the connection itself is checked before."""

    def __init__(self, consuming: Consuming, producing: Producing) -> None:
        self._consuming: Final[Consuming] = consuming
        self._producing: Final[Producing] = producing

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
        for key, subscription in list(state.consumers.items()):
            if subscription.info.consumer_id.session_id == session:
                self._consuming.remove(state, key, last_delivered_sequence)
        for key, producer in list(state.producers.items()):
            if producer.producer_id.session_id == session:
                self._producing.remove(state, key)

    def check(self, state: ConnectionState, session: int, request: str) -> None:
        """Raises `JmsError` to a ``request`` that names a session that is not there."""
        if session != HIDDEN_SESSION and session not in state.sessions:
            raise JmsError(f"{request} to a session that had not been registered: {state.connection_id}:{session}")
