"""Beginning, committing and rolling back local transactions, and what branches have in common with them."""

from __future__ import annotations

from typing import Final, Protocol

from spanwire.broker.connections.connection_job import (
    JOB_STEPS,
    ConnectionJob,
    LeavingConnections,
    SlicedWork,
)
from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.connections.transaction import LocalTransaction, Stager, TransactedAck, TransactedSend, Transaction
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import Fact
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import Waiting, WithheldMessage
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.broker.persistence.unsynced_bytes import Unstored
from spanwire.broker.ports import NO_TOKEN, MessageStore, Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import LIMIT, ControlRefusal, refusal
from spanwire.broker.routing.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.routing.flow_control import FlowControl, tell
from spanwire.broker.routing.message_router import Sending
from spanwire.broker.scheduler.schedule import Plans
from spanwire.broker.transactions.commit_work import Commits, CommitWork, Run
from spanwire.broker.transactions.undo_work import UndoWork
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import SUBSCRIPTION
from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, TransactionError, xa_error
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

ALL_STEPS: Final = 1 << 40  # more than any transaction has
XA_ROLLBACK_ONLY: Final = 100  # XAException.XA_RBROLLBACK, which Java clients read from the text of the error


class TransactionEnd(Protocol):
    """Whoever keeps book of branches and consumers."""

    def taken(self, transaction: Transaction) -> None:
        """The store has all of it, as one unit."""
        ...

    def refused(self, transaction: Transaction) -> None:
        """It did not take effect."""
        ...

    def refill(self, subscription: Subscription) -> None:
        """A consumer, unless it is gone, can take more."""
        ...


