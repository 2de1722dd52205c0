"""Settings of virtual destinations, which forward messages to other queues and topics.

Names and defaults are from ActiveMQ's ``destinationInterceptors`` ("Virtual Destinations", "Composite Destinations",
"Mirrored Queues"). `spanwire.broker.routing.virtual_destinations` implements the forwarding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import TOPIC, Destination

MAX_FORWARDS: Final = 1_000  # targets of a composite destination; the first message creates all, 8 microseconds each
DEFAULT_VIRTUAL_TOPICS: Final = Destination(TOPIC, "VirtualTopic.>")


@dataclass(frozen=True)
class VirtualTopic:
    """Virtual topics under ``destination``, a name or pattern.

    Each existing queue ``prefix`` + the topic's name + ``postfix`` gets a copy of each message. Wildcards in the prefix
    are matched.

    ``selector_aware`` skips a queue without a consumer whose selector matches; ``local`` skips messages from a bridge;
    ``drop_on_resource_limit`` skips a full queue instead of blocking the send; ``set_original_destination`` false keeps
    the topic as JMSDestination.
    """

    destination: Destination = DEFAULT_VIRTUAL_TOPICS
    prefix: str = "Consumer.*."
    postfix: str = ""
    selector_aware: bool = False
    local: bool = False
    drop_on_resource_limit: bool = False
    set_original_destination: bool = True


@dataclass(frozen=True)
class ForwardTo:
    """One target of a composite destination. With a ``selector`` only matching messages are forwarded."""

    destination: Destination
    selector: str = ""


@dataclass(frozen=True)
class CompositeDestination:
    """Forwards messages for ``destination``, a name or pattern, to all destinations of ``forward_to``.

    Unless ``forward_only`` is set, ``destination`` keeps the messages, too. With ``send_when_not_matched`` it keeps
    exactly those that no target gets, whatever ``forward_only`` says. ``copy_message`` false keeps the original
    JMSDestination.
    """

    destination: Destination
    forward_to: tuple[ForwardTo, ...]
    forward_only: bool = True
    copy_message: bool = True
    send_when_not_matched: bool = False


@dataclass(frozen=True)
class MirroredQueues:
    """Copies each message of each queue to the topic ``prefix`` + the queue's name + ``postfix``.

    Temporary queues are mirrored only with ``temporary``.
    """

    prefix: str = "VirtualTopic.Mirror."
    postfix: str = ""
    copy_message: bool = True
    temporary: bool = True


@dataclass(frozen=True)
class VirtualSettings:
    """All virtual destinations of one broker. By default the topics ``VirtualTopic.>`` are virtual.

    With ``counts_as_demand`` other brokers learn of consumers behind virtual destinations (ActiveMQ's
    useVirtualDestSubs). With ``announced_on_creation`` each queue behind a virtual destination counts as a consumer
    (ActiveMQ's useVirtualDestSubsOnCreation).
    """

    topics: tuple[VirtualTopic, ...] = (VirtualTopic(),)
    composites: tuple[CompositeDestination, ...] = ()
    mirrored: MirroredQueues | None = None
    counts_as_demand: bool = False
    announced_on_creation: bool = False
