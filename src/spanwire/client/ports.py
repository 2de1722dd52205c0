"""What the client needs from outside: a way to a broker in its own process, for ``vm:`` and ``peer:`` URLs.

`spanwire.registry` names a function ``connect(url, options) -> InProcessTransport`` for each of these schemes. It is
looked up when such a URL is opened, so that a client without one never loads a broker. ``options`` are the URL's
options that are not the client's own. The function returns at once and raises `JmsError` for a URL it cannot honour; a
broker that it starts on demand may still be on its way, for bytes wait in the transport.
"""

from __future__ import annotations

from typing import Protocol


class InProcessFeed(Protocol):
    """The client's end. The transport calls it from any thread; no method blocks or raises."""

    def received(self, data: bytes) -> None:
        """Bytes from the broker, in order. The client says `InProcessTransport.taken` once they are processed."""
        ...

    def writable(self) -> None:
        """The transport takes bytes again, after a `write` that gave False."""
        ...

    def closed(self, reason: str | None) -> None:
        """The broker has ended the connection, or none could be had. Called once; nothing is received after it."""
        ...


class InProcessTransport(Protocol):
    """One connection to a broker in this process, as bytes in both directions. May be called from any thread."""

    def start(self, feed: InProcessFeed) -> None:
        """Begin; called once, before everything else. ``feed`` may be called from within."""
        ...

    def write(self, data: bytes) -> bool:
        """Bytes for the broker, always taken. After False the client holds further ones back until
        `InProcessFeed.writable`.
        """
        ...

    def taken(self, count: int) -> None:
        """The client has processed ``count`` bytes of what it received: the broker's measure of back-pressure."""
        ...

    def close(self) -> None:
        """End the connection; what was written before still reaches the broker. May be called twice."""
        ...
