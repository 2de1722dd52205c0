"""Errors of reading and writing numbers, texts and maps in Java's layout.

OpenWire's frames consist of such data; `spanwire.protocols.openwire.codec.errors` has the whole tree of errors.
"""

from __future__ import annotations

from spanwire.model.errors import LocalProtocolError, RemoteProtocolError


class OpenWireProtocolError(RemoteProtocolError):
    """The peer's bytes are not OpenWire or exceed a limit; only the peer's connection is closed."""


class OpenWireEncodeError(LocalProtocolError):
    """A value has no form in the negotiated encoding: too long, or out of the range of its type."""


def beyond_frame(field: str) -> OpenWireProtocolError:
    """Return the error for a field that extends beyond the end of its frame."""
    return OpenWireProtocolError(f"a frame ends inside {field}")
