"""Settings of the system's allocator for the broker's own process.

A broker allocates and frees buffers of up to a frame's size all the time. glibc returns freed memory at the top of the
heap to the system and requests the memory again page by page, and the kernel clears each page. The clearing costs a
tenth of all CPU time with messages of 1 MiB, and half with messages of 95 MiB. The default settings adapt only to
earlier frees. Blocks too large for glibc's heap, such as a message of more than 32 MiB, are still new memory each time.

Below the top glibc returns nothing by itself. What was free for some minutes is returned here, so that a broker is not
for ever as large as its largest backlog.
"""

from __future__ import annotations

import asyncio
import ctypes
import sys
import time
from typing import Final

from spanwire.model.units import MIB

M_TRIM_THRESHOLD: Final = -1  # glibc, mallopt(3)
M_TOP_PAD: Final = -2
M_MMAP_THRESHOLD: Final = -3
RETAINED_BYTES: Final = 104 * MIB  # free memory at the top of the heap: the pieces of one of the largest messages
GROWTH_BYTES: Final = 4 * MIB  # smallest growth of the heap
MAPPED_BYTES: Final = 32 * MIB  # larger blocks are mapped separately; glibc's maximum
RETURN_S: Final = 300.0  # seconds between two returns of free memory; the pages cost time when they are needed again
REST: Final = 1_000  # times the duration of a return: 5 ms for a heap of 60 MiB, 0.13 s for one of 1.2 GiB


def keep_freed_memory() -> bool:
    """Keep up to `RETAINED_BYTES` of freed memory for later messages.

    Returns False without glibc's allocator.

    Call only in a process of the broker alone. Only speed depends on this setting.
    """
    mallopt = _function("mallopt")
    if mallopt is None:
        return False
    settings = ((M_TRIM_THRESHOLD, RETAINED_BYTES), (M_TOP_PAD, GROWTH_BYTES), (M_MMAP_THRESHOLD, MAPPED_BYTES))
    return all(mallopt(name, value) == 1 for name, value in settings)


class FreeMemory:
    """Returns free pages of the heap to the system every `RETURN_S`; does nothing without glibc's allocator.

    The messages of a backlog lie between blocks that live longer. So glibc keeps their memory, and each further backlog
    leaves some more.
    """

    def __init__(self) -> None:
        self._trim: Final = _function("malloc_trim")
        self._timer: asyncio.TimerHandle | None = None

    def start(self, after_s: float = RETURN_S) -> None:
        """Return free memory after some seconds and then again and again, from the running loop, until `stop`."""
        if self._trim is not None:
            self._timer = asyncio.get_running_loop().call_later(after_s, lambda: self.start(self.give_back()))

    def stop(self) -> None:
        """Return no more."""
        if self._timer is not None:
            self._timer.cancel()

    def give_back(self) -> float:
        """Return free pages, and the seconds until the next time: returns take at most a thousandth of the time."""
        began = time.monotonic()
        if self._trim is not None:
            self._trim(ctypes.c_size_t(0))
        return max(RETURN_S, REST * (time.monotonic() - began))


def _function(name: str) -> ctypes._NamedFuncPointer | None:
    """Return a function of glibc; None for another library."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
