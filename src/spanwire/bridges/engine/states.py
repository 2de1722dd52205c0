"""States of a bridge for an operator, and the action under way.

    stopped ──start──▶ starting ──connected──▶ running ──pause──▶ paused
                          │  ▲                   │  ▲                │
                          ▼  └─────── start ─────┼──┼────────────────┘
                        retrying ◀───failure─────┘  │
                          │  └─────connected────────┘
                          ▼ after maxRetries
                        failed ──start──▶ starting

A stop leads from every state to stopped.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from spanwire.bridges.engine.dialogue import (
    Acknowledged,
    Committed,
    Connected,
    DeadLettered,
    Disconnected,
    Elapsed,
    Interrupted,
    Received,
    Refused,
    Sent,
)


class BridgeState(Enum):
    """State of a bridge for an operator."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    RETRYING = "retrying"
    PAUSED = "paused"
    FAILED = "failed"


class Phase(Enum):
    """The action under way."""

    NONE = "none"
    CONNECTING = "connecting"
    RECEIVING = "receiving"
    ACKNOWLEDGING = "acknowledging"
    SENDING = "sending"
    COMMITTING = "committing"
    DEAD_LETTERING = "dead-lettering"
    DISCONNECTING = "disconnecting"
    WAITING = "waiting"


# Events that may end each action, beside `Failed`.
ENDS: Final[dict[Phase, tuple[type, ...]]] = {
    Phase.NONE: (),
    Phase.CONNECTING: (Connected, Interrupted),
    Phase.RECEIVING: (Received, Interrupted),
    Phase.ACKNOWLEDGING: (Acknowledged,),
    Phase.SENDING: (Sent, Refused),
    Phase.COMMITTING: (Committed,),
    Phase.DEAD_LETTERING: (DeadLettered,),
    Phase.DISCONNECTING: (Disconnected,),
    Phase.WAITING: (Elapsed, Interrupted),
}
INTERRUPTIBLE: Final = (Phase.CONNECTING, Phase.RECEIVING, Phase.WAITING)
FALLIBLE: Final = (
    Phase.CONNECTING,
    Phase.RECEIVING,
    Phase.ACKNOWLEDGING,
    Phase.SENDING,
    Phase.COMMITTING,
    Phase.DEAD_LETTERING,
)
