"""What a policy entry sets for the bridges that consume from a queue (``networkBridgeFilterFactory``)."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_RATE_DURATION_MS = 1_000  # ActiveMQ's


@dataclass(frozen=True)
class BridgePolicy:
    """With ``replays`` a message may go back where it came from when nobody consumes here, or with ``selector_aware``
    nobody who wants it; not before it was here for ``replay_delay_ms``. At most ``rate_limit`` messages go to a
    bridge in ``rate_duration_ms``; 0 sets no limit.
    """

    replays: bool = False
    replay_delay_ms: int = 0
    rate_limit: int = 0
    rate_duration_ms: int = DEFAULT_RATE_DURATION_MS
    selector_aware: bool = False
