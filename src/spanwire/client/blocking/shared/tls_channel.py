"""The transport of a blocking connection with TLS."""

from __future__ import annotations

import ssl

from spanwire.client.blocking.shared.channel import SocketChannel


class TlsChannel(SocketChannel):
    """A TLS socket, whose engine can wait for bytes in the other direction."""

    def send(self, data: bytes | bytearray) -> int:
        """Write without waiting."""
        try:
            return super().send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0

    def receive(self) -> bytes:
        """Read without waiting."""
        try:
            return super().receive()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return b""

    def wait(self, timeout: float | None, for_reading: bool, for_writing: bool) -> None:
        """Wait for the socket, unless the TLS engine has buffered bytes that `poll` does not report."""
        if for_reading and isinstance(self._channel, ssl.SSLSocket) and self._channel.pending() > 0:
            return
        super().wait(timeout, for_reading, for_writing)
