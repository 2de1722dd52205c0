"""Bridges: forward messages from one provider to another, beside the broker.

- A *bridge* takes messages from a *source*, changes them in *steps*, and sends them to a *target*.
- A *provider* is a way to reach brokers, such as OpenWire. A provider opens sources and targets behind the ports of
  `ports`.
- A *batch* is a number of messages, received, sent and acknowledged together.
- A *quality of service* is the order of sending and acknowledging a batch (AT_MOST_ONCE, DUPLICATES_OK,
  ONCE_AND_ONLY_ONCE), by the names of the JMS bridge of ActiveMQ Artemis.
- A *link* is one pair of connections of a bridge; a failed link is closed, and the next attempt opens a new link.

`model` has the definition and the messages of a bridge, and `files` reads definitions. `engine` decides, `running`
performs.

A program runs a bridge with `JMSBridge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spanwire.bridges.jms_bridge import JMSBridge

__all__ = ["JMSBridge"]


def __getattr__(name: str) -> object:
    """Load `JMSBridge` at the first request, because the parts of the package need little of the class."""
    if name == "JMSBridge":
        from spanwire.bridges.jms_bridge import JMSBridge  # noqa: PLC0415 - see above

        return JMSBridge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
