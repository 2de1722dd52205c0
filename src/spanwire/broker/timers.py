"""Timers of the broker: expiry of pulls, messages and blocked sends, and slices of jobs."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.destinations.expiry_schedule import ExpirySweep
from spanwire.broker.destinations.inactive_destinations import Upkeep, UpkeepSettings
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.scheduler.scheduler import Scheduler

SLICES_PER_TURN: Final = 4  # slices of jobs, each of some hundred messages at most; other jobs run in the next turns


class Timers:
    """Computes the next time to call the broker, and runs due work.

    The time is the time of the current turn.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        durables: DurableSubscriptions,
        consumer_registry: ConsumerRegistry,
        parked: ParkedSends,
        scheduler: Scheduler | None,
        policies: PolicyMap,
        upkeep: UpkeepSettings | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._consumer_registry: Final[ConsumerRegistry] = consumer_registry
        self._parked: Final[ParkedSends] = parked
        self._scheduler: Final[Scheduler | None] = scheduler
        settings = upkeep if upkeep is not None else UpkeepSettings()
        self._upkeep: Final[Upkeep] = Upkeep(settings, context, destination_map, destinations, durables)
        self._sweep: Final[ExpirySweep] = ExpirySweep(
            context, destination_map, policies.expiry_periods(), settings.expire_active_durables
        )

    def use_expiry_periods(self, periods_ms: list[int]) -> None:
        """Scan queues for expired messages after new periods, in milliseconds."""
        self._sweep.use_periods(periods_ms)

    def next_timeout(self) -> float | None:
        """Return the time of the next `run` in monotonic seconds, or None; 0.0 while a job is unfinished."""
        if self._context.has_jobs() or self._map.is_retuning:
            return 0.0
        due = earlier(self._sweep.next_timeout(), self._upkeep.next_timeout())
        due = earlier(due, self._context.next_alarm())
        if self._scheduler is not None:
            due = earlier(due, self._scheduler.next_timeout())
        due = earlier(due, self._consumer_registry.next_timeout())
        return earlier(due, self._parked.next_timeout())

    def run(self) -> None:
        """Run due timers and one slice (at most 500 messages) of some unfinished jobs, in turns."""
        self._consumer_registry.handle_timeout()
        self._context.ring()
        if self._scheduler is not None:
            self._scheduler.run()
        self._sweep.run()
        self._upkeep.run()
        if self._map.is_retuning:
            self._map.retune_some()
            if not self._map.is_retuning:
                self._parked.unpark()  # the limits may have grown
        jobs = self._context.take_jobs(SLICES_PER_TURN)
        index = 0
        try:
            while index < len(jobs):
                index += 1
                if jobs[index - 1].work():
                    self._context.schedule(jobs[index - 1])
        finally:
            for job in jobs[index:]:
                self._context.schedule(job)  # a job before these failed
        self._parked.run(len(jobs) > 0)


def earlier(due: float | None, other: float | None) -> float | None:
    """Return the earlier of two times; None without either.

    A list for `min` costs four times as much each turn.
    """
    if due is None or (other is not None and other < due):
        return other
    return due
