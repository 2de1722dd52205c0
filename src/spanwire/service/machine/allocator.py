"""What the broker's own process asks of the system's allocator.

A broker allocates and frees buffers of up to a frame's size all the time. glibc gives freed memory at the top of its
heap back to the system and asks for it again, page by page, each cleared by the kernel: with messages of 1 MiB that is
a tenth of all CPU time. Left to itself it adapts, but only to what was freed before.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

from spanwire.model.units import MIB

M_TRIM_THRESHOLD: Final = -1  # glibc, mallopt(3)
M_TOP_PAD: Final = -2
M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 * MIB  # free memory at the top of the heap that stays with the process
GROWTH_BYTES: Final = 4 * MIB  # by which the heap grows at least
MAPPED_BYTES: Final = 32 * MIB  # larger blocks are mapped by themselves: the most that glibc allows


def keep_freed_memory() -> bool:
    """Keep up to `KEPT_BYTES` of freed memory for the next message; False where the allocator is not glibc's.

    For a process that is the broker's alone. Nothing depends on it but speed.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_TRIM_THRESHOLD, KEPT_BYTES), (M_TOP_PAD, GROWTH_BYTES), (M_MMAP_THRESHOLD, MAPPED_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
