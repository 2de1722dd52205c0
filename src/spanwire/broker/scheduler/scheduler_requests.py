"""Requests to the scheduler, sent as messages to ``ActiveMQ.Scheduler.Management``.

Source: ActiveMQ, "Delay and Schedule Message Delivery", and `ScheduledMessage` of its client library.
``AMQ_SCHEDULER_ACTION`` is BROWSE, REMOVE or REMOVEALL. BROWSE sends a copy of each message to the JMSReplyTo of the
request. REMOVE removes the message with the property ``scheduledJobId`` of the request. BROWSE and REMOVEALL may name a
span of time, ``ACTION_START_TIME`` to ``ACTION_END_TIME``. A user with the right to write there sees and removes own
messages; the admin right extends to the messages of all users.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job as BrokerJob
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.scheduler.removal_job import MAX_REMOVED, RemovalJob, remove_jobs
from spanwire.broker.scheduler.schedule import JOB_ID, SCHEDULED_MESSAGES, Job, Schedule
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import Destination
from spanwire.model.environment import IdGenerator
from spanwire.model.errors import JmsError, MessageFormatError, ProtocolError, ResourceAllocationError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.message import Message
from spanwire.model.message_view import STRING_VALUE, MessageView, PropertyValue

MANAGEMENT: Final = "activemq.scheduler.management"  # lower-case beginning of the name of the destination
NAME_LENGTH: Final = len(MANAGEMENT)
ACTION: Final = "AMQ_SCHEDULER_ACTION"
START_TIME: Final = "ACTION_START_TIME"
END_TIME: Final = "ACTION_END_TIME"
BROWSE: Final = "BROWSE"
REMOVE: Final = "REMOVE"
REMOVE_ALL: Final = "REMOVEALL"
COPY_TYPE: Final = "Advisory"  # JMSType of the answers to BROWSE

MAX_BROWSES: Final = 16  # browse requests under way
MAX_COPIES: Final = 100  # messages of one read of the store
MAX_COPY_BYTES: Final = 4 * 1024 * 1024  # bytes of one read, unless one message has more
LOOKED_PER_STEP: Final = 256  # jobs that a request looks at for its span of time, some 30 nanoseconds each
CHOSEN_PER_STEP: Final = 16  # jobs of that span, which are marked or put in order
MAX_ORDERED: Final = 10_000  # jobs of a browse that are put in order in one turn, some 2 ms
MAX_LOOKED: Final = 1_000  # jobs of a browse that one read looks at; those that went meanwhile are passed over
NUMBER_BITS: Final = 48  # of a job's place in the order of a browse: the number below the time
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
MAX_REMOVALS: Final = 16  # removals of more than one slice under way, each with a list of up to 100,000 jobs
ROOM_SECONDS: Final = 1.0  # seconds between two checks for room for an answer
LAST_MS: Final = 1 << 62


class Browse:
    """One request to browse: requesting connection, reply destination, and the jobs to be sent.

    ``chosen`` has the jobs that `prepare` has not put in order yet. The others are in heaps of next time and number of
    each job, in one integer: a sort of 100,000 jobs takes three times as long, and one heap of them 17 ms at once.
    """

    def __init__(self, state: ConnectionState, reply_to: Destination, chosen: list[Job]) -> None:
        self.state: Final[ConnectionState] = state
        self.reply_to: Final[Destination] = reply_to
        self.chosen: Final[list[Job]] = chosen
        self.copies: Final[deque[Message]] = deque()
        self._heaps: Final[list[list[int]]] = []

    @property
    def left(self) -> int:
        """The number of jobs that are still to be sent."""
        return len(self.chosen) + sum([len(heap) for heap in self._heaps])

    def prepare(self) -> bool:
        """Put some more jobs in order. Return True if all are."""
        chosen = self.chosen
        if chosen:
            heap = [(job.due_ms << NUMBER_BITS) + job.number for job in chosen[-MAX_ORDERED:]]
            del chosen[-MAX_ORDERED:]
            heapq.heapify(heap)
            self._heaps.append(heap)
        return not chosen

    def clear(self) -> None:
        """Forget all jobs and copies."""
        self.chosen.clear()
        self._heaps.clear()
        self.copies.clear()

    def take(self, jobs: dict[int, Job]) -> list[Job]:
        """Take the next of ``jobs`` for one read of the store, without those that went since the request."""
        taken: list[Job] = []
        size = 0
        looked = 0
        while len(taken) < MAX_COPIES and looked < MAX_LOOKED:
            heap = self._next_heap()
            if heap is None:
                break
            looked += 1
            job = jobs.get(heap[0] & NUMBER_MASK)
            if job is not None and job.removals == 0:
                size += job.size
                if taken and size > MAX_COPY_BYTES:
                    break
                taken.append(job)
            heapq.heappop(heap)
        return taken

    def _next_heap(self) -> list[int] | None:
        """Return the heap with the earliest time; None at the end."""
        earliest: list[int] | None = None
        for heap in self._heaps:
            if heap and (earliest is None or heap[0] < earliest[0]):
                earliest = heap
        return earliest


class SchedulerRequests:
    """Answers requests in order, in slices."""

    def __init__(
        self,
        context: BrokerContext,
        schedule: Schedule,
        router: MessageRouter,
        formats: MessageFormats,
        access: AccessControl,
        ids: IdGenerator,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._schedule: Final[Schedule] = schedule
        self._router: Final[MessageRouter] = router
        self._formats: Final[MessageFormats] = formats
        self._access: Final[AccessControl] = access
        self._producer_id: Final[ProducerId] = ProducerId(ids.next_id(), 1, 1)
        self._last_sequence = 0
        self._browses: Final[deque[Browse]] = deque()
        self._removals: Final[dict[BrokerJob, None]] = {}
        self._request = 0
        self._read: list[Job] = []
        self._room_due = 0.0

    def handle(self, state: ConnectionState, message: Message, own: ConnectionState, token: int) -> bool:
        """Carry out a request, or begin a browse or a long removal.

        A message without a known action is ignored.

        Args:
            own: connection state of the scheduler with the sender's rights; a browse sends its copies by it.

        Returns:
            True if the removal answers ``token`` in the end.

        Raises:
            JmsError: the request is refused.
        """
        self._access.check_write(state, message.destination)
        view = self._formats.view(message)
        action = _text(view.properties, ACTION)
        if action == BROWSE and view.reply_to is not None:
            self._browse(state, view, view.reply_to, own)
        elif action == REMOVE:
            self._remove(state, message.destination, _text(view.properties, JOB_ID))
        elif action == REMOVE_ALL:
            return self._remove_all(state, self._chosen(state, view), token)
        return False

    def _chosen(self, state: ConnectionState, view: MessageView) -> list[Job]:
        """Return the jobs in the request's span of time, within the rights of the connection."""
        first_ms, last_ms = 0, LAST_MS
        if START_TIME in view.properties and END_TIME in view.properties:
            first_ms, last_ms = _time(view.properties, START_TIME), _time(view.properties, END_TIME)
        jobs = self._schedule.between(first_ms, last_ms)
        self._context.steps += len(self._schedule.jobs) // LOOKED_PER_STEP + len(jobs) // CHOSEN_PER_STEP
        if self._access.may_administer(state, view.destination):
            return jobs
        return [job for job in jobs if job.principal.name == state.principal.name]

    def _browse(self, state: ConnectionState, view: MessageView, reply_to: Destination, own: ConnectionState) -> None:
        if len(self._browses) >= MAX_BROWSES:
            raise ResourceAllocationError(
                f"{len(self._browses)} requests to browse scheduled messages wait already: try again later"
            )
        self._access.check_write(state, reply_to)
        chosen = [job for job in self._chosen(state, view) if job.removals == 0]
        if chosen:
            self._browses.append(Browse(own, reply_to, chosen))

    def _remove(self, state: ConnectionState, management: Destination, job_id: str) -> None:
        job = self._schedule.find(job_id)
        if job is None:
            return
        if job.principal.name != state.principal.name and not self._access.may_administer(state, management):
            reason = f" (it needs the right admin on {management})"
            self._access.refuse(state, f"remove scheduled job: {job_id}", reason)
        self._context.steps += 1
        remove_jobs(self._context, self._schedule, [job])

    def _remove_all(self, state: ConnectionState, jobs: list[Job], token: int) -> bool:
        """Remove ``jobs``, many in slices. Return True if the removal answers ``token`` in the end."""
        if len(jobs) <= MAX_REMOVED:
            self._context.steps += len(jobs)
            remove_jobs(self._context, self._schedule, jobs)
            return False
        if len(self._removals) >= MAX_REMOVALS:
            raise ResourceAllocationError(
                f"{len(self._removals)} requests to remove scheduled messages are under way: try again later"
            )
        RemovalJob(self._context, self._schedule, self._router, state, jobs, token, self._removals)
        return True

    @property
    def is_removing(self) -> bool:
        """True while a removal is under way."""
        return len(self._removals) > 0

    def is_ready(self) -> bool:
        """Return True if a request can be worked on at once."""
        return bool(self._browses) and self._request == 0 and self._room_due == 0.0

    def next_timeout(self) -> float | None:
        """Return the time for the next `run` in monotonic seconds, None without work."""
        return self._room_due if self._room_due > 0.0 else None

    def run(self) -> None:
        """Work on the oldest request."""
        if self._room_due > self._context.monotonic:
            return
        self._room_due = 0.0
        while self._browses and self._request == 0:
            browse = self._browses[0]
            if not browse.prepare() or not self._send_copies(browse):
                return
            if browse.left == 0:
                self._browses.popleft()
                continue
            self._fetch(browse)
            return

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take an answer of the store."""
        if request != self._request:
            return
        self._request = 0
        for job, message in zip(self._read, messages, strict=True):
            if message is not None:
                self._add_copy(self._browses[0], job, message)
        self._read = []

    def _fetch(self, browse: Browse) -> None:
        jobs = browse.take(self._schedule.jobs)
        if self._context.store is None:
            for job in jobs:
                if job.message is not None:
                    self._add_copy(browse, job, job.message)
        elif jobs:
            self._read = jobs
            self._request = self._context.fetch(self._schedule, SCHEDULED_MESSAGES, [job.sequence for job in jobs])

    def _add_copy(self, browse: Browse, job: Job, scheduled: Message) -> None:
        message_format = self._formats.format(scheduled.format_id)
        try:
            view = message_format.view(self._formats.index(scheduled.format_id, scheduled.encoded()))
            self._last_sequence += 1
            view.message_id = MessageId(self._producer_id, self._last_sequence)
            view.persistent = False
            view.type = COPY_TYPE
            view.original_destination = view.destination
            view.destination = browse.reply_to
            view.properties[JOB_ID] = (STRING_VALUE, job.job_id)
            browse.copies.append(message_format.encode_from_view(view))
        except (JmsError, ProtocolError):
            return  # a message that cannot be decoded cannot be shown

    def _send_copies(self, browse: Browse) -> bool:
        """Send the prepared copies. Return False if a destination has no room now."""
        while browse.copies:
            try:
                if not self._router.hand_in(browse.state, browse.copies[0]):
                    self._room_due = self._context.monotonic + ROOM_SECONDS
                    return False
            except JmsError:  # the client is gone or has lost the right
                browse.clear()
                return True
            browse.copies.popleft()
        return True


def is_request(destination: Destination) -> bool:
    """Return True if messages to ``destination`` are requests to the scheduler."""
    name = destination.name
    return len(name) >= NAME_LENGTH and name[:NAME_LENGTH].lower() == MANAGEMENT


def _text(properties: dict[str, PropertyValue], name: str) -> str:
    entry = properties.get(name)
    return "" if entry is None else str(entry[1])


def _time(properties: dict[str, PropertyValue], name: str) -> int:
    text = _text(properties, name)
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise MessageFormatError(f"{name} is no time in milliseconds since 1970: {text[:40]!r}")
    return int(text)
