"""States of a STOMP connection and the frames allowed in each (STOMP 1.2, "Client Frames").

    LOGIN        the CONNECT is missing
    CONNECTED    all frames of a client are allowed: ``client_commands.py``
    LEAVING      a DISCONNECT waits for the receipts of earlier frames; further frames are ignored
    CLOSED       the transport may close the socket

`TRANSITIONS` is the whole protocol: a frame without an entry for the state is refused.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from spanwire.protocols.stomp.codec.errors import StompProtocolError, StompRequestError
from spanwire.protocols.stomp.codec.frames import (
    ABORT,
    ACK,
    BEGIN,
    COMMIT,
    CONNECT,
    DISCONNECT,
    NACK,
    SEND,
    STOMP,
    SUBSCRIBE,
    UNSUBSCRIBE,
)


class State(Enum):
    """The state of a connection."""

    LOGIN = 0
    CONNECTED = 1
    LEAVING = 2
    CLOSED = 3


TRANSITIONS: Final[dict[tuple[State, str], State]] = {
    (State.LOGIN, CONNECT): State.CONNECTED,
    (State.LOGIN, STOMP): State.CONNECTED,
    (State.CONNECTED, SEND): State.CONNECTED,
    (State.CONNECTED, SUBSCRIBE): State.CONNECTED,
    (State.CONNECTED, UNSUBSCRIBE): State.CONNECTED,
    (State.CONNECTED, ACK): State.CONNECTED,
    (State.CONNECTED, NACK): State.CONNECTED,
    (State.CONNECTED, BEGIN): State.CONNECTED,
    (State.CONNECTED, COMMIT): State.CONNECTED,
    (State.CONNECTED, ABORT): State.CONNECTED,
    (State.CONNECTED, DISCONNECT): State.LEAVING,
}


def next_state(state: State, command: str) -> State:
    """Return the state after a frame of a client.

    Raises:
        StompRequestError: the client is logged in already.
        StompProtocolError: the frame is not allowed in ``state``.
    """
    following = TRANSITIONS.get((state, command))
    if following is None:
        if command == CONNECT or command == STOMP:
            raise StompRequestError("Already connected.")
        raise StompProtocolError(f"Unknown STOMP action: {command}")
    return following
