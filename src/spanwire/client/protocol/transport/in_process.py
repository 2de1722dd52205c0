"""Port of the client to a broker in the same process, for ``vm:`` and ``peer:`` URLs.

`spanwire.registry` names a function ``connect(url, options) -> InProcessTransport`` for each of these schemes. The
function is loaded when such a URL is opened, so that other clients never load a broker. ``options`` are the URL's
options unknown to the client. The function returns at once, and raises `JmsError` for a URL beyond its means. A broker
started on demand may not be ready yet: the transport keeps the bytes.
"""

from __future__ import annotations

from typing import Protocol


class InProcessFeed(Protocol):
    """The client's end, called by the transport from any thread. No method blocks or raises."""

    def received(self, data: bytes) -> None:
        """Take bytes from the broker, in order.

        The client calls `InProcessTransport.taken` after processing the bytes.
        """
        ...

    def writable(self) -> None:
        """Note that the transport takes bytes again, after `write` has returned False."""
        ...

    def closed(self, reason: str | None) -> None:
        """Note that the broker has closed the connection, or that there is no broker.

        Called once, as the last call.
        """
        ...


class InProcessTransport(Protocol):
    """One connection to a broker in this process. May be called from any thread."""

    def start(self, feed: InProcessFeed) -> None:
        """Start to pass bytes; the first call, and made once. ``feed`` may be called from within."""
        ...

    def write(self, data: bytes) -> bool:
        """Take bytes for the broker.

        After False the client waits for `InProcessFeed.writable` before the next call.
        """
        ...

    def taken(self, count: int) -> None:
        """Note that the client has processed ``count`` bytes; the broker stops while too many are unprocessed."""
        ...

    def close(self) -> None:
        """Close the connection; bytes written before still reach the broker. May be called twice."""
        ...
