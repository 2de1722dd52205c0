"""What the traders of the demonstration share: the ledger, where the brokers are, and when to hold still."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Final

from ledger import Ledger

from spanwire.model.errors import SpanwireError

RECONNECT_SECONDS: Final = 0.1  # between two attempts to reach a broker that is gone
SILENCE_SECONDS: Final = 0.05  # how long a receive waits before the trader looks around
MESSAGES_PER_SECOND: Final = 200  # of each sender, so that the kill falls into the middle


@dataclass(frozen=True, slots=True)
class Address:
    """Where one broker listens on this machine."""

    openwire: int
    stomp: int

    @property
    def url(self) -> str:
        """For OpenWire clients."""
        return f"tcp://127.0.0.1:{self.openwire}"


@dataclass(frozen=True, slots=True)
class Stage:
    """``near`` is broker A, ``far`` is B. ``hold`` tells consumers to acknowledge nothing; ``finished`` ends them."""

    ledger: Ledger
    near: Address
    far: Address
    hold: threading.Event = field(default_factory=threading.Event)
    finished: threading.Event = field(default_factory=threading.Event)


class Trader(threading.Thread):
    """One client of the demonstration. ``in_flight`` is how many messages it holds unacknowledged at this moment."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stage = stage
        self.in_flight = 0
        self.failure: str | None = None

    def run(self) -> None:
        """Do the work; a failure is kept for the end instead of being printed into the progress."""
        try:
            self.trade()
        except (OSError, RuntimeError, ValueError, LookupError, SpanwireError) as error:
            self.failure = f"{self.name}: {type(error).__name__}: {error}"

    def trade(self) -> None:
        """What this trader does, to the end."""


class Pace:
    """Keeps a sender from sending everything at once."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def allows(self, sent: int) -> int:
        """How many more may be sent now."""
        return max(0, int((time.monotonic() - self._started) * MESSAGES_PER_SECOND) - sent)
