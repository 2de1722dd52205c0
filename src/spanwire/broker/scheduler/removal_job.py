"""Removal of many scheduled messages, in slices.

From the request on no message of the removal is delivered or shown. Each slice is one unit of the store, and the answer
waits for the last slice. A removal that the store refuses keeps what has not been removed.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job as BrokerJob
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import send_reply
from spanwire.broker.scheduler.schedule import SCHEDULED_MESSAGES, Job, Schedule
from spanwire.model.errors import JmsError, SpanwireError

MAX_REMOVED: Final = 500  # removals of one slice, and of one unit of the store


class RemovalJob(BrokerJob):
    """The removal of ``jobs`` for one request. ``under_way`` has the removal until the end."""

    def __init__(
        self,
        context: BrokerContext,
        schedule: Schedule,
        router: MessageRouter,
        state: ConnectionState,
        jobs: list[Job],
        token: int,
        under_way: dict[BrokerJob, None],
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._schedule: Final[Schedule] = schedule
        self._router: Final[MessageRouter] = router
        self._state: Final[ConnectionState] = state
        self._jobs: Final[list[Job]] = jobs
        self._token: Final[int] = token
        self._under_way: Final[dict[BrokerJob, None]] = under_way
        self._next = 0
        self._is_refused = False
        for job in jobs:
            if job.removals == 0:
                schedule.leaving += 1
            job.removals += 1
        under_way[self] = None
        context.schedule(self)

    def work(self) -> bool:
        """Do one slice; see `BrokerJob.work`."""
        jobs = self._jobs[self._next : self._next + MAX_REMOVED]
        if self._is_refused:
            self._keep(jobs)
        else:
            try:
                remove_jobs(self._context, self._schedule, jobs)
            except SpanwireError as refusal:  # the names differ because a compiled variable has one type
                self._refuse(refusal if isinstance(refusal, JmsError) else JmsError(str(refusal)))
                return True
            except Exception as error:
                self._refuse(JmsError(f"the broker failed in the middle of a request: {type(error).__name__}"))
                self._context.schedule(self)
                raise
        self._next += len(jobs)
        if self._next < len(self._jobs):
            return True
        del self._under_way[self]
        if not (self._is_refused or self._state.removed):
            if self._router.answer_when_stored(self._state, self._token):
                send_reply(self._state, self._token, None)
        return False

    def _refuse(self, error: JmsError) -> None:
        """Keep the other jobs, in later slices."""
        self._is_refused = True
        if not self._state.removed:
            send_reply(self._state, self._token, error)

    def _keep(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.removals -= 1
            if job.removals == 0 and self._schedule.jobs.get(job.number) is job:
                self._schedule.leaving -= 1


def remove_jobs(context: BrokerContext, schedule: Schedule, jobs: list[Job]) -> None:
    """Remove jobs with their messages, except those that have gone already, in one unit.

    Raises:
        SpanwireError: the store refuses, and all jobs stay.
    """
    some = [job for job in jobs if schedule.jobs.get(job.number) is job]
    if not some:
        return
    removals = [(SCHEDULED_MESSAGES, job.sequence) for job in some]
    context.units.append_unit([], removals, [job.end() for job in some])
    for job in some:
        schedule.leave(job)
