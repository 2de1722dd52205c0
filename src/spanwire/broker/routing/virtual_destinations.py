"""Virtual destinations: messages to one name go to other destinations.

The administrator configures the destinations.

A destination gets its route (`spanwire.broker.dispatch.virtual_route`) when created; most destinations have no route
and no costs. `expand` returns physical destinations. A target may have a route of its own: a composite topic may
forward to a virtual topic. A route that returns to an earlier name ends there.

Rights: a target named by the administrator refuses the whole send if the sender may not write there. A queue that only
listens to a virtual topic is skipped, with a line in the audit log, as a wildcard consumer gets only readable messages.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.pattern_index import MAX_COMPARED
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.evaluation_context import MessageEvaluationContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.virtual_route import ForwardRule, ListeningRule, awaited, awaited_name
from spanwire.broker.policy.fan_out import COPY_STEPS, MAX_FAN_OUT, MAX_STEPS_OF_SEND
from spanwire.broker.policy.virtual_settings import MAX_FORWARDS
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.flow_control import ROOM, FlowControl
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import QUEUE, STORED_SCHEMES, Destination
from spanwire.model.errors import IllegalStateError, ResourceAllocationError
from spanwire.model.message import Message

MAX_HOPS: Final = 16  # virtual destinations in a row on the route of one message
MAX_AWAITED: Final = 1_000  # queues that one message may create for consumers of wildcards, 8 microseconds each
MAX_MADE: Final = MAX_FORWARDS  # destinations that one message may create on all its routes, 8 microseconds each


class Target:
    """The destination of one copy of a message, and the JMSDestination of the copy.

    ``address`` None leaves JMSDestination as sent. A copy ``via`` another destination, such as a part of a composite or
    a mirror, looks as if sent there.
    """

    __slots__ = ("address", "destination", "via")

    def __init__(
        self, destination: BrokerDestination, address: Destination | None, via: Destination | None = None
    ) -> None:
        self.destination: Final[BrokerDestination] = destination
        self.address: Final[Destination | None] = address
        self.via: Final[Destination | None] = via


class VirtualDestinations:
    """Finds the physical targets of each message, including queues of durable subscriptions.

    `MessageRouter` copies and delivers.
    """

    def __init__(
        self,
        destination_map: DestinationMap,
        destinations: Destinations,
        access: AccessControl,
        flow: FlowControl,
        values: MessageEvaluationContext,
    ) -> None:
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._access: Final[AccessControl] = access
        self._flow: Final[FlowControl] = flow
        self._values: Final[MessageEvaluationContext] = values
        self._audiences: Final[dict[str, list[BrokerDestination]]] = {}
        self._changes = -1
        self._steps = 0  # steps of the current message
        self._made = 0  # destinations created for the current message
        self._compared = 0  # wildcards that these were compared with

    def expand(self, state: ConnectionState, destinations: list[BrokerDestination], message: Message) -> list[Target]:
        """Return all physical targets of a message to ``destinations``, in the order of the settings.

        Raises:
            JmsError: a target is refused; destinations of the settings may have been made by then.
        """
        targets: list[Target] = []
        self._steps = 0
        self._made = 0
        self._compared = 0
        if len(destinations) == 1 and destinations[0].route is None:
            self._steps = -self._load_of(destinations[0])  # room for these was checked when the consumers came
        for destination in destinations:
            self._follow(state, destination, message, Target(destination, destination.name), targets, [])
        return targets

    def _follow(
        self,
        state: ConnectionState,
        destination: BrokerDestination,
        message: Message,
        target: Target,
        targets: list[Target],
        path: list[BrokerDestination],
    ) -> None:
        route = destination.route
        if route is None:
            self._add(target, message, targets)
            return
        self._look(destination.name, 1)
        if destination in path or len(path) >= MAX_HOPS:
            return
        path.append(destination)
        via = target.via if target.address is None else target.address
        if via == message.destination:
            via = None
        mirror = route.mirror
        if mirror is not None:
            topic = self._ensure(mirror.destination)
            address = None if mirror.keeps_address else mirror.destination
            self._follow(state, topic, message, Target(topic, address, address), targets, path)
        is_matched = False
        for forward in route.forwards:
            if self._is_matched(forward, message):
                is_matched = True
                self._forward(state, forward, message, via, targets, path)
        for rule in route.listeners:
            self._listen(state, rule, message, via, targets, path)
        if route.stays or (route.keeps_unmatched and not is_matched):
            self._add(target, message, targets)
        path.pop()

    def _is_matched(self, forward: ForwardRule, message: Message) -> bool:
        """Return True if ``message`` is to be forwarded."""
        selector = forward.selector
        self._look(forward.destination, forward.steps)
        return selector is None or self._values.matches(selector, message, message.redelivery_count)

    def _forward(
        self,
        state: ConnectionState,
        forward: ForwardRule,
        message: Message,
        via: Destination | None,
        targets: list[Target],
        path: list[BrokerDestination],
    ) -> None:
        self._access.check_write(state, forward.destination)
        destination = self._ensure(forward.destination)
        self._follow(state, destination, message, _target(destination, forward.keeps_address, via), targets, path)

    def _listen(
        self,
        state: ConnectionState,
        rule: ListeningRule,
        message: Message,
        via: Destination | None,
        targets: list[Target],
        path: list[BrokerDestination],
    ) -> None:
        settings = rule.settings
        if settings.local and message.broker_path:
            return
        for destination in self._audience(rule):
            if settings.selector_aware and not self._is_wanted(destination, message):
                continue
            if settings.drop_on_resource_limit and self._flow.obstacle(destination, message) != ROOM:
                continue
            if not self._access.may_write(state, destination.name):
                continue
            keeps = not settings.set_original_destination
            self._follow(state, destination, message, _target(destination, keeps, via), targets, path)

    def _audience(self, rule: ListeningRule) -> list[BrokerDestination]:
        """Return the listening queues, searched again after queues came or went."""
        if self._changes != self._map.changes:
            self._audiences.clear()
            self._changes = self._map.changes
        name = rule.pattern.qualified_name
        destinations = self._audiences.get(name)
        if destinations is None:
            self._make_awaited(rule.pattern)
            destinations = self._map.matching(rule.pattern)
            if self._changes != self._map.changes:
                self._audiences.clear()
                self._changes = self._map.changes
            self._audiences[name] = destinations
        return destinations

    def _make_awaited(self, listening: Destination) -> None:
        """Make the queues that consumers of patterns wait for.

        ``Consumer.A.VirtualTopic.>`` stands for a queue of each topic.

        A queue without room or without the right to create is skipped.
        """
        wanted: dict[str, Destination] = {}
        for shared in self._map.overlapping(listening):
            name = awaited_name(listening, shared.pattern)
            if name is None or STORED_SCHEMES[QUEUE] + name in self._map.queues:
                continue
            queue = awaited(listening, shared.pattern)
            if queue is None or queue.qualified_name in wanted:
                continue
            if not any(self._access.may_make(principal, queue) for principal in self._map.owners(shared)):
                continue
            wanted[queue.qualified_name] = queue
            if len(wanted) > MAX_AWAITED:
                raise ResourceAllocationError(
                    f"a message would make more than {MAX_AWAITED} queues that consumers of wildcards wait for under "
                    f"{listening}: make them before it is sent"
                )
        for queue in wanted.values():
            try:
                self._map.check_room([queue])
            except (IllegalStateError, ResourceAllocationError):
                continue
            self._ensure(queue)

    def _ensure(self, destination: Destination) -> BrokerDestination:
        """Return a destination, made if missing.

        Raises:
            ResourceAllocationError: the message has made too many; a repeated send finds the made destinations and
                makes further ones.
        """
        existing = self._map.find(destination)
        if existing is not None:
            return existing
        self._made += 1
        self._compared += self._map.comparisons(destination)
        if self._made > MAX_MADE or (self._made > 1 and self._compared > MAX_COMPARED):
            raise ResourceAllocationError(
                f"a message would make {destination} and more destinations before than one message may: "
                f"send it again, or make the destinations of the configuration before"
            )
        return self._destinations.ensure_own(destination)

    def _is_wanted(self, destination: BrokerDestination, message: Message) -> bool:
        if not isinstance(destination, Queue):
            return False
        reference = MessageReference(destination, message, 0, 0, message.redelivery_count)
        for subscription in destination.attached():
            self._look(destination.name, subscription.weight)
            if subscription.accepts(reference):
                return True
        return False

    def _add(self, target: Target, message: Message, targets: list[Target]) -> None:
        """Add the destination and its durable subscriptions."""
        destination = target.destination
        self._look(destination.name, self._load_of(destination) + destination.copy_steps)
        for queue in destination.durable_queues(message):
            targets.append(Target(queue, target.address, target.via))
        targets.append(target)

    def _load_of(self, destination: BrokerDestination) -> int:
        """Return the number of steps for the consumers of ``destination``.

        Durable subscriptions from the store may exceed the room, and still get their messages.
        """
        return min(self._map.load_of(destination), MAX_FAN_OUT)

    def _look(self, destination: Destination, steps: int) -> None:
        """Count the steps of one message on all routes, including routes that end without a copy."""
        self._steps += steps
        if self._steps > MAX_STEPS_OF_SEND:
            raise ResourceAllocationError(
                f"a message that comes to {destination}, and to others before, would be copied to more than "
                f"{MAX_FAN_OUT // COPY_STEPS} queues, or handed to more than {MAX_FAN_OUT} consumers: send to fewer at "
                f"once, and look at the virtual destinations of the configuration"
            )


def _target(destination: BrokerDestination, keeps_address: bool, via: Destination | None) -> Target:
    return Target(destination, None if keeps_address else destination.name, via)
