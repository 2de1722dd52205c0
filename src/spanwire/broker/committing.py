"""Beginning, committing and rolling back local transactions."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.context import BrokerContext
from spanwire.broker.dead_letters import EXPIRED, DeadLetters
from spanwire.broker.destinations import Destinations
from spanwire.broker.flow_control import FlowControl
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.producer_audit import ProducerAudit
from spanwire.broker.queue import Queue
from spanwire.broker.reference import give_back
from spanwire.broker.sending import Sending
from spanwire.broker.transactions import LocalTransaction
from spanwire.broker.unstored import Unstored
from spanwire.broker.waiting import Waiting, WithheldMessage
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import SUBSCRIPTION, Destination
from spanwire.model.errors import AuthorizationError, JmsError, ResourceAllocationError, TransactionError
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
        try:
            if transaction.refusal is not None:
                raise TransactionError(
                    f"COMMIT FAILED: Transaction marked rollback only xaErrorCode:{XA_ROLLBACK_ONLY}"
                )
            sends = self._sends(state, transaction)
            letters = self._letters(transaction)
            stored = self._store(state, transaction, sends, letters)
        except JmsError:
            self.undo(transaction)
            raise
        transaction.end()
        self._settle(transaction)
        return self._dispatch(state, sends, token, stored)

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Forget the sends; the acknowledged messages are still with their consumers."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        self.undo(transaction)

    def undo(self, transaction: LocalTransaction) -> None:
        """Put acknowledged references back, newest acknowledgement first, so that they stand in their old order.

        Those whose consumer is gone go back in line; it had seen them.
        """
        transaction.end()
        for ack in reversed(transaction.acks):
            if not ack.subscription.removed:
                ack.subscription.put_back(ack.references, ack.place)
                continue
            for reference in ack.references:
                home = reference.home
                if isinstance(home, Queue):
                    home.note_redelivery(reference)
            give_back(ack.references)

    def _sends(self, state: ConnectionState, transaction: LocalTransaction) -> list[WithheldMessage]:
        """The messages with their destinations as they are now: one that was removed meanwhile is made again if the
        connection may; a temporary one is gone with all that was sent to it.
        """
        found: list[WithheldMessage] = []
        for send in transaction.sends:
            home = send.home
            if home.removed:
                if home.destination.is_temporary or home.destination.kind == SUBSCRIPTION:
                    continue  # gone with all that was meant for it
                home = self._destinations.ensure(state, home.destination)
            found.append(WithheldMessage(home, send.message, 0))
        return found

    def _letters(self, transaction: LocalTransaction) -> list[WithheldMessage]:
        """The dead letters of poisoned and expired messages; they are stored with the removal of the originals."""
        found: list[WithheldMessage] = []
        for ack in transaction.acks:
            if ack.ack_type not in (POISON_ACK, EXPIRED_ACK):
                continue
            for reference in ack.references:
                if isinstance(reference.home, Queue):
                    letter = self._dead_letters.letter(reference, EXPIRED if ack.ack_type == EXPIRED_ACK else ack.cause)
                    if letter is not None:
                        found.append(letter)
        return found

    def _store(
        self,
        state: ConnectionState,
        transaction: LocalTransaction,
        sends: list[WithheldMessage],
        letters: list[WithheldMessage],
    ) -> bool:
        """Hand it to the store as one unit, if any of it concerns the store; ``sends`` get their sequences and the
        dead letters behind them.
        """
        own = len(sends)
        self._check_room(sends)
        sends.extend(letters)
        additions: list[tuple[Destination, Message]] = []
        places: list[int] = []
        for place, entry in enumerate(sends):
            if self._sending.is_stored(entry.home, entry.message):
                additions.append((entry.home.destination, entry.message))
                places.append(place)
        removals: list[tuple[Destination, int]] = []
        for ack in transaction.acks:
            for reference in ack.references:
                if reference.sequence > 0:
                    removals.append((reference.home.destination, reference.sequence))
        store = self._context.store
        if store is None or not (additions or removals):
            return False
        facts = self._audit.committed(transaction.transaction_id) if state.info.fault_tolerant else []
        try:
            sequences = store.append_unit(additions, removals, facts)
        except JmsError:
            self._audit.withdrawn(transaction.transaction_id)
            raise
        for place, sequence in zip(places, sequences, strict=True):
            entry = sends[place]
            if place < own:
                state.audited = self._audit.stored(state.audited, entry.message.message_id)
            self._unstored.add(entry.message.size)
            sends[place] = WithheldMessage(entry.home, entry.message, sequence)
        return True

    def _check_room(self, sends: list[WithheldMessage]) -> None:
        for send in sends:
            self._flow.check_commit(send.home, send.message)

    def _settle(self, transaction: LocalTransaction) -> None:
        for ack in transaction.acks:
            for reference in ack.references:
                if ack.ack_type == EXPIRED_ACK:
                    reference.home.expired += 1
                reference.home.forgotten(reference)

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
