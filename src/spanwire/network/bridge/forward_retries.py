"""Messages that the remote broker has refused: when each is sent there again, and when no more.

A refusal is no end of the link: other messages go on. The window here closes when all that is out was refused.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from spanwire.broker.dispatch.message_reference import MessageReference
from spanwire.network.demand.demand import InFlightMessage

FIRST_PAUSE: Final = 1.0  # seconds, and each one is twice as long, as between the attempts of a link
MAX_TRIES: Final = 6  # of one message over one link: 31 seconds, in which an operator or a restart may mend it
NO_ROOM: Final = "javax.jms.ResourceAllocationException"  # nothing is wrong with such a message: it is tried for ever


class RefusedMessage:
    """A message that waits to be sent again at ``due``, in monotonic seconds; sent ``tries`` times."""

    __slots__ = ("due", "entry", "reference", "tries")

    def __init__(self, entry: InFlightMessage, reference: MessageReference) -> None:
        self.entry: Final[InFlightMessage] = entry
        self.reference: Final[MessageReference] = reference
        self.tries = 0
        self.due = 0.0


class ForwardRetries:
    """Those of one link, never more than are out on it. Sending and giving up is left to the caller."""

    def __init__(self) -> None:
        self.messages: Final[dict[InFlightMessage, RefusedMessage]] = {}
        self._queues: Final[list[deque[RefusedMessage]]] = [deque() for _ in range(MAX_TRIES - 1)]

    @property
    def scheduled_count(self) -> int:
        """How many are not sent now."""
        return sum([len(queue) for queue in self._queues])

    def schedule(self, message: RefusedMessage, cause: str | None, now: float) -> bool:
        """It was refused, by an exception of the class ``cause``. False when it was often enough."""
        message.tries += 1
        if message.tries >= MAX_TRIES:
            if cause != NO_ROOM:
                return False
            message.tries = MAX_TRIES - 1
        self.messages[message.entry] = message
        message.due = now + pause_after(message.tries)
        self._queues[message.tries - 1].append(message)
        return True

    def forget(self, entry: InFlightMessage) -> bool:
        """It is not to be sent again; False when it was never refused."""
        return self.messages.pop(entry, None) is not None

    def next_timeout(self) -> float | None:
        """When the next is due; None when there is none."""
        return min([queue[0].due for queue in self._queues if queue], default=None)

    def take_due(self, now: float) -> list[RefusedMessage]:
        """Those that are to be sent now."""
        due: list[RefusedMessage] = []
        for queue in self._queues:
            while queue and queue[0].due <= now:
                due.append(queue.popleft())
        return due

    def clear(self) -> None:
        """The link is over."""
        self.messages.clear()
        for queue in self._queues:
            queue.clear()


def pause_after(tries: int) -> float:
    """Seconds until a message is sent again that was sent that often."""
    pause = FIRST_PAUSE
    for _ in range(tries - 1):
        pause *= 2
    return pause
