"""Transactions of a STOMP client by the client's names (STOMP 1.2, "BEGIN")."""

from __future__ import annotations

from typing import Final

from spanwire.model.ids import TransactionId
from spanwire.protocols.stomp.codec.errors import StompRequestError


class NamedTransactions:
    """Maps the names of open transactions to ids; the broker has the transactions and limits their number."""

    def __init__(self, connection_id: str) -> None:
        self._connection_id: Final[str] = connection_id
        self._by_name: Final[dict[str, TransactionId]] = {}
        self._count = 0

    def find(self, name: str) -> TransactionId:
        """Return the id of an open transaction; raises `StompRequestError` if unknown."""
        transaction_id = self._by_name.get(name)
        if transaction_id is None:
            raise StompRequestError(f"Invalid transaction id: {name}")
        return transaction_id

    def next_id(self, name: str) -> TransactionId:
        """Return the id for a new transaction; raises `StompRequestError` if the name is in use."""
        if name in self._by_name:
            raise StompRequestError(f"The transaction was already started: {name}")
        self._count += 1
        return TransactionId(self._connection_id, self._count)

    def begun(self, name: str, transaction_id: TransactionId) -> None:
        """Add a transaction begun by the broker."""
        self._by_name[name] = transaction_id

    def take(self, name: str) -> TransactionId:
        """Remove an ending transaction and return its id; raises `StompRequestError` if unknown."""
        transaction_id = self.find(name)
        del self._by_name[name]
        return transaction_id
