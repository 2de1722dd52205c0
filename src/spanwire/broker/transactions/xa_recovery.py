"""Prepared branches after a restart of the broker, and the reads that complete them.

The messages of a branch stay on the disk until the branch is finished. A commit reads the sends, a rollback reads the
acknowledged messages.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.connections.transaction import TransactedAck, TransactedSend, Uncommitted
from spanwire.broker.connections.xa_branch import (
    Branch,
    BranchRecord,
    StoredAcks,
    branch_destination,
    decode_record,
    without,
)
from spanwire.broker.destinations.destination_map import DestinationMap
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import NEWEST, BrokerDestination
from spanwire.broker.dispatch.jobs import StoreReader
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.metadata import XA_BRANCHES, MetadataRecord
from spanwire.broker.persistence.recovered import Expirations, RecoveredDestination
from spanwire.broker.queue.queue import Queue
from spanwire.broker.scheduler.scheduler import Scheduler
from spanwire.model.acks import STANDARD_ACK
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, TRANSACTION, Destination
from spanwire.model.errors import JmsError, StoreError, xa_error
from spanwire.model.ids import xa_transaction_id
from spanwire.model.message import Message

COMMIT: Final = 0
ROLLBACK: Final = 1
PAGE_MESSAGES: Final = 500  # messages of one read, as in a queue's pending list
XAER_RMERR: Final = -3

logger = logging.getLogger(__name__)


class Finisher(Protocol):
    """Continues once a branch has been read."""

    def finish_loaded(self, branch: Branch, step: int, state: ConnectionState, token: int) -> None:
        """Commit or roll back, and answer."""
        ...


class Page:
    """A future read of some messages of one destination."""

    __slots__ = ("destination", "sequences")

    def __init__(self, destination: Destination, sequences: list[int]) -> None:
        self.destination: Final[Destination] = destination
        self.sequences: Final[list[int]] = sequences


class BranchReader(StoreReader):
    """Reads page after page for one step of one branch."""

    def __init__(
        self, owner: RecoveredBranches, branch: Branch, step: int, state: ConnectionState, token: int, pages: list[Page]
    ) -> None:
        self.branch: Final[Branch] = branch
        self.step: Final[int] = step
        self.state: Final[ConnectionState] = state
        self.token: Final[int] = token
        self.messages: Final[list[Message | None]] = []
        self._owner: Final[RecoveredBranches] = owner
        self._pages: Final[list[Page]] = pages
        self._next = 0

    def ask(self, context: BrokerContext) -> bool:
        """Request the next page. Return False if there is no further page."""
        if self._next == len(self._pages):
            return False
        page = self._pages[self._next]
        self._next += 1
        context.fetch(self, page.destination, page.sequences)
        return True

    def on_fetched(self, request: int, messages: list[Message | None]) -> None:
        """Take a page from the store."""
        self.messages.extend(messages)
        self._owner.go_on(self)


class RecoveredBranches:
    """Prepared branches of an earlier run of the broker.

    The numbers of the branches' staging destinations are here as well.
    """

    def __init__(
        self,
        context: BrokerContext,
        destination_map: DestinationMap,
        destinations: Destinations,
        scheduler: Scheduler | None,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._map: Final[DestinationMap] = destination_map
        self._destinations: Final[Destinations] = destinations
        self._scheduler: Final[Scheduler | None] = scheduler
        self.finisher: Finisher | None = None
        self._held: Final[dict[str, list[StoredAcks]]] = {}
        self._records: Final[dict[str, BranchRecord]] = {}  # by staging destination, while the broker starts
        self._aside: Final[set[str]] = set()
        self._unused: Final[list[int]] = []  # numbers, while the broker starts
        self._free: Final[list[int]] = []
        self._numbers = 0

    def take_number(self) -> int:
        """Return the number of an unused staging destination.

        Numbers are used again: the store never forgets a destination.
        """
        if self._free:
            return self._free.pop()
        self._numbers += 1
        while branch_destination(self._numbers - 1).qualified_name in self._aside:
            self._numbers += 1
        return self._numbers - 1

    def free_number(self, number: int) -> None:
        """Release the number of an empty staging destination."""
        self._free.append(number)

    def recover(self, metadata: dict[bytes, bytes], prepared: Uncommitted) -> list[Branch]:
        """Return the branches that the store describes."""
        branches: list[Branch] = []
        used: set[int] = set()
        for key, value in metadata.items():
            record = decode_record(value)
            if record.until != NEWEST:
                self._context.newest_durable = max(self._context.newest_durable, record.until)
            used.add(record.number)
            branches.append(self._branch(key, record, prepared))
        self._numbers = max(used, default=-1) + 1
        self._unused.extend([number for number in range(self._numbers) if number not in used])
        return branches

    def _branch(self, key: bytes, record: BranchRecord, prepared: Uncommitted) -> Branch:
        try:
            xid = xa_transaction_id(key)
        except ValueError:
            raise StoreError(
                "a prepared transaction in the store has no id: stop the broker and run spanwire store check"
            ) from None
        branch = Branch(xid, prepared, "")
        branch.record = record
        branch.sender = record.sender
        branch.prepared = True
        branch.on_disk = True
        branch.count = len(record.sends)
        branch.metadata = [MetadataRecord(XA_BRANCHES, key, None)]
        self._records[branch_destination(record.number).qualified_name] = record
        for acks in record.acks:
            branch.count += len(acks.sequences)
            self._held.setdefault(acks.destination.qualified_name, []).append(acks)
        prepared.count += branch.count
        return branch

    def leave(self, entry: RecoveredDestination) -> RecoveredDestination | None:
        """Return ``entry`` without messages acknowledged by prepared branches.

        Returns None for a staging destination of branches.
        """
        name = entry.destination.qualified_name
        if entry.destination.kind == TRANSACTION:
            record = self._records.get(name)
            if record is not None:
                record.sequences = list(entry.sequences)
            elif entry.sequences:
                self._set_aside(entry)
            return None
        held = self._held.get(name)
        if held is None:
            return entry
        there = set(entry.sequences)
        gone: set[int] = set()
        for acks in held:
            acks.sequences = [sequence for sequence in acks.sequences if sequence in there]
            gone.update(acks.sequences)
            acks.first_order = self._context.reserve_orders(len(acks.sequences))
            for sequence in acks.sequences:
                if sequence in entry.redeliveries:
                    acks.redeliveries[sequence] = entry.redeliveries[sequence]
        expirations = Expirations(entry.expirations.sequences, entry.expirations.wall_ms)
        return RecoveredDestination(
            entry.destination, without(entry.sequences, gone), entry.redeliveries, entry.priorities, expirations
        )

    def _set_aside(self, entry: RecoveredDestination) -> None:
        """Keep staged messages without a description: the store was damaged.

        No branch uses the staging destination again.
        """
        logger.error(
            "%s holds %d messages of a prepared transaction that nothing describes; they stay in the store: stop the "
            "broker and run spanwire store check",
            entry.destination,
            len(entry.sequences),
        )
        self._aside.add(entry.destination.qualified_name)

    def count_held(self) -> None:
        """Count messages acknowledged by branches as in flight, once all queues exist."""
        for held in self._held.values():
            for acks in held:
                acks.queue = self._find_queue(acks.destination)
                if acks.queue is not None:
                    acks.queue.in_flight += len(acks.sequences)
        self._held.clear()
        self._records.clear()
        self._free.extend(
            [number for number in self._unused if branch_destination(number).qualified_name not in self._aside]
        )
        self._unused.clear()

    def _find_queue(self, destination: Destination) -> Queue | None:
        if destination.kind == SUBSCRIPTION:
            durable = self._map.durables.get(destination.name)
            return None if durable is None else durable.queue
        return self._map.queue(destination)

    def load(self, branch: Branch, step: int, state: ConnectionState, token: int) -> bool:
        """Read the messages for a step of a branch.

        Returns:
            False while the read is under way; `Finisher.finish_loaded` follows.
        """
        pages: list[Page] = []
        record = branch.record
        assert record is not None
        if step == COMMIT and not branch.loaded:
            if not record.sequences:
                self._take_sends(branch, [])
            _add_pages(pages, branch_destination(record.number), record.sequences)
        elif step == ROLLBACK:
            for acks in record.acks:
                _add_pages(pages, acks.destination, acks.sequences)
        if not BranchReader(self, branch, step, state, token, pages).ask(self._context):
            self._add_removals(branch, step)
            return True
        branch.finishing = True
        return False

    def go_on(self, reader: BranchReader) -> None:
        """Continue after the arrival of a page."""
        if reader.ask(self._context):
            return
        branch = reader.branch
        try:
            if reader.step == COMMIT:
                self._take_sends(branch, reader.messages)
            else:
                self._take_acks(branch, reader.messages)
        except JmsError as error:
            branch.finishing = False
            reader.state.output.connection.on_completed(reader.token, error)
            reader.state.output.mark_dirty()
            return
        self._add_removals(branch, reader.step)
        assert self.finisher is not None
        self.finisher.finish_loaded(branch, reader.step, reader.state, reader.token)

    def _add_removals(self, branch: Branch, step: int) -> None:
        """Add the removals of the branch; a commit also removes acknowledged messages."""
        record = branch.record
        assert record is not None
        branch.removals = record.removals()
        if step == COMMIT:
            for acks in record.acks:
                branch.removals.extend([(acks.destination, sequence) for sequence in acks.sequences])

    def _take_sends(self, branch: Branch, messages: list[Message | None]) -> None:
        record = branch.record
        assert record is not None
        sent = [message for message in messages if message is not None]
        if len(sent) != len(record.sends):
            raise xa_error(
                f"{len(record.sends) - len(sent)} of {len(record.sends)} messages of transaction {branch.xid} cannot "
                f"be read; roll it back, or stop the broker and run spanwire store check",
                XAER_RMERR,
            )
        sends: list[TransactedSend] = []
        for name, message in zip(record.sends, sent, strict=True):
            destination = self._target(branch, name, record.until)
            if destination is not None:
                send = TransactedSend(destination, message, destination.usage)
                send.served = record.until
                sends.append(send)
        branch.sends.extend(sends)  # behind the sends counted in memory
        branch.loaded = True

    def _target(self, branch: Branch, name: Destination, until: int) -> BrokerDestination | None:
        """Return the destination of a staged message.

        Returns None if the destination was removed with all its messages. So was a durable subscription whose name has
        a number above ``until`` now.
        """
        if name.kind == SCHEDULE:
            if self._scheduler is None:
                raise xa_error(
                    f"transaction {branch.xid} schedules messages, and this broker has no scheduler; roll it back, or "
                    f"start the broker with schedulerSupport",
                    XAER_RMERR,
                )
            return self._scheduler.schedule
        if name.kind == SUBSCRIPTION:
            durable = self._map.durables.get(name.name)
            return None if durable is None or durable.number > until else durable.queue
        return self._destinations.ensure_own(name)

    def _take_acks(self, branch: Branch, messages: list[Message | None]) -> None:
        record = branch.record
        assert record is not None
        index = 0
        for acks in record.acks:
            acknowledged = messages[index : index + len(acks.sequences)]
            index += len(acks.sequences)
            queue = acks.queue
            if queue is None or queue.removed:
                continue
            references: list[MessageReference] = []
            for message_index, message in enumerate(acknowledged):
                sequence = acks.sequences[message_index]
                if message is None:
                    logger.error("message %d of %s is missing in the store; it is skipped", sequence, acks.destination)
                    if sequence not in acks.missing:
                        acks.missing.add(sequence)
                        queue.in_flight -= 1
                    continue
                queue.hold(message)
                count = acks.redeliveries.get(sequence, 0)
                references.append(MessageReference(queue, message, sequence, acks.first_order + message_index, count))
            branch.acks.append(TransactedAck(None, references, STANDARD_ACK, 0, None, ""))

    def forget_acks(self, branch: Branch) -> None:
        """Forget the messages that were read for a refused rollback: the next attempt reads them again."""
        remaining: list[TransactedAck] = []
        for ack in branch.acks:
            if ack.subscription is None:
                for reference in ack.references:
                    reference.destination.release(reference.message)
            else:
                remaining.append(ack)
        branch.acks.clear()
        branch.acks.extend(remaining)

    def on_committed(self, branch: Branch) -> None:
        """Count the messages acknowledged by a committed branch as dequeued."""
        record = branch.record
        assert record is not None
        for acks in record.acks:
            queue = acks.queue
            if queue is not None:
                queue.in_flight -= len(acks.sequences) - len(acks.missing)
                queue.dequeued += len(acks.sequences)


def _add_pages(pages: list[Page], destination: Destination, sequences: list[int]) -> None:
    for start in range(0, len(sequences), PAGE_MESSAGES):
        pages.append(Page(destination, sequences[start : start + PAGE_MESSAGES]))
