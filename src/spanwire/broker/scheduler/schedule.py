"""The scheduled messages of one broker, as jobs in the order of their times.

A message is scheduled by properties (ActiveMQ, "Delay and Schedule Message Delivery"): ``AMQ_SCHEDULED_DELAY`` and
``AMQ_SCHEDULED_PERIOD`` in milliseconds, ``AMQ_SCHEDULED_REPEAT`` (below 0: without end), ``AMQ_SCHEDULED_CRON``.
OpenWire has no field for the delivery delay of JMS 2; ``AMQ_SCHEDULED_DELAY`` carries the delay.

The store keeps the messages under the destination `SCHEDULED_MESSAGES` and each job as a record of table SCHEDULES,
keyed by the job's number. The number links both: the store has the number in place of the message's expiration, and the
message's own bytes keep the expiration. Memory has jobs without messages, unless the broker has no store.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.jobs import StoreReader
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.metadata import SCHEDULES, MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.ports import Principal
from spanwire.broker.scheduler.cron import Cron
from spanwire.model.destination import SCHEDULE, Destination
from spanwire.model.errors import MessageFormatError, ResourceAllocationError, StoreError
from spanwire.model.message import Message
from spanwire.model.message_view import PropertyValue

MARK: Final = b"AMQ_SCHEDULED"  # bytes in every scheduled message
DELAY: Final = "AMQ_SCHEDULED_DELAY"
PERIOD: Final = "AMQ_SCHEDULED_PERIOD"
REPEAT: Final = "AMQ_SCHEDULED_REPEAT"
CRON: Final = "AMQ_SCHEDULED_CRON"
JOB_ID: Final = "scheduledJobId"

SCHEDULED_MESSAGES: Final = Destination(SCHEDULE, "jobs")
DEFAULT_MAX_REPEAT: Final = 1_000  # maxSchedulerRepeatAllowed of ActiveMQ
MAX_REPEAT: Final = 10_000  # copies of one message; the largest maxSchedulerRepeatAllowed
MAX_JOBS: Final = 100_000  # jobs of one broker: each takes some 1 KiB of memory beside its message on the disk
MAX_DELAY_MS: Final = 100 * 366 * 24 * 3_600_000  # milliseconds; a delay above a century is a mistake
MIN_ENDLESS_PERIOD_MS: Final = 100  # milliseconds; the least period of an endless series
MAX_REPEATED_BYTES_PER_SECOND: Final = 4 * 1024 * 1024  # bytes that one series may write: the disk serves many
CRON_STEPS: Final = 8  # a step plans a delay in some 10 µs; the calendar takes up to 80 µs
STALE_TIMES: Final = 64  # times of removed jobs in the heap before it is rebuilt


@dataclass(frozen=True)
class SchedulerSettings:
    """Settings of the scheduler: repetitions of one message, time zone of cron entries, number of jobs."""

    max_repeat: int = DEFAULT_MAX_REPEAT
    zone: tzinfo = UTC
    max_jobs: int = MAX_JOBS


@dataclass(frozen=True)
class Redelivery:
    """The redelivery of a failed message (`spanwire.broker.plugins.redelivery_plugin`).

    ``destination`` is the destination or durable subscription for the return, ``count`` the next redelivery count.
    """

    destination: Destination
    count: int
    broker_path: tuple[str, ...]


class Job:
    """One scheduled message with its next time.

    ``repeat`` counts the deliveries after the next delivery. ``is_series`` is True if each delivery gets a new message
    id. Deliveries have the rights of ``principal``, the sender. A job with a ``redelivery`` returns a message to its
    destination. With ``removals`` under way the job is not delivered.
    """

    __slots__ = (
        "cron",
        "delay_ms",
        "due_ms",
        "is_series",
        "job_id",
        "message",
        "number",
        "period_ms",
        "principal",
        "redelivery",
        "removals",
        "repeat",
        "sequence",
        "size",
    )

    def __init__(
        self,
        number: int,
        job_id: str,
        principal: Principal,
        size: int,
        due_ms: int,
        cron: str,
        delay_ms: int,
        period_ms: int,
        repeat: int,
        is_series: bool,
        redelivery: Redelivery | None = None,
    ) -> None:
        self.number: Final[int] = number
        self.job_id: Final[str] = job_id
        self.principal: Final[Principal] = principal
        self.size: Final[int] = size
        self.due_ms = due_ms
        self.cron: Final[str] = cron
        self.delay_ms: Final[int] = delay_ms
        self.period_ms: Final[int] = period_ms
        self.repeat = repeat
        self.is_series: Final[bool] = is_series
        self.redelivery: Final[Redelivery | None] = redelivery
        self.sequence = 0
        self.removals = 0
        self.message: Message | None = None

    def metadata_record(self, due_ms: int, repeat: int) -> MetadataRecord:
        """Return the record for the store, with the next time and the remaining repetitions."""
        value: dict[str, object] = {
            "id": self.job_id,
            "user": self.principal.name,
            "groups": sorted(self.principal.groups),
            "size": self.size,
            "due": due_ms,
            "cron": self.cron,
            "delay": self.delay_ms,
            "period": self.period_ms,
            "repeat": repeat,
            "series": self.is_series,
        }
        redelivery = self.redelivery
        if redelivery is not None:
            value["home"] = [redelivery.destination.kind, redelivery.destination.name]
            value["redeliveries"] = redelivery.count
            value["path"] = list(redelivery.broker_path)
        return MetadataRecord(SCHEDULES, str(self.number).encode("ascii"), json.dumps(value).encode("ascii"))

    def end(self) -> MetadataRecord:
        """Return the record that deletes the job's record."""
        return MetadataRecord(SCHEDULES, str(self.number).encode("ascii"), None)


