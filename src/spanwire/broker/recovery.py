"""Recovery of the broker's state from the contents of the store."""

from __future__ import annotations

from typing import Final

from spanwire.broker.destinations.destinations import Destinations
from spanwire.broker.destinations.durable_subscriptions import DurableSubscriptions
from spanwire.broker.exactly_once.cursor_table import CursorTable
from spanwire.broker.exactly_once.sinks import Sinks
from spanwire.broker.metadata import (
    BRIDGES,
    CURSORS,
    DRAINS,
    MOVES,
    NETWORK_CONNECTORS,
    NETWORK_MEMBERS,
    SINK_LEDGERS,
    STAGED_BATCHES,
    XA_BRANCHES,
)
from spanwire.broker.moves.kept_orders import KeptNames, KeptOrders
from spanwire.broker.moves.moves import Moves
from spanwire.broker.persistence.recovered import RecoveredDestination
from spanwire.broker.scheduler.scheduler import Scheduler, recover_jobs
from spanwire.broker.transactions.xa_transactions import XaTransactions
from spanwire.model.destination import SUBSCRIPTION


class StateRecovery:
    """Distributes the recovered contents of a store. Each receiver restores its own part."""

    def __init__(
        self,
        xa: XaTransactions,
        destinations: Destinations,
        durables: DurableSubscriptions,
        scheduler: Scheduler | None,
        cursors: CursorTable,
        sinks: Sinks,
        moves: Moves,
        drains: KeptOrders,
        connectors: KeptNames,
        members: KeptNames,
        bridges: KeptNames,
    ) -> None:
        self._xa: Final[XaTransactions] = xa
        self._destinations: Final[Destinations] = destinations
        self._durables: Final[DurableSubscriptions] = durables
        self._scheduler: Final[Scheduler | None] = scheduler
        self._cursors: Final[CursorTable] = cursors
        self._sinks: Final[Sinks] = sinks
        self._moves: Final[Moves] = moves
        self._drains: Final[KeptOrders] = drains
        self._connectors: Final[KeptNames] = connectors
        self._members: Final[KeptNames] = members
        self._bridges: Final[KeptNames] = bridges

    def recover(
        self, recovered: list[RecoveredDestination], clean: bool, metadata: dict[int, dict[bytes, bytes]]
    ) -> None:
        """Restore destinations with messages, and metadata records by table and key.

        Cursors and prepared branches come first: their messages belong to no other receiver.

        Raises:
            StoreError: the contents are inconsistent.
        """
        subscriptions: list[RecoveredDestination] = []
        free = self._cursors.recover(metadata.get(CURSORS, {}), recovered)
        free = self._sinks.recover(metadata.get(SINK_LEDGERS, {}), metadata.get(STAGED_BATCHES, {}), free)
        for entry in self._xa.recover(metadata.get(XA_BRANCHES, {}), free):
            if entry.destination.kind == SUBSCRIPTION:
                subscriptions.append(entry)
            elif entry.destination.is_queue:
                self._destinations.recovered(entry.destination).recover(entry, clean)
        self._durables.recover(metadata, subscriptions, clean)
        recover_jobs(self._scheduler, metadata, recovered)
        self._xa.count_held()
        self._cursors.count_held()
        self._moves.recover(metadata.get(MOVES, {}))
        self._drains.recover(metadata.get(DRAINS, {}))
        self._connectors.recover(metadata.get(NETWORK_CONNECTORS, {}))
        self._members.recover(metadata.get(NETWORK_MEMBERS, {}))
        self._bridges.recover(metadata.get(BRIDGES, {}))
