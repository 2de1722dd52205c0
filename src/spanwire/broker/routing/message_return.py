"""What a consumer had goes back to the queues it came from, a slice at a time.

A queue to which more goes back than one slice takes is held meanwhile, so that nobody gets what stood behind it first.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.memory_usage import MemoryUsage
from spanwire.broker.dispatch.message_reference import BrokerDestination, MessageReference
from spanwire.broker.policy.policy_entry import PolicyEntry
from spanwire.broker.queue.queue import Queue

LEAVING_STEPS: Final = 500  # messages, destinations or advisories of one slice


class Returning:
    """Gives references back. Of ``seen`` ones, the first, the application may have had: that was a delivery, unless
    their consumer ``told`` of it, or they are flagged already and are a bridge's.
    """

    def __init__(self, references: list[MessageReference], seen: int, told: bool, bridge: bool) -> None:
        self._references: Final[list[MessageReference]] = references
        self._seen: Final[int] = seen
        self._told: Final[bool] = told
        self._bridge: Final[bool] = bridge
        self._noted = 0
        self._homes: list[BrokerDestination] = []
        self._by_home: Final[dict[BrokerDestination, list[MessageReference]]] = {}
        self._next = 0  # of those of the home that has its turn
        self._grouped = False
        self._held: Final[list[Queue]] = []
        self.returned: Final[list[BrokerDestination]] = []  # all that is of these

    @property
    def is_over(self) -> bool:
        """Whether all is back."""
        return self._grouped and self._noted == self._seen and not self._homes

    def go_on(self, at_most: int) -> int:
        """Give back about ``at_most``, or all if they are no more than that; how many steps it took."""
        if not self._grouped:
            whole = len(self._references) <= at_most
            self._group(not whole)
            if whole:
                at_most = 3 * at_most + 1
        steps = 0
        while steps < at_most and self._noted < self._seen:
            self._note(self._references[self._noted])
            self._noted += 1
            steps += 1
        while steps < at_most and self._homes:
            home = self._homes[-1]
            own = self._by_home[home]
            part = own[self._next : self._next + at_most - steps]
            home.given_back(part)
            steps += 1 + len(part)
            self._next += len(part)
            if self._next >= len(own):
                self._next = 0
                self.returned.append(self._homes.pop())
        return steps

    def _group(self, hold: bool) -> None:
        self._grouped = True
        for reference in self._references:
            own = self._by_home.get(reference.home)
            if own is None:
                self._by_home[reference.home] = [reference]
            else:
                own.append(reference)
        self._homes = list(reversed(self._by_home))
        for home, own in self._by_home.items():
            if hold and isinstance(home, Queue):
                home.hold_back()
                self._held.append(home)
                own.sort(key=_order_of)

    def _note(self, reference: MessageReference) -> None:
        home = reference.home
        if not isinstance(home, Queue) or (self._bridge and reference.redelivery_count > 0):
            return  # a link that breaks often makes no poisoned message of what is flagged
        if self._told:
            home.note_left(reference)
        else:
            home.note_redelivery(reference)

    def let_go(self) -> None:
        """All is back: whoever waits for it gets it."""
        for home in self._held:
            home.let_go()
        self._held.clear()
        for returned in self.returned:
            returned.fill()


class ReturningJob(BrokerDestination):
    """Gives back what a transaction that was rolled back had of consumers that are gone; they had seen it."""

    def __init__(self, references: list[MessageReference], context: BrokerContext) -> None:
        destination = references[0].home.destination
        super().__init__(destination, PolicyEntry(destination), MemoryUsage(0))
        self._returning: Final[Returning] = Returning(references, len(references), False, False)
        self._context: Final[BrokerContext] = context

    def start(self) -> None:
        """Do the first slice now."""
        if self.work():
            self._context.schedule(self)

    def work(self) -> bool:
        """One slice; True while there is more."""
        self._returning.go_on(LEAVING_STEPS)
        if not self._returning.is_over:
            return True
        self._returning.let_go()
        return False


def _order_of(reference: MessageReference) -> int:
    return reference.order
