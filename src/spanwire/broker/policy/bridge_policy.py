"""Settings of a policy entry for bridges that consume from a queue (``networkBridgeFilterFactory``)."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_RATE_DURATION_MS = 1_000  # milliseconds; ActiveMQ's default


@dataclass(frozen=True)
class BridgePolicy:
    """Conditions for the messages of a bridge.

    With ``replays`` a message may return to its previous broker if the queue has no local consumer, or with
    ``selector_aware`` no matching one. The message stays at least ``replay_delay_ms``. At most ``rate_limit`` messages
    go to a bridge in ``rate_duration_ms``; 0 sets no limit.
    """

    replays: bool = False
    replay_delay_ms: int = 0
    rate_limit: int = 0
    rate_duration_ms: int = DEFAULT_RATE_DURATION_MS
    selector_aware: bool = False
