"""Number and delay of redeliveries after a rollback: the client's RedeliveryPolicy of ActiveMQ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_LIMIT: Final = -1
MAX_DELAY_MS: Final = 2.0**53


@dataclass(frozen=True)
class RedeliveryPolicy:
    """Redelivery policy with ActiveMQ's defaults.

    Delays are milliseconds; a maximum of -1 stands for no limit.
    """

    maximum_redeliveries: int = 6
    initial_redelivery_delay_ms: int = 1_000
    redelivery_delay_ms: int = 1_000
    maximum_redelivery_delay_ms: int = NO_LIMIT
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0
    use_collision_avoidance: bool = False
    collision_avoidance_percent: int = 15
    pre_dispatch_check: bool = True  # do not deliver dispatched messages beyond the limit

    def is_exceeded(self, redeliveries: int) -> bool:
        """Return True if a message with so many redeliveries goes to the dead-letter queue."""
        return self.maximum_redeliveries != NO_LIMIT and redeliveries > self.maximum_redeliveries

    def is_refused(self, redeliveries: int) -> bool:
        """Return True if a dispatched message with so many redeliveries is not delivered to the application."""
        return self.pre_dispatch_check and self.is_exceeded(redeliveries)

    def delay_ms(self, redeliveries: int, dice: float = 0.0) -> int:
        """Return the delay before a redelivery in milliseconds; ``redeliveries`` is 1 for the first one.

        ``dice`` from -1 to 1 spreads the delay if the policy uses collision avoidance.
        """
        if redeliveries <= 1:
            return self._spread(float(self.initial_redelivery_delay_ms), dice)
        delay = float(self.redelivery_delay_ms)
        if self.use_exponential_back_off:
            delay = self.initial_redelivery_delay_ms * self.back_off_multiplier ** min(redeliveries - 1, 64)
        if 0 <= self.maximum_redelivery_delay_ms < delay:
            delay = float(self.maximum_redelivery_delay_ms)
        return self._spread(min(delay, MAX_DELAY_MS), dice)

    def _spread(self, delay_ms: float, dice: float) -> int:
        if self.use_collision_avoidance:
            delay_ms += delay_ms * dice * self.collision_avoidance_percent / 100
        return int(delay_ms)