def decode_job(key: bytes, value: bytes) -> Job:
    """Return the job of a record.

    Raises:
        StoreError: ``value`` does not come from `Job.metadata_record`.
    """
    try:
        record = json.loads(value)
        job_id: str = record["id"]
        user: str = record["user"]
        groups: list[str] = record["groups"]
        size: int = record["size"]
        due_ms: int = record["due"]
        cron: str = record["cron"]
        delay_ms: int = record["delay"]
        period_ms: int = record["period"]
        repeat: int = record["repeat"]
        is_series: bool = record["series"]
        principal = Principal(user, frozenset(groups))
        redelivery: Redelivery | None = None
        if "home" in record:
            kind: int = record["home"][0]
            name: str = record["home"][1]
            count: int = record["redeliveries"]
            path: list[str] = record["path"]
            redelivery = Redelivery(Destination(kind, name), count, tuple(path))
        return Job(int(key), job_id, principal, size, due_ms, cron, delay_ms, period_ms, repeat, is_series, redelivery)
    except (ValueError, KeyError, IndexError, TypeError):
        raise StoreError(
            "a scheduled message in the store cannot be read: stop the broker and run spanwire store check"
        ) from None


class Schedule(BrokerDestination, StoreReader):
    """The jobs of one broker. `Scheduler` delivers the messages.

    A destination without a name for clients: messages in transactions may belong to the schedule as to any destination,
    and the store's answers arrive here.
    """

    def __init__(
        self, settings: SchedulerSettings, policy: PolicyEntry, usage: MemoryUsage, formats: MessageFormats
    ) -> None:
        super().__init__(SCHEDULED_MESSAGES, policy, usage)
        self._settings: Final[SchedulerSettings] = settings
        self._formats: Final[MessageFormats] = formats
        self.jobs: Final[dict[int, Job]] = {}
        self._by_id: Final[dict[str, Job]] = {}
        self._times: list[tuple[int, int]] = []  # time and number of each job, and of some removed jobs
        self._last_number = 0
        self.planned = 0  # jobs of transactions that are being committed
        self.leaving = 0  # jobs that are being removed; as many others may be added meanwhile
        self._answers: list[tuple[int, list[Message | None]]] = []

    def persists(self, message: Message) -> bool:
        """Return True: the store gets each scheduled message with the record of its job."""
        return True

    def plan(self, message: Message, principal: Principal, wall_ms: int) -> Job:
        """Return the job for ``message``, without entering the job.

        Raises:
            MessageFormatError: the properties are invalid or ask for too much.
            ResourceAllocationError: the broker has too many jobs.
        """
        properties = self._formats.properties(message)
        cron = _text(properties, CRON)
        delay_ms = max(_milliseconds(properties, DELAY), 0)
        period_ms = max(_milliseconds(properties, PERIOD), 0)
        repeat = _number(properties, REPEAT)
        if repeat > self._settings.max_repeat:
            raise MessageFormatError("The scheduled repeat value is too large")
        if repeat < 0 and period_ms == 0:
            raise MessageFormatError(f"a message that repeats for ever needs {PERIOD}")
        due_ms = wall_ms
        if cron:
            due_ms = Cron(cron).next_ms(wall_ms, self._settings.zone)
        if not cron or repeat == 0:
            due_ms += delay_ms if delay_ms > 0 else period_ms
        self.check_room()
        number = self._next_number()
        job_id = f"{message.producer_id}:{number}"
        is_series = repeat != 0 or cron != ""
        return Job(number, job_id, principal, message.size, due_ms, cron, delay_ms, period_ms, repeat, is_series)

    def series(self, job: Job, job_id: str, wall_ms: int) -> Job:
        """Return the job for the repetitions that start at one time of a cron entry."""
        due_ms = wall_ms + (job.delay_ms if job.delay_ms > 0 else job.period_ms)
        number, period_ms = self._next_number(), job.period_ms
        return Job(number, job_id, job.principal, job.size, due_ms, "", job.delay_ms, period_ms, job.repeat, True)

    def redelivery(self, message: Message, principal: Principal, due_ms: int, redelivery: Redelivery) -> Job:
        """Return a job that returns ``message`` to its destination, without entering the job.

        Raises:
            ResourceAllocationError: the broker has too many jobs.
        """
        self.check_room()
        number = self._next_number()
        job_id = f"{message.producer_id}:{number}"
        return Job(number, job_id, principal, message.size, due_ms, "", 0, 0, 0, False, redelivery)

    def check_room(self, count: int = 0) -> None:
        """Check that ``count`` jobs and one more fit.

        Raises:
            ResourceAllocationError: the broker has too many jobs.
        """
        there = max(len(self.jobs) - self.leaving, len(self.jobs) // 2) + self.planned + count
        if there >= self._settings.max_jobs:
            raise ResourceAllocationError(
                f"the broker holds {there} scheduled messages, its maximum: wait until some are delivered, or remove "
                f"some"
            )

    def next_due(self, job: Job, wall_ms: int, written: int) -> int:
        """Return the next time of ``job`` after the current time, 0 for none. Missed times are skipped.

        Args:
            written: bytes of the current delivery; a series may write a limited number of bytes in a second.
        """
        if job.cron:
            return Cron(job.cron).next_ms(max(wall_ms, job.due_ms), self._settings.zone)
        if job.repeat == 0:
            return 0
        pause_ms = max(job.period_ms, written * 1_000 // MAX_REPEATED_BYTES_PER_SECOND)
        if job.repeat < 0:
            pause_ms = max(pause_ms, MIN_ENDLESS_PERIOD_MS)
        planned = job.due_ms + pause_ms
        return planned if planned > wall_ms else wall_ms + pause_ms

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def enter(self, job: Job, sequence: int, message: Message | None) -> None:
        """Add a job with a message that is stored under ``sequence``, or else is ``message``."""
        job.sequence = sequence
        if message is not None:
            job.message = message
            self.hold(message)
        self.jobs[job.number] = job
        self._by_id[job.job_id] = job
        self.put_off(job, job.due_ms)

    def put_off(self, job: Job, until_ms: int) -> None:
        """Examine ``job`` again at ``until_ms``, in milliseconds since 1970."""
        if len(self._times) > 2 * len(self.jobs) + STALE_TIMES:
            self._times = [entry for entry in self._times if entry[1] in self.jobs]
            heapq.heapify(self._times)
        heapq.heappush(self._times, (until_ms, job.number))

    def leave(self, job: Job) -> None:
        """Remove ``job``."""
        if self.jobs.pop(job.number, None) is not None:
            self._by_id.pop(job.job_id, None)
            self.leaving -= 1 if job.removals > 0 else 0
            if job.message is not None:
                self.release(job.message)
                job.message = None

    def find(self, job_id: str) -> Job | None:
        """Return the job with the id ``job_id``, None if unknown."""
        return self._by_id.get(job_id)

    def between(self, first_ms: int, last_ms: int) -> list[Job]:
        """Return the jobs with a next time from ``first_ms`` to ``last_ms``."""
        return [job for job in self.jobs.values() if first_ms <= job.due_ms <= last_ms]

    def next_time(self) -> int:
        """Return the time of the first job in milliseconds since 1970, 0 without jobs."""
        while self._times and self._times[0][1] not in self.jobs:
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else 0

    def take_due(self, wall_ms: int, max_count: int, max_bytes: int) -> list[Job]:
        """Return due jobs, at most ``max_count``.

        The jobs have at most ``max_bytes`` unless the first job alone has more.
        """
        jobs: list[Job] = []
        size = 0
        while len(jobs) < max_count and 0 < self.next_time() <= wall_ms:
            job = self.jobs[self._times[0][1]]
            size += job.size
            if jobs and size > max_bytes:
                break
            heapq.heappop(self._times)
            jobs.append(job)
        return jobs

    def recover(self, metadata: dict[bytes, bytes], recovered: RecoveredDestination | None) -> list[int]:
        """Restore jobs from their records.

        Returns:
            The sequences of messages without a job. `without_message` returns jobs without a message.
        """
        sequences: dict[int, int] = {}
        orphans: list[int] = []
        if recovered is not None:
            numbered = dict(zip(recovered.expirations.sequences, recovered.expirations.wall_ms, strict=True))
            for sequence in recovered.sequences:
                number = numbered.get(sequence, 0)
                if str(number).encode("ascii") in metadata:
                    sequences[number] = sequence
                else:
                    orphans.append(sequence)
        for key, value in metadata.items():
            job = decode_job(key, value)
            self._last_number = max(self._last_number, job.number)
            if job.number in sequences:
                self.enter(job, sequences[job.number], None)
        return orphans

    def without_message(self, metadata: dict[bytes, bytes]) -> list[bytes]:
        """Return the keys of recovered records without a message in the store."""
        return [key for key in metadata if int(key) not in self.jobs]

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take an answer of the store."""
        self._answers.append((request, messages))

    def has_answers(self) -> bool:
        """Return True if the store has answered."""
        return len(self._answers) > 0

    def take_answers(self) -> list[tuple[int, list[Message | None]]]:
        """Return and forget the store's answers, by request."""
        answers = self._answers
        self._answers = []
        return answers


class Plans(BrokerDestination):
    """The jobs for the scheduled messages of one transaction, with times counted from the commit.

    A destination without a name for clients: messages are dispatched here, as those of the transaction are to queues,
    once the store has them. Only then does a job begin to wait, for the store could not give its message before.
    """

    def __init__(self, schedule: Schedule, principal: Principal) -> None:
        super().__init__(SCHEDULED_MESSAGES, schedule.policy, schedule.usage)
        self._schedule: Final[Schedule] = schedule
        self._principal: Final[Principal] = principal
        self._jobs: Final[dict[int, tuple[Job, Message]]] = {}

    def plan(self, message: Message, wall_ms: int) -> Job:
        """Return the job for ``message``, which counts towards the limit of the schedule.

        Raises:
            JmsError: as `Schedule.plan`.
        """
        job = self._schedule.plan(message, self._principal, wall_ms)
        self._jobs[job.number] = (job, message)
        self._schedule.planned += 1
        return job

    def persists(self, message: Message) -> bool:
        """Return True, as `Schedule.persists`."""
        return True

    def accept(self, message: Message, sequence: int) -> None:
        """Enter the job of ``message``, which has the form for the store."""
        job, original = self._jobs.pop(message.expiration_ms)
        self._schedule.planned -= 1
        self._schedule.enter(job, sequence, None if sequence > 0 else original)

    def drop(self) -> None:
        """Forget all jobs after a commit without effect."""
        self._schedule.planned -= len(self._jobs)
        self._jobs.clear()


def stored_form(message: Message, number: int) -> Message:
    """Return a copy of ``message`` with the job's number in place of the expiration."""
    copy = Message(
        message.format_id,
        message.raw,
        message.content_start,
        message.properties_start,
        message.tail_start,
        message.destination,
        message.producer_id,
        message.sequence,
        message.persistent,
        message.priority,
        number,
        message.timestamp_ms,
        message.group_id,
        message.format_index,
        message.text_view,
    )
    copy.head = message.head
    copy.tail = message.tail
    copy.broker_path = message.broker_path
    return copy


def steps_of(job: Job) -> int:
    """Return the steps of planning ``job``."""
    return 1 + CRON_STEPS if job.cron else 1


def asks(properties: dict[str, PropertyValue]) -> bool:
    """Return True if ``properties`` ask for a schedule and the message was not delivered already."""
    if _is_set(properties, JOB_ID):
        return False
    return _is_set(properties, DELAY) or _is_set(properties, PERIOD) or _is_set(properties, CRON)


def _is_set(properties: dict[str, PropertyValue], name: str) -> bool:
    """Return True if the property exists and is not null."""
    entry = properties.get(name)
    return entry is not None and entry[1] is not None


def _milliseconds(properties: dict[str, PropertyValue], name: str) -> int:
    number = _number(properties, name)
    if number > MAX_DELAY_MS:
        raise MessageFormatError(f"{name} is more than a century: {number} ms")
    return number


def _number(properties: dict[str, PropertyValue], name: str) -> int:
    """Return a property as an integer, 0 if absent. Strings are parsed, as in ActiveMQ."""
    entry = properties.get(name)
    value = None if entry is None else entry[1]
    if value is None:
        return 0
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        digits = value[1:] if value.startswith("-") else value
        if digits.isascii() and digits.isdecimal() and len(digits) < 20:
            return int(value)
    raise MessageFormatError(f"{name} is no whole number: {str(value)[:40]!r}")


def _text(properties: dict[str, PropertyValue], name: str) -> str:
    entry = properties.get(name)
    return "" if entry is None or entry[1] is None else str(entry[1])
