"""Work of one connection over several turns.

Other requests of the connection wait for the end of the work.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.model.errors import JmsError

JOB_STEPS: Final = 500  # messages and acknowledged messages of one slice; smaller work is done at once


class SlicedWork:
    """Work for one connection, done a slice at a time."""

    def __init__(self) -> None:
        self.steps = 0

    def go_on(self, at_most: int) -> bool:
        """Do about ``at_most`` steps.

        Returns:
            True if the work is finished.

        Raises:
            JmsError: the work is refused and has had no effect.
        """
        return True

    def refuse(self, error: JmsError) -> SlicedWork | None:
        """Report the failure ``error``, unless the work has already taken effect.

        Returns:
            The work that remains to be done, if any.
        """
        return None


class LeavingConnections(Protocol):
    """Cleans up after closed connections."""

    def leave(self, state: ConnectionState) -> None:
        """Clean up after a closed connection."""
        ...


class ConnectionJob(Job):
    """The queue of unfinished work of one connection, in order."""

    def __init__(self, state: ConnectionState, context: BrokerContext, owner: LeavingConnections) -> None:
        self._state: Final[ConnectionState] = state
        self._context: Final[BrokerContext] = context
        self._owner: Final[LeavingConnections] = owner
        self._works: Final[deque[SlicedWork]] = deque()
        self._failed: SlicedWork | None = None  # failed after taking effect, and goes on
        self._failed_at = 0  # its steps at the failure
        self.is_working = False

    @property
    def steps(self) -> int:
        """Completed steps of the first work."""
        return self._works[0].steps if self._works else 0

    def add(self, work: SlicedWork) -> None:
        """Append ``work`` to the queue."""
        self._works.append(work)
        self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice.

        Returns:
            True if work is left.
        """
        if self._works:
            self.is_working = True
            try:
                self._slice(self._works[0])
            finally:
                self.is_working = False
        if self._works:
            return True
        if self._state.job is self:
            self._state.job = None
            self._state.output.mark_dirty()  # the connection's next requests can continue
            if self._state.is_leaving:
                self._owner.leave(self._state)
        return False

    def _slice(self, work: SlicedWork) -> None:
        try:
            if work.go_on(JOB_STEPS):
                self._works.popleft()
        except JmsError as refusal:  # the names differ because a compiled variable has one type
            self._fail(work, refusal)
        except Exception as error:
            self._fail(work, JmsError(f"the broker failed in the middle of a request: {type(error).__name__}"))
            self._context.schedule(self)
            raise

    def fail(self, error: JmsError) -> None:
        """Refuse all work without effect so far, and finish the remainder, after a failure of the store."""
        works = list(self._works)
        self._works.clear()
        for work in works:
            rest = work.refuse(error)
            self._works.append(work if rest is None else rest)

    def _fail(self, work: SlicedWork, error: JmsError) -> None:
        """Refuse ``work``, or go on behind a failure as long as the work gets further.

        Work that has taken effect cannot be refused.
        """
        self._works.popleft()
        rest = work.refuse(error)
        if rest is None and (work is not self._failed or work.steps > self._failed_at):
            self._failed = work
            self._failed_at = work.steps
            rest = work
        if rest is not None:
            self._works.appendleft(rest)


def complete(state: ConnectionState) -> None:
    """Finish the connection's job at once, for a caller that cannot wait."""
    job = state.job
    while isinstance(job, ConnectionJob) and not job.is_working:
        job.work()
        job = state.job
