"""Branches of distributed transactions (X/Open XA; `javax.transaction.xa.XAResource`).

A branch is begun on a connection, prepared, and finished by any connection of the transaction manager. An unprepared
branch ends with its connection. A prepared branch belongs to the broker until commit or rollback, through restarts:
sent messages lie in a staging destination of the store, acknowledged messages are not dispatched to any consumer. Work
added after the prepare takes part in the commit, but is not stored before the commit.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_job import JOB_STEPS, SlicedWork, complete
from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.connections.transaction import (
    Staging,
    TransactedAck,
    TransactedSend,
    Transaction,
    Uncommitted,
    UncommittedLimit,
)
from spanwire.broker.connections.xa_branch import Branch, BranchRecord, StoredAcks
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import XA_BRANCHES, MetadataRecord
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.routing.consumers import ConsumerRegistry
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.message_router import MessageRouter
from spanwire.broker.routing.parked_sends import ParkedSends, send_reply
from spanwire.broker.scheduler.schedule import Schedule, steps_of
from spanwire.broker.security.access_control import AccessControl
from spanwire.broker.transactions.branch_rollback import BranchEnd, BranchRollback
from spanwire.broker.transactions.local_transactions import (
    ALL_STEPS,
    LocalTransactions,
    TransactionEnd,
    check_refusal,
    size_of,
    take_unit,
)
from spanwire.broker.transactions.prepare_work import Prepares, PrepareWork
from spanwire.broker.transactions.undo_work import UndoWork
from spanwire.broker.transactions.xa_recovery import COMMIT, ROLLBACK, Finisher, RecoveredBranches
from spanwire.model.destination import TOPIC
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, ResourceAllocationError, SpanwireError, xa_error
from spanwire.model.ids import AnyTransactionId, XaTransactionId
from spanwire.model.message import Message

MAX_BRANCHES: Final = 10_000  # open and prepared branches of one broker
BRANCHES_PER_STEP: Final = 16  # branches in an answer that lists those in doubt; some 150 bytes each
MAX_PREPARED: Final = 1_000_000  # messages of all prepared branches, as many as ten full connections

# XAException's codes and votes
XAER_NOTA: Final = -4
XAER_PROTO: Final = -6
XA_RETRY: Final = 4
XA_OK: Final = 0
XA_RDONLY: Final = 3
LATER: Final = -1  # `ClientConnection.on_completed` will say that the vote is XA_OK


class XaTransactions(Finisher, TransactionEnd, BranchEnd, Prepares):
    """All branches of a broker."""

    def __init__(
        self,
        context: BrokerContext,
        access: AccessControl,
        local_transactions: LocalTransactions,
        router: MessageRouter,
        consumer_registry: ConsumerRegistry,
        parked: ParkedSends,
        recovered: RecoveredBranches,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._access: Final[AccessControl] = access
        self._local_transactions: Final[LocalTransactions] = local_transactions
        self._router: Final[MessageRouter] = router
        self._consumer_registry: Final[ConsumerRegistry] = consumer_registry
        self._parked: Final[ParkedSends] = parked
        self._flow: Final[FlowControl] = parked.flow
        self._recovered: Final[RecoveredBranches] = recovered
        self._branches: Final[dict[bytes, Branch]] = {}
        self._prepared: Final[Uncommitted] = Uncommitted(UncommittedLimit(MAX_PREPARED))

    def begin(self, state: ConnectionState, xid: XaTransactionId, wall_ms: int = 0) -> None:
        """Open a branch at ``wall_ms``, or join a known branch.

        Raises:
            ResourceAllocationError: a limit is reached.
        """
        self._log_event("beginning transaction", xid)
        self._context.steps += 1
        complete(state)
        if xid.key in state.branches:
            return
        known = None if xid.key not in self._branches else self.find(state, xid)
        limit = MAX_TRANSACTIONS_PER_CONNECTION
        if len(state.branches) < limit:
            limit = MAX_BRANCHES
            if known is None and len(self._branches) < limit:
                known = Branch(xid, state.uncommitted, state.principal.name)
                known.began_ms = wall_ms
                known.siblings = state.branches
                self._branches[xid.key] = known
            if known is not None:
                known.tables.append(state.branches)
                state.branches[xid.key] = known
                return
        raise ResourceAllocationError(
            f"Can't begin a transaction on connection {state.connection_id}: at maximum limit: {limit}"
        )

    def gathering(self, state: ConnectionState, transaction_id: AnyTransactionId) -> Transaction:
        """Return the open branch or local transaction of this id.

        Raises:
            TransactionError: there is no such transaction.
        """
        if isinstance(transaction_id, XaTransactionId):
            return self.find(state, transaction_id)
        return self._local_transactions.find(state, transaction_id)

    def find(self, state: ConnectionState, xid: XaTransactionId) -> Branch:
        """Return the branch of this id.

        Raises:
            XaError: there is no such branch, or the branch is being finished.
            AuthorizationError: the branch belongs to the connection of another user.
        """
        branch = self._branches.get(xid.key)
        if branch is None:
            raise xa_error(f"Transaction '{xid}' has not been started.", XAER_NOTA)
        if branch.siblings is not None and branch.user != state.principal.name:
            self._access.refuse(state, f"work in transaction {xid}")
        if branch.finishing:
            raise xa_error(f"Transaction '{xid}' is being finished already.", XAER_PROTO)
        return branch

    def _to_finish(self, state: ConnectionState, xid: XaTransactionId) -> Branch:
        """Return a branch that is to be finished, as `find` does.

        Raises:
            XaError: with XA_RETRY while another request finishes the branch.
        """
        branch = self._branches.get(xid.key)
        if branch is not None and branch.finishing:
            raise xa_error(f"Transaction '{xid}' is being finished already: try again.", XA_RETRY)
        return self.find(state, xid)

    def spoil(self, xid: XaTransactionId, error: JmsError) -> None:
        """Note that work of the branch was refused: the branch can only be rolled back.

        A refusal while the branch is being prepared or finished does not count.
        """
        branch = self._branches.get(xid.key)
        if branch is not None and not branch.prepared and not branch.finishing:
            branch.spoil(error)

    def refusal_of(self, xid: XaTransactionId) -> JmsError | None:
        """Return the first refusal in the branch, None if no request was refused."""
        branch = self._branches.get(xid.key)
        return None if branch is None else branch.refusal

    def prepare(self, state: ConnectionState, xid: XaTransactionId, token: int, now: Time) -> int:
        """Promise that a branch, begun or joined on this connection, can be committed.

        Returns:
            The vote, or `LATER`.

        Raises:
            JmsError: the commit cannot be promised, and the branch is rolled back.
        """
        self._context.begin_request(now)
        self._log_event("preparing transaction", xid)
        complete(state)
        if xid.key not in state.branches:
            raise IllegalStateError(
                f"Cannot prepare a transaction that had not been started or previously returned XA_RDONLY: {xid}"
            )
        branch = self.find(state, xid)
        if branch.is_empty() and not branch.prepared:
            self._forget(branch)
            return XA_RDONLY
        if branch.prepared:
            return XA_OK if self._router.answer_when_stored(state, token) else LATER
        return self._prepare(branch, state, token)

    def commit(self, state: ConnectionState, xid: XaTransactionId, one_phase: bool, token: int, now: Time) -> bool:
        """Make the branch take effect, with the same result as `Broker.send`.

        Raises:
            JmsError: the branch is rolled back or, if prepared, stays prepared.
        """
        self._context.begin_request(now)
        self._log_event("committing transaction", xid)
        complete(state)
        branch = self._to_finish(state, xid)
        if not branch.prepared:
            if not one_phase:
                raise xa_error("Cannot do 2 phase commit if the transaction has not been prepared", XAER_PROTO)
        if branch.on_disk and not self._recovered.load(branch, COMMIT, state, token):
            return False
        return self._commit(branch, state, token)

    def rollback(self, state: ConnectionState, xid: XaTransactionId, token: int, now: Time) -> bool:
        """Undo the branch, with the same result as `Broker.send`."""
        self._context.begin_request(now)
        self._log_event("rolling back transaction", xid)
        complete(state)
        branch = self._to_finish(state, xid)
        if branch.on_disk and not self._recovered.load(branch, ROLLBACK, state, token):
            return False
        return self._rollback(branch, state, token)

    def _log_event(self, event: str, xid: XaTransactionId) -> None:
        if self._context.observer is not None:
            self._context.observer.branch_event(event, str(xid))

    def prepared(self) -> list[XaTransactionId]:
        """Return the branches in doubt, oldest first."""
        self._context.steps += 1 + len(self._branches) // BRANCHES_PER_STEP
        return [branch.xid for branch in self._branches.values() if branch.prepared]

    def prepared_branches(self) -> list[Branch]:
        """Return the branches in doubt for an operator, oldest first."""
        return [branch for branch in self._branches.values() if branch.prepared]

    def roll_back_large(self, state: ConnectionState) -> bool:
        """Roll back the transactions of a closing connection in slices, if too large for one turn.

        Returns:
            False if there is no work to wait for.
        """
        local: list[Transaction] = list(state.transactions.values())
        own = [one for one in state.branches.values() if one.siblings is state.branches and self._ends(one)]
        if size_of(local) + size_of([*own]) <= JOB_STEPS:
            return False
        state.transactions.clear()
        for branch in own:
            self._forget(branch)
        self._local_transactions.undo(state, [*local, *own])
        return True

    def _ends(self, branch: Branch) -> bool:
        """Return True if a branch ends with the connection where the branch was begun."""
        return not branch.prepared and not branch.finishing

    def connection_removed(self, state: ConnectionState) -> None:
        """End the transactions of a closed connection. Prepared branches stay, open to every connection."""
        ended: list[Transaction] = list(state.transactions.values())
        state.transactions.clear()
        for branch in list(state.branches.values()):
            branch.tables = [table for table in branch.tables if table is not state.branches]
            if branch.siblings is not state.branches:
                continue
            branch.siblings = None
            if self._ends(branch):
                self._forget(branch)
                ended.append(branch)
        state.branches.clear()
        self._local_transactions.undo(state, ended)

    def recover(
        self, metadata: dict[bytes, bytes], recovered: list[RecoveredDestination]
    ) -> list[RecoveredDestination]:
        """Restore prepared branches from their descriptions, and return the rest of ``recovered``.

        Raises:
            StoreError: a description cannot be decoded.
        """
        for branch in self._recovered.recover(metadata, self._prepared):
            self._branches[branch.xid.key] = branch
        unclaimed: list[RecoveredDestination] = []
        for entry in recovered:
            rest = self._recovered.leave(entry)
            if rest is not None:
                unclaimed.append(rest)
        return unclaimed

    def count_held(self) -> None:
        """Count messages acknowledged by prepared branches as in flight, once the recovered queues exist."""
        self._recovered.count_held()

    def finish_loaded(self, branch: Branch, step: int, state: ConnectionState, token: int) -> None:
        """Carry out a step of a branch, read from the store after a restart, and answer."""
        branch.finishing = False
        error: SpanwireError | None = None
        done = True
        try:
            if step == COMMIT:
                done = self._commit(branch, state, token)
            else:
                done = self._rollback(branch, state, token)
        except JmsError as refused:
            error = refused
        if (done or error is not None) and token != NO_TOKEN:
            state.output.connection.on_completed(token, error)
            state.output.mark_dirty()

    def _prepare(self, branch: Branch, state: ConnectionState, token: int) -> int:
        number = self._recovered.take_number()
        work = PrepareWork(self, branch, state, token, number, self._context.newest_durable)
        branch.finishing = True
        try:
            check_refusal(branch)
            work.is_sliced = branch.size > JOB_STEPS
            while not (work.is_sliced or work.go_on(ALL_STEPS)):
                work.is_sliced = branch.size > JOB_STEPS or work.steps > JOB_STEPS
        except JmsError as error:
            work.refuse(error)
            self._local_transactions.undo(state, [branch])
            self._parked.unpark()
            raise
        if work.is_sliced:
            self._local_transactions.run(state, work)
            return XA_OK if token == NO_TOKEN else LATER
        return XA_OK if work.is_answered else LATER

    def letters(self, ack: TransactedAck, reference: MessageReference) -> list[TransactedSend]:
        """Return the dead letters of a message; see `Prepares.letters`."""
        letters: list[TransactedSend] = []
        for letter in self._local_transactions.letters_of(ack, reference):
            usage = self._flow.usage_in_transaction(letter.destination, letter.message)
            letters.append(TransactedSend(letter.destination, letter.message, usage))
        return letters

    def check_kept(self, work: PrepareWork, destination: BrokerDestination, message: Message) -> bool:
        """Return True if the store is to keep the message; see `Prepares.check_kept`."""
        if isinstance(destination, Schedule):  # raise the error that would refuse the commit
            destination.check_room(work.scheduled)
            sender = work.branch.sender
            work.steps += steps_of(destination.plan(message, sender or work.state.principal, self._context.wall_ms)) - 1
            work.scheduled += 1
            return True
        self._flow.check_commit(destination, message)
        return self._context.store is not None and destination.persists(message)

    def keeps_for_later(self, destination: BrokerDestination, message: Message) -> bool:
        """Return True for a persistent message to a topic; see `Prepares.keeps_for_later`."""
        name = destination.name
        return self._context.store is not None and message.persistent and name.kind == TOPIC and not name.is_advisory

    def current_topic(self, destination: BrokerDestination) -> BrokerDestination:
        """Return the current topic; see `Prepares.current_topic`."""
        current = self._router.find_or_create(destination.name)
        return destination if current is None else current

    def add_late_copies(self, branch: Branch, index: int, topic: BrokerDestination, until: int) -> int:
        """Add copies for later durable subscriptions; see `Prepares.add_late_copies`."""
        return self._local_transactions.add_late_copies(branch, index, topic, until)

    def keep(self, work: PrepareWork) -> None:
        """Store the messages in a staging destination, in one unit with the branch's record.

        See `Prepares.keep`.
        """
        branch = work.branch
        branch.lettered = len(branch.acks)
        branch.count_with(self._prepared)
        store = self._context.store
        if store is None:
            self._recovered.free_number(work.number)
        else:
            acks = [
                StoredAcks(destination.name, work.sequences[name]) for name, destination in work.destinations.items()
            ]
            record = BranchRecord(work.number, work.targets, acks)
            record.sender = branch.sender
            record.until = work.until
            metadata_record = MetadataRecord(
                XA_BRANCHES, branch.xid.key, work.draft.encoded(work.number, branch.sender, work.until)
            )
            take_unit(self._context.units, work.unit, [metadata_record])
            for additions in work.unit.targets():  # one, or none
                record.sequences = list(range(additions.first, additions.first + additions.count))
                if work.is_worth_moving:
                    moved = additions.count - work.for_later
                    removals = [(additions.destination, sequence) for sequence in record.sequences[moved:]]
                    branch.staging = Staging(additions.destination, additions.first - 1, removals)
            self._local_transactions.note_prepared(work.stored_bytes, work.runs)
            branch.record = record
            branch.removals = record.removals()
            branch.metadata = [MetadataRecord(XA_BRANCHES, branch.xid.key, None)]
        branch.prepared = True
        branch.finishing = False
        work.is_answered = self._router.answer_when_stored(work.state, work.token)
        if work.is_sliced and work.is_answered:
            send_reply(work.state, work.token, None)

    def prepare_refused(self, work: PrepareWork, error: JmsError) -> SlicedWork | None:
        """Report the rollback of the branch; see `Prepares.prepare_refused`."""
        self._recovered.free_number(work.number)
        work.branch.finishing = False
        self._forget(work.branch)
        if work.is_sliced:
            send_reply(work.state, work.token, error)
        return UndoWork([work.branch], self._context)

    def _commit(self, branch: Branch, state: ConnectionState, token: int) -> bool:
        branch.finishing = True
        if branch.on_disk:
            self._router.identified.identify(branch.sends)
        return self._local_transactions.finish(state, branch, token)

    def on_committed(self, transaction: Transaction) -> None:
        """Forget a branch that took effect; see `TransactionEnd.on_committed`."""
        if isinstance(transaction, Branch):
            self._forget(transaction)
            if transaction.on_disk:
                self._recovered.on_committed(transaction)

    def on_refused(self, transaction: Transaction) -> None:
        """Forget a refused branch, unless prepared; see `TransactionEnd.on_refused`."""
        if isinstance(transaction, Branch):
            transaction.finishing = False
            if not transaction.prepared:
                self._forget(transaction)

    def refill(self, subscription: Subscription) -> None:
        """Dispatch to a consumer; see `TransactionEnd.refill`."""
        self._consumer_registry.refill(subscription)

    def _rollback(self, branch: Branch, state: ConnectionState, token: int) -> bool:
        if self._context.store is None or branch.record is None:
            self._undo(branch, state)
            return True
        work = BranchRollback(self, branch, state, token)
        branch.finishing = True
        if len(branch.removals) > JOB_STEPS:
            self._local_transactions.run(state, work)
            return token == NO_TOKEN
        try:
            work.go_on(JOB_STEPS)
        except JmsError:
            self._end_rollback(branch)
            raise
        return work.is_answered

    def roll_back_kept(self, work: BranchRollback) -> None:
        """Remove a branch from the store and answer; see `BranchEnd.roll_back_kept`."""
        store = self._context.store
        assert store is not None
        is_large = work.unit.size > JOB_STEPS
        take_unit(self._context.units, work.unit, work.branch.metadata)
        self._undo(work.branch, work.state)
        work.is_answered = self._router.answer_when_stored(work.state, work.token)
        if is_large and work.is_answered:
            send_reply(work.state, work.token, None)

    def rollback_refused(self, work: BranchRollback, error: JmsError) -> None:
        """Answer that the branch stays prepared; see `BranchEnd.rollback_refused`."""
        self._end_rollback(work.branch)
        send_reply(work.state, work.token, error)

    def _end_rollback(self, branch: Branch) -> None:
        """Leave the branch of a refused rollback prepared."""
        branch.finishing = False
        if branch.on_disk:
            self._recovered.forget_acks(branch)

    def _undo(self, branch: Branch, state: ConnectionState) -> None:
        branch.finishing = False
        self._forget(branch)
        self._local_transactions.undo(state, [branch])
        self._parked.unpark()

    def _forget(self, branch: Branch) -> None:
        key = branch.xid.key
        if self._branches.get(key) is branch:
            del self._branches[key]
        for table in branch.tables:
            if table.get(key) is branch:
                del table[key]
        branch.tables.clear()
        if branch.record is not None:
            self._recovered.free_number(branch.record.number)
