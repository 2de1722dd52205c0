"""Beginning, committing and rolling back local transactions, and what branches have in common with them."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.connections.transaction import LocalTransaction, Stager, TransactedAck, Transaction
from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.persistence.producer_audit import ProducerAudit
from spanwire.broker.persistence.reply_queue import Waiting, WithheldMessage
from spanwire.broker.persistence.unsynced_bytes import Unstored
from spanwire.broker.ports import NO_TOKEN, Principal
from spanwire.broker.queue.queue import Queue
from spanwire.broker.request_errors import LIMIT, ControlRefusal, refusal
from spanwire.broker.routing.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.routing.flow_control import FlowControl
from spanwire.broker.routing.message_return import ReturningJob
from spanwire.broker.routing.message_router import Sending
from spanwire.broker.scheduler.schedule import Plans
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import SCHEDULE, SUBSCRIPTION, Destination
from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, TransactionError, xa_error
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

XA_ROLLBACK_ONLY: Final = 100  # XAException.XA_RBROLLBACK, which Java clients read from the text of the error


class Committing:
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

        Raises `JmsError` when that cannot be: then it is rolled back, or, being prepared, left as it was.
        """
        if transaction.stager is not None:
            return self._stage(state, transaction, transaction.stager, token)
        try:
            check_refusal(transaction)
            sends = self._sends(state, transaction)
            stored = self._store(state, transaction, sends, self.letters(transaction))
        except JmsError:
            if not transaction.prepared:
                self.undo([transaction])
            raise
        transaction.end()
        self._settle(transaction)
        return self._dispatch(state, sends, token, stored)

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
            self.undo([transaction])
            raise
        transaction.end()
        return self._sending.answer_when_stored(state, token)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Forget the sends; the acknowledged messages are still with their consumers."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        self.undo([transaction])

    def undo(self, transactions: list[Transaction]) -> None:
        """Put acknowledged references back, so that they stand in their old order.

        Those whose consumer is gone go back in line; it had seen them.
        """
        returned: dict[Subscription, list[TransactedAck]] = {}
        left: list[MessageReference] = []
        acks: list[TransactedAck] = []
        for transaction in transactions:
            transaction.end()
            acks.extend(transaction.acks)
        for ack in reversed(acks):
            subscription = ack.subscription
            if subscription is not None and not subscription.removed:
                returned.setdefault(subscription, []).append(ack)
                continue
            left.extend(ack.references)
        if left:
            ReturningJob(left, self._context).start()
        for subscription, own in returned.items():
            references: list[MessageReference] = []
            numbers: list[int] = []
            for ack in own:
                references.extend(ack.references)
                if not subscription.leaving:
                    numbers.extend(ack.numbers())
            if subscription.leaving:
                subscription.take_back(references)
                continue
            subscription.put_back(references, numbers)
            subscription.transaction_ended(len(references))

    def _sends(self, state: ConnectionState, transaction: Transaction) -> list[WithheldMessage]:
        """The messages with their destinations as they are now: one that was removed meanwhile is made again if the
        connection may; a temporary one is gone with all that was sent to it.
        """
        found: list[WithheldMessage] = []
        for send in transaction.sends:
            home = send.home
            if home.destination.kind == SCHEDULE:
                continue  # they are for later
            if home.removed:
                if home.destination.is_temporary or home.destination.kind == SUBSCRIPTION:
                    continue  # gone with all that was meant for it
                if transaction.prepared:
                    home = self._destinations.ensure_own(home.destination)  # it was allowed, and is promised
                else:
                    home = self._destinations.ensure(state, home.destination)
            found.append(WithheldMessage(home, send.message, 0))
        return found

    def letters(self, transaction: Transaction) -> list[WithheldMessage]:
        """The dead letters of poisoned and expired messages; they are stored with the removal of the originals."""
        found: list[WithheldMessage] = []
        for ack in transaction.acks[transaction.lettered :]:
            if ack.ack_type not in (POISON_ACK, EXPIRED_ACK):
                continue
            for reference in ack.references:
                if isinstance(reference.home, Queue):
                    cause = EXPIRED if ack.ack_type == EXPIRED_ACK else ack.cause
                    letters = self._dead_letters.letters(reference, cause)
                    found.extend(letters)
                    if letters:
                        ack.kept[reference] = None
        return found

    def _store(
        self,
        state: ConnectionState,
        transaction: Transaction,
        sends: list[WithheldMessage],
        letters: list[WithheldMessage],
    ) -> bool:
        """Hand it to the store as one unit, if any of it concerns the store; ``sends`` get their sequences and the
        dead letters behind them.
        """
        own = len(sends)
        if not transaction.prepared:
            self.check_room(sends)
        sends.extend(letters)
        plans = self.plans(transaction, state.principal)
        additions: list[tuple[Destination, Message]] = []
        places: list[int] = []
        for place, entry in enumerate(sends):
            if self._sending.is_stored(entry.home, entry.message):
                additions.append((entry.home.destination, entry.message))
                places.append(place)
        removals = _removals(transaction)
        store = self._context.store
        if store is None or not (additions or removals or transaction.facts or plans.count):
            plans.enter([])
            return False
        known = transaction if isinstance(transaction, LocalTransaction) and state.info.fault_tolerant else None
        facts = transaction.facts if known is None else self._audit.committed(known.transaction_id)
        try:
            sequences = store.append_unit(additions + plans.additions(), removals, facts + plans.facts())
        except JmsError:
            if known is not None:
                self._audit.withdrawn(known.transaction_id)
            raise
        plans.enter(sequences[len(places) :])
        self._unstored.add(plans.size())
        for place, sequence in zip(places, sequences[: len(places)], strict=True):
            entry = sends[place]
            if place < own:
                state.audited = self._audit.stored(state.audited, entry.message.message_id)
            self._unstored.add(entry.message.size)
            sends[place] = WithheldMessage(entry.home, entry.message, sequence)
        return True

    def plans(self, transaction: Transaction, principal: Principal) -> Plans:
        """Its scheduled messages as jobs of who sent them, by default ``principal``. Raises as `Schedule.plan`."""
        sender = transaction.sender if transaction.sender is not None else principal
        return Plans(transaction.sends, sender, self._context.wall_ms)

    def kept(self, message: Message) -> None:
        """The store took ``message`` of a prepared branch: a client that reconnects may send it again."""
        self._unstored.add(message.size)
        self._audit.stored(None, message.message_id)

    def check_room(self, sends: list[WithheldMessage]) -> None:
        """Raises `ResourceAllocationError` when the store has no room for all of these."""
        for send in sends:
            self._flow.check_commit(send.home, send.message)

    def _settle(self, transaction: Transaction) -> None:
        for ack in transaction.acks:
            if ack.subscription is not None:
                ack.subscription.transaction_ended(len(ack.references))
            for reference in ack.references:
                if ack.ack_type == EXPIRED_ACK:
                    reference.home.expired += 1
                reference.home.forgotten(reference)
                if ack.ack_type in (POISON_ACK, EXPIRED_ACK) and isinstance(reference.home, Queue):
                    cause = EXPIRED if ack.ack_type == EXPIRED_ACK else ack.cause
                    self._dead_letters.tell_committed(reference, cause, reference in ack.kept)

    def _dispatch(self, state: ConnectionState, sends: list[WithheldMessage], token: int, stored: bool) -> bool:
        """All of it together and in order: now, or once it is safe and nothing before it waits any more."""
        store = self._context.store
        waits = stored or any(entry.home.withheld > 0 for entry in sends)
        if store is not None and waits:
            self._sending.withhold(Waiting(store.position(), state.outlet, token, sends))
            return token == NO_TOKEN
        for entry in sends:
            entry.home.withheld += 1
            entry.home.hold(entry.message)
        self._sending.release(sends)
        return True


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


def _removals(transaction: Transaction) -> list[tuple[Destination, int]]:
    """What the store forgets with the commit."""
    removals = transaction.removals.copy()
    for ack in transaction.acks:
        for reference in ack.references:
            if reference.sequence > 0:
                removals.append((reference.home.destination, reference.sequence))
    return removals
