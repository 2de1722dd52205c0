"""How the interpreter behaves in a process that is a broker and nothing else: collections are short."""

from __future__ import annotations

import gc
from typing import Final

YOUNG_OBJECTS: Final = 2_000  # that one collection looks through, in a millisecond; compiled messages are none of them
YOUNG_COLLECTIONS: Final = 4  # before what they left is looked through once more


def settle_interpreter() -> None:
    """What exists now stays for ever. To be called once, when the broker is started."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS)
