"""Room for another consumer or durable subscription at topics; the fan-out of each message is limited.

Wildcard consumers, and durable subscriptions to wildcards, have a limit of their own for all wildcards that one topic
may match, so that a new topic never starts above its limit.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.wild_weights import wild_topics
from spanwire.broker.destinations.wildcard_consumers import WildcardConsumers
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.fan_out import CHARACTERS_PER_STEP, COPY_STEPS, MAX_FAN_OUT, MAX_WILD_FAN_OUT
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

_COUNTED: Final = (
    f"{MAX_FAN_OUT} steps, 1 for a consumer, {COPY_STEPS} for a durable subscription, "
    f"1 more for each {CHARACTERS_PER_STEP} characters and each arithmetic operator of a selector"
)


class FanOutRoom:
    """Counts durable subscriptions by their weights, and refuses subscriptions beyond the fan-out of one message."""

    def __init__(
        self,
        context: BrokerContext,
        topics: dict[str, Topic],
        durables: dict[str, DurableSubscription],
        wildcards: WildcardConsumers,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._topics: Final[dict[str, Topic]] = topics
        self._durables: Final[dict[str, DurableSubscription]] = durables
        self._wildcards: Final[WildcardConsumers] = wildcards
        self._weight = 0  # weight of all durable subscriptions

    def enter(self, durable: DurableSubscription) -> None:
        """Count a new durable subscription."""
        self._weight += durable.weight
        self._wildcards.wild.add(wild_topics(durable.terms.topic.parts()), durable.weight)

    def leave(self, durable: DurableSubscription) -> None:
        """Stop counting a durable subscription."""
        self._weight -= durable.weight
        self._wildcards.wild.add(wild_topics(durable.terms.topic.parts()), -durable.weight)

    def check(self, parts: list[Destination], weight: int, replaced: DurableSubscription | None = None) -> None:
        """Check that all topics of ``parts``, names or patterns, have room for a subscription of this ``weight``.

        The new subscription may take the place of the durable subscription ``replaced``.

        Raises:
            ResourceAllocationError: a topic has no room.
        """
        for part in parts:
            if part.is_queue:
                continue
            if part.is_pattern:
                self._check_pattern(part, weight, replaced)
                continue
            topic = self._topics.get(part.qualified_name)
            if replaced is not None and replaced.weight >= weight and replaced.covers(part):
                continue  # with too many from the store, a subscription may still become lighter
            if topic is None:
                load = self._load_of_new(part, weight, replaced)
            else:
                load = topic.load - _saved(topic, replaced)
            if load + weight > MAX_FAN_OUT:
                raise refusal(part)

    def _check_pattern(self, pattern: Destination, weight: int, replaced: DurableSubscription | None) -> None:
        more = weight
        most = self._wildcards.wild.most(pattern)
        if replaced is not None:
            self.leave(replaced)
            more -= most - self._wildcards.wild.most(pattern)
            self.enter(replaced)
        if more > 0 and most + more > MAX_WILD_FAN_OUT:
            raise ResourceAllocationError(
                f"wildcards bring as much work to a new topic as they may (half of {_COUNTED}): name topics, or use "
                f"fewer wildcards"
            )
        for home in self._context.crowded:
            if isinstance(home, Topic) and pattern.matches(home.destination):
                more = weight - _saved(home, replaced)
                if more > 0 and not home.has_room(more):
                    raise refusal(home.destination)

    def _load_of_new(self, topic: Destination, weight: int, replaced: DurableSubscription | None) -> int:
        """Return the load of ``topic`` at its creation, or a sum over all topics if the sum leaves room."""
        most = self._wildcards.weight + self._weight
        if most + weight <= MAX_FAN_OUT:
            return most
        load = sum([subscription.weight for subscription in self._wildcards.subscriptions(topic)])
        for durable in self._durables.values():
            if durable is not replaced and durable.covers(topic):
                load += durable.weight
        return load


def _saved(topic: Topic, replaced: DurableSubscription | None) -> int:
    return replaced.weight if replaced is not None and topic in replaced.topics else 0


def refusal(topic: Destination) -> ResourceAllocationError:
    """Return the error for a consumer for which ``topic`` has no room."""
    return ResourceAllocationError(
        f"{topic.qualified_name} has as many consumers as one message may go to ({_COUNTED}): "
        f"use several topics, or queues behind a virtual topic"
    )
