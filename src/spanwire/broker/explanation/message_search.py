"""Finds a message by its id in all locations of a broker, in slices.

The caller calls `step` until the result is False, then reads the messages of `next_read` from the store. A search may
miss a moving message.
"""

from __future__ import annotations

from array import array
from typing import Final

from spanwire.broker.assembly import BrokerAssembly
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import Transaction
from spanwire.broker.connections.xa_branch import branch_destination
from spanwire.broker.dispatch.history.departures import Ring
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.exactly_once.cursor import Cursor
from spanwire.broker.explanation.locations import (
    ForSubscriber,
    Gone,
    Location,
    Out,
    Parked,
    Pending,
    Reserved,
    Scheduled,
    Transacted,
    WantedId,
    Withheld,
)
from spanwire.broker.queue.page import NOT_STORED, Page
from spanwire.broker.queue.queue import Queue
from spanwire.broker.scheduler.schedule import SCHEDULED_MESSAGES, Job
from spanwire.model.destination import Destination
from spanwire.model.message import Message

MAX_LOCATIONS: Final = 100  # locations told of one message; a topic may copy it to more subscriptions
MAX_READ: Final = 200_000  # messages read from the store for one question: about ten seconds
READ_MESSAGES: Final = 100  # messages of one read
READ_BYTES: Final = 4 * 1024 * 1024  # bytes of one read, unless one message is larger
ENTRIES_PER_STEP: Final = 2_000  # entries of a ring, or of a list, that one step compares


