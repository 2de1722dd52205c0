"""Retained messages for the retroactive subscriber of a durable subscription, a slice at a time."""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.policy.fan_out import COPY_STEPS, STEPS_OF_REQUEST
from spanwire.broker.topic.durable_subscription import DurableSubscription
from spanwire.broker.topic.policy_topic import RECOVERY_STEPS
from spanwire.model.message import Message


class DurableRecovery(Job):
    """Puts retained messages in front of all messages that arrive from now on.

    Dispatch waits for the last slice.

    The job goes on without the subscriber, and ends when the
    subscription is deleted or an operator purges its queue.
    """

    def __init__(self, durable: DurableSubscription, messages: list[Message], context: BrokerContext) -> None:
        self._durable: Final[DurableSubscription] = durable
        self._messages: Final[list[Message]] = messages
        self._context: Final[BrokerContext] = context
        self._order: Final[int] = context.reserve_orders(len(messages))
        self._purges: Final[int] = durable.queue.purges
        self._next = 0
        self._holds = False  # the queue waits for the last slice

    def start(self) -> None:
        """Do the first slice now."""
        if self.work():
            self._holds = True
            self._durable.queue.hold_back()
            self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        queue = self._durable.queue
        if not queue.removed and queue.purges == self._purges:
            self._give_some()
            if self._next < len(self._messages):
                return True
        if self._holds:
            self._holds = False
            queue.let_go()
        return False

    def _give_some(self) -> None:
        durable = self._durable
        queue = durable.queue
        cost = 1 + durable.weight - COPY_STEPS  # the second part is for the selector
        steps = 0
        chosen: list[MessageReference] = []
        while self._next < len(self._messages) and steps < RECOVERY_STEPS:
            retained = self._messages[self._next]
            order = self._order + self._next
            self._next += 1
            steps += cost
            if retained.is_expired(self._context.wall_ms):
                continue
            message = retained.twin()  # its decoded properties go with it, or count in the memory of the queue
            if durable.wants(message) and queue.usage.takes(message.size):
                queue.hold(message)
                queue.count_forms(message)
                chosen.append(MessageReference(queue, message, 0, order, message.redelivery_count))
        queue.accept_earlier(chosen)
        self._context.steps += steps // STEPS_OF_REQUEST
