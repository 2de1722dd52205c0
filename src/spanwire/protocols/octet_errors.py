"""Errors of reading and writing numbers, texts and maps as Java lays them out.

OpenWire's frames consist of these: `spanwire.protocols.openwire.codec.errors` says what its own rules add.
"""

from __future__ import annotations

from spanwire.model.errors import LocalProtocolError, RemoteProtocolError


class OpenWireProtocolError(RemoteProtocolError):
    """The peer's bytes are not OpenWire, or break one of its limits. Only its own connection is closed."""


class OpenWireEncodeError(LocalProtocolError):
    """A value cannot be written in the negotiated encoding: too long, or out of the range of its type."""


def beyond_frame(field: str) -> OpenWireProtocolError:
    """The error for a field that would lie behind the end of its frame."""
    return OpenWireProtocolError(f"a frame ends inside {field}")
