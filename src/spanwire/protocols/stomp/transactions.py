"""The transactions of one STOMP client, by the names that it gave them (STOMP 1.2, "BEGIN")."""

from __future__ import annotations

from typing import Final

from spanwire.model.ids import TransactionId
from spanwire.protocols.stomp.codec.errors import StompRequestError


class NamedTransactions:
    """Knows which names are begun, and under which ids. The transactions themselves are the broker's, and so is the
    limit of how many there may be.
    """

    def __init__(self, connection_id: str) -> None:
        self._connection_id: Final[str] = connection_id
        self._by_name: Final[dict[str, TransactionId]] = {}
        self._count = 0

    def find(self, name: str) -> TransactionId:
        """Raises `StompRequestError` unless it is begun."""
        transaction_id = self._by_name.get(name)
        if transaction_id is None:
            raise StompRequestError(f"Invalid transaction id: {name}")
        return transaction_id

    def next_id(self, name: str) -> TransactionId:
        """The id for a transaction that is to begin. Raises `StompRequestError` if one of this name has."""
        if name in self._by_name:
            raise StompRequestError(f"The transaction was already started: {name}")
        self._count += 1
        return TransactionId(self._connection_id, self._count)

    def begun(self, name: str, transaction_id: TransactionId) -> None:
        """The broker has begun it."""
        self._by_name[name] = transaction_id

    def take(self, name: str) -> TransactionId:
        """It ends, and its name is free. Raises `StompRequestError` unless it is begun."""
        transaction_id = self.find(name)
        del self._by_name[name]
        return transaction_id
