"""The local transaction of one session (JMS 1.1 §4.4.7): begun with its first message, over with commit or rollback."""

from __future__ import annotations

from typing import Final

from spanwire.client.line import COMMIT, Line, Request
from spanwire.client.outgoing import NULL, nested_octets
from spanwire.protocols.openwire import _marshallers as wire

BEGIN: Final = 0
COMMIT_ONE_PHASE: Final = 2
ROLLBACK: Final = 4


class LocalTransaction:
    """What of a session is not final yet. ``octets`` stand in its messages and acknowledgements.

    A transaction whose link broke is *broken*: the broker has rolled it back, and so must its commit.
    """

    def __init__(self, line: Line, connection_id: str, session: int, is_transacted: bool) -> None:
        self.is_transacted: Final[bool] = is_transacted
        self.octets = NULL
        self.is_broken = False
        self._line: Final[Line] = line
        self._connection_id: Final[wire.ConnectionId] = wire.ConnectionId(connection_id)
        self.session: Final[int] = session
        self._id: wire.TransactionId | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the broker knows of it."""
        return self._id is not None

    def begin(self) -> None:
        """Tell the broker, unless it knows."""
        if self._id is not None or self.is_broken or not self.is_transacted:
            return
        transaction_id = wire.LocalTransactionId(value=self._line.next_transaction(), connection_id=self._connection_id)
        self.set_id(transaction_id)
        self._line.send(self._info(BEGIN))

    def set_id(self, transaction_id: wire.TransactionId) -> None:
        """The transaction that messages and acknowledgements name from now on."""
        self._id = transaction_id
        self.octets = nested_octets(transaction_id)

    def commit(self) -> Request:
        """Ask for everything at once; the transaction is over."""
        command = self._info(COMMIT_ONE_PHASE)
        self.ended()
        return self._line.request(command, COMMIT, self.session)

    def rollback(self) -> Request:
        """Undo everything; the transaction is over."""
        command = self._info(ROLLBACK)
        self.ended()
        return self._line.request(command, owner=self.session)

    def broke(self) -> None:
        """The link is gone, and with it what was done so far."""
        if self._id is not None:
            self.is_broken = True
            self.ended()

    def ended(self) -> None:
        """Messages and acknowledgements name no transaction."""
        self._id = None
        self.octets = NULL

    def _info(self, kind: int) -> wire.TransactionInfo:
        return self.step(kind, self._id)

    def step(self, kind: int, transaction_id: wire.TransactionId | None) -> wire.TransactionInfo:
        """The command for one step of a transaction."""
        return wire.TransactionInfo(connection_id=self._connection_id, transaction_id=transaction_id, type=kind)
