"""A connection goes: what becomes of everything it had."""

from __future__ import annotations

from typing import Final

from spanwire.broker.advisory import Advisories
from spanwire.broker.connection_state import ConnectionState
from spanwire.broker.connections import Connections
from spanwire.broker.consuming import Consuming
from spanwire.broker.destinations import Destinations
from spanwire.broker.flow_control import FlowControl
from spanwire.broker.producing import Producing
from spanwire.broker.xa_transactions import XaTransactions
from spanwire.model.acks import LAST_DELIVERED_UNKNOWN


class Departures:
    """Rolls back, gives back and drops what a connection leaves behind, in an order in which nothing is dispatched to
    it any more.
    """

    def __init__(
        self,
        connections: Connections,
        xa: XaTransactions,
        consuming: Consuming,
        producing: Producing,
        flow: FlowControl,
        destinations: Destinations,
        advisories: Advisories | None,
    ) -> None:
        self._connections: Final[Connections] = connections
        self._xa: Final[XaTransactions] = xa
        self._consuming: Final[Consuming] = consuming
        self._producing: Final[Producing] = producing
        self._flow: Final[FlowControl] = flow
        self._destinations: Final[Destinations] = destinations
        self._advisories: Final[Advisories | None] = advisories

    def leave(self, state: ConnectionState) -> None:
        """The connection is gone; once for each."""
        state.removed = True
        self._connections.leave(state)
        self._xa.connection_removed(state)
        for key in list(state.consumers):
            self._consuming.remove(state, key, LAST_DELIVERED_UNKNOWN)
        for key in list(state.producers):
            self._producing.remove(state, key)
        self._flow.forget(state)
        state.outlet.leave()
        self._destinations.remove_temporary(state)
        if self._advisories is not None:
            self._advisories.connection_removed(state.info)
        self._flow.unpark()
