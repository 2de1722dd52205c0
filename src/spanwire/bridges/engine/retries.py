"""Failures of a bridge since its last success, and the pauses before its attempts."""

from __future__ import annotations

from typing import Final

from spanwire.bridges.model.definition import RetryPolicy
from spanwire.routes.readers.bridge_parameters import FOREVER

STABLE_S: Final = 60.0  # seconds after which a link counts as a success, so that rare failures do not add up
GROWING_FIRST_S: Final = 1.0  # seconds; first pause with failureRetryInterval -1
GROWING_MAX_S: Final = 60.0  # seconds; longest pause with failureRetryInterval -1
MAX_DOUBLINGS: Final = 10  # of the growing pause, more would exceed the longest pause


class Retries:
    """Counts failures by a policy. Times are in monotonic seconds."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy: Final[RetryPolicy] = policy
        self._failures = 0  # since the last success
        self.is_hopeless = False  # another attempt would fail in the same way
        self._failover_until: float | None = None  # until then attempts after a loss do not count

    def succeed(self) -> None:
        """Forget earlier failures."""
        self._failures = 0
        self.is_hopeless = False
        self._failover_until = None

    def fail(self, now: float, connected_at: float | None) -> None:
        """Count a failure of a link that is open since ``connected_at``; None for a link that did not open."""
        if connected_at is not None and now - connected_at >= STABLE_S:
            self.succeed()
        if self._failover_until is None:  # the loss itself; later attempts without a success count from here
            self._failover_until = now + (self._policy.failover_ms / 1000 if connected_at is not None else 0.0)
        if now >= self._failover_until:
            self._failures += 1

    @property
    def may_retry(self) -> bool:
        """Return True if another attempt is within the policy."""
        limit = self._policy.max_retries
        return not self.is_hopeless and (limit == FOREVER or self._failures <= limit)

    @property
    def pause_s(self) -> float:
        """Return the seconds before the next attempt."""
        policy = self._policy
        failures = min(max(self._failures - 1, 0), MAX_DOUBLINGS)
        if policy.interval_ms == FOREVER:
            return min(GROWING_FIRST_S * (1 << failures), GROWING_MAX_S)
        if policy.multiplier == 1.0:
            return policy.interval_ms / 1000
        return min(policy.interval_ms * policy.multiplier**failures, policy.longest_ms) / 1000
