"""Room for another consumer or durable subscription at topics; the fan-out of each message is limited.

A separate limit bounds the weight of all wildcard consumers, and durable subscriptions to wildcards, that can match the
same topic. So a new topic never starts above the limit.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP, PatternIndex, check_compared
from spanwire.broker.destinations.wildcard_consumers import WildcardConsumers
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.policy.fan_out import CHARACTERS_PER_STEP, COPY_STEPS, MAX_FAN_OUT, MAX_WILD_FAN_OUT
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import Destination
from spanwire.model.errors import ResourceAllocationError

_COUNTED: Final = (
    f"{MAX_FAN_OUT} steps, 1 for a consumer, {COPY_STEPS} for a durable subscription, "
    f"1 more for each {CHARACTERS_PER_STEP} characters and each arithmetic operator of a selector"
)


class FanOutRoom:
    """Counts the weights of durable subscriptions, and refuses too large a fan-out of one message.

    Also finds the durable subscriptions of a new topic.
    """

    def __init__(
        self,
        context: BrokerContext,
        topics: dict[str, Topic],
        wildcards: WildcardConsumers,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._topics: Final[dict[str, Topic]] = topics
        self._wildcards: Final[WildcardConsumers] = wildcards
        self._index: Final[PatternIndex] = PatternIndex()  # of the wildcards of durable subscriptions
        self._by_name: Final[dict[str, dict[int, None]]] = {}  # durable subscriptions by the names of their topics
        self._by_number: Final[dict[int, DurableSubscription]] = {}
        self._weight = 0  # weight of all durable subscriptions
        self.patterns = 0  # wildcards of all durable subscriptions

    def enter(self, durable: DurableSubscription) -> None:
        """Count a new durable subscription."""
        self._weight += durable.weight
        self._wildcards.wild.add(durable.patterns, durable.weight)
        self._context.newest_durable = max(self._context.newest_durable, durable.number)
        self._by_number[durable.number] = durable
        self.patterns += len(durable.patterns)
        for pattern in durable.patterns:
            self._index.add(durable.number, pattern)
        for name in durable.names:
            self._by_name.setdefault(name, {})[durable.number] = None

    def leave(self, durable: DurableSubscription) -> None:
        """Stop counting a durable subscription."""
        self._weight -= durable.weight
        self._wildcards.wild.add(durable.patterns, -durable.weight)
        del self._by_number[durable.number]
        self.patterns -= len(durable.patterns)
        for pattern in durable.patterns:
            self._index.remove(durable.number, pattern)
        for name in durable.names:
            del self._by_name[name][durable.number]
            if not self._by_name[name]:
                del self._by_name[name]

    def compared(self, topic: Destination) -> int:
        """Return the number of comparisons of `durables_of` for ``topic``."""
        return self._index.compared(topic)

    def durables_of(self, topic: Destination) -> list[DurableSubscription]:
        """Return the durable subscriptions that may read ``topic`` now, oldest first."""
        self._context.steps += self.compared(topic) // COMPARED_PER_STEP
        numbers = dict(self._by_name.get(topic.qualified_name, {}))
        for number in self._index.find(topic):
            if number not in numbers and self._by_number[number].may_read(topic):
                numbers[number] = None
        return [self._by_number[number] for number in sorted(numbers)]

    def check(self, parts: list[Destination], weight: int, replaced: DurableSubscription | None = None) -> None:
        """Check that all topics under ``parts`` have room for a subscription with a ``weight``.

        ``parts`` are names or patterns. The new subscription may replace the durable subscription ``replaced``.

        Raises:
            ResourceAllocationError: a topic has no room.
        """
        compared = 0
        looked = 0
        for part in parts:
            if part.is_queue:
                continue
            if part.is_pattern:
                self._check_pattern(part, weight, replaced)
                continue
            topic = self._topics.get(part.qualified_name)
            if replaced is not None and replaced.weight >= weight and replaced.covers(part):
                continue  # with too many from the store, a subscription may still become lighter
            if topic is not None:
                load = topic.load - _saved(topic, replaced)
            else:
                load = self._wildcards.weight + self._weight
                if load + weight > MAX_FAN_OUT:
                    looked += 1
                    compared += 2 * (self._wildcards.compared(part) + self.compared(part))  # and when it is made
                    check_compared(looked, compared)
                    load = self._load_of_new(part, replaced)
            if load + weight > MAX_FAN_OUT:
                raise refusal(part)

    def _check_pattern(self, pattern: Destination, weight: int, replaced: DurableSubscription | None) -> None:
        more = weight
        most = self._wildcards.wild.most(pattern)
        if replaced is not None:
            self._wildcards.wild.add(replaced.patterns, -replaced.weight)
            more -= most - self._wildcards.wild.most(pattern)
            self._wildcards.wild.add(replaced.patterns, replaced.weight)
        if more > 0 and most + more > MAX_WILD_FAN_OUT:
            raise ResourceAllocationError(
                f"wildcards bring as much work to a new topic as they may (half of {_COUNTED}): name topics, or use "
                f"fewer wildcards"
            )
        for destination in self._context.crowded:
            if pattern.matches(destination.name):
                more = weight - _saved(destination, replaced)
                if more > 0 and not destination.has_room(more):
                    raise refusal(destination.name)

    def _load_of_new(self, topic: Destination, replaced: DurableSubscription | None) -> int:
        """Return the initial load of ``topic``."""
        self._context.steps += self._wildcards.compared(topic) // COMPARED_PER_STEP
        load = sum([subscription.weight for subscription in self._wildcards.subscriptions(topic)])
        return load + sum([durable.weight for durable in self.durables_of(topic) if durable is not replaced])


def _saved(topic: BrokerDestination, replaced: DurableSubscription | None) -> int:
    return replaced.weight if replaced is not None and topic in replaced.topics else 0


def refusal(topic: Destination) -> ResourceAllocationError:
    """Return the error for a consumer that finds no room at ``topic``."""
    return ResourceAllocationError(
        f"{topic.qualified_name} has as many consumers as one message may go to ({_COUNTED}): "
        f"use several topics, or queues behind a virtual topic"
    )
