"""The scheduler: takes messages for later delivery, and delivers them.

Requests about scheduled messages are handed on.

As in ActiveMQ, but with exact times in place of half seconds. Of the scheduling properties a delivered message has only
``scheduledJobId``. Each message of a series gets its own id. A lifetime counts from the delivery, not from the send. A
delivery is one unit of the store: the message reaches its destinations and the job moves on, or neither happens. A
delivery has the rights of the sender.
"""

from __future__ import annotations

import logging
from typing import Final

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import UncommittedLimit
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.connection_output import ConnectionOutput
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.metadata import SCHEDULES, MetadataRecord
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.reply_queue import PendingReply, WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.policy.policy_map import PolicyMap
from spanwire.broker.ports import NO_TOKEN, ClientConnection, Principal
from spanwire.broker.routing.dead_letters import DeadLetters
from spanwire.broker.routing.flow_control import ROOM, FlowControl
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.message_takers import DelayedSender
from spanwire.broker.routing.parked_sends import ParkedSends
from spanwire.broker.scheduler.schedule import (
    CRON,
    DELAY,
    JOB_ID,
    MARK,
    PERIOD,
    REPEAT,
    SCHEDULED_MESSAGES,
    Job,
    Schedule,
    SchedulerSettings,
    asks,
    steps_of,
    stored_form,
)
from spanwire.broker.scheduler.scheduler_requests import SchedulerRequests, is_request
from spanwire.broker.security.access_control import AccessControl
from spanwire.model.destination import Destination
from spanwire.model.environment import IdGenerator
from spanwire.model.errors import JmsError, ProtocolError, SpanwireError
from spanwire.model.ids import MessageId, ProducerId
from spanwire.model.info import ConnectionInfo
from spanwire.model.ledger import MOVED_OUT
from spanwire.model.message import Message
from spanwire.model.message_view import STRING_VALUE

MAX_DELIVERIES: Final = 100  # messages of one slice, and of one read of the store
MAX_READ_BYTES: Final = 4 * 1024 * 1024  # bytes of one read, unless one message has more
KEEP_STEPS: Final = 2  # further steps of a message that is scheduled at once, which takes some 35 µs
RETRY_MS: Final = 1_000  # delay of a delivery without room
REFUSED_MS: Final = 60_000  # delay of a delivery that the store refuses, such as too many copies of a large message
MAX_NAP_SECONDS: Final = 1.0  # seconds between two checks of the wall clock: an operator may set the clock
SEARCHED_WHOLE: Final = 16 * 1024  # bytes of a message; up to this size a search of all bytes costs least
UNDELIVERED: Final = "the scheduled message could not be delivered"

logger = logging.getLogger(__name__)


class NoConnection(ClientConnection):
    """A connection without a client, for the answers to the scheduler's own sends."""

    def on_completed(self, token: int, error: SpanwireError | None) -> None:
        """Take no action."""

    def close_with(self, error: SpanwireError) -> None:
        """Take no action."""


