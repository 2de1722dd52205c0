"""Garbage collection settings for a process with only a broker: short collections, and one for removed queues."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Final

YOUNG_OBJECTS: Final = 2_000  # objects of one collection, which takes a millisecond; compiled messages do not count
YOUNG_COLLECTIONS: Final = 4  # young collections before an older generation is collected
OLD_COLLECTIONS: Final = 50  # collections of that generation before everything is collected: about 400,000 objects
MAX_DEPARTED: Final = 500  # removed queues or the like before everything is collected: a few MiB
REST: Final = 100  # times the duration of a collection of everything: such collections take at most 1 % of the time
LOOK_S: Final = 1.0  # seconds between two looks at the number of departed things


def settle_interpreter() -> None:
    """Exempt all existing objects from collection; called once, after the broker's start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS)


class DepartedCollector:
    """Frees the memory of removed queues by a collection of everything; also of topics with a policy, and of bridges.

    A queue and its parts refer to each other. An old queue would stay in memory until the thresholds of
    `settle_interpreter` let everything be collected, with 400,000 others of its objects: more than 100 MiB.
    """

    def __init__(self, departed: Callable[[], int]) -> None:
        """``departed`` returns the number of such things that have gone since the broker's start."""
        self._departed: Final = departed
        self._collected = 0  # departed things before the last collection
        self._not_before = 0.0  # monotonic seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the number of departed things again and again, from the running loop, until `stop`."""
        self.look(time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self, now: float) -> None:
        """Collect everything if many things have departed and the last collection is long ago.

        ``now`` is in monotonic seconds.
        """
        departed = self._departed()
        if departed - self._collected < MAX_DEPARTED or now < self._not_before:
            return
        began = time.monotonic()
        gc.collect()
        self._collected = departed
        self._not_before = now + REST * (time.monotonic() - began)
