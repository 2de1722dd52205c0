"""Removal of consumers: return of their messages, detachment from destinations, advisories.

A removed consumer gets no messages from the first moment on. Work beyond the first slice is done in later turns: a
connection may have a thousand consumers, each with wildcards for all destinations and thousands of messages in flight.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.advisories.advisory_topics import Advisories
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.queue.browser import BrowserDestination
from spanwire.broker.queue.queue import Queue
from spanwire.broker.routing.message_return import LEAVING_STEPS, Returning
from spanwire.broker.topic.topic import Topic
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN, LAST_DELIVERED_UNSET

CONSUMERS_PER_STEP: Final = 16  # consumers of a destination; the search counts so many as one step


class Leaving(Job):
    """Removes some consumers of one connection, already marked ``removed``.

    The job first returns all messages in flight, then detaches the consumers from their destinations, then forgets
    pending messages, and at last publishes the advisories.

    A queue that is the only destination of a consumer is paused until the messages are back, because the same client
    may have another consumer there already.
    """

    def __init__(
        self,
        subscriptions: list[Subscription],
        last_delivered_sequence: int,
        context: BrokerContext,
        destination_map: DestinationMap,
        advisories: Advisories | None,
    ) -> None:
        self._subscriptions: Final[list[Subscription]] = subscriptions
        self._last_delivered: Final[int] = last_delivered_sequence
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._advisories: Final[Advisories | None] = advisories
        self._returning: Returning | None = None
        self._held: Final[dict[Subscription, Queue]] = {}
        self._returned = 0  # consumers whose messages are back
        self._detached = 0  # consumers detached from their destinations
        self._emptied = 0  # consumers without pending messages
        self._published = 0  # consumers whose removal was published
        self.steps = 0
        for subscription in subscriptions:
            if not subscription.shared and subscription.dispatched_count > 0:
                for destination in subscription.destinations:
                    if isinstance(destination, Queue):
                        destination.hold_back()
                        self._held[subscription] = destination

    def start(self) -> None:
        """Do the first slice now."""
        if self.work():
            self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        begin = self.steps
        more = self._go_on(begin + LEAVING_STEPS)
        self._context.steps += self.steps - begin
        return more

    def _go_on(self, end: int) -> bool:
        while self.steps < end:
            budget = end - self.steps
            if self._returned < len(self._subscriptions):
                self._give_back(budget)
            elif self._detached < len(self._subscriptions):
                self._detach()
            elif self._emptied < len(self._subscriptions):
                self._empty(budget)
            elif self._published < len(self._subscriptions):
                self._publish()
            else:
                return False
        return True

    def _give_back(self, at_most: int) -> None:
        subscription = self._subscriptions[self._returned]
        returning = self._returning
        if returning is None:
            references = subscription.in_flight.take_all()
            seen = _delivered_count(references, self._last_delivered)
            returning = Returning(references, seen, True, subscription.info.network_subscription)
            self._returning = returning
        self.steps += 1 + returning.go_on(at_most)
        if not returning.is_over:
            return
        subscription.is_detached = True
        while subscription.destinations and not subscription.shared:
            self._leave_one(subscription, 1)
        returning.let_go()
        held = self._held.pop(subscription, None)
        if held is not None:
            held.let_go()
        self._returning = None
        self._returned += 1

    def _detach(self) -> None:
        """Detach one consumer from one destination."""
        subscription = self._subscriptions[self._detached]
        if subscription.destinations:
            self._leave_one(subscription, len(self._subscriptions) - self._detached)
        else:
            self._detached += 1

    def _leave_one(self, subscription: Subscription, leaving: int) -> None:
        """Detach a consumer from its last destination.

        At most ``leaving`` consumers may leave that destination. If these are many of its consumers, all leave at once.
        """
        destination = next(reversed(subscription.destinations))
        self.steps += 1
        if isinstance(destination, BrowserDestination):
            destination.abandon()
        elif isinstance(destination, (Queue, Topic)) and leaving * CONSUMERS_PER_STEP < _searched(destination):
            destination.detach(subscription)  # without a look at all the others
        elif isinstance(destination, BrokerDestination):
            self._detach_from(destination)
        subscription.destinations.pop(destination, None)

    def _detach_from(self, destination: BrokerDestination) -> None:
        self.steps += _searched(destination) // CONSUMERS_PER_STEP
        gone = destination.detach_left()
        self.steps += len(gone)
        for one in gone:
            one.destinations.pop(destination, None)
        if (
            destination.name.is_advisory
            and destination.consumer_count == 0
            and self._map.find(destination.name) is destination
        ):
            self._map.remove(destination.name)  # consumers make advisory topics, one for each temporary destination

    def _empty(self, at_most: int) -> None:
        pending = self._subscriptions[self._emptied].pending
        for _ in range(min(at_most, len(pending))):
            reference: MessageReference = pending.popleft()
            reference.destination.release(reference.message)
            self.steps += 1
        if not pending:
            self._emptied += 1

    def _publish(self) -> None:
        subscription = self._subscriptions[self._published]
        subscription.let_go()
        info = subscription.info
        self._published += 1
        advisories = self._advisories
        if advisories is None or info.browser:
            return
        for part in info.destination.parts():
            self.steps += 1 + advisories.listener_count
            destination = self._map.find(part)
            if isinstance(destination, Topic):
                self.steps += len(destination.durables) // CONSUMERS_PER_STEP  # it asks each one for its consumer
            advisories.consumer_removed(info, part, 0 if destination is None else destination.consumer_count)


def _searched(destination: BrokerDestination) -> int:
    """Return the number of consumers that a search for those that have left looks at."""
    return len(destination.subscriptions) if isinstance(destination, Topic) else destination.consumer_count


def _delivered_count(references: list[MessageReference], last_delivered_sequence: int) -> int:
    """Return the number of dispatched references, in order, that the application may have seen."""
    if last_delivered_sequence == LAST_DELIVERED_UNKNOWN:
        return len(references)
    if last_delivered_sequence != LAST_DELIVERED_UNSET:
        for count, reference in enumerate(references, 1):
            if reference.order == last_delivered_sequence:
                return count
    return 0
