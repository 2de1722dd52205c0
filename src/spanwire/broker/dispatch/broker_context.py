"""State shared by all destinations of one broker.

The state is the store, the time of the turn, the dispatch order and the scheduled jobs.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import Final, Protocol

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.destination_events import MessageAdvisories
from spanwire.broker.dispatch.history.departures import Departures
from spanwire.broker.dispatch.history.ledger_links import LedgerLinks
from spanwire.broker.dispatch.history.lost_messages import LostMessages
from spanwire.broker.dispatch.jobs import Alarm, Job, StoreReader
from spanwire.broker.dispatch.message_formats import MessageFormats
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import LEDGER_LINKS, LOST_MESSAGES
from spanwire.broker.no_store import NoStore
from spanwire.broker.persistence.stored_sums import StoreLedger
from spanwire.broker.ports import MessageStore, MetadataStore, Store, StoreUsage, UnitStore
from spanwire.model.destination import Destination
from spanwire.model.environment import Time
from spanwire.model.ledger import DISCARDED, PURGED, Sums
from spanwire.model.message import Message

BYTES_OF_MADE: Final = 16 * 1024  # bytes of a message of the broker's own that count as one more such message
MAX_COUNTED: Final = 10_000  # destinations whose dropped duplicates are counted; a client may name any number
MAX_RINGS: Final = 250  # alarms of one turn; the next turn calls further due alarms


class DeadLetterHandler(Protocol):
    """Takes messages that a destination may not or cannot dispatch."""

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Send a copy to the dead letter destination of the policy, then remove the message."""
        ...

    def is_behind(self) -> bool:
        """Return True if long work that makes dead letters must wait for the disk."""
        ...


class ConsumerRemover(Protocol):
    """Removes consumers for the broker's own reasons."""

    def remove_consumer(self, subscription: Subscription) -> None:
        """Remove a consumer without a request of the client. Unacknowledged messages return to the queues."""
        ...


class PendingJoin(Protocol):
    """A wildcard subscription whose consumers are attached to destinations in slices."""

    def load_for(self, destination: BrokerDestination) -> int:
        """Return the number of steps of one message to ``destination`` for the consumers not yet attached."""
        ...

    def complete(self, destination: BrokerDestination) -> None:
        """Attach the remaining matching consumers to ``destination`` at once."""
        ...


class MessageFollower(Protocol):
    """Learns what happens beside dispatches; there is one while an operator follows messages."""

    def destination_added(self, destination: BrokerDestination) -> None:
        """See a destination before its first consumer or message."""
        ...

    def cursor_step(self, step: str, cursor: str, destination: Destination, sequences: list[int], first: int) -> None:
        """See messages of a cursor, by their sequences in the store; the first has the number ``first``."""
        ...

    def numbered(self, destination: Destination, message: Message, sequence: int) -> None:
        """See that the store has a message, because a cursor reserves it."""
        ...

    def written(self, destination: Destination, message: Message, sink: str, batch: int) -> None:
        """See a message of a sink's batch before its arrival."""
        ...


class StepReceiver(Protocol):
    """Takes steps of followed messages outside of the broker."""

    def step_outside(self, message_id: str, step: str, location: str, cause: str, there: str, wall_ms: int) -> None:
        """See a step at ``wall_ms`` milliseconds since 1970; ``there`` is the id of the message there, or ""."""
        ...


class StepSource(Protocol):
    """A process of the broker that takes messages as a client, and knows their further way: that of the bridges."""

    def follow(self, receiver: StepReceiver | None) -> None:
        """Begin to report steps of named messages; with None end."""
        ...

    def name(self, message_id: str) -> None:
        """Report the steps of a message; one that never comes to the process has none."""
        ...

    def forget(self, message_ids: list[str]) -> None:
        """Report no more steps of these messages."""
        ...


