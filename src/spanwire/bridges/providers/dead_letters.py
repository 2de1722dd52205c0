"""Dead letters sent by a provider, in place of the broker.

The broker takes no poison acknowledgement with a cause.
"""

from __future__ import annotations

from typing import Final

CAUSE: Final = "dlqDeliveryFailureCause"  # property with the cause; ActiveMQ's name
ORIGIN: Final = "originalDestination"  # property with the source
SUFFIX: Final = ".DLQ"  # behind the name of the source
MAX_CAUSE: Final = 1_000  # characters of a cause; a header must stay far below the limits of all brokers


def cause_text(cause: str) -> str:
    """Return a cause on one line, within `MAX_CAUSE`."""
    return " ".join(cause.replace("\0", "?").split())[:MAX_CAUSE]