class Unread:
    """Stored messages of one destination, not yet searched: of a queue, a cursor, jobs or a branch."""

    def __init__(
        self,
        destination: Destination,
        sequences: array[int],
        ahead: int = 0,
        queue: Queue | None = None,
        cursor: Cursor | None = None,
        jobs: list[Job] | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[array[int]] = sequences
        self.ahead: Final[int] = ahead
        self.queue: Final[Queue | None] = queue
        self.cursor: Final[Cursor | None] = cursor
        self.jobs: Final[list[Job] | None] = jobs
        self.transaction: Final[Transaction | None] = transaction
        self.done = 0


class Read:
    """One read by the caller for the search: ``sequences`` of ``destination``."""

    def __init__(self, unread: Unread, start: int, sequences: list[int]) -> None:
        self.unread: Final[Unread] = unread
        self.start: Final[int] = start
        self.sequences: Final[list[int]] = sequences

    @property
    def destination(self) -> Destination:
        """The destination in the store."""
        return self.unread.destination


class MessageSearch:
    """The search for one message.

    ``queue`` limits the reads from the store to one queue, ``most_read`` to so many messages.
    """

    def __init__(
        self, parts: BrokerAssembly, wanted: WantedId, queue: Destination | None = None, most_read: int = MAX_READ
    ) -> None:
        self._most_read: Final[int] = most_read
        self._parts: Final[BrokerAssembly] = parts
        self._wanted: Final[WantedId] = wanted
        self._only: Final[Destination | None] = queue
        self.locations: Final[list[Location]] = []
        self.left_unread = 0  # messages in the store beyond `MAX_READ`
        self._read_count = 0
        self._unread: Final[list[Unread]] = []
        self._states: Final[list[ConnectionState]] = parts.connections.all()
        queues = [one for one in parts.map.all() if isinstance(one, Queue)]
        self._queues: Final[list[Queue]] = queues + [durable.queue for durable in parts.map.durables.values()]
        self._pages: list[Page] = []
        self._paged_queue: Queue | None = None
        self._ahead = 0
        self._rings: Final[list[Ring]] = [parts.context.departures.losses, parts.context.departures.unheard]
        self._entry = 0
        self._has_begun = False

    def step(self) -> bool:
        """Compare the next messages in memory. Return False if all are compared."""
        if not self._has_begun:
            self._has_begun = True
            self._look_at_others()
        elif self._pages and self._paged_queue is not None:
            self._look_at_page(self._paged_queue, self._pages.pop(0))
        elif self._states:
            self._look_at_connection(self._states.pop())
        elif self._queues:
            self._open(self._queues.pop())
        elif self._rings:
            self._look_at_ring()
        else:
            return False
        return len(self.locations) < MAX_LOCATIONS

    def next_read(self) -> Read | None:
        """Return the next read, None if memory alone answers the question."""
        if any(not isinstance(location, Gone) for location in self.locations):
            return None
        while self._unread:
            unread = self._unread[-1]
            start = unread.done
            rest = len(unread.sequences) - start
            if rest <= 0:
                self._unread.pop()
            elif self._read_count >= self._most_read:
                self.left_unread += rest
                self._unread.pop()
            else:
                return self._read(unread, start)
        return None

    def _read(self, unread: Unread, start: int) -> Read:
        sequences = list(unread.sequences[start : start + READ_MESSAGES])
        size = count = 0
        for one in self._parts.context.store_usage.sizes(unread.destination, sequences):
            if count > 0 and size + one > READ_BYTES:
                break
            size += one
            count += 1
        sequences = sequences[: max(1, count)]
        unread.done += len(sequences)
        self._read_count += len(sequences)
        return Read(unread, start, sequences)

    def take(self, read: Read, messages: list[Message | None]) -> None:
        """Take the messages of a read; None for one removed meanwhile."""
        for index, message in enumerate(messages):
            if message is not None and self._wanted.is_of(message):
                self._add_stored(read.unread, read.start + index, message)

    def _add_stored(self, unread: Unread, index: int, message: Message) -> None:
        if unread.cursor is not None:
            self._add(Reserved(message, unread.cursor, unread.cursor.reserved.first + index))
        elif unread.jobs is not None:
            self._add(Scheduled(message, unread.jobs[index]))
        elif unread.transaction is not None:
            is_send = unread.queue is None
            name = message.destination if is_send else unread.destination
            self._add(Transacted(message, unread.transaction, None, name, is_send))
        elif unread.queue is not None:
            reference = unread.queue.from_disk(message, unread.sequences[index])
            self._add(Pending(unread.queue, reference, unread.ahead + index, True))

    def _add(self, location: Location) -> None:
        if len(self.locations) < MAX_LOCATIONS:
            self.locations.append(location)

    def _look_at_others(self) -> None:
        """Look at messages on the way to the disk, and note messages in the store alone.

        The store alone has messages of jobs, cursors and prepared branches.
        """
        for entry in self._parts.replies.withheld():
            if self._wanted.is_of(entry.message):
                self._add(Withheld(entry.message, entry.destination))
        self._note_branches()
        self._note_cursors()
        self._note_jobs()

    def _note_jobs(self) -> None:
        scheduler = self._parts.scheduler
        if scheduler is None or self._only is not None:
            return
        producer = self._wanted.producer
        jobs: list[Job] = []
        for job in list(scheduler.schedule.jobs.values()):
            if job.message is not None:
                if self._wanted.is_of(job.message):
                    self._add(Scheduled(job.message, job))
            elif producer is None or job.job_id.startswith(str(producer)) or job.is_series:
                jobs.append(job)
        self._unread.append(Unread(SCHEDULED_MESSAGES, array("q", [job.sequence for job in jobs]), jobs=jobs))

    def _note_cursors(self) -> None:
        for cursor in self._parts.cursors.table.all():
            if self._concerns(cursor.destination):
                self._unread.append(Unread(cursor.destination, cursor.reserved.sequences[:], cursor=cursor))

    def _note_branches(self) -> None:
        for branch in self._parts.xa.prepared_branches():
            record = branch.record
            if not branch.on_disk or branch.loaded or record is None:
                self._look_at_transaction(branch, None)
                continue
            sends = array("q", record.sequences)
            self._unread.append(Unread(branch_destination(record.number), sends, transaction=branch))
            for held in record.acks:
                if held.queue is not None:
                    numbers = array("q", held.sequences)
                    self._unread.append(Unread(held.destination, numbers, 0, held.queue, transaction=branch))

    def _concerns(self, destination: Destination) -> bool:
        return self._only is None or destination == self._only

    def _look_at_connection(self, state: ConnectionState) -> None:
        wanted = self._wanted
        for ahead, parked in enumerate(state.parked):
            if wanted.is_of(parked.message):
                self._add(Parked(state, parked, ahead))
        transactions: list[Transaction] = [*state.transactions.values()]
        transactions.extend([branch for branch in state.branches.values() if not branch.prepared])
        for transaction in transactions:
            self._look_at_transaction(transaction, state)
        for subscription in list(state.consumers.values()):
            if not subscription.info.browser:
                self._look_at_consumer(state, subscription)

    def _look_at_consumer(self, state: ConnectionState, subscription: Subscription) -> None:
        for reference in subscription.in_flight.all_out():
            if self._wanted.is_of(reference.message):
                self._add(Out(state, subscription, reference))
        for ahead, reference in enumerate(subscription.pending):
            if self._wanted.is_of(reference.message):
                self._add(ForSubscriber(state, subscription, reference, ahead))

    def _look_at_transaction(self, transaction: Transaction, state: ConnectionState | None) -> None:
        for send in transaction.sends:
            if self._wanted.is_of(send.message):
                self._add(Transacted(send.message, transaction, state, send.destination.name, True))
        for ack in transaction.acks:
            for reference in ack.references:
                if self._wanted.is_of(reference.message):
                    name = reference.destination.name
                    self._add(Transacted(reference.message, transaction, state, name, False))

    def _open(self, queue: Queue) -> None:
        self._paged_queue = queue
        self._ahead = 0
        self._pages = []
        for pending_list in queue.pending.lists:
            if pending_list.count > 0:
                self._pages.extend(pending_list.snapshot(pending_list.count))

    def _look_at_page(self, queue: Queue, page: Page) -> None:
        ahead = self._ahead
        paged_out = page.paged_out
        if paged_out is not None:
            sequences = array("q")
            for index, number in enumerate(paged_out.numbers):
                if number == NOT_STORED:
                    self._compare(queue, paged_out.in_memory[index], ahead + len(sequences))
                elif number > 0:
                    sequences.append(number)
            if len(sequences) > 0 and self._concerns(queue.name):
                self._unread.append(Unread(queue.name, sequences, ahead, queue))
        for item in [*page.items, *page.returned]:
            if item is not None:
                self._compare(queue, item, ahead)
                ahead += 1
        self._ahead += page.live

    def _compare(self, queue: Queue, reference: MessageReference, ahead: int) -> None:
        if self._wanted.is_of(reference.message):
            self._add(Pending(queue, reference, ahead, False))

    def _look_at_ring(self) -> None:
        ring = self._rings[-1]
        entries = ring.latest_first(self._entry, self._entry + ENTRIES_PER_STEP)
        self._entry += ENTRIES_PER_STEP
        for departure in entries:
            if self._wanted.is_of_departure(departure):
                self._add(Gone(departure))
        if len(entries) < ENTRIES_PER_STEP:
            self._rings.pop()
            self._entry = 0
