"""Rollback of transactions in slices: acknowledged messages return to consumers, sends are forgotten."""

from __future__ import annotations

from typing import Final

from spanwire.broker.connections.connection_job import SlicedWork
from spanwire.broker.connections.transaction import Transaction
from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.broker.dispatch.subscription import Subscription
from spanwire.broker.routing.message_return import ReturningJob

FORGOTTEN: Final = 500  # sends or acknowledgements forgotten at a time


class Returned:
    """Messages that return to one consumer, with the numbers of their dispatches."""

    __slots__ = ("numbers", "references")

    def __init__(self) -> None:
        self.references: Final[list[MessageReference]] = []
        self.numbers: Final[list[int]] = []


class UndoWork(SlicedWork):
    """Returns acknowledged references to their consumers, in the old order.

    The references of removed consumers return to their queues, as delivered once more.
    """

    def __init__(self, transactions: list[Transaction], context: BrokerContext) -> None:
        super().__init__()
        self._transactions: Final[list[Transaction]] = transactions
        self._context: Final[BrokerContext] = context
        self._next = 0  # index of the current transaction, from the end
        self._ack = 0  # number of examined acknowledgements, from the end
        self._returned: Final[dict[Subscription, Returned]] = {}
        self._left: list[MessageReference] = []

    def go_on(self, at_most: int) -> bool:
        """Do at most ``at_most`` steps; see `SlicedWork.go_on`."""
        end = self.steps + at_most
        if not self._sort(end):
            return False
        while self._returned:
            if self.steps >= end:
                return False
            subscription = next(iter(self._returned))
            self._put_back(subscription, self._returned.pop(subscription))
        if self._left:
            ReturningJob(self._left, self._context).start()
            self._left = []
        return self._forget(end)

    def _sort(self, end: int) -> bool:
        """Sort the acknowledgements by consumer, newest first. Return True at the end."""
        while self._next < len(self._transactions):
            acks = self._transactions[-1 - self._next].acks
            while self._ack < len(acks):
                if self.steps >= end:
                    return False
                self.steps += 1
                self._ack += 1
                ack = acks[-self._ack]
                subscription = ack.subscription
                if subscription is None or subscription.removed:
                    self._left.extend(ack.references)
                    continue
                own = self._returned.get(subscription)
                if own is None:
                    own = Returned()
                    self._returned[subscription] = own
                own.references.extend(ack.references)
                own.numbers.extend(ack.numbers())
            self._next += 1
            self._ack = 0
        return True

    def _put_back(self, subscription: Subscription, own: Returned) -> None:
        """Return all references of a consumer in one pass."""
        self.steps += len(own.references)
        if subscription.removed:  # removed meanwhile
            self._left.extend(own.references)
        elif subscription.leaving:
            subscription.in_flight.take_back(own.references)
        else:
            subscription.in_flight.put_back(own.references, own.numbers)
            subscription.in_flight.transaction_ended(len(own.references))

    def _forget(self, end: int) -> bool:
        """Forget the sends and free their memory slice by slice. Return True at the end."""
        while self._transactions:
            transaction = self._transactions[-1]
            if self.steps >= end:
                return False
            part = min(FORGOTTEN, end - self.steps)
            self.steps += part
            if transaction.forget(part):
                continue
            transaction.end_count()
            self._transactions.pop()
        return True
