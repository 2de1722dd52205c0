"""The plan of a run: messages, rate, producers, and the bytes of each message."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

# run id, producer, sequence of the producer from 0 on, time of the schedule in nanoseconds of the monotonic clock
STAMP: Final = struct.Struct(">8sIQQ")
MAX_CLIENTS: Final = 1_000  # producers, and consumers; each is a connection of its own
MAX_MESSAGES: Final = (
    1_000_000_000  # of a run; their marks take an eighth of a byte each, for topics times the consumers
)
MAX_MARK_BYTES: Final = 512 * 1024 * 1024  # bytes of these marks
MAX_SECONDS: Final = 7 * 86_400  # a week of rows of one second
MAX_BODY: Final = 100 * 1024 * 1024  # maxFrameSize of a connector, into which a message has to fit


@dataclass(frozen=True, slots=True)
class Plan:
    """One run.

    ``rate`` counts the messages of all producers together in a second; 0 sends as fast as the broker takes.
    ``messages`` 0 means a run of ``seconds``. ``window`` bounds the messages on the way with ``rate`` 0; 0 is no bound.
    Latencies count after ``warm_up_s``. With ``waits`` a producer waits for each answer; None waits for answers to
    persistent messages, the default of the client.
    """

    run_id: bytes
    url: str
    destination: str
    is_topic: bool
    producers: int
    consumers: int
    size: int
    persistent: bool
    rate: float
    messages: int
    seconds: float
    warm_up_s: float
    window: int
    waits: bool | None
    acknowledge: str
    patience_s: float
    user: str | None = None
    password: str | None = None

    @property
    def copies(self) -> int:
        """The number of arrivals of each message: one at each consumer of a topic."""
        return self.consumers if self.is_topic else 1

    def body(self, producer: int, sequence: int, due_ns: int) -> bytes:
        """Return the body of a message, never shorter than the stamp."""
        stamp = STAMP.pack(self.run_id, producer, sequence, due_ns)
        return stamp + bytes(max(0, self.size - len(stamp)))

    def share(self, producer: int) -> int:
        """Return the messages of a producer; 0 without a bound."""
        if self.messages == 0:
            return 0
        return self.messages // self.producers + (producer < self.messages % self.producers)

    def due_ns(self, producer: int, sequence: int, begin_ns: int) -> int:
        """Return the time of the schedule of a message: producers take turns in steps of the rate."""
        return begin_ns + int((sequence * self.producers + producer) * 1e9 / self.rate)
