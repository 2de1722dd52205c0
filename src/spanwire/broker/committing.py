"""Beginning, committing and rolling back local transactions."""

from __future__ import annotations

from typing import Final

from spanwire.broker.acknowledging import Acknowledgements
from spanwire.broker.connection_state import MAX_TRANSACTIONS_PER_CONNECTION, ConnectionState
from spanwire.broker.context import BrokerContext
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.queue import Queue
from spanwire.broker.sending import Sending
from spanwire.broker.topic import Topic
from spanwire.broker.transactions import LocalTransaction
from spanwire.broker.waiting import StoredMessage, Waiting, WaitingLine
from spanwire.model.acks import EXPIRED_ACK, POISON_ACK
from spanwire.model.destination import Destination
from spanwire.model.errors import AuthorizationError, ResourceAllocationError, TransactionError
from spanwire.model.ids import TransactionId
from spanwire.model.message import Message

XA_ROLLBACK_ONLY: Final = 100  # XAException.XA_RBROLLBACK, which Java clients read from the text of the error


class Committing:
    """Carries out what transactions gathered: one unit in the store, then dispatch once that is safe."""

    def __init__(
        self, context: BrokerContext, sending: Sending, acknowledgements: Acknowledgements, waiting: WaitingLine
    ) -> None:
        self._context: Final[BrokerContext] = context
        self._sending: Final[Sending] = sending
        self._acknowledgements: Final[Acknowledgements] = acknowledgements
        self._waiting: Final[WaitingLine] = waiting

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
        state.transactions[key] = LocalTransaction(transaction_id)

    def find(self, state: ConnectionState, transaction_id: TransactionId) -> LocalTransaction:
        """The open transaction of this id; raises `TransactionError` when there is none."""
        found = state.transactions.get(str(transaction_id))
        if found is None:
            raise TransactionError(f"Transaction '{transaction_id}' has not been started.")
        return found

    def commit(self, state: ConnectionState, transaction_id: TransactionId, token: int) -> bool:
        """Make it all take effect; True when it can be answered now. Its messages are dispatched once they are safe."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        if transaction.rollback_only:
            self.undo(transaction)
            raise TransactionError(f"COMMIT FAILED: Transaction marked rollback only xaErrorCode:{XA_ROLLBACK_ONLY}")
        stored = self._store(transaction)
        self._settle(transaction)
        store = self._context.store
        if store is None:
            self._dispatch(transaction, stored)
            return True
        position = store.position()
        if self._waiting.is_stored(position) or not (stored or self._has_stored_acks(transaction)):
            self._dispatch(transaction, stored)
            return True
        self._dispatch_volatile(transaction)
        self._waiting.add(Waiting(position, state.outlet, token, stored))
        return token == NO_TOKEN

    def rollback(self, state: ConnectionState, transaction_id: TransactionId) -> None:
        """Forget the sends; the acknowledged messages are still with their consumers."""
        transaction = self.find(state, transaction_id)
        del state.transactions[str(transaction_id)]
        self.undo(transaction)

    def undo(self, transaction: LocalTransaction) -> None:
        """Put acknowledged references back, newest acknowledgement first, so that they stand in their old order."""
        for ack in reversed(transaction.acks):
            if ack.subscription.removed:
                for home in ack.subscription.homes:
                    own = [reference for reference in ack.references if reference.home is home]
                    home.given_back(own)
                    home.fill()
            else:
                ack.subscription.put_back(ack.references)

    def _store(self, transaction: LocalTransaction) -> list[StoredMessage]:
        additions: list[tuple[Destination, Message]] = []
        queues: list[Queue] = []
        for send in transaction.sends:
            home = send.home
            if isinstance(home, Queue) and self._sending.is_stored(home, send.message):
                additions.append((home.destination, send.message))
                queues.append(home)
        removals: list[tuple[Destination, int]] = []
        for ack in transaction.acks:
            if ack.ack_type in (POISON_ACK, EXPIRED_ACK):
                self._acknowledgements.bury(ack.references, ack.ack_type)
            for reference in ack.references:
                if reference.sequence > 0:
                    removals.append((reference.home.destination, reference.sequence))
        store = self._context.store
        if store is None or not (additions or removals):
            return []
        sequences = store.append_unit(additions, removals)
        stored: list[StoredMessage] = []
        for queue, (_, message), sequence in zip(queues, additions, sequences, strict=True):
            self._sending.count_unstored(message.size)
            stored.append(StoredMessage(queue, message, sequence))
        return stored

    def _settle(self, transaction: LocalTransaction) -> None:
        for ack in transaction.acks:
            for reference in ack.references:
                reference.home.forgotten(reference)

    def _has_stored_acks(self, transaction: LocalTransaction) -> bool:
        return any(reference.sequence > 0 for ack in transaction.acks for reference in ack.references)

    def _dispatch(self, transaction: LocalTransaction, stored: list[StoredMessage]) -> None:
        for entry in stored:
            entry.home.accept(entry.message, entry.sequence)
        self._dispatch_volatile(transaction)

    def _dispatch_volatile(self, transaction: LocalTransaction) -> None:
        for send in transaction.sends:
            home = send.home
            if isinstance(home, Topic):
                home.accept(send.message)
            elif isinstance(home, Queue) and not self._sending.is_stored(home, send.message):
                home.accept(send.message, 0)
