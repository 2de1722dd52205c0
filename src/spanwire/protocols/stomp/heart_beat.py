"""Heart-beats: what both sides promised, and when the next one is due (STOMP 1.2, "Heart-beating")."""

from __future__ import annotations

from typing import Final

from spanwire.protocols.stomp.codec.errors import StompProtocolError

MIN_SEND_INTERVAL_MS: Final = 5  # no client may ask for a timer that fires more often
MAX_INTERVAL_DIGITS: Final = 10  # of an interval in milliseconds; more would be beyond 100 days
SEND_SHARE: Final = 0.5  # of the promised interval, so that a late timer breaks no promise
RECEIVE_GRACE: Final = 2.0  # times the interval the client promised before it counts as gone


class HeartBeat:
    """The agreement of one connection. ``send_ms`` is what we send at least that often, ``receive_ms`` what the client
    does; 0 for never.
    """

    def __init__(self, send_ms: int, receive_ms: int) -> None:
        self.send_ms: Final[int] = send_ms
        self.receive_ms: Final[int] = receive_ms
        self._send_interval: Final[float] = max(send_ms, 0) / 1000.0 * SEND_SHARE
        self._receive_interval: Final[float] = max(receive_ms, 0) / 1000.0 * RECEIVE_GRACE

    @property
    def header(self) -> str:
        """The value of the `heart-beat` header of CONNECTED."""
        return f"{self.send_ms},{self.receive_ms}"

    def send_due(self, last_sent: float) -> float | None:
        """Monotonic seconds at which a newline has to be sent, unless something else is before."""
        return last_sent + self._send_interval if self._send_interval > 0 else None

    def receive_due(self, last_received: float) -> float | None:
        """Monotonic seconds from which a silent client counts as gone."""
        return last_received + self._receive_interval if self._receive_interval > 0 else None


def negotiate(header: str | None) -> HeartBeat:
    """The agreement that answers a CONNECT's `heart-beat` header, None when it has none.

    We promise what the client wants and want what it promises. Raises `StompProtocolError` for anything but two
    integers.
    """
    if header is None:
        return HeartBeat(0, 0)
    parts = header.split(",")
    if len(parts) != 2:
        raise StompProtocolError(f"Invalid heart-beat header:{header}")
    client_sends = interval(parts[0], header)
    client_wants = interval(parts[1], header)
    if client_wants > 0:
        client_wants = max(client_wants, MIN_SEND_INTERVAL_MS)
    return HeartBeat(client_wants, client_sends)


def interval(text: str, header: str) -> int:
    """One of the two integers."""
    text = text.strip()
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_INTERVAL_DIGITS:
        raise StompProtocolError(f"Invalid heart-beat header:{header}")
    return int(text)
