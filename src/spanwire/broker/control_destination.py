"""The name under which programs ask about cursors and sinks (`spanwire.broker.control`)."""

from __future__ import annotations

from typing import Final

from spanwire.model.destination import QUEUE, Destination

CONTROL: Final = Destination(QUEUE, "ActiveMQ.Spanwire.Control")


def is_control(destination: Destination) -> bool:
    """Whether what is sent there is a request."""
    return destination.name == CONTROL.name and destination.kind == QUEUE
