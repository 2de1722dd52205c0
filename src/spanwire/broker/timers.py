"""What a broker does as time passes: pulls that run out, messages that expire, sends that waited too long, jobs."""

from __future__ import annotations

from typing import Final

from spanwire.broker.consuming import Consuming
from spanwire.broker.context import BrokerContext
from spanwire.broker.destination_map import DestinationMap
from spanwire.broker.durables import Durables
from spanwire.broker.flow_control import FlowControl
from spanwire.broker.queue import Queue
from spanwire.broker.scheduler import Scheduler

EXPIRY_CHECK_SECONDS: Final = 30.0  # ActiveMQ's expireMessagesPeriod
QUEUES_PER_TURN: Final = 500  # queues at which the look for expired messages begins in one turn
SLICES_PER_TURN: Final = 4  # of jobs, each of at most some hundred messages; the other jobs have the next turns


class Timers:
    """Says when the broker wants to be called, and calls what is due. Time is that of the current turn."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        durables: Durables,
        consuming: Consuming,
        flow: FlowControl,
        scheduler: Scheduler | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._durables: Final[Durables] = durables
        self._consuming: Final[Consuming] = consuming
        self._flow: Final[FlowControl] = flow
        self._scheduler: Final[Scheduler | None] = scheduler
        self._expiry_due = 0.0
        self._to_look_through: list[Queue] = []

    def next_timeout(self) -> float | None:
        """When to call `run`, in monotonic seconds; 0.0 while a job is under way."""
        if self._context.has_jobs() or self._to_look_through:
            return 0.0
        due = self._expiry_due
        alarm = self._context.next_alarm()
        if alarm is not None:
            due = min(due, alarm)
        scheduled = self._scheduler.next_timeout() if self._scheduler is not None else None
        if scheduled is not None:
            due = min(due, scheduled)
        pull = self._consuming.next_timeout()
        if pull is not None:
            due = min(due, pull)
        flow = self._flow.next_timeout()
        return due if flow is None else min(due, flow)

    def run(self) -> None:
        """Timers that are due, and one slice (at most 500 messages) of each of some jobs under way, in turns."""
        self._consuming.handle_timeout()
        self._context.ring()
        if self._scheduler is not None:
            self._scheduler.run()
        if self._context.monotonic >= self._expiry_due:
            self._expiry_due = self._context.monotonic + EXPIRY_CHECK_SECONDS
            self._to_look_through = [*self._map.queues.values(), *self._durables.lines()]
            self._to_look_through.reverse()
        if self._to_look_through:
            self._begin_to_look()
        jobs = self._context.take_jobs(SLICES_PER_TURN)
        for home in jobs:
            if home.work():
                self._context.schedule(home)
        self._flow.run(len(jobs) > 0)

    def _begin_to_look(self) -> None:
        for _ in range(min(QUEUES_PER_TURN, len(self._to_look_through))):
            queue = self._to_look_through.pop()
            if queue.policy.expire_messages_period_ms > 0 and not queue.removed:
                queue.start_expiry()
