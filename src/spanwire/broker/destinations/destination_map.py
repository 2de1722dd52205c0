"""Queues and topics of one broker by name, and the wildcard subscriptions for new destinations."""

from __future__ import annotations

from itertools import islice
from typing import Final

from spanwire.broker.destinations.destination_factory import new_queue, new_topic
from spanwire.broker.destinations.fan_out_room import FanOutRoom
from spanwire.broker.destinations.pattern_index import COMPARED_PER_STEP, SharedPattern, check_compared
from spanwire.broker.destinations.wildcard_consumers import WildcardConsumers
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.slow_consumer_strategy import SlowConsumerWatch
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.dispatch.virtual_route import VirtualRoutes
from spanwire.broker.policy.fan_out import STEPS_OF_REQUEST
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.policy_topic import PolicyTopic
from spanwire.broker.topic.subscription_recovery import RecoveryMemory
from spanwire.broker.topic.topic import Topic
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError, InvalidDestinationError

ADVISORY_SHARE: Final = 25  # percent of memoryUsage that pending advisories may take
MAX_DESTINATIONS: Final = 50_000  # destinations of one broker; each costs memory and a line in every view
RETUNING_STEPS: Final = 500  # steps of one turn: a destination takes a new policy, or is compared with 64 policies
POLICIES_PER_STEP: Final = 64


