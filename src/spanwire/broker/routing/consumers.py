"""Consumers: registration, dispatch windows, pulls and removal."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final, Protocol

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.advisories.message_advisories import AdvisedConsumer
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations, attach
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.destinations.wildcard_matching import Joining
from spanwire.broker.dispatch.broker_context import BrokerContext, ConsumerRemover
from spanwire.broker.dispatch.destination import BrokerDestination, note_bridge_left
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.message_reference import settle_all
from spanwire.broker.dispatch.subscription import MAX_PREFETCH, Subscription
from spanwire.broker.policy.fan_out import selector_steps
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import MessageConsumer
from spanwire.broker.queue.browser import Browse
from spanwire.broker.queue.queue import Queue
from spanwire.broker.queue.queue_consumers import QueueConsumer
from spanwire.broker.reserved_destinations import is_control
from spanwire.broker.routing.consumer_removal import CONSUMERS_PER_STEP, Leaving
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.topic.topic import Topic
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN
from spanwire.model.destination import QUEUE, Destination
from spanwire.model.errors import IllegalStateError, InvalidDestinationError, JmsError, ResourceAllocationError
from spanwire.model.info import ConsumerInfo
from spanwire.model.ledger import CLIENT, way_over
from spanwire.selector.cache import SelectorCache
from spanwire.selector.expression import Selector

CLIENT_QUEUE_PREFETCH: Final = 1_000  # default of clients (ActiveMQPrefetchPolicy)
CLIENT_TOPIC_PREFETCHES: Final = (32_766, 32_767)  # defaults of Spanwire's and other clients, and of Java's
CLIENT_BROWSER_PREFETCH: Final = 500
CLIENT_DURABLE_PREFETCHES: Final = (100, 1_000)  # the second is the default with jms.optimizeAcknowledge
REFILLS_AT_ONCE: Final = 16  # destinations with messages; each acknowledgement fills from so many
REFILLS_IN_SLICE: Final = 250  # destinations with messages; a slice of `Refilling` fills from so many
_NOWHERE: Final = Destination(QUEUE, "-")
NEVER: Final = float("inf")
MAX_PULLS_OVER: Final = 500  # expired pulls that one turn answers
STALE_PULLS: Final = 1_000  # entries of finished pulls that may stand among those of waiting ones
PAGE_WAIT: Final = 1.0  # seconds; a pull without timeout waits so long for a page that is being read


class RangeReads(Protocol):
    """Gives browsers of the control destination the messages reserved by cursors."""

    def check(self, state: ConnectionState, selector: str | None) -> None:
        """Raise `JmsError` unless the connection may read the range named by ``selector``."""
        ...

    def begin(self, state: ConnectionState, subscription: Subscription) -> None:
        """Start a new browser; messages arrive once the browser is started."""
        ...


class ConsumerRegistry(ConsumerRemover):
    """Adds and removes subscriptions and keeps their windows filled."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        policies: PolicyMap,
        access: AccessControl,
        values: MessageEvaluationContext,
        advisories: Advisories | None,
        durables: DurableSubscriptions,
        ranges: RangeReads,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._policies: Final[PolicyMap] = policies
        self._access: Final[AccessControl] = access
        self._values: Final[MessageEvaluationContext] = values
        self._advisories: Final[Advisories | None] = advisories
        self._durables: Final[DurableSubscriptions] = durables
        self._selectors: Final[SelectorCache] = SelectorCache()
        self._pulling: list[tuple[float, int, Subscription]] = []  # a heap; entries of finished pulls stay
        self._most_pulling = STALE_PULLS  # entries, before the finished ones are searched
        self._pulls = 0
        self._owners: Final[dict[Subscription, ConnectionState]] = {}
        self._ranges: Final[RangeReads] = ranges

    def add(
        self, state: ConnectionState, info: ConsumerInfo, consumer: MessageConsumer, automatic: bool
    ) -> Subscription:
        """Return a new subscription, attached but not started.

        Raises:
            JmsError: the consumer is refused; no trace is left.
        """
        key = str(info.consumer_id)
        if key in state.consumers:
            raise IllegalStateError(f"consumer {key} is registered already")
        if len(state.consumers) >= state.info.max_consumers:
            raise ResourceAllocationError(
                f"Can't add consumer on connection {state.connection_id}: at maximum limit: {state.info.max_consumers}"
            )
        selector: Selector | None = None
        if info.selector is not None and info.selector.strip():
            selector = self._selectors.parse(info.selector)
        parts = info.destination.parts()
        self._check_parts(state, info, parts)
        named = [part for part in parts if not part.is_pattern]
        self._destinations.check_all(state, named)  # before any change of a durable subscription
        durable = None if info.subscription_name is None else self._durables.claim(state, info, selector)
        destinations = self._destinations.make_all(state, named)
        if durable is not None:
            selector = None  # the subscription's queue has only messages that the selector lets through
        subscription = self._made(state, info, consumer, selector, automatic)
        subscription.client_id = state.info.client_id or ""
        self._apply_policy(subscription, parts[0])
        state.consumers[key] = subscription
        self._owners[subscription] = state
        if info.network_subscription and state.link != CLIENT:
            subscription.way = way_over(state.link if info.destination.is_queue else 0)
        if automatic:
            state.automatic.append(subscription)
        if info.browser:
            self._browse(state, destinations[0], subscription)
        elif durable is not None:
            self._durables.attach(durable, subscription)
            self._announce(subscription, parts)
        else:
            self._attach(subscription, parts, destinations)
        return subscription

    def _made(
        self,
        state: ConnectionState,
        info: ConsumerInfo,
        consumer: MessageConsumer,
        selector: Selector | None,
        automatic: bool,
    ) -> Subscription:
        """Return the subscription, with events for dispatches if a policy asks for such events.

        Browsers consume no messages.
        """
        advisories = self._context.advisories
        if advisories is None or info.browser or not self._policies.advises_of_dispatches():
            return Subscription(info, consumer, state.output, state.principal, selector, self._values, automatic)
        advised = AdvisedConsumer(consumer, advisories)
        made = Subscription(info, advised, state.output, state.principal, selector, self._values, automatic)
        advised.subscription = made
        return made

    def _apply_policy(self, subscription: Subscription, destination: Destination) -> None:
        """Use the policy's prefetch for a consumer without a prefetch of its own choice."""
        asked = subscription.info.prefetch_size
        if not subscription.info.browser:
            subscription.in_flight.keeps_window = not self._policies.entry_for(destination).prefetch_extension
        if asked < 0:
            subscription.pulls = False
            subscription.prefetch_size = CLIENT_QUEUE_PREFETCH
        chosen = self._chosen_prefetch(subscription.info, destination)
        if chosen > 0:
            subscription.prefetch_size = chosen
        elif chosen == 0 and subscription.consumer.switch_to_pull():
            subscription.prefetch_size = 0
            subscription.pulls = True

    def _chosen_prefetch(self, info: ConsumerInfo, destination: Destination) -> int:
        """Return the policy's prefetch for a consumer, -1 if unset or if the consumer chose another."""
        policy = self._policies.entry_for(destination)
        asked = info.prefetch_size
        if info.browser:
            return policy.queue_browser_prefetch if asked == CLIENT_BROWSER_PREFETCH else -1
        if destination.is_queue:
            return policy.queue_prefetch if asked == CLIENT_QUEUE_PREFETCH else -1
        if info.subscription_name is not None:
            return policy.topic.durable_prefetch if asked in CLIENT_DURABLE_PREFETCHES else -1
        return policy.topic_prefetch if asked in CLIENT_TOPIC_PREFETCHES else -1

    def _check_parts(self, state: ConnectionState, info: ConsumerInfo, parts: list[Destination]) -> None:
        """Raise `JmsError` unless the connection may read all parts and there is room for their wildcards."""
        for part in parts:
            self._destinations.check_owner(state, part)
            self._access.check_read(state, part)
        if info.browser:
            self._check_browse(state, info, parts)
        patterns = [part for part in parts if part.is_pattern]
        if info.subscription_name is None:
            if patterns:
                self._map.wildcards.check_room(len(patterns))
            self._map.fan_out.check(parts, 1 + selector_steps(info.selector))

    def _check_browse(self, state: ConnectionState, info: ConsumerInfo, parts: list[Destination]) -> None:
        if len(parts) != 1 or not parts[0].is_queue or parts[0].is_pattern:
            raise InvalidDestinationError(f"{info.destination} cannot be browsed: only a single queue can")
        if is_control(parts[0]):
            self._ranges.check(state, info.selector)

    def _browse(self, state: ConnectionState, destination: BrokerDestination, subscription: Subscription) -> None:
        if is_control(destination.name):
            self._ranges.begin(state, subscription)
            return
        assert isinstance(destination, Queue)
        Browse(destination, subscription, self._context)

    def _attach(
        self, subscription: Subscription, parts: list[Destination], destinations: list[BrokerDestination]
    ) -> None:
        network_filter = subscription.network_filter
        if network_filter is not None and network_filter.passes_nothing:
            self._announce(subscription, parts)  # no destination asks it about its messages
            return
        for destination in destinations:
            attach(destination, subscription)
        by_kind: dict[bool, list[BrokerDestination]] = {}  # one list for all wildcards: there are many destinations
        for part in parts:
            if part.is_pattern:
                self._map.add_pattern(part, subscription)
                if part.is_queue not in by_kind:
                    by_kind[part.is_queue] = self._map.of_kind(part)
                destinations = by_kind[part.is_queue]
                Joining(part, destinations, [subscription], self._destinations, self._context).start()
        self._announce(subscription, parts)

    def _announce(self, subscription: Subscription, parts: list[Destination]) -> None:
        if self._advisories is not None:
            for part in parts:
                self._advisories.consumer_added(subscription.info, part, self._count(part))
            self._advisories.listener_added(subscription)

    def _count(self, part: Destination) -> int:
        destination = self._map.find(part)
        if isinstance(destination, Topic):
            self._context.steps += len(destination.durables) // CONSUMERS_PER_STEP  # it asks each one for its consumer
        return 0 if destination is None else destination.consumer_count

    def start(self, subscription: Subscription) -> None:
        """Let dispatch to ``subscription`` begin."""
        subscription.started = True
        self.refill(subscription)

    def refill(self, subscription: Subscription) -> None:
        """Dispatch pending messages, since the window of ``subscription`` may have opened."""
        if subscription.pending:
            subscription.drain(self._context.wall_ms)
        if subscription.shared:
            self._refill_shared(subscription)
            return
        for destination, attachment in subscription.destinations.items():
            if isinstance(attachment, QueueConsumer):
                attachment.note_room()
            destination.fill()

    def refill_all(self, state: ConnectionState) -> None:
        """Refill the consumers of a connection with room for output again."""
        for subscription in list(state.consumers.values()):
            if not state.output.writable:
                break  # the other consumers continue after the client has read
            self.refill(subscription)

    def _refill_shared(self, subscription: Subscription) -> None:
        """Fill from a few destinations with messages at once.

        The other destinations have their turns in slices.
        """
        if subscription.yields and subscription.dispatched_count == 0:
            self._context.schedule(Succession(subscription))
        if self.fill_some(subscription, REFILLS_AT_ONCE) and not subscription.refilling:
            subscription.refilling = True
            self._context.schedule(Refilling(subscription, self))

    def fill_some(self, subscription: Subscription, at_most: int) -> bool:
        """Fill from at most ``at_most`` of the destinations with messages for ``subscription``.

        Destinations with further messages go to the end of the row.

        Returns:
            True if the subscription can take more and other destinations are left.
        """
        others = len(subscription.busy)
        for destination in list(islice(subscription.busy, at_most)):
            if not subscription.can_take():
                return False
            destination.fill()
            others -= 1
            if subscription.busy.pop(destination, True) is None and not destination.confirms_idle():
                subscription.busy[destination] = None
        return others > 0 and subscription.can_take()

    def set_prefetch(self, subscription: Subscription, prefetch_size: int) -> None:
        """Change the window of a consumer."""
        subscription.pulls = prefetch_size == 0
        subscription.prefetch_size = CLIENT_QUEUE_PREFETCH if prefetch_size < 0 else min(prefetch_size, MAX_PREFETCH)
        self.refill(subscription)

    def pull(self, subscription: Subscription, timeout_ms: int) -> None:
        """Dispatch one message to a consumer without prefetch.

        Args:
            timeout_ms: milliseconds to wait for a message; 0: any time, negative: only for a page being read.
        """
        subscription.pulls = True
        subscription.pull_deadline = NEVER
        subscription.pulled = 1
        self.refill(subscription)
        if subscription.pulled == 0 or timeout_ms == 0:
            return
        if timeout_ms < 0 and not _is_searching(subscription):
            self._pull_over(subscription)
            return
        wait = PAGE_WAIT if timeout_ms < 0 else timeout_ms / 1000
        subscription.pull_deadline = self._context.monotonic + wait
        self._pulls += 1
        if len(self._pulling) >= self._most_pulling:  # a long pull in front hides all that are over
            self._pulling = [entry for entry in self._pulling if _is_pulling(entry[2], entry[0])]
            heapq.heapify(self._pulling)
            self._most_pulling = 2 * len(self._pulling) + STALE_PULLS
        heapq.heappush(self._pulling, (subscription.pull_deadline, self._pulls, subscription))

    def _pull_over(self, subscription: Subscription) -> None:
        subscription.pulled = 0
        subscription.consumer.dispatch_end()
        subscription.output.mark_dirty()

    def next_timeout(self) -> float | None:
        """Return the monotonic time at which the next pull runs out."""
        self._forget_pulls()
        return self._pulling[0][0] if self._pulling else None

    def _forget_pulls(self) -> None:
        """Forget pulls that are over: a message came, the consumer was removed, or a new pull began."""
        while self._pulling:
            deadline, _, subscription = self._pulling[0]
            if _is_pulling(subscription, deadline):
                return
            heapq.heappop(self._pulling)

    def handle_timeout(self) -> None:
        """Answer the pulls that ran out without a message."""
        for _ in range(MAX_PULLS_OVER):
            self._forget_pulls()
            if not self._pulling or self._pulling[0][0] > self._context.monotonic:
                return
            self._pull_over(heapq.heappop(self._pulling)[2])

    def acknowledge_flushed(self, state: ConnectionState) -> None:
        """Acknowledge the messages of automatic subscriptions: the kernel has all output of the connection."""
        for subscription in state.automatic:
            settle_all(subscription.in_flight.take_all())
        for subscription in state.automatic:  # only now, since newly dispatched messages are not flushed
            self.refill(subscription)

    def remove(self, state: ConnectionState, key: str, last_delivered_sequence: int) -> None:
        """Remove a consumer. Its messages return to the queue, counted as delivered as far as the client says."""
        if key not in state.consumers:
            raise JmsError(f"Cannot remove a consumer that had not been registered: {key}")
        self.let_go(state, [key], last_delivered_sequence).start()

    def let_go(self, state: ConnectionState, keys: list[str], last_delivered_sequence: int) -> Leaving:
        """Return the job that removes consumers. The consumers get no messages or advisories from now on."""
        leaving: list[Subscription] = []
        for key in keys:
            subscription = state.consumers.pop(key)
            subscription.removed = True
            subscription.started = False
            subscription.discarding = True
            self._owners.pop(subscription, None)
            self._map.remove_patterns(subscription)
            if subscription.info.network_subscription:
                note_bridge_left(subscription)
            if subscription.info.subscription_name is not None:
                self._durables.release(subscription)
            if self._advisories is not None and not subscription.info.browser:
                self._advisories.listener_removed(subscription)
            leaving.append(subscription)
        if state.automatic:
            state.automatic[:] = [one for one in state.automatic if not one.removed]
        return Leaving(leaving, last_delivered_sequence, self._context, self._map, self._advisories)

    def remove_consumer(self, subscription: Subscription) -> None:
        """Remove a consumer for `ConsumerRemover`."""
        state = self._owners.get(subscription)
        if state is not None:
            self.remove(state, str(subscription.info.consumer_id), LAST_DELIVERED_UNKNOWN)


