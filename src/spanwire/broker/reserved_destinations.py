"""The queue for requests about cursors, sinks and pipelines (`spanwire.broker.exactly_once.requests`)."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError

CONTROL: Final = Destination(QUEUE, "ActiveMQ.Spanwire.Control")


def is_control(destination: Destination) -> bool:
    """Return True if messages for ``destination`` are requests."""
    return destination.name == CONTROL.name and destination.kind == QUEUE


def check_apart(destination: Destination) -> None:
    """Check that no copy, answer or delayed message goes to the control destination.

    Raises:
        IllegalStateError: ``destination`` is the control destination.
    """
    if is_control(destination):
        raise IllegalStateError(
            f"{CONTROL} takes requests that are sent to it alone and at once: no copies, answers or delayed messages"
        )
