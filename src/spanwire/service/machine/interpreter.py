"""Garbage collection settings for a process with only a broker: short collections."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 2_000  # objects of one collection, which takes a millisecond; compiled messages do not count
YOUNG_COLLECTIONS: Final = 4  # young collections before an older generation is collected
OLD_COLLECTIONS: Final = 50  # collections of that generation before everything is collected: about 400,000 objects


def settle_interpreter() -> None:
    """Exempt all existing objects from collection; called once, after the broker's start."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, OLD_COLLECTIONS)
