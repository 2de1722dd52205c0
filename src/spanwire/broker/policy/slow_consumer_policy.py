"""Settings of a policy entry for slow consumers (ActiveMQ's slowConsumerStrategy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DEFAULT_SLOW_MS: Final = 30_000  # milliseconds; maxSlowDuration, maxTimeSinceLastAck and checkPeriod, as in ActiveMQ


@dataclass(frozen=True)
class SlowConsumerPolicy:
    """Conditions for the abort of a slow consumer.

    A consumer is aborted after ``max_slow_ms`` of slowness, or at the ``max_slow_count``-th slow phase; 0 or less turns
    a condition off. Consumers are checked every ``check_period_ms``.

    A consumer of a topic is slow while more messages than its prefetch are pending. With ``max_since_ack_ms`` a
    consumer of a queue or topic is slow after so long without an acknowledgement of its messages.
    """

    max_slow_count: int = -1
    max_slow_ms: int = DEFAULT_SLOW_MS
    check_period_ms: int = DEFAULT_SLOW_MS
    abort_connection: bool = False
    ignore_network_consumers: bool = True
    max_since_ack_ms: int | None = None
    ignore_idle_consumers: bool = True
