"""Errors of the OpenWire protocol.

    SpanwireError
    └── ProtocolError
        ├── LocalProtocolError  ── OpenWireEncodeError     a value that the wire cannot hold
        └── RemoteProtocolError ── OpenWireProtocolError   the peer's bytes are not OpenWire

Whatever bytes arrive, decoding gives commands or an `OpenWireProtocolError`. What lies inside a message (its properties
and body) is decoded later, on demand, and fails with `MessageFormatError`, which spares the connection.
"""

from __future__ import annotations

from spanwire.protocols.octet_errors import OpenWireEncodeError, OpenWireProtocolError, beyond_frame

__all__ = ["OpenWireEncodeError", "OpenWireProtocolError", "beyond_frame"]
