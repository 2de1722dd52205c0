"""Executes a client's commands about XA transaction branches in the broker.

The types of a TransactionInfo are those of ActiveMQ's OpenWire: the two phases, the heuristic end, and the request for
the branches in doubt.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.broker import Broker
from spanwire.broker.connections.connection_state import ConnectionState
from spanwire.broker.ports import NO_TOKEN
from spanwire.broker.transactions.xa_transactions import LATER
from spanwire.model.environment import Time
from spanwire.model.errors import JmsError
from spanwire.model.ids import XaTransactionId
from spanwire.protocols.openwire.codec import _marshallers as wire
from spanwire.protocols.openwire.codec.schema import DataStructure
from spanwire.protocols.openwire.messages.identities import wire_xa_transaction_id
from spanwire.protocols.openwire.output import OutputBuffer

BEGIN: Final = 0
PREPARE: Final = 1
COMMIT_ONE_PHASE: Final = 2
COMMIT_TWO_PHASE: Final = 3
ROLLBACK: Final = 4
RECOVER: Final = 5
FORGET: Final = 6
END: Final = 7


class XaCommands:
    """Executes the XA commands of one client.

    ``refusal`` is the reason if the branch of the last command can only be rolled back. ``votes`` has the tokens of
    prepare commands that wait for the store, one per command.
    """

    def __init__(self, broker: Broker, state: ConnectionState, output: OutputBuffer) -> None:
        self._broker: Final[Broker] = broker
        self._state: Final[ConnectionState] = state
        self._output: Final[OutputBuffer] = output
        self.refusal: JmsError | None = None
        self.votes: Final[set[int]] = set()

    def act(self, command: wire.TransactionInfo, xid: XaTransactionId, token: int, now: Time) -> bool:
        """Execute a command; return True if the caller must send a Response."""
        xa = self._broker.xa
        kind = command.type
        self.refusal = None
        if kind == BEGIN:
            xa.begin(self._state, xid, now.wall_ms)
            return True
        if kind == PREPARE:
            return self._prepare(command, xid, token, now)
        if kind == COMMIT_ONE_PHASE or kind == COMMIT_TWO_PHASE:
            self.refusal = xa.refusal_of(xid)
            return xa.commit(self._state, xid, kind == COMMIT_ONE_PHASE, token, now)
        if kind == ROLLBACK or kind == FORGET:
            return xa.rollback(self._state, xid, token, now)
        return True  # the end of the work in a branch has no effect in the broker

    def recover(self, command: wire.TransactionInfo) -> None:
        """Respond with the branches in doubt."""
        branches: list[DataStructure] = [wire_xa_transaction_id(xid) for xid in self._broker.xa.prepared()]
        if command.response_required:
            self._output.answer(wire.DataArrayResponse(correlation_id=command.command_id, data=branches))

    def _prepare(self, command: wire.TransactionInfo, xid: XaTransactionId, token: int, now: Time) -> bool:
        self.refusal = self._broker.xa.refusal_of(xid)
        vote = self._broker.xa.prepare(self._state, xid, token, now)
        if vote == LATER:
            self.votes.add(token)
        elif token != NO_TOKEN:
            self.vote(command.command_id, vote)
        return False

    def vote(self, correlation_id: int, vote: int) -> None:
        """Respond to a prepare command."""
        self._output.answer(wire.IntegerResponse(correlation_id=correlation_id, result=vote))
