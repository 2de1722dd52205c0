"""Begin, commit and rollback of local transactions, and the operations that branches share with them."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import (
    JOB_STEPS,
    ConnectionJob,
    LeavingConnections,
    SlicedWork,
)
from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.connections.transaction import LateCopies, LocalTransaction, TransactedAck, Transaction
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import MetadataRecord
from spanwire.broker.persistence.duplicate_ids import SendIdentity
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import PendingReply, WithheldMessage
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.persistence.unsynced_bytes import UnsyncedBytes
from spanwire.broker.ports import NO_TOKEN, UnitStore
from spanwire.broker.request_errors import LIMIT, ControlRefusal, refusal
from spanwire.broker.routing.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import ParkedSends, send_reply
from spanwire.broker.scheduler.schedule import Plans, Schedule, steps_of, stored_form
from spanwire.broker.transactions.commit_work import Commits, CommitWork, Run, TransactionWork, way_of
from spanwire.broker.transactions.staging_work import StagedCommits, StagingWork
from spanwire.broker.transactions.undo_work import UndoWork
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, TransactionError, xa_error
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

ALL_STEPS: Final = 1 << 40  # steps; more than any transaction has
XA_ROLLBACK_ONLY: Final = 100  # XAException.XA_RBROLLBACK, which Java clients read from the text of the error


class TransactionEnd(Protocol):
    """Keeps the tables of branches and consumers."""

    def on_committed(self, transaction: Transaction) -> None:
        """Note that the store has the whole transaction, as one unit."""
        ...

    def on_refused(self, transaction: Transaction) -> None:
        """Note that the transaction did not take effect."""
        ...

    def refill(self, subscription: Subscription) -> None:
        """Dispatch to a consumer that can take more, unless the consumer was removed."""
        ...


class LocalTransactions(Commits, StagedCommits):
    """Carries out gathered transactions: one unit in the store, then dispatch once the unit is safe."""

    def __init__(
        self,
        context: BrokerContext,
        router: MessageRouter,
        destinations: Destinations,
        dead_letters: DeadLetters,
        unsynced: UnsyncedBytes,
        audit: ProducerAudit,
        parked: ParkedSends,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._router: Final[MessageRouter] = router
        self._destinations: Final[Destinations] = destinations
        self._dead_letters: Final[DeadLetters] = dead_letters
        self._unsynced: Final[UnsyncedBytes] = unsynced
        self._audit: Final[ProducerAudit] = audit
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self.late_copies: Final[LateCopies] = LateCopies()
        self.end: TransactionEnd | None = None
        self.owner: LeavingConnections | None = None

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Open a transaction; an open transaction stays unchanged."""
        key = str(transaction_id)
        if transaction_id.connection_id != state.connection_id:
            raise AuthorizationError(f"transaction {key} belongs to another connection")
        if key in state.transactions:
            return
        if len(state.transactions) >= MAX_TRANSACTIONS_PER_CONNECTION:
            raise ResourceAllocationError(
                f"Can't begin a transaction on connection {state.connection_id}: "
                f"at maximum limit: {MAX_TRANSACTIONS_PER_CONNECTION}"
            )
        repeated = self.was_committed(state, transaction_id)
        transaction = state.transactions[key] = LocalTransaction(transaction_id, state.uncommitted, repeated)
        transaction.began_ms = self._context.wall_ms

    def was_committed(self, state: ConnectionState, transaction_id: TransactionId) -> bool:
        """Return True if a client repeats, after a reconnect, a transaction that took effect before."""
        return state.repeats and self._audit.was_committed(transaction_id)

    def find(self, state: ConnectionState, transaction_id: TransactionId) -> LocalTransaction:
        """Return the open transaction of this id.

        Raises:
            TransactionError: there is no such transaction.
        """
        transaction = state.transactions.get(str(transaction_id))
        if transaction is None:
            raise TransactionError(f"Transaction '{transaction_id}' has not been started.")
        return transaction

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int) -> bool:
        """Make a transaction take effect. Messages are dispatched once they are safe.

        Returns:
            True if the commit can be answered now. A repeated commit is only answered.

        Raises:
            JmsError: the transaction cannot take effect, and is rolled back.
        """
        if str(transaction_id) not in state.transactions and self.was_committed(state, transaction_id):
            return self._router.answer_when_stored(state, token)
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        if transaction.is_repeated:
            return self._router.answer_when_stored(state, token)
        return self.finish(state, transaction, token)

    def finish(self, state: ConnectionState, transaction: Transaction, token: int) -> bool:
        """Carry out a gathered ``transaction``, with the same result as `commit`.

        A transaction too large for one turn is answered later.

        Raises:
            JmsError: the transaction is rolled back or, if prepared, stays unchanged.
        """
        stager = transaction.stager
        work: TransactionWork
        try:
            if stager is None:
                work = CommitWork(self, state, transaction, token, self._context.newest_durable)
                check_refusal(transaction)
            else:
                work = StagingWork(self, state, transaction, stager, token)
                check_staged(transaction)
            while work.size <= JOB_STEPS and work.steps <= JOB_STEPS:
                if work.go_on(ALL_STEPS):
                    if stager is not None:
                        self._parked.unpark()  # no message is delivered, and all have left memory
                    return work.is_answered
        except JmsError as error:
            if work.refuse(error) is not None:
                self.undo(state, [transaction])
                self._parked.unpark()
            raise
        work.is_sliced = True
        self.run(state, work)
        return token == NO_TOKEN

    def run(self, state: ConnectionState, work: SlicedWork) -> None:
        """Do ``work`` in slices, after earlier work of the connection.

        Further requests of the connection wait.
        """
        job = state.job
        if not isinstance(job, ConnectionJob):
            assert self.owner is not None
            job = ConnectionJob(state, self._context, self.owner)
            state.job = job
        job.add(work)

    def stage(self, work: StagingWork) -> None:
        """Hand the messages to the store and answer; see `StagedCommits.stage`.

        A client may repeat the commit after a reconnect.
        """
        transaction = work.transaction
        state = work.state
        known = transaction if isinstance(transaction, LocalTransaction) and state.info.fault_tolerant else None
        metadata = [] if known is None else self._audit.note_commit(known.transaction_id)
        try:
            work.stager.keep(transaction, metadata)
        except JmsError:
            if known is not None:
                self._audit.withdrawn(known.transaction_id)
            raise
        self._end().on_committed(transaction)
        work.is_answered = self._router.answer_when_stored(state, work.token)
        if work.is_sliced and work.is_answered:
            send_reply(state, work.token, None)

    def staging_refused(self, work: StagingWork, error: JmsError) -> SlicedWork:
        """Report a commit without effect; see `StagedCommits.staging_refused`."""
        work.stager.drop()
        self._end().on_refused(work.transaction)
        if work.is_sliced:
            send_reply(work.state, work.token, error)
        return UndoWork([work.transaction], self._context)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Forget the sends; acknowledged messages stay with their consumers."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        self.undo(state, [transaction])
        self._parked.unpark()

    def undo(self, state: ConnectionState, transactions: list[Transaction]) -> None:
        """Return acknowledged messages to their consumers and forget the sends, in slices if there are many."""
        work = UndoWork(transactions, self._context)
        if size_of(transactions) > JOB_STEPS:
            self.run(state, work)
            return
        while not work.go_on(ALL_STEPS):
            pass

    def current_destination(self, work: CommitWork, destination: BrokerDestination) -> BrokerDestination | None:
        """Return the current destination; see `Commits.current_destination`."""
        name = destination.name
        if name.is_temporary or name.kind == SUBSCRIPTION:
            return None
        if work.transaction.prepared:
            return self._destinations.ensure_own(name)  # allowed and promised by the prepare
        return self._destinations.ensure(work.state, name)

    def is_accepted(self, identity: SendIdentity) -> bool:
        """Return True if the destination has accepted the duplicate id; see `Commits.is_accepted`."""
        return self._audit.ids.holds(identity)

    def add_late_copies(self, transaction: Transaction, index: int, topic: BrokerDestination, until: int) -> int:
        """Add copies for later durable subscriptions; see `Commits.add_late_copies`."""
        return transaction.add_late_copies(index, topic, until, self.late_copies)

    def check_send(self, work: CommitWork, destination: BrokerDestination, message: Message) -> None:
        """Check the room for a message, unless the transaction is prepared; see `Commits.check_send`."""
        if not work.transaction.prepared:
            self._flow.check_commit(destination, message)

    def is_stored(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True if the message goes to the store; see `Commits.is_stored`."""
        return self._context.store is not None and destination.persists(message)

    def plan(self, work: CommitWork, schedule: Schedule, message: Message) -> WithheldMessage:
        """Plan a scheduled message; see `Commits.plan`."""
        plans = work.plans
        if plans is None:
            sender = work.transaction.sender
            plans = Plans(schedule, sender if sender is not None else work.state.principal)
            work.plans = plans
        job = plans.plan(message, self._context.wall_ms)
        work.steps += steps_of(job) - 1
        if self._context.store is not None:
            work.unit.add_metadata(job.metadata_record(job.due_ms, job.repeat))
        return WithheldMessage(plans, stored_form(message, job.number), 0)

    def letters_of(self, ack: TransactedAck, reference: MessageReference) -> list[WithheldMessage]:
        """Return the dead letters of a message; see `Commits.letters_of`."""
        if not reference.destination.leaves_dead_letters:
            return []
        letters = self._dead_letters.letters(reference, cause_of(ack))
        if letters:
            ack.dead_lettered[reference] = None
        return letters

    def hand_over(self, work: CommitWork) -> None:
        """Hand the unit to the store; see `Commits.hand_over`."""
        state = work.state
        self._store(state, work)
        for run in work.runs:
            state.audited = self._audit.stored_run(state.audited, run.first, run.count)
        for identity in work.identities.values():  # a fraction of a microsecond each
            self._audit.ids.note(identity)
        for identity, message in work.duplicates.items():
            self._router.identified.drop(identity, message, state.connection_id)
        is_behind = False
        for destination, count in work.destinations.items():
            is_behind = is_behind or destination.withheld > 0
            destination.withheld += count
        self._end().on_committed(work.transaction)
        store = self._context.store
        if store is not None and (work.is_stored or is_behind):
            self._router.expect(reply_for(work, store.position(), work.token))
            work.is_answered = work.token == NO_TOKEN

    def _store(self, state: ConnectionState, work: CommitWork) -> None:
        """Hand the transaction to the store as one unit, unless no part goes to the store."""
        transaction = work.transaction
        if self._context.store is None or (work.unit.is_empty() and not transaction.metadata):
            return
        known = transaction if isinstance(transaction, LocalTransaction) and state.info.fault_tolerant else None
        metadata = transaction.metadata if known is None else self._audit.note_commit(known.transaction_id)
        try:
            take_unit(self._context.units, work.unit, metadata)
        except JmsError:
            if known is not None:
                self._audit.withdrawn(known.transaction_id)
            raise
        work.is_stored = True
        self._unsynced.add(work.stored_bytes)

    def settle(self, ack: TransactedAck, reference: MessageReference) -> None:
        """Forget an acknowledged message; see `Commits.settle`."""
        destination = reference.destination
        if ack.ack_type == EXPIRED_ACK:
            destination.expired += 1
        destination.forget(reference, way_of(ack, reference))
        if ack.ack_type in (POISON_ACK, EXPIRED_ACK) and destination.leaves_dead_letters:
            self._dead_letters.publish_committed(reference, cause_of(ack), reference in ack.dead_lettered)

    def hand_on(self, work: CommitWork) -> None:
        """Dispatch and answer; see `Commits.hand_on`."""
        token = work.token if work.is_sliced and work.is_answered else NO_TOKEN
        if work.messages or token != NO_TOKEN:
            self._router.deferred.take(reply_for(work, 0, token))

    def refill(self, subscription: Subscription) -> None:
        """Dispatch to a consumer; see `Commits.refill`."""
        self._end().refill(subscription)

    def on_ended(self, work: CommitWork) -> None:
        """Free the memory and let waiting sends continue; see `Commits.on_ended`."""
        work.transaction.end_count()
        self._parked.unpark()

    def on_refused(self, work: CommitWork, error: JmsError) -> SlicedWork | None:
        """Report a commit without effect; see `Commits.on_refused`."""
        transaction = work.transaction
        self._end().on_refused(transaction)
        if work.is_sliced:
            send_reply(work.state, work.token, error)
        return None if transaction.prepared else UndoWork([transaction], self._context)

    def _end(self) -> TransactionEnd:
        assert self.end is not None
        return self.end

    def note_prepared(self, size: int, runs: list[Run]) -> None:
        """Count the bytes of a prepared branch in the store, and note messages that a client may send again."""
        self._unsynced.add(size)
        for run in runs:
            self._audit.stored_run(None, run.first, run.count)


def reply_for(work: CommitWork, position: int, token: int) -> PendingReply:
    """Return the pending reply to a commit, which takes over the messages of ``work``."""
    reply = PendingReply(position, work.state.output, token, work.messages)
    reply.destinations = list(work.destinations)
    work.messages = []
    return reply


def size_of(transactions: list[Transaction]) -> int:
    """Return the size of all ``transactions`` together."""
    return sum([transaction.size for transaction in transactions])


def cause_of(ack: TransactedAck) -> str:
    """Return the reason for which the consumer gave up the messages."""
    return EXPIRED if ack.ack_type == EXPIRED_ACK else ack.cause


def take_unit(store: UnitStore, unit: StoreUnit, metadata: list[MetadataRecord]) -> None:
    """Hand a unit to the store.

    A small unit shares a batch with other units, a large unit has a batch of its own, and so has one that removes
    messages by several ways out of the ledger.
    """
    if unit.size > JOB_STEPS or (unit.has_deaths and not unit.transfers):
        store.append_gathered(unit, metadata)
    elif unit.transfers:
        transfers = [transfer.transfer() for transfer in unit.transfers]
        unit.take_transferred(store.transfer_unit(transfers, unit.removed(), metadata + unit.metadata))
    else:
        unit.take(store.append_unit(unit.additions(), unit.removed(), metadata + unit.metadata))


def check_staged(transaction: Transaction) -> None:
    """Check that no message of a part was refused.

    Raises:
        JmsError: the reason of the refusal; the program must change something.
    """
    refused = transaction.refusal
    if isinstance(refused, ResourceAllocationError):
        raise refusal(LIMIT, f"{refused}; make smaller batches")
    if refused is not None:
        raise refused


def check_refusal(transaction: Transaction) -> None:
    """Check that no message or acknowledgement of a transaction was refused.

    Raises:
        XaError: the transaction can only be rolled back.
        ControlRefusal: the refused request was a request to the control destination.
    """
    if isinstance(transaction.refusal, ControlRefusal):
        raise transaction.refusal  # the text says what to do
    if transaction.refusal is not None:
        raise xa_error("COMMIT FAILED: Transaction marked rollback only", XA_ROLLBACK_ONLY)
