"""Branches of distributed transactions: begun on a connection, prepared, and finished by whoever the transaction
manager sends (X/Open XA; `javax.transaction.xa.XAResource`).

An unprepared branch ends with its connection. A prepared one belongs to the broker: what it sent lies in a line of the
store, what it acknowledged is out at nobody and goes to nobody, through restarts, until it is committed or rolled back.
Work that a client adds to a branch after its prepare takes part in the commit, but no store keeps it before that.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.connections.transaction import TransactedSend, Transaction, Uncommitted
from spanwire.broker.connections.xa_branch import Branch, BranchRecord, StoredAcks, encode_record, line_of
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import BrokerDestination
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.metadata import XA_BRANCHES, Fact
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.persistence.reply_queue import WithheldMessage
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.routing.consumers import Consuming
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.message_router import Sending
from spanwire.broker.security.access_control import Rights
from spanwire.broker.transactions.local_transactions import Committing, check_refusal
from spanwire.broker.transactions.xa_recovery import COMMIT, ROLLBACK, Finisher, RecoveredBranches
from spanwire.model.destination import SCHEDULE, Destination
from spanwire.model.environment import Time
from spanwire.model.errors import IllegalStateError, JmsError, ResourceAllocationError, SpanwireError, xa_error
from spanwire.model.ids import AnyTransactionId, XaTransactionId
from spanwire.model.message import Message

MAX_BRANCHES: Final = 10_000  # open and prepared branches of one broker
MAX_PREPARED: Final = 1_000_000  # messages that all prepared branches hold: ten connections full of them

# XAException's codes and votes
XAER_NOTA: Final = -4
XAER_PROTO: Final = -6
XA_OK: Final = 0
XA_RDONLY: Final = 3
LATER: Final = -1  # `ClientConnection.completed` will say that the vote is XA_OK


class XaTransactions(Finisher):
    """All branches of a broker."""

    def __init__(
        self,
        context: BrokerContext,
        rights: Rights,
        committing: Committing,
        sending: Sending,
        consuming: Consuming,
        flow: FlowControl,
        recovered: RecoveredBranches,
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._rights: Final[Rights] = rights
        self._committing: Final[Committing] = committing
        self._sending: Final[Sending] = sending
        self._consuming: Final[Consuming] = consuming
        self._flow: Final[FlowControl] = flow
        self._recovered: Final[RecoveredBranches] = recovered
        self._branches: Final[dict[bytes, Branch]] = {}
        self._prepared: Final[Uncommitted] = Uncommitted(MAX_PREPARED)
        recovered.finisher = self

    def begin(self, state: ConnectionState, xid: XaTransactionId) -> None:
        """Open a branch, or join one that is known. Raises `ResourceAllocationError` over the limits."""
        self._tell("beginning transaction", xid)
        if xid.key in state.branches:
            return
        known = None if xid.key not in self._branches else self.find(state, xid)
        limit = MAX_TRANSACTIONS_PER_CONNECTION
        if len(state.branches) < limit:
            limit = MAX_BRANCHES
            if known is None and len(self._branches) < limit:
                known = Branch(xid, state.uncommitted, state.principal.name)
                known.siblings = state.branches
                self._branches[xid.key] = known
            if known is not None:
                known.places.append(state.branches)
                state.branches[xid.key] = known
                return
        raise ResourceAllocationError(
            f"Can't begin a transaction on connection {state.connection_id}: at maximum limit: {limit}"
        )

    def gathering(self, state: ConnectionState, transaction_id: AnyTransactionId) -> Transaction:
        """The open transaction of this id, a branch or a local one; raises `TransactionError` when there is none."""
        if isinstance(transaction_id, XaTransactionId):
            return self.find(state, transaction_id)
        return self._committing.find(state, transaction_id)

    def find(self, state: ConnectionState, xid: XaTransactionId) -> Branch:
        """The branch of this id. Raises `XaError` when there is none, `AuthorizationError` while it belongs to the
        connection of another user.
        """
        found = self._branches.get(xid.key)
        if found is None:
            raise xa_error(f"Transaction '{xid}' has not been started.", XAER_NOTA)
        if found.siblings is not None and found.user != state.principal.name:
            self._rights.refuse(state, f"work in transaction {xid}")
        if found.finishing:
            raise xa_error(f"Transaction '{xid}' is being finished already.", XAER_PROTO)
        return found

    def spoil(self, xid: XaTransactionId, error: JmsError) -> None:
        """Something of the branch was refused: it can only be rolled back."""
        found = self._branches.get(xid.key)
        if found is not None and not found.prepared:
            found.spoil(error)

    def refusal_of(self, xid: XaTransactionId) -> JmsError | None:
        """What of the branch was refused, if anything."""
        found = self._branches.get(xid.key)
        return None if found is None else found.refusal

    def prepare(self, state: ConnectionState, xid: XaTransactionId, token: int, now: Time) -> int:
        """Promise that the branch, begun or joined on this connection, can be committed; gives the vote, or `LATER`.

        Raises `JmsError` when that cannot be promised: the branch is rolled back then.
        """
        self._turn(now)
        self._tell("preparing transaction", xid)
        if xid.key not in state.branches:
            raise IllegalStateError(
                f"Cannot prepare a transaction that had not been started or previously returned XA_RDONLY: {xid}"
            )
        branch = self.find(state, xid)
        if branch.is_empty() and not branch.prepared:
            self._forget(branch)
            return XA_RDONLY
        if not branch.prepared:
            try:
                self._prepare(branch)
            except JmsError:
                self._forget(branch)
                self._committing.undo([branch])
                raise
        return XA_OK if self._sending.answer_when_stored(state, token) else LATER

    def commit(self, state: ConnectionState, xid: XaTransactionId, one_phase: bool, token: int, now: Time) -> bool:
        """Make the branch take effect; the answer is as with `Broker.send`.

        Raises `JmsError` when it cannot: it is rolled back then, or, being prepared, stays so.
        """
        self._turn(now)
        self._tell("committing transaction", xid)
        branch = self.find(state, xid)
        if not branch.prepared:
            if not one_phase:
                raise xa_error("Cannot do 2 phase commit if the transaction has not been prepared", XAER_PROTO)
            self._forget(branch)
        if branch.on_disk and not self._recovered.load(branch, COMMIT, state, token):
            return False
        return self._commit(branch, state, token)

    def rollback(self, state: ConnectionState, xid: XaTransactionId, token: int, now: Time) -> bool:
        """Undo the branch; the answer is as with `Broker.send`."""
        self._turn(now)
        self._tell("rolling back transaction", xid)
        branch = self.find(state, xid)
        if branch.on_disk and not self._recovered.load(branch, ROLLBACK, state, token):
            return False
        return self._rollback(branch, state, token)

    def _tell(self, event: str, xid: XaTransactionId) -> None:
        if self._context.observer is not None:
            self._context.observer.branch_event(event, str(xid))

    def prepared(self) -> list[XaTransactionId]:
        """The branches in doubt, oldest first."""
        return [branch.xid for branch in self._branches.values() if branch.prepared]

    def connection_removed(self, state: ConnectionState) -> None:
        """The connection's transactions end with it; branches that are prepared stay, and are anybody's now."""
        ended: list[Transaction] = list(state.transactions.values())
        state.transactions.clear()
        for branch in list(state.branches.values()):
            branch.places = [place for place in branch.places if place is not state.branches]
            if branch.siblings is not state.branches:
                continue
            branch.siblings = None
            if not branch.prepared:
                self._forget(branch)
                ended.append(branch)
        state.branches.clear()
        self._committing.undo(ended)

    def recover(self, facts: dict[bytes, bytes], recovered: list[RecoveredDestination]) -> list[RecoveredDestination]:
        """The store's descriptions of prepared branches; gives what is left for others of what it ``recovered``.

        Raises `StoreError` for a description that cannot be read.
        """
        for branch in self._recovered.recover(facts, self._prepared):
            self._branches[branch.xid.key] = branch
        left: list[RecoveredDestination] = []
        for entry in recovered:
            rest = self._recovered.leave(entry)
            if rest is not None:
                left.append(rest)
        return left

    def count_held(self) -> None:
        """The recovered queues are there: what prepared branches acknowledged is out."""
        self._recovered.count_held()

    def finish_loaded(self, branch: Branch, step: int, state: ConnectionState, token: int) -> None:
        """What a restarted broker had to read for a branch is there: do what was asked for, and answer."""
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
            state.outlet.connection.completed(token, error)
            state.outlet.mark_dirty()

    def _prepare(self, branch: Branch) -> None:
        check_refusal(branch)
        for letter in self._committing.letters(branch):
            usage = self._flow.usage_in_transaction(letter.home, letter.message)
            branch.add_send(TransactedSend(letter.home, letter.message, usage))
        branch.lettered = len(branch.acks)
        self._committing.check_room([WithheldMessage(send.home, send.message, 0) for send in branch.sends])
        if branch.sender is not None:
            self._committing.plans(branch, branch.sender)  # raises what the commit would be refused with
        branch.count_with(self._prepared)
        self._keep(branch)
        branch.prepared = True

    def _keep(self, branch: Branch) -> None:
        """The store takes the messages, in a line of their own, and what the branch is, as one unit."""
        store = self._context.store
        if store is None:
            return
        number = self._recovered.take_line()
        line = line_of(number)
        additions: list[tuple[Destination, Message]] = []
        targets: list[Destination] = []
        for send in branch.sends:
            if send.home.destination.kind == SCHEDULE or self._sending.is_stored(send.home, send.message):
                additions.append((line, send.message))
                targets.append(send.home.destination)
        record = BranchRecord(number, targets, _acks_of(branch))
        record.sender = branch.sender
        try:
            fact = Fact(XA_BRANCHES, branch.xid.key, encode_record(record))
            record.sequences = store.append_unit(additions, [], [fact])
        except JmsError:
            self._recovered.free_line(number)
            raise
        for _, message in additions:
            self._committing.kept(message)
        branch.record = record
        branch.removals = record.removals()
        branch.facts = [Fact(XA_BRANCHES, branch.xid.key, None)]

    def _commit(self, branch: Branch, state: ConnectionState, token: int) -> bool:
        done = self._committing.finish(state, branch, token)
        self._forget(branch)
        if branch.on_disk:
            self._recovered.committed(branch)
        self.refill(branch)
        return done

    def refill(self, transaction: Transaction | None) -> None:
        """It took effect: its consumers can take more, and senders that waited for room go on."""
        subscriptions: dict[Subscription, None] = {}
        for ack in transaction.acks if transaction is not None else []:
            if ack.subscription is not None:
                subscriptions[ack.subscription] = None
        for subscription in subscriptions:
            if not subscription.removed:
                self._consuming.refill(subscription)
        self._flow.unpark()

    def _rollback(self, branch: Branch, state: ConnectionState, token: int) -> bool:
        store = self._context.store
        kept = store is not None and branch.record is not None
        if store is not None and kept:
            store.append_unit([], branch.removals, branch.facts)
        self._forget(branch)
        self._committing.undo([branch])
        self._flow.unpark()
        return self._sending.answer_when_stored(state, token) if kept else True

    def _forget(self, branch: Branch) -> None:
        self._branches.pop(branch.xid.key, None)
        for place in branch.places:
            place.pop(branch.xid.key, None)
        branch.places.clear()
        if branch.record is not None:
            self._recovered.free_line(branch.record.line)

    def _turn(self, now: Time) -> None:
        self._context.wall_ms = now.wall_ms
        self._context.monotonic = now.monotonic


def _acks_of(branch: Branch) -> list[StoredAcks]:
    """The stored messages that the branch acknowledged, by destination."""
    homes: dict[str, BrokerDestination] = {}
    found: dict[str, list[int]] = {}
    for ack in branch.acks:
        for reference in ack.references:
            if reference.sequence > 0:
                name = reference.home.destination.qualified_name
                homes[name] = reference.home
                found.setdefault(name, []).append(reference.sequence)
    return [StoredAcks(homes[name].destination, sorted(sequences)) for name, sequences in found.items()]
