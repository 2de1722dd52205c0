"""Pauses between attempts to reach a broker (ActiveMQ, Static Transport: SimpleDiscoveryAgent)."""

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
MAX_DOUBLINGS: Final = 64  # doublings of a delay; bounds the loop, since the delay has a maximum


@dataclass(frozen=True)
class ReconnectSettings:
    """The reconnect options of a discovery URI. ActiveMQ's defaults: 1, 2, 4, 8, 16, 30, 30 … seconds.

    ``max_attempts`` 0 means no limit. After ``min_connect_ms`` of use the pauses begin again.
    """

    initial_delay_ms: int = 1_000
    max_delay_ms: int = 30_000
    exponential: bool = True
    multiplier: float = 2.0
    max_attempts: int = 0
    min_connect_ms: int = 5_000


class Reconnect:
    """Counts successive failures. The caller waits."""

    def __init__(self, settings: ReconnectSettings) -> None:
        self._settings: Final[ReconnectSettings] = settings
        self.failures = 0

    def next_delay(self, lived_seconds: float) -> float | None:
        """Return the seconds until the next attempt after ``lived_seconds`` of use; None to give up."""
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
