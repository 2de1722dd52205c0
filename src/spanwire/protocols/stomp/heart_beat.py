"""Heart-beats: negotiated intervals and due times (STOMP 1.2, "Heart-beating")."""

from __future__ import annotations

from typing import Final

from spanwire.protocols.stomp.codec.errors import StompProtocolError

MIN_SEND_INTERVAL_MS: Final = 5  # milliseconds; bounds the rate of the timer that a client can ask for
MAX_INTERVAL_DIGITS: Final = 10  # digits of an interval in milliseconds; more digits are over 100 days
DEFAULT_HEART_BEAT: Final = "defaultHeartBeat"
GRACE_MULTIPLIER: Final = "hbGracePeriodMultiplier"
SEND_SHARE: Final = 0.5  # share of the promised interval; leaves time for a late timer
RECEIVE_GRACE: Final = 2.0  # promised intervals without data before the client counts as disconnected


class HeartBeat:
    """The negotiated intervals of a connection in milliseconds; 0 means never.

    We send at least every ``send_ms``, and the client at least every ``receive_ms``.
    """

    def __init__(self, send_ms: int, receive_ms: int, grace: float = RECEIVE_GRACE) -> None:
        """``grace`` is the number of promised intervals without data before the client counts as disconnected."""
        self.send_ms: Final[int] = send_ms
        self.receive_ms: Final[int] = receive_ms
        self._send_interval: Final[float] = max(send_ms, 0) / 1000.0 * SEND_SHARE
        self._receive_interval: Final[float] = max(receive_ms, 0) / 1000.0 * grace

    @property
    def header(self) -> str:
        """Return the value of the `heart-beat` header of CONNECTED."""
        return f"{self.send_ms},{self.receive_ms}"

    def send_due(self, last_sent: float) -> float | None:
        """Return the monotonic time in seconds of the next newline if no other output precedes it."""
        return last_sent + self._send_interval if self._send_interval > 0 else None

    def receive_due(self, last_received: float) -> float | None:
        """Return the monotonic time in seconds at which a silent client counts as disconnected."""
        return last_received + self._receive_interval if self._receive_interval > 0 else None


def negotiate(header: str | None, options: dict[str, str]) -> HeartBeat:
    """Return the intervals for the `heart-beat` header of a CONNECT; None means no header.

    ``options`` belong to the connector: ``defaultHeartBeat`` replaces a missing header, and ``hbGracePeriodMultiplier``
    is the number of intervals without data before the client counts as disconnected.

    The broker promises the interval wanted by the client, and wants the interval promised by the client.

    Raises:
        StompProtocolError: the header is not two integers.
    """
    if header is None:
        header = options.get(DEFAULT_HEART_BEAT)
    if header is None:
        return HeartBeat(0, 0)
    parts = header.split(",")
    if len(parts) != 2:
        raise StompProtocolError(f"Invalid heart-beat header:{header}")
    client_sends = interval(parts[0], header)
    client_wants = interval(parts[1], header)
    if client_wants > 0:
        client_wants = max(client_wants, MIN_SEND_INTERVAL_MS)
    grace = options.get(GRACE_MULTIPLIER)
    return HeartBeat(client_wants, client_sends, RECEIVE_GRACE if grace is None else max(float(grace), 1.0))


def interval(text: str, header: str) -> int:
    """Parse one integer of the header."""
    text = text.strip()
    digits = text[1:] if text.startswith("-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_INTERVAL_DIGITS:
        raise StompProtocolError(f"Invalid heart-beat header:{header}")
    return int(text)
