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
REMOVED_QUEUES: Final = 500  # removed queues before everything is collected: a few MiB
REST: Final = 100  # times the duration of a collection of everything: such collections take at most 1 % of the time
LOOK_S: Final = 1.0  # seconds between two looks at the number of removed queues


def settle_interpreter() -> None:
    """Exempt all existing objects from collection; called once, after the broker's start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS)


class QueueCollector:
    """Frees the memory of removed queues by a collection of everything.

    A queue and its parts refer to each other. An old queue would stay in memory until the thresholds of
    `settle_interpreter` let everything be collected, with 400,000 others of its objects: more than 100 MiB.
    """

    def __init__(self, removed: Callable[[], int]) -> None:
        """``removed`` returns the number of queues removed since the broker's start."""
        self._removed: Final = removed
        self._collected = 0  # removed queues before the last collection
        self._not_before = 0.0  # monotonic seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Look at the number of removed queues again and again, from the running loop, until `stop`."""
        self.look(time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self.start)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def look(self, now: float) -> None:
        """Collect everything if many queues were removed and the last collection is long ago.

        ``now`` is in monotonic seconds.
        """
        removed = self._removed()
        if removed - self._collected < REMOVED_QUEUES or now < self._not_before:
            return
        began = time.monotonic()
        gc.collect()
        self._collected = removed
        self._not_before = now + REST * (time.monotonic() - began)
