"""What only a collection frees: objects that refer to each other."""

from __future__ import annotations

import gc


def cycles() -> set[str]:
    """Collect, and give the names of the classes of what was freed."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        return {type(item).__name__ for item in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