class Refilling(Job):
    """Fills a consumer from its many destinations with messages, a slice at a time."""

    def __init__(self, subscription: Subscription, consumer_registry: ConsumerRegistry) -> None:
        self._subscription: Final[Subscription] = subscription
        self._consumer_registry: Final[ConsumerRegistry] = consumer_registry
        self._left = len(subscription.busy)

    def work(self) -> bool:
        """Do one slice. Return False after one round, or when the consumer can take no more."""
        subscription = self._subscription
        more = not subscription.removed and self._consumer_registry.fill_some(subscription, REFILLS_IN_SLICE)
        self._left -= REFILLS_IN_SLICE
        if more and self._left > 0:
            return True
        subscription.refilling = False
        return False


class Succession(Job):
    """Lets the next exclusive consumers of queues take over from an earlier consumer of many queues, in slices.

    The earlier consumer may be unable to take messages itself, so that its own turn does not reach these queues.
    """

    def __init__(self, former: Subscription) -> None:
        self._former: Final[Subscription] = former

    def work(self) -> bool:
        """Do one slice. Return False at the end, or when the earlier consumer has messages in flight again."""
        former = self._former
        for queue in list(islice(former.yields, REFILLS_IN_SLICE)):
            if former.dispatched_count > 0:
                return False
            former.yields.pop(queue, None)
            if isinstance(queue, Queue):
                queue.succeed(former)
        return len(former.yields) > 0


def _is_pulling(subscription: Subscription, deadline: float) -> bool:
    """Return True if the pull that ends at ``deadline`` still waits for a message."""
    return subscription.pulled > 0 and not subscription.removed and subscription.pull_deadline == deadline


def _is_searching(subscription: Subscription) -> bool:
    """Return True if a message for the subscription may turn up without a further send."""
    is_durable = subscription.info.subscription_name is not None  # its queue may be held and empty, thus not busy
    destinations = subscription.busy if subscription.shared and not is_durable else subscription.destinations
    return (
        subscription.refilling
        or subscription.joins > 0
        or any(destination.is_searching() for destination in destinations)
    )
