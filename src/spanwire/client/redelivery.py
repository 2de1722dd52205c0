"""How often and how soon a rolled back message comes again: ActiveMQ's RedeliveryPolicy of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_LIMIT: Final = -1


@dataclass(frozen=True)
class RedeliveryPolicy:
    """The defaults are ActiveMQ's. Delays in milliseconds; a maximum of -1 means none."""

    maximum_redeliveries: int = 6
    initial_redelivery_delay_ms: int = 1_000
    redelivery_delay_ms: int = 1_000
    maximum_redelivery_delay_ms: int = NO_LIMIT
    use_exponential_back_off: bool = False
    back_off_multiplier: float = 5.0

    def is_exceeded(self, redeliveries: int) -> bool:
        """Whether a message that was redelivered this many times has had all its chances."""
        return self.maximum_redeliveries != NO_LIMIT and redeliveries > self.maximum_redeliveries

    def delay_ms(self, redeliveries: int) -> int:
        """How long to wait before the redelivery of this number, 1 for the first."""
        if redeliveries <= 1:
            return self.initial_redelivery_delay_ms
        delay = float(self.redelivery_delay_ms)
        if self.use_exponential_back_off:
            delay = self.initial_redelivery_delay_ms * self.back_off_multiplier ** min(redeliveries - 1, 64)
        if 0 <= self.maximum_redelivery_delay_ms < delay:
            delay = float(self.maximum_redelivery_delay_ms)
        return int(min(delay, 2**53))
