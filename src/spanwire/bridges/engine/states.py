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
    Decided,
    Disconnected,
    Elapsed,
    HandedOver,
    Interrupted,
    Kept,
    Prepared,
    Received,
    Recovered,
    Refused,
    Returned,
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
    RECOVERING = "recovering"
    RECEIVING = "receiving"
    ACKNOWLEDGING = "acknowledging"
    SENDING = "sending"
    PREPARING = "preparing"
    DECIDING = "deciding"
    COMMITTING = "committing"
    DEAD_LETTERING = "dead-lettering"
    CALLING = "calling"
    HOLDING = "holding"
    KEEPING = "keeping"
    DISCONNECTING = "disconnecting"
    WAITING = "waiting"


# Events that may end each action, beside `Failed`.
ENDS: Final[dict[Phase, tuple[type, ...]]] = {
    Phase.NONE: (),
    Phase.CONNECTING: (Connected, Interrupted),
    Phase.RECOVERING: (Recovered,),
    Phase.RECEIVING: (Received, Interrupted),
    Phase.ACKNOWLEDGING: (Acknowledged, HandedOver),
    Phase.SENDING: (Sent, Refused),
    Phase.PREPARING: (Prepared,),
    Phase.DECIDING: (Decided,),
    Phase.COMMITTING: (Committed,),
    Phase.DEAD_LETTERING: (DeadLettered,),
    Phase.CALLING: (Returned,),
    Phase.HOLDING: (Elapsed, Interrupted),
    Phase.KEEPING: (Kept,),
    Phase.DISCONNECTING: (Disconnected,),
    Phase.WAITING: (Elapsed, Interrupted),
}
INTERRUPTIBLE: Final = (Phase.CONNECTING, Phase.RECEIVING, Phase.HOLDING, Phase.WAITING)
FALLIBLE: Final = (
    Phase.CONNECTING,
    Phase.RECOVERING,
    Phase.RECEIVING,
    Phase.ACKNOWLEDGING,
    Phase.SENDING,
    Phase.PREPARING,
    Phase.DECIDING,
    Phase.COMMITTING,
    Phase.DEAD_LETTERING,
    Phase.CALLING,
    Phase.KEEPING,
)
