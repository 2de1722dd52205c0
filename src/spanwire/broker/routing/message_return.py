"""Return of a consumer's messages to their queues, a slice at a time.

A queue is paused meanwhile if more messages return than one slice takes, so that later messages do not overtake.
"""

from __future__ import annotations

from typing import Final

from spanwire.broker.dispatch.broker_context import BrokerContext
from spanwire.broker.dispatch.jobs import Job
from spanwire.broker.dispatch.message_reference import MessageHolder, MessageReference
from spanwire.broker.queue.queue import Queue

LEAVING_STEPS: Final = 500  # messages, destinations or advisories of one slice


class Returning:
    """Returns references to their destinations.

    The application may have seen the first ``seen`` references. Each counts as a delivery, unless the consumer
    announced deliveries (``reported``), or the message of a bridge is flagged as redelivered already.
    """

    def __init__(self, references: list[MessageReference], seen: int, reported: bool, bridge: bool) -> None:
        self._references: Final[list[MessageReference]] = references
        self._seen: Final[int] = seen
        self._reported: Final[bool] = reported
        self._bridge: Final[bool] = bridge
        self._noted = 0
        self._destinations: list[MessageHolder] = []
        self._by_destination: Final[dict[MessageHolder, list[MessageReference]]] = {}
        self._next = 0  # index in the references of the current destination
        self._grouped = False
        self._held: Final[list[Queue]] = []
        self.returned: Final[list[MessageHolder]] = []  # destinations that have all their references back

    @property
    def is_over(self) -> bool:
        """True once all references are back."""
        return self._grouped and self._noted == self._seen and not self._destinations

    def go_on(self, at_most: int) -> int:
        """Return about ``at_most`` references, or all if there are no more, and give the number of steps."""
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
        while steps < at_most and self._destinations:
            destination = self._destinations[-1]
            own = self._by_destination[destination]
            part = own[self._next : self._next + at_most - steps]
            destination.take_back(part)
            steps += 1 + len(part)
            self._next += len(part)
            if self._next >= len(own):
                self._next = 0
                self.returned.append(self._destinations.pop())
        return steps

    def _group(self, hold: bool) -> None:
        self._grouped = True
        for reference in self._references:
            own = self._by_destination.get(reference.destination)
            if own is None:
                self._by_destination[reference.destination] = [reference]
            else:
                own.append(reference)
        self._destinations = list(reversed(self._by_destination))
        for destination, own in self._by_destination.items():
            if hold and isinstance(destination, Queue):
                destination.hold_back()
                self._held.append(destination)
                own.sort(key=_order_of)

    def _note(self, reference: MessageReference) -> None:
        destination = reference.destination
        if self._bridge and reference.redelivery_count > 0:
            return  # a link that breaks often must not poison a flagged message
        if self._reported:
            destination.note_departure(reference)
        else:
            destination.note_redelivery(reference)

    def let_go(self) -> None:
        """End the pause of the queues and dispatch: all references are back."""
        for destination in self._held:
            destination.let_go()
        self._held.clear()
        for returned in self.returned:
            returned.fill()


class ReturningJob(Job):
    """Returns the references of a rolled-back transaction whose consumers are removed.

    The application had seen all references.
    """

    def __init__(self, references: list[MessageReference], context: BrokerContext) -> None:
        self._returning: Final[Returning] = Returning(references, len(references), False, False)
        self._context: Final[BrokerContext] = context

    def start(self) -> None:
        """Do the first slice now."""
        if self.work():
            self._context.schedule(self)

    def work(self) -> bool:
        """Do one slice and return True while there is more to do."""
        self._returning.go_on(LEAVING_STEPS)
        if not self._returning.is_over:
            return True
        self._returning.let_go()
        return False


def _order_of(reference: MessageReference) -> int:
    return reference.order