class Scheduler(DelayedSender):
    """The scheduler of one broker. `Schedule` holds the jobs, `SchedulerRequests` answers requests."""

    def __init__(
        self,
        settings: SchedulerSettings,
        context: BrokerContext,
        policies: PolicyMap,
        usage: MemoryUsage,
        router: MessageRouter,
        parked: ParkedSends,
        formats: MessageFormats,
        access: AccessControl,
        dead_letters: DeadLetters,
        unsynced: UnsyncedBytes,
        audit: ProducerAudit,
        ids: IdGenerator,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._schedule: Final[Schedule] = Schedule(settings, policies.entry_for(SCHEDULED_MESSAGES), usage, formats)
        self._router: Final[MessageRouter] = router
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self._formats: Final[MessageFormats] = formats
        self._dead_letters: Final[DeadLetters] = dead_letters
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._audit: Final[ProducerAudit] = audit
        self._requests: Final[SchedulerRequests] = SchedulerRequests(
            context, self._schedule, router, formats, access, ids
        )
        self._ids: Final[IdGenerator] = ids
        self._connection_id: Final[str] = ids.next_id()
        self._producer_id: Final[ProducerId] = ProducerId(self._connection_id, 1, 1)
        self._last_sequence = 0
        self._output: Final[ConnectionOutput] = ConnectionOutput(NoConnection(), [], usage)
        self._reading: list[Job] = []  # jobs whose messages are being read
        self._request = 0
        self._known: Destination | None = None  # destination of the last message that was not a request

    def concerns(self, message: Message) -> bool:
        """Return True if ``message`` is to be scheduled, or is a request to the scheduler."""
        destination = message.destination
        if destination is not self._known:
            if is_request(destination):
                return True
            self._known = destination
        raw = message.raw
        if len(raw) <= SEARCHED_WHOLE:
            if raw.find(MARK) < 0:
                return False
        elif raw.find(MARK, message.properties_start) < 0 and raw.find(MARK, 0, message.content_start) < 0:
            return False
        try:
            return asks(self._formats.properties(message))
        except (JmsError, ProtocolError):
            return False

    def take(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Schedule ``message`` or carry out a request.

        Returns:
            The result of `MessageRouter.send`.
        """
        if is_request(message.destination):
            if self._requests.handle(state, message, self._own_state(state.principal), token):
                return token == NO_TOKEN
            return self._router.answer_when_stored(state, token)
        self._router.targets.of(state, message)  # raises the refusal, if any
        obstacle = self._flow.obstacle(self._schedule, message)
        if obstacle != ROOM:
            return self._parked.park(state, self._schedule, message, token, obstacle)
        return self.keep(state, message, token)

    def destination_of(self, state: ConnectionState, message: Message) -> BrokerDestination | None:
        """Return the schedule if ``message`` is to be scheduled by a transaction.

        Requests are carried out at once.
        """
        if is_request(message.destination):
            self._requests.handle(state, message, self._own_state(state.principal), NO_TOKEN)
            return None
        self._router.targets.of(state, message)
        job = self._schedule.plan(message, state.principal, self._context.wall_ms)  # raises if something is invalid
        self._context.steps += steps_of(job) - 1
        return self._schedule

    def keep(self, state: ConnectionState, message: Message, token: int) -> bool:
        """Schedule ``message`` after a check for room.

        Returns:
            The result of `MessageRouter.send`.
        """
        job = self._schedule.plan(message, state.principal, self._context.wall_ms)
        self._context.steps += steps_of(job) + KEEP_STEPS - 1
        identities = self._router.identified.identities(message)
        for identity in identities:
            self._router.identified.note(identity)
        store = self._context.store
        if store is None:
            self._schedule.enter(job, 0, message)
            return True
        addition = (SCHEDULED_MESSAGES, stored_form(message, job.number))
        metadata = [identity.metadata_record() for identity in identities]
        metadata.append(job.metadata_record(job.due_ms, job.repeat))
        sequences = self._context.units.append_unit([addition], [], metadata)
        self._unsynced.add(message.size)
        if state.forwards:
            self._audit.came_over_link(message)
        else:
            state.audited = self._audit.stored(state.audited, message.producer_id, message.sequence)
        self._schedule.enter(job, sequences[0], None)
        return self._router.answer_when_stored(state, token)

    def bring_back(self, job: Job, message: Message, removals: list[tuple[Destination, int]]) -> None:
        """Schedule ``message`` for ``job`` and remove ``removals``, in one unit."""
        store = self._context.store
        if store is None:
            self._schedule.enter(job, 0, message)
            return
        metadata_record = job.metadata_record(job.due_ms, job.repeat)
        sequences = self._context.units.append_unit(
            [(SCHEDULED_MESSAGES, stored_form(message, job.number))], removals, [metadata_record], MOVED_OUT
        )
        self._unsynced.add(message.size)
        self._schedule.enter(job, sequences[0], None)

    @property
    def schedule(self) -> Schedule:
        """The jobs of the broker."""
        return self._schedule

    @property
    def is_removing(self) -> bool:
        """True while a removal is under way."""
        return self._requests.is_removing

    def next_timeout(self) -> float | None:
        """Return the time for the next `run` in monotonic seconds, 0.0 for at once, None without work."""
        if self._schedule.has_answers() or self._requests.is_ready():
            return 0.0
        due = self._requests.next_timeout()
        first_ms = self._schedule.next_time()
        if first_ms == 0 or self._reading:
            return due
        wait = (first_ms - self._context.wall_ms) / 1000
        if wait <= 0:
            return 0.0
        nap = self._context.monotonic + min(wait, MAX_NAP_SECONDS)
        return nap if due is None else min(nap, due)

    def run(self) -> None:
        """Deliver the due messages read from the store, read further due messages, and answer requests."""
        for request, messages in self._schedule.take_answers():
            if request == self._request:
                self._request = 0
                jobs = self._reading
                self._reading = []
                self._deliver_all(jobs, messages)
            else:
                self._requests.on_fetched(request, messages)
        if not self._reading:
            self._read()
        self._requests.run()

    def _read(self) -> None:
        jobs = self._schedule.take_due(self._context.wall_ms, MAX_DELIVERIES, MAX_READ_BYTES)
        if not jobs:
            return
        if self._context.store is None:
            self._deliver_all(jobs, [job.message for job in jobs])
            return
        self._reading = jobs
        self._request = self._context.fetch(self._schedule, SCHEDULED_MESSAGES, [job.sequence for job in jobs])

    def _deliver_all(self, jobs: list[Job], messages: list[Message | None]) -> None:
        """Deliver the messages of due jobs. A job that the store refuses waits, and holds up no other job."""
        for job, message in zip(jobs, messages, strict=True):
            try:
                self._deliver(job, message)
            except JmsError as error:
                logger.warning("scheduled job %s is tried again in %d ms: %s", job.job_id, REFUSED_MS, error)
                self._schedule.put_off(job, self._context.wall_ms + REFUSED_MS)

    def _deliver(self, job: Job, scheduled: Message | None) -> None:
        """Deliver ``scheduled``, the message of a due job."""
        if self._schedule.jobs.get(job.number) is not job:
            return  # the job was removed during the read
        if job.removals > 0:
            self._schedule.put_off(job, self._context.wall_ms + RETRY_MS)
            return
        if scheduled is None:
            logger.error("the message of scheduled job %s cannot be read: it is not delivered", job.job_id)
            return
        message = self._formats.index(scheduled.format_id, scheduled.encoded())
        message.broker_path = scheduled.broker_path
        if job.cron and job.repeat != 0:
            if self._flow.obstacle(self._schedule, message) == ROOM:
                self._begin_series(job, message, self._next_due(job, 0))
            else:
                self._schedule.put_off(job, self._context.wall_ms + RETRY_MS)
            return
        entries = self._entries(job, self._delivered(job, message))
        for entry in entries:
            if self._flow.obstacle(entry.destination, entry.message) != ROOM:
                self._schedule.put_off(job, self._context.wall_ms + RETRY_MS)
                return
        written = sum([entry.message.size for entry in entries])
        self._settle(job, self._next_due(job, written), entries, [], [])

    def _next_due(self, job: Job, written: int) -> int:
        try:
            return self._schedule.next_due(job, self._context.wall_ms, written)
        except JmsError:
            return 0  # the calendar ends before the next time of the entry

    def _delivered(self, job: Job, message: Message) -> Message:
        """Return the message for consumers: without scheduling properties, with a new id in a series."""
        message_format = self._formats.format(message.format_id)
        try:
            view = message_format.view(message)
            for name in (DELAY, PERIOD, REPEAT, CRON):
                view.properties.pop(name, None)
            view.properties[JOB_ID] = (STRING_VALUE, job.job_id)
            if job.is_series:
                self._last_sequence += 1
                view.message_id = MessageId(self._producer_id, self._last_sequence)
            lifetime_ms = view.expiration_ms - view.timestamp_ms
            if view.expiration_ms > 0 and view.timestamp_ms > 0 and lifetime_ms > 0:
                view.timestamp_ms = max(view.timestamp_ms, self._context.wall_ms)
                view.expiration_ms = view.timestamp_ms + lifetime_ms
            copy = message_format.encode_from_view(view)
        except (JmsError, ProtocolError):
            return message  # consumers may decode a body that the broker cannot
        copy.broker_path = message.broker_path
        return copy

    def _entries(self, job: Job, message: Message) -> list[WithheldMessage]:
        """Return the destinations of a due message.

        The dead letter queue replaces them if the sender has lost the right to send.
        """
        redelivery = job.redelivery
        if redelivery is not None:
            destination = self._router.find_or_create(redelivery.destination)
            message.redelivery_count = redelivery.count
            message.broker_path = redelivery.broker_path
            return [] if destination is None else [WithheldMessage(destination, message, 0)]
        try:
            targets = self._router.targets.of(self._own_state(job.principal), message)
        except JmsError as error:
            logger.warning("scheduled job %s to %s is not delivered: %s", job.job_id, message.destination, error)
            return self._dead_letters.letters(MessageReference(self._schedule, message, 0, 0, 0), UNDELIVERED)
        copies = self._router.targets.copies(targets, message)
        return [WithheldMessage(target.destination, copy, 0) for target, copy in zip(targets, copies, strict=True)]

    def _begin_series(self, job: Job, message: Message, due_ms: int) -> None:
        """Start the repetitions at one time of a cron entry, as a separate job."""
        try:
            self._schedule.check_room()
        except JmsError as error:
            logger.warning("scheduled job %s skips one time of its cron entry: %s", job.job_id, error)
            self._settle(job, due_ms, [], [], [])
            return
        series = self._schedule.series(job, self._ids.next_id(), self._context.wall_ms)
        additions = [(SCHEDULED_MESSAGES, stored_form(message, series.number))]
        sequences = self._settle(job, due_ms, [], additions, [series.metadata_record(series.due_ms, series.repeat)])
        if sequences:
            self._schedule.enter(series, sequences[0], None)
        else:
            self._schedule.enter(series, 0, message)

    def _settle(
        self,
        job: Job,
        due_ms: int,
        entries: list[WithheldMessage],
        additions: list[tuple[Destination, Message]],
        metadata: list[MetadataRecord],
    ) -> list[int]:
        """Deliver ``entries`` and move ``job`` to ``due_ms`` (0: remove it), in one unit.

        The unit keeps ``additions`` and ``metadata`` as well.

        Returns:
            The sequences of the additions.
        """
        repeat = job.repeat - 1 if job.repeat > 0 and not job.cron else job.repeat
        sequences: list[int] = []
        store = self._context.store
        if store is not None:
            removals = [(SCHEDULED_MESSAGES, job.sequence)] if due_ms == 0 else []
            metadata.append(job.end() if due_ms == 0 else job.metadata_record(due_ms, repeat))
            own = len(additions)
            indexes: list[int] = []
            for index, entry in enumerate(entries):
                if entry.destination.persists(entry.message):
                    indexes.append(index)
                    additions.append((entry.destination.name, entry.message))
            all_sequences = self._context.units.append_unit(additions, removals, metadata)
            sequences = all_sequences[:own]
            for index, sequence in zip(indexes, all_sequences[own:], strict=True):
                self._unsynced.add(entries[index].message.size)
                entry = WithheldMessage(entries[index].destination, entries[index].message, sequence)
                entries[index] = entry
                if entry.message.redelivery_count > 0:
                    store.note_redelivery(entry.destination.name, sequence, entry.message.redelivery_count)
        if due_ms == 0:
            self._schedule.leave(job)
        else:
            job.due_ms = due_ms
            job.repeat = repeat
            self._schedule.put_off(job, due_ms)
        self._dispatch(entries)
        return sequences

    def _dispatch(self, entries: list[WithheldMessage]) -> None:
        """Dispatch after the sync of the unit: no delivered message may be delivered again."""
        store = self._context.store
        position = 0 if store is None else store.position()
        self._router.withhold(PendingReply(position, self._output, NO_TOKEN, entries))

    def _own_state(self, principal: Principal) -> ConnectionState:
        """Return a connection state without a client, with the rights of ``principal``."""
        info = ConnectionInfo(self._connection_id, user_name=principal.name, remote_address="the scheduler")
        return ConnectionState(self._output, info, principal, UncommittedLimit())

    def recover(self, metadata: dict[bytes, bytes], recovered: list[RecoveredDestination]) -> None:
        """Restore the jobs. A job with several missed times is delivered once."""
        store = self._context.store
        if store is None:
            return
        entries = [entry for entry in recovered if entry.destination == SCHEDULED_MESSAGES]
        for sequence in self._schedule.recover(metadata, entries[0] if entries else None):
            store.remove(SCHEDULED_MESSAGES, sequence)
        for key in self._schedule.without_message(metadata):
            logger.error("scheduled job %s has no message in the store: it is forgotten", key.decode("ascii"))
            self._context.metadata.discard_metadata(SCHEDULES, key)


def recover_jobs(
    scheduler: Scheduler | None, metadata: dict[int, dict[bytes, bytes]], recovered: list[RecoveredDestination]
) -> None:
    """Restore scheduled messages.

    A broker without a scheduler leaves them in the store and logs their number.
    """
    jobs = metadata.get(SCHEDULES, {})
    if scheduler is not None:
        scheduler.recover(jobs, recovered)
    elif jobs:
        logger.warning(
            "%d scheduled messages wait in the store and are not delivered: set schedulerSupport of <broker> to true",
            len(jobs),
        )