class Committing(Commits):
    """Carries out what transactions gathered: one unit in the store, then dispatch once that is safe."""

    def __init__(
        self,
        context: BrokerContext,
        sending: Sending,
        destinations: Destinations,
        dead_letters: DeadLetters,
        unstored: Unstored,
        audit: ProducerAudit,
        flow: FlowControl,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._sending: Final[Sending] = sending
        self._destinations: Final[Destinations] = destinations
        self._dead_letters: Final[DeadLetters] = dead_letters
        self._unstored: Final[Unstored] = unstored
        self._audit: Final[ProducerAudit] = audit
        self._flow: Final[FlowControl] = flow
        self.end: TransactionEnd | None = None
        self.owner: LeavingConnections | None = None

    def begin(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Open a transaction; one that is open already stays as it is."""
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
        state.transactions[key] = LocalTransaction(transaction_id, state.uncommitted, repeated)

    def was_committed(self, state: ConnectionState, transaction_id: TransactionId) -> bool:
        """Whether a client that reconnected had this transaction committed before."""
        return state.repeats and self._audit.was_committed(transaction_id)

    def find(self, state: ConnectionState, transaction_id: TransactionId) -> LocalTransaction:
        """The open transaction of this id; raises `TransactionError` when there is none."""
        found = state.transactions.get(str(transaction_id))
        if found is None:
            raise TransactionError(f"Transaction '{transaction_id}' has not been started.")
        return found

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int) -> bool:
        """Make it all take effect; True when it can be answered now. Its messages are dispatched once they are safe.

        Raises `JmsError` when it cannot take effect; it is rolled back then. One that took effect before is answered.
        """
        if str(transaction_id) not in state.transactions and self.was_committed(state, transaction_id):
            return self._sending.answer_when_stored(state, token)
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        if transaction.is_repeated:
            return self._sending.answer_when_stored(state, token)
        return self.finish(state, transaction, token)

    def finish(self, state: ConnectionState, transaction: Transaction, token: int) -> bool:
        """Carry out what ``transaction`` gathered; the answer is as with `commit`.

        Raises `JmsError` when that cannot be: then it is rolled back, or, being prepared, left as it was. What is too
        large for one turn is answered later.
        """
        if transaction.stager is not None:
            return self._stage(state, transaction, transaction.stager, token)
        work = CommitWork(self, state, transaction, token)
        try:
            check_refusal(transaction)
            if transaction.size <= JOB_STEPS:
                while not work.go_on(ALL_STEPS):
                    pass
                return work.is_answered
        except JmsError as error:
            if work.refuse(error) is not None:
                self.undo(state, [transaction])
            raise
        work.is_sliced = True
        self.run(state, work)
        return token == NO_TOKEN

    def run(self, state: ConnectionState, work: SlicedWork) -> None:
        """Do ``work`` in slices, behind what is under way for the connection; its other requests wait for that."""
        job = state.job
        if not isinstance(job, ConnectionJob):
            assert self.owner is not None
            job = ConnectionJob(state, self._context, self.owner)
            state.job = job
        job.add(work)

    def _stage(self, state: ConnectionState, transaction: Transaction, stager: Stager, token: int) -> bool:
        """Its sends are kept for a batch (`spanwire.broker.exactly_once.sinks`); a client that reconnects may ask
        for that again.
        """
        known = transaction if isinstance(transaction, LocalTransaction) and state.info.fault_tolerant else None
        try:
            check_staged(transaction)
            facts = [] if known is None else self._audit.committed(known.transaction_id)
            try:
                stager.keep(transaction, facts)
            except JmsError:
                if known is not None:
                    self._audit.withdrawn(known.transaction_id)
                raise
        except JmsError:
            self._end().refused(transaction)
            self.undo(state, [transaction])
            raise
        self._end().taken(transaction)
        transaction.forget(len(transaction.sends))
        transaction.end_count()
        return self._sending.answer_when_stored(state, token)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Forget the sends; the acknowledged messages are still with their consumers."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        self.undo(state, [transaction])

    def undo(self, state: ConnectionState, transactions: list[Transaction]) -> None:
        """Put back what ``transactions`` acknowledged and forget what they sent, in slices if it is much."""
        work = UndoWork(transactions, self._context)
        if size_of(transactions) > JOB_STEPS:
            self.run(state, work)
            return
        while not work.go_on(ALL_STEPS):
            pass

    def home_now(self, work: CommitWork, home: BrokerDestination) -> BrokerDestination | None:
        """See `Commits.home_now`."""
        destination = home.destination
        if destination.is_temporary or destination.kind == SUBSCRIPTION:
            return None
        if work.transaction.prepared:
            return self._destinations.ensure_own(destination)  # it was allowed, and is promised
        return self._destinations.ensure(work.state, destination)

    def check_send(self, work: CommitWork, home: BrokerDestination, message: Message) -> None:
        """See `Commits.check_send`."""
        if not work.transaction.prepared:
            self._flow.check_commit(home, message)

    def is_stored(self, home: BrokerDestination, message: Message) -> bool:
        """See `Commits.is_stored`."""
        return self._sending.is_stored(home, message)

    def letters_of(self, ack: TransactedAck, reference: MessageReference) -> list[WithheldMessage]:
        """See `Commits.letters_of`."""
        if not isinstance(reference.home, Queue):
            return []
        letters = self._dead_letters.letters(reference, cause_of(ack))
        if letters:
            ack.kept[reference] = None
        return letters

    def hand_over(self, work: CommitWork) -> None:
        """See `Commits.hand_over`."""
        state = work.state
        self._store(state, work)
        for run in work.runs:
            state.audited = self._audit.stored_run(state.audited, run.first, run.count)
        is_behind = False
        for home, count in work.homes.items():
            is_behind = is_behind or home.withheld > 0
            home.withheld += count
        self._end().taken(work.transaction)
        store = self._context.store
        if store is not None and (work.is_stored or is_behind):
            self._sending.expect(waiting_for(work, store.position(), work.token))
            work.is_answered = work.token == NO_TOKEN

    def _store(self, state: ConnectionState, work: CommitWork) -> None:
        """Hand it to the store as one unit, if any of it concerns the store."""
        transaction = work.transaction
        plans = self.plans(transaction, work.scheduled, state.principal)
        lines = [work.unit.add(line, message) for line, message in plans.additions()]
        store = self._context.store
        if store is None or (work.unit.is_empty() and not transaction.facts):
            plans.enter([])
            return
        known = transaction if isinstance(transaction, LocalTransaction) and state.info.fault_tolerant else None
        facts = transaction.facts if known is None else self._audit.committed(known.transaction_id)
        try:
            take_unit(store, work.unit, facts + plans.facts())
        except JmsError:
            if known is not None:
                self._audit.withdrawn(known.transaction_id)
            raise
        work.is_stored = True
        first = lines[0].first + lines[0].count - len(lines) if lines else 0
        plans.enter(list(range(first, first + len(lines))))
        self._unstored.add(work.stored_bytes + plans.size())

    def settle(self, ack: TransactedAck, reference: MessageReference) -> None:
        """See `Commits.settle`."""
        home = reference.home
        if ack.ack_type == EXPIRED_ACK:
            home.expired += 1
        home.forgotten(reference)
        if ack.ack_type in (POISON_ACK, EXPIRED_ACK) and isinstance(home, Queue):
            self._dead_letters.tell_committed(reference, cause_of(ack), reference in ack.kept)

    def hand_on(self, work: CommitWork) -> None:
        """See `Commits.hand_on`."""
        token = work.token if work.is_sliced and work.is_answered else NO_TOKEN
        if work.messages or token != NO_TOKEN:
            self._sending.deferred.take(waiting_for(work, 0, token))

    def refill(self, subscription: Subscription) -> None:
        """See `Commits.refill`."""
        self._end().refill(subscription)

    def ended(self, work: CommitWork) -> None:
        """See `Commits.ended`."""
        work.transaction.end_count()
        self._flow.unpark()

    def refused(self, work: CommitWork, error: JmsError) -> SlicedWork | None:
        """See `Commits.refused`."""
        transaction = work.transaction
        self._end().refused(transaction)
        if work.is_sliced:
            tell(work.state, work.token, error)
        return None if transaction.prepared else UndoWork([transaction], self._context)

    def _end(self) -> TransactionEnd:
        assert self.end is not None
        return self.end

    def plans(self, transaction: Transaction, scheduled: list[TransactedSend], principal: Principal) -> Plans:
        """The scheduled messages of ``transaction`` as jobs of who sent them, by default ``principal``. Raises as
        `Schedule.plan`.
        """
        sender = transaction.sender if transaction.sender is not None else principal
        return Plans(scheduled, sender, self._context.wall_ms)

    def kept(self, size: int, runs: list[Run]) -> None:
        """The store took so many bytes of a prepared branch: a client that reconnects may send it again."""
        self._unstored.add(size)
        for run in runs:
            self._audit.stored_run(None, run.first, run.count)


def waiting_for(work: CommitWork, position: int, token: int) -> Waiting:
    """The answer to a commit; its messages are no longer those of the work."""
    waiting = Waiting(position, work.state.outlet, token, work.messages)
    waiting.homes = list(work.homes)
    work.messages = []
    return waiting


def size_of(transactions: list[Transaction]) -> int:
    """How much there is to carry out in all of them."""
    return sum([transaction.size for transaction in transactions])


def cause_of(ack: TransactedAck) -> str:
    """Why the consumer gave up the messages."""
    return EXPIRED if ack.ack_type == EXPIRED_ACK else ack.cause


def take_unit(store: MessageStore, unit: StoreUnit, facts: list[Fact]) -> None:
    """Have the store take a unit. A small one lies in one batch with those of others, a large one has its own."""
    if unit.size > JOB_STEPS:
        store.append_gathered(unit, facts)
    else:
        unit.take(store.append_unit(unit.additions(), unit.removed(), facts))


def check_staged(transaction: Transaction) -> None:
    """Raises `JmsError` with the reason when a message of a part was refused: its program has to change something."""
    refused = transaction.refusal
    if isinstance(refused, ResourceAllocationError):
        raise refusal(LIMIT, f"{refused}; make smaller batches")
    if refused is not None:
        raise refused


def check_refusal(transaction: Transaction) -> None:
    """Raises `XaError` when a message or acknowledgement of it was refused: it can only be rolled back."""
    if isinstance(transaction.refusal, ControlRefusal):
        raise transaction.refusal  # it says what to do
    if transaction.refusal is not None:
        raise xa_error("COMMIT FAILED: Transaction marked rollback only", XA_ROLLBACK_ONLY)
