"""States of a STOMP connection and the frames allowed in each (STOMP 1.2, "Client Frames").

A frame without an entry for the state is refused.
"""

from __future__ import annotations

from typing import Final

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

BEFORE_LOGIN: Final = 0
OPEN: Final = 1
LEAVING: Final = 2
CLOSED: Final = 3

TRANSITIONS: Final[dict[tuple[int, str], int]] = {
    (BEFORE_LOGIN, CONNECT): OPEN,
    (BEFORE_LOGIN, STOMP): OPEN,
    (OPEN, SEND): OPEN,
    (OPEN, SUBSCRIBE): OPEN,
    (OPEN, UNSUBSCRIBE): OPEN,
    (OPEN, ACK): OPEN,
    (OPEN, NACK): OPEN,
    (OPEN, BEGIN): OPEN,
    (OPEN, COMMIT): OPEN,
    (OPEN, ABORT): OPEN,
    (OPEN, DISCONNECT): LEAVING,
}
