"""What a policy entry does about consumers that are slow (ActiveMQ's slowConsumerStrategy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_SLOW_MS: Final = 30_000  # maxSlowDuration, maxTimeSinceLastAck and checkPeriod, as ActiveMQ has them


@dataclass(frozen=True)
class SlowConsumerPolicy:
    """When a slow consumer is aborted: slow for ``max_slow_ms``, or for the ``max_slow_count``-th time; what is 0 or
    less does not count. Looked at every ``check_period_ms``.

    Slow is one of a topic for which more than its prefetch waits; with ``max_since_ack_ms`` set, one of a queue or a
    topic that has had messages for that long without acknowledging any.
    """

    max_slow_count: int = -1
    max_slow_ms: int = DEFAULT_SLOW_MS
    check_period_ms: int = DEFAULT_SLOW_MS
    abort_connection: bool = False
    ignore_network_consumers: bool = True
    max_since_ack_ms: int | None = None
    ignore_idle_consumers: bool = True
