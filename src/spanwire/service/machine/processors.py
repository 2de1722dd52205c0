"""The number of processors of the machine, for the decision about polling for input."""

from __future__ import annotations

import os

from spanwire.transports.loop.polling import Polling


def machine_polling() -> Polling | None:
    """Return the polling of a broker in a separate process, or None on a machine with one processor.

    Clients need the processor while the broker waits for input.
    """
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Polling() if processors > 1 else None