class EventObserver(Protocol):
    """Receives events that no client requested through the broker's facade."""

    def branch_event(self, event: str, xid: str) -> None:
        """Report a request for an XA branch, such as ``preparing transaction``."""
        ...

    def destination_event(self, event: str, name: str) -> None:
        """Report the creation or removal of a destination."""
        ...


class BrokerContext:
    """Context of a broker's queues, topics and browses.

    ``wall_ms`` and ``monotonic`` are the times of the current input.
    """

    def __init__(
        self, store: Store | None, formats: MessageFormats | None = None, departures: Departures | None = None
    ) -> None:
        nothing = NoStore()
        self.store: Final[MessageStore | None] = store
        self.units: Final[UnitStore] = nothing if store is None else store
        self.metadata: Final[MetadataStore] = nothing if store is None else store
        self.store_usage: Final[StoreUsage] = nothing if store is None else store
        self.ledger: Final[StoreLedger] = nothing if store is None else store
        self.formats: Final[MessageFormats | None] = formats
        self.links: Final[LedgerLinks] = LedgerLinks(self.metadata)
        self.lost: Final[LostMessages] = LostMessages(self.metadata, self.ledger)
        self.duplicates: Final[dict[str, int]] = {}  # dropped since the start, by destination
        self.removed_sums: Final[Sums] = Sums()  # of the queues removed since the start
        self.departed = 0  # queues and other things with parts that refer to each other, gone since the start
        self.departures: Final[Departures] = departures if departures is not None else Departures()
        self.dead_letter_handler: DeadLetterHandler | None = None
        self.observer: EventObserver | None = None
        self.follower: MessageFollower | None = None
        self.step_source: StepSource | None = None  # None without bridges
        self.advisories: MessageAdvisories | None = None  # None on a broker without advisories
        self.remover: ConsumerRemover | None = None
        self.joins: Final[list[PendingJoin]] = []  # unfinished
        self.crowded: Final[dict[BrokerDestination, None]] = {}  # topics with more than half of their consumer limit
        self.measured: Final[dict[BrokerDestination, None]] = {}  # with message statistics
        self.looks = 0  # looks at pending messages of slow consumers for the current request
        self.losses = 0  # messages of slow consumers that are just becoming dead letters, one because of another
        self.made = 0  # dead letters, repetitions and advisories so far; a large one counts as several
        self.first_slices = 0  # steps of slices that the current request has done at once
        self.steps = 0  # work done: requests, and their immediate effects on many destinations or consumers
        self.wall_ms = 0
        self.monotonic = 0.0
        self.newest_durable = 0  # highest number of a durable subscription so far, also in earlier runs of the broker
        self.order = 0  # the last number of the dispatch order
        self._request = 0
        self._fetching: Final[dict[int, StoreReader]] = {}
        self._jobs: Final[dict[Job, None]] = {}  # in the order of their turns
        self._alarms: Final[list[tuple[float, int, Alarm]]] = []  # a heap; the number orders equal times
        self._last_alarm = 0

    def restore(self, metadata: dict[int, dict[bytes, bytes]], clean: bool) -> None:
        """Take what the ledger keeps in the store; ``clean`` is True after an orderly stop."""
        self.links.restore(metadata.get(LEDGER_LINKS, {}))
        self.lost.restore(metadata.get(LOST_MESSAGES, {}), clean)

    def begin_request(self, now: Time) -> None:
        """Begin the next request, or a turn of later work, at ``now``: count a step, and grant new budgets."""
        self.steps += 1
        self.first_slices = 0
        self.looks = 0
        self.wall_ms = now.wall_ms
        self.monotonic = now.monotonic

    def close_sums(self, sums: Sums) -> None:
        """Add the ledger of a removed queue, whose pending messages are purged, to that of all removed ones."""
        sums.add(PURGED, sums.balance())
        self.removed_sums.join(sums)

    def count_made(self, message: Message) -> None:
        """Count a message that the broker makes because of others."""
        self.made += 1 + message.size // BYTES_OF_MADE

    def note_duplicate(self, kind: int, message: Message, sender: str) -> None:
        """Remember a message that is dropped as a duplicate, and the connection that sent it."""
        self.departures.note(message, kind, message.destination, self.wall_ms, None, 0, sender)
        name = message.destination.qualified_name
        count = self.duplicates.get(name, 0)
        if count > 0 or len(self.duplicates) < MAX_COUNTED:
            self.duplicates[name] = count + 1

    def next_order(self) -> int:
        """Return the next number in the broker's dispatch order."""
        self.order += 1
        return self.order

    def reserve_orders(self, count: int) -> int:
        """Reserve the next ``count`` numbers of the dispatch order and return the first number."""
        first = self.order + 1
        self.order += count
        return first

    def fetch(self, reader: StoreReader, destination: Destination, sequences: list[int]) -> int:
        """Request messages from the store.

        A later turn calls ``reader.on_fetched`` with the messages and the returned request number.
        """
        assert self.store is not None
        self._request += 1
        self._fetching[self._request] = reader
        self.store.fetch(self._request, destination, sequences)
        return self._request

    def forget_fetches(self, reader: StoreReader) -> None:
        """Drop all pending reads of ``reader``."""
        for request in [request for request, asked in self._fetching.items() if asked is reader]:
            del self._fetching[request]

    def take_fetching(self, request: int) -> StoreReader | None:
        """Forget a read and return the requesting reader, or None for a dropped read."""
        return self._fetching.pop(request, None)

    def schedule(self, job: Job) -> None:
        """Continue ``job.work`` in a later turn."""
        self._jobs[job] = None

    def wake_at(self, alarm: Alarm, monotonic: float) -> None:
        """Call ``alarm.wake`` at a time in monotonic seconds."""
        self._last_alarm += 1
        heapq.heappush(self._alarms, (monotonic, self._last_alarm, alarm))

    def next_alarm(self) -> float | None:
        """Return the time of the next call of ``wake``, in monotonic seconds, or None."""
        return self._alarms[0][0] if self._alarms else None

    def ring(self) -> None:
        """Call the due alarms, at most `MAX_RINGS` in a turn."""
        due: list[Alarm] = []
        while self._alarms and self._alarms[0][0] <= self.monotonic and len(due) < MAX_RINGS:
            due.append(heapq.heappop(self._alarms)[2])
        for alarm in due:
            alarm.wake()

    def complete_joins(self, destination: BrokerDestination) -> None:
        """Attach all pending consumers to ``destination`` before ``destination`` dispatches a message."""
        for join in self.joins:
            join.complete(destination)

    def load_of(self, destination: BrokerDestination) -> int:
        """Return the number of steps of one message to ``destination``, including pending joins."""
        load = destination.load
        if self.joins and not destination.name.is_queue:
            for join in self.joins:
                load += join.load_for(destination)
        return load

    def is_scheduled(self, job: Job) -> bool:
        """Return True if ``job.work`` continues in a later turn."""
        return job in self._jobs

    def has_jobs(self) -> bool:
        """Return True if a job continues in a later turn."""
        return len(self._jobs) > 0

    def job_count(self) -> int:
        """Return the number of jobs with more to do."""
        return len(self._jobs)

    def take_jobs(self, at_most: int) -> list[Job]:
        """Remove and return the jobs of this turn.

        The slice of an unfinished job schedules the job again, behind the other jobs.
        """
        jobs = list(islice(self._jobs, at_most))
        for job in jobs:
            del self._jobs[job]
        return jobs

    def is_behind(self) -> bool:
        """Return True if long work that makes dead letters must wait for the disk."""
        return self.dead_letter_handler is not None and self.dead_letter_handler.is_behind()

    def dead_letter(self, reference: MessageReference, cause: str) -> None:
        """Pass ``reference`` to the dead letter office, which removes the message as soon as a copy exists.

        Without an office the message is settled at once.
        """
        if self.dead_letter_handler is not None:
            self.dead_letter_handler.dead_letter(reference, cause)
        else:
            reference.destination.settle(reference, DISCARDED)
