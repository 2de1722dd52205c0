"""Errors of the OpenWire protocol.

    SpanwireError
    └── ProtocolError
        ├── LocalProtocolError  ── OpenWireEncodeError     a value that the wire cannot hold
        └── RemoteProtocolError ── OpenWireProtocolError   the peer's bytes are not OpenWire

Whatever bytes arrive, decoding gives commands or an `OpenWireProtocolError`. What lies inside a message (its properties
and body) is decoded later, on demand, and fails with `MessageFormatError`, which spares the connection.
"""

from __future__ import annotations

from spanwire.model.errors import LocalProtocolError, RemoteProtocolError


class OpenWireProtocolError(RemoteProtocolError):
    """The peer's bytes are not OpenWire, or break one of its limits. Only its own connection is closed."""


class OpenWireEncodeError(LocalProtocolError):
    """A value cannot be written in the negotiated encoding: too long, or out of the range of its type."""


def beyond_frame(what: str) -> OpenWireProtocolError:
    """The error for a field that would lie behind the end of its frame."""
    return OpenWireProtocolError(f"a frame ends inside {what}")
