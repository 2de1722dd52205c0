"""Commits of sinks whose messages the broker must see.

The messages are read, and written again for their destinations.

After the sync the messages are dispatched like those of a transaction.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.destination import BrokerDestination
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.exactly_once.batch_targets import BatchTargets
from spanwire.broker.persistence.reply_queue import PendingReply, WithheldMessage
from spanwire.broker.persistence.store_unit import StoreUnit
from spanwire.model.destination import Destination
from spanwire.model.message import Message


class RewrittenBatch:
    """All messages of one commit, gathered a slice at a time.

    ``unit`` has the messages for the store, ``messages`` all messages to dispatch. ``usage`` counts the messages
    already. ``stored_bytes`` are the bytes of the unit. ``lost`` messages of ``lost_bytes`` were for durable
    subscriptions that are gone.
    """

    def __init__(self, targets: BatchTargets, usage: MemoryUsage) -> None:
        self._targets: Final[BatchTargets] = targets
        self._usage: Final[MemoryUsage] = usage
        self.unit: Final[StoreUnit] = StoreUnit()
        self.messages: Final[list[WithheldMessage]] = []
        self._destinations: Final[dict[BrokerDestination, int]] = {}  # with the number of messages
        self._target: Destination | None = None
        self._destination: BrokerDestination | None = None  # of the target
        self._by_name: Final[dict[str, BrokerDestination | None]] = {}
        self.stored_bytes = 0
        self.lost = 0
        self.lost_bytes = 0

    def take(self, target: Destination, message: Message) -> None:
        """Add a message."""
        if target is not self._target:
            self._target = target
            name = target.qualified_name
            if name not in self._by_name:
                self._by_name[name] = self._targets.resolve(target)
            self._destination = self._by_name[name]
        destination = self._destination
        if destination is None:
            self.lost += 1
            self.lost_bytes += message.size
            return
        entry = WithheldMessage(destination, message, 0)
        entry.usage = self._usage
        if destination.persists(message):
            additions = self.unit.add(destination.name, message)
            entry.additions = additions
            entry.sequence = additions.count - 1
            self.stored_bytes += message.size
        self.messages.append(entry)
        self._destinations[destination] = self._destinations.get(destination, 0) + 1

    def is_current(self) -> bool:
        """Return True unless a destination was removed."""
        for destination in self._destinations:
            if destination.removed:
                return False
        return True

    def withhold(self, reply: PendingReply) -> None:
        """Let no other message overtake those of ``reply``."""
        for destination, count in self._destinations.items():
            destination.withheld += count
        reply.destinations = list(self._destinations)
