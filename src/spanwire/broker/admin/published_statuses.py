"""Statuses published by pipelines over the control destination, for programs that ask the broker.

A status is a text for programs; the broker neither reads nor stores the text. A restarted broker gets the status again
with the next publication.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.request_errors import LIMIT, MALFORMED, UNKNOWN, refusal
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import Destination

MAX_STATUSES: Final = 100  # statuses of one broker; with MAX_STATUS_BYTES less than 2 MiB of memory and of an answer
MAX_STATUS_BYTES: Final = 16 * 1024  # bytes of one status: some fifty routes
STALE_SECONDS: Final = 60.0  # seconds; a pipeline publishes every few seconds, so an older one was probably killed


class PublishedStatus:
    """The latest status of one run of a pipeline."""

    def __init__(self, pipeline: str, run: str, user: str) -> None:
        self.pipeline: Final[str] = pipeline
        self.run: Final[str] = run
        self.user: Final[str] = user
        self.text = ""
        self.published = 0.0
        self.has_ended = False
        self.must_stop = False


class PublishedStatuses:
    """Statuses by run. The user of the first publishing connection owns the run."""

    def __init__(self, context: BrokerContext, access: AccessControl, control: Destination) -> None:
        """``control`` is the destination whose administrators may see and stop all pipelines."""
        self._context: Final[BrokerContext] = context
        self._access: Final[AccessControl] = access
        self._control: Final[Destination] = control
        self._statuses: Final[dict[str, PublishedStatus]] = {}

    def publish(self, state: ConnectionState, pipeline: str, run: str, has_ended: bool, text: bytes | None) -> bool:
        """Replace the status of a run and return True if the pipeline must stop.

        Raises:
            JmsError: the status is too large, there are too many, or the run belongs to somebody else.
        """
        if text is None or len(text) > MAX_STATUS_BYTES:
            raise refusal(MALFORMED, f"a status is a text message with at most {MAX_STATUS_BYTES} bytes")
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError:
            raise refusal(MALFORMED, "a status is a text message") from None
        status = self._statuses.get(run)
        if status is None:
            status = PublishedStatus(pipeline, run, state.principal.name)
            self._make_room(status)
            self._statuses[run] = status
        else:
            self._check(state, status)
            self._remove_earlier_runs(status)
        status.text = decoded
        status.published = self._context.monotonic
        status.has_ended = has_ended
        return status.must_stop

    def stop(self, state: ConnectionState, run: str) -> None:
        """Let the next publication of a run tell the pipeline to stop.

        Raises:
            JmsError: there is no such run, or the run belongs to somebody else.
        """
        status = self._statuses.get(run)
        if status is None:
            raise refusal(UNKNOWN, f"no pipeline has published the run {run}")
        self._check(state, status)
        status.must_stop = True

    def stop_run(self, run: str) -> bool:
        """Let the next publication of a run tell it to stop, for an operator. Return False without the run."""
        status = self._statuses.get(run)
        if status is None:
            return False
        status.must_stop = True
        return True

    def rows(self, state: ConnectionState | None) -> list[dict[str, object]]:
        """Return the statuses visible to the connection, oldest pipeline first.

        An operator has no connection (None) and gets all.
        """
        now = self._context.monotonic
        return [
            {
                "pipeline": status.pipeline,
                "run": status.run,
                "user": status.user,
                "ageMs": int((now - status.published) * 1000),
                "ended": status.has_ended,
                "stopping": status.must_stop,
                "status": status.text,
            }
            for status in self._statuses.values()
            if state is None or self._may_use(state, status)
        ]

    def _make_room(self, status: PublishedStatus) -> None:
        """Remove earlier runs of a new pipeline, or the oldest stale status."""
        self._remove_earlier_runs(status)
        if len(self._statuses) >= MAX_STATUSES:
            oldest = min(self._statuses.values(), key=_published)
            if not self._is_over(oldest):
                raise refusal(LIMIT, f"{MAX_STATUSES} pipelines publish their status already")
            del self._statuses[oldest.run]

    def _remove_earlier_runs(self, status: PublishedStatus) -> None:
        for other in list(self._statuses.values()):
            is_same = (other.pipeline, other.user) == (status.pipeline, status.user)
            if is_same and other.run != status.run and self._is_over(other):
                del self._statuses[other.run]

    def _is_over(self, status: PublishedStatus) -> bool:
        return status.has_ended or self._context.monotonic - status.published > STALE_SECONDS

    def _check(self, state: ConnectionState, status: PublishedStatus) -> None:
        if not self._may_use(state, status):
            self._access.refuse(
                state, f"use pipeline: {status.pipeline}", f" (it needs the right admin on {self._control})"
            )

    def _may_use(self, state: ConnectionState, status: PublishedStatus) -> bool:
        return state.principal.name == status.user or self._access.may_administer(state, self._control)


def _published(status: PublishedStatus) -> float:
    return status.published
