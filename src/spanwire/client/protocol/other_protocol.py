"""Protocols that answer at a port where the client expects OpenWire, told by the first octets of the answer.

A wrong port is the commonest mistake of a first day: the brokers' ports lie side by side.
"""

from __future__ import annotations

from typing import Final

from spanwire.model.errors import RemoteProtocolError

USUAL: Final = "OpenWire is usually at port 61616"
# An OpenWire broker begins with the length of its WireFormatInfo, less than 64 KiB: two zeros.
BEGINNINGS: Final[tuple[tuple[bytes, str], ...]] = (
    (b"ERROR", f"is a STOMP port; {USUAL}"),
    (b"CONNECTED", f"is a STOMP port; {USUAL}"),
    (b"HTTP/", f"is an HTTP port, such as that of a web console; {USUAL}"),
    (b"AMQP", f"is an AMQP port; {USUAL}"),
    (b"\x20\x02\x00", f"is an MQTT port; {USUAL}"),  # CONNACK, two octets follow
    (b"\x15\x03", "expects TLS: write ssl:// before the host"),  # an alert
    (b"\x16\x03", "expects TLS: write ssl:// before the host"),  # a handshake
    (b"SSH-", f"is an SSH port; {USUAL}"),
)


class OtherProtocolError(RemoteProtocolError):
    """The peer speaks another protocol; the text goes on behind the URL."""


def check_first(octets: bytes) -> None:
    """Raise `OtherProtocolError` when the first octets of a peer are those of another protocol."""
    for beginning, meaning in BEGINNINGS:
        if octets.startswith(beginning):
            raise OtherProtocolError(meaning)
