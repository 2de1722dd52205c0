"""Errors of the OpenWire protocol.

    SpanwireError
    └── ProtocolError
        ├── LocalProtocolError  ── OpenWireEncodeError     a value that the wire cannot hold
        └── RemoteProtocolError ── OpenWireProtocolError   the peer's bytes are not OpenWire

For any bytes, decoding returns commands or raises `OpenWireProtocolError`. Properties and body of a message are decoded
later, on demand; their errors are `MessageFormatError`, which does not close the connection.
"""

from __future__ import annotations

from spanwire.protocols.octet_errors import OpenWireEncodeError, OpenWireProtocolError, beyond_frame

__all__ = ["OpenWireEncodeError", "OpenWireProtocolError", "beyond_frame"]
