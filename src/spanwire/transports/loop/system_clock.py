"""The clocks of the machine, read together.

Compiled, because each packet reads the time several times.

The broker's wall clock advances with the monotonic clock and is aligned to the system's clock each second. If the
system clock was set back by less than `CLOCK_JUMP`, the broker's clock stands still until real time has caught up, so
message times stay in order. A larger jump is followed at once and logged; otherwise messages would expire far too
late after a clock that ran ahead was corrected.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from spanwire.model.environment import Time

logger = logging.getLogger(__name__)

ANCHOR_INTERVAL: Final = 1.0  # seconds between two alignments with the system's wall clock
CLOCK_JUMP: Final = 5.0  # seconds; more than a slewed clock drifts between two alignments


class SystemClock:
    """Both clocks of the machine, read together; tests pass other clocks."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._monotonic: Final = monotonic
        self._wall: Final = wall
        started = monotonic()
        self._offset = wall() - started
        self._next_anchor = started + ANCHOR_INTERVAL
        self._latest_ms = 0

    def now(self) -> Time:
        """Return the time of this turn."""
        monotonic = self._monotonic()
        if monotonic >= self._next_anchor:
            self._anchor(monotonic)
        wall_ms = int((monotonic + self._offset) * 1000)
        if wall_ms > self._latest_ms or self._latest_ms - wall_ms > CLOCK_JUMP * 1000:
            self._latest_ms = wall_ms
        return Time(monotonic, self._latest_ms)

    def _anchor(self, monotonic: float) -> None:
        self._next_anchor = monotonic + ANCHOR_INTERVAL
        offset = self._wall() - monotonic
        gained = offset - self._offset
        if gained > CLOCK_JUMP:
            logger.warning("the system clock jumped %.1f s forward; message times and expiry follow it", gained)
        elif gained < -CLOCK_JUMP:
            logger.warning("the system clock was set back %.1f s; message times and expiry follow it", -gained)
        self._offset = offset
