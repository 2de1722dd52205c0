"""States of a client connection and the commands allowed in each.

See OpenWire, wire format versions 1 to 12.

    NEGOTIATING  both sides have sent or will send a WireFormatInfo
    LOGIN        the encoding is negotiated; the ConnectionInfo is missing
    CONNECTED    all commands of a client are allowed: ``client_commands.py``
    LEAVING      the client has removed its connection; a ShutdownInfo follows
    CLOSING      the login is refused or the broker stops; the last output is on its way
    CLOSED       the transport may close the socket

`TRANSITIONS` is the whole protocol: a command without an entry for the state ends the connection.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.errors import OpenWireProtocolError


class State(Enum):
    """The state of a connection."""

    NEGOTIATING = 0
    LOGIN = 1
    CONNECTED = 2
    LEAVING = 3
    CLOSING = 4
    CLOSED = 5


TRANSITIONS: Final[dict[tuple[State, int], State]] = {
    (State.NEGOTIATING, wire.WIRE_FORMAT_INFO): State.LOGIN,
    (State.LOGIN, wire.KEEP_ALIVE_INFO): State.LOGIN,
    (State.LOGIN, wire.BROKER_INFO): State.LOGIN,
    (State.LOGIN, wire.BROKER_SUBSCRIPTION_INFO): State.LOGIN,
    (State.LOGIN, wire.CONNECTION_CONTROL): State.LOGIN,
    (State.LOGIN, wire.CONNECTION_INFO): State.CONNECTED,
    (State.LOGIN, wire.SHUTDOWN_INFO): State.CLOSED,
    (State.CONNECTED, wire.BROKER_INFO): State.CONNECTED,
    (State.CONNECTED, wire.SESSION_INFO): State.CONNECTED,
    (State.CONNECTED, wire.CONSUMER_INFO): State.CONNECTED,
    (State.CONNECTED, wire.PRODUCER_INFO): State.CONNECTED,
    (State.CONNECTED, wire.TRANSACTION_INFO): State.CONNECTED,
    (State.CONNECTED, wire.DESTINATION_INFO): State.CONNECTED,
    (State.CONNECTED, wire.REMOVE_SUBSCRIPTION_INFO): State.CONNECTED,
    (State.CONNECTED, wire.KEEP_ALIVE_INFO): State.CONNECTED,
    (State.CONNECTED, wire.SHUTDOWN_INFO): State.CLOSED,
    (State.CONNECTED, wire.REMOVE_INFO): State.CONNECTED,
    (State.CONNECTED, wire.CONTROL_COMMAND): State.CONNECTED,
    (State.CONNECTED, wire.FLUSH_COMMAND): State.CONNECTED,
    (State.CONNECTED, wire.CONSUMER_CONTROL): State.CONNECTED,
    (State.CONNECTED, wire.CONNECTION_CONTROL): State.CONNECTED,
    (State.CONNECTED, wire.MESSAGE_PULL): State.CONNECTED,
    (State.CONNECTED, wire.MESSAGE_ACK): State.CONNECTED,
    (State.CONNECTED, wire.MESSAGE_DISPATCH_NOTIFICATION): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_BYTES_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_MAP_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_OBJECT_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_STREAM_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_TEXT_MESSAGE): State.CONNECTED,
    (State.CONNECTED, wire.ACTIVE_MQ_BLOB_MESSAGE): State.CONNECTED,
    (State.LEAVING, wire.KEEP_ALIVE_INFO): State.LEAVING,
    (State.LEAVING, wire.REMOVE_INFO): State.LEAVING,
    (State.LEAVING, wire.SHUTDOWN_INFO): State.CLOSED,
}


def next_state(state: State, type_id: int) -> State:
    """Return the state after a command of the type.

    Raises:
        OpenWireProtocolError: the command is not allowed in ``state``.
    """
    following = TRANSITIONS.get((state, type_id))
    if following is None:
        name = wire.TYPE_NAMES.get(type_id, str(type_id))
        raise OpenWireProtocolError(f"a {name} is not expected in state {state.name}")
    return following
