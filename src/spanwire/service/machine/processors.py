"""The processors of the machine, as far as polling for input depends on them."""

from __future__ import annotations

import os
import resource

from spanwire.transports.loop.polling import Polling


def machine_polling() -> Polling | None:
    """Return the polling of a process with a broker, or None where polling would take the processor of the clients.

    That is so with a single processor, and on systems that do not count how often a thread lost the processor.
    """
    thread = getattr(resource, "RUSAGE_THREAD", None)
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if thread is None or processors < 2:
        return None
    return Polling(lambda: resource.getrusage(thread).ru_nivcsw)
