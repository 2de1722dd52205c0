"""The processors of the machine, as far as polling for input depends on them."""

from __future__ import annotations

import os

from spanwire.transports.loop.polling import Polling


def machine_polling() -> Polling | None:
    """Return the polling of a broker in its own process; None with a single processor, which the clients need."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Polling() if processors > 1 else None
