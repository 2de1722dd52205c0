"""What the traders of the demonstration share: the ledger, where the broker is, and when to hold still."""

from __future__ import annotations

import threading

from ledger import Ledger

from spanwire.model.errors import SpanwireError

RECONNECT_SECONDS = 0.1  # between two attempts to reach a broker that is gone
WINDOW = 400  # sends of one trader that may wait for their answer


class Stage:
    """``hold`` tells consumers to take messages in and acknowledge none; ``finished`` ends everybody."""

    def __init__(self, ledger: Ledger, openwire_port: int, stomp_port: int) -> None:
        self.ledger = ledger
        self.openwire_port = openwire_port
        self.stomp_port = stomp_port
        self.hold = threading.Event()
        self.finished = threading.Event()


class Trader(threading.Thread):
    """One client of the demonstration. ``unanswered`` and ``in_flight`` are what its side knows at this moment."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stage = stage
        self.unanswered = 0
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