class DestinationMap:
    """Finds, makes and forgets destinations. Rights, advisories and the store are left to the broker."""

    def __init__(self, context: BrokerContext, policies: PolicyMap, usage: MemoryUsage, routes: VirtualRoutes) -> None:
        self._context: Final[BrokerContext] = context
        self._policies: Final[PolicyMap] = policies
        self._usage: Final[MemoryUsage] = usage
        self._routes: Final[VirtualRoutes] = routes
        self.advisory_usage: Final[MemoryUsage] = MemoryUsage(usage.limit_bytes * ADVISORY_SHARE // 100, usage)
        self.queues: Final[dict[str, Queue]] = {}
        self.topics: Final[dict[str, Topic]] = {}
        self.wildcards: Final[WildcardConsumers] = WildcardConsumers()
        self._memory: Final[RecoveryMemory] = RecoveryMemory(usage, context)
        self._slow_consumers: Final[dict[str, SlowConsumerWatch]] = {}  # by the name of the policy with a strategy
        self._limited: Final[dict[str, int]] = {}  # destinations under each policy with a limit on their number
        self.durables: Final[dict[str, DurableSubscription]] = {}
        self.fan_out: Final[FanOutRoom] = FanOutRoom(context, self.topics, self.wildcards)
        self.swept: Final[dict[int, dict[str, Queue]]] = {}  # by the period of the expiry sweep
        self.removable: Final[dict[str, BrokerDestination]] = {}  # destinations whose policy removes idle ones
        self._untuned: dict[str, BrokerDestination] = {}  # destinations still under the old policies, oldest first
        self._untuned_durables: list[DurableSubscription] = []
        self._last_name: Destination | None = None
        self._last_found: BrokerDestination | None = None
        self.served = 0  # topics of all durable subscriptions together
        self.changes = 0  # additions and removals of permanent queues and patterns

    def queue(self, destination: Destination) -> Queue | None:
        """Return the queue named ``destination``, or None."""
        return self.queues.get(destination.qualified_name)

    def topic(self, destination: Destination) -> Topic | None:
        """Return the topic named ``destination``, or None."""
        return self.topics.get(destination.qualified_name)

    def find(self, destination: Destination) -> BrokerDestination | None:
        """Return the queue or topic named ``destination``, or None.

        The last answer is cached, because the messages of a producer share one `Destination` object.
        """
        if destination is self._last_name:
            return self._last_found
        known: BrokerDestination | None
        if destination.is_queue:
            known = self.queues.get(destination.qualified_name)
        else:
            known = self.topics.get(destination.qualified_name)
        self._last_name = destination if known is not None else None
        self._last_found = known
        return known

    def _forget_last(self) -> None:
        self._last_name = None
        self._last_found = None

    def all(self) -> list[BrokerDestination]:
        """Return all queues, then all topics, oldest first."""
        destinations: list[BrokerDestination] = []
        destinations.extend(self.queues.values())
        destinations.extend(self.topics.values())
        return destinations

    def create(self, destination: Destination) -> BrokerDestination:
        """Make a queue or topic.

        `check_room` is called before, for clients only: destinations of the broker itself and destinations from the
        store are never refused. The name of an advisory topic may contain the text of a pattern, if consumers of the
        pattern are the subject.
        """
        if not destination.is_advisory:
            check_physical(destination)
        policy = self._policies.entry_for(destination)
        if self.find(destination) is None:
            self._count(policy, destination)
        self._forget_last()
        if destination.is_queue:
            queue = new_queue(destination, policy, self._usage, self._context)
            if destination.kind == QUEUE:
                self.changes += 1
            queue.route = self._routes.find(destination)
            queue.fans_out = queue.route is not None or is_control(destination)
            queue.slow_consumers = self.slow_consumers(policy)
            self.queues[destination.qualified_name] = queue
            self._note_swept(queue)
            self._note_removable(queue)
            return queue
        slow = self.slow_consumers(policy)
        usage = self.advisory_usage if destination.is_advisory else self._usage
        topic = new_topic(destination, policy, usage, self._context, self._memory, slow)
        topic.route = self._routes.find(destination)
        topic.fans_out = topic.route is not None
        for durable in self.fan_out.durables_of(destination):
            topic.serve(durable)
            self.served += 1
        self.topics[destination.qualified_name] = topic
        self._note_removable(topic)
        return topic

    def serve(self, durable: DurableSubscription) -> None:
        """Attach ``durable`` to exactly the topics of the subscription that the user may read now."""
        destinations = list(self.topics.values())
        if not durable.has_pattern:
            destinations = [self.topics[name] for name in durable.names if name in self.topics]
        self._context.steps += len(destinations) * max(1, len(durable.patterns)) // COMPARED_PER_STEP
        for topic in destinations:
            before = topic in durable.topics
            if durable.covers(topic.name) == before:
                continue
            if before:
                topic.serve_no_more(durable)
                self.served -= 1
            else:
                topic.serve(durable)
                self.served += 1

    def serve_no_more(self, durable: DurableSubscription) -> None:
        """Detach the deleted subscription ``durable`` from all topics."""
        self._context.steps += len(durable.topics) // COMPARED_PER_STEP
        self.served -= len(durable.topics)
        for topic in list(durable.topics):
            assert isinstance(topic, Topic)
            topic.serve_no_more(durable)

    def reread(self) -> None:
        """Apply changed rights to durable subscriptions with patterns.

        Pending messages of such a subscription are checked again when the subscriber returns.
        """
        for durable in self.durables.values():
            if durable.has_pattern:
                durable.is_checked = False
                self.serve(durable)

    def _count(self, policy: PolicyEntry, destination: Destination) -> None:
        if _counts(policy, destination):
            name = policy.destination.qualified_name
            self._limited[name] = self._limited.get(name, 0) + 1

    def _note_swept(self, queue: Queue) -> None:
        if queue.policy.expire_messages_period_ms > 0:
            swept = self.swept.setdefault(queue.policy.expire_messages_period_ms, {})
            swept[queue.name.qualified_name] = queue

    def retune(self) -> None:
        """Apply changed policies to all destinations and durable subscriptions, in slices.

        The first slice is done now.

        A destination keeps the old policy until its turn, and is meanwhile neither swept for expired messages nor
        removed as idle. A further change of the policies starts again with all destinations.
        """
        self._limited.clear()
        self.swept.clear()
        self.removable.clear()
        self._slow_consumers.clear()
        self._untuned = {}
        self._untuned.update(self.queues)
        self._untuned.update(self.topics)
        self._untuned_durables = list(self.durables.values())
        self.retune_some()

    @property
    def is_retuning(self) -> bool:
        """True while destinations still have to take over changed policies."""
        return bool(self._untuned or self._untuned_durables)

    def retune_some(self) -> None:
        """Do the next slice of `retune`."""
        cost = 1 + self._policies.entry_count // POLICIES_PER_STEP
        budget = max(1, RETUNING_STEPS // cost)
        for name in list(islice(self._untuned, budget)):
            destination = self._untuned.pop(name)
            budget -= 1
            _tune(destination, self._policies.entry_for(destination.name))
            self._count(destination.policy, destination.name)
            self._note_removable(destination)
            if isinstance(destination, Queue):
                self._note_swept(destination)
        while budget > 0 and self._untuned_durables:
            durable = self._untuned_durables.pop()
            budget -= 1
            _tune(durable.queue, self._policies.entry_for(durable.terms.topic.parts()[0]))

    def reroute(self) -> None:
        """Apply changed virtual destinations."""
        for destination in self.all():
            destination.route = self._routes.find(destination.name)
            destination.fans_out = (
                destination.route is not None or destination.durable_count > 0 or is_control(destination.name)
            )
        self.changes += 1

    def _note_removable(self, destination: BrokerDestination) -> None:
        if destination.policy.gc_inactive and not destination.name.is_temporary and not destination.name.is_advisory:
            self.removable[destination.name.qualified_name] = destination

    def slow_consumers(self, policy: PolicyEntry) -> SlowConsumerWatch | None:
        """Return the watch over slow consumers under ``policy``, None without a strategy for slow consumers."""
        strategy = policy.slow_consumers
        if strategy is None:
            return None
        name = policy.destination.qualified_name
        watch = self._slow_consumers.get(name)
        if watch is None:
            watch = SlowConsumerWatch(policy, strategy, self._context)
            self._slow_consumers[name] = watch
        return watch

    def slow_consumer_watches(self) -> list[SlowConsumerWatch]:
        """Return the watches over slow consumers that destinations use or have used."""
        return list(self._slow_consumers.values())

    def slow_consumer_watch(self, name: str) -> SlowConsumerWatch | None:
        """Return the watch of the policy with the pattern ``name``."""
        return self._slow_consumers.get(name)

    def check_room(self, wanted: list[Destination]) -> None:
        """Check that there is room for new destinations.

        Raises:
            IllegalStateError: `MAX_DESTINATIONS`, or the limit of a policy, would be exceeded.
            ResourceAllocationError: too many wildcard consumers would be attached.
        """
        if len(self.queues) + len(self.topics) + len(wanted) > MAX_DESTINATIONS:
            raise IllegalStateError(
                f"The maximum number of destinations allowed ({MAX_DESTINATIONS}) has already been reached: "
                f"remove some or use fewer"
            )
        self._check_compared(wanted)
        if not self.wildcards.has_room() and any(self.pattern_subscriptions(destination) for destination in wanted):
            raise self.wildcards.refusal()
        more: dict[str, int] = {}
        for destination in wanted:
            policy = self._policies.entry_for(destination)
            if _counts(policy, destination):
                name = policy.destination.qualified_name
                more[name] = more.get(name, 0) + 1
                if self._limited.get(name, 0) + more[name] > policy.max_destinations:
                    raise IllegalStateError(
                        f"The maximum number of destinations allowed ({policy.max_destinations}) under the policy of "
                        f"{name} has already been reached: {destination} is not made; remove some or raise "
                        f"maxDestinations"
                    )

    def _check_compared(self, wanted: list[Destination]) -> None:
        compared = 0
        for destination in wanted:
            compared += self.comparisons(destination)
        check_compared(len(wanted), compared if self.wildcards.has_room() else 2 * compared)

    def load_of(self, destination: BrokerDestination) -> int:
        """Return the number of steps of one message to ``destination``, including pending attachments."""
        return self._context.load_of(destination)

    def comparisons(self, destination: Destination) -> int:
        """Return the number of comparisons with wildcards for a new destination."""
        count = self.wildcards.compared(destination)
        return count if destination.is_queue else count + self.fan_out.compared(destination)

    def virtual_sources(self, destination: Destination) -> list[Destination]:
        """Return the virtual destinations that forward to ``destination`` and are announced to other brokers."""
        return self._routes.sources(destination)

    def remove(self, destination: Destination) -> None:
        """Forget a queue or topic."""
        known = self.find(destination)
        self._forget_last()
        was_untuned = self._untuned.pop(destination.qualified_name, None) is not None
        if known is not None:
            known.removed = True
            self._context.measured.pop(known, None)
        if known is not None and not was_untuned and _counts(known.policy, destination):
            self._limited[known.policy.destination.qualified_name] -= 1
        if destination.is_queue:
            if destination.kind == QUEUE:
                self.changes += 1
            self.queues.pop(destination.qualified_name, None)
            swept = None if known is None else self.swept.get(known.policy.expire_messages_period_ms)
            if swept is not None:
                swept.pop(destination.qualified_name, None)
        else:
            topic = self.topics.pop(destination.qualified_name, None)
            if topic is not None:
                self._context.crowded.pop(topic, None)
                self.served -= len(topic.durables)
                for durable in topic.durables:
                    del durable.topics[topic]
                topic.drop()
                if topic.observer is not None or isinstance(topic, PolicyTopic):
                    self._context.departed += 1
        self.removable.pop(destination.qualified_name, None)

    def matching(self, pattern: Destination) -> list[BrokerDestination]:
        """Return all destinations that match a name or pattern, oldest first."""
        if not pattern.is_pattern:
            exact = self.find(pattern)
            return [] if exact is None else [exact]
        destinations = self.of_kind(pattern)
        self._context.steps += len(destinations) // COMPARED_PER_STEP
        return [destination for destination in destinations if pattern.matches(destination.name)]

    def count_of_kind(self, pattern: Destination) -> int:
        """Return the number of destinations that `matching` compares with ``pattern``."""
        return len(self.queues) if pattern.is_queue else len(self.topics)

    def of_kind(self, pattern: Destination) -> list[BrokerDestination]:
        """Return all queues if ``pattern`` is for queues, else all topics, oldest first."""
        destinations: list[BrokerDestination] = []
        if pattern.is_queue:
            destinations.extend(self.queues.values())
        else:
            destinations.extend(self.topics.values())
        return destinations

    def add_pattern(self, pattern: Destination, subscription: Subscription) -> None:
        """Offer every new destination under ``pattern`` to ``subscription``."""
        self.wildcards.add(pattern, subscription)
        self.changes += 1

    def await_again(self, destination: Destination, subscription: Subscription) -> None:
        """Offer the removed ``destination`` to ``subscription`` when the destination is made again."""
        if not self.wildcards.listens(subscription, destination):
            self.add_pattern(destination, subscription)

    def remove_patterns(self, subscription: Subscription) -> None:
        """Stop offering new destinations to ``subscription``."""
        if self.wildcards.remove(subscription):
            self.changes += 1

    def overlapping(self, wanted: Destination) -> list[SharedPattern]:
        """Return the consumers' patterns for destinations under ``wanted``, each once.

        Some returned patterns may have no match under ``wanted``. The caller spends a microsecond on each pattern.
        """
        patterns = self.wildcards.overlapping(wanted)
        self._context.steps += self.wildcards.looked // COMPARED_PER_STEP + len(patterns) // STEPS_OF_REQUEST
        return patterns

    def owners(self, shared: SharedPattern) -> list[Principal]:
        """Return the principals of the consumers of a pattern, each once."""
        principals: dict[tuple[str, frozenset[str]], Principal] = {}
        for number in shared.owners:
            principal = self.wildcards.owner(number).principal
            principals.setdefault((principal.name, principal.groups), principal)
        self._context.steps += len(shared.owners) // STEPS_OF_REQUEST
        return list(principals.values())

    def pattern_subscriptions(self, destination: Destination) -> list[Subscription]:
        """Return the wildcard subscriptions that match ``destination``, each once."""
        self._context.steps += self.wildcards.compared(destination) // COMPARED_PER_STEP
        return self.wildcards.subscriptions(destination)


def _tune(destination: BrokerDestination, policy: PolicyEntry) -> None:
    destination.policy = policy
    destination.usage.limit_bytes = policy.memory_limit_bytes


def _counts(policy: PolicyEntry, destination: Destination) -> bool:
    """Return True if ``policy`` limits the number of destinations like ``destination``."""
    return policy.max_destinations >= 0 and not destination.is_temporary and not destination.is_advisory


def check_physical(destination: Destination) -> None:
    """Raise `InvalidDestinationError` for a pattern or composite; neither is a physical destination."""
    if destination.is_pattern or destination.is_composite:
        raise InvalidDestinationError(f"{destination} is a pattern or composite; it cannot be created")
