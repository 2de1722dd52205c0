"""Detects another protocol at a port by the first octets.

A wrong port is the most frequent first mistake.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import RemoteProtocolError

USUAL: Final = "OpenWire is usually at port 61616"
# OpenWire begins with the length of a WireFormatInfo, less than 64 KiB and so with two zero octets.
BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"ERROR", f"is a STOMP port; {USUAL}"),
    (b"CONNECTED", f"is a STOMP port; {USUAL}"),
    (b"<?xml", f"is an XMPP port; {USUAL}"),
    (b"HTTP/", f"is an HTTP port, such as that of a web console; {USUAL}"),
    (b"AMQP", f"is an AMQP port; {USUAL}"),
    (b"\x20\x02\x00", f"is an MQTT port; {USUAL}"),  # CONNACK, two octets follow
    (b"\x15\x03", "expects TLS: write ssl:// before the host"),  # an alert
    (b"\x16\x03", "expects TLS: write ssl:// before the host"),  # a handshake
    (b"SSH-", f"is an SSH port; {USUAL}"),
)


class OtherProtocolError(RemoteProtocolError):
    """Error for a peer with another protocol.

    The text continues a sentence after the URL.
    """


def check_first(octets: bytes) -> None:
    """Raise `OtherProtocolError` if the first octets belong to another protocol."""
    for beginning, meaning in BEGINNINGS:
        if octets.startswith(beginning):
            raise OtherProtocolError(meaning)
