"""What an administrator says about virtual destinations: names whose messages go on to other queues and topics.

Names and defaults are those of ActiveMQ's ``destinationInterceptors`` ("Virtual Destinations", "Composite
Destinations", "Mirrored Queues"). What they do is `spanwire.broker.routing.virtual_destinations`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spanwire.model.destination import TOPIC, Destination

MAX_FORWARDS: Final = 1_000  # targets of one composite destination; the first message makes them, 8 microseconds each
DEFAULT_VIRTUAL_TOPICS: Final = Destination(TOPIC, "VirtualTopic.>")


@dataclass(frozen=True)
class VirtualTopic:
    """Topics under ``destination``, a name or pattern: each queue ``prefix`` + the topic's name + ``postfix`` that
    exists, wildcards in the prefix matched, gets a copy of each message.

    ``selector_aware`` leaves out a queue none of whose consumers wants the message; ``local`` leaves alone what came
    over a bridge; ``drop_on_resource_limit`` skips a queue that has no room instead of letting the send wait;
    ``set_original_destination`` false keeps the topic as JMSDestination.
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
    """One target of a composite destination; with a ``selector``, of the messages it is TRUE for."""

    destination: Destination
    selector: str = ""


@dataclass(frozen=True)
class CompositeDestination:
    """Messages for ``destination``, a name or pattern, go to all of ``forward_to``; unless ``forward_only`` they stay
    there, too. ``copy_message`` false keeps the JMSDestination they were sent to.
    """

    destination: Destination
    forward_to: tuple[ForwardTo, ...]
    forward_only: bool = True
    copy_message: bool = True


@dataclass(frozen=True)
class MirroredQueues:
    """Each message of each queue goes to the topic ``prefix`` + the queue's name + ``postfix``, too; those of temporary
    queues with ``temporary``.
    """

    prefix: str = "VirtualTopic.Mirror."
    postfix: str = ""
    copy_message: bool = True
    temporary: bool = True


@dataclass(frozen=True)
class VirtualSettings:
    """All virtual destinations of one broker. Without any configuration the topics ``VirtualTopic.>`` are virtual. With
    ``told_as_demand`` other brokers hear of consumers behind them (ActiveMQ's useVirtualDestSubs), and with
    ``told_on_creation`` each queue behind them counts as a consumer (its useVirtualDestSubsOnCreation).
    """

    topics: tuple[VirtualTopic, ...] = (VirtualTopic(),)
    composites: tuple[CompositeDestination, ...] = ()
    mirrored: MirroredQueues | None = None
    told_as_demand: bool = False
    told_on_creation: bool = False
