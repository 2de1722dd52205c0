"""The name under which programs ask about cursors and sinks (`spanwire.broker.exactly_once.requests`)."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError

CONTROL: Final = Destination(QUEUE, "ActiveMQ.Spanwire.Control")


def is_control(destination: Destination) -> bool:
    """Whether what is sent there is a request."""
    return destination.name == CONTROL.name and destination.kind == QUEUE


def check_apart(destination: Destination) -> None:
    """Raises `IllegalStateError` where a message that is no request would come to it."""
    if is_control(destination):
        raise IllegalStateError(
            f"{CONTROL} takes requests that are sent to it alone and at once: no copies, answers or delayed messages"
        )
