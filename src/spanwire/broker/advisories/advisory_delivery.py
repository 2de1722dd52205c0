"""Delivery of advisories to many listeners, in order and a slice at a time.

A client may announce a thousand consumers in one packet, and each may cause an advisory for thousands of listeners.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.topic.topic import Topic
from spanwire.model.message import Message

DELIVERED_AT_ONCE: Final = 50  # listeners of a topic; more listeners are served in slices
DELIVERY_STEPS: Final = 500  # listeners served in one slice; an advisory goes to all its listeners together
MAX_UNDELIVERED: Final = 10_000  # queued advisories, some KiB each; beyond, the oldest goes out at once


class AdvisoryDispatcher(Protocol):
    """Dispatches advisories to the listeners of advisory topics."""

    def dispatch_advisory(self, topic: Topic, message: Message) -> None:
        """Dispatch ``message`` to all listeners of ``topic``."""
        ...

    def detach_listeners(self, topic: Topic) -> None:
        """Detach the listeners of the forgotten ``topic``."""
        ...


class AdvisoryDelivery(Job):
    """The queue of advisories, delivered in slices.

    Forgotten topics are queued as well, so that listeners are detached after the delivery of earlier advisories.
    """

    def __init__(self, dispatcher: AdvisoryDispatcher, context: BrokerContext) -> None:
        self._dispatcher: Final[AdvisoryDispatcher] = dispatcher
        self._context: Final[BrokerContext] = context
        self._undelivered: Final[deque[tuple[Topic, Message | None]]] = deque()

    def deliver(self, topic: Topic, message: Message) -> None:
        """Deliver ``message``, at once if few listen and no earlier advisory is queued."""
        if not self._undelivered and len(topic.subscriptions) <= DELIVERED_AT_ONCE:
            self._dispatcher.dispatch_advisory(topic, message)
            return
        self._add(topic, message)

    def forget(self, topic: Topic) -> None:
        """Detach the listeners of the forgotten ``topic`` after the delivery of all queued advisories."""
        if self._undelivered or len(topic.subscriptions) > DELIVERED_AT_ONCE:
            self._add(topic, None)
        else:
            self._dispatcher.detach_listeners(topic)

    def _add(self, topic: Topic, message: Message | None) -> None:
        if len(self._undelivered) >= MAX_UNDELIVERED:
            self._next()
        self._undelivered.append((topic, message))
        self._context.schedule(self)

    def _next(self) -> int:
        topic, message = self._undelivered.popleft()
        steps = 1 + len(topic.subscriptions)
        if message is None:
            self._dispatcher.detach_listeners(topic)
        else:
            self._dispatcher.dispatch_advisory(topic, message)
        return steps

    def work(self) -> bool:
        """Do one slice and return True while advisories are queued."""
        steps = 0
        while self._undelivered and steps < DELIVERY_STEPS:
            steps += self._next()
        return len(self._undelivered) > 0
