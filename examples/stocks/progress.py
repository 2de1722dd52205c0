"""Waiting for something while somebody watches: a line every two seconds, samples for the chart, and a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from chart import Sample

DEADLINE_SECONDS: Final = 180.0  # for each wait; it takes a fraction of that
SAMPLE_SECONDS: Final = 0.1
SAY_SECONDS: Final = 2.0


class Progress:
    """``measure`` makes the sample of a moment; ``check`` ends the demonstration when a client has failed."""

    def __init__(self, total: int, measure: Callable[[float], Sample], check: Callable[[], None]) -> None:
        self.samples: Final[list[Sample]] = []
        self._total: Final = total
        self._measure: Final = measure
        self._check: Final = check
        self._began: Final = time.monotonic()
        self._first_send: float | None = None

    def sends_begin(self) -> None:
        """From now on there is something to count."""
        self._first_send = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the first send."""
        return time.monotonic() - (self._began if self._first_send is None else self._first_send)

    def say(self, what: str) -> None:
        """Something happened."""
        print(f"{time.monotonic() - self._began:6.1f} s  {what}", flush=True)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition, and end the demonstration when it does not come true."""
        began = said = time.monotonic()
        while not condition():
            now = time.monotonic()
            if self._first_send is not None:
                sample = self._measure(self.elapsed)
                self.samples.append(sample)
                if now - said >= SAY_SECONDS:
                    said = now
                    counts = f"sent {sample.sent:6}  delivered {sample.delivered:6}  archived {sample.archived:6}"
                    self.say(f"{counts} of {self._total}")
            self._check()
            if now - began > DEADLINE_SECONDS:
                raise SystemExit(f"demo: gave up after {DEADLINE_SECONDS:.0f} s waiting until {what}")
            time.sleep(SAMPLE_SECONDS)
