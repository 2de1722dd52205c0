"""Counters and times for the status of a bridge."""

from __future__ import annotations

from dataclasses import dataclass

from spanwire.bridges.engine.states import BridgeState


class BridgeCounters:
    """Counts since the start of the process."""

    __slots__ = (
        "aborted",
        "batches",
        "dead_letters",
        "failures",
        "forwarded",
        "heuristics",
        "lag_ms",
        "perhaps_lost",
        "received",
        "redelivered",
    )

    def __init__(self) -> None:
        self.received = 0
        self.redelivered = 0  # received messages that the source had delivered before
        self.forwarded = 0  # messages of complete batches
        self.batches = 0
        self.failures = 0
        self.dead_letters = 0  # messages that the target can never take, handed to the source's broker
        self.perhaps_lost = 0  # acknowledged messages of AT_MOST_ONCE whose send has failed
        self.aborted = 0  # messages of batches that were given up; all but the perhaps lost ones come again
        self.heuristics = 0  # branches that somebody else has finished, perhaps against the decision
        self.lag_ms = 0  # age of the newest message of the last batch when the batch was complete


@dataclass(frozen=True, slots=True)
class BridgeStatus:
    """State and counters of a bridge at one moment."""

    name: str
    state: BridgeState
    since_ms: int  # milliseconds since 1970
    received: int
    forwarded: int
    batches: int
    failures: int
    dead_letters: int
    redelivered: int
    perhaps_lost: int
    lag_ms: int
    last_error: str | None
    heuristics: int = 0
    aborted: int = 0
