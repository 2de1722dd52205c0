"""Settings of the system's allocator for the broker's own process.

A broker allocates and frees buffers of up to a frame's size all the time. glibc returns freed memory at the top of the
heap to the system and requests the memory again page by page, and the kernel clears each page. The clearing costs a
tenth of all CPU time with messages of 1 MiB, and half with messages of 95 MiB. The default settings adapt only to
earlier frees. Blocks too large for glibc's heap, such as a message of more than 32 MiB, are still new memory each time.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

from spanwire.model.units import MIB

M_TRIM_THRESHOLD: Final = -1  # glibc, mallopt(3)
M_TOP_PAD: Final = -2
M_MMAP_THRESHOLD: Final = -3
RETAINED_BYTES: Final = 104 * MIB  # free memory at the top of the heap: the pieces of one of the largest messages
GROWTH_BYTES: Final = 4 * MIB  # smallest growth of the heap
MAPPED_BYTES: Final = 32 * MIB  # larger blocks are mapped separately; glibc's maximum


def keep_freed_memory() -> bool:
    """Keep up to `RETAINED_BYTES` of freed memory for later messages.

    Returns False without glibc's allocator.

    Call only in a process of the broker alone. Only speed depends on this setting.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((M_TRIM_THRESHOLD, RETAINED_BYTES), (M_TOP_PAD, GROWTH_BYTES), (M_MMAP_THRESHOLD, MAPPED_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)
