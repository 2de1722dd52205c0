"""States of an XMPP connection (RFC 6120, section 4.3).

HEADER      the header of a stream is awaited: of the first stream, and again after a login
LOGIN       STARTTLS, or the steps of a login
PROCEEDED   TLS begins, with another connection inside
BINDING     the client is logged in, and asks for an address
CONNECTED   all stanzas of a client are allowed: ``session.py``
LEAVING     the client has ended the stream; the last messages are on the way to the disk
CLOSED      the transport may close the socket
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a connection."""

    HEADER = 0
    LOGIN = 1
    PROCEEDED = 2
    BINDING = 3
    CONNECTED = 4
    LEAVING = 5
    CLOSED = 6
