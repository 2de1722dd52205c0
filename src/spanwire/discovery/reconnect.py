"""How long to wait before the next attempt to reach a broker (ActiveMQ, Static Transport: SimpleDiscoveryAgent)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OPTIONS: Final = (
    "initialReconnectDelay",
    "maxReconnectDelay",
    "useExponentialBackOff",
    "backOffMultiplier",
    "maxReconnectAttempts",
    "minConnectTime",
)
MAX_DOUBLINGS: Final = 64  # of a delay that is cut at its maximum anyway


@dataclass(frozen=True)
class ReconnectSettings:
    """The options of a discovery URI, with ActiveMQ's defaults: 1, 2, 4, 8, 16, 30, 30 … seconds.

    ``max_attempts`` 0 sets no limit. A link that lived for ``min_connect_ms`` begins again with the first delay.
    """

    initial_delay_ms: int = 1_000
    max_delay_ms: int = 30_000
    exponential: bool = True
    multiplier: float = 2.0
    max_attempts: int = 0
    min_connect_ms: int = 5_000


class Reconnect:
    """Counts failures in a row. Waiting is left to the caller."""

    def __init__(self, settings: ReconnectSettings) -> None:
        self._settings: Final[ReconnectSettings] = settings
        self.failures = 0

    def failed(self, lived_seconds: float) -> float | None:
        """An attempt failed, or a link broke after ``lived_seconds``. Gives the seconds to wait; None to give up."""
        settings = self._settings
        if lived_seconds * 1000 >= settings.min_connect_ms:
            self.failures = 0
        self.failures += 1
        if 0 < settings.max_attempts <= self.failures:
            return None
        delay = float(settings.initial_delay_ms)
        if settings.exponential:
            for _ in range(min(self.failures - 1, MAX_DOUBLINGS)):
                delay = min(delay * settings.multiplier, settings.max_delay_ms)
            delay = min(delay, settings.max_delay_ms)
        return delay / 1000
