"""What a broker does as time passes: pulls that run out, messages that expire, sends that waited too long, jobs."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import Durables
from spanwire.broker.destinations.expiry_schedule import ExpirySweep
from spanwire.broker.destinations.inactive_destinations import Upkeep, UpkeepSettings
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.policy.policy_entry import PolicyMap
from spanwire.broker.routing.consumers import Consuming
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.scheduler.scheduler import Scheduler

SLICES_PER_TURN: Final = 4  # of jobs, each of at most some hundred messages; the other jobs have the next turns


class Timers:
    """Says when the broker wants to be called, and calls what is due. Time is that of the current turn."""

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        durables: Durables,
        consuming: Consuming,
        flow: FlowControl,
        scheduler: Scheduler | None,
        policies: PolicyMap,
        upkeep: UpkeepSettings | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._consuming: Final[Consuming] = consuming
        self._flow: Final[FlowControl] = flow
        self._scheduler: Final[Scheduler | None] = scheduler
        settings = upkeep if upkeep is not None else UpkeepSettings()
        self._upkeep: Final[Upkeep] = Upkeep(settings, context, destination_map, destinations, durables)
        self._sweep: Final[ExpirySweep] = ExpirySweep(
            context, destination_map, policies.expiry_periods(), settings.expire_active_durables
        )

    def use_expiry_periods(self, periods_ms: list[int]) -> None:
        """Queues are looked through for expired messages after these periods from now on."""
        self._sweep.use_periods(periods_ms)

    def next_timeout(self) -> float | None:
        """When to call `run`, in monotonic seconds; 0.0 while a job is under way."""
        if self._context.has_jobs() or self._map.is_retuning:
            return 0.0
        dues = [
            self._sweep.next_timeout(),
            self._upkeep.next_timeout(),
            self._context.next_alarm(),
            self._scheduler.next_timeout() if self._scheduler is not None else None,
            self._consuming.next_timeout(),
            self._flow.next_timeout(),
        ]
        return min([due for due in dues if due is not None], default=None)

    def run(self) -> None:
        """Timers that are due, and one slice (at most 500 messages) of each of some jobs under way, in turns."""
        self._consuming.handle_timeout()
        self._context.ring()
        if self._scheduler is not None:
            self._scheduler.run()
        self._sweep.run()
        self._upkeep.run()
        if self._map.is_retuning:
            self._map.retune_some()
            if not self._map.is_retuning:
                self._flow.unpark()  # other limits hold
        jobs = self._context.take_jobs(SLICES_PER_TURN)
        place = 0
        try:
            while place < len(jobs):
                place += 1
                if jobs[place - 1].work():
                    self._context.schedule(jobs[place - 1])
        finally:
            for home in jobs[place:]:
                self._context.schedule(home)  # one before them failed
        self._flow.run(len(jobs) > 0)
