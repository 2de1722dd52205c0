"""How the interpreter behaves in a process that is a broker and nothing else: collections and waits are short."""

from __future__ import annotations

import gc
import sys
from typing import Final

YOUNG_OBJECTS: Final = 2_000  # that one collection looks through, in a millisecond; compiled messages are none of them
YOUNG_COLLECTIONS: Final = 4  # before what they left is looked through once more
SWITCH_INTERVAL: Final = 0.0005  # seconds that the threads of the journal may let the loop wait; it gives up the
# interpreter with each call to a socket, and each time it would wait for so long


def settle_interpreter() -> None:
    """What exists now stays for ever. To be called once, when the broker is started; leaves other threads alone."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS)
    sys.setswitchinterval(SWITCH_INTERVAL)
