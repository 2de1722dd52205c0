"""What a policy entry sets for the bridges that consume from a queue (``networkBridgeFilterFactory``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spanwire.model.message import Message

DEFAULT_RATE_DURATION_MS = 1_000  # ActiveMQ's


@dataclass(frozen=True)
class BridgePolicy:
    """With ``replays`` a message may go back where it came from when nobody consumes here, or with ``selector_aware``
    nobody who wants it; not before it was looked at for ``replay_delay_ms``. At most ``rate_limit`` messages go to a
    bridge in ``rate_duration_ms``; 0 sets no limit.
    """

    replays: bool = False
    replay_delay_ms: int = 0
    rate_limit: int = 0
    rate_duration_ms: int = DEFAULT_RATE_DURATION_MS
    selector_aware: bool = False


class MessageCondition(Protocol):
    """What a bridge's subscription asks besides its own filter (`spanwire.broker.bridge_condition`)."""

    def lets_through(self, message: Message) -> bool:
        """Whether the bridge may have ``message`` now."""
        ...
